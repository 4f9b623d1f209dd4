#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/layer_range.h"

static void is_range(const char *text, int32_t start, int32_t end) {
    sk_layer_range r = {-1, -1};
    sk_err e = {0};
    if (!sk_layer_range_parse(text, &r, &e)) fail_msg("'%s': %s", text, e.text);
    assert_int_equal(r.start, start);
    assert_int_equal(r.end, end);
}

static void is_refused(const char *text, const char *words) {
    sk_layer_range r = {7, 9};
    sk_err e = {0};
    if (sk_layer_range_parse(text, &r, &e)) fail_msg("'%s' was taken", text);
    assert_int_equal(e.code, SKIPPY_E_INVALID);
    if (!strstr(e.text, words)) fail_msg("'%s' is not in: %s", words, e.text);
    assert_int_equal(r.start, 7);
    assert_int_equal(r.end, 9);
}

static void both_ends_are_included(void **state) {
    (void)state;
    is_range("3..4", 3, 5);
    is_range("0..0", 0, 1);
    is_range("0..511", 0, 512);
}

static void one_number_is_one_layer(void **state) {
    (void)state;
    is_range("0", 0, 1);
    is_range("17", 17, 18);
}

static void anything_else_is_refused_with_an_example(void **state) {
    (void)state;
    static const char *const texts[] = {"",       "..",     "3..",         "..4",    "3.4",   "3...4",
                                        "3-4",    "a..b",   "-1..4",       "+1..4",  " 3..4", "3..4 ",
                                        "3 .. 4", "3..512", "99999999999", "3..4..5"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) is_refused(texts[i], "3..4");
}

static void an_end_before_the_start_is_refused(void **state) {
    (void)state;
    is_refused("4..3", "end before they begin");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_are_included),
        cmocka_unit_test(one_number_is_one_layer),
        cmocka_unit_test(anything_else_is_refused_with_an_example),
        cmocka_unit_test(an_end_before_the_start_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
