/* Which lengths of a prompt a hold gives, over an index that is filled by hand: no context is needed to ask. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reuse/hold.h"

enum { N = 40 };

static const skippy_key ns = {{1}}, other_ns = {{2}};
static int32_t prompt[N]; /* 1 ... N */
static sk_hold hold;
static uint64_t last_id;

static int open_index(void **state) {
    (void)state;
    hold = (sk_hold){.disk_ready = true, .reuse = {.enabled = true, .align = 1}};
    last_id = 0;
    for (int i = 0; i < N; i++) prompt[i] = i + 1;
    return skippy_index_create(NULL, &hold.reuse.index);
}

static int close_index(void **state) {
    (void)state;
    skippy_index_destroy(hold.reuse.index);
    return 0;
}

/* A state of n tokens, of which the first `common` are the prompt's. Returns its native id. */
static uint64_t put_state(uint8_t tier, uint8_t reach, size_t n, size_t common) {
    int32_t path[2 * N];
    assert_true(n <= 2 * N && common <= n && common <= N);
    memcpy(path, prompt, common * sizeof *path);
    for (size_t i = common; i < n; i++) path[i] = 1000 + (int32_t)i;
    static const enum sk_index_tag tag[] = {SK_TAG_ENTRY, SK_TAG_RAM, SK_TAG_DISK};
    const skippy_residency r = {
        .id = sk_index_id(++last_id, tag[tier]), .kind = SKIPPY_KIND_STATE, .tier = tier, .reach = reach};
    assert_int_equal(skippy_index_insert(hold.reuse.index, &ns, path, n, &r), SKIPPY_OK);
    return last_id;
}

static uint64_t put_row(uint8_t tier, size_t n) {
    static const enum sk_index_tag tag[] = {SK_TAG_ROW, SK_TAG_RAM_TERMINAL, SK_TAG_DISK_TERMINAL};
    const skippy_residency r = {.id = sk_index_id(++last_id, tag[tier]), .kind = SKIPPY_KIND_TERMINAL, .tier = tier};
    assert_int_equal(skippy_index_insert(hold.reuse.index, &ns, prompt, n, &r), SKIPPY_OK);
    return last_id;
}

static sk_restorable ask(size_t n) {
    sk_restorable r = {0};
    sk_hold_restorable(&hold, &ns, prompt, n, &r);
    return r;
}

static void assert_exact(const sk_restorable *r, size_t n, const uint32_t *want) {
    assert_int_equal(r->n_exact, n);
    for (size_t i = 0; i < n; i++) assert_int_equal(r->exact[i], want[i]);
}
#define ASSERT_EXACT(r, ...)                                                                                           \
    assert_exact((r), sizeof(uint32_t[]){__VA_ARGS__} / sizeof(uint32_t), (const uint32_t[]){__VA_ARGS__})

/* ---- sets of lengths ---- */

static void lengths_come_descending_without_doubles(void **state) {
    (void)state;
    sk_restorable r = {0};
    const size_t lengths[] = {7, 30, 12, 30, 7, 99};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) sk_restorable_add(&r, lengths[i], false);
    ASSERT_EXACT(&r, 99, 30, 12, 7);
    assert_true(sk_restorable_has(&r, 12) && sk_restorable_has(&r, 99) && sk_restorable_has(&r, 0));
    assert_false(sk_restorable_has(&r, 13) || sk_restorable_has(&r, 6) || sk_restorable_has(&r, 100));
}

static void a_length_that_reaches_down_covers_the_shorter_ones(void **state) {
    (void)state;
    sk_restorable r = {0};
    const size_t exact[] = {5, 10, 20};
    for (size_t i = 0; i < 3; i++) sk_restorable_add(&r, exact[i], false);
    sk_restorable_add(&r, 10, true);
    assert_int_equal(r.range_max, 10);
    ASSERT_EXACT(&r, 20);
    sk_restorable_add(&r, 8, true); /* a shorter one adds nothing */
    sk_restorable_add(&r, 9, false);
    assert_int_equal(r.range_max, 10);
    assert_int_equal(r.n_exact, 1);
    assert_true(sk_restorable_has(&r, 1) && sk_restorable_has(&r, 10) && sk_restorable_has(&r, 20));
    assert_false(sk_restorable_has(&r, 11) || sk_restorable_has(&r, 19));
}

static void of_too_many_lengths_the_longest_count(void **state) {
    (void)state;
    sk_restorable up = {0}, down = {0};
    for (size_t i = 1; i <= SK_MAX_LENGTHS + 10; i++) sk_restorable_add(&up, i, false);
    for (size_t i = SK_MAX_LENGTHS + 10; i >= 1; i--) sk_restorable_add(&down, i, false);
    const sk_restorable *const sets[] = {&up, &down};
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(sets[k]->n_exact, SK_MAX_LENGTHS);
        for (size_t i = 0; i < SK_MAX_LENGTHS; i++) assert_int_equal(sets[k]->exact[i], SK_MAX_LENGTHS + 10 - i);
    }
}

static void nothing_is_no_length(void **state) {
    (void)state;
    sk_restorable r = {0};
    sk_restorable_add(&r, 0, false);
    sk_restorable_add(&r, 0, true);
    assert_int_equal(r.n_exact, 0);
    assert_int_equal(r.range_max, 0);
}

/* ---- what is stored ---- */

static void an_empty_hold_gives_nothing(void **state) {
    (void)state;
    sk_restorable r = ask(N);
    assert_true(r.range_max == 0 && r.n_exact == 0 && !r.terminal);
    sk_reuse_hit hit;
    sk_hold_find_at(&hold, &ns, prompt, N, &hit);
    assert_int_equal(hit.tier[SKIPPY_TIER_RESIDENT].length, 0);
}

static void attention_state_gives_all_that_is_common(void **state) {
    (void)state;
    put_state(SKIPPY_TIER_RESIDENT, SKIPPY_REACH_RANGE, 30, 30);
    assert_int_equal(ask(N).range_max, 30);
    assert_int_equal(ask(20).range_max, 20);                /* a longer state than the prompt */
    put_state(SKIPPY_TIER_RAM, SKIPPY_REACH_RANGE, 60, 35); /* parts from the prompt */
    assert_int_equal(ask(N).range_max, 35);
    assert_int_equal(ask(N).n_exact, 0);
}

static void a_recorded_boundary_gives_its_own_length_only(void **state) {
    (void)state;
    hold.reuse.exact = true;
    put_state(SKIPPY_TIER_RESIDENT, SKIPPY_REACH_EXACT, 10, 10);
    put_state(SKIPPY_TIER_RAM, SKIPPY_REACH_EXACT, 25, 25);
    put_state(SKIPPY_TIER_DISK, SKIPPY_REACH_EXACT, 25, 25);
    put_state(SKIPPY_TIER_DISK, SKIPPY_REACH_EXACT, 31, 30); /* another last token */
    put_state(SKIPPY_TIER_RESIDENT, SKIPPY_REACH_EXACT, N, N);
    sk_restorable r = ask(N);
    assert_int_equal(r.range_max, 0);
    ASSERT_EXACT(&r, N, 25, 10);
    r = ask(24); /* a boundary beyond the prompt does not count */
    ASSERT_EXACT(&r, 10);
}

static void an_exact_state_does_not_hide_attention_state(void **state) {
    (void)state;
    put_state(SKIPPY_TIER_DISK, SKIPPY_REACH_RANGE, 20, 20);
    put_state(SKIPPY_TIER_DISK, SKIPPY_REACH_EXACT, 15, 15);
    put_state(SKIPPY_TIER_DISK, SKIPPY_REACH_EXACT, 28, 28);
    put_state(SKIPPY_TIER_DISK, SKIPPY_REACH_EXACT, 33, 33);
    sk_restorable r = ask(N);
    assert_int_equal(r.range_max, 20);
    ASSERT_EXACT(&r, 33, 28);
}

static void what_ends_at_one_place_counts_once(void **state) {
    (void)state;
    put_state(SKIPPY_TIER_RAM, SKIPPY_REACH_RANGE, 20, 20);
    put_state(SKIPPY_TIER_RAM, SKIPPY_REACH_EXACT, 20, 20);
    sk_restorable r = ask(N);
    for (size_t n = 1; n <= 20; n++) assert_true(sk_restorable_has(&r, n));
    assert_false(sk_restorable_has(&r, 21));
}

static void disk_counts_when_its_store_is_open(void **state) {
    (void)state;
    put_state(SKIPPY_TIER_DISK, SKIPPY_REACH_RANGE, 30, 30);
    put_state(SKIPPY_TIER_DISK, SKIPPY_REACH_EXACT, 35, 35);
    put_row(SKIPPY_TIER_DISK, N);
    hold.disk_ready = false;
    sk_restorable r = ask(N);
    assert_true(r.range_max == 0 && r.n_exact == 0 && !r.terminal);
    sk_reuse_hit hit;
    sk_hold_find_at(&hold, &ns, prompt, 35, &hit);
    assert_int_equal(hit.tier[SKIPPY_TIER_DISK].length, 0);
    hold.disk_ready = true;
    r = ask(N);
    assert_true(r.range_max == 30 && r.exact[0] == 35 && r.terminal);
}

static void another_namespace_is_another_world(void **state) {
    (void)state;
    put_state(SKIPPY_TIER_RESIDENT, SKIPPY_REACH_RANGE, 30, 30);
    put_row(SKIPPY_TIER_RESIDENT, N);
    sk_restorable r = {0};
    sk_hold_restorable(&hold, &other_ns, prompt, N, &r);
    assert_true(r.range_max == 0 && r.n_exact == 0 && !r.terminal);
}

static void a_hold_that_is_off_gives_nothing(void **state) {
    (void)state;
    put_state(SKIPPY_TIER_RESIDENT, SKIPPY_REACH_RANGE, 30, 30);
    hold.reuse.enabled = false;
    assert_int_equal(ask(N).range_max, 0);
    sk_reuse_hit hit;
    sk_hold_find_at(&hold, &ns, prompt, 30, &hit);
    assert_int_equal(hit.tier[SKIPPY_TIER_RESIDENT].length, 0);
}

static void logits_are_of_exactly_this_prompt(void **state) {
    (void)state;
    for (int tier = SKIPPY_TIER_RESIDENT; tier <= SKIPPY_TIER_DISK; tier++) {
        size_t n = 10 + (size_t)tier;
        put_row((uint8_t)tier, n);
        assert_true(ask(n).terminal);
        assert_false(ask(n - 1).terminal && tier == SKIPPY_TIER_RESIDENT);
        assert_false(ask(n + 1).terminal);
    }
}

static void the_whole_prompt_counts_without_its_logits(void **state) {
    (void)state;
    hold.reuse.exact = true;
    put_state(SKIPPY_TIER_RAM, SKIPPY_REACH_EXACT, N, N);
    sk_restorable r = ask(N);
    assert_true(sk_restorable_has(&r, N) && !r.terminal);
    sk_reuse_hit hit;
    sk_hold_find_at(&hold, &ns, prompt, N, &hit);
    assert_int_equal(hit.tier[SKIPPY_TIER_RAM].length, N);
    sk_reuse_find(&hold.reuse, &ns, prompt, N, &hit); /* a whole model computes its last token */
    assert_int_equal(hit.tier[SKIPPY_TIER_RAM].length, 0);
}

static void where_prompts_are_cut_at_multiples_only_those_count(void **state) {
    (void)state;
    hold.reuse.exact = true;
    hold.reuse.align = 8;
    put_state(SKIPPY_TIER_RESIDENT, SKIPPY_REACH_EXACT, 8, 8);
    put_state(SKIPPY_TIER_RAM, SKIPPY_REACH_EXACT, 13, 13);
    put_state(SKIPPY_TIER_RESIDENT, SKIPPY_REACH_EXACT, 24, 24);
    sk_restorable r = ask(30);
    ASSERT_EXACT(&r, 24, 8);
    r = ask(13); /* all of a prompt */
    ASSERT_EXACT(&r, 13, 8);
}

static void what_the_caller_knows_is_kept(void **state) {
    (void)state;
    put_state(SKIPPY_TIER_RESIDENT, SKIPPY_REACH_EXACT, 10, 10);
    put_state(SKIPPY_TIER_RESIDENT, SKIPPY_REACH_EXACT, 20, 20);
    sk_restorable r = {0};
    sk_restorable_add(&r, 12, true);
    sk_restorable_add(&r, 33, false);
    sk_hold_restorable(&hold, &ns, prompt, N, &r);
    assert_int_equal(r.range_max, 12);
    ASSERT_EXACT(&r, 33, 20);
}

static void one_length_is_found_with_its_ids(void **state) {
    (void)state;
    uint64_t ram = put_state(SKIPPY_TIER_RAM, SKIPPY_REACH_RANGE, 30, 30);
    uint64_t exact = put_state(SKIPPY_TIER_RESIDENT, SKIPPY_REACH_EXACT, 20, 20);
    uint64_t row = put_row(SKIPPY_TIER_DISK, 20);
    sk_reuse_hit hit;
    sk_hold_find_at(&hold, &ns, prompt, 20, &hit);
    assert_int_equal(hit.common, 20);
    assert_int_equal(hit.tier[SKIPPY_TIER_RAM].length, 20); /* cut out of the longer one */
    assert_int_equal(hit.tier[SKIPPY_TIER_RAM].id, ram);
    assert_int_equal(hit.tier[SKIPPY_TIER_RESIDENT].length, 20);
    assert_int_equal(hit.tier[SKIPPY_TIER_RESIDENT].id, exact);
    assert_int_equal(hit.tier[SKIPPY_TIER_RESIDENT].terminal, 0);
    assert_int_equal(hit.tier[SKIPPY_TIER_DISK].length, 0);
    assert_int_equal(hit.tier[SKIPPY_TIER_DISK].terminal, row);
    sk_hold_find_at(&hold, &ns, prompt, 21, &hit);
    assert_int_equal(hit.tier[SKIPPY_TIER_RESIDENT].length, 0); /* a shorter one is not 21 */
    assert_int_equal(hit.tier[SKIPPY_TIER_RESIDENT].id, 0);
    sk_hold_find_at(&hold, &ns, prompt, 31, &hit);
    assert_int_equal(hit.tier[SKIPPY_TIER_RAM].length, 0);
    assert_int_equal(hit.common, 30);
}

/* The slow way: what the words of the header say, over all states one by one. */
enum { STATES = 12 };
typedef struct known {
    uint8_t tier, reach;
    size_t n, common;
} known;

static bool gives(const known *k, size_t n_prompt, size_t length) {
    if (k->tier == SKIPPY_TIER_DISK && !hold.disk_ready) return false;
    if (k->reach == SKIPPY_REACH_RANGE) return length <= k->common && length <= n_prompt;
    return k->n == k->common && k->n <= n_prompt && length == k->n;
}

static uint32_t next(uint32_t *seed, uint32_t below) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

static void random_stores_give_what_each_state_gives(void **state) {
    const char *s = getenv("SKIPPY_TEST_SEED");
    uint32_t seed = s ? (uint32_t)strtoul(s, NULL, 10) : 20262;
    print_message("seed %u\n", seed);
    for (int round = 0; round < 300; round++) {
        known all[STATES];
        hold.disk_ready = next(&seed, 2);
        for (size_t i = 0; i < STATES; i++) {
            known *k = &all[i];
            *k = (known){.tier = (uint8_t)next(&seed, 3), .reach = (uint8_t)next(&seed, 2)};
            k->common = 1 + next(&seed, N);
            k->n = k->common + (next(&seed, 2) ? 0 : 1 + next(&seed, N - 1));
            put_state(k->tier, k->reach, k->n, k->common);
        }
        size_t n = 1 + next(&seed, N);
        sk_restorable r = ask(n);
        for (size_t length = 1; length <= N; length++) {
            bool want = false, at = false;
            for (size_t i = 0; i < STATES; i++) want = want || gives(&all[i], n, length);
            if (sk_restorable_has(&r, length) != want)
                fail_msg("round %d: %zu of %zu tokens: %d instead of %d", round, length, n, !want, want);
            sk_reuse_hit hit;
            sk_hold_find_at(&hold, &ns, prompt, length, &hit);
            for (int tier = 0; tier < SKIPPY_TIER_COUNT; tier++) at = at || hit.tier[tier].length == length;
            if (length <= n) assert_true(at == want);
        }
        close_index(state);
        open_index(state);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_index, close_index)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_come_descending_without_doubles),
        cmocka_unit_test(a_length_that_reaches_down_covers_the_shorter_ones),
        cmocka_unit_test(of_too_many_lengths_the_longest_count),
        cmocka_unit_test(nothing_is_no_length),
        TEST(an_empty_hold_gives_nothing),
        TEST(attention_state_gives_all_that_is_common),
        TEST(a_recorded_boundary_gives_its_own_length_only),
        TEST(an_exact_state_does_not_hide_attention_state),
        TEST(what_ends_at_one_place_counts_once),
        TEST(disk_counts_when_its_store_is_open),
        TEST(another_namespace_is_another_world),
        TEST(a_hold_that_is_off_gives_nothing),
        TEST(logits_are_of_exactly_this_prompt),
        TEST(the_whole_prompt_counts_without_its_logits),
        TEST(where_prompts_are_cut_at_multiples_only_those_count),
        TEST(what_the_caller_knows_is_kept),
        TEST(one_length_is_found_with_its_ids),
        TEST(random_stores_give_what_each_state_gives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
