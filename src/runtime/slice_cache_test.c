/* Stage files in a cache folder: reused, repaired, bounded, shared by processes. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/test_folder.h"
#include "runtime/slice_fixture.h"
#include "runtime/slice_internal.h"

static char cache_dir[512];
static sk_tensor_source source;
static bool have_source;

static int fresh_cache(void **state) {
    (void)state;
    snprintf(cache_dir, sizeof cache_dir, "%s/cache/stages", sx_dir());
    return access(cache_dir, F_OK) == 0 ? test_remove_tree(cache_dir) : 0;
}

static int open_all(void **state) {
    if (sx_setup(state)) return -1;
    have_source = sx_source("llama", &source);
    return 0;
}

static int close_all(void **state) {
    sk_tensor_source_close(&source);
    return sx_teardown(state);
}

static int materialise(int32_t start, int32_t end, uint64_t max_bytes, sk_slice_file *f, sk_err *e) {
    const sk_slice_cache c = {.dir = cache_dir, .max_bytes = max_bytes};
    return sk_slice_materialise(&source, (sk_layer_range){start, end}, &c, NULL, NULL, f, e);
}

/* Takes a stage that must come, and says whether it was written. */
static bool take(int32_t start, int32_t end, uint64_t max_bytes, sk_slice_file *f) {
    sk_err e = {0};
    if (!have_source) skip();
    if (materialise(start, end, max_bytes, f, &e)) fail_msg("%s", e.text);
    assert_int_equal(access(f->path, R_OK), 0);
    return f->written;
}

static bool taken_and_released(int32_t start, int32_t end, uint64_t max_bytes) {
    sk_slice_file f;
    bool written = take(start, end, max_bytes, &f);
    sk_slice_release(&f);
    assert_int_equal(f.lock, -1);
    return written;
}

static bool is_there(int32_t start, int32_t end, const char *suffix) {
    char hex[17], path[700];
    sk_hex(source.digest.bytes, 8, hex);
    snprintf(path, sizeof path, "%s/%s-%d-%d-v%d%s", cache_dir, hex, start, end, SK_SLICE_VERSION, suffix);
    return access(path, F_OK) == 0;
}

static void change_byte(const char *path, off_t at) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    uint8_t b = 0;
    assert_true(fd >= 0 && pread(fd, &b, 1, at) == 1);
    b ^= 0x40;
    assert_int_equal(pwrite(fd, &b, 1, at), 1);
    close(fd);
}

static uint64_t size_of(int32_t start, int32_t end) {
    uint64_t size = 0;
    assert_int_equal(sk_slice_file_size(&source, (sk_layer_range){start, end}, &size, NULL), SKIPPY_OK);
    return size;
}

static void the_second_call_takes_the_first_ones_file(void **state) {
    (void)state;
    sk_slice_file a, b;
    skippy_key key;
    assert_true(take(2, 4, 0, &a));
    assert_false(take(2, 4, 0, &b));
    assert_string_equal(a.path, b.path);
    assert_true(skippy_key_equal(&a.digest, &b.digest));
    assert_int_equal(skippy_file_digest(a.path, NULL, NULL, NULL, &key, NULL), SKIPPY_OK);
    assert_true(skippy_key_equal(&a.digest, &key));
    assert_false(is_there(2, 4, ".gguf.partial"));
    sk_slice_release(&a);
    sk_slice_release(&b);
}

static void a_damaged_file_is_written_anew(void **state) {
    (void)state;
    sk_slice_file f;
    assert_true(take(0, 2, 0, &f));
    change_byte(f.path, (off_t)size_of(0, 2) - 500); /* in a tensor */
    sk_slice_release(&f);
    assert_true(taken_and_released(0, 2, 0));
    assert_false(taken_and_released(0, 2, 0));
}

static void a_file_that_does_not_agree_with_its_record_is_written_anew(void **state) {
    (void)state;
    char record[700];
    sk_slice_file f;
    assert_true(take(0, 2, 0, &f));
    assert_int_equal(truncate(f.path, 5000), 0);
    snprintf(record, sizeof record, "%.*s.record", (int)(strlen(f.path) - strlen(".gguf")), f.path);
    sk_slice_release(&f);
    assert_true(taken_and_released(0, 2, 0));
    change_byte(record, 20); /* the digest in the record */
    assert_true(taken_and_released(0, 2, 0));
    assert_int_equal(unlink(record), 0);
    assert_true(taken_and_released(0, 2, 0));
    assert_false(taken_and_released(0, 2, 0));
}

/* Right size, right record, other layers: somebody renamed files. */
static void a_file_of_other_layers_is_not_taken(void **state) {
    (void)state;
    static const char *const suffix[] = {".gguf", ".record"};
    char hex[17], from[700], to[700];
    assert_true(taken_and_released(1, 2, 0));
    sk_hex(source.digest.bytes, 8, hex);
    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof from, "%s/%s-1-2-v%d%s", cache_dir, hex, SK_SLICE_VERSION, suffix[i]);
        snprintf(to, sizeof to, "%s/%s-2-3-v%d%s", cache_dir, hex, SK_SLICE_VERSION, suffix[i]);
        assert_int_equal(rename(from, to), 0);
    }
    assert_true(taken_and_released(2, 3, 0));
}

static void the_longest_unused_file_makes_room(void **state) {
    (void)state;
    uint64_t max = 2 * size_of(2, 3) + size_of(2, 3) / 2; /* two and a half of them */
    assert_true(taken_and_released(1, 2, max));
    assert_true(taken_and_released(2, 3, max));
    assert_false(taken_and_released(1, 2, max)); /* used again: now 2..3 is the oldest */
    assert_true(taken_and_released(3, 4, max));
    assert_true(is_there(1, 2, ".gguf"));
    assert_true(is_there(3, 4, ".gguf"));
    assert_false(is_there(2, 3, ".gguf"));
    assert_false(is_there(2, 3, ".record"));
    assert_false(is_there(2, 3, ".lock"));
}

static void what_is_in_use_is_not_removed(void **state) {
    (void)state;
    uint64_t max = size_of(2, 3) + size_of(2, 3) / 2;
    sk_slice_file a, b;
    sk_err e = {0};
    assert_true(take(1, 2, max, &a));
    assert_int_equal(materialise(2, 3, max, &b, &e), SKIPPY_E_FULL);
    assert_null(b.path);
    assert_true(is_there(1, 2, ".gguf"));
    assert_false(is_there(2, 3, ".gguf.partial"));
    sk_slice_release(&a);
    assert_true(taken_and_released(2, 3, max));
    assert_false(is_there(1, 2, ".gguf"));
}

static void a_stage_larger_than_the_folder_is_refused(void **state) {
    (void)state;
    sk_slice_file f;
    sk_err e = {0};
    if (!have_source) skip();
    assert_int_equal(materialise(0, 2, 1000, &f, &e), SKIPPY_E_TOO_LARGE);
    assert_null(f.path);
    assert_int_equal(f.lock, -1);
}

static void files_of_others_are_not_touched(void **state) {
    (void)state;
    char path[700];
    uint64_t max = size_of(2, 3) + 100;
    assert_true(taken_and_released(1, 2, max));
    snprintf(path, sizeof path, "%s/notes.gguf", cache_dir);
    assert_true(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0 && truncate(path, 1 << 20) == 0);
    assert_true(taken_and_released(2, 3, max));
    assert_int_equal(access(path, F_OK), 0);
}

/* What a killed writer left behind counts and is removed like a file that nobody uses. */
static void a_left_over_of_a_killed_writer_makes_room(void **state) {
    (void)state;
    char hex[17], path[700];
    uint64_t max = size_of(2, 3) + 100;
    assert_true(taken_and_released(1, 2, 0));
    sk_hex(source.digest.bytes, 8, hex);
    snprintf(path, sizeof path, "%s/%s-3-4-v%d.gguf.partial", cache_dir, hex, SK_SLICE_VERSION);
    assert_true(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0 && truncate(path, 1 << 20) == 0);
    assert_true(taken_and_released(2, 3, max));
    assert_int_not_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/%s-3-4-v%d.gguf.partial", cache_dir, hex, SK_SLICE_VERSION);
    assert_true(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0 && truncate(path, 1 << 24) == 0);
    assert_true(taken_and_released(3, 4, max)); /* its own */
}

static bool stop_now(void *ud, uint64_t done, uint64_t total) {
    (void)ud;
    (void)done;
    (void)total;
    return false;
}

static void a_stopped_call_leaves_no_file(void **state) {
    (void)state;
    const sk_slice_cache c = {.dir = cache_dir};
    sk_slice_file f;
    sk_err e = {0};
    if (!have_source) skip();
    assert_int_equal(sk_slice_materialise(&source, (sk_layer_range){0, 2}, &c, stop_now, NULL, &f, &e),
                     SKIPPY_E_CANCELLED);
    assert_null(f.path);
    assert_false(is_there(0, 2, ".gguf"));
    assert_false(is_there(0, 2, ".gguf.partial"));
    assert_true(taken_and_released(0, 2, 0));
}

/* The writer holds this lock; one who waits for it can be stopped. */
static void waiting_for_another_writer_can_be_stopped(void **state) {
    (void)state;
    char hex[17], path[700];
    const sk_slice_cache c = {.dir = cache_dir};
    sk_slice_file f;
    sk_err e = {0};
    assert_true(taken_and_released(0, 1, 0)); /* makes the folder */
    sk_hex(source.digest.bytes, 8, hex);
    snprintf(path, sizeof path, "%s/%s-0-2-v%d.write", cache_dir, hex, SK_SLICE_VERSION);
    int lock = sk_slice_lock(path, LOCK_EX, NULL, NULL);
    assert_true(lock >= 0);
    assert_int_equal(sk_slice_materialise(&source, (sk_layer_range){0, 2}, &c, stop_now, NULL, &f, &e),
                     SKIPPY_E_CANCELLED);
    assert_non_null(strstr(e.text, "waiting"));
    close(lock);
}

static void folders_that_cannot_be_made_are_errors(void **state) {
    (void)state;
    char path[700];
    sk_slice_file f;
    sk_err e = {0};
    if (!have_source) skip();
    snprintf(path, sizeof path, "%s/plain", sx_dir());
    assert_true(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0);
    sk_slice_cache c = {.dir = path};
    assert_int_equal(sk_slice_materialise(&source, (sk_layer_range){0, 2}, &c, NULL, NULL, &f, &e), SKIPPY_E_IO);
    c.dir = "";
    assert_int_equal(sk_slice_materialise(&source, (sk_layer_range){0, 2}, &c, NULL, NULL, &f, &e), SKIPPY_E_INVALID);
    c.dir = cache_dir;
    assert_int_equal(sk_slice_materialise(&source, (sk_layer_range){0, 9}, &c, NULL, NULL, &f, &e), SKIPPY_E_INVALID);
}

/* Children start together; each exits with 1 when it wrote the file, 0 when it took another's, 2 on errors. */
static void many_processes_write_one_file_once(void **state) {
    (void)state;
    enum { PROCESSES = 4 };
    pid_t child[PROCESSES];
    int gate[2], written = 0;
    if (!have_source) skip();
    assert_int_equal(pipe(gate), 0);
    for (int i = 0; i < PROCESSES; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i]) continue;
        sk_slice_file f;
        char c;
        close(gate[1]);
        bool started = read(gate[0], &c, 1) == 0; /* the end of the pipe: all are there */
        int rc = started ? materialise(0, 3, 0, &f, NULL) : SKIPPY_E_IO;
        _exit(rc ? 2 : f.written);
    }
    close(gate[1]);
    close(gate[0]);
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
        written += WEXITSTATUS(status);
    }
    assert_int_equal(written, 1);
    assert_false(taken_and_released(0, 3, 0));
}

#define IN_A_FRESH_CACHE(f) cmocka_unit_test_setup(f, fresh_cache)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_A_FRESH_CACHE(the_second_call_takes_the_first_ones_file),
        IN_A_FRESH_CACHE(a_damaged_file_is_written_anew),
        IN_A_FRESH_CACHE(a_file_that_does_not_agree_with_its_record_is_written_anew),
        IN_A_FRESH_CACHE(a_file_of_other_layers_is_not_taken),
        IN_A_FRESH_CACHE(the_longest_unused_file_makes_room),
        IN_A_FRESH_CACHE(what_is_in_use_is_not_removed),
        IN_A_FRESH_CACHE(a_stage_larger_than_the_folder_is_refused),
        IN_A_FRESH_CACHE(files_of_others_are_not_touched),
        IN_A_FRESH_CACHE(a_left_over_of_a_killed_writer_makes_room),
        IN_A_FRESH_CACHE(a_stopped_call_leaves_no_file),
        IN_A_FRESH_CACHE(waiting_for_another_writer_can_be_stopped),
        IN_A_FRESH_CACHE(folders_that_cannot_be_made_are_errors),
        IN_A_FRESH_CACHE(many_processes_write_one_file_once),
    };
    return cmocka_run_group_tests_name("slice_cache", tests, open_all, close_all);
}
