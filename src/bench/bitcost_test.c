#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/bitcost.h"

static const sk_cost_startup startup[SK_COST_SIDES] = {{.first_ms = 3000.0, .again_ms = 1000.0},
                                                       {.first_ms = 9000.0, .again_ms = 1500.0}};
/* In the second round the machine is twice as slow, for both alike. */
static const sk_cost_sample rounds[][SK_COST_SIDES] = {
    {{.prompt_ms = 1000.0, .lone_ms = 50.0, .together_ms = 100.0, .prompt_computed = 512},
     {.prompt_ms = 1250.0, .lone_ms = 100.0, .together_ms = 100.0, .prompt_computed = 512}},
    {{.prompt_ms = 2000.0, .lone_ms = 100.0, .together_ms = 200.0, .prompt_computed = 512},
     {.prompt_ms = 2400.0, .lone_ms = 200.0, .together_ms = 210.0, .prompt_computed = 512}},
    {{.prompt_ms = 1000.0, .lone_ms = 50.0, .together_ms = 100.0, .prompt_computed = 512},
     {.prompt_ms = 1200.0, .lone_ms = 100.0, .together_ms = 105.0, .prompt_computed = 512}},
};
enum { N = sizeof rounds / sizeof rounds[0] };

static void assert_number(const json_t *object, const char *key, double wanted) {
    const double got = json_number_value(json_object_get(object, key));
    if (got < wanted - 1e-9 || got > wanted + 1e-9) {
        fail_msg("%s: %.9f instead of %.9f", key, got, wanted);
    }
}

static void each_series_has_medians_and_the_ratio_of_each_round(void **state) {
    (void)state;
    json_t *record = sk_bitcost_json(startup, rounds, N);
    assert_non_null(record);
    const json_t *prompt = json_array_get(json_object_get(record, "series"), 0);
    assert_string_equal(json_string_value(json_object_get(prompt, "name")), "prompt");
    assert_number(prompt, "state_p50", 1000.0);
    assert_number(prompt, "bit_p50", 1250.0);
    assert_number(prompt, "ratio", 1.25);
    assert_number(json_object_get(prompt, "round_ratio"), "p50", 1.2);
    assert_number(json_object_get(prompt, "round_ratio"), "min", 1.2);
    assert_number(json_object_get(prompt, "round_ratio"), "max", 1.25);
    assert_int_equal(json_array_size(json_object_get(prompt, "bit")), N);
    assert_number(json_array_get(json_object_get(record, "series"), 1), "ratio", 2.0);
    assert_number(json_array_get(json_object_get(record, "series"), 2), "ratio", 1.05);
    json_decref(record);
}

static void the_lines_say_rates_ratios_and_start_up_times(void **state) {
    (void)state;
    sk_sizes s;
    sk_buf lines = {0};
    sk_sizes_default(&s);
    json_t *record = sk_bitcost_json(startup, rounds, N);
    assert_non_null(record);
    sk_bitcost_lines(record, &s, &lines);
    assert_non_null(strstr(lines.data,
                           "- A new prompt of 512 tokens: state 512.0 tokens/s, bit 409.6 tokens/s: bit takes "
                           "**1.25 times as long** (round by round 1.20, 1.20 to 1.25, 3 rounds).\n"));
    assert_non_null(strstr(lines.data,
                           "- Generation, one lane: state 20.0 tokens/s, bit 10.0 tokens/s: bit takes **2.00 "
                           "times as long**"));
    assert_non_null(strstr(lines.data, "- Generation, 4 lanes together: state 40.0 tokens/s, bit 38.1 tokens/s"));
    assert_non_null(
        strstr(lines.data, "state 1.00 s; bit 9.00 s the first time, with the row-class probe, and 1.50 s when"));
    json_decref(record);
    sk_buf_free(&lines);
}

/* A clock that saw nothing between one token and many must not become a ratio. */
static void a_time_that_is_not_positive_is_named(void **state) {
    (void)state;
    sk_sizes s;
    sk_buf lines = {0};
    sk_sizes_default(&s);
    const sk_cost_sample none[][SK_COST_SIDES] = {{{.prompt_ms = 1.0, .lone_ms = -0.1, .together_ms = 0.0},
                                                   {.prompt_ms = 1.0, .lone_ms = 0.1, .together_ms = 0.1}}};
    json_t *record = sk_bitcost_json(startup, none, 1);
    assert_non_null(record);
    sk_bitcost_lines(record, &s, &lines);
    assert_non_null(strstr(lines.data, "- Generation, one lane: too short to be measured.\n"));
    assert_non_null(strstr(lines.data, "- Generation, 4 lanes together: too short to be measured.\n"));
    json_decref(record);
    sk_buf_free(&lines);
}

static void nothing_measured_gives_no_record(void **state) {
    (void)state;
    assert_null(sk_bitcost_json(startup, rounds, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_series_has_medians_and_the_ratio_of_each_round),
        cmocka_unit_test(the_lines_say_rates_ratios_and_start_up_times),
        cmocka_unit_test(a_time_that_is_not_positive_is_named),
        cmocka_unit_test(nothing_measured_gives_no_record),
    };
    return cmocka_run_group_tests_name("bitcost", tests, NULL, NULL);
}
