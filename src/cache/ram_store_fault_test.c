/* The RAM store when something goes wrong: sources and allocators that fail, calls that meet, bytes that rot, erasure.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/ram_store_fixture.h"

/* ---- puts that fail ---- */

static void assert_as_before(fixture *f, const skippy_store_stats *before) {
    skippy_store_stats now = stats_of(f);
    assert_int_equal(now.entries, before->entries);
    assert_int_equal(now.blocks, before->blocks);
    assert_int_equal(now.block_bytes, before->block_bytes);
    assert_int_equal(now.logical_bytes, before->logical_bytes);
    assert_int_equal(f->s->reserved, 0);
    assert_int_equal(f->s->pinned, 0);
    assert_int_equal(f->s->pending_blocks + f->s->pending_parts + f->s->pending_entries, 0);
}

static void a_source_that_fails_leaves_nothing(void **state) {
    fixture *f = *state;
    put(f, 1, "01", NULL);
    const skippy_store_stats before = stats_of(f);
    for (size_t at = 1; at <= 2; at++) {
        f->lib.asked = 0;
        f->lib.fail_at = at;
        f->lib.fail_with = SKIPPY_E_IO;
        assert_int_equal(try_put(f, 2, "0145", NULL), SKIPPY_E_IO);
        assert_as_before(f, &before);
    }
    f->lib.fail_at = 0;
    assert_int_equal(try_put(f, 2, "0145", NULL), SKIPPY_OK);
}

static void other_bytes_than_promised_leave_nothing(void **state) {
    fixture *f = *state;
    put(f, 1, "01", NULL);
    const skippy_store_stats before = stats_of(f);
    f->lib.data[5][99999] ^= 1;
    assert_int_equal(try_put(f, 2, "0145", NULL), SKIPPY_E_CORRUPT);
    assert_as_before(f, &before);
    f->lib.data[5][99999] ^= 1;
    assert_int_equal(try_put(f, 2, "0145", NULL), SKIPPY_OK);
}

static int empty_handed(void *ud, const skippy_block_ref *block, const void **data) {
    (void)ud, (void)block;
    *data = NULL;
    return SKIPPY_OK;
}

static void a_source_without_bytes_is_corrupt(void **state) {
    fixture *f = *state;
    test_entry e;
    uint64_t id = 5;
    test_entry_make(&e, &f->lib, 1, "0", NULL);
    assert_int_equal(skippy_ram_put(f->s, &e.m, empty_handed, NULL, &id), SKIPPY_E_CORRUPT);
    assert_int_equal(id, 0);
}

static void no_memory_at_any_point_leaves_nothing(void **state) {
    fixture *f = *state;
    put(f, 1, "01", NULL);
    const skippy_store_stats before = stats_of(f);
    int status = SKIPPY_E_NOMEM;
    size_t points = 0;
    for (; status == SKIPPY_E_NOMEM; points++) {
        size_t live = f->heap.live;
        f->heap.fail_at = f->heap.calls + points + 1;
        status = try_put(f, 2, "0145", "6");
        if (status == SKIPPY_E_NOMEM) {
            assert_as_before(f, &before);
            assert_int_equal(f->heap.live, live);
        }
    }
    assert_int_equal(status, SKIPPY_OK);
    assert_true(points > 8); /* scratch, three blocks of two pieces, two parts, the entry */
}

static void a_store_that_gets_no_memory_is_not_created(void **state) {
    (void)state;
    const skippy_ram_params p = {.max_bytes = 1000};
    int status = SKIPPY_E_NOMEM;
    for (size_t at = 1; status == SKIPPY_E_NOMEM; at++) {
        test_heap heap = {.fail_at = at};
        const skippy_allocator hooks = test_heap_hooks(&heap);
        skippy_ram_store *s = NULL;
        status = skippy_ram_create(&hooks, &p, &s);
        if (status != SKIPPY_OK) assert_null(s);
        skippy_ram_destroy(s);
        assert_int_equal(heap.live, 0);
    }
    assert_int_equal(status, SKIPPY_OK);
}

/* ---- puts that meet other calls: the source is called without the lock, so it can stand for another thread ---- */

static void put_the_same_prefix(void *ud, test_library *lib) {
    fixture *f = ud;
    lib->before = NULL;
    put(f, 1, "05", NULL);
}

static void a_prefix_that_was_stored_meanwhile_wins(void **state) {
    fixture *f = *state;
    f->lib.before = put_the_same_prefix;
    f->lib.ud = f;
    assert_int_equal(try_put(f, 1, "05", NULL), SKIPPY_E_EXISTS);
    assert_int_equal(stats_of(f).entries, 1);
    assert_int_equal(stats_of(f).blocks, 2);
    assert_int_equal(f->s->reserved + f->s->pinned, 0);
}

static void put_the_same_blocks(void *ud, test_library *lib) {
    fixture *f = ud;
    lib->before = NULL;
    put(f, 2, "05", "3");
}

static void blocks_and_parts_that_were_stored_meanwhile_are_used(void **state) {
    fixture *f = *state;
    f->lib.before = put_the_same_blocks;
    f->lib.ud = f;
    assert_int_equal(try_put(f, 1, "05", "4"), SKIPPY_OK);
    assert_int_equal(stats_of(f).entries, 2);
    assert_int_equal(stats_of(f).blocks, 4);
    assert_int_equal(stats_of(f).put_bytes, stats_of(f).block_bytes);
    assert_int_equal(f->s->parts.count, 3);
}

static void spoil_a_pinned_block(void *ud, test_library *lib) {
    fixture *f = ud;
    lib->before = NULL;
    flip_a_bit(f, 5);
    assert_int_equal(read_block(f, 5), SKIPPY_E_CORRUPT);
}

static void a_put_starts_again_when_its_block_is_quarantined(void **state) {
    fixture *f = *state;
    uint64_t old = put(f, 1, "5", NULL);
    f->lib.before = spoil_a_pinned_block;
    f->lib.ud = f;
    assert_int_equal(try_put(f, 2, "56", NULL), SKIPPY_OK);
    assert_dropped(f, old, SKIPPY_DROP_CORRUPT);
    assert_int_equal(read_block(f, 5), SKIPPY_OK);
    assert_int_equal(stats_of(f).entries, 1);
}

static void drop_the_owner(void *ud, test_library *lib) {
    fixture *f = ud;
    lib->before = NULL;
    assert_int_equal(skippy_ram_erase(f->s, &(skippy_erase_filter){0}), 1);
}

static void a_put_keeps_the_blocks_that_it_found(void **state) {
    fixture *f = *state;
    put(f, 1, "5", NULL);
    f->lib.before = drop_the_owner;
    f->lib.ud = f;
    assert_int_equal(try_put(f, 2, "56", NULL), SKIPPY_OK);
    assert_int_equal(read_block(f, 5), SKIPPY_OK);
}

/* ---- corruption ---- */

static void a_bad_block_quarantines_every_entry_that_names_it(void **state) {
    fixture *f = *state;
    uint64_t a = put(f, 1, "5", "0"), b = put(f, 2, "15", NULL), good = put(f, 3, "0", "6");
    flip_a_bit(f, 5);
    assert_int_equal(skippy_ram_check(f->s, true), SKIPPY_E_CORRUPT);
    assert_int_equal(skippy_ram_check(f->s, false), SKIPPY_OK);
    assert_int_equal(read_block(f, 5), SKIPPY_E_CORRUPT);
    assert_int_equal(f->n_dropped, 2);
    assert_dropped(f, a, SKIPPY_DROP_CORRUPT);
    assert_dropped(f, b, SKIPPY_DROP_CORRUPT);
    assert_int_equal(lease(f, a), SKIPPY_E_NOT_FOUND);
    assert_int_equal(read_block(f, 5), SKIPPY_E_NOT_FOUND);
    assert_int_equal(read_block(f, 6), SKIPPY_OK);
    assert_int_equal(lease(f, good), SKIPPY_OK);
    assert_int_equal(skippy_ram_release(f->s, good), SKIPPY_OK);
    assert_int_equal(stats_of(f).corrupt_blocks, 1);
    assert_int_equal(stats_of(f).blocks, 2);
}

static void quarantined_state_can_be_stored_anew_while_it_is_leased(void **state) {
    fixture *f = *state;
    uint64_t old = put(f, 1, "50", NULL);
    const skippy_manifest *m;
    assert_int_equal(skippy_ram_lease(f->s, old, &m), SKIPPY_OK);
    flip_a_bit(f, 5);
    assert_int_equal(read_block(f, 5), SKIPPY_E_CORRUPT);
    uint64_t again = put(f, 1, "50", NULL);
    assert_true(again != old);
    assert_int_equal(read_block(f, 5), SKIPPY_OK);
    assert_int_equal(m->tokens[TEST_TOKENS - 1], 1); /* the manifest lives as long as its lease */
    assert_int_equal(m->parts[0].n_blocks, 2);
    assert_int_equal(skippy_ram_release(f->s, old), SKIPPY_OK);
    assert_int_equal(skippy_ram_release(f->s, old), SKIPPY_E_NOT_FOUND);
    assert_int_equal(stats_of(f).blocks, 2);
    assert_int_equal(read_block(f, 5), SKIPPY_OK);
}

/* ---- erase ---- */

static uint64_t put_of_tenant(fixture *f, uint32_t prefix, const char *part0, const char *tenant) {
    test_entry e;
    uint64_t id;
    test_entry_make(&e, &f->lib, prefix, part0, NULL);
    e.m.tenant = tenant;
    assert_int_equal(put_entry(f, &e, &id), SKIPPY_OK);
    return id;
}

static void erase_drops_what_the_filter_means(void **state) {
    fixture *f = *state;
    uint64_t a = put_of_tenant(f, 1, "05", "ann"), b = put_of_tenant(f, 2, "15", "bob");
    assert_int_equal(skippy_ram_erase(f->s, &(skippy_erase_filter){.tenant = "ann"}), 1);
    assert_int_equal(f->n_dropped, 1);
    assert_dropped(f, a, SKIPPY_DROP_ERASED);
    assert_false(skippy_ram_has(f->s, &f->lib.ref[0]));
    assert_int_equal(read_block(f, 5), SKIPPY_OK); /* bob's, too */
    assert_int_equal(lease(f, b), SKIPPY_OK);
    assert_int_equal(skippy_ram_release(f->s, b), SKIPPY_OK);
    assert_int_equal(skippy_ram_erase(f->s, &(skippy_erase_filter){.tenant = "ann"}), 0);
}

static void an_erased_entry_goes_when_its_leases_end(void **state) {
    fixture *f = *state;
    uint64_t id = put(f, 1, "05", NULL);
    assert_int_equal(lease(f, id), SKIPPY_OK);
    assert_int_equal(skippy_ram_erase(f->s, &(skippy_erase_filter){0}), 1);
    assert_dropped(f, id, SKIPPY_DROP_ERASED);
    assert_int_equal(lease(f, id), SKIPPY_E_NOT_FOUND);
    assert_int_equal(skippy_ram_erase(f->s, &(skippy_erase_filter){0}), 0);
    assert_int_equal(stats_of(f).entries, 0);
    assert_int_equal(stats_of(f).leased, 1);
    assert_int_equal(read_block(f, 5), SKIPPY_OK); /* its reader is not disturbed */
    uint64_t again = put(f, 1, "05", NULL);
    assert_true(again != id);
    assert_int_equal(skippy_ram_release(f->s, id), SKIPPY_OK);
    assert_int_equal(stats_of(f).entries, 1);
    assert_int_equal(skippy_ram_drop(f->s, again, SKIPPY_DROP_SUPERSEDED), SKIPPY_OK);
    assert_int_equal(stats_of(f).blocks, 0);
}

/* Hooks that look into what is released: a header before each piece tells its size. */
typedef struct inspector {
    unsigned char needle[16];
    size_t found;
} inspector;

static void *inspected_alloc(void *ud, size_t size) {
    (void)ud;
    unsigned char *raw = calloc(1, size + 16); /* malloc may hand out what another test left behind */
    if (!raw) return NULL;
    memcpy(raw, &size, sizeof size);
    return raw + 16;
}

static void inspected_release(void *ud, void *piece) {
    inspector *in = ud;
    if (!piece) return;
    unsigned char *raw = (unsigned char *)piece - 16;
    size_t size;
    memcpy(&size, raw, sizeof size);
    in->found += memmem(piece, size, in->needle, sizeof in->needle) != NULL;
    free(raw);
}

static size_t left_after_erase(test_library *lib, const void *needle, bool leased) {
    inspector in = {.found = 0};
    memcpy(in.needle, needle, sizeof in.needle);
    const skippy_allocator hooks = {inspected_alloc, inspected_release, &in};
    const skippy_ram_params p = {.max_bytes = 1 << 20};
    skippy_ram_store *s;
    test_entry e;
    uint64_t id;
    const skippy_manifest *m;
    test_entry_make(&e, lib, 1, "045", NULL);
    assert_int_equal(skippy_ram_create(&hooks, &p, &s), SKIPPY_OK);
    assert_int_equal(skippy_ram_put(s, &e.m, test_library_source, lib, &id), SKIPPY_OK);
    if (leased) assert_int_equal(skippy_ram_lease(s, id, &m), SKIPPY_OK);
    in.found = 0;
    assert_int_equal(skippy_ram_erase(s, &(skippy_erase_filter){0}), 1);
    if (leased) assert_int_equal(skippy_ram_release(s, id), SKIPPY_OK);
    skippy_ram_destroy(s);
    return in.found;
}

static void erased_bytes_and_tokens_are_overwritten(void **state) {
    fixture *f = *state;
    static const int32_t tokens[] = {21, 22, 23, 24}; /* of every entry of these tests */
    for (int leased = 0; leased < 2; leased++) {
        assert_int_equal(left_after_erase(&f->lib, f->lib.data[0], leased), 0);
        assert_int_equal(left_after_erase(&f->lib, f->lib.data[5] + 99984, leased), 0);
        assert_int_equal(left_after_erase(&f->lib, tokens, leased), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        STORE_TEST(a_source_that_fails_leaves_nothing),
        STORE_TEST(other_bytes_than_promised_leave_nothing),
        STORE_TEST(a_source_without_bytes_is_corrupt),
        STORE_TEST(no_memory_at_any_point_leaves_nothing),
        cmocka_unit_test(a_store_that_gets_no_memory_is_not_created),
        STORE_TEST(a_prefix_that_was_stored_meanwhile_wins),
        STORE_TEST(blocks_and_parts_that_were_stored_meanwhile_are_used),
        STORE_TEST(a_put_starts_again_when_its_block_is_quarantined),
        STORE_TEST(a_put_keeps_the_blocks_that_it_found),
        STORE_TEST(a_bad_block_quarantines_every_entry_that_names_it),
        STORE_TEST(quarantined_state_can_be_stored_anew_while_it_is_leased),
        STORE_TEST(erase_drops_what_the_filter_means),
        STORE_TEST(an_erased_entry_goes_when_its_leases_end),
        STORE_TEST(erased_bytes_and_tokens_are_overwritten),
    };
    return cmocka_run_group_tests_name("ram_store_fault", tests, NULL, NULL);
}
