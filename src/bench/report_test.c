#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/floor.h"
#include "bench/quick.h"
#include "bench/report.h"
#include "bench/row.h"

/* A report of one scenario on three servers, with times that make round medians. */
typedef struct fixture {
    sk_sizes sizes;
    sk_report r;
} fixture;

static void add(sk_measurement *m, const char *series, const double *ms, size_t n, size_t cache_n, size_t prompt_n) {
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(sk_measurement_add(m, series, ms[i], cache_n, prompt_n, NULL), SKIPPY_OK);
    }
}

static void answer(sk_measurement *m, bool cold, int32_t first, const char *text) {
    const sk_answer a = {.cold = cold,
                         .first_token = first,
                         .text = strdup(text),
                         .prompt = cold ? strdup("prompt") : NULL,
                         .n_predict = 4};
    assert_int_equal(sk_measurement_answer(m, a, NULL), SKIPPY_OK);
}

/* The first answer, a cold one, in other words. */
static void change_cold_answer(sk_measurement *m) {
    free(m->answers[0].text);
    m->answers[0].text = strdup("other text");
    assert_non_null(m->answers[0].text);
}

static void fixture_make(fixture *f, bool synthetic) {
    sk_sizes_default(&f->sizes);
    f->r = (sk_report){.sizes = &f->sizes,
                       .threads = 2,
                       .skippy_version = "1.2.3",
                       .variants = {{"llama-server", "", false, false},
                                    {"llama-server-tuned", "--cache-ram -1", false, false},
                                    {"skippy", "", true, false}},
                       .n_variants = 3};
    f->r.facts = (sk_bench_facts){.cpu = "Test CPU",
                                  .cores = 2,
                                  .memory_kib = 8388608,
                                  .date = "2026-01-02T03:04:05Z",
                                  .model_path = "m.gguf",
                                  .model_name = "a|b",
                                  .arch = "llama",
                                  .digest = "0123456789abcdef0123456789abcdef",
                                  .file_bytes = 1048576,
                                  .synthetic = synthetic};
    f->r.results = calloc(1, sizeof *f->r.results);
    assert_non_null(f->r.results);
    f->r.n_results = 1;
    sk_result *res = &f->r.results[0];
    res->scenario = sk_scenario_find("exact", 5);
    res->lanes = 1;
    res->n_ctx = 4096;
    const double base[] = {30.0, 20.0, 40.0};
    const double tuned[] = {10.0, 10.0, 10.0};
    const double ours[] = {2.0, 1.0, 3.0};
    add(&res->m[0], "exact repeat", base, 3, 127, 1);
    add(&res->m[1], "exact repeat", tuned, 3, 127, 1);
    add(&res->m[2], "exact repeat", ours, 3, 127, 1);
    for (size_t v = 0; v < 3; v++) {
        res->ran[v] = true;
        answer(&res->m[v], true, 5, "same text");
        answer(&res->m[v], false, 6, "x");
    }
}

static void fixture_free(fixture *f) {
    sk_report_free(&f->r);
}

static const char *row_of(const char *page, const char *start, char buf[512]) {
    const char *at = strstr(page, start);
    assert_non_null(at);
    const size_t n = strcspn(at, "\n");
    assert_true(n < 512);
    memcpy(buf, at, n);
    buf[n] = '\0';
    return buf;
}

static void a_row_shows_defaults_best_ours_and_both_ratios(void **state) {
    (void)state;
    fixture f;
    char row[512];
    sk_buf page = {0};
    fixture_make(&f, false);
    assert_int_equal(sk_report_markdown(&f.r, &page), SKIPPY_OK);
    assert_string_equal(row_of(page.data, "| exact", row),
                        "| exact: exact repeat | 3 | 30.00 / 40.00 | 10.00 / 10.00 | 2.00 / 3.00 | 15.00x | 5.00x | "
                        "127+1, 127+1, 127+1 | same (1 of 1; first tokens 2 of 2) |");
    assert_null(strstr(page.data, "ynthetic"));
    assert_non_null(strstr(page.data, "- machine: Test CPU, 2 cores, 8.0 GiB; 2 threads\n"));
    assert_non_null(strstr(page.data, "- llama-server-tuned: --cache-ram -1\n"));
    sk_buf_free(&page);
    fixture_free(&f);
}

static void slower_is_called_slower(void **state) {
    (void)state;
    fixture f;
    char row[512];
    sk_buf page = {0};
    fixture_make(&f, false);
    f.r.results[0].m[2].series[0].v[0].ms = 40.0;
    f.r.results[0].m[2].series[0].v[1].ms = 40.0;
    assert_int_equal(sk_report_markdown(&f.r, &page), SKIPPY_OK);
    assert_non_null(strstr(row_of(page.data, "| exact", row), "| 0.75x (slower) | 0.25x (slower) |"));
    sk_buf_free(&page);
    fixture_free(&f);
}

static void synthetic_weights_are_labelled_on_the_page_and_in_each_row(void **state) {
    (void)state;
    fixture f;
    sk_buf page = {0};
    fixture_make(&f, true);
    assert_int_equal(sk_report_markdown(&f.r, &page), SKIPPY_OK);
    assert_non_null(strstr(page.data, "**Synthetic weights**"));
    assert_non_null(strstr(page.data, "| exact: exact repeat (synthetic) |"));
    sk_buf_free(&page);
    fixture_free(&f);
}

static void another_cold_answer_makes_the_row_not_comparable(void **state) {
    (void)state;
    fixture f;
    char row[512];
    sk_buf page = {0};
    fixture_make(&f, false);
    change_cold_answer(&f.r.results[0].m[2]);
    assert_int_equal(sk_report_markdown(&f.r, &page), SKIPPY_OK);
    assert_non_null(
        strstr(row_of(page.data, "| exact", row), "differs (0 of 1; first tokens 2 of 2): not comparable |"));
    sk_buf_free(&page);
    fixture_free(&f);
}

static void another_warm_answer_is_reported_but_does_not_decide(void **state) {
    (void)state;
    fixture f;
    char row[512];
    sk_buf page = {0};
    fixture_make(&f, false);
    f.r.results[0].m[2].answers[1].first_token = 99;
    assert_int_equal(sk_report_markdown(&f.r, &page), SKIPPY_OK);
    assert_non_null(strstr(row_of(page.data, "| exact", row), "same (1 of 1; first tokens 1 of 2) |"));
    sk_buf_free(&page);
    fixture_free(&f);
}

static void a_near_tie_keeps_the_row_comparable_and_is_named(void **state) {
    (void)state;
    fixture f;
    char row[512];
    sk_buf page = {0};
    fixture_make(&f, false);
    change_cold_answer(&f.r.results[0].m[2]);
    for (size_t v = 0; v < 2; v++) {
        f.r.results[0].m[v].answers[0].tie = true;
        f.r.results[0].m[v].answers[0].tie_gap = 0.01;
    }
    assert_int_equal(sk_report_markdown(&f.r, &page), SKIPPY_OK);
    assert_non_null(strstr(row_of(page.data, "| exact", row),
                           "| same but for near ties (0 of 1, 1 near ties; first tokens 2 of 2) |"));
    sk_buf_free(&page);
    fixture_free(&f);
}

static void other_prompts_make_the_row_not_comparable(void **state) {
    (void)state;
    fixture f;
    char row[512];
    sk_buf page = {0};
    fixture_make(&f, false);
    f.r.results[0].m[2].prompts_digest[0] = 1;
    assert_int_equal(sk_report_markdown(&f.r, &page), SKIPPY_OK);
    assert_non_null(strstr(row_of(page.data, "| exact", row), "| prompts differ: not comparable |"));
    sk_buf_free(&page);
    fixture_free(&f);
}

static void a_server_that_failed_is_named_with_its_words(void **state) {
    (void)state;
    fixture f;
    char row[512];
    sk_buf page = {0};
    fixture_make(&f, false);
    sk_measurement_free(&f.r.results[0].m[2]);
    sk_err_set(&f.r.results[0].m[2].error, SKIPPY_E_RUNTIME, "it | fell\nover");
    assert_int_equal(sk_report_markdown(&f.r, &page), SKIPPY_OK);
    assert_non_null(
        strstr(row_of(page.data, "| exact", row), "| n/a | n/a | n/a | 127+1, 127+1, n/a | not measured on both |"));
    assert_non_null(strstr(page.data, "- exact on skippy failed: it / fell over\n"));
    sk_buf_free(&page);
    fixture_free(&f);
}

static void differences_and_lower_bound_are_written_out(void **state) {
    (void)state;
    fixture f;
    sk_buf page = {0};
    const double health[] = {0.5, 0.5, 0.5};
    const sk_floor_round round = {.server_ms = 4.2, .bare_ms = 4.0, .cache_n = 128, .prompt_n = 16};
    fixture_make(&f, false);
    add(&f.r.results[0].m[2], "health", health, 3, 0, 0);
    f.r.floor = json_array();
    json_array_append_new(f.r.floor, sk_floor_json("skippy", &round, 1));
    assert_int_equal(sk_report_markdown(&f.r, &page), SKIPPY_OK);
    assert_non_null(strstr(page.data, "- skippy: an exact repeat takes 1.50 ms more than its `/health` (0.50 ms).\n"));
    assert_non_null(strstr(page.data, "p50 4.20 ms, bare `llama_decode` 4.00 ms: **1.050 times as long**"));
    assert_null(strstr(page.data, "Cost of bit mode")); /* it was not measured */
    json_t *root = sk_report_json(&f.r);
    assert_int_equal(json_array_size(json_object_get(root, "floor")), 1);
    assert_null(json_object_get(root, "bit_cost"));
    json_decref(root);
    sk_buf_free(&page);
    fixture_free(&f);
}

static void json_has_every_raw_sample_the_counts_and_the_gate(void **state) {
    (void)state;
    fixture f;
    fixture_make(&f, true);
    json_t *root = sk_report_json(&f.r);
    assert_non_null(root);
    const json_t *res = json_array_get(json_object_get(root, "results"), 0);
    const json_t *row = json_array_get(json_object_get(res, "rows"), 0);
    char *text = json_dumps(json_object_get(row, "skippy"), JSON_COMPACT);
    assert_string_equal(text,
                        "{\"server\":\"skippy\",\"runs\":3,\"p50_ms\":2.0,\"p95_ms\":3.0,\"min_ms\":1.0,\"max_ms\":3.0,"
                        "\"spread\":1.0,\"cache_n\":127,\"prompt_n\":1}");
    free(text);
    text = json_dumps(json_object_get(row, "gate"), JSON_COMPACT);
    assert_string_equal(
        text,
        "{\"comparable\":true,\"same_prompts\":true,\"cold_answers\":1,\"cold_equal\":1,\"cold_ties\":0,\"answers\":2,"
        "\"first_token_equal\":2}");
    free(text);
    assert_true(json_real_value(json_object_get(row, "ratio")) == 15.0);
    assert_true(json_real_value(json_object_get(row, "ratio_best")) == 5.0);
    assert_true(json_is_true(json_object_get(res, "synthetic_weights")));
    const json_t *server = json_array_get(json_object_get(res, "servers"), 0);
    text = json_dumps(json_object_get(server, "series"), JSON_COMPACT);
    assert_string_equal(
        text, "[{\"series\":\"exact repeat\",\"ms\":[30.0,20.0,40.0],\"cache_n\":[127,127,127],\"prompt_n\":[1,1,1]}]");
    free(text);
    assert_null(json_object_get(server, "error"));
    json_decref(root);
    fixture_free(&f);
}

static void a_report_file_appears_whole_or_not_at_all(void **state) {
    (void)state;
    char dir[] = "report-test-XXXXXX";
    char path[64];
    char text[8] = "";
    sk_err e = {0};
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/r.md", dir);
    assert_int_equal(sk_report_write_file(path, "hello", 5, &e), SKIPPY_OK);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_int_equal(fread(text, 1, sizeof text, f), 5);
    fclose(f);
    assert_memory_equal(text, "hello", 5);
    remove(path);
    assert_int_equal(rmdir(dir), 0); /* nothing else is left */
    assert_int_equal(sk_report_write_file(path, "hello", 5, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, "cannot write"));
}

static void unknown_scenarios_are_refused_by_name(void **state) {
    (void)state;
    sk_err e = {0};
    sk_quick_options o = {.only = "exact,bar"};
    assert_int_equal(sk_quick_check(&o, &e), SKIPPY_E_INVALID);
    assert_string_equal(e.text, "there is no scenario 'bar'");
    o.only = "exact,edit-chat,floor,bitcost";
    assert_int_equal(sk_quick_check(&o, &e), SKIPPY_OK);
    o.only = "soak";
    assert_int_equal(sk_quick_check(&o, &e), SKIPPY_E_INVALID);
    o.soak = 10;
    assert_int_equal(sk_quick_check(&o, &e), SKIPPY_OK);
    o.only = "";
    assert_int_equal(sk_quick_check(&o, &e), SKIPPY_E_INVALID);
}

static void the_context_holds_every_lane_or_the_scenario_is_left_out(void **state) {
    (void)state;
    assert_int_equal(sk_quick_context(0, 1, 161, 0, 0), 4096);
    assert_int_equal(sk_quick_context(0, 1, 161, 0, 512), 512);
    assert_int_equal(sk_quick_context(0, 8, 2034, 0, 131072), 8 * 2048);
    assert_int_equal(sk_quick_context(0, 8, 2034, 512, 131072), 8 * 2560);
    assert_int_equal(sk_quick_context(1000, 2, 900, 0, 0), 2048);
    assert_int_equal(sk_quick_context(500, 1, 900, 0, 0), 0);
    assert_int_equal(sk_quick_context(0, 8, 2034, 0, 4096), 0);
}

static void every_scenario_has_a_name_and_seeds_of_its_own(void **state) {
    (void)state;
    sk_sizes s;
    sk_sizes_default(&s);
    for (size_t i = 0; sk_scenario_at(i); i++) {
        const sk_scenario *a = sk_scenario_at(i);
        assert_ptr_equal(sk_scenario_find(a->name, strlen(a->name)), a);
        for (size_t k = 0; k < i; k++) {
            const sk_scenario *b = sk_scenario_at(k);
            assert_string_not_equal(a->name, b->name);
            if (a->id != b->id) {
                assert_true(sk_sizes_seed(&s, a->id, 0, 0) != sk_sizes_seed(&s, b->id, 0, 0));
            }
        }
    }
    assert_true(sk_sizes_seed(&s, 1, 0, 1) != sk_sizes_seed(&s, 1, 1, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_shows_defaults_best_ours_and_both_ratios),
        cmocka_unit_test(slower_is_called_slower),
        cmocka_unit_test(synthetic_weights_are_labelled_on_the_page_and_in_each_row),
        cmocka_unit_test(another_cold_answer_makes_the_row_not_comparable),
        cmocka_unit_test(another_warm_answer_is_reported_but_does_not_decide),
        cmocka_unit_test(a_near_tie_keeps_the_row_comparable_and_is_named),
        cmocka_unit_test(other_prompts_make_the_row_not_comparable),
        cmocka_unit_test(a_server_that_failed_is_named_with_its_words),
        cmocka_unit_test(differences_and_lower_bound_are_written_out),
        cmocka_unit_test(json_has_every_raw_sample_the_counts_and_the_gate),
        cmocka_unit_test(a_report_file_appears_whole_or_not_at_all),
        cmocka_unit_test(unknown_scenarios_are_refused_by_name),
        cmocka_unit_test(the_context_holds_every_lane_or_the_scenario_is_left_out),
        cmocka_unit_test(every_scenario_has_a_name_and_seeds_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
