#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/auth.h"

static char tenant[SK_TENANT_CAP];

static bool check(const sk_auth *a, const char *key) {
    return sk_auth_check(a, key, strlen(key), tenant);
}

/* Writes a key file and adds it; the file is gone afterwards. */
static int add_file_with(sk_auth *a, const char *content, sk_err *e) {
    char path[] = "keys-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    size_t len = strlen(content);
    assert_int_equal(write(fd, content, len), len);
    close(fd);
    int rc = sk_auth_add_file(a, path, e);
    unlink(path);
    return rc;
}

static void every_key_of_a_list_is_known_and_nothing_else(void **state) {
    (void)state;
    sk_err e;
    sk_auth *a = sk_auth_create();
    assert_int_equal(sk_auth_add(a, "alpha, beta ,gamma,alpha", &e), SKIPPY_OK);
    assert_int_equal(sk_auth_count(a), 3);
    assert_true(check(a, "alpha"));
    assert_true(check(a, "beta"));
    assert_true(check(a, "gamma"));
    assert_false(check(a, "alph"));
    assert_false(check(a, "alphaa"));
    assert_false(check(a, "alpha,"));
    assert_false(check(a, ""));
    sk_auth_free(a);
}

static void tenants_differ_and_do_not_show_the_key(void **state) {
    (void)state;
    sk_err e;
    char first[SK_TENANT_CAP];
    sk_auth *a = sk_auth_create();
    assert_int_equal(sk_auth_add(a, "alpha,beta", &e), SKIPPY_OK);
    assert_true(check(a, "alpha"));
    memcpy(first, tenant, sizeof first);
    assert_int_equal(strlen(first), SK_TENANT_CAP - 1);
    assert_true(check(a, "alpha"));
    assert_string_equal(tenant, first);
    assert_true(check(a, "beta"));
    assert_string_not_equal(tenant, first);
    sk_auth_free(a);
}

static void empty_and_unsendable_keys_are_refused(void **state) {
    (void)state;
    static const char *const lists[] = {"", "a,", ",a", "a,,b", " ", "a b", "a\tb", "a\x7f"};
    sk_err e;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        sk_auth *a = sk_auth_create();
        assert_int_equal(sk_auth_add(a, lists[i], &e), SKIPPY_E_INVALID);
        sk_auth_free(a);
    }
}

static void key_files_may_have_comments_blank_lines_and_crlf(void **state) {
    (void)state;
    sk_err e;
    sk_auth *a = sk_auth_create();
    assert_int_equal(add_file_with(a, "# team keys\r\nalpha\r\n\r\n  # more\n  beta  \n\ngam,ma", &e), SKIPPY_OK);
    assert_int_equal(sk_auth_count(a), 3);
    assert_true(check(a, "alpha"));
    assert_true(check(a, "beta"));
    assert_true(check(a, "gam,ma")); /* a line is one key, commas and all */
    assert_false(check(a, "# team keys"));
    sk_auth_free(a);
}

static void key_files_without_keys_or_that_are_missing_are_told_in_words(void **state) {
    (void)state;
    sk_err e;
    sk_auth *a = sk_auth_create();
    assert_int_equal(add_file_with(a, "# nothing\n\n", &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "no key"));
    assert_int_equal(add_file_with(a, "# a comment\n\ntwo words\n", &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "line 3 of the API key file"));
    assert_non_null(strstr(e.text, "holds a blank"));
    assert_null(strstr(e.text, "two words")); /* a key does not belong in a log */
    assert_int_equal(sk_auth_add_file(a, "there-is-no-such-file", &e), SKIPPY_E_NOT_FOUND);
    assert_non_null(strstr(e.text, "there-is-no-such-file"));
    assert_int_equal(sk_auth_add_file(a, ".", &e), SKIPPY_E_IO);
    assert_int_equal(sk_auth_count(a), 0);
    sk_auth_free(a);
}

static void credentials_come_from_bearer_first_and_x_api_key_second(void **state) {
    (void)state;
    const char *key = NULL;
    size_t len = 0;
    assert_true(sk_auth_credential("Bearer abc", "xyz", &key, &len));
    assert_int_equal(len, 3);
    assert_memory_equal(key, "abc", 3);
    assert_true(sk_auth_credential("bearer  abc ", NULL, &key, &len));
    assert_int_equal(len, 3);
    assert_true(sk_auth_credential(NULL, "xyz", &key, &len));
    assert_memory_equal(key, "xyz", 3);
    assert_true(sk_auth_credential("Basic abc", "xyz", &key, &len));
    assert_memory_equal(key, "xyz", 3);
    assert_false(sk_auth_credential("Bearer ", NULL, &key, &len));
    assert_false(sk_auth_credential("Basic abc", NULL, &key, &len));
    assert_false(sk_auth_credential(NULL, NULL, &key, &len));
}

static void digests_are_equal_only_when_every_byte_is(void **state) {
    (void)state;
    uint8_t a[SK_HASH_BYTES], b[SK_HASH_BYTES];
    sk_hash("key", 3, a);
    memcpy(b, a, sizeof b);
    assert_true(sk_digest_equal(a, b));
    for (size_t bit = 0; bit < 8 * SK_HASH_BYTES; bit++) {
        b[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        assert_false(sk_digest_equal(a, b));
        b[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_of_a_list_is_known_and_nothing_else),
        cmocka_unit_test(tenants_differ_and_do_not_show_the_key),
        cmocka_unit_test(empty_and_unsendable_keys_are_refused),
        cmocka_unit_test(key_files_may_have_comments_blank_lines_and_crlf),
        cmocka_unit_test(key_files_without_keys_or_that_are_missing_are_told_in_words),
        cmocka_unit_test(credentials_come_from_bearer_first_and_x_api_key_second),
        cmocka_unit_test(digests_are_equal_only_when_every_byte_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
