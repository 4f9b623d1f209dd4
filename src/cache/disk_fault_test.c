/* System calls that fail, memory that runs out: what was stored stays, what was not is not half there. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/disk_fixture.h"
#include "cache/disk_internal.h"
#include "cache/test_alloc.h"

enum { BLOCK = 500, SEGMENT = 3000 };
static const uint64_t second_ns = 1000000000;

static found_list found;
static drop_list drops;
static faults f;
static sk_io io;

static skippy_disk_store *open_store(const scratch *t) {
    skippy_disk_store *s;
    skippy_disk_detail detail = {{0}};
    faults_clear(&f);
    f.use_clocks = true;
    f.wall_ms = 1000000;
    io = faults_io(&f);
    int status = scratch_open(t, &io, 0, SEGMENT, &found, &drops, &s, &detail);
    if (status != SKIPPY_OK) print_error("%s\n", detail.text);
    assert_int_equal(status, SKIPPY_OK);
    return s;
}

static uint64_t put(skippy_disk_store *s, unsigned chat, unsigned turns) {
    uint64_t id;
    assert_int_equal(test_put_chat(s, chat, turns, BLOCK, &id), SKIPPY_OK);
    return id;
}

static int try_put(skippy_disk_store *s, unsigned chat, unsigned turns, skippy_disk_detail *detail) {
    test_entry e;
    uint64_t id;
    test_entry_make(&e, chat, turns, BLOCK);
    int status = skippy_disk_put(s, &e.m, test_entry_source, &e, &id, detail);
    test_entry_free(&e);
    return status;
}

/* Every system call of a put fails once, each in its turn, with each errno value: the put is refused, the entries
 * before it are served, the same put succeeds after the pause, and the next open finds both. */
static void sweep_put(const scratch *t, enum sk_io_op op, int errnum) {
    for (int skip = 0;; skip++) {
        scratch own;
        skippy_disk_detail detail = {{0}};
        scratch_make(&own);
        skippy_disk_store *s = open_store(&own);
        uint64_t before = put(s, 1, 4);
        faults_clear(&f);
        f.error[op] = errnum;
        f.skip[op] = skip;
        f.times[op] = 1;
        int status = try_put(s, 2, 8, &detail);
        bool failed = f.error[op] == 0;
        if (failed && status != SKIPPY_OK) {
            assert_int_equal(status, SKIPPY_E_IO);
            assert_non_null(strstr(detail.text, strerror(errnum)));
            assert_non_null(strstr(detail.text, own.dir));
            assert_int_equal(test_check(s, before, 1, 4, BLOCK), SKIPPY_OK);
            /* Refused for a while without touching the device, then tried again. */
            faults_clear(&f);
            assert_int_equal(try_put(s, 3, 1, &detail), SKIPPY_E_IO);
            assert_int_equal(f.calls[SK_IO_WRITE], 0);
            f.mono_ns += 11 * second_ns;
            put(s, 2, 8);
        }
        faults_clear(&f);
        assert_int_equal(drops.n, 0);
        skippy_disk_close(s);
        s = open_store(&own);
        assert_int_equal(found.n, 2);
        check_accounts(&own, s);
        for (size_t i = 0; i < 2; i++)
            assert_int_equal(test_check(s, found.id[i], found.chat[i], found.turns[i], BLOCK), SKIPPY_OK);
        skippy_disk_close(s);
        scratch_remove(&own);
        if (!failed) break;
        assert_true(skip < 1000);
    }
    (void)t;
}

static void a_put_that_cannot_write_is_refused_and_repeated_later(void **state) {
    static const enum sk_io_op ops[] = {SK_IO_OPEN, SK_IO_WRITE, SK_IO_SYNC, SK_IO_RENAME};
    static const int errors[] = {ENOSPC, EIO, EROFS};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (size_t j = 0; j < 3; j++) sweep_put(*state, ops[i], errors[j]);
}

/* After a failed sync nobody knows what the device holds of the file: neither the journal nor the segment is continued.
 */
static void a_file_whose_sync_failed_is_not_written_again(void **state) {
    scratch *t = *state;
    char before[64], after[64];
    static const char *kinds[] = {"segment", "journal"}; /* in the order in which a put syncs them */
    for (size_t i = 0; i < 2; i++) {
        skippy_disk_detail detail = {{0}};
        skippy_disk_store *s = open_store(t);
        put(s, 10 + (unsigned)i, 1);
        folder_count(t->folder, kinds[i], before);
        f.error[SK_IO_SYNC] = EIO;
        f.skip[SK_IO_SYNC] = (int)i;
        f.times[SK_IO_SYNC] = 1;
        assert_int_equal(try_put(s, 20 + (unsigned)i, 1, &detail), SKIPPY_E_IO);
        assert_non_null(strstr(detail.text, before));
        f.mono_ns += 11 * second_ns;
        put(s, 20 + (unsigned)i, 1);
        folder_count(t->folder, kinds[i], after);
        assert_true(strcmp(after, before) > 0);
        check_accounts(t, s);
        skippy_disk_close(s);
    }
}

static void a_full_disk_serves_what_it_has(void **state) {
    scratch *t = *state;
    skippy_disk_store *s = open_store(t);
    skippy_disk_detail detail = {{0}};
    skippy_store_stats stats;
    bool more;
    uint64_t id = put(s, 1, 4);
    f.error[SK_IO_WRITE] = ENOSPC;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(try_put(s, 2, 4, &detail), SKIPPY_E_IO);
        assert_int_equal(test_check(s, id, 1, 4, BLOCK), SKIPPY_OK);
        f.mono_ns += 11 * second_ns;
    }
    skippy_disk_get_stats(s, &stats);
    assert_int_equal(stats.refused_io, 20);
    assert_int_equal(stats.entries, 1);
    assert_int_equal(skippy_disk_compact(s, &more, &detail), SKIPPY_E_IO); /* recency cannot be written */
    assert_false(more);
    f.error[SK_IO_WRITE] = 0;
    f.mono_ns += 11 * second_ns;
    put(s, 2, 4);
    check_accounts(t, s);
    skippy_disk_close(s);
}

/* Whatever call of an open fails: words and SKIPPY_E_IO, or the open does without; afterwards the store is whole. */
static void an_open_that_fails_changes_nothing(void **state) {
    scratch *t = *state;
    skippy_disk_store *s = open_store(t);
    for (unsigned chat = 0; chat < 5; chat++) put(s, chat, 3);
    skippy_disk_close(s);
    for (int op = 0; op < SK_IO_OPS; op++) {
        bool failed = true;
        for (int skip = 0; failed; skip++) {
            skippy_disk_detail detail = {{0}};
            faults_clear(&f);
            f.error[op] = EIO;
            f.skip[op] = skip;
            f.times[op] = 1;
            int status = scratch_open(t, &io, 0, SEGMENT, &found, NULL, &s, &detail);
            failed = f.error[op] == 0;
            assert_true(status == SKIPPY_OK || status == SKIPPY_E_IO);
            if (status == SKIPPY_OK) {
                assert_int_equal(found.n, 5);
                skippy_disk_close(s);
            } else {
                assert_non_null(strstr(detail.text, t->dir));
                assert_null(s);
            }
        }
    }
    s = open_store(t);
    assert_int_equal(found.n, 5);
    for (size_t i = 0; i < found.n; i++)
        assert_int_equal(test_check(s, found.id[i], found.chat[i], 3, BLOCK), SKIPPY_OK);
    skippy_disk_close(s);
}

static void a_read_error_is_reported_and_costs_nothing_else(void **state) {
    skippy_disk_store *s = open_store(*state);
    uint64_t id = put(s, 1, 3);
    f.error[SK_IO_READ] = EIO;
    assert_int_equal(test_check(s, id, 1, 3, BLOCK), SKIPPY_E_IO);
    assert_int_equal(drops.n, 0);
    faults_clear(&f);
    assert_int_equal(test_check(s, id, 1, 3, BLOCK), SKIPPY_OK);
    skippy_disk_close(s);
}

/* Every system call of an erase fails once: the entries are gone at once, the erase says that the files may not be
 * clean, and the next one cleans them. */
static void an_erase_that_fails_is_completed_by_the_next(void **state) {
    static const enum sk_io_op ops[] = {SK_IO_OPEN, SK_IO_WRITE, SK_IO_SYNC, SK_IO_RENAME, SK_IO_UNLINK, SK_IO_LIST};
    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        bool failed = true;
        for (int skip = 0; failed; skip++) {
            scratch own;
            size_t n;
            skippy_erase_filter odd = {.tenant = "odd"};
            scratch_make(&own);
            skippy_disk_store *s = open_store(&own);
            for (unsigned chat = 0; chat < 4; chat++) put(s, chat, 3);
            faults_clear(&f);
            f.error[ops[i]] = EIO;
            f.skip[ops[i]] = skip;
            f.times[ops[i]] = 1;
            int status = skippy_disk_erase(s, &odd, &n, NULL);
            failed = f.error[ops[i]] == 0;
            assert_int_equal(n, 2);
            assert_int_equal(drops.n, 2);
            assert_true(status == SKIPPY_OK || (failed && status == SKIPPY_E_IO));
            faults_clear(&f);
            if (status != SKIPPY_OK) assert_int_equal(skippy_disk_erase(s, &odd, &n, NULL), SKIPPY_OK);
            check_accounts(&own, s);
            skippy_store_stats stats;
            skippy_disk_get_stats(s, &stats);
            assert_int_equal(stats.entries, 2);
            skippy_disk_close(s);
            s = open_store(&own);
            assert_int_equal(found.n, 2);
            check_accounts(&own, s);
            skippy_disk_close(s);
            scratch_remove(&own);
        }
    }
}

/* ---- memory ---- */

static int open_with(const scratch *t, const skippy_allocator *hooks, skippy_disk_store **s) {
    skippy_disk_params p = {.dir = t->dir, .name = "s", .segment_bytes = SEGMENT, .max_bytes = 40000};
    return skippy_disk_open(hooks, &p, NULL, NULL, NULL, s, NULL);
}

static void session(const scratch *t, const skippy_allocator *hooks) {
    skippy_disk_store *s;
    const skippy_manifest *m;
    skippy_erase_filter odd = {.tenant = "odd"};
    uint64_t id, bad_blocks, bad_entries;
    size_t n;
    bool more;
    if (open_with(t, hooks, &s) != SKIPPY_OK) return;
    for (unsigned chat = 0; chat < 6; chat++) {
        int status = try_put(s, chat, 6, NULL);
        assert_true(status == SKIPPY_OK || status == SKIPPY_E_NOMEM || status == SKIPPY_E_EXISTS);
    }
    for (id = 1; id < 8; id++) {
        if (skippy_disk_lease(s, id, &m) != SKIPPY_OK) continue;
        assert_int_equal(skippy_disk_release(s, id), SKIPPY_OK);
        (void)skippy_disk_drop(s, id, SKIPPY_DROP_SUPERSEDED);
        break;
    }
    int status = skippy_disk_verify(s, NULL, NULL, &bad_blocks, &bad_entries);
    assert_true(status == SKIPPY_OK || status == SKIPPY_E_NOMEM);
    if (status == SKIPPY_OK) assert_int_equal(bad_blocks, 0);
    (void)skippy_disk_compact(s, &more, NULL);
    (void)skippy_disk_erase(s, &odd, &n, NULL);
    skippy_disk_close(s);
}

static void memory_that_runs_out_anywhere_is_an_error_and_no_more(void **state) {
    (void)state;
    size_t calls = 0;
    for (size_t fail_at = 0; fail_at <= calls; fail_at++) { /* 0: none fails, and they are counted */
        scratch own;
        size_t n_bad = 0;
        test_heap heap = {.fail_at = fail_at};
        skippy_allocator hooks = test_heap_hooks(&heap);
        scratch_make(&own);
        session(&own, &hooks);
        assert_int_equal(heap.live, 0);
        if (fail_at == 0) calls = heap.calls;
        skippy_disk_store *s = open_store(&own);
        check_accounts(&own, s);
        for (size_t i = 0; i < found.n; i++)
            n_bad += test_check(s, found.id[i], found.chat[i], found.turns[i], BLOCK) != SKIPPY_OK;
        assert_int_equal(n_bad, 0);
        skippy_disk_close(s);
        scratch_remove(&own);
    }
    assert_true(calls > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        scratch_test(a_put_that_cannot_write_is_refused_and_repeated_later),
        scratch_test(a_file_whose_sync_failed_is_not_written_again),
        scratch_test(a_full_disk_serves_what_it_has),
        scratch_test(an_open_that_fails_changes_nothing),
        scratch_test(a_read_error_is_reported_and_costs_nothing_else),
        scratch_test(an_erase_that_fails_is_completed_by_the_next),
        scratch_test(memory_that_runs_out_anywhere_is_an_error_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
