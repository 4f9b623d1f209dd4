#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cells.h"
#include "skippy/error.h"

static void place(sk_cells *c, uint32_t seq, uint32_t n) {
    uint32_t rows[64];
    for (uint32_t i = 0; i < n; i++) rows[i] = seq;
    assert_int_equal(sk_cells_place(c, rows, n), SKIPPY_OK);
}

static void shared_cells_are_freed_with_their_last_owner(void **state) {
    (void)state;
    sk_cells c;
    assert_int_equal(sk_cells_init(&c, 32, 3), SKIPPY_OK);
    place(&c, 0, 10);
    assert_int_equal(sk_cells_cp(&c, 0, 1, 6), SKIPPY_OK);
    assert_int_equal(c.used, 10);
    assert_int_equal(sk_cells_exclusive(&c, 0), 4);
    assert_int_equal(sk_cells_exclusive(&c, 1), 0);
    const uint32_t both[] = {0, 1};
    assert_int_equal(sk_cells_union(&c, both, 2), 10);
    sk_cells_rm(&c, 0, 0);
    assert_int_equal(c.used, 6);
    assert_int_equal(c.span, 6);
    sk_cells_rm(&c, 1, 2);
    assert_int_equal(c.used, 2);
    assert_int_equal(c.span, 2);
    sk_cells_rm(&c, 1, 0);
    assert_int_equal(c.used, 0);
    assert_int_equal(c.span, 0);
    sk_cells_free(&c);
}

static void a_hole_below_is_filled_first_and_breaks_the_order(void **state) {
    (void)state;
    sk_cells c;
    const uint32_t row[] = {1, 1};
    assert_int_equal(sk_cells_init(&c, 64, 2), SKIPPY_OK);
    place(&c, 0, 4);
    place(&c, 1, 8);
    assert_true(sk_cells_place_sorted(&c, row, 2));
    sk_cells_rm(&c, 0, 0); /* the search goes back to the freed cells */
    assert_false(sk_cells_place_sorted(&c, row, 2));
    place(&c, 1, 2);
    assert_false(sk_cells_sorted(&c, 1));
    assert_int_equal(sk_cells_try_relocate(&c, 1, 2), SKIPPY_OK);
    assert_int_equal(sk_cells_relocate(&c, 1), SKIPPY_OK);
    assert_true(sk_cells_sorted(&c, 1));
    assert_true(sk_cells_place_sorted(&c, row, 2));
    sk_cells_free(&c);
}

static void extending_one_sequence_places_cells_like_a_batch(void **state) {
    (void)state;
    sk_cells a, b;
    assert_int_equal(sk_cells_init(&a, 64, 2), SKIPPY_OK);
    assert_int_equal(sk_cells_init(&b, 64, 2), SKIPPY_OK);
    for (int k = 0; k < 2; k++) {
        sk_cells *c = k ? &b : &a;
        place(c, 0, 5);
        place(c, 1, 5);
        sk_cells_rm(c, 0, 0);
    }
    place(&a, 1, 20);
    assert_int_equal(sk_cells_extend(&b, 1, 20), SKIPPY_OK);
    assert_int_equal(sk_cells_extend(&b, 1, 0), SKIPPY_OK);
    assert_int_equal(a.head, b.head);
    assert_int_equal(sk_cells_len(&b, 1), 25);
    assert_memory_equal(a.seq[1].cell, b.seq[1].cell, 25 * sizeof(uint32_t));
    assert_int_equal(sk_cells_extend(&b, 0, 64), SKIPPY_E_FULL);
    assert_int_equal(sk_cells_len(&b, 0), 0);
    sk_cells_free(&a);
    sk_cells_free(&b);
}

static void a_full_pool_refuses_and_changes_nothing(void **state) {
    (void)state;
    sk_cells c;
    const uint32_t rows[] = {1, 1, 1};
    assert_int_equal(sk_cells_init(&c, 8, 2), SKIPPY_OK);
    place(&c, 0, 6);
    assert_int_equal(sk_cells_place(&c, rows, 3), SKIPPY_E_FULL);
    assert_int_equal(c.used, 6);
    assert_int_equal(sk_cells_len(&c, 1), 0);
    assert_false(sk_cells_place_sorted(&c, rows, 3));
    sk_cells_free(&c);
}

static void relocation_that_would_not_help_is_refused(void **state) {
    (void)state;
    sk_cells c;
    assert_int_equal(sk_cells_init(&c, 16, 2), SKIPPY_OK);
    place(&c, 0, 4);
    place(&c, 1, 10);
    assert_int_equal(sk_cells_try_relocate(&c, 1, 4), SKIPPY_E_FULL); /* two cells are left above */
    assert_int_equal(sk_cells_len(&c, 1), 10);
    sk_cells_free(&c);
}

/* Random operations against a model that keeps, per cell, the set of its owners. */
static void random_operations_keep_the_books_right(void **state) {
    (void)state;
    enum { SIZE = 128, SEQS = 6, STEPS = 20000 };
    const char *env = getenv("SKIPPY_TEST_SEED");
    uint32_t seed = env ? (uint32_t)strtoul(env, NULL, 10) : 4711, x = seed;
    static bool owner[SIZE][SEQS];
    memset(owner, 0, sizeof owner);
    sk_cells c;
    assert_int_equal(sk_cells_init(&c, SIZE, SEQS), SKIPPY_OK);
    for (int step = 0; step < STEPS; step++) {
        x = x * 1664525u + 1013904223u;
        uint32_t s = (x >> 8) % SEQS, t = (x >> 16) % SEQS, k = (x >> 20) % 9;
        if (x >> 31) {
            uint32_t rows[8], n = k ? k - 1 : 0;
            for (uint32_t i = 0; i < n; i++) rows[i] = s;
            uint32_t before = sk_cells_len(&c, s);
            if (n && sk_cells_place(&c, rows, n) == SKIPPY_OK)
                for (uint32_t p = before; p < before + n; p++) owner[c.seq[s].cell[p]][s] = true;
        } else if (k < 4) {
            uint32_t len = sk_cells_len(&c, s), p0 = len ? (x >> 9) % len : 0;
            for (uint32_t p = p0; p < len; p++) owner[c.seq[s].cell[p]][s] = false;
            sk_cells_rm(&c, s, p0);
        } else if (s != t) {
            for (uint32_t p = 0; p < sk_cells_len(&c, t); p++) owner[c.seq[t].cell[p]][t] = false;
            sk_cells_rm(&c, t, 0);
            uint32_t len = sk_cells_len(&c, s), p1 = len ? (x >> 9) % (len + 1) : 0;
            assert_int_equal(sk_cells_cp(&c, s, t, p1), SKIPPY_OK);
            for (uint32_t p = 0; p < p1; p++) owner[c.seq[t].cell[p]][t] = true;
        }
        uint32_t used = 0;
        for (uint32_t i = 0; i < SIZE; i++) {
            uint32_t refs = 0;
            for (uint32_t q = 0; q < SEQS; q++) refs += owner[i][q];
            if (refs != c.refs[i])
                fail_msg("seed %u step %d: cell %u has %u owners, not %u", seed, step, i, c.refs[i], refs);
            used += refs > 0;
        }
        if (used != c.used) fail_msg("seed %u step %d: %u cells used, not %u", seed, step, c.used, used);
    }
    sk_cells_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_cells_are_freed_with_their_last_owner),
        cmocka_unit_test(a_hole_below_is_filled_first_and_breaks_the_order),
        cmocka_unit_test(extending_one_sequence_places_cells_like_a_batch),
        cmocka_unit_test(a_full_pool_refuses_and_changes_nothing),
        cmocka_unit_test(relocation_that_would_not_help_is_refused),
        cmocka_unit_test(random_operations_keep_the_books_right),
    };
    return cmocka_run_group_tests_name("cells", tests, NULL, NULL);
}
