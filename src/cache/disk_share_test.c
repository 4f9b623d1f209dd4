/* Several stores in one directory, several openers of one store. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/disk_fixture.h"

enum { BLOCK = 1500, SEGMENT = 12000, LIMIT = 300000 };

static found_list found;
static drop_list drops;

static int try_open(const scratch *t, const char *name, uint64_t max_bytes, skippy_disk_store **s,
                    skippy_disk_detail *detail) {
    skippy_disk_params p = {.dir = t->dir,
                            .name = name,
                            .max_bytes = max_bytes,
                            .segment_bytes = SEGMENT,
                            .on_drop = note_drop,
                            .ud = &drops};
    found.n = drops.n = 0;
    return skippy_disk_open(NULL, &p, note_found, NULL, &found, s, detail);
}

static skippy_disk_store *open_named(const scratch *t, const char *name, uint64_t max_bytes) {
    skippy_disk_store *s;
    skippy_disk_detail detail = {{0}};
    int status = try_open(t, name, max_bytes, &s, &detail);
    if (status != SKIPPY_OK) print_error("%s\n", detail.text);
    assert_int_equal(status, SKIPPY_OK);
    return s;
}

static uint64_t physical(skippy_disk_store *s) {
    skippy_store_stats stats;
    skippy_disk_get_stats(s, &stats);
    return stats.physical_bytes;
}

/* Puts conversations until `bytes` are used, one is refused, or another has to leave for it; returns how many. */
static unsigned fill_to(skippy_disk_store *s, unsigned first, uint64_t bytes) {
    unsigned n = 0;
    uint64_t id;
    size_t left = drops.n;
    while (drops.n == left && physical(s) < bytes && test_put_chat(s, first + n, 4, BLOCK, &id) == SKIPPY_OK) n++;
    return n;
}

typedef struct listing {
    char names[8][65];
    uint64_t bytes[8];
    bool owned[8];
    int n, stop_at;
} listing;

static int note_store(void *ud, const char *name, uint64_t bytes, bool owned) {
    listing *l = ud;
    assert_true(l->n < 8);
    snprintf(l->names[l->n], sizeof l->names[0], "%s", name);
    l->bytes[l->n] = bytes;
    l->owned[l->n] = owned;
    return ++l->n == l->stop_at ? 42 : 0;
}

static int named(const listing *l, const char *name) {
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->names[i], name) == 0) return i;
    return -1;
}

static listing list(const scratch *t) {
    listing l = {.n = 0};
    assert_int_equal(skippy_disk_list(t->dir, note_store, &l), SKIPPY_OK);
    return l;
}

/* ---- one store, several openers ---- */

static void a_store_has_one_owner_in_a_process(void **state) {
    scratch *t = *state;
    skippy_disk_store *s = open_named(t, "s", 0), *other;
    skippy_disk_detail detail = {{0}};
    assert_int_equal(try_open(t, "s", 0, &other, &detail), SKIPPY_E_BUSY);
    assert_non_null(strstr(detail.text, "this process"));
    assert_null(other);
    skippy_disk_close(s);
    s = open_named(t, "s", 0);
    skippy_disk_close(s);
}

static void an_owner_in_another_process_is_named(void **state) {
    scratch *t = *state;
    int ready[2], go[2];
    char byte, expected[32];
    skippy_disk_store *s;
    skippy_disk_detail detail = {{0}};
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int status = try_open(t, "s", 0, &s, NULL);
        if (write(ready[1], status == SKIPPY_OK ? "1" : "0", 1) != 1) _exit(1);
        if (read(go[0], &byte, 1) != 1) _exit(1);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, '1');
    assert_int_equal(try_open(t, "s", 0, &s, &detail), SKIPPY_E_BUSY);
    snprintf(expected, sizeof expected, "pid %d", (int)pid);
    assert_non_null(strstr(detail.text, expected));
    listing l = list(t);
    assert_int_equal(l.n, 1);
    assert_true(l.owned[0]);
    assert_int_equal(kill(pid, SIGKILL), 0); /* an owner that dies holds nothing any more */
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    s = open_named(t, "s", 0);
    skippy_disk_close(s);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(go[i]);
    }
}

static void a_store_in_use_can_be_read(void **state) {
    scratch *t = *state;
    skippy_disk_store *s = open_named(t, "s", 0), *reader;
    skippy_disk_detail detail = {{0}};
    skippy_erase_filter all = {0};
    uint64_t id, bad_blocks, bad_entries;
    size_t n, others;
    bool more;
    fill_to(s, 0, 60000);
    uint64_t before = folder_bytes(t->folder, &others);
    found.n = 0;
    assert_int_equal(skippy_disk_open_readonly(NULL, t->dir, "s", note_found, &found, &reader, &detail), SKIPPY_OK);
    assert_true(found.n > 3);
    for (size_t i = 0; i < found.n; i++)
        assert_int_equal(test_check(reader, found.id[i], found.chat[i], 4, BLOCK), SKIPPY_OK);
    assert_int_equal(test_put_chat(reader, 90, 2, BLOCK, &id), SKIPPY_E_UNSUPPORTED);
    assert_int_equal(skippy_disk_drop(reader, found.id[0], SKIPPY_DROP_EVICTED), SKIPPY_E_UNSUPPORTED);
    assert_int_equal(skippy_disk_erase(reader, &all, &n, &detail), SKIPPY_E_UNSUPPORTED);
    assert_int_equal(skippy_disk_compact(reader, &more, &detail), SKIPPY_E_UNSUPPORTED);
    assert_int_equal(skippy_disk_verify(reader, NULL, NULL, &bad_blocks, &bad_entries), SKIPPY_OK);
    assert_int_equal(bad_blocks, 0);
    /* The owner goes on meanwhile: what the reader has open it can still read, the rest is gone; it never gets other
     * bytes (test_check compares them). */
    assert_int_equal(folder_bytes(t->folder, &others), before);
    assert_int_equal(skippy_disk_erase(s, &all, &n, NULL), SKIPPY_OK);
    fill_to(s, 50, 60000);
    for (size_t i = 0; i < found.n; i++) {
        int status = test_check(reader, found.id[i], found.chat[i], 4, BLOCK);
        assert_true(status == SKIPPY_OK || status == SKIPPY_E_CORRUPT);
    }
    skippy_disk_close(reader);
    skippy_disk_close(s);
    assert_int_equal(skippy_disk_open_readonly(NULL, t->dir, "none", NULL, NULL, &reader, &detail), SKIPPY_E_IO);
    assert_non_null(strstr(detail.text, "none"));
    assert_int_equal(skippy_disk_open_readonly(NULL, t->dir, "../s", NULL, NULL, &reader, &detail), SKIPPY_E_INVALID);
}

static void a_reader_of_an_empty_folder_finds_nothing(void **state) {
    scratch *t = *state;
    skippy_disk_store *reader;
    size_t others;
    assert_int_equal(mkdir(t->folder, 0700), 0);
    found.n = 0;
    assert_int_equal(skippy_disk_open_readonly(NULL, t->dir, "s", note_found, &found, &reader, NULL), SKIPPY_OK);
    assert_int_equal(found.n, 0);
    assert_int_equal(folder_bytes(t->folder, &others), 0);
    skippy_disk_close(reader);
}

/* ---- several stores ---- */

static void stores_are_listed(void **state) {
    scratch *t = *state;
    char path[400];
    skippy_disk_store *a = open_named(t, "a", 0), *b = open_named(t, "b.2-x_Y", 0);
    fill_to(a, 0, 20000);
    uint64_t bytes_b = physical(b);
    skippy_disk_close(b);
    /* Neither of these is a store. */
    snprintf(path, sizeof path, "%s/folder", t->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/file", t->dir);
    file_write(path, "x", 1);
    snprintf(path, sizeof path, "%s/link", t->dir);
    assert_int_equal(symlink("a", path), 0);
    listing l = list(t);
    assert_int_equal(l.n, 2);
    assert_true(l.owned[named(&l, "a")]);
    assert_int_equal(l.bytes[named(&l, "a")], physical(a));
    assert_false(l.owned[named(&l, "b.2-x_Y")]);
    assert_int_equal(l.bytes[named(&l, "b.2-x_Y")], bytes_b);
    l = (listing){.stop_at = 1};
    assert_int_equal(skippy_disk_list(t->dir, note_store, &l), 42);
    assert_int_equal(l.n, 1);
    snprintf(path, sizeof path, "%s/nothing", t->dir);
    assert_int_equal(skippy_disk_list(path, note_store, &l), SKIPPY_E_IO);
    assert_int_equal(skippy_disk_list(NULL, note_store, &l), SKIPPY_E_INVALID);
    skippy_disk_close(a);
}

static void set_mtime(const scratch *t, const char *name, time_t when) {
    char command[700];
    snprintf(command, sizeof command, "%s/%s", t->dir, name);
    static const char *kinds[] = {"lock", "journal", "segment"};
    for (size_t i = 0; i < 3; i++) {
        char file[64], path[800];
        if (!folder_count(command, kinds[i], file)) continue;
        for (unsigned number = 0; number < 64; number++) {
            if (i == 0) snprintf(path, sizeof path, "%s/lock", command);
            if (i == 1) snprintf(path, sizeof path, "%s/journal-%010u.skj", command, number);
            if (i == 2) snprintf(path, sizeof path, "%s/segment-%010u.sks", command, number);
            struct timespec times[2] = {{when, 0}, {when, 0}};
            (void)utimensat(0, path, times, 0);
        }
    }
}

static void stores_without_an_owner_go_first_and_the_oldest_before_the_others(void **state) {
    scratch *t = *state;
    static const char *names[] = {"new", "old", "middle"};
    static const time_t when[] = {3000000, 1000000, 2000000};
    for (size_t i = 0; i < 3; i++) {
        skippy_disk_store *s = open_named(t, names[i], 0);
        fill_to(s, 0, 60000);
        skippy_disk_close(s);
        set_mtime(t, names[i], when[i]);
    }
    char foreign[400];
    snprintf(foreign, sizeof foreign, "%s/middle/notes", t->dir);
    file_write(foreign, "mine", 4);
    skippy_disk_store *s = open_named(t, "s", LIMIT);
    assert_int_equal(list(t).n, 4);
    drops.n = 0;
    fill_to(s, 0, LIMIT - 220000 + 40000);
    listing l = list(t);
    assert_int_equal(named(&l, "old"), -1);
    assert_true(named(&l, "new") >= 0 && named(&l, "middle") >= 0);
    fill_to(s, 100, LIMIT - 90000);
    l = list(t);
    assert_int_equal(named(&l, "middle"), -1);
    assert_true(named(&l, "new") >= 0);
    assert_int_equal(access(foreign, F_OK), 0); /* what is not ours stays */
    fill_to(s, 200, LIMIT - 20000);
    assert_int_equal(list(t).n, 1);
    assert_int_equal(drops.n, 0); /* nothing of the owner's own had to leave */
    assert_true(physical(s) <= LIMIT);
    skippy_disk_close(s);
}

static void a_store_that_was_removed_is_made_again(void **state) {
    scratch *t = *state;
    skippy_disk_store *idle = open_named(t, "idle", 0);
    fill_to(idle, 0, 200000);
    skippy_disk_close(idle);
    skippy_disk_store *s = open_named(t, "s", LIMIT);
    fill_to(s, 0, 200000);
    assert_int_equal(list(t).n, 1);
    idle = open_named(t, "idle", LIMIT);
    assert_int_equal(found.n, 0);
    skippy_disk_close(idle);
    skippy_disk_close(s);
}

static void stores_in_use_share_the_limit(void **state) {
    scratch *t = *state;
    uint64_t id;
    skippy_disk_store *a = open_named(t, "a", LIMIT);
    fill_to(a, 0, LIMIT - 30000);
    assert_int_equal(drops.n, 0);
    /* One that comes later finds the directory full; the first makes room for it when it stores something. */
    skippy_disk_store *b = open_named(t, "b", LIMIT);
    fill_to(b, 0, LIMIT);
    uint64_t at_once = physical(b);
    assert_true(at_once < 40000);
    drops.n = 0;
    assert_int_equal(test_put_chat(a, 500, 4, BLOCK, &id), SKIPPY_OK);
    assert_true(drops.n > 0);
    fill_to(b, 1000, LIMIT / 4 - 15000);
    assert_true(physical(b) >= LIMIT / 4 - 15000);
    for (unsigned i = 0; i < 100; i++) {
        skippy_disk_store *s = i % 2 ? a : b;
        int status = test_put_chat(s, 2000 + i, 4, BLOCK, &id);
        assert_true(status == SKIPPY_OK);
        assert_true(physical(a) + physical(b) <= LIMIT);
        assert_int_equal(test_check(s, id, 2000 + i, 4, BLOCK), SKIPPY_OK);
    }
    skippy_disk_close(a);
    skippy_disk_close(b);
}

static void housekeeping_makes_room_for_a_store_that_came_later(void **state) {
    scratch *t = *state;
    bool more = true;
    skippy_disk_store *a = open_named(t, "a", LIMIT);
    fill_to(a, 0, LIMIT - 30000);
    skippy_disk_store *b = open_named(t, "b", LIMIT);
    while (more) assert_int_equal(skippy_disk_compact(a, &more, NULL), SKIPPY_OK);
    assert_true(physical(a) <= LIMIT - LIMIT / 4);
    fill_to(b, 0, LIMIT / 4 - 15000);
    assert_true(physical(b) >= LIMIT / 4 - 15000);
    skippy_disk_close(a);
    skippy_disk_close(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        scratch_test(a_store_has_one_owner_in_a_process),
        scratch_test(an_owner_in_another_process_is_named),
        scratch_test(a_store_in_use_can_be_read),
        scratch_test(a_reader_of_an_empty_folder_finds_nothing),
        scratch_test(stores_are_listed),
        scratch_test(stores_without_an_owner_go_first_and_the_oldest_before_the_others),
        scratch_test(a_store_that_was_removed_is_made_again),
        scratch_test(stores_in_use_share_the_limit),
        scratch_test(housekeeping_makes_room_for_a_store_that_came_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
