#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cache/ram_store_fixture.h"

/* ---- put and look ---- */

static void an_entry_comes_back_as_a_copy(void **state) {
    fixture *f = *state;
    test_entry e;
    char tenant[] = "ann", space[] = "";
    test_entry_make(&e, &f->lib, 1, "051", "3");
    e.m.tenant = tenant;
    e.m.cache_namespace = space;
    e.m.created_ms = 1234;
    e.m.hits = 5;
    uint64_t id;
    assert_int_equal(put_entry(f, &e, &id), SKIPPY_OK);
    test_entry changed = e;
    memset(&e, 0xff, sizeof e);
    memset(tenant, 'x', 3);

    const skippy_manifest *m;
    assert_int_equal(skippy_ram_lease(f->s, id, &m), SKIPPY_OK);
    assert_memory_equal(&m->ns, &changed.m.ns, sizeof m->ns);
    assert_memory_equal(&m->prefix_key, &changed.m.prefix_key, sizeof m->ns);
    assert_memory_equal(&m->layout, &changed.m.layout, sizeof m->ns);
    assert_memory_equal(m->tokens, changed.tokens, sizeof changed.tokens);
    assert_string_equal(m->tenant, "ann");
    assert_string_equal(m->cache_namespace, "");
    assert_int_equal(m->created_ms, 1234);
    assert_true(m->used_ms > 1234);
    assert_int_equal(m->hits, 6);
    assert_int_equal(m->n_parts, 2);
    assert_int_equal(m->parts[0].n_blocks, 3);
    assert_int_equal(m->parts[1].from, 16);
    assert_memory_equal(m->parts[0].blocks, changed.blocks[0], 3 * sizeof(skippy_block_ref));
    for (size_t i = 0; i < 3; i++) assert_int_equal(read_block(f, (size_t[]){0, 5, 1}[i]), SKIPPY_OK);
    assert_int_equal(skippy_ram_release(f->s, id), SKIPPY_OK);
}

static void the_source_is_asked_only_for_missing_blocks(void **state) {
    fixture *f = *state;
    put(f, 1, "0155", "2");
    assert_int_equal(f->lib.asked, 4); /* the fifth reference is the same block again */
    put(f, 2, "0155", "3");
    assert_int_equal(f->lib.asked, 5);
    put(f, 3, "3210", NULL);
    assert_int_equal(f->lib.asked, 5);
    skippy_store_stats st = stats_of(f);
    assert_int_equal(st.entries, 3);
    assert_int_equal(st.blocks, 5);
    assert_int_equal(st.block_refs, 14);
    assert_int_equal(st.block_bytes, 100 + 200 + 300 + 4000 + 100000);
    assert_int_equal(st.put_bytes, st.block_bytes);
    assert_int_equal(st.logical_bytes, 200600 + 204300 + 4600);
    assert_true(st.physical_bytes > st.block_bytes && st.physical_bytes <= st.max_bytes);
    assert_int_equal(st.puts, 3);
    assert_true(skippy_ram_has(f->s, &f->lib.ref[3]));
    assert_false(skippy_ram_has(f->s, &f->lib.ref[4]));
}

static void equal_parts_are_kept_once(void **state) {
    fixture *f = *state;
    put(f, 1, "01234", "5");
    uint64_t before = stats_of(f).physical_bytes;
    put(f, 2, "01234", "5");
    size_t entry = sizeof(sk_ram_entry) + TEST_TOKENS * sizeof(int32_t);
    assert_true(stats_of(f).physical_bytes - before < entry + 2 * (sizeof(void *) + sizeof(skippy_part)) + 64);
    assert_int_equal(f->s->parts.count, 2);
}

static void the_same_prefix_is_stored_once(void **state) {
    fixture *f = *state;
    uint64_t first = put_costing(f, 1, "5", NULL, 10), second = put_costing(f, 2, "6", NULL, 10), id = 0;
    test_entry e;
    test_entry_make(&e, &f->lib, 1, "0", NULL);
    assert_int_equal(put_entry(f, &e, &id), SKIPPY_E_EXISTS);
    assert_int_equal(id, first);
    assert_int_equal(f->lib.asked, 2);
    put(f, 3, "78", NULL); /* room for it costs an entry: the first one was refreshed, so it is the second */
    put(f, 4, "9", NULL);
    assert_int_equal(f->n_dropped, 1);
    assert_dropped(f, second, SKIPPY_DROP_EVICTED);
}

static void another_kind_or_namespace_is_another_entry(void **state) {
    fixture *f = *state;
    test_entry e;
    uint64_t id;
    put(f, 1, "0", NULL);
    test_entry_make(&e, &f->lib, 1, "0", NULL);
    e.m.payload_kind = SKIPPY_PAYLOAD_TERMINAL;
    assert_int_equal(put_entry(f, &e, &id), SKIPPY_OK);
    e.m.ns.bytes[0]++;
    assert_int_equal(put_entry(f, &e, &id), SKIPPY_OK);
    assert_int_equal(stats_of(f).entries, 3);
}

/* ---- limits and eviction ---- */

static void an_entry_larger_than_the_limit_is_refused_before_anything_leaves(void **state) {
    fixture *f = *state;
    put(f, 1, "0", NULL);
    assert_int_equal(try_put(f, 2, "56789", NULL), SKIPPY_E_TOO_LARGE);
    assert_int_equal(f->n_dropped, 0);
    assert_int_equal(f->lib.asked, 1);
    assert_int_equal(stats_of(f).refused_too_large, 1);
}

static void a_store_without_room_accepts_nothing(void **state) {
    fixture *f = *state;
    reopen(f, 0, 0);
    assert_int_equal(try_put(f, 1, "0", NULL), SKIPPY_E_TOO_LARGE);
    assert_int_equal(stats_of(f).entries, 0);
}

static void the_smallest_benefit_leaves_first(void **state) {
    fixture *f = *state;
    uint64_t dear = put_costing(f, 1, "5", NULL, 100), cheap = put_costing(f, 2, "6", NULL, 1);
    put_costing(f, 3, "7", NULL, 50);
    put_costing(f, 4, "89", NULL, 50);
    assert_int_equal(f->n_dropped, 1);
    assert_dropped(f, cheap, SKIPPY_DROP_EVICTED);
    assert_int_equal(lease(f, dear), SKIPPY_OK);
    assert_int_equal(skippy_ram_release(f->s, dear), SKIPPY_OK);
}

static void hits_keep_an_entry(void **state) {
    fixture *f = *state;
    uint64_t used = put(f, 1, "5", NULL), unused = put(f, 2, "6", NULL);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(lease(f, used), SKIPPY_OK);
        assert_int_equal(skippy_ram_release(f->s, used), SKIPPY_OK);
    }
    put(f, 3, "78", NULL);
    put(f, 4, "9", NULL);
    assert_dropped(f, unused, SKIPPY_DROP_EVICTED);
    assert_int_equal(f->n_dropped, 1);
}

static void of_worthless_entries_the_oldest_use_leaves_first(void **state) {
    fixture *f = *state;
    uint64_t a = put_costing(f, 1, "5", NULL, 0), b = put_costing(f, 2, "6", NULL, 0);
    put_costing(f, 3, "7", NULL, 0);
    assert_int_equal(lease(f, a), SKIPPY_OK);
    assert_int_equal(skippy_ram_release(f->s, a), SKIPPY_OK);
    put_costing(f, 4, "89", NULL, 0);
    assert_int_equal(f->n_dropped, 1);
    assert_dropped(f, b, SKIPPY_DROP_EVICTED);
}

static void an_entry_is_judged_by_all_its_bytes(void **state) {
    fixture *f = *state;
    uint64_t small = put(f, 1, "6", NULL), large = put(f, 2, "56", NULL); /* shares half of its bytes */
    put(f, 3, "5", NULL);
    put(f, 4, "789", NULL);
    assert_dropped(f, large, SKIPPY_DROP_EVICTED);
    assert_dropped(f, small, SKIPPY_DROP_EVICTED); /* dropping the other one freed too little */
    assert_int_equal(f->n_dropped, 2);
}

static void only_puts_and_leases_age_an_entry(void **state) {
    fixture *f = *state;
    uint64_t id = put(f, 1, "0", NULL);
    assert_int_equal(f->s->clock, 1);
    assert_int_equal(lease(f, id), SKIPPY_OK);
    assert_int_equal(f->s->clock, 2);
    assert_int_equal(skippy_ram_release(f->s, id), SKIPPY_OK);
    assert_int_equal(read_block(f, 0), SKIPPY_OK);
    assert_int_equal(try_put(f, 2, "56789", NULL), SKIPPY_E_TOO_LARGE);
    assert_int_equal(f->s->clock, 2);
}

static void eviction_goes_down_to_the_soft_limit(void **state) {
    fixture *f = *state;
    reopen(f, 450000, 250000);
    put(f, 1, "5", NULL);
    put(f, 2, "6", NULL);
    put(f, 3, "7", NULL);
    put(f, 4, "8", NULL);
    assert_int_equal(f->n_dropped, 0); /* the soft limit alone evicts nothing */
    put(f, 5, "9", NULL);
    assert_int_equal(f->n_dropped, 3);
    assert_true(stats_of(f).physical_bytes <= 250000);
    put(f, 6, "8765", NULL); /* over the soft limit alone: the hard one counts */
    assert_int_equal(stats_of(f).entries, 1);
}

static void blocks_that_a_put_needs_are_not_evicted_for_it(void **state) {
    fixture *f = *state;
    put(f, 1, "56", NULL);
    put(f, 2, "78", NULL);
    f->lib.asked = 0;
    put(f, 3, "57", "9"); /* one of both must go, and the blocks of both are used */
    assert_int_equal(f->lib.asked, 1);
    assert_true(f->n_dropped > 0);
    for (size_t i = 0; i < 3; i++) assert_int_equal(read_block(f, (size_t[]){5, 7, 9}[i]), SKIPPY_OK);
}

static void leases_make_a_store_full_and_nothing_leaves_in_vain(void **state) {
    fixture *f = *state;
    uint64_t a = put(f, 1, "567", NULL);
    put(f, 2, "8", NULL);
    assert_int_equal(lease(f, a), SKIPPY_OK);
    assert_int_equal(try_put(f, 3, "9012", "4"), SKIPPY_OK); /* the other one made room */
    assert_int_equal(f->n_dropped, 1);
    assert_int_equal(try_put(f, 4, "89", NULL), SKIPPY_E_FULL);
    assert_int_equal(f->n_dropped, 1);
    assert_int_equal(stats_of(f).refused_full, 1);
    assert_int_equal(skippy_ram_release(f->s, a), SKIPPY_OK);
    assert_int_equal(try_put(f, 4, "89", NULL), SKIPPY_OK);
}

/* ---- leases ---- */

static void leases_are_counted(void **state) {
    fixture *f = *state;
    uint64_t id = put(f, 1, "0", NULL);
    assert_int_equal(lease(f, id), SKIPPY_OK);
    assert_int_equal(lease(f, id), SKIPPY_OK);
    assert_int_equal(stats_of(f).leased, 1);
    assert_int_equal(skippy_ram_drop(f->s, id, SKIPPY_DROP_SUPERSEDED), SKIPPY_E_BUSY);
    assert_int_equal(skippy_ram_release(f->s, id), SKIPPY_OK);
    assert_int_equal(skippy_ram_drop(f->s, id, SKIPPY_DROP_SUPERSEDED), SKIPPY_E_BUSY);
    assert_int_equal(skippy_ram_release(f->s, id), SKIPPY_OK);
    assert_int_equal(stats_of(f).leased, 0);
    assert_int_equal(skippy_ram_release(f->s, id), SKIPPY_E_INVALID);
    assert_int_equal(skippy_ram_drop(f->s, id, SKIPPY_DROP_SUPERSEDED), SKIPPY_OK);
    assert_int_equal(skippy_ram_drop(f->s, id, SKIPPY_DROP_SUPERSEDED), SKIPPY_E_NOT_FOUND);
    assert_int_equal(skippy_ram_release(f->s, id), SKIPPY_E_NOT_FOUND);
    assert_int_equal(lease(f, id), SKIPPY_E_NOT_FOUND);
    assert_int_equal(f->n_dropped, 0); /* the caller knows */
    assert_int_equal(stats_of(f).dropped[SKIPPY_DROP_SUPERSEDED], 1);
    assert_int_equal(stats_of(f).blocks, 0);
}

static void a_hit_allocates_nothing(void **state) {
    fixture *f = *state;
    uint64_t id = put(f, 1, "05", "3");
    size_t calls = f->heap.calls;
    assert_int_equal(lease(f, id), SKIPPY_OK);
    assert_int_equal(read_block(f, 0), SKIPPY_OK);
    assert_int_equal(read_block(f, 5), SKIPPY_OK);
    assert_int_equal(skippy_ram_release(f->s, id), SKIPPY_OK);
    assert_int_equal(f->heap.calls, calls);
}

/* ---- misuse ---- */

static void wrong_arguments_are_refused(void **state) {
    fixture *f = *state;
    test_entry e;
    uint64_t id;
    const skippy_manifest *m;
    unsigned char buf[100];
    skippy_ram_store *s;
    const skippy_ram_params upside_down = {.max_bytes = 1, .soft_bytes = 2}, fine = {.max_bytes = 1};
    const skippy_allocator half = {f->hooks.alloc, NULL, NULL};
    assert_int_equal(skippy_ram_create(NULL, &upside_down, &s), SKIPPY_E_INVALID);
    assert_int_equal(skippy_ram_create(NULL, NULL, &s), SKIPPY_E_INVALID);
    assert_int_equal(skippy_ram_create(NULL, &fine, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_ram_create(&half, &fine, &s), SKIPPY_E_INVALID);
    test_entry_make(&e, &f->lib, 1, "0", NULL);
    assert_int_equal(skippy_ram_put(NULL, &e.m, test_library_source, &f->lib, &id), SKIPPY_E_INVALID);
    assert_int_equal(skippy_ram_put(f->s, NULL, test_library_source, &f->lib, &id), SKIPPY_E_INVALID);
    assert_int_equal(skippy_ram_put(f->s, &e.m, NULL, &f->lib, &id), SKIPPY_E_INVALID);
    assert_int_equal(skippy_ram_put(f->s, &e.m, test_library_source, &f->lib, NULL), SKIPPY_E_INVALID);
    e.m.n_tokens = 0;
    assert_int_equal(skippy_ram_put(f->s, &e.m, test_library_source, &f->lib, &id), SKIPPY_E_INVALID);
    assert_int_equal(skippy_ram_lease(NULL, 1, &m), SKIPPY_E_INVALID);
    assert_int_equal(skippy_ram_lease(f->s, 1, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_ram_lease(f->s, 0, &m), SKIPPY_E_NOT_FOUND);
    assert_int_equal(skippy_ram_release(NULL, 1), SKIPPY_E_INVALID);
    assert_int_equal(skippy_ram_read(f->s, &f->lib.ref[0], NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_ram_read(f->s, &f->lib.ref[0], buf), SKIPPY_E_NOT_FOUND);
    assert_int_equal(skippy_ram_drop(f->s, 1, SKIPPY_DROP_REASONS), SKIPPY_E_INVALID);
    assert_int_equal(skippy_ram_erase(NULL, &(skippy_erase_filter){0}), 0);
    assert_int_equal(skippy_ram_erase(f->s, NULL), 0);
    assert_false(skippy_ram_has(NULL, &f->lib.ref[0]));
    assert_int_equal(skippy_ram_check(NULL, false), SKIPPY_E_INVALID);
    skippy_ram_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        STORE_TEST(an_entry_comes_back_as_a_copy),
        STORE_TEST(the_source_is_asked_only_for_missing_blocks),
        STORE_TEST(equal_parts_are_kept_once),
        STORE_TEST(the_same_prefix_is_stored_once),
        STORE_TEST(another_kind_or_namespace_is_another_entry),
        STORE_TEST(an_entry_larger_than_the_limit_is_refused_before_anything_leaves),
        STORE_TEST(a_store_without_room_accepts_nothing),
        STORE_TEST(the_smallest_benefit_leaves_first),
        STORE_TEST(hits_keep_an_entry),
        STORE_TEST(of_worthless_entries_the_oldest_use_leaves_first),
        STORE_TEST(an_entry_is_judged_by_all_its_bytes),
        STORE_TEST(only_puts_and_leases_age_an_entry),
        STORE_TEST(eviction_goes_down_to_the_soft_limit),
        STORE_TEST(blocks_that_a_put_needs_are_not_evicted_for_it),
        STORE_TEST(leases_make_a_store_full_and_nothing_leaves_in_vain),
        STORE_TEST(leases_are_counted),
        STORE_TEST(a_hit_allocates_nothing),
        STORE_TEST(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests_name("ram_store", tests, NULL, NULL);
}
