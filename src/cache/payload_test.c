#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "skippy/payload.h"

static const int32_t tokens[] = {5, 6, 7, 8};
static const skippy_block_ref blocks[] = {{{{1}}, 100}, {{{2}}, 1}, {{{3}}, SKIPPY_BLOCK_MAX}};
static const skippy_part parts[] = {{SKIPPY_PART_KV, 0, 4, blocks, 2}, {SKIPPY_PART_STATE, 4, 4, blocks + 2, 1}};

static skippy_manifest good(void) {
    return (skippy_manifest){.ns = {{9}},
                             .payload_kind = SKIPPY_PAYLOAD_KV_RECURRENT,
                             .reach = SKIPPY_REACH_EXACT,
                             .reason = SKIPPY_REASON_DEMOTED,
                             .tokens = tokens,
                             .n_tokens = 4,
                             .cost_ms = 2.5,
                             .parts = parts,
                             .n_parts = 2};
}

/* ---- manifests ---- */

static void a_manifest_weighs_the_sum_of_its_blocks(void **state) {
    (void)state;
    const skippy_manifest m = good();
    uint64_t bytes = 0;
    assert_int_equal(skippy_manifest_check(&m, &bytes), SKIPPY_OK);
    assert_int_equal(bytes, 101 + SKIPPY_BLOCK_MAX);
    assert_int_equal(skippy_manifest_check(&m, NULL), SKIPPY_OK);
}

static void assert_refused(skippy_manifest m) {
    uint64_t bytes = 77;
    assert_int_equal(skippy_manifest_check(&m, &bytes), SKIPPY_E_INVALID);
    assert_int_equal(bytes, 77);
}

/* The good manifest m, changed by the statement. */
#define REFUSED(statement)                                                                                             \
    do {                                                                                                               \
        skippy_manifest m = good();                                                                                    \
        statement;                                                                                                     \
        assert_refused(m);                                                                                             \
    } while (0)

static void fields_out_of_their_range_are_refused(void **state) {
    (void)state;
    assert_int_equal(skippy_manifest_check(NULL, NULL), SKIPPY_E_INVALID);
    static const uint8_t kinds[] = {0, 6}, reaches[] = {2, 255}, reasons[] = {0, 5};
    for (size_t i = 0; i < 2; i++) {
        REFUSED(m.payload_kind = kinds[i]);
        REFUSED(m.reach = reaches[i]);
        REFUSED(m.reason = reasons[i]);
    }
    static const double costs[] = {-1, NAN, INFINITY};
    for (size_t i = 0; i < 3; i++) REFUSED(m.cost_ms = costs[i]);
    REFUSED(m.tokens = NULL);
    REFUSED(m.n_tokens = 0);
    REFUSED(m.n_tokens = SIZE_MAX / 2);
    REFUSED(m.parts = NULL);
    REFUSED(m.n_parts = 0);
}

/* The good manifest with its first part replaced. */
static void assert_part_refused(skippy_part p) {
    const skippy_part two[] = {p, parts[1]};
    skippy_manifest m = good();
    m.parts = two;
    assert_refused(m);
}

/* Its first part p, changed by the statement. */
#define PART_REFUSED(statement)                                                                                        \
    do {                                                                                                               \
        skippy_part p = parts[0];                                                                                      \
        statement;                                                                                                     \
        assert_part_refused(p);                                                                                        \
    } while (0)

static void parts_out_of_their_range_are_refused(void **state) {
    (void)state;
    PART_REFUSED(p.kind = 0);
    PART_REFUSED(p.kind = SKIPPY_PART_LOGITS + 1);
    PART_REFUSED(p.from = 3; p.to = 2);
    PART_REFUSED(p.to = 5);
    PART_REFUSED(p.from = UINT64_MAX; p.to = UINT64_MAX);
}

static void missing_state_is_not_empty_state(void **state) {
    (void)state;
    PART_REFUSED(p.n_blocks = 0);
    PART_REFUSED(p.blocks = NULL);
    const skippy_block_ref empty = {{{1}}, 0}, large = {{{1}}, SKIPPY_BLOCK_MAX + 1};
    assert_part_refused((skippy_part){SKIPPY_PART_KV, 0, 4, &empty, 1});
    assert_part_refused((skippy_part){SKIPPY_PART_KV, 0, 4, &large, 1});
}

/* ---- erase filters ---- */

static void an_empty_filter_means_everything(void **state) {
    (void)state;
    const skippy_manifest m = good();
    assert_true(skippy_erase_matches(&(skippy_erase_filter){0}, &m));
}

static void names_match_exactly_or_not_at_all(void **state) {
    (void)state;
    skippy_manifest m = good();
    skippy_erase_filter tenant = {.tenant = "ann"}, space = {.cache_namespace = "chat"};
    assert_false(skippy_erase_matches(&tenant, &m));
    assert_false(skippy_erase_matches(&space, &m));
    m.tenant = "ann";
    m.cache_namespace = "chat";
    assert_true(skippy_erase_matches(&tenant, &m));
    assert_true(skippy_erase_matches(&space, &m));
    m.tenant = "anna";
    m.cache_namespace = "";
    assert_false(skippy_erase_matches(&tenant, &m));
    assert_false(skippy_erase_matches(&space, &m));
}

static void all_set_fields_must_match(void **state) {
    (void)state;
    skippy_manifest m = good();
    m.tenant = "ann";
    const skippy_key other = {{8}};
    assert_true(skippy_erase_matches(&(skippy_erase_filter){.tenant = "ann", .ns = &m.ns}, &m));
    assert_false(skippy_erase_matches(&(skippy_erase_filter){.tenant = "ann", .ns = &other}, &m));
    assert_false(skippy_erase_matches(&(skippy_erase_filter){.tenant = "bob", .ns = &m.ns}, &m));
}

static void a_prefix_means_entries_that_begin_with_it(void **state) {
    (void)state;
    const skippy_manifest m = good();
    static const int32_t other[] = {5, 6, 9}, longer[] = {5, 6, 7, 8, 9};
    assert_true(skippy_erase_matches(&(skippy_erase_filter){.tokens = tokens, .n_tokens = 2}, &m));
    assert_true(skippy_erase_matches(&(skippy_erase_filter){.tokens = tokens, .n_tokens = 4}, &m));
    assert_false(skippy_erase_matches(&(skippy_erase_filter){.tokens = other, .n_tokens = 3}, &m));
    assert_false(skippy_erase_matches(&(skippy_erase_filter){.tokens = longer, .n_tokens = 5}, &m));
}

/* ---- blocks ---- */

enum { MIB = 1 << 20, BYTES = 5 * MIB / 2 };

static int make_data(void **state) {
    uint8_t *data = malloc(BYTES);
    for (size_t i = 0; data && i < BYTES; i++) data[i] = (uint8_t)(i * 7 + i / 251);
    *state = data;
    return data ? 0 : -1;
}

static int free_data(void **state) {
    free(*state);
    return 0;
}

static void a_block_is_named_by_its_blake3_digest(void **state) {
    const uint8_t *data = *state;
    skippy_block_ref ref;
    uint8_t want[32];
    assert_int_equal(skippy_block_digest(data, 1000, &ref), SKIPPY_OK);
    sk_hash(data, 1000, want);
    assert_memory_equal(ref.digest.bytes, want, sizeof want);
    assert_int_equal(ref.bytes, 1000);
    assert_int_equal(skippy_block_digest(data, SKIPPY_BLOCK_MAX, &ref), SKIPPY_OK);
    assert_int_equal(skippy_block_digest(data, SKIPPY_BLOCK_MAX + 1, &ref), SKIPPY_E_INVALID);
    assert_int_equal(skippy_block_digest(data, 0, &ref), SKIPPY_E_INVALID);
    assert_int_equal(skippy_block_digest(NULL, 1, &ref), SKIPPY_E_INVALID);
    assert_int_equal(skippy_block_digest(data, 1, NULL), SKIPPY_E_INVALID);
}

/* Cuts BYTES of data and holds every block against the lengths that are expected, 0 at their end. */
static void assert_cut(const uint8_t *data, const size_t *cuts, size_t n_cuts, const size_t *lengths) {
    skippy_block_ref refs[8];
    size_t n = 0, at = 0;
    assert_int_equal(skippy_blocks_cut(data, BYTES, cuts, n_cuts, refs, 8, &n), SKIPPY_OK);
    for (size_t i = 0; i < n; i++) {
        skippy_block_ref want;
        assert_int_equal(refs[i].bytes, lengths[i]);
        assert_int_equal(skippy_block_digest(data + at, refs[i].bytes, &want), SKIPPY_OK);
        assert_memory_equal(&refs[i], &want, sizeof want);
        at += lengths[i];
    }
    assert_int_equal(lengths[n], 0);
    assert_int_equal(at, BYTES);
}

static void bytes_without_cuts_are_cut_every_mebibyte(void **state) {
    assert_cut(*state, NULL, 0, (const size_t[]){MIB, MIB, MIB / 2, 0});
}

static void a_long_span_is_cut_from_its_own_beginning(void **state) {
    assert_cut(*state, (const size_t[]){100, 100 + MIB + 1, BYTES}, 3,
               (const size_t[]){100, MIB, 1, MIB, MIB / 2 - 101, 0});
    assert_cut(*state, (const size_t[]){BYTES}, 1, (const size_t[]){MIB, MIB, MIB / 2, 0});
}

static void cuts_must_ascend_and_end_with_the_bytes(void **state) {
    static const size_t bad[][2] = {{0, 10}, {5, 5}, {7, 6}, {5, 9}, {5, 11}, {11, 10}};
    skippy_block_ref refs[4];
    size_t n;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(skippy_blocks_cut(*state, 10, bad[i], 2, refs, 4, &n), SKIPPY_E_INVALID);
    assert_int_equal(skippy_blocks_cut(*state, 10, NULL, 1, refs, 4, &n), SKIPPY_E_INVALID);
    assert_int_equal(skippy_blocks_cut(NULL, 10, NULL, 0, refs, 4, &n), SKIPPY_E_INVALID);
    assert_int_equal(skippy_blocks_cut(*state, 10, NULL, 0, NULL, 4, &n), SKIPPY_E_INVALID);
    assert_int_equal(skippy_blocks_cut(*state, 10, NULL, 0, refs, 4, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_blocks_cut(*state, 0, (const size_t[]){1}, 1, refs, 4, &n), SKIPPY_E_INVALID);
}

static void the_number_of_blocks_is_told_before_any_is_written(void **state) {
    skippy_block_ref refs[3] = {{{{0xaa}}, 1}};
    size_t n = 0;
    assert_int_equal(skippy_blocks_cut(*state, BYTES, NULL, 0, NULL, 0, &n), SKIPPY_E_TOO_SMALL);
    assert_int_equal(n, 3);
    assert_int_equal(skippy_blocks_cut(*state, BYTES, NULL, 0, refs, 2, &n), SKIPPY_E_TOO_SMALL);
    assert_int_equal(n, 3);
    assert_int_equal(refs[0].digest.bytes[0], 0xaa);
}

static void no_bytes_are_no_blocks(void **state) {
    size_t n = 9;
    assert_int_equal(skippy_blocks_cut(*state, 0, NULL, 0, NULL, 0, &n), SKIPPY_OK);
    assert_int_equal(n, 0);
}

int main(void) {
    const struct CMUnitTest manifest_tests[] = {
        cmocka_unit_test(a_manifest_weighs_the_sum_of_its_blocks),
        cmocka_unit_test(fields_out_of_their_range_are_refused),
        cmocka_unit_test(parts_out_of_their_range_are_refused),
        cmocka_unit_test(missing_state_is_not_empty_state),
        cmocka_unit_test(an_empty_filter_means_everything),
        cmocka_unit_test(names_match_exactly_or_not_at_all),
        cmocka_unit_test(all_set_fields_must_match),
        cmocka_unit_test(a_prefix_means_entries_that_begin_with_it),
    };
    const struct CMUnitTest block_tests[] = {
        cmocka_unit_test(a_block_is_named_by_its_blake3_digest),
        cmocka_unit_test(bytes_without_cuts_are_cut_every_mebibyte),
        cmocka_unit_test(a_long_span_is_cut_from_its_own_beginning),
        cmocka_unit_test(cuts_must_ascend_and_end_with_the_bytes),
        cmocka_unit_test(the_number_of_blocks_is_told_before_any_is_written),
        cmocka_unit_test(no_bytes_are_no_blocks),
    };
    int failed = cmocka_run_group_tests_name("payload manifests", manifest_tests, NULL, NULL);
    return failed + cmocka_run_group_tests_name("payload blocks", block_tests, make_data, free_data);
}
