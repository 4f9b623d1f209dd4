/* Certification as a process: command lines, reports, failures, and what is shared. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/family/certify_words.h"
#include "bench/family/child.h"
#include "bench/family/correctness.h"
#include "bench/family/run_fixture.h"

enum { LONG_MS = 60000 };

static sk_run_fixture fixture;
static char cell_folder[700];

static int set_up(void **state) {
    (void)state;
    run_fixture_make(&fixture);
    run_fixture_cell(&fixture, run_fixture_model(&fixture, "llama", "weights"), SK_CELL_FULL, 128, "full");
    snprintf(cell_folder, sizeof cell_folder, "%s/cell", fixture.folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    run_fixture_free(&fixture);
    return 0;
}

static void use_script(const char *body) {
    run_fixture_script(&fixture, "correctness", body);
}

static void certify(int timeout_ms, sk_correctness *out) {
    sk_err e = {0};
    if (sk_correctness_run(fixture.in, fixture.in->cells, cell_folder, timeout_ms, out, &e) != SKIPPY_OK)
        fail_msg("%s", e.text);
}

/* ---- command lines ---- */

static bool has_pair(const sk_certify_words *w, const char *flag, const char *value) {
    for (size_t i = 0; w->v[i] && w->v[i + 1]; i++)
        if (strcmp(w->v[i], flag) == 0 && strcmp(w->v[i + 1], value) == 0) return true;
    return false;
}

static bool has_word(const sk_certify_words *w, const char *word) {
    for (size_t i = 0; w->v[i]; i++)
        if (strcmp(w->v[i], word) == 0) return true;
    return false;
}

static void a_whole_model_is_certified_with_the_cells_sizes(void **state) {
    sk_certify_words w;
    (void)state;
    fixture.in->sizes.n_gpu_layers = -1;
    sk_certify_words_make(fixture.in, fixture.in->cells, "report.json", false, &w);
    assert_string_equal(w.v[0], fixture.in->correctness.path);
    assert_string_equal(w.v[1], "certify");
    assert_true(has_pair(&w, "-m", fixture.in->models[0].found.runtime_entry));
    assert_true(has_pair(&w, "--prefix", "128"));
    assert_true(has_pair(&w, "--repeats", "3"));
    assert_true(has_pair(&w, "-t", "1"));
    assert_true(has_pair(&w, "-ngl", "-1"));
    assert_true(has_pair(&w, "--report-out", "report.json"));
    assert_true(has_word(&w, "--no-receipt"));
    assert_false(has_word(&w, "--package"));
}

static void a_package_is_certified_by_its_layers(void **state) {
    sk_certify_words w;
    (void)state;
    sk_family_cell *c = run_fixture_cell(&fixture, run_fixture_model(&fixture, "deepseek3", "manifest"),
                                         SK_CELL_PACKAGE, 16, "package");
    fixture.in->sizes.threads = 0;
    sk_certify_words_make(fixture.in, c, "report.json", true, &w);
    assert_true(has_pair(&w, "--package", fixture.in->models[1].found.runtime_entry));
    assert_true(has_pair(&w, "--layers", "3..3"));
    assert_true(has_pair(&w, "--stage", "1"));
    assert_true(has_pair(&w, "--producer", "0..2"));
    assert_true(has_pair(&w, "--prefix", "32")); /* the fewest that certify takes */
    assert_false(has_word(&w, "-m"));
    assert_false(has_word(&w, "-t"));
    sk_certify_words_make(fixture.in, c, "report.json", false, &w);
    assert_false(has_word(&w, "--producer"));
}

static void lengths_and_repeats_stay_in_bounds(void **state) {
    (void)state;
    sk_family_cell *c = fixture.in->cells;
    c->prefix_tokens = 1;
    assert_int_equal(sk_certify_prefix(c), 32);
    c->prefix_tokens = 60000;
    assert_int_equal(sk_certify_prefix(c), 8192);
    fixture.in->sizes.cache_hit_repeats = 1;
    assert_int_equal(sk_certify_repeats(&fixture.in->sizes), 3);
    fixture.in->sizes.cache_hit_repeats = 20;
    assert_int_equal(sk_certify_repeats(&fixture.in->sizes), 5);
}

/* ---- reports ---- */

static json_t *report(const char *text) {
    json_error_t why;
    json_t *root = json_loads(text, 0, &why);
    if (!root) fail_msg("%s", why.text);
    return root;
}

#define TARGET(import)                                                                                                 \
    "\"targets\":[{\"target\":\"fresh-process\",\"import_ms\":[1,900],\"decode_ms\":[1,900]},"                         \
    "{\"target\":\"fresh-lane\",\"import_ms\":[100," import "],\"decode_ms\":[100,6,8]}]"
#define LAYOUT(status, verdict, kind, outcome, import, bytes)                                                          \
    "{\"status\":\"" status "\",\"verdict\":\"" verdict "\",\"lengths\":[{\"prompt_token_count\":128,"                 \
    "\"source_prefill_ms\":200.5,\"source_decode_ms\":4.5,\"modes\":[{\"mode\":\"resident\",\"outcome\":\"pass\","     \
    "\"targets\":[],\"economics\":null},{\"mode\":\"" kind "\",\"outcome\":\"" outcome                                 \
    "\"," TARGET(import) ",\"economics\":{\"cache_storage_bytes\":" bytes "}}]}]}"

static void numbers_are_those_of_the_payload_in_a_lane_without_the_first_restore(void **state) {
    sk_correctness c = {.payload = ""};
    json_t *root = report("[" LAYOUT("pass", "good", "resident-kv", "pass", "2,4", "7777") "]");
    (void)state;
    sk_correctness_read(root, "ResidentKv", &c);
    assert_string_equal(c.status, "pass");
    assert_string_equal(c.why, "good");
    assert_string_equal(c.payload, "resident-kv");
    assert_true(c.recompute_total_ms == 205.0);
    assert_true(c.cache_hit_total_ms == 3.0 + 7.0);
    assert_int_equal(c.storage_bytes, 7777);
    assert_int_equal(c.prompt_tokens, 128);
    json_decref(root);
}

static void a_payload_that_was_not_certified_has_no_numbers(void **state) {
    sk_correctness c = {.payload = ""};
    json_t *root = report("[" LAYOUT("pass", "good", "kv-recurrent", "refused", "2,4", "7777") "]");
    (void)state;
    sk_correctness_read(root, "KvRecurrent", &c);
    assert_string_equal(c.status, "pass");
    assert_string_equal(c.payload, "");
    assert_int_equal(c.storage_bytes, 0);
    assert_true(c.cache_hit_total_ms == 0.0);
    json_decref(root);
}

static void one_layout_that_fails_fails_the_model(void **state) {
    sk_correctness c = {.payload = ""};
    json_t *root = report("[" LAYOUT("fail", "the first differs", "resident-kv", "fail", "2,4", "1") "," LAYOUT(
        "pass", "the second is good", "resident-kv", "pass", "2,4", "9") "]");
    (void)state;
    sk_correctness_read(root, "ResidentKv", &c);
    assert_string_equal(c.status, "fail");
    assert_string_equal(c.why, "the first differs");
    json_decref(root);
}

static void the_full_window_cache_has_the_last_word_about_numbers(void **state) {
    sk_correctness c = {.payload = ""};
    json_t *root = report("[" LAYOUT("pass", "sliding", "resident-kv", "pass", "2,4",
                                     "1") "," LAYOUT("pass", "full", "resident-kv", "pass", "20,40", "9") "]");
    (void)state;
    sk_correctness_read(root, "ResidentKv", &c);
    assert_int_equal(c.storage_bytes, 9);
    assert_true(c.cache_hit_total_ms == 30.0 + 7.0);
    json_decref(root);
}

static void an_empty_report_is_an_error(void **state) {
    sk_correctness c = {.payload = ""};
    json_t *root = report("[]");
    (void)state;
    sk_correctness_read(root, "ResidentKv", &c);
    assert_string_equal(c.status, "error");
    json_decref(root);
}

/* ---- the process ---- */

static void the_stage_file_has_request_report_and_receipt(void **state) {
    sk_correctness c;
    char path[800], hex[SK_SHA256_HEX];
    (void)state;
    certify(LONG_MS, &c);
    assert_string_equal(c.status, "pass");
    assert_true(c.recompute_total_ms == 80.0);
    snprintf(path, sizeof path, "%s/cache-correctness-stage.json", cell_folder);
    json_t *stage = json_load_file(path, 0, NULL);
    json_t *request = json_object_get(stage, "request"), *process = json_object_get(stage, "process");
    assert_string_equal(json_string_value(json_object_get(request, "case_key")), "llama");
    assert_true(json_is_false(json_object_get(request, "borrow_resident_hits")));
    assert_true(json_is_false(json_object_get(request, "cache_decoded_result_hits")));
    assert_int_equal(json_array_size(json_object_get(stage, "report")), 1);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(process, "exit"), "code")), 0);
    assert_true(json_is_false(json_object_get(process, "forced")));
    snprintf(path, sizeof path, "%s/process/correctness.stdout", cell_folder);
    assert_int_equal(sk_sha256_file(path, NULL, hex, NULL, NULL), SKIPPY_OK);
    assert_string_equal(hex, json_string_value(json_object_get(json_object_get(process, "stdout"), "sha256")));
    json_decref(stage);
    sk_correctness_free(&c);
}

static void a_program_without_a_report_is_an_error_in_its_words(void **state) {
    sk_correctness c;
    (void)state;
    use_script("#!/bin/sh\necho 'the file is damaged' >&2\nexit 1\n");
    certify(LONG_MS, &c);
    assert_string_equal(c.status, "error");
    assert_non_null(strstr(c.why, "code 1"));
    assert_non_null(strstr(c.why, "the file is damaged"));
    assert_null(c.report);
    sk_correctness_free(&c);
}

static void a_program_that_dies_is_an_error_with_its_signal(void **state) {
    sk_correctness c;
    (void)state;
    use_script("#!/bin/sh\nkill -SEGV $$\n");
    certify(LONG_MS, &c);
    assert_string_equal(c.status, "error");
    assert_non_null(strstr(c.why, "signal 11"));
    sk_correctness_free(&c);
}

static void a_program_that_takes_too_long_is_ended(void **state) {
    sk_correctness c;
    (void)state;
    use_script("#!/bin/sh\nexec sleep 60\n");
    certify(50, &c);
    assert_string_equal(c.status, "timeout");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(c.receipt, "exit"), "signal")), SIGTERM);
    sk_correctness_free(&c);
}

static void a_program_that_cannot_be_started_is_an_error(void **state) {
    sk_correctness c;
    (void)state;
    snprintf(fixture.in->correctness.path, sizeof fixture.in->correctness.path, "%s/there-is-none", fixture.folder);
    certify(LONG_MS, &c);
    assert_string_equal(c.status, "error");
    assert_non_null(strstr(c.why, "there-is-none"));
    assert_null(c.receipt);
    sk_correctness_free(&c);
}

static void a_folder_that_cannot_be_made_is_an_error(void **state) {
    sk_correctness c;
    sk_err e = {0};
    (void)state;
    run_fixture_file(&fixture, "cell", "a file");
    assert_int_equal(sk_correctness_run(fixture.in, fixture.in->cells, cell_folder, LONG_MS, &c, &e), SKIPPY_E_IO);
}

/* ---- sharing and going on ---- */

static void a_certificate_is_shared_and_recalled_for_the_same_request_alone(void **state) {
    sk_correctness c, again;
    sk_err e = {0};
    char other[700];
    (void)state;
    certify(LONG_MS, &c);
    snprintf(other, sizeof other, "%s/other", fixture.folder);
    assert_int_equal(sk_correctness_share(fixture.in, fixture.in->cells, &c, cell_folder, other, &e), SKIPPY_OK);
    assert_true(sk_correctness_recall(fixture.in, fixture.in->cells, other, &again));
    assert_string_equal(again.status, "pass");
    assert_int_equal(again.storage_bytes, c.storage_bytes);
    assert_true(json_equal(again.receipt, c.receipt));
    sk_correctness_free(&again);
    fixture.in->cells[0].prefix_tokens = 64;
    assert_false(sk_correctness_recall(fixture.in, fixture.in->cells, other, &again));
    sk_correctness_free(&again);
    sk_correctness_free(&c);
}

static void a_certificate_without_its_outputs_is_not_recalled(void **state) {
    sk_correctness c, again;
    char path[800];
    (void)state;
    certify(LONG_MS, &c);
    snprintf(path, sizeof path, "%s/process/correctness.stderr", cell_folder);
    assert_int_equal(unlink(path), 0);
    assert_false(sk_correctness_recall(fixture.in, fixture.in->cells, cell_folder, &again));
    sk_correctness_free(&again);
    sk_correctness_free(&c);
}

static void a_certificate_that_was_not_finished_is_not_recalled(void **state) {
    sk_correctness c, again;
    (void)state;
    use_script("#!/bin/sh\nexit 1\n");
    certify(LONG_MS, &c);
    assert_false(sk_correctness_recall(fixture.in, fixture.in->cells, cell_folder, &again));
    sk_correctness_free(&again);
    sk_correctness_free(&c);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_whole_model_is_certified_with_the_cells_sizes),
        TEST(a_package_is_certified_by_its_layers),
        TEST(lengths_and_repeats_stay_in_bounds),
        cmocka_unit_test(numbers_are_those_of_the_payload_in_a_lane_without_the_first_restore),
        cmocka_unit_test(a_payload_that_was_not_certified_has_no_numbers),
        cmocka_unit_test(one_layout_that_fails_fails_the_model),
        cmocka_unit_test(the_full_window_cache_has_the_last_word_about_numbers),
        cmocka_unit_test(an_empty_report_is_an_error),
        TEST(the_stage_file_has_request_report_and_receipt),
        TEST(a_program_without_a_report_is_an_error_in_its_words),
        TEST(a_program_that_dies_is_an_error_with_its_signal),
        TEST(a_program_that_takes_too_long_is_ended),
        TEST(a_program_that_cannot_be_started_is_an_error),
        TEST(a_folder_that_cannot_be_made_is_an_error),
        TEST(a_certificate_is_shared_and_recalled_for_the_same_request_alone),
        TEST(a_certificate_without_its_outputs_is_not_recalled),
        TEST(a_certificate_that_was_not_finished_is_not_recalled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
