#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "skippy/policy.h"

typedef int (*policy_fn)(const skippy_policy *, size_t, size_t *, size_t, size_t *);

static void assert_lengths(policy_fn fn, skippy_policy p, size_t n, const size_t *want, size_t n_want) {
    size_t got[64], n_got = 99;
    assert_int_equal(fn(&p, n, got, 64, &n_got), SKIPPY_OK);
    assert_int_equal(n_got, n_want);
    for (size_t i = 0; i < n_want; i++) assert_int_equal(got[i], want[i]);
}

#define LOOKUP(p, n, ...)                                                                                              \
    assert_lengths(skippy_policy_lookup, p, n, (const size_t[]){__VA_ARGS__},                                          \
                   sizeof((const size_t[]){__VA_ARGS__}) / sizeof(size_t))
#define RECORD(p, n, ...)                                                                                              \
    assert_lengths(skippy_policy_record, p, n, (const size_t[]){__VA_ARGS__},                                          \
                   sizeof((const size_t[]){__VA_ARGS__}) / sizeof(size_t))

static skippy_policy policy(size_t min, size_t stride, size_t limit, size_t tokens) {
    return (skippy_policy){min, stride, limit, tokens};
}

static void lookup_goes_from_the_exact_length_down_the_grid(void **state) {
    (void)state;
    LOOKUP(policy(64, 32, 0, 0), 160, 160, 128, 96, 64);
    LOOKUP(policy(64, 32, 0, 0), 161, 161, 160, 128, 96, 64);
    LOOKUP(policy(64, 48, 0, 0), 150, 150, 144, 96, 64); /* the last step ends at min_tokens */
    LOOKUP(policy(256, 128, 0, 0), 600, 600, 512, 384, 256);
}

static void short_prompts_and_min_0_are_looked_up_whole(void **state) {
    (void)state;
    LOOKUP(policy(64, 32, 0, 0), 63, 63);
    LOOKUP(policy(64, 32, 0, 0), 64, 64);
    LOOKUP(policy(64, 32, 0, 0), 65, 65, 64);
    LOOKUP(policy(0, 32, 0, 0), 1000, 1000);
    assert_lengths(skippy_policy_lookup, policy(64, 32, 0, 0), 0, NULL, 0);
}

static void the_stride_is_at_most_min_tokens_and_at_least_1(void **state) {
    (void)state;
    LOOKUP(policy(64, 128, 0, 0), 200, 200, 192, 128, 64);
    LOOKUP(policy(2, 0, 0, 0), 5, 5, 4, 3, 2);
}

static void record_limits_of_two_keep_the_exact_length_and_the_near_tail(void **state) {
    (void)state;
    RECORD(policy(64, 32, 2, 0), 160, 160, 128);
    RECORD(policy(256, 128, 2, 0), 2214, 2214, 2176);
    RECORD(policy(64, 32, 1, 0), 160, 160);
}

static void a_record_limit_that_is_not_reached_keeps_all_candidates(void **state) {
    (void)state;
    RECORD(policy(64, 32, 0, 0), 160, 160, 128, 96, 64);
    RECORD(policy(64, 32, 4, 0), 160, 160, 128, 96, 64);
    RECORD(policy(64, 32, 9, 0), 63, 63);
    assert_lengths(skippy_policy_record, policy(64, 32, 2, 0), 0, NULL, 0);
}

/* 256 * (4096/256)^(i/4) for i = 1..3 is 512, 1024, 2048: all on the grid. */
static void further_rungs_are_geometric(void **state) {
    (void)state;
    RECORD(policy(256, 128, 5, 0), 4096, 4096, 3968, 2048, 1024, 512);
    /* sqrt(64 * 1000) = 253: nearest grid length 256 */
    RECORD(policy(64, 32, 3, 0), 1000, 1000, 992, 256);
}

static void rungs_that_snap_to_one_length_move_apart(void **state) {
    (void)state;
    /* Candidates 160 128 96 64: the only free ones below the near tail are 96 and 64. */
    RECORD(policy(64, 32, 3, 0), 160, 160, 128, 96);
    /* Candidates 224 192 160 128 96 64, two slots at 97 and 148. */
    RECORD(policy(64, 32, 4, 0), 224, 224, 192, 160, 96);
    /* One candidate more than the limit: every slot still gets a length of its own. */
    RECORD(policy(64, 32, 5, 0), 224, 224, 192, 160, 128, 96);
}

static void geometric_rungs_respect_the_token_cap(void **state) {
    (void)state;
    RECORD(policy(256, 128, 5, 512), 4096, 4096, 3968, 512);
    RECORD(policy(256, 128, 5, 1536), 4096, 4096, 3968, 1024, 512);
    RECORD(policy(256, 128, 5, 511), 4096, 4096, 3968);
}

static void a_small_buffer_reports_how_many_there_are(void **state) {
    (void)state;
    skippy_policy p = policy(64, 32, 0, 0);
    size_t out[2] = {0, 0}, n = 0;
    assert_int_equal(skippy_policy_lookup(&p, 160, out, 1, &n), SKIPPY_E_TOO_SMALL);
    assert_int_equal(n, 4);
    assert_int_equal(out[0], 160);
    assert_int_equal(out[1], 0);
    assert_int_equal(skippy_policy_lookup(&p, 160, NULL, 0, &n), SKIPPY_E_TOO_SMALL);
    assert_int_equal(n, 4);
    p = policy(256, 128, 5, 0);
    assert_int_equal(skippy_policy_record(&p, 4096, out, 2, &n), SKIPPY_E_TOO_SMALL);
    assert_int_equal(n, 5);
    assert_int_equal(out[1], 3968);
}

static void invalid_arguments_are_refused(void **state) {
    (void)state;
    skippy_policy p = policy(64, 32, 0, 0);
    size_t out[4], n;
    assert_int_equal(skippy_policy_lookup(NULL, 160, out, 4, &n), SKIPPY_E_INVALID);
    assert_int_equal(skippy_policy_lookup(&p, 160, NULL, 4, &n), SKIPPY_E_INVALID);
    assert_int_equal(skippy_policy_lookup(&p, 160, out, 4, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_policy_record(NULL, 160, out, 4, &n), SKIPPY_E_INVALID);
}

/* For all small policies: descending, distinct, within range, starting with n, and every recorded length is looked up.
 */
static void every_recorded_length_is_looked_up(void **state) {
    (void)state;
    for (size_t min = 0; min <= 12; min++) {
        for (size_t stride = 0; stride <= 14; stride++) {
            for (size_t limit = 0; limit <= 7; limit++) {
                for (size_t n = 1; n <= 60; n++) {
                    skippy_policy p = policy(min, stride, limit, 0);
                    size_t look[64], rec[64], n_look, n_rec;
                    assert_int_equal(skippy_policy_lookup(&p, n, look, 64, &n_look), SKIPPY_OK);
                    assert_int_equal(skippy_policy_record(&p, n, rec, 64, &n_rec), SKIPPY_OK);
                    assert_int_equal(look[0], n);
                    for (size_t i = 1; i < n_look; i++) assert_true(look[i] < look[i - 1] && look[i] >= min);
                    assert_int_equal(n_rec, limit && limit < n_look ? limit : n_look);
                    for (size_t i = 0, j = 0; i < n_rec; i++, j++) {
                        while (j < n_look && look[j] != rec[i]) j++;
                        assert_true(j < n_look);
                    }
                }
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookup_goes_from_the_exact_length_down_the_grid),
        cmocka_unit_test(short_prompts_and_min_0_are_looked_up_whole),
        cmocka_unit_test(the_stride_is_at_most_min_tokens_and_at_least_1),
        cmocka_unit_test(record_limits_of_two_keep_the_exact_length_and_the_near_tail),
        cmocka_unit_test(a_record_limit_that_is_not_reached_keeps_all_candidates),
        cmocka_unit_test(further_rungs_are_geometric),
        cmocka_unit_test(rungs_that_snap_to_one_length_move_apart),
        cmocka_unit_test(geometric_rungs_respect_the_token_cap),
        cmocka_unit_test(a_small_buffer_reports_how_many_there_are),
        cmocka_unit_test(invalid_arguments_are_refused),
        cmocka_unit_test(every_recorded_length_is_looked_up),
    };
    return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
