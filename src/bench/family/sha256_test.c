#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/test_folder.h"
#include "bench/family/sha256.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

static char dir[64];

static int make_dir(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "sha256-test-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int drop_dir(void **state) {
    (void)state;
    return test_remove_tree(dir);
}

/* The next call but three overwrites the path. */
static char *at(const char *name) {
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static void put(const char *name, const char *text) {
    FILE *f = fopen(at(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

static void known_answers(void **state) {
    (void)state;
    char hex[SK_SHA256_HEX];
    sk_sha256_text("", 0, hex);
    assert_string_equal(hex, EMPTY);
    sk_sha256_text("abc", 3, hex);
    assert_string_equal(hex, ABC);
    sk_sha256_text("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
    assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void a_million_letters_are_read_in_pieces(void **state) {
    (void)state;
    char hex[SK_SHA256_HEX];
    uint64_t bytes = 0;
    FILE *f = fopen(at("a"), "wb");
    assert_non_null(f);
    for (int i = 0; i < 1000000; i++) fputc('a', f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(sk_sha256_file(at("a"), NULL, hex, &bytes, NULL), SKIPPY_OK);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    assert_int_equal(bytes, 1000000);
}

static void a_file_behind_a_link_has_the_digest_of_its_bytes(void **state) {
    (void)state;
    char hex[SK_SHA256_HEX];
    put("blob", "abc");
    assert_int_equal(symlink("blob", at("link")), 0);
    assert_int_equal(sk_sha256_file(at("link"), NULL, hex, NULL, NULL), SKIPPY_OK);
    assert_string_equal(hex, ABC);
}

static void what_is_no_file_is_refused_without_waiting(void **state) {
    (void)state;
    char hex[SK_SHA256_HEX];
    sk_err e = {0};
    assert_int_equal(sk_sha256_file(at("none"), NULL, hex, NULL, &e), SKIPPY_E_NOT_FOUND);
    assert_string_equal(hex, "");
    assert_int_equal(sk_sha256_file(dir, NULL, hex, NULL, &e), SKIPPY_E_INVALID);
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    assert_int_equal(sk_sha256_file(at("pipe"), NULL, hex, NULL, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "not a regular file"));
}

static int stop_at_once(void *ud, uint64_t done) {
    *(uint64_t *)ud = done;
    return 0;
}

static void a_watcher_sees_the_bytes_and_can_stop(void **state) {
    (void)state;
    char hex[SK_SHA256_HEX];
    uint64_t seen = 0;
    const sk_sha256_watch w = {stop_at_once, &seen};
    put("a", "abc");
    assert_int_equal(sk_sha256_file(at("a"), &w, hex, NULL, NULL), SKIPPY_E_CANCELLED);
    assert_int_equal(seen, 3);
    assert_string_equal(hex, "");
    assert_int_equal(sk_sha256_tree(dir, &w, hex, NULL, NULL), SKIPPY_E_CANCELLED);
    assert_string_equal(hex, "");
}

static void a_tree_is_the_digest_of_its_sorted_list(void **state) {
    (void)state;
    char hex[SK_SHA256_HEX];
    char expected[SK_SHA256_HEX];
    size_t files = 0;
    assert_int_equal(mkdir(at("b"), 0755), 0);
    assert_int_equal(mkdir(at("empty"), 0755), 0);
    put("b/z", "abc");
    put("b.c", ""); /* "b.c" sorts before "b/z": '.' is 0x2e, '/' is 0x2f */
    put("Z", "abc");
    const char *list = ABC "  3  Z\n" EMPTY "  0  b.c\n" ABC "  3  b/z\n";
    sk_sha256_text(list, strlen(list), expected);
    assert_int_equal(sk_sha256_tree(dir, NULL, hex, &files, NULL), SKIPPY_OK);
    assert_string_equal(hex, expected);
    assert_int_equal(files, 3);
}

static void links_to_files_count_and_links_to_folders_do_not(void **state) {
    (void)state;
    char hex[SK_SHA256_HEX];
    char expected[SK_SHA256_HEX];
    size_t files = 0;
    put("a", "abc");
    assert_int_equal(symlink("a", at("link")), 0);
    assert_int_equal(symlink(".", at("round")), 0);
    assert_int_equal(symlink("gone", at("dangling")), 0);
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    const char *list = ABC "  3  a\n" ABC "  3  link\n";
    sk_sha256_text(list, strlen(list), expected);
    assert_int_equal(sk_sha256_tree(dir, NULL, hex, &files, NULL), SKIPPY_OK);
    assert_string_equal(hex, expected);
    assert_int_equal(files, 2);
}

static void a_trees_pin_moves_with_content_and_names(void **state) {
    (void)state;
    char before[SK_SHA256_HEX];
    char after[SK_SHA256_HEX];
    put("a", "abc");
    assert_int_equal(sk_sha256_tree(dir, NULL, before, NULL, NULL), SKIPPY_OK);
    put("a", "abd");
    assert_int_equal(sk_sha256_tree(dir, NULL, after, NULL, NULL), SKIPPY_OK);
    assert_string_not_equal(before, after);
    put("a", "abc");
    assert_int_equal(rename(at("a"), at("b")), 0);
    assert_int_equal(sk_sha256_tree(dir, NULL, after, NULL, NULL), SKIPPY_OK);
    assert_string_not_equal(before, after);
}

static void an_empty_tree_has_the_digest_of_nothing(void **state) {
    (void)state;
    char hex[SK_SHA256_HEX];
    size_t files = 1;
    assert_int_equal(sk_sha256_tree(dir, NULL, hex, &files, NULL), SKIPPY_OK);
    assert_string_equal(hex, EMPTY);
    assert_int_equal(files, 0);
}

static void a_tree_that_is_none_is_refused(void **state) {
    (void)state;
    char hex[SK_SHA256_HEX];
    put("a", "abc");
    assert_int_equal(sk_sha256_tree(at("none"), NULL, hex, NULL, NULL), SKIPPY_E_NOT_FOUND);
    assert_int_equal(sk_sha256_tree(at("a"), NULL, hex, NULL, NULL), SKIPPY_E_INVALID);
}

static void only_64_lower_case_digits_are_a_digest(void **state) {
    (void)state;
    char text[80] = ABC;
    assert_true(sk_sha256_is_hex(text));
    text[0] = 'B';
    assert_false(sk_sha256_is_hex(text));
    assert_false(sk_sha256_is_hex(ABC "0"));
    assert_false(sk_sha256_is_hex(&ABC[1]));
    assert_false(sk_sha256_is_hex(""));
}

#define T(name) cmocka_unit_test_setup_teardown(name, make_dir, drop_dir)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        T(a_million_letters_are_read_in_pieces),
        T(a_file_behind_a_link_has_the_digest_of_its_bytes),
        T(what_is_no_file_is_refused_without_waiting),
        T(a_watcher_sees_the_bytes_and_can_stop),
        T(a_tree_is_the_digest_of_its_sorted_list),
        T(links_to_files_count_and_links_to_folders_do_not),
        T(a_trees_pin_moves_with_content_and_names),
        T(an_empty_tree_has_the_digest_of_nothing),
        T(a_tree_that_is_none_is_refused),
        cmocka_unit_test(only_64_lower_case_digits_are_a_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
