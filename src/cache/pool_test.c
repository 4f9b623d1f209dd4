#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "cache/pool.h"
#include "cache/test_random.h"

static const size_t sizes[] = {1,
                               64,
                               65,
                               SK_POOL_SMALL_MAX,
                               SK_POOL_SMALL_MAX + 1,
                               SK_POOL_PAGE,
                               SK_POOL_PAGE + 1,
                               9 * SK_POOL_PAGE,
                               100000,
                               1 << 20,
                               (1 << 20) + 1,
                               2 << 20,
                               (2 << 20) + 1,
                               50 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void pieces_of_all_sizes_hold_their_bytes(void **state) {
    (void)state;
    sk_pool p;
    sk_pool_init(&p, 0, 0);
    unsigned char *piece[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        piece[i] = sk_pool_alloc(&p, sizes[i]);
        assert_non_null(piece[i]);
        assert_int_equal((uintptr_t)piece[i] % 16, 0);
        memset(piece[i], (int)i + 1, sizes[i]);
    }
    for (size_t i = 0; i < SIZES; i++) {
        assert_int_equal(piece[i][0], i + 1);
        assert_int_equal(piece[i][sizes[i] / 2], i + 1);
        assert_int_equal(piece[i][sizes[i] - 1], i + 1);
    }
    for (size_t i = 0; i < SIZES; i++) sk_pool_release(&p, piece[i]);
    assert_int_equal(p.resident, 0);
}

static void nothing_is_left_when_the_last_piece_goes(void **state) {
    (void)state;
    sk_pool p;
    sk_pool_init(&p, 0, 0);
    static void *piece[40000];
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < 40000; i++) assert_non_null(piece[i] = sk_pool_alloc(&p, 1 + i % 3000));
        assert_true(p.resident > 40000 * 1500);
        for (size_t i = 0; i < 40000; i++) sk_pool_release(&p, piece[i * 7919 % 40000]);
        assert_int_equal(p.resident, 0);
    }
}

static void a_piece_costs_no_more_than_its_charge(void **state) {
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        sk_pool p;
        sk_pool_init(&p, 0, 0);
        void *piece[70];
        for (size_t k = 0; k < 70; k++) piece[k] = sk_pool_alloc(&p, sizes[i]);
        assert_true(p.resident >= 70 * sizes[i]);
        assert_true(p.resident <= 70 * sk_pool_charge(sizes[i]) + SK_POOL_SLACK);
        for (size_t k = 0; k < 70; k++) sk_pool_release(&p, piece[k]);
    }
}

static void a_freed_slot_is_given_back_at_once(void **state) {
    (void)state;
    sk_pool p;
    sk_pool_init(&p, 0, 0);
    unsigned char *keep = sk_pool_alloc(&p, 1 << 20), *piece = sk_pool_alloc(&p, 1 << 20), in_core[256];
    memset(keep, 1, 1 << 20);
    memset(piece, 2, 1 << 20);
    uint64_t before = p.resident;
    sk_pool_release(&p, piece);
    assert_int_equal(before - p.resident, 1 << 20);
    if (SK_POOL_PAGE == 4096) {
        assert_int_equal(mincore(piece, 1 << 20, in_core), 0); /* its addresses are still mapped, without pages */
        for (size_t i = 0; i < 256; i++) assert_int_equal(in_core[i] & 1, 0);
    }
    assert_ptr_equal(sk_pool_alloc(&p, 1 << 20), piece); /* and are used again */
    sk_pool_release(&p, piece);
    sk_pool_release(&p, keep);
}

static void a_warm_slot_serves_the_next_piece_of_its_size(void **state) {
    (void)state;
    sk_pool p;
    sk_pool_init(&p, 64 << 20, 2 << 20);
    void *a = sk_pool_alloc(&p, 1 << 20), *b = sk_pool_alloc(&p, 1 << 20), *c = sk_pool_alloc(&p, 1 << 20);
    uint64_t before = p.resident;
    sk_pool_release(&p, a);
    sk_pool_release(&p, b);
    assert_int_equal(p.resident, before);
    assert_int_equal(p.warm, 2 << 20);
    sk_pool_release(&p, c); /* more than shall be kept */
    assert_int_equal(p.resident, before - (1 << 20));
    void *other = sk_pool_alloc(&p, (1 << 20) - SK_POOL_PAGE);
    assert_true(other != a && other != b);
    assert_ptr_equal(sk_pool_alloc(&p, 1 << 20), b);
    assert_int_equal(p.warm, 1 << 20);
    sk_pool_cool(&p, UINT64_MAX);
    assert_int_equal(p.warm, 0);
    sk_pool_release(&p, b);
    sk_pool_release(&p, other);
    sk_pool_cool(&p, UINT64_MAX);
    assert_int_equal(p.resident, 0);
}

static void warm_slots_are_given_up_before_the_limit(void **state) {
    (void)state;
    sk_pool p;
    sk_pool_init(&p, 4 << 20, 4 << 20);
    void *a = sk_pool_alloc(&p, 1 << 20), *b = sk_pool_alloc(&p, 1 << 20);
    sk_pool_release(&p, a);
    sk_pool_release(&p, b);
    assert_int_equal(p.warm, 2 << 20);
    void *large = sk_pool_alloc(&p, 3 << 20);
    assert_non_null(large);
    assert_true(p.resident <= p.limit);
    assert_int_equal(p.warm, 0);
    sk_pool_release(&p, large);
    sk_pool_cool(&p, UINT64_MAX);
    assert_int_equal(p.resident, 0);
}

static void impossible_sizes_get_nothing(void **state) {
    (void)state;
    sk_pool p;
    sk_pool_init(&p, 0, 0);
    assert_null(sk_pool_alloc(&p, 0));
    assert_null(sk_pool_alloc(&p, SIZE_MAX));
    assert_null(sk_pool_alloc(&p, SIZE_MAX / 4));
    sk_pool_release(&p, NULL);
    assert_int_equal(p.resident, 0);
    assert_true(sk_pool_charge(SIZE_MAX) >= SIZE_MAX / 4);
}

/* Random pieces, each filled with its own number: no two may ever overlap. */
static void pieces_never_overlap(void **state) {
    (void)state;
    enum { LIVE = 500 };
    static struct {
        unsigned char *at;
        size_t size;
        unsigned char fill;
    } live[LIVE];
    sk_pool p;
    sk_pool_init(&p, 0, 0);
    test_random rnd = random_start("pool");
    for (int op = 0; op < TEST_OPERATIONS / 10; op++) {
        size_t i = random_below(&rnd, LIVE);
        if (live[i].at) {
            assert_int_equal(live[i].at[0], live[i].fill);
            assert_int_equal(live[i].at[live[i].size - 1], live[i].fill);
            sk_pool_release(&p, live[i].at);
            live[i].at = NULL;
            continue;
        }
        live[i].size = 1 + random_below(&rnd, (size_t)1 << (1 + random_below(&rnd, 20)));
        live[i].fill = (unsigned char)op;
        assert_non_null(live[i].at = sk_pool_alloc(&p, live[i].size));
        live[i].at[0] = live[i].at[live[i].size - 1] = live[i].fill;
    }
    for (size_t i = 0; i < LIVE; i++) sk_pool_release(&p, live[i].at);
    assert_int_equal(p.resident, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_all_sizes_hold_their_bytes),
        cmocka_unit_test(nothing_is_left_when_the_last_piece_goes),
        cmocka_unit_test(a_piece_costs_no_more_than_its_charge),
        cmocka_unit_test(a_freed_slot_is_given_back_at_once),
        cmocka_unit_test(a_warm_slot_serves_the_next_piece_of_its_size),
        cmocka_unit_test(warm_slots_are_given_up_before_the_limit),
        cmocka_unit_test(impossible_sizes_get_nothing),
        cmocka_unit_test(pieces_never_overlap),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
