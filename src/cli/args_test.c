#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/args.h"
#include "cli/load_bar.h"

enum { SIZE = 1, PARALLEL, SWITCH, FLASH, MODE };

static const sk_arg_def defs[] = {
    {SIZE, "-c --ctx-size", "N", NULL, "size"},
    {PARALLEL, "-np --parallel", "N", NULL, "lanes\nin two lines"},
    {SWITCH, "--swa-full", NULL, NULL, NULL},
    {FLASH, "-fa --flash-attn", "[on|off|auto]", "on|off|auto", "attention"},
    {MODE, "--exact", "state|bit", "state|bit", "mode"},
};

static sk_args a;
static sk_err e;

static void walk(int argc, char **argv) {
    a = (sk_args){.defs = defs, .n_defs = sizeof defs / sizeof *defs, .argc = argc, .argv = argv, .at = 1};
    memset(&e, 0, sizeof e);
}

#define WALK(...)                                                                                                      \
    char *argv[] = {"prog", __VA_ARGS__};                                                                              \
    walk((int)(sizeof argv / sizeof *argv), argv)

static void names_of_several_letters_need_one_dash_only(void **state) {
    (void)state;
    WALK("-np", "3", "-c", "4096", "--parallel=5", "--swa-full");
    assert_int_equal(sk_args_next(&a, &e), PARALLEL);
    assert_string_equal(a.value, "3");
    assert_int_equal(sk_args_next(&a, &e), SIZE);
    assert_string_equal(a.value, "4096");
    assert_int_equal(sk_args_next(&a, &e), PARALLEL);
    assert_string_equal(a.value, "5");
    assert_string_equal(a.name, "--parallel");
    assert_int_equal(sk_args_next(&a, &e), SWITCH);
    assert_null(a.value);
    assert_int_equal(sk_args_next(&a, &e), 0);
}

static void an_optional_value_is_taken_only_when_it_is_one(void **state) {
    (void)state;
    WALK("-fa", "off", "-fa", "--swa-full", "-fa");
    assert_int_equal(sk_args_next(&a, &e), FLASH);
    assert_string_equal(a.value, "off");
    assert_int_equal(sk_args_next(&a, &e), FLASH);
    assert_null(a.value);
    assert_int_equal(sk_args_next(&a, &e), SWITCH);
    assert_int_equal(sk_args_next(&a, &e), FLASH);
    assert_null(a.value);
    assert_int_equal(sk_args_next(&a, &e), 0);
}

static void expect_refusal(char *word, char *value, const char *expected) {
    char *argv[] = {"prog", word, value};
    walk(value ? 3 : 2, argv);
    assert_int_equal(sk_args_next(&a, &e), -1);
    assert_non_null(strstr(e.text, expected));
}

static void wrong_usage_is_told_in_words(void **state) {
    (void)state;
    expect_refusal("--nope", NULL, "unknown option '--nope'");
    expect_refusal("-n", NULL, "unknown option '-n'");
    expect_refusal("stray", NULL, "'stray' is not an option");
    expect_refusal("-", NULL, "'-' is not an option");
    expect_refusal("", NULL, "'' is not an option");
    expect_refusal("-c", NULL, "-c needs a value");
    expect_refusal("--swa-full=1", NULL, "--swa-full takes no value");
    expect_refusal("--exact", "maybe", "--exact must be one of state|bit, not 'maybe'");
    expect_refusal("--exact", "state|bit", "must be one of");
    expect_refusal("-fa=perhaps", NULL, "-fa must be one of");
}

static bool u32(char *value, uint32_t min, uint32_t max, uint32_t *out) {
    char *argv[] = {"prog", "-c", value};
    walk(3, argv);
    assert_int_equal(sk_args_next(&a, &e), SIZE);
    return sk_args_u32(&a, min, max, out, &e);
}

static void numbers_are_checked_with_option_and_value_in_the_message(void **state) {
    (void)state;
    static char *const bad[] = {"",    "x", "1x", "-1", "+1", " 1", "1 ", "0x10", "4", "99999999999999999999999",
                                "1.5", "-"};
    uint32_t v = 0;
    assert_true(u32("5", 5, 100, &v));
    assert_int_equal(v, 5);
    assert_true(u32("100", 5, 100, &v));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char expected[96];
        assert_false(u32(bad[i], 5, 100, &v));
        snprintf(expected, sizeof expected, "-c needs a whole number from 5 to 100, not '%s'", bad[i]);
        assert_string_equal(e.text, expected);
    }
    assert_false(u32("101", 5, 100, &v));
    assert_int_equal(v, 100);
}

static void signed_numbers_and_fractions_are_checked(void **state) {
    (void)state;
    int32_t i = 0;
    float f = 0;
    WALK("-c", "-1");
    assert_int_equal(sk_args_next(&a, &e), SIZE);
    assert_true(sk_args_i32(&a, -1, 10, &i, &e));
    assert_int_equal(i, -1);
    a.value = "-2";
    assert_false(sk_args_i32(&a, -1, 10, &i, &e));
    a.value = "11";
    assert_false(sk_args_i32(&a, -1, 10, &i, &e));
    a.value = "0.5";
    assert_true(sk_args_float(&a, 0, &f, &e));
    assert_true(f == 0.5f);
    static const char *const bad[] = {"0", "-1", "nan", "inf", "", "1x"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        a.value = bad[k];
        assert_false(sk_args_float(&a, 0, &f, &e));
    }
}

static void help_lists_names_values_and_hides_what_has_no_text(void **state) {
    (void)state;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    sk_args_help(defs, sizeof defs / sizeof *defs, out);
    fclose(out);
    assert_non_null(strstr(text, "  -np, --parallel N"));
    assert_non_null(strstr(text, "\n                                  in two lines\n"));
    assert_null(strstr(text, "--swa-full"));
    free(text);
}

static void progress_without_a_terminal_is_a_line_every_ten_percent(void **state) {
    (void)state;
    char *text = NULL;
    size_t len = 0, lines = 0;
    FILE *out = open_memstream(&text, &len);
    sk_load_bar bar = {.out = out, .what = "loading", .shown = -1};
    for (int i = 0; i <= 1000; i++) sk_load_bar_show(&bar, (float)i / 1000.0f);
    sk_load_bar_show(&bar, 1.0f);
    fclose(out);
    for (const char *p = text; (p = strchr(p, '\n')); p++) lines++;
    assert_int_equal(lines, 11);
    assert_int_equal(strncmp(text, "loading: 0 %\nloading: 10 %\n", 27), 0);
    assert_non_null(strstr(text, "loading: 100 %\n"));
    free(text);
}

static void progress_on_a_terminal_is_one_line_that_ends_full(void **state) {
    (void)state;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    sk_load_bar bar = {.out = out, .tty = true, .what = "loading", .shown = -1};
    sk_load_bar_show(&bar, 0.5f);
    sk_load_bar_show(&bar, 0.5f);
    sk_load_bar_show(&bar, 1.5f);
    fclose(out);
    assert_string_equal(text, "\rloading [####################                    ]  50 %"
                              "\rloading [########################################] 100 %\n");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_several_letters_need_one_dash_only),
        cmocka_unit_test(an_optional_value_is_taken_only_when_it_is_one),
        cmocka_unit_test(wrong_usage_is_told_in_words),
        cmocka_unit_test(numbers_are_checked_with_option_and_value_in_the_message),
        cmocka_unit_test(signed_numbers_and_fractions_are_checked),
        cmocka_unit_test(help_lists_names_values_and_hides_what_has_no_text),
        cmocka_unit_test(progress_without_a_terminal_is_a_line_every_ten_percent),
        cmocka_unit_test(progress_on_a_terminal_is_one_line_that_ends_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
