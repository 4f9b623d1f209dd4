/* The disk store as its users see it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "cache/disk_fixture.h"
#include "cache/disk_internal.h"

enum { BLOCK = 2000, SEGMENT = 16000 };

static found_list found;
static drop_list drops;

static skippy_disk_store *open_limited(scratch *t, uint64_t max_bytes) {
    skippy_disk_store *s;
    skippy_disk_detail detail = {{0}};
    int status = scratch_open(t, NULL, max_bytes, SEGMENT, &found, &drops, &s, &detail);
    if (status != SKIPPY_OK) print_error("%s\n", detail.text);
    assert_int_equal(status, SKIPPY_OK);
    return s;
}

static skippy_disk_store *open_store(scratch *t) {
    return open_limited(t, 0);
}

static skippy_store_stats stats_of(skippy_disk_store *s) {
    skippy_store_stats stats;
    skippy_disk_get_stats(s, &stats);
    return stats;
}

static uint64_t put(skippy_disk_store *s, unsigned chat, unsigned turns) {
    uint64_t id = 0;
    assert_int_equal(test_put_chat(s, chat, turns, BLOCK, &id), SKIPPY_OK);
    assert_int_not_equal(id, 0);
    return id;
}

/* Is the run of bytes in a file of the folder? */
static bool on_disk(const scratch *t, const void *needle, size_t len) {
    static const char *prefixes[] = {"journal", "segment"};
    bool hit = false;
    for (unsigned number = 1; number < 64; number++) {
        for (size_t i = 0; i < 2; i++) {
            char name[SK_FILE_NAME_BYTES];
            struct stat st;
            size_t size;
            sk_file_name(name, i ? SK_FILE_SEGMENT : SK_FILE_JOURNAL, number, false);
            assert_memory_equal(name, prefixes[i], 7);
            if (stat(scratch_file(t, name), &st) != 0) continue;
            uint8_t *data = file_read(scratch_file(t, name), &size);
            hit |= memmem(data, size, needle, len) != NULL;
            free(data);
        }
    }
    return hit;
}

/* Are the tokens, or bytes of a block, of this turn of a conversation on the disk? */
static bool turn_on_disk(const scratch *t, unsigned chat, unsigned turn) {
    test_entry e;
    const void *data;
    uint8_t tokens[TEST_TOKENS * 4];
    test_entry_make(&e, chat, turn, BLOCK);
    for (size_t i = 0; i < TEST_TOKENS; i++)
        sk_put_u32(tokens + 4 * i, (uint32_t)e.tokens[(turn - 1) * TEST_TOKENS + i]);
    bool hit = on_disk(t, tokens, sizeof tokens);
    for (size_t i = 1; i < TEST_BLOCKS; i++) {
        const skippy_block_ref *ref = &e.refs[(turn - 1) * TEST_BLOCKS + i];
        if (ref->bytes < 16) continue;
        assert_int_equal(test_entry_source(&e, ref, &data), SKIPPY_OK);
        hit |= on_disk(t, data, ref->bytes);
    }
    test_entry_free(&e);
    return hit;
}

/* ---- storing ---- */

static void entries_come_back_after_a_reopen(void **state) {
    scratch *t = *state;
    uint64_t id[8];
    skippy_disk_store *s = open_store(t);
    assert_int_equal(found.n, 0);
    for (unsigned chat = 0; chat < 8; chat++) {
        id[chat] = put(s, chat, 1 + chat);
        assert_int_equal(test_check(s, id[chat], chat, 1 + chat, BLOCK), SKIPPY_OK);
    }
    check_accounts(t, s);
    skippy_disk_close(s);

    s = open_store(t);
    assert_int_equal(found.n, 8);
    for (size_t i = 0; i < found.n; i++) {
        assert_int_equal(found.turns[i], 1 + found.chat[i]);
        assert_int_equal(found.id[i], id[found.chat[i]]);
        assert_int_equal(test_check(s, found.id[i], found.chat[i], found.turns[i], BLOCK), SKIPPY_OK);
    }
    check_accounts(t, s);
    skippy_disk_close(s);
}

static void shared_blocks_are_asked_for_and_stored_once(void **state) {
    skippy_disk_store *s = open_store(*state);
    test_entry e;
    uint64_t id;
    put(s, 1, 5);
    skippy_store_stats before = stats_of(s);
    test_entry_make(&e, 1, 6, BLOCK);
    assert_int_equal(test_put(s, &e, &id), SKIPPY_OK);
    assert_int_equal(e.supplied, TEST_BLOCKS);
    skippy_store_stats after = stats_of(s);
    assert_int_equal(after.blocks, before.blocks + TEST_BLOCKS);
    assert_int_equal(after.block_refs, 11 * TEST_BLOCKS);
    uint64_t fresh = 0;
    for (size_t i = 5 * TEST_BLOCKS; i < 6 * TEST_BLOCKS; i++) fresh += e.refs[i].bytes;
    assert_int_equal(after.put_bytes, before.put_bytes + fresh);
    assert_int_equal(after.block_bytes, before.block_bytes + fresh);
    test_entry_free(&e);
    skippy_disk_close(s);
}

static void a_block_that_occurs_twice_in_an_entry_is_stored_once(void **state) {
    scratch *t = *state;
    skippy_disk_store *s = open_store(t);
    test_entry e;
    uint64_t id;
    test_entry_make(&e, 1, 2, BLOCK);
    e.refs[4] = e.refs[1];
    e.seeds[4] = e.seeds[1];
    assert_int_equal(test_put(s, &e, &id), SKIPPY_OK);
    assert_int_equal(e.supplied, 2 * TEST_BLOCKS - 1);
    assert_int_equal(stats_of(s).blocks, 2 * TEST_BLOCKS - 1);
    test_entry_free(&e);
    skippy_disk_close(s);
    s = open_store(t);
    assert_int_equal(found.n, 1);
    assert_int_equal(stats_of(s).blocks, 2 * TEST_BLOCKS - 1);
    assert_int_equal(stats_of(s).block_refs, 2 * TEST_BLOCKS);
    assert_int_equal(skippy_disk_drop(s, id, SKIPPY_DROP_SUPERSEDED), SKIPPY_OK);
    assert_int_equal(stats_of(s).blocks, 0);
    skippy_disk_close(s);
}

static void a_second_put_names_the_entry_that_is_there(void **state) {
    skippy_disk_store *s = open_store(*state);
    uint64_t first = put(s, 1, 2), second = 0;
    assert_int_equal(test_put_chat(s, 1, 2, BLOCK, &second), SKIPPY_E_EXISTS);
    assert_int_equal(second, first);
    assert_int_equal(stats_of(s).entries, 1);
    assert_int_equal(stats_of(s).puts, 1);
    skippy_disk_close(s);
}

static void a_source_that_fails_leaves_nothing(void **state) {
    scratch *t = *state;
    skippy_disk_store *s = open_store(t);
    put(s, 1, 3);
    for (int n = 0; n < 6 * TEST_BLOCKS; n++) {
        test_entry e;
        uint64_t id = 77;
        skippy_store_stats before = stats_of(s);
        test_entry_make(&e, 2, 8, BLOCK);
        e.fail_after = n;
        assert_int_equal(test_put(s, &e, &id), SKIPPY_E_RUNTIME);
        assert_int_equal(id, 77);
        skippy_store_stats after = stats_of(s);
        assert_int_equal(after.entries, before.entries);
        assert_int_equal(after.blocks, before.blocks);
        assert_int_equal(after.physical_bytes, before.physical_bytes);
        assert_false(skippy_disk_has(s, &e.refs[TEST_BLOCKS]));
        check_accounts(t, s);
        test_entry_free(&e);
    }
    skippy_disk_close(s);
}

static int other_bytes(void *ud, const skippy_block_ref *block, const void **data) {
    int status = test_entry_source(ud, block, data);
    ((test_entry *)ud)->buffer[0] ^= 1;
    return status;
}

static void a_source_that_gives_other_bytes_is_refused(void **state) {
    skippy_disk_store *s = open_store(*state);
    test_entry e;
    uint64_t id;
    skippy_disk_detail detail = {{0}};
    test_entry_make(&e, 2, 3, BLOCK);
    assert_int_equal(skippy_disk_put(s, &e.m, other_bytes, &e, &id, &detail), SKIPPY_E_CORRUPT);
    assert_non_null(strstr(detail.text, "digest"));
    assert_int_equal(stats_of(s).entries, 0);
    assert_int_equal(stats_of(s).blocks, 0);
    test_entry_free(&e);
    skippy_disk_close(s);
}

static void arguments_that_are_not_valid_are_refused(void **state) {
    scratch *t = *state;
    skippy_disk_store *s = open_store(t), *none;
    test_entry e;
    uint64_t id, n;
    size_t erased;
    bool more;
    uint8_t buf[BLOCK];
    const skippy_manifest *m;
    static const char *bad[] = {"", ".hidden", "a/b", "..", "with space", NULL};
    test_entry_make(&e, 2, 3, BLOCK);
    e.m.payload_kind = 99;
    assert_int_equal(test_put(s, &e, &id), SKIPPY_E_INVALID);
    e.m.payload_kind = SKIPPY_PAYLOAD_RESIDENT_KV;
    assert_int_equal(skippy_disk_put(s, &e.m, NULL, NULL, &id, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_disk_put(s, NULL, test_entry_source, NULL, &id, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_disk_put(s, &e.m, test_entry_source, &e, NULL, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_disk_put(NULL, &e.m, test_entry_source, &e, &id, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_disk_lease(s, 1, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_disk_lease(NULL, 1, &m), SKIPPY_E_INVALID);
    assert_int_equal(skippy_disk_release(NULL, 1), SKIPPY_E_INVALID);
    assert_int_equal(skippy_disk_read(s, NULL, buf), SKIPPY_E_INVALID);
    assert_int_equal(skippy_disk_read(s, &e.refs[0], NULL), SKIPPY_E_INVALID);
    assert_false(skippy_disk_has(s, NULL));
    assert_int_equal(skippy_disk_drop(NULL, 1, SKIPPY_DROP_EVICTED), SKIPPY_E_INVALID);
    assert_int_equal(skippy_disk_drop(s, 1, SKIPPY_DROP_REASONS), SKIPPY_E_INVALID);
    assert_int_equal(skippy_disk_erase(s, NULL, &erased, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_disk_compact(s, NULL, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_disk_compact(NULL, &more, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_disk_verify(s, NULL, NULL, NULL, &n), SKIPPY_E_INVALID);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        skippy_disk_params p = {.dir = t->dir, .name = bad[i]};
        assert_int_equal(skippy_disk_open(NULL, &p, NULL, NULL, NULL, &none, NULL), SKIPPY_E_INVALID);
    }
    test_entry_free(&e);
    skippy_disk_close(s);
    skippy_disk_close(NULL);
}

/* ---- leases, drops ---- */

static void a_leased_entry_cannot_be_dropped(void **state) {
    skippy_disk_store *s = open_store(*state);
    uint64_t id = put(s, 1, 2);
    const skippy_manifest *m;
    assert_int_equal(skippy_disk_lease(s, id, &m), SKIPPY_OK);
    assert_int_equal(skippy_disk_lease(s, id, &m), SKIPPY_OK);
    assert_int_equal(stats_of(s).leased, 1);
    assert_int_equal(skippy_disk_drop(s, id, SKIPPY_DROP_SUPERSEDED), SKIPPY_E_BUSY);
    assert_int_equal(skippy_disk_release(s, id), SKIPPY_OK);
    assert_int_equal(skippy_disk_drop(s, id, SKIPPY_DROP_SUPERSEDED), SKIPPY_E_BUSY);
    assert_int_equal(skippy_disk_release(s, id), SKIPPY_OK);
    assert_int_equal(skippy_disk_release(s, id), SKIPPY_E_NOT_FOUND);
    assert_int_equal(skippy_disk_drop(s, id, SKIPPY_DROP_SUPERSEDED), SKIPPY_OK);
    assert_int_equal(skippy_disk_drop(s, id, SKIPPY_DROP_SUPERSEDED), SKIPPY_E_NOT_FOUND);
    assert_int_equal(skippy_disk_lease(s, id, &m), SKIPPY_E_NOT_FOUND);
    assert_int_equal(skippy_disk_release(s, id + 1), SKIPPY_E_NOT_FOUND);
    assert_int_equal(drops.n, 0); /* the caller knows */
    assert_int_equal(stats_of(s).dropped[SKIPPY_DROP_SUPERSEDED], 1);
    skippy_disk_close(s);
}

static void a_dropped_entry_does_not_come_back_and_its_bytes_go(void **state) {
    scratch *t = *state;
    skippy_disk_store *s = open_store(t);
    bool more = true;
    uint64_t kept = put(s, 1, 4), id = put(s, 2, 9);
    uint64_t full = stats_of(s).physical_bytes;
    assert_int_equal(skippy_disk_drop(s, id, SKIPPY_DROP_SUPERSEDED), SKIPPY_OK);
    while (more) assert_int_equal(skippy_disk_compact(s, &more, NULL), SKIPPY_OK);
    assert_true(stats_of(s).physical_bytes < full / 2);
    check_accounts(t, s);
    assert_int_equal(test_check(s, kept, 1, 4, BLOCK), SKIPPY_OK);
    skippy_disk_close(s);
    s = open_store(t);
    assert_int_equal(found.n, 1);
    assert_int_equal(found.chat[0], 1);
    skippy_disk_close(s);
}

static void hits_and_recency_survive_a_close(void **state) {
    scratch *t = *state;
    faults f = {.use_clocks = true, .wall_ms = 5000};
    sk_io io = faults_io(&f);
    skippy_disk_store *s;
    const skippy_manifest *m;
    assert_int_equal(scratch_open(t, &io, 0, SEGMENT, &found, NULL, &s, NULL), SKIPPY_OK);
    uint64_t id = put(s, 1, 2);
    for (int i = 0; i < 3; i++) {
        f.wall_ms = 6000 + (uint64_t)i;
        assert_int_equal(skippy_disk_lease(s, id, &m), SKIPPY_OK);
        assert_int_equal(skippy_disk_release(s, id), SKIPPY_OK);
    }
    skippy_disk_close(s);
    assert_int_equal(scratch_open(t, &io, 0, SEGMENT, &found, NULL, &s, NULL), SKIPPY_OK);
    assert_int_equal(found.hits[0], 3);
    assert_int_equal(found.used_ms[0], 6002);
    skippy_disk_close(s);
    /* The clock was wrong then, or is now: a use cannot lie in the future. */
    f.wall_ms = 100;
    assert_int_equal(scratch_open(t, &io, 0, SEGMENT, &found, NULL, &s, NULL), SKIPPY_OK);
    assert_int_equal(found.used_ms[0], 100);
    assert_int_equal(test_check(s, id, 1, 2, BLOCK), SKIPPY_OK);
    skippy_disk_close(s);
}

static void numbers_of_entries_are_not_used_again(void **state) {
    scratch *t = *state;
    skippy_disk_store *s = open_store(t);
    uint64_t last = 0;
    skippy_erase_filter all = {0};
    size_t n;
    for (unsigned i = 0; i < 4; i++) {
        uint64_t id = put(s, 1, 2);
        assert_true(id > last);
        last = id;
        assert_int_equal(skippy_disk_erase(s, &all, &n, NULL), SKIPPY_OK); /* writes a new journal */
        skippy_disk_close(s);
        s = open_store(t);
    }
    skippy_disk_close(s);
}

/* ---- limit ---- */

static void the_entry_worth_least_is_evicted_first(void **state) {
    scratch *t = *state;
    skippy_disk_store *s = open_limited(t, 200000);
    uint64_t cheap = 0, dear = 0;
    for (unsigned chat = 1; drops.n == 0 && chat < 100; chat++) {
        test_entry e;
        uint64_t id;
        test_entry_make(&e, chat, 8, BLOCK);
        e.m.cost_ms = chat == 3 ? 1 : chat == 4 ? 1e9 : 1000;
        assert_int_equal(test_put(s, &e, &id), SKIPPY_OK);
        if (chat == 3) cheap = id;
        if (chat == 4) dear = id;
        test_entry_free(&e);
        check_accounts(t, s);
        assert_true(stats_of(s).physical_bytes <= 200000);
    }
    assert_true(drops.n > 0);
    assert_int_equal(drops.id[drops.n - 1], cheap); /* reported last in, first out */
    for (size_t i = 0; i < drops.n; i++) {
        assert_int_equal(drops.reason[i], SKIPPY_DROP_EVICTED);
        assert_int_not_equal(drops.id[i], dear);
    }
    assert_int_equal(stats_of(s).dropped[SKIPPY_DROP_EVICTED], drops.n);
    skippy_disk_close(s);
}

static void an_entry_larger_than_the_limit_evicts_nothing(void **state) {
    skippy_disk_store *s = open_limited(*state, 20000);
    uint64_t id;
    put(s, 1, 2);
    assert_int_equal(test_put_chat(s, 2, 12, BLOCK, &id), SKIPPY_E_TOO_LARGE);
    assert_int_equal(drops.n, 0);
    assert_int_equal(stats_of(s).entries, 1);
    assert_int_equal(stats_of(s).refused_too_large, 1);
    skippy_disk_close(s);
}

static void leased_entries_make_a_put_fail_rather_than_leave(void **state) {
    skippy_disk_store *s = open_limited(*state, 30000);
    const skippy_manifest *m;
    uint64_t id = put(s, 1, 6), other;
    assert_int_equal(skippy_disk_lease(s, id, &m), SKIPPY_OK);
    assert_int_equal(test_put_chat(s, 2, 6, BLOCK, &other), SKIPPY_E_FULL);
    assert_int_equal(stats_of(s).refused_full, 1);
    assert_int_equal(drops.n, 0);
    assert_int_equal(skippy_disk_release(s, id), SKIPPY_OK);
    assert_int_equal(test_put_chat(s, 2, 6, BLOCK, &other), SKIPPY_OK);
    assert_int_equal(drops.n, 1);
    assert_int_equal(test_check(s, other, 2, 6, BLOCK), SKIPPY_OK);
    skippy_disk_close(s);
}

static void a_lower_limit_is_kept_from_the_open_on(void **state) {
    scratch *t = *state;
    skippy_disk_store *s = open_store(t);
    for (unsigned chat = 1; chat < 20; chat++) put(s, chat, 6);
    assert_true(stats_of(s).physical_bytes > 100000);
    skippy_disk_close(s);
    s = open_limited(t, 100000);
    assert_true(stats_of(s).physical_bytes <= 100000);
    assert_int_equal(found.n, stats_of(s).entries);
    assert_true(found.n > 0 && found.n < 19);
    assert_int_equal(drops.n, 0); /* nobody knew of them yet */
    check_accounts(t, s);
    for (size_t i = 0; i < found.n; i++)
        assert_int_equal(test_check(s, found.id[i], found.chat[i], 6, BLOCK), SKIPPY_OK);
    skippy_disk_close(s);
}

/* ---- erase ---- */

static void erased_bytes_are_gone_from_the_files(void **state) {
    scratch *t = *state;
    skippy_disk_store *s = open_store(t);
    uint64_t ids[10];
    size_t n;
    skippy_erase_filter odd = {.tenant = "odd"};
    for (unsigned chat = 0; chat < 10; chat++) ids[chat] = put(s, chat, 4);
    /* One of them left a moment ago: it is meant too. */
    assert_int_equal(skippy_disk_drop(s, ids[5], SKIPPY_DROP_SUPERSEDED), SKIPPY_OK);
    for (unsigned chat = 1; chat < 10; chat++) assert_true(turn_on_disk(t, chat, 4));
    assert_int_equal(skippy_disk_erase(s, &odd, &n, NULL), SKIPPY_OK);
    assert_int_equal(n, 4);
    assert_int_equal(drops.n, 4);
    assert_int_equal(drops.reason[0], SKIPPY_DROP_ERASED);
    for (unsigned chat = 0; chat < 10; chat++) {
        assert_int_equal(turn_on_disk(t, chat, 4), chat % 2 == 0);
        if (chat % 2 == 0) assert_int_equal(test_check(s, ids[chat], chat, 4, BLOCK), SKIPPY_OK);
    }
    check_accounts(t, s);
    skippy_disk_close(s);
    s = open_store(t);
    assert_int_equal(found.n, 5);
    skippy_disk_close(s);
}

static void an_erase_by_prefix_keeps_what_others_share(void **state) {
    scratch *t = *state;
    skippy_disk_store *s = open_store(t);
    test_entry e;
    size_t n;
    uint64_t shorter = put(s, 1, 3);
    put(s, 1, 6);
    test_entry_make(&e, 1, 5, BLOCK);
    skippy_erase_filter f = {.ns = &e.m.ns, .tokens = e.tokens, .n_tokens = e.m.n_tokens, .cache_namespace = "three"};
    assert_int_equal(skippy_disk_erase(s, &f, &n, NULL), SKIPPY_OK);
    assert_int_equal(n, 1);
    assert_int_equal(test_check(s, shorter, 1, 3, BLOCK), SKIPPY_OK);
    assert_false(turn_on_disk(t, 1, 6));
    assert_false(skippy_disk_has(s, &e.refs[4 * TEST_BLOCKS]));
    test_entry_free(&e);
    skippy_disk_close(s);
}

static void an_erase_does_not_wait_for_leases(void **state) {
    scratch *t = *state;
    skippy_disk_store *s = open_store(t);
    const skippy_manifest *m, *again;
    skippy_erase_filter all = {0};
    uint8_t buf[BLOCK];
    size_t n;
    uint64_t id = put(s, 1, 3);
    assert_int_equal(skippy_disk_lease(s, id, &m), SKIPPY_OK);
    assert_int_equal(skippy_disk_erase(s, &all, &n, NULL), SKIPPY_OK);
    assert_int_equal(n, 1);
    assert_int_equal(drops.n, 1);
    assert_int_equal(m->n_tokens, 3 * TEST_TOKENS); /* the manifest is lent until the release */
    assert_int_equal(skippy_disk_read(s, &m->parts[0].blocks[1], buf), SKIPPY_E_NOT_FOUND);
    assert_int_equal(skippy_disk_lease(s, id, &again), SKIPPY_E_NOT_FOUND);
    assert_false(turn_on_disk(t, 1, 3));
    assert_int_equal(stats_of(s).leased, 1);
    assert_int_equal(skippy_disk_release(s, id), SKIPPY_OK);
    assert_int_equal(stats_of(s).leased, 0);
    skippy_disk_close(s);
}

/* ---- housekeeping ---- */

static void a_journal_of_old_records_is_rewritten(void **state) {
    scratch *t = *state;
    skippy_disk_store *s = open_store(t);
    char name[64];
    bool more = true;
    const skippy_manifest *m;
    uint64_t kept = put(s, 0, 2);
    for (unsigned i = 0; i < 200; i++) {
        uint64_t id = put(s, 1, 8);
        assert_int_equal(skippy_disk_drop(s, id, SKIPPY_DROP_SUPERSEDED), SKIPPY_OK);
    }
    assert_int_equal(skippy_disk_lease(s, kept, &m), SKIPPY_OK);
    assert_int_equal(skippy_disk_release(s, kept), SKIPPY_OK);
    for (int i = 0; more; i++) {
        assert_int_equal(skippy_disk_compact(s, &more, NULL), SKIPPY_OK);
        assert_true(i < 100);
    }
    assert_int_equal(folder_count(t->folder, "journal", name), 1);
    struct stat st;
    assert_int_equal(stat(scratch_file(t, name), &st), 0);
    assert_true(st.st_size < 4096);
    check_accounts(t, s);
    assert_int_equal(skippy_disk_compact(s, &more, NULL), SKIPPY_OK);
    assert_false(more);
    skippy_disk_close(s);
    s = open_store(t);
    assert_int_equal(found.n, 1);
    assert_int_equal(found.hits[0], 1);
    skippy_disk_close(s);
}

static void files_are_private(void **state) {
    scratch *t = *state;
    skippy_disk_store *s = open_store(t);
    char name[64];
    struct stat st;
    put(s, 1, 3);
    assert_int_equal(stat(t->folder, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    static const char *kinds[] = {"lock", "journal", "segment"};
    for (size_t i = 0; i < 3; i++) {
        assert_true(folder_count(t->folder, kinds[i], name) > 0);
        assert_int_equal(stat(scratch_file(t, name), &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
    }
    skippy_disk_close(s);
}

/* ---- opening ---- */

static bool stop_at_once(void *ud, uint64_t done, uint64_t total) {
    (void)ud;
    assert_true(done <= total);
    return false;
}

static bool want_no_more(void *ud, uint64_t id, const skippy_manifest *m) {
    (void)id;
    (void)m;
    return ++*(int *)ud < 2;
}

static void an_open_can_be_cancelled(void **state) {
    scratch *t = *state;
    skippy_disk_store *s = open_store(t);
    skippy_disk_params p = {.dir = t->dir, .name = "s"};
    int calls = 0;
    for (unsigned chat = 0; chat < 3; chat++) put(s, chat, 2);
    skippy_disk_close(s);
    assert_int_equal(skippy_disk_open(NULL, &p, NULL, stop_at_once, NULL, &s, NULL), SKIPPY_E_CANCELLED);
    assert_null(s);
    assert_int_equal(skippy_disk_open(NULL, &p, want_no_more, NULL, &calls, &s, NULL), SKIPPY_E_CANCELLED);
    assert_int_equal(calls, 2);
    s = open_store(t); /* the lock is free again */
    assert_int_equal(found.n, 3);
    skippy_disk_close(s);
}

static void a_directory_without_a_parent_is_not_made(void **state) {
    scratch *t = *state;
    char dir[400];
    skippy_disk_store *s;
    skippy_disk_detail detail = {{0}};
    skippy_disk_params p = {.dir = dir, .name = "s"};
    snprintf(dir, sizeof dir, "%s/a/b", t->dir);
    assert_int_equal(skippy_disk_open(NULL, &p, NULL, NULL, NULL, &s, &detail), SKIPPY_E_IO);
    assert_non_null(strstr(detail.text, dir));
    snprintf(dir, sizeof dir, "%s/a", t->dir);
    assert_int_equal(skippy_disk_open(NULL, &p, NULL, NULL, NULL, &s, &detail), SKIPPY_OK);
    skippy_disk_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        scratch_test(entries_come_back_after_a_reopen),
        scratch_test(shared_blocks_are_asked_for_and_stored_once),
        scratch_test(a_block_that_occurs_twice_in_an_entry_is_stored_once),
        scratch_test(a_second_put_names_the_entry_that_is_there),
        scratch_test(a_source_that_fails_leaves_nothing),
        scratch_test(a_source_that_gives_other_bytes_is_refused),
        scratch_test(arguments_that_are_not_valid_are_refused),
        scratch_test(a_leased_entry_cannot_be_dropped),
        scratch_test(a_dropped_entry_does_not_come_back_and_its_bytes_go),
        scratch_test(hits_and_recency_survive_a_close),
        scratch_test(numbers_of_entries_are_not_used_again),
        scratch_test(the_entry_worth_least_is_evicted_first),
        scratch_test(an_entry_larger_than_the_limit_evicts_nothing),
        scratch_test(leased_entries_make_a_put_fail_rather_than_leave),
        scratch_test(a_lower_limit_is_kept_from_the_open_on),
        scratch_test(erased_bytes_are_gone_from_the_files),
        scratch_test(an_erase_by_prefix_keeps_what_others_share),
        scratch_test(an_erase_does_not_wait_for_leases),
        scratch_test(a_journal_of_old_records_is_rewritten),
        scratch_test(files_are_private),
        scratch_test(an_open_can_be_cancelled),
        scratch_test(a_directory_without_a_parent_is_not_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
