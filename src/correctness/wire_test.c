/* Containers between processes: what is written is read, and damage is seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "correctness/wire.h"

static void write_example(sk_buf *b) {
    sk_wire_begin(b);
    sk_wire_put_u64(b, UINT64_MAX);
    sk_wire_put_f64(b, -0.25);
    sk_wire_put_text(b, "hello");
    sk_wire_put_text(b, NULL);
    sk_wire_put_bytes(b, "\1\2\3", 3);
    sk_wire_seal(b);
    assert_false(b->failed);
}

static void fields_come_back_in_order(void **state) {
    (void)state;
    sk_buf b = {0};
    sk_wire_reader r;
    sk_err e = {0};
    char text[16];
    size_t n = 0;
    write_example(&b);
    assert_int_equal(sk_wire_open(b.data, b.len, &r, &e), SKIPPY_OK);
    assert_true(sk_wire_get_u64(&r) == UINT64_MAX);
    assert_true(sk_wire_get_f64(&r) == -0.25);
    sk_wire_get_text(&r, text, sizeof text);
    assert_string_equal(text, "hello");
    sk_wire_get_text(&r, text, sizeof text);
    assert_string_equal(text, "");
    assert_false(sk_wire_done(&r));
    assert_memory_equal(sk_wire_get_bytes(&r, &n), "\1\2\3", 3);
    assert_int_equal(n, 3);
    assert_true(sk_wire_done(&r));
    sk_buf_free(&b);
}

static void every_truncation_and_every_flipped_byte_is_refused(void **state) {
    (void)state;
    sk_buf b = {0};
    sk_wire_reader r;
    sk_err e = {0};
    write_example(&b);
    for (size_t n = 0; n < b.len; n++) assert_int_equal(sk_wire_open(b.data, n, &r, &e), SKIPPY_E_CORRUPT);
    for (size_t i = 0; i < b.len; i++) {
        b.data[i] = (char)(b.data[i] ^ 0x10);
        assert_int_equal(sk_wire_open(b.data, b.len, &r, &e), SKIPPY_E_CORRUPT);
        assert_int_equal(sk_wire_get_u64(&r), 0);
        b.data[i] = (char)(b.data[i] ^ 0x10);
    }
    assert_int_equal(sk_wire_open(b.data, b.len, &r, &e), SKIPPY_OK);
    sk_buf_free(&b);
}

static void a_field_that_is_not_there_fails_the_reader(void **state) {
    (void)state;
    sk_buf b = {0};
    sk_wire_reader r;
    sk_err e = {0};
    size_t n = 1;
    char text[3];
    sk_wire_begin(&b);
    sk_wire_put_u64(&b, 1000); /* as if 1000 bytes followed */
    sk_wire_seal(&b);
    assert_int_equal(sk_wire_open(b.data, b.len, &r, &e), SKIPPY_OK);
    assert_null(sk_wire_get_bytes(&r, &n));
    assert_int_equal(n, 0);
    assert_true(r.failed);
    assert_false(sk_wire_done(&r));
    sk_buf_clear(&b);
    sk_wire_begin(&b);
    sk_wire_put_text(&b, "too long");
    sk_wire_seal(&b);
    assert_int_equal(sk_wire_open(b.data, b.len, &r, &e), SKIPPY_OK);
    sk_wire_get_text(&r, text, sizeof text);
    assert_string_equal(text, "");
    assert_true(r.failed);
    sk_buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_come_back_in_order),
        cmocka_unit_test(every_truncation_and_every_flipped_byte_is_refused),
        cmocka_unit_test(a_field_that_is_not_there_fails_the_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
