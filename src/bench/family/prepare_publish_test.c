/* The last file of a preparation is there whole and in time, or not at all; hashing tells how far it is. */
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

#include "base/clock.h"
#include "base/test_folder.h"
#include "bench/family/prepare_publish.h"

static sk_err err;
static char folder[64];

static const char *at(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "family-prepare-publish-test-%d", (int)getpid());
    return mkdir(folder, 0755);
}

static int remove_folder(void **state) {
    (void)state;
    return test_remove_tree(folder);
}

static void a_file_that_came_too_late_is_removed_again(void **state) {
    (void)state;
    json_t *json = json_pack("{s:i}", "a", 1);
    sk_prepare_watch w = {.deadline_ns = sk_now_ns() + 3600000000000u, .limit_s = 30};
    assert_int_equal(sk_prepare_publish(at("late.json"), json, &w, &err), SKIPPY_OK);
    assert_int_equal(access(at("late.json"), F_OK), 0);
    w.deadline_ns = sk_now_ns();
    assert_int_equal(sk_prepare_publish(at("late.json"), json, &w, &err), SKIPPY_E_TIMEOUT);
    assert_non_null(strstr(err.text, "preparation_seconds (30)"));
    assert_int_not_equal(access(at("late.json"), F_OK), 0); /* the earlier one is gone as well */
    json_decref(json);
}

static void hashing_stops_at_the_deadline_and_says_so(void **state) {
    (void)state;
    char hex[SK_SHA256_HEX];
    FILE *f = fopen(at("skippy"), "w");
    assert_non_null(f);
    assert_true(fputs("bytes", f) >= 0);
    assert_int_equal(fclose(f), 0);
    sk_prepare_watch w = {.deadline_ns = sk_now_ns(), .limit_s = 30};
    const sk_sha256_watch hashing = sk_prepare_hashing(&w, "skippy", 0);
    const int rc = sk_sha256_file(at("skippy"), &hashing, hex, NULL, &err);
    assert_int_equal(rc, SKIPPY_E_CANCELLED);
    assert_int_equal(sk_prepare_reason(&w, rc, &err), SKIPPY_E_TIMEOUT);
    assert_int_equal(sk_prepare_reason(&w, SKIPPY_E_IO, &err), SKIPPY_E_IO);
}

static void big_things_are_hashed_with_percent(void **state) {
    (void)state;
    char text[512] = "";
    FILE *f = tmpfile();
    assert_non_null(f);
    sk_prepare_watch w = {.deadline_ns = UINT64_MAX, .progress = f};
    const uint64_t gib = (uint64_t)1 << 30;
    sk_sha256_watch hashing = sk_prepare_hashing(&w, "llama", 2 * gib);
    for (uint64_t done = 0; done <= 2 * gib; done += gib / 64) assert_true(hashing.keep_going(hashing.ud, done));
    hashing = sk_prepare_hashing(&w, "small", gib / 4);
    assert_true(hashing.keep_going(hashing.ud, gib / 8));
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    size_t lines = 0;
    for (const char *p = text; *p; p++) lines += *p == '\n';
    assert_int_equal(lines, 9); /* every ten percent; the end is not worth a line */
    assert_non_null(strstr(text, "llama: 10 % of 2.0 GiB"));
    assert_null(strstr(text, "small"));
}

static void more_than_the_reader_takes_is_not_written(void **state) {
    (void)state;
    const size_t len = (size_t)65 << 20;
    char *text = malloc(len + 1);
    assert_non_null(text);
    memset(text, 'x', len);
    text[len] = '\0';
    json_t *json = json_object();
    json_object_set_new(json, "a", json_string(text));
    free(text);
    assert_int_equal(sk_prepare_write_json(at("large.json"), json, &err), SKIPPY_E_TOO_LARGE);
    assert_int_not_equal(access(at("large.json"), F_OK), 0);
    json_decref(json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_came_too_late_is_removed_again),
        cmocka_unit_test(hashing_stops_at_the_deadline_and_says_so),
        cmocka_unit_test(big_things_are_hashed_with_percent),
        cmocka_unit_test(more_than_the_reader_takes_is_not_written),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
