#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <math.h>

#include "runtime/logits.h"

static uint64_t rng_state;

static uint32_t next(void) {
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng_state >> 33);
}

/* Few different values, so that there are many ties; now and then NaN or minus infinity. */
static void fill(float *row, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        uint32_t r = next() % 100;
        row[i] = r == 0 ? NAN : r == 1 ? -INFINITY : (float)(next() % 50) / 4 - 6;
    }
}

static int32_t naive_argmax(const float *row, int32_t begin, int32_t end) {
    int32_t best = -1;
    for (int32_t i = begin; i < end; i++) {
        if (isnan(row[i]) || row[i] == -INFINITY) continue;
        if (best < 0 || row[i] > row[best]) best = i;
    }
    return best;
}

static void argmax_agrees_with_the_plain_loop(void **state) {
    (void)state;
    float row[5000];
    rng_state = 99;
    print_message("seed %llu\n", (unsigned long long)rng_state);
    for (int round = 0; round < 2000; round++) {
        int32_t n = (int32_t)(next() % 5000), begin = n ? (int32_t)(next() % (uint32_t)n) : 0;
        fill(row, n);
        if (n && round % 2) row[next() % (uint32_t)n] = 100; /* a single winner at a random place */
        assert_int_equal(sk_logits_argmax(row, begin, n), naive_argmax(row, begin, n));
    }
}

static void a_row_without_numbers_has_no_maximum(void **state) {
    (void)state;
    float row[3000];
    for (int i = 0; i < 3000; i++) row[i] = i % 2 ? NAN : -INFINITY;
    assert_int_equal(sk_logits_argmax(row, 0, 3000), -1);
    assert_int_equal(sk_logits_argmax(row, 0, 0), -1);
    assert_true(sk_logits_log_sum(row, 3000) == -INFINITY);
}

static void log_sum_is_exact_for_known_rows(void **state) {
    (void)state;
    const float equal[4] = {2, 2, 2, 2}, far[2] = {1000, 0}, hole[3] = {NAN, 0, -INFINITY};
    assert_true(fabs(sk_logits_log_sum(equal, 4) - (2 + log(4))) < 1e-12);
    assert_true(fabs(sk_logits_log_sum(far, 2) - 1000) < 1e-12); /* no overflow */
    assert_true(fabs(sk_logits_log_sum(hole, 3)) < 1e-12);
}

static void the_top_list_is_sorted_with_ties_by_token(void **state) {
    (void)state;
    const float values[] = {1, 5, NAN, 5, -INFINITY, 3, 9, 2};
    sk_token_prob top[8];
    assert_int_equal(sk_logits_top(values, 8, 0, top, 3), 3);
    assert_int_equal(top[0].token, 6);
    assert_int_equal(top[1].token, 1);
    assert_int_equal(top[2].token, 3);
    assert_int_equal(sk_logits_top(values, 8, 0, top, 8), 7); /* NaN is left out */
    assert_int_equal(top[6].token, 4);
    assert_int_equal(sk_logits_top(values, 8, 0, top, 0), 0);
}

/* Takes the maximum out of a copy again and again. */
static void the_top_list_agrees_with_repeated_argmax(void **state) {
    (void)state;
    float row[800], rest[800];
    sk_token_prob top[800];
    rng_state = 5;
    print_message("seed %llu\n", (unsigned long long)rng_state);
    for (int round = 0; round < 200; round++) {
        int32_t n = 1 + (int32_t)(next() % 800);
        size_t k = next() % 40;
        fill(row, n);
        for (int32_t i = 0; i < n; i++) rest[i] = row[i];
        size_t have = sk_logits_top(row, n, 1.5, top, k);
        for (size_t i = 0; i < have; i++) {
            int32_t want = naive_argmax(rest, 0, n);
            if (want < 0) break; /* only minus infinity is left */
            assert_int_equal(top[i].token, want);
            assert_true(fabs((double)top[i].logprob - ((double)row[want] - 1.5)) < 1e-6);
            rest[want] = NAN;
        }
        assert_true(have <= k);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(argmax_agrees_with_the_plain_loop),
        cmocka_unit_test(a_row_without_numbers_has_no_maximum),
        cmocka_unit_test(log_sum_is_exact_for_known_rows),
        cmocka_unit_test(the_top_list_is_sorted_with_ties_by_token),
        cmocka_unit_test(the_top_list_agrees_with_repeated_argmax),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
