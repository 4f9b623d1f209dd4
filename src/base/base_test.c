#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"

static void hash_matches_published_empty_digest(void **state) {
    (void)state;
    uint8_t d[SK_HASH_BYTES];
    char hex[2 * SK_HASH_BYTES + 1];
    sk_hash("", 0, d);
    sk_hex(d, sizeof d, hex);
    assert_string_equal(hex, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
}

static void a_finalised_hasher_goes_on(void **state) {
    (void)state;
    uint8_t whole[SK_HASH_BYTES], parts[SK_HASH_BYTES], prefix[SK_HASH_BYTES], alone[SK_HASH_BYTES];
    sk_hasher h;
    sk_hash("prefix and tail", 15, whole);
    sk_hash_init(&h);
    sk_hash_update(&h, "prefix", 6);
    sk_hash_final(&h, prefix);
    sk_hash("prefix", 6, alone);
    assert_memory_equal(prefix, alone, sizeof alone);
    sk_hash_update(&h, " and tail", 9);
    sk_hash_final(&h, parts);
    assert_memory_equal(whole, parts, sizeof whole);
}

static void json_escape_keeps_valid_utf8_and_replaces_the_rest(void **state) {
    (void)state;
    sk_buf b = {0};
    const char in[] = "a\"b\\c\n\x01\xc3\xa9\xff\xed\xa0\x80z";
    sk_buf_json_escape(&b, in, sizeof in - 1);
    assert_string_equal(b.data, "a\\\"b\\\\c\\n\\u0001\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz");
    sk_buf_free(&b);
}

static void consume_keeps_the_tail(void **state) {
    (void)state;
    sk_buf b = {0};
    sk_buf_str(&b, "hello world");
    sk_buf_consume(&b, 6);
    assert_string_equal(b.data, "world");
    sk_buf_consume(&b, 99);
    assert_int_equal(b.len, 0);
    sk_buf_free(&b);
}

static void err_set_cuts_overlong_text(void **state) {
    (void)state;
    sk_err e;
    char big[2000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    assert_int_equal(sk_err_set(&e, SKIPPY_E_IO, "%s", big), SKIPPY_E_IO);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    assert_int_equal(sk_err_set(NULL, SKIPPY_E_IO, "no place for it"), SKIPPY_E_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash_matches_published_empty_digest),
        cmocka_unit_test(a_finalised_hasher_goes_on),
        cmocka_unit_test(json_escape_keeps_valid_utf8_and_replaces_the_rest),
        cmocka_unit_test(consume_keeps_the_tail),
        cmocka_unit_test(err_set_cuts_overlong_text),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
