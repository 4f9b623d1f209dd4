/* How numbers and texts are written: the report's words at their boundaries. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/family/tables.h"

static void speedup_is(double ratio, const char *want) {
    sk_buf b = {0};
    sk_table_speedup(ratio, &b);
    assert_string_equal(b.data, want);
    sk_buf_free(&b);
}

static void ms_is(double ms, const char *want) {
    sk_buf b = {0};
    sk_table_ms(ms, &b);
    assert_string_equal(b.data, want);
    sk_buf_free(&b);
}

static void bytes_are(uint64_t bytes, const char *want) {
    sk_buf b = {0};
    sk_table_bytes(bytes, &b);
    assert_string_equal(b.data, want);
    sk_buf_free(&b);
}

static void a_ratio_is_called_slower_below_parity(void **state) {
    (void)state;
    speedup_is(0.5, "0.50x (slower)");
    speedup_is(0.97, "0.97x (slower)");
    speedup_is(0.974, "0.97x (slower)");
    speedup_is(0.001, "0.00x (slower)");
}

static void a_ratio_is_called_parity_around_one(void **state) {
    (void)state;
    speedup_is(0.976, "0.98x (parity)");
    speedup_is(0.98, "0.98x (parity)");
    speedup_is(0.996, "1.00x (parity)");
    speedup_is(1.0, "1.00x (parity)");
    speedup_is(1.01, "1.01x (parity)");
    speedup_is(1.02, "1.02x (parity)");
    speedup_is(1.024, "1.02x (parity)");
}

static void a_ratio_is_called_faster_above_parity_only(void **state) {
    (void)state;
    speedup_is(1.026, "**1.03x faster**");
    speedup_is(1.03, "**1.03x faster**");
    speedup_is(1.95, "**1.95x faster**");
    speedup_is(12.064, "**12.06x faster**");
}

static void a_ratio_that_is_none_is_not_available(void **state) {
    (void)state;
    speedup_is(0.0, "n/a");
    speedup_is(-1.0, "n/a");
    speedup_is((double)NAN, "n/a");
    speedup_is((double)INFINITY, "n/a");
}

static void milliseconds_have_two_decimals_below_ten(void **state) {
    (void)state;
    ms_is(0.0, "0.00");
    ms_is(4.5, "4.50");
    ms_is(9.99, "9.99");
    ms_is(10.0, "10.0");
    ms_is(318.04, "318.0");
    ms_is(1e12, "1000000000000.0");
    ms_is(-1.0, "n/a");
    ms_is((double)NAN, "n/a");
}

static void bytes_are_written_in_kib_or_mib(void **state) {
    (void)state;
    bytes_are(0, "0");
    bytes_are(1, "0.0 KiB");
    bytes_are(8704, "8.5 KiB");
    bytes_are(1048575, "1024.0 KiB");
    bytes_are(1048576, "1.0 MiB");
    bytes_are(82208359, "78.4 MiB");
    bytes_are(UINT64_MAX, "17592186044416.0 MiB");
}

static void texts_cannot_break_a_table(void **state) {
    (void)state;
    sk_buf b = {0};
    sk_table_text("a|b\nc\r\td\x7f\xc3\xa9", &b);
    assert_string_equal(b.data, "a/b c  d \xc3\xa9");
    sk_buf_clear(&b);
    sk_table_code("a|b`c`\nd", &b);
    assert_string_equal(b.data, "`a/b'c' d`");
    sk_buf_clear(&b);
    sk_table_code("", &b);
    assert_int_equal(b.len, 0);
    sk_buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ratio_is_called_slower_below_parity),
        cmocka_unit_test(a_ratio_is_called_parity_around_one),
        cmocka_unit_test(a_ratio_is_called_faster_above_parity_only),
        cmocka_unit_test(a_ratio_that_is_none_is_not_available),
        cmocka_unit_test(milliseconds_have_two_decimals_below_ten),
        cmocka_unit_test(bytes_are_written_in_kib_or_mib),
        cmocka_unit_test(texts_cannot_break_a_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
