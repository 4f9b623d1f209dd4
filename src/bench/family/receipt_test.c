/* Receipts of files and processes. */
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

#include "base/test_folder.h"
#include "bench/family/receipt.h"

static char folder[64];

static int set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "receipt-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    return test_remove_tree(folder);
}

static const char *in_folder(const char *name) {
    static char path[2][200];
    static size_t turn;
    turn = 1 - turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void put(const char *name, const char *text) {
    FILE *f = fopen(in_folder(name), "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static const char *text_of(json_t *o, const char *key) {
    return json_string_value(json_object_get(o, key));
}

static void a_file_has_name_size_and_digest(void **state) {
    json_t *one = NULL;
    sk_err e = {0};
    (void)state;
    put("a", "abc");
    assert_int_equal(sk_receipt_file(in_folder("a"), "shown/a", &one, &e), SKIPPY_OK);
    assert_string_equal(text_of(one, "path"), "shown/a");
    assert_int_equal(json_integer_value(json_object_get(one, "bytes")), 3);
    assert_string_equal(text_of(one, "sha256"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    json_decref(one);
}

static void a_file_that_is_not_there_is_an_error(void **state) {
    json_t *one = NULL;
    sk_err e = {0};
    (void)state;
    assert_int_equal(sk_receipt_file(in_folder("nothing"), "nothing", &one, &e), SKIPPY_E_NOT_FOUND);
    assert_null(one);
}

static void a_folder_is_listed_in_order_without_links_and_exceptions(void **state) {
    static const char *const except[] = {"row.json", "process/skip", NULL};
    static const char *const expected[] = {"a", "b", "process/x"};
    json_t *list = NULL;
    sk_err e = {0};
    (void)state;
    assert_int_equal(mkdir(in_folder("process"), 0755), 0);
    put("b", "b");
    put("a", "a");
    put("row.json", "{}");
    put("process/x", "x");
    put("process/skip", "s");
    assert_int_equal(symlink("a", in_folder("link")), 0);
    assert_int_equal(sk_receipt_folder(folder, except, &list, &e), SKIPPY_OK);
    assert_int_equal(json_array_size(list), 3);
    for (size_t i = 0; i < 3; i++) assert_string_equal(text_of(json_array_get(list, i), "path"), expected[i]);
    json_decref(list);
}

static void a_folder_that_is_not_there_is_an_error(void **state) {
    json_t *list = NULL;
    sk_err e = {0};
    (void)state;
    assert_int_equal(sk_receipt_folder(in_folder("nothing"), NULL, &list, &e), SKIPPY_E_IO);
    assert_null(list);
    assert_non_null(strstr(e.text, "nothing"));
}

static void an_end_is_a_code_or_a_signal(void **state) {
    json_t *code = sk_receipt_exit(3 << 8), *killed = sk_receipt_exit(9);
    (void)state;
    assert_int_equal(json_integer_value(json_object_get(code, "code")), 3);
    assert_int_equal(json_integer_value(json_object_get(killed, "signal")), 9);
    assert_null(json_object_get(killed, "code"));
    json_decref(code);
    json_decref(killed);
}

static void sharing_replaces_what_was_there(void **state) {
    struct stat a, b;
    sk_err e = {0};
    (void)state;
    put("a", "new");
    put("b", "old content");
    assert_int_equal(sk_receipt_share(in_folder("a"), in_folder("b"), &e), SKIPPY_OK);
    assert_int_equal(stat(in_folder("a"), &a), 0);
    assert_int_equal(stat(in_folder("b"), &b), 0);
    assert_int_equal(b.st_size, 3);
    assert_int_equal(a.st_ino, b.st_ino);
}

static void where_no_link_is_possible_bytes_are_copied(void **state) {
    struct stat st;
    sk_err e = {0};
    (void)state;
    /* /proc is another file system */
    assert_int_equal(sk_receipt_share("/proc/self/comm", in_folder("copy"), &e), SKIPPY_OK);
    assert_int_equal(stat(in_folder("copy"), &st), 0);
    assert_true(st.st_size > 0);
}

static void sharing_what_is_not_there_says_so(void **state) {
    sk_err e = {0};
    (void)state;
    assert_int_equal(sk_receipt_share(in_folder("nothing"), in_folder("b"), &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, "nothing"));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_file_has_name_size_and_digest),
        TEST(a_file_that_is_not_there_is_an_error),
        TEST(a_folder_is_listed_in_order_without_links_and_exceptions),
        TEST(a_folder_that_is_not_there_is_an_error),
        TEST(an_end_is_a_code_or_a_signal),
        TEST(sharing_replaces_what_was_there),
        TEST(where_no_link_is_possible_bytes_are_copied),
        TEST(sharing_what_is_not_there_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
