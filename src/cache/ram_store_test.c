#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/ram_store_internal.h"
#include "cache/test_alloc.h"
#include "cache/test_payload.h"

/* Ten blocks: '0' .. '4' small ones, '5' .. '9' of 100,000 bytes. */
static const uint32_t sizes[] = {100, 200, 300, 4000, 5000, 100000, 100000, 100000, 100000, 100000};

/* A store, its blocks, and what on_drop was told. */
typedef struct fixture {
    skippy_ram_store *s;
    test_library lib;
    test_heap heap;
    skippy_allocator hooks;
    struct {
        uint64_t id;
        enum skippy_drop_reason reason;
    } dropped[16];
    size_t n_dropped;
} fixture;

static void note_drop(void *ud, uint64_t id, enum skippy_drop_reason reason) {
    fixture *f = ud;
    assert_true(f->n_dropped < 16);
    f->dropped[f->n_dropped].id = id;
    f->dropped[f->n_dropped++].reason = reason;
    skippy_store_stats st;
    skippy_ram_get_stats(f->s, &st); /* would never come back if the lock were held */
}

static void reopen(fixture *f, uint64_t max_bytes, uint64_t soft_bytes) {
    skippy_ram_destroy(f->s);
    const skippy_ram_params p = {.max_bytes = max_bytes, .soft_bytes = soft_bytes, .on_drop = note_drop, .ud = f};
    f->hooks = test_heap_hooks(&f->heap);
    assert_int_equal(skippy_ram_create(&f->hooks, &p, &f->s), SKIPPY_OK);
}

static int open_store(void **state) {
    fixture *f = calloc(1, sizeof *f);
    if (!f) return -1;
    test_library_open(&f->lib, sizes, sizeof sizes / sizeof *sizes);
    reopen(f, 450000, 0); /* four large blocks and some small ones */
    *state = f;
    return 0;
}

static int close_store(void **state) {
    fixture *f = *state;
    int check = skippy_ram_check(f->s, true);
    skippy_ram_destroy(f->s);
    test_library_close(&f->lib);
    size_t live = f->heap.live;
    free(f);
    return check == SKIPPY_OK && live == 0 ? 0 : -1;
}

static skippy_store_stats stats_of(const fixture *f) {
    skippy_store_stats s;
    skippy_ram_get_stats(f->s, &s);
    return s;
}

static int put_entry(fixture *f, const test_entry *e, uint64_t *id) {
    int status = skippy_ram_put(f->s, &e->m, test_library_source, &f->lib, id);
    assert_int_equal(skippy_ram_check(f->s, true), SKIPPY_OK);
    return status;
}

static int try_put(fixture *f, uint32_t prefix, const char *part0, const char *part1) {
    test_entry e;
    uint64_t id;
    test_entry_make(&e, &f->lib, prefix, part0, part1);
    return put_entry(f, &e, &id);
}

static uint64_t put_costing(fixture *f, uint32_t prefix, const char *part0, const char *part1, double cost) {
    test_entry e;
    uint64_t id = 0;
    test_entry_make(&e, &f->lib, prefix, part0, part1);
    e.m.cost_ms = cost;
    assert_int_equal(put_entry(f, &e, &id), SKIPPY_OK);
    assert_true(id != 0);
    return id;
}

static uint64_t put(fixture *f, uint32_t prefix, const char *part0, const char *part1) {
    return put_costing(f, prefix, part0, part1, 10);
}

static int lease(fixture *f, uint64_t id) {
    const skippy_manifest *m;
    return skippy_ram_lease(f->s, id, &m);
}

static int read_block(fixture *f, size_t n) {
    static unsigned char buf[100000];
    int status = skippy_ram_read(f->s, &f->lib.ref[n], buf);
    if (status == SKIPPY_OK) assert_memory_equal(buf, f->lib.data[n], sizes[n]);
    assert_int_equal(skippy_ram_check(f->s, false), SKIPPY_OK);
    return status;
}

static void flip_a_bit(fixture *f, size_t n) {
    sk_ram_block *b = sk_ram_block_find(f->s, &f->lib.ref[n]);
    assert_non_null(b);
    b->data[sizes[n] / 2] ^= 4;
}

static void assert_dropped(const fixture *f, uint64_t id, enum skippy_drop_reason reason) {
    for (size_t i = 0; i < f->n_dropped; i++)
        if (f->dropped[i].id == id && f->dropped[i].reason == reason) return;
    fail_msg("entry %llu was not dropped", (unsigned long long)id);
}

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
    tenant[0] = 'x';

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

static uint64_t exclusive(fixture *f, uint64_t id) {
    pthread_mutex_lock(&f->s->lock);
    f->s->round++;
    double bytes = sk_ram_exclusive(f->s, sk_ram_entry_find(f->s, id));
    pthread_mutex_unlock(&f->s->lock);
    return (uint64_t)bytes;
}

static void a_shared_block_costs_each_entry_its_share(void **state) {
    fixture *f = *state;
    uint64_t alone = put(f, 1, "6", NULL), a = put(f, 2, "5", "0"), b = put(f, 3, "5", "1");
    assert_in_range(exclusive(f, a), 50100, 51600); /* with metadata */
    assert_in_range(exclusive(f, b), 50200, 51700);
    assert_in_range(exclusive(f, alone), 100000, 101500);
    put(f, 4, "789", NULL);
    assert_int_equal(f->n_dropped, 1);
    assert_dropped(f, alone, SKIPPY_DROP_EVICTED);
}

static void a_block_of_unequal_parts_is_shared_too(void **state) {
    fixture *f = *state;
    uint64_t a = put(f, 1, "05", NULL), b = put(f, 2, "15", NULL), c = put(f, 3, "25", NULL);
    assert_in_range(exclusive(f, a), 33433, 35000);
    assert_int_equal(skippy_ram_drop(f->s, a, SKIPPY_DROP_SUPERSEDED), SKIPPY_OK);
    assert_in_range(exclusive(f, b), 50200, 51700);
    assert_in_range(exclusive(f, c), 50300, 51800);
    assert_int_equal(skippy_ram_drop(f->s, b, SKIPPY_DROP_SUPERSEDED), SKIPPY_OK);
    assert_in_range(exclusive(f, c), 100300, 101800);
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

static size_t left_after_erase(const test_library *lib, const void *needle, bool leased) {
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
    assert_int_equal(skippy_ram_put(s, &e.m, test_library_source, (void *)(uintptr_t)lib, &id), SKIPPY_OK);
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

#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, open_store, close_store)

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
        STORE_TEST(a_shared_block_costs_each_entry_its_share),
        STORE_TEST(a_block_of_unequal_parts_is_shared_too),
        STORE_TEST(eviction_goes_down_to_the_soft_limit),
        STORE_TEST(blocks_that_a_put_needs_are_not_evicted_for_it),
        STORE_TEST(leases_make_a_store_full_and_nothing_leaves_in_vain),
        STORE_TEST(a_source_that_fails_leaves_nothing),
        STORE_TEST(other_bytes_than_promised_leave_nothing),
        STORE_TEST(a_source_without_bytes_is_corrupt),
        STORE_TEST(no_memory_at_any_point_leaves_nothing),
        cmocka_unit_test(a_store_that_gets_no_memory_is_not_created),
        STORE_TEST(a_prefix_that_was_stored_meanwhile_wins),
        STORE_TEST(blocks_and_parts_that_were_stored_meanwhile_are_used),
        STORE_TEST(a_put_starts_again_when_its_block_is_quarantined),
        STORE_TEST(a_put_keeps_the_blocks_that_it_found),
        STORE_TEST(leases_are_counted),
        STORE_TEST(a_hit_allocates_nothing),
        STORE_TEST(a_bad_block_quarantines_every_entry_that_names_it),
        STORE_TEST(quarantined_state_can_be_stored_anew_while_it_is_leased),
        STORE_TEST(erase_drops_what_the_filter_means),
        STORE_TEST(an_erased_entry_goes_when_its_leases_end),
        STORE_TEST(erased_bytes_and_tokens_are_overwritten),
        STORE_TEST(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests_name("ram_store", tests, NULL, NULL);
}
