/* Cuts at absolute token positions, on blobs that are built field by field. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/store_cuts.h"
#include "runtime/state_blob_maker.h"
#include "skippy/payload.h"

enum { STEP = 64, CELLS = 200, WIDE = 1000, MAX_BLOCKS = 256 };

static const sk_state_shape dense = {0};

static sk_made wide(uint32_t first, bool transposed) {
    return (sk_made){.first = first,
                     .n_kv = 1,
                     .cells = {CELLS},
                     .has_v = true,
                     .transposed = transposed,
                     .type = 1,
                     .extra_row = WIDE};
}

static bool contains(const size_t *cuts, size_t n, size_t offset) {
    for (size_t i = 0; i < n; i++)
        if (cuts[i] == offset) return true;
    return false;
}

static void rows_are_cut_where_their_position_is_a_multiple(void **state) {
    (void)state;
    const sk_made m = wide(200, false);
    sk_made_blob b = sk_make_blob(&m);
    sk_state_parse p;
    size_t *cuts = NULL, n = 0;
    assert_int_equal(sk_state_parse_blob(b.bytes, b.len, &dense, &p, NULL), SKIPPY_OK);
    assert_int_equal(sk_store_cuts(b.bytes, b.len, &dense, STEP, &cuts, &n, NULL), SKIPPY_OK);
    for (size_t i = 0; i < p.n_runs; i++) {
        const sk_state_run *run = &p.runs[i];
        if (run->what != 'K') continue;
        for (size_t position = 256; position < 200 + CELLS; position += STEP)
            assert_true(contains(cuts, n, run->offset + (position - 200) * run->row_bytes));
        assert_false(contains(cuts, n, run->offset + STEP * run->row_bytes)); /* 64 rows in, at position 264 */
    }
    for (size_t i = 1; i < n; i++) assert_true(cuts[i] - cuts[i - 1] >= SK_STATE_MIN_SPAN);
    assert_int_equal(cuts[n - 1], b.len);
    free(cuts);
    sk_state_parse_free(&p);
    sk_made_free(&b);
}

static void transposed_rows_are_not_cut_inside(void **state) {
    (void)state;
    sk_made m = wide(200, true);
    m.cells[0] = 4000; /* so that a run of V is far longer than the shortest block */
    sk_made_blob b = sk_make_blob(&m);
    sk_state_parse p;
    size_t *cuts = NULL, n = 0;
    assert_int_equal(sk_state_parse_blob(b.bytes, b.len, &dense, &p, NULL), SKIPPY_OK);
    assert_int_equal(sk_store_cuts(b.bytes, b.len, &dense, STEP, &cuts, &n, NULL), SKIPPY_OK);
    for (size_t i = 0; i < p.n_runs; i++) {
        const sk_state_run *run = &p.runs[i];
        size_t inside = 0;
        for (size_t k = 0; k < n; k++) inside += cuts[k] > run->offset && cuts[k] < run->offset + run->bytes;
        if (run->what == 'V')
            assert_int_equal(inside, 0);
        else
            assert_true(inside > 10);
    }
    free(cuts);
    sk_state_parse_free(&p);
    sk_made_free(&b);
}

/* Digests of the blocks of a window that begins at a position. */
static size_t digest(uint32_t first, skippy_block_ref refs[MAX_BLOCKS]) {
    const sk_made m = wide(first, false);
    sk_made_blob b = sk_make_blob(&m);
    size_t *cuts = NULL, n_cuts = 0, n = 0;
    assert_int_equal(sk_store_cuts(b.bytes, b.len, &dense, STEP, &cuts, &n_cuts, NULL), SKIPPY_OK);
    assert_int_equal(skippy_blocks_cut(b.bytes, b.len, cuts, n_cuts, refs, MAX_BLOCKS, &n), SKIPPY_OK);
    free(cuts);
    sk_made_free(&b);
    return n;
}

static void a_window_that_moved_on_shares_the_rows_it_still_has(void **state) {
    (void)state;
    skippy_block_ref before[MAX_BLOCKS], after[MAX_BLOCKS];
    const size_t n_before = digest(200, before), n_after = digest(237, after);
    size_t same = 0;
    for (size_t i = 0; i < n_before; i++)
        for (size_t k = 0; k < n_after; k++) same += skippy_key_equal(&before[i].digest, &after[k].digest);
    assert_int_equal(same, 2 * SK_MADE_LAYERS); /* K of each layer: positions 256 to 319 and 320 to 383 */
}

static void a_short_rest_of_a_run_leaves_the_next_run_alone(void **state) {
    (void)state;
    sk_made m = wide(254, false); /* 254, 255 | 256 ... 319 | 320, 321: the rest is 2 rows of 1024 bytes */
    m.cells[0] = 68;
    sk_made_blob b = sk_make_blob(&m);
    sk_state_parse p;
    size_t *cuts = NULL, n = 0;
    assert_int_equal(sk_state_parse_blob(b.bytes, b.len, &dense, &p, NULL), SKIPPY_OK);
    assert_int_equal(sk_store_cuts(b.bytes, b.len, &dense, STEP, &cuts, &n, NULL), SKIPPY_OK);
    assert_int_equal(p.runs[0].row_bytes, WIDE + SK_MADE_ROW);
    assert_false(contains(cuts, n, p.runs[0].offset + 66 * p.runs[0].row_bytes));
    assert_true(contains(cuts, n, p.runs[1].offset - SK_STATE_RUN_HEADER_BYTES));
    free(cuts);
    sk_state_parse_free(&p);
    sk_made_free(&b);
}

static void bytes_that_are_no_state_are_refused(void **state) {
    (void)state;
    const sk_made m = wide(0, false);
    sk_made_blob b = sk_make_blob(&m);
    size_t *cuts = NULL, n = 0;
    sk_err e = {0};
    assert_int_equal(sk_store_cuts(b.bytes, b.len - 1, &dense, STEP, &cuts, &n, &e), SKIPPY_E_CORRUPT);
    assert_null(cuts);
    assert_string_not_equal(e.text, "");
    sk_made_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_cut_where_their_position_is_a_multiple),
        cmocka_unit_test(transposed_rows_are_not_cut_inside),
        cmocka_unit_test(a_window_that_moved_on_shares_the_rows_it_still_has),
        cmocka_unit_test(a_short_rest_of_a_run_leaves_the_next_run_alone),
        cmocka_unit_test(bytes_that_are_no_state_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
