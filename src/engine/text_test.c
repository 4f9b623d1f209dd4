#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/text.h"
#include "skippy/error.h"

enum { OUT_CAP = 256 };

static void append(char *out, const char *text, size_t n) {
    size_t at = strlen(out);
    assert_true(at + n < OUT_CAP);
    if (n) memcpy(out + at, text, n);
    out[at + n] = '\0';
}

/* Pushes pieces and collects what is released into out (OUT_CAP bytes); returns the stop string that hit. */
static const char *run(const char *const *stop, size_t n_stop, const char *const *pieces, size_t n, char *out) {
    static char hit[64];
    sk_text t;
    assert_int_equal(sk_text_init(&t, stop, n_stop), SKIPPY_OK);
    out[0] = '\0';
    for (size_t i = 0; i < n && !t.hit; i++) {
        size_t k = sk_text_push(&t, pieces[i], strlen(pieces[i]));
        append(out, t.pending.data, k);
        sk_text_release(&t, k);
        append(out, "|", 1);
    }
    if (!t.hit) append(out, t.pending.data, sk_text_flush(&t));
    bool stopped = t.hit != NULL;
    snprintf(hit, sizeof hit, "%s", stopped ? t.hit : "");
    sk_text_free(&t);
    return stopped ? hit : NULL;
}

static void text_passes_through(void **state) {
    (void)state;
    char out[OUT_CAP];
    const char *p[] = {"Hel", "lo", " you"};
    assert_null(run(NULL, 0, p, 3, out));
    assert_string_equal(out, "Hel|lo| you|");
}

static void a_split_character_waits_for_its_last_byte(void **state) {
    (void)state;
    char out[OUT_CAP];
    const char *p[] = {"a\xe2", "\x82", "\xac!", "\xf0\x9f"};
    assert_null(run(NULL, 0, p, 4, out));
    assert_string_equal(out, "a||\xe2\x82\xac!||"); /* the incomplete tail is cut at the end */
}

static void a_stop_string_over_several_pieces_is_cut_out(void **state) {
    (void)state;
    char out[OUT_CAP];
    const char *stop[] = {"</end>", "STOP"};
    const char *p[] = {"text <", "/en", "d> more"};
    assert_string_equal(run(stop, 2, p, 3, out), "</end>");
    assert_string_equal(out, "text |||");
}

static void a_false_start_of_a_stop_string_is_released(void **state) {
    (void)state;
    char out[OUT_CAP];
    const char *stop[] = {"abcd"};
    const char *p[] = {"xab", "c", "e"};
    assert_null(run(stop, 1, p, 3, out));
    assert_string_equal(out, "x||abce|");
}

static void the_earliest_of_two_stop_strings_wins(void **state) {
    (void)state;
    char out[OUT_CAP];
    const char *stop[] = {"world", "lo"};
    const char *p[] = {"hello world"};
    assert_string_equal(run(stop, 2, p, 1, out), "lo");
    assert_string_equal(out, "hel|");
}

static void a_held_back_tail_is_flushed_at_the_end(void **state) {
    (void)state;
    char out[OUT_CAP];
    const char *stop[] = {"\n\n"};
    const char *p[] = {"line\n"};
    assert_null(run(stop, 1, p, 1, out));
    assert_string_equal(out, "line|\n");
}

static void empty_stop_strings_are_ignored(void **state) {
    (void)state;
    char out[OUT_CAP];
    const char *stop[] = {""};
    const char *p[] = {"a"};
    assert_null(run(stop, 1, p, 1, out));
    assert_string_equal(out, "a|");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_passes_through),
        cmocka_unit_test(a_split_character_waits_for_its_last_byte),
        cmocka_unit_test(a_stop_string_over_several_pieces_is_cut_out),
        cmocka_unit_test(a_false_start_of_a_stop_string_is_released),
        cmocka_unit_test(the_earliest_of_two_stop_strings_wins),
        cmocka_unit_test(a_held_back_tail_is_flushed_at_the_end),
        cmocka_unit_test(empty_stop_strings_are_ignored),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
