#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/test_folder.h"
#include "cache/file_digest.h"

/* A scratch directory with a "model" of `size` bytes and a place for records. */
typedef struct scratch {
    char dir[200], model[256], cache[256], record[512];
} scratch;

static void write_file(const char *path, const void *data, size_t len) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static void overwrite_byte(const char *path, long at, int value) {
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fputc(value, f), value);
    assert_int_equal(fclose(f), 0);
}

static struct stat stat_of(const char *path) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st;
}

static int open_scratch(void **state) {
    const char *base = getenv("TMPDIR");
    scratch *s = calloc(1, sizeof *s);
    assert_non_null(s);
    snprintf(s->dir, sizeof s->dir, "%s/skippy-digest-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(s->dir));
    char canonical[PATH_MAX];
    snprintf(s->model, sizeof s->model, "%s/model", s->dir);
    snprintf(s->cache, sizeof s->cache, "%s/cache/digests", s->dir);
    write_file(s->model, "weights", 7);
    assert_non_null(realpath(s->model, canonical));
    uint8_t name[SK_HASH_BYTES];
    char hex[33];
    sk_hash(canonical, strlen(canonical), name);
    sk_hex(name, 16, hex);
    snprintf(s->record, sizeof s->record, "%s/%s.digest", s->cache, hex);
    *state = s;
    return 0;
}

static int close_scratch(void **state) {
    scratch *s = *state;
    int rc = test_remove_tree(s->dir);
    free(s);
    return rc;
}

/* Entries of a directory, without "." and "..". */
static size_t count_files(const char *dir) {
    size_t n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static void assert_digest_of(const skippy_key *k, const void *data, size_t len) {
    skippy_key want;
    sk_hash(data, len, want.bytes);
    assert_memory_equal(k, &want, sizeof want);
}

/* Digests with a record that is written at once; returns whether it came from one. */
static bool digest(const scratch *s, skippy_key *k) {
    bool from_cache = true;
    memset(k, 0, sizeof *k);
    assert_int_equal(sk_file_digest(s->model, s->cache, 0, NULL, NULL, k, &from_cache), SKIPPY_OK);
    return from_cache;
}

static bool on_read(void *ud, uint64_t done, uint64_t total) {
    (void)done;
    (void)total;
    *(bool *)ud = true;
    return true;
}

static void the_second_call_reads_the_record_only(void **state) {
    const scratch *s = *state;
    skippy_key k;
    bool read_content = false, from_cache = false;
    assert_false(digest(s, &k));
    assert_digest_of(&k, "weights", 7);
    memset(&k, 0, sizeof k);
    assert_int_equal(sk_file_digest(s->model, s->cache, 0, on_read, &read_content, &k, &from_cache), SKIPPY_OK);
    assert_true(from_cache);
    assert_false(read_content);
    assert_digest_of(&k, "weights", 7);
}

static void without_a_cache_directory_everything_is_read(void **state) {
    const scratch *s = *state;
    skippy_key k;
    bool from_cache = true;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(skippy_file_digest(s->model, NULL, NULL, NULL, &k, &from_cache), SKIPPY_OK);
        assert_false(from_cache);
        assert_digest_of(&k, "weights", 7);
    }
    assert_int_equal(skippy_file_digest(s->model, NULL, NULL, NULL, &k, NULL), SKIPPY_OK);
}

static void records_are_private_and_leave_no_temporary_files(void **state) {
    const scratch *s = *state;
    skippy_key k;
    digest(s, &k);
    assert_int_equal(stat_of(s->cache).st_mode & 0777, 0700);
    assert_int_equal(stat_of(s->record).st_mode & 0777, 0600);
    assert_int_equal(stat_of(s->record).st_size, SK_DIGEST_RECORD_BYTES);
    assert_int_equal(count_files(s->cache), 1);
}

static void a_file_that_just_changed_gets_no_record(void **state) {
    const scratch *s = *state;
    skippy_key k;
    bool from_cache;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sk_file_digest(s->model, s->cache, UINT64_MAX, NULL, NULL, &k, &from_cache), SKIPPY_OK);
        assert_false(from_cache);
    }
    assert_int_equal(access(s->record, F_OK), -1);
}

static void a_changed_size_is_read_again(void **state) {
    const scratch *s = *state;
    skippy_key k;
    digest(s, &k);
    write_file(s->model, "weights2", 8);
    assert_false(digest(s, &k));
    assert_digest_of(&k, "weights2", 8);
    assert_true(digest(s, &k));
}

static void a_changed_modification_time_is_read_again(void **state) {
    const scratch *s = *state;
    skippy_key k;
    digest(s, &k);
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000, .tv_nsec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, s->model, times, 0), 0);
    assert_false(digest(s, &k));
    assert_true(digest(s, &k));
}

static void set_modification_time(const char *path, const struct stat *like) {
    struct timespec times[2] = {like->st_atim, like->st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void an_edit_with_the_old_modification_time_is_read_again(void **state) {
    const scratch *s = *state;
    skippy_key k;
    digest(s, &k);
    struct stat before = stat_of(s->model), after;
    do { /* until the file system's clock has moved on */
        overwrite_byte(s->model, 0, 'W');
        set_modification_time(s->model, &before);
        after = stat_of(s->model);
    } while (after.st_ctim.tv_sec == before.st_ctim.tv_sec && after.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
    assert_true(after.st_mtim.tv_sec == before.st_mtim.tv_sec && after.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
    assert_int_equal(after.st_size, before.st_size);
    assert_false(digest(s, &k));
    assert_digest_of(&k, "Weights", 7);
}

static void a_replaced_file_is_read_again(void **state) {
    const scratch *s = *state;
    skippy_key k;
    digest(s, &k);
    struct stat before = stat_of(s->model);
    char other[300];
    snprintf(other, sizeof other, "%s.new", s->model);
    write_file(other, "WEIGHTS", 7);
    set_modification_time(other, &before);
    assert_int_equal(rename(other, s->model), 0);
    assert_true(stat_of(s->model).st_ino != before.st_ino);
    assert_false(digest(s, &k));
    assert_digest_of(&k, "WEIGHTS", 7);
}

static void every_damaged_byte_of_a_record_is_noticed(void **state) {
    const scratch *s = *state;
    skippy_key k;
    digest(s, &k);
    uint8_t good[SK_DIGEST_RECORD_BYTES];
    FILE *f = fopen(s->record, "rb");
    assert_non_null(f);
    assert_int_equal(fread(good, 1, sizeof good, f), sizeof good);
    assert_int_equal(fclose(f), 0);
    for (long at = 0; at < SK_DIGEST_RECORD_BYTES; at++) {
        overwrite_byte(s->record, at, good[at] ^ 0x10);
        assert_false(digest(s, &k)); /* ignored, and rewritten */
        assert_digest_of(&k, "weights", 7);
        assert_true(digest(s, &k));
    }
}

static void a_record_of_another_length_is_ignored(void **state) {
    const scratch *s = *state;
    skippy_key k;
    digest(s, &k);
    assert_int_equal(truncate(s->record, 100), 0);
    assert_false(digest(s, &k));
    assert_true(digest(s, &k));
    assert_int_equal(truncate(s->record, 0), 0);
    assert_false(digest(s, &k));
    assert_true(digest(s, &k));
    assert_int_equal(truncate(s->record, 4096), 0);
    assert_false(digest(s, &k));
}

static void a_record_that_others_can_write_is_ignored(void **state) {
    const scratch *s = *state;
    skippy_key k;
    digest(s, &k);
    assert_int_equal(chmod(s->record, 0622), 0);
    assert_false(digest(s, &k));
    assert_true(digest(s, &k)); /* the rewritten record is private again */
}

static void a_record_behind_a_symbolic_link_is_ignored(void **state) {
    const scratch *s = *state;
    skippy_key k;
    digest(s, &k);
    char moved[600];
    snprintf(moved, sizeof moved, "%s.moved", s->record);
    assert_int_equal(rename(s->record, moved), 0);
    assert_int_equal(symlink(moved, s->record), 0);
    assert_false(digest(s, &k));
    assert_true(digest(s, &k));
}

static void a_link_shares_the_record_of_its_target(void **state) {
    const scratch *s = *state;
    skippy_key k;
    char link_path[300];
    bool from_cache = false;
    digest(s, &k);
    snprintf(link_path, sizeof link_path, "%s.link", s->model);
    assert_int_equal(symlink(s->model, link_path), 0);
    assert_int_equal(sk_file_digest(link_path, s->cache, 0, NULL, NULL, &k, &from_cache), SKIPPY_OK);
    assert_true(from_cache);
}

static void what_is_not_a_readable_file_is_refused(void **state) {
    const scratch *s = *state;
    skippy_key k;
    char path[300];
    snprintf(path, sizeof path, "%s.missing", s->model);
    assert_int_equal(skippy_file_digest(path, s->cache, NULL, NULL, &k, NULL), SKIPPY_E_NOT_FOUND);
    snprintf(path, sizeof path, "%s/below", s->model);
    assert_int_equal(skippy_file_digest(path, s->cache, NULL, NULL, &k, NULL), SKIPPY_E_NOT_FOUND);
    assert_int_equal(skippy_file_digest(s->dir, s->cache, NULL, NULL, &k, NULL), SKIPPY_E_IO);
    snprintf(path, sizeof path, "%s.fifo", s->model);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(skippy_file_digest(path, s->cache, NULL, NULL, &k, NULL), SKIPPY_E_IO);
    assert_int_equal(skippy_file_digest(NULL, s->cache, NULL, NULL, &k, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_file_digest(s->model, s->cache, NULL, NULL, NULL, NULL), SKIPPY_E_INVALID);
    if (geteuid() == 0) {
        print_message("the check of a file without read permission is skipped: root reads everything\n");
        return;
    }
    assert_int_equal(chmod(s->model, 0), 0);
    assert_int_equal(skippy_file_digest(s->model, s->cache, NULL, NULL, &k, NULL), SKIPPY_E_IO);
}

static void a_cache_directory_that_cannot_be_used_costs_only_time(void **state) {
    const scratch *s = *state;
    skippy_key k;
    bool from_cache = true;
    char below_file[300], endless[PATH_MAX + 10];
    snprintf(below_file, sizeof below_file, "%s/digests", s->model);
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    const char *const unusable[] = {below_file, "/dev/null", "", endless};
    for (size_t i = 0; i < sizeof unusable / sizeof *unusable; i++) {
        assert_int_equal(sk_file_digest(s->model, unusable[i], 0, NULL, NULL, &k, &from_cache), SKIPPY_OK);
        assert_false(from_cache);
        assert_digest_of(&k, "weights", 7);
    }
}

static void a_record_that_cannot_be_read_is_no_error(void **state) {
    const scratch *s = *state;
    skippy_key k;
    digest(s, &k);
    assert_int_equal(unlink(s->record), 0);
    assert_int_equal(mkdir(s->record, 0700), 0); /* root could read a file without permissions, not this */
    assert_false(digest(s, &k));
    assert_digest_of(&k, "weights", 7);
    assert_int_equal(rmdir(s->record), 0);
    assert_false(digest(s, &k));
    assert_true(digest(s, &k));
}

/* ---- large files ---- */

enum { LARGE = 5 << 20 };

static uint8_t *make_large(const scratch *s) {
    uint8_t *data = malloc(LARGE);
    assert_non_null(data);
    for (size_t i = 0; i < LARGE; i++) data[i] = (uint8_t)(i * 2654435761u >> 24);
    write_file(s->model, data, LARGE);
    return data;
}

typedef struct progress_log {
    int calls, stop_after;
    uint64_t last, total;
} progress_log;

static bool on_progress(void *ud, uint64_t done, uint64_t total) {
    progress_log *p = ud;
    assert_true(done >= p->last && done <= total);
    p->last = done;
    p->total = total;
    return ++p->calls != p->stop_after;
}

static void a_large_file_is_read_in_pieces_with_progress(void **state) {
    const scratch *s = *state;
    skippy_key k;
    progress_log p = {0};
    uint8_t *data = make_large(s);
    assert_int_equal(sk_file_digest(s->model, s->cache, 0, on_progress, &p, &k, NULL), SKIPPY_OK);
    assert_digest_of(&k, data, LARGE);
    assert_int_equal(p.last, LARGE);
    assert_int_equal(p.total, LARGE);
    assert_true(p.calls >= 3);
    free(data);
}

static void cancelling_leaves_no_record(void **state) {
    const scratch *s = *state;
    skippy_key k;
    progress_log p = {.stop_after = 2};
    free(make_large(s));
    assert_int_equal(sk_file_digest(s->model, s->cache, 0, on_progress, &p, &k, NULL), SKIPPY_E_CANCELLED);
    assert_int_equal(p.calls, 2);
    assert_int_equal(access(s->record, F_OK), -1);
}

static bool append_once(void *ud, uint64_t done, uint64_t total) {
    (void)total;
    if (done) return true;
    FILE *f = fopen(ud, "ab");
    assert_non_null(f);
    assert_int_equal(fputc('x', f), 'x');
    assert_int_equal(fclose(f), 0);
    return true;
}

static void a_file_that_changes_while_it_is_read_has_no_digest(void **state) {
    scratch *s = *state;
    skippy_key k;
    assert_int_equal(sk_file_digest(s->model, s->cache, 0, append_once, s->model, &k, NULL), SKIPPY_E_IO);
    assert_int_equal(access(s->record, F_OK), -1);
}

static void an_empty_file_has_a_digest(void **state) {
    const scratch *s = *state;
    skippy_key k;
    write_file(s->model, "", 0);
    assert_false(digest(s, &k));
    assert_digest_of(&k, "", 0);
}

#define WITH_SCRATCH(f) cmocka_unit_test_setup_teardown(f, open_scratch, close_scratch)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_SCRATCH(the_second_call_reads_the_record_only),
        WITH_SCRATCH(without_a_cache_directory_everything_is_read),
        WITH_SCRATCH(records_are_private_and_leave_no_temporary_files),
        WITH_SCRATCH(a_file_that_just_changed_gets_no_record),
        WITH_SCRATCH(a_changed_size_is_read_again),
        WITH_SCRATCH(a_changed_modification_time_is_read_again),
        WITH_SCRATCH(an_edit_with_the_old_modification_time_is_read_again),
        WITH_SCRATCH(a_replaced_file_is_read_again),
        WITH_SCRATCH(every_damaged_byte_of_a_record_is_noticed),
        WITH_SCRATCH(a_record_of_another_length_is_ignored),
        WITH_SCRATCH(a_record_that_others_can_write_is_ignored),
        WITH_SCRATCH(a_record_behind_a_symbolic_link_is_ignored),
        WITH_SCRATCH(a_link_shares_the_record_of_its_target),
        WITH_SCRATCH(what_is_not_a_readable_file_is_refused),
        WITH_SCRATCH(a_cache_directory_that_cannot_be_used_costs_only_time),
        WITH_SCRATCH(a_record_that_cannot_be_read_is_no_error),
        WITH_SCRATCH(a_large_file_is_read_in_pieces_with_progress),
        WITH_SCRATCH(cancelling_leaves_no_record),
        WITH_SCRATCH(a_file_that_changes_while_it_is_read_has_no_digest),
        WITH_SCRATCH(an_empty_file_has_a_digest),
    };
    return cmocka_run_group_tests_name("file_digest", tests, NULL, NULL);
}
