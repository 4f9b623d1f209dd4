/* What the report of `skippy bench stages` says about rounds whose numbers are known, and how a model is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/stages.h"
#include "bench/stages_columns.h"
#include "bench/stages_split.h"

static bool near(double a, double b) {
    return a - b < 1e-9 && b - a < 1e-9;
}

static void says(const char *text, const char *words) {
    if (!strstr(text, words)) fail_msg("'%s' is not in: %s", words, text);
}

/* 4 generated tokens of 10.5 ms each, 10 of them computed. */
static const sk_stages_visit VISIT = {
    .cold_ms = 400, .warm_ms = 4, .long_ms = 46, .warm_compute_ms = 1, .long_compute_ms = 41};

static void a_token_is_what_the_long_answer_took_longer(void **state) {
    (void)state;
    assert_true(near(sk_stages_token_ms(&VISIT, 4), 10.5));
    assert_true(near(sk_stages_token_compute_ms(&VISIT, 4), 10.0));
    assert_true(near(sk_stages_overhead(&VISIT, 4), 0.05));
    assert_true(near(sk_stages_token_ms(&VISIT, 0), 0.0));
}

static void without_compute_times_there_is_no_overhead(void **state) {
    (void)state;
    sk_stages_visit v = VISIT;
    v.warm_compute_ms = v.long_compute_ms = 0.0;
    assert_true(near(sk_stages_token_compute_ms(&v, 4), 0.0));
    assert_true(near(sk_stages_overhead(&v, 4), 0.0));
}

static void the_gain_of_lanes_is_both_alone_by_together(void **state) {
    (void)state;
    const sk_stages_lanes_round round = {.first_ms = 100, .second_ms = 80, .together_ms = 100};
    assert_true(near(sk_stages_lanes_gain(&round), 1.8));
    assert_true(near(sk_stages_lanes_gain(&(sk_stages_lanes_round){0}), 0.0));
}

static void ratios_are_taken_round_by_round(void **state) {
    (void)state;
    /* a slow minute of the machine hits the second round of both */
    sk_stages_visit ours[] = {{.cold_ms = 10}, {.cold_ms = 100}}, theirs[] = {{.cold_ms = 20}, {.cold_ms = 200}};
    const sk_stages_rivals r = {.visits = {ours, theirs}, .n = 2};
    const sk_summary s = sk_stages_ratio(&r, SK_COLUMN_COLD, 1);
    assert_int_equal(s.n, 2);
    assert_true(near(s.min, 2.0) && near(s.max, 2.0));
}

/* A report with a part of each kind; the caller frees it. */
static sk_stages_report whole_report(void) {
    sk_stages_report r = {.version = "9.9", .threads = 1, .prompt_tokens = 128, .predict = 4, .n_layers = 16};
    snprintf(r.facts.model_name, sizeof r.facts.model_name, "tiny");
    snprintf(r.error[SK_STAGES_LANES], sizeof r.error[0], "a stage ended");
    r.overhead = calloc(1, sizeof *r.overhead);
    r.lanes = calloc(1, sizeof *r.lanes);
    for (size_t s = 0; s < SK_STAGES_SERVERS; s++) r.rivals[1].visits[s] = r.rivals[0].visits[s] = NULL;
    for (size_t i = 0; i < SK_STAGES_LINKS; i++) {
        for (size_t s = 0; s < SK_STAGES_SERVERS; s++) {
            r.rivals[i].visits[s] = calloc(1, sizeof *r.rivals[i].visits[s]);
            assert_non_null(r.rivals[i].visits[s]);
            *r.rivals[i].visits[s] = VISIT;
        }
        r.rivals[i].n = r.rivals[i].same_text = 1;
        r.rivals[i].delay_ms = i ? 5.0 : 0.0;
        r.rivals[i].visits[SK_STAGES_RPC]->long_ms = 4 + 4 * 31.5;
    }
    assert_true(r.overhead && r.lanes);
    *r.overhead = VISIT;
    *r.lanes = (sk_stages_lanes_round){.first_ms = 100, .second_ms = 80, .together_ms = 100};
    r.n_overhead = r.n_lanes = r.n_processes = 1;
    r.processes[0] =
        (sk_stages_process){.from = 0, .to = 6, .weights = 3 << 20, .model_weights = 12 << 20, .disk = 5 << 20};
    r.processes[0].memory = (sk_process_memory){.rss = 7 << 10, .file = 4 << 10, .anon = 3 << 10};
    return r;
}

static void the_page_names_every_result_and_what_failed(void **state) {
    (void)state;
    sk_stages_report r = whole_report();
    sk_buf page = {0};
    assert_int_equal(sk_stages_markdown(&r, &page), SKIPPY_OK);
    says(page.data, "**Overhead 5.00 %**");
    says(page.data, "**1.80 times earlier**");
    says(page.data, "| 5 ms each way | a generated token | 31.50 (31.50 to 31.50) | 10.50 (10.50 to 10.50) |");
    says(page.data, "| 3.00x (3.00 to 3.00) |");
    says(page.data, "a repeat takes 1/100.0 of the new prompt's time");
    says(page.data, "| 0 to 5 | 3.0 | 25.0 % | 7.0 | 4.0 | 3.0 | 5.0 |");
    says(page.data, "**lanes is not complete**: a stage ended");
    sk_buf_free(&page);
    sk_stages_report_free(&r);
}

static double number_at(const json_t *root, const char *part, size_t i, const char *key, const char *value) {
    const json_t *o = json_object_get(root, part);
    if (json_is_array(o)) o = json_array_get(o, i);
    const json_t *n = json_object_get(json_object_get(o, key), value);
    if (!json_is_number(n)) fail_msg("%s.%s.%s is no number", part, key, value);
    return json_number_value(n);
}

static void json_has_every_round(void **state) {
    (void)state;
    sk_stages_report r = whole_report();
    json_t *root = sk_stages_json(&r);
    assert_non_null(root);
    assert_true(near(number_at(root, "overhead", 0, "overhead", "p50"), 0.05));
    assert_true(near(number_at(root, "lanes", 0, "gain", "p50"), 1.8));
    assert_true(near(number_at(root, "rivals", 1, "token_ratio", "p50"), 3.0));
    const json_t *rivals = json_object_get(root, "rivals");
    assert_int_equal(json_array_size(rivals), 2);
    assert_int_equal(json_array_size(json_object_get(json_object_get(json_array_get(rivals, 1), "rpc"), "rounds")), 1);
    assert_int_equal(json_array_size(json_object_get(root, "memory")), 1);
    assert_string_equal(json_string_value(json_object_get(json_object_get(root, "errors"), "lanes")), "a stage ended");
    json_decref(root);
    sk_stages_report_free(&r);
}

static void a_report_without_results_is_still_one(void **state) {
    (void)state;
    const sk_stages_report r = {.version = "9.9"};
    sk_buf page = {0};
    json_t *root = sk_stages_json(&r);
    assert_non_null(root);
    assert_null(json_object_get(root, "overhead"));
    assert_int_equal(sk_stages_markdown(&r, &page), SKIPPY_OK);
    says(page.data, "## Stages");
    json_decref(root);
    sk_buf_free(&page);
}

static void layers_are_cut_evenly_or_as_asked(void **state) {
    (void)state;
    sk_stages_split s;
    sk_err e = {0};
    assert_int_equal(sk_stages_split_make(16, (const int32_t[]){0, 0}, 3, &s, &e), SKIPPY_OK);
    assert_int_equal(s.first[0], 0);
    assert_int_equal(s.first[1], 5);
    assert_int_equal(s.first[2], 10);
    assert_int_equal(s.first[3], 16);
    assert_int_equal(sk_stages_split_make(16, (const int32_t[]){2, 15}, 3, &s, &e), SKIPPY_OK);
    assert_int_equal(s.first[1], 2);
    assert_int_equal(s.first[2], 15);
}

static void a_stage_without_layers_is_refused_in_words(void **state) {
    (void)state;
    sk_stages_split s;
    sk_err e = {0};
    assert_int_equal(sk_stages_split_make(2, (const int32_t[]){0, 0}, 3, &s, &e), SKIPPY_E_INVALID);
    says(e.text, "2 layers cannot be cut into 3 stages");
    assert_int_equal(sk_stages_split_make(16, (const int32_t[]){16}, 2, &s, &e), SKIPPY_E_INVALID);
}

static void sizes_must_fit_the_context(void **state) {
    (void)state;
    sk_stages_options o = {.out_dir = "x", .lane_ctx = 64, .prompt_tokens = 50, .predict = 12};
    sk_err e = {0};
    assert_int_equal(sk_stages_check(&o, &e), SKIPPY_OK);
    o.predict = 13;
    assert_int_equal(sk_stages_check(&o, &e), SKIPPY_E_INVALID);
    says(e.text, "a context of 64 tokens");
    o.predict = 1;
    o.out_dir = "a folder";
    assert_int_equal(sk_stages_check(&o, &e), SKIPPY_E_INVALID);
    says(e.text, "'a folder' has a blank");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_what_the_long_answer_took_longer),
        cmocka_unit_test(without_compute_times_there_is_no_overhead),
        cmocka_unit_test(the_gain_of_lanes_is_both_alone_by_together),
        cmocka_unit_test(ratios_are_taken_round_by_round),
        cmocka_unit_test(the_page_names_every_result_and_what_failed),
        cmocka_unit_test(json_has_every_round),
        cmocka_unit_test(a_report_without_results_is_still_one),
        cmocka_unit_test(layers_are_cut_evenly_or_as_asked),
        cmocka_unit_test(a_stage_without_layers_is_refused_in_words),
        cmocka_unit_test(sizes_must_fit_the_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
