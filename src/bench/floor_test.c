#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/floor.h"

/* The machine is twice as slow in two of the four rounds, for both alike. */
static const sk_floor_round rounds[] = {
    {.server_ms = 110.0, .bare_ms = 100.0, .cache_n = 128, .prompt_n = 16, .server_idle_ms = 1.0, .bare_idle_ms = 2.2},
    {.server_ms = 220.0, .bare_ms = 200.0, .cache_n = 128, .prompt_n = 16, .server_idle_ms = 1.0, .bare_idle_ms = 2.2},
    {.server_ms = 210.0, .bare_ms = 200.0, .cache_n = 128, .prompt_n = 16, .server_idle_ms = 1.0, .bare_idle_ms = 2.2},
    {.server_ms = 120.0, .bare_ms = 100.0, .cache_n = 128, .prompt_n = 16, .server_idle_ms = 3.0, .bare_idle_ms = 0.0},
};
enum { N = sizeof rounds / sizeof rounds[0] };

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static void assert_near(double got, double wanted) {
    if (got < wanted - 1e-9 || got > wanted + 1e-9) {
        fail_msg("%.9f instead of %.9f", got, wanted);
    }
}

static void ratios_are_of_the_medians_and_of_each_round(void **state) {
    (void)state;
    json_t *record = sk_floor_json("skippy", rounds, N);
    assert_non_null(record);
    assert_near(number(record, "server_p50_ms"), 165.0);
    assert_near(number(record, "bare_p50_ms"), 150.0);
    assert_near(number(record, "ratio"), 1.1);
    const json_t *ratio = json_object_get(record, "round_ratio");
    assert_near(number(ratio, "p50"), 1.1);
    assert_near(number(ratio, "min"), 1.05);
    assert_near(number(ratio, "max"), 1.2);
    assert_near(number(ratio, "p25"), 1.05);
    assert_near(number(ratio, "p75"), 1.1);
    assert_int_equal(json_array_size(json_object_get(record, "rounds")), N);
    json_decref(record);
}

static void the_one_that_waits_is_accounted_for(void **state) {
    (void)state;
    json_t *record = sk_floor_json("skippy", rounds, N);
    assert_non_null(record);
    assert_near(number(record, "server_idle_cpu"), 6.0 / 600.0);
    assert_near(number(record, "bare_idle_cpu"), 6.6 / 660.0);
    assert_near(number(record, "cache_n"), 128.0);
    assert_near(number(record, "prompt_n"), 16.0);
    json_decref(record);
}

static void the_line_says_what_was_compared(void **state) {
    (void)state;
    sk_sizes s;
    sk_buf line = {0};
    sk_sizes_default(&s);
    json_t *record = sk_floor_json("skippy", rounds, N);
    assert_non_null(record);
    sk_floor_line(record, &s, &line);
    assert_string_equal(
        line.data, "- skippy, 128 + 16 tokens: p50 165.00 ms, bare `llama_decode` 150.00 ms: **1.100 times as long**; "
                   "round by round 1.100 (middle half 1.050 to 1.100, all 1.050 to 1.200, 4 rounds); 128+16 tokens "
                   "cached+computed; processor time of the one that waits: 1.0 % and 1.0 % of a core.\n");
    json_decref(record);
    sk_buf_free(&line);
}

static void nothing_measured_gives_no_record(void **state) {
    (void)state;
    assert_null(sk_floor_json("skippy", rounds, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ratios_are_of_the_medians_and_of_each_round),
        cmocka_unit_test(the_one_that_waits_is_accounted_for),
        cmocka_unit_test(the_line_says_what_was_compared),
        cmocka_unit_test(nothing_measured_gives_no_record),
    };
    return cmocka_run_group_tests_name("floor", tests, NULL, NULL);
}
