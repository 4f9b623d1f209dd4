/* Whole runs with programs that are scripts: what is measured, and what is left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/family/fake_server.h"
#include "bench/family/run_fixture.h"
#include "bench/family/run_state.h"

static sk_run_fixture fixture;

static int set_up(void **state) {
    (void)state;
    run_fixture_make(&fixture);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    run_fixture_free(&fixture);
    return 0;
}

static int run_it(sk_err *e) {
    return run_fixture_run(&fixture, NULL, e);
}

static void assert_runs(void) {
    sk_err e = {0};
    if (run_it(&e) != SKIPPY_OK) fail_msg("%s", e.text);
}

/* ---- what a run leaves ---- */

static void every_server_is_measured_and_every_cell_has_its_files(void **state) {
    (void)state;
    run_fixture_two_cells(&fixture, true);
    assert_runs();
    json_t *rows = run_fixture_load(&fixture, "production-cache-bench.json");
    json_t *full = json_array_get(rows, 0);
    assert_int_equal(json_array_size(rows), 2);
    assert_string_equal(run_fixture_text(full, "skippy", "status"), "pass");
    assert_string_equal(run_fixture_text(full, "llama_server", "status"), "ok");
    assert_int_equal(json_array_size(json_object_get(full, "hosts")), 3);
    assert_int_equal(run_fixture_samples(full, "exact", "exact", "skippy"), 3);
    assert_int_equal(run_fixture_samples(full, "exact", "exact", "llama-server"), 3);
    assert_int_equal(run_fixture_samples(full, "suffix", "suffix", "llama-server-tuned"), 3);
    assert_int_equal(run_fixture_samples(full, "restart", "restart", "skippy"), 1);
    assert_int_equal(run_fixture_samples(json_array_get(rows, 1), "exact", "exact", "skippy"), 3);
    json_decref(rows);
    static const char *const files[] = {"full/llama-p128/request.json",
                                        "full/llama-p128/row.json",
                                        "full/llama-p128/cell.json",
                                        "full/llama-p128/cache-correctness-stage.json",
                                        "full/llama-p128/process/correctness.stdout",
                                        "full/llama-p128/process/skippy-1.stderr",
                                        "sweep/llama-p64/row.json",
                                        "sweep/llama-p64/process/llama-server-1.stdout",
                                        "production-cache-bench.md",
                                        "run.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!run_fixture_has(&fixture, files[i])) fail_msg("'%s' is missing", files[i]);
    assert_false(run_fixture_has(&fixture, "full/llama-p128/row.partial.json"));
}

static void the_receipt_names_input_pins_versions_and_cells(void **state) {
    char hex[SK_SHA256_HEX];
    (void)state;
    run_fixture_two_cells(&fixture, false);
    assert_runs();
    assert_int_equal(sk_sha256_file(fixture.input_path, NULL, hex, NULL, NULL), SKIPPY_OK);
    json_t *run = run_fixture_load(&fixture, "run.json");
    assert_string_equal(json_string_value(json_object_get(run, "status")), "completed");
    assert_string_equal(run_fixture_text(run, "input", "sha256"), hex);
    assert_string_equal(run_fixture_text(json_object_get(run, "pins"), "before", "status"), "ok");
    assert_string_equal(run_fixture_text(json_object_get(run, "pins"), "after", "status"), "ok");
    assert_string_equal(run_fixture_text(run, "versions", "skippy bench"), "1.2.3");
    assert_string_equal(run_fixture_text(run, "versions", "llama-server"), "fake 1");
    assert_true(json_is_null(json_object_get(run, "promotion")));
    json_t *cells = json_object_get(run, "cells");
    assert_int_equal(json_array_size(cells), 2);
    assert_true(json_is_true(json_object_get(json_array_get(cells, 1), "finished")));
    json_decref(run);
}

static void receipts_name_every_file_and_every_process(void **state) {
    (void)state;
    run_fixture_two_cells(&fixture, false);
    assert_runs();
    json_t *cell = run_fixture_load(&fixture, "full/llama-p128/cell.json");
    json_t *files = json_object_get(cell, "files"), *processes = json_object_get(cell, "processes"), *one;
    size_t i, ours = 0;
    json_array_foreach(files, i, one) {
        char hex[SK_SHA256_HEX], path[1200];
        snprintf(path, sizeof path, "%s/full/llama-p128/%s", fixture.out_dir,
                 json_string_value(json_object_get(one, "path")));
        assert_int_equal(sk_sha256_file(path, NULL, hex, NULL, NULL), SKIPPY_OK);
        assert_string_equal(hex, json_string_value(json_object_get(one, "sha256")));
    }
    json_array_foreach(processes, i, one) {
        const char *role = json_string_value(json_object_get(one, "role"));
        ours += strcmp(role, "skippy") == 0;
        assert_true(json_is_object(json_object_get(one, "exit")));
    }
    /* correctness and three servers; request.json, the stage's file, two outputs a process */
    assert_int_equal(json_array_size(processes), 1 + 3);
    assert_int_equal(json_array_size(files), 2 + 2 * 4);
    assert_int_equal(ours, 1);
    json_decref(cell);
}

static void a_missing_model_is_a_row_and_no_failure(void **state) {
    (void)state;
    run_fixture_cell(&fixture, run_fixture_model(&fixture, "olmo", NULL), SK_CELL_FULL, 128, "full");
    run_fixture_save(&fixture);
    assert_runs();
    json_t *rows = run_fixture_load(&fixture, "production-cache-bench.json");
    json_t *row = json_array_get(rows, 0);
    assert_string_equal(run_fixture_text(row, "skippy", "status"), "missing-model");
    assert_string_equal(run_fixture_text(row, "llama_server", "status"), "missing-model");
    assert_string_equal(run_fixture_text(row, "skippy", "why"), "the test has no such file");
    assert_int_equal(json_array_size(json_object_get(row, "hosts")), 0);
    assert_true(run_fixture_has(&fixture, "full/olmo-p128/row.json"));
    json_decref(rows);
}

static void what_does_not_pass_is_not_compared(void **state) {
    sk_err e = {0};
    char *certificate = run_fixture_certificate("fail"), *body = NULL;
    (void)state;
    assert_true(asprintf(&body,
                         "#!/bin/sh\nwhile [ \"$1\" != --report-out ]; do shift; done\ncat >\"$2\" "
                         "<<'END'\n%s\nEND\nexit 1\n",
                         certificate) > 0);
    run_fixture_script(&fixture, "correctness", body);
    run_fixture_pin(&fixture, "correctness", &fixture.in->correctness);
    free(certificate);
    free(body);
    run_fixture_two_cells(&fixture, false);
    assert_int_equal(run_it(&e), SKIPPY_E_RUNTIME);
    assert_non_null(strstr(e.text, "2 of 2 cells failed"));
    json_t *rows = run_fixture_load(&fixture, "production-cache-bench.json");
    json_t *row = json_array_get(rows, 0);
    assert_string_equal(run_fixture_text(row, "skippy", "status"), "fail");
    assert_string_equal(run_fixture_text(row, "skippy", "why"), "the script says fail");
    assert_string_equal(run_fixture_text(row, "llama_server", "status"), "skipped");
    assert_int_equal(json_object_size(json_object_get(row, "parts")), 0);
    assert_false(run_fixture_has(&fixture, "server-logs"));
    json_decref(rows);
}

static void a_server_that_does_not_start_leaves_the_others_measured(void **state) {
    sk_err e = {0};
    (void)state;
    run_fixture_script(&fixture, "broken", "#!/bin/sh\necho 'no such flag' >&2\nexit 9\n");
    run_fixture_pin(&fixture, "broken", &fixture.in->native_server);
    run_fixture_two_cells(&fixture, false);
    assert_int_equal(run_it(&e), SKIPPY_E_RUNTIME);
    json_t *rows = run_fixture_load(&fixture, "production-cache-bench.json");
    json_t *row = json_array_get(rows, 0);
    assert_string_equal(run_fixture_text(row, "skippy", "status"), "pass");
    assert_string_equal(run_fixture_text(row, "llama_server", "status"), "error");
    assert_non_null(strstr(run_fixture_text(row, "llama_server", "why"), "no such flag"));
    assert_int_equal(run_fixture_samples(row, "exact", "exact", "skippy"), 3);
    json_decref(rows);
    json_t *cell = run_fixture_load(&fixture, "full/llama-p128/cell.json");
    assert_int_equal(json_array_size(json_object_get(cell, "processes")), 1 + 2 + 1); /* the lost ones left receipts */
    json_decref(cell);
}

static void where_memory_is_short_servers_run_one_after_another(void **state) {
    (void)state;
    fixture.in->sizes.ctx = 1 << 20; /* 1,048,576 tokens of 4 KiB for each of three servers, by the preset's numbers */
    run_fixture_two_cells(&fixture, false);
    fixture.in->models[0].found.layers = 1000;
    run_fixture_save(&fixture);
    assert_runs();
    json_t *rows = run_fixture_load(&fixture, "production-cache-bench.json");
    json_t *row = json_array_get(rows, 0);
    assert_string_equal(run_fixture_text(json_object_get(row, "parts"), "exact", "schedule"), "one after another");
    assert_int_equal(run_fixture_samples(row, "exact", "exact", "skippy"), 3);
    assert_string_equal(run_fixture_text(row, "llama_server", "status"), "ok");
    json_decref(rows);
}

static void paired_servers_are_measured_beside_the_others(void **state) {
    (void)state;
    run_fixture_pin(&fixture, "server", &fixture.in->old_server);
    run_fixture_pin(&fixture, "server", &fixture.in->new_server);
    run_fixture_cell(&fixture, run_fixture_model(&fixture, "llama", "weights"), SK_CELL_FULL, 128, "full")
        ->tasks.paired_serving = true;
    run_fixture_save(&fixture);
    assert_runs();
    json_t *rows = run_fixture_load(&fixture, "production-cache-bench.json");
    json_t *row = json_array_get(rows, 0);
    assert_int_equal(json_array_size(json_object_get(row, "hosts")), 5);
    assert_int_equal(run_fixture_samples(row, "exact", "exact", "old-server"), 3);
    assert_int_equal(run_fixture_samples(row, "exact", "exact", "new-server"), 3);
    json_decref(rows);
}

static void without_a_baseline_skippy_is_measured_alone(void **state) {
    (void)state;
    run_fixture_cell(&fixture, run_fixture_model(&fixture, "llama", "weights"), SK_CELL_FULL, 128, "full")
        ->tasks.serial_baseline = false;
    run_fixture_save(&fixture);
    assert_runs();
    json_t *rows = run_fixture_load(&fixture, "production-cache-bench.json");
    json_t *row = json_array_get(rows, 0);
    assert_string_equal(run_fixture_text(row, "skippy", "status"), "pass");
    assert_string_equal(run_fixture_text(row, "llama_server", "status"), "skipped");
    assert_int_equal(json_array_size(json_object_get(row, "hosts")), 1);
    assert_int_equal(run_fixture_samples(row, "exact", "exact", "skippy"), 3);
    json_decref(rows);
}

static void use_cases_are_measured_with_the_corpus_prompts(void **state) {
    static const char *const corpus =
        "{\"version\":1,\"use_cases\":[{\"key\":\"open_chat\",\"label\":\"Open chat\",\"prompt\":\"tell me about rivers\","
        "\"prefix_tokens\":16,\"source\":{\"dataset\":\"d\",\"config\":\"c\",\"split\":\"s\",\"row_idx\":1,"
        "\"written\":true}}]}";
    static const char *const keys[] = {"open_chat", "unknown_case"};
    sk_err e = {0};
    (void)state;
    const size_t m = run_fixture_model(&fixture, "llama", "weights");
    for (size_t i = 0; i < 2; i++) {
        sk_family_cell *c = run_fixture_cell(&fixture, m, SK_CELL_USE_CASE, 16, keys[i]);
        snprintf(c->use_case, sizeof c->use_case, "%s", keys[i]);
    }
    snprintf(fixture.in->kind, sizeof fixture.in->kind, "use-cases");
    run_fixture_file(&fixture, "corpus.json", corpus);
    run_fixture_pin(&fixture, "corpus.json", &fixture.in->corpus);
    run_fixture_save(&fixture);
    if (run_it(&e) != SKIPPY_OK) fail_msg("%s", e.text);
    json_t *rows = run_fixture_load(&fixture, "production-cache-bench.json");
    json_t *row = json_array_get(rows, 0), *other = json_array_get(rows, 1);
    assert_string_equal(json_string_value(json_object_get(row, "use_case_label")), "Open chat");
    assert_int_equal(run_fixture_samples(row, "exact", "exact", "skippy"), 3);
    assert_string_equal(run_fixture_text(other, "skippy", "status"), "refused");
    assert_string_equal(run_fixture_text(other, "skippy", "why"), "the corpus has no such use case");
    json_decref(rows);
}

static void a_package_cell_is_certified_and_not_served(void **state) {
    (void)state;
    sk_family_cell *c = run_fixture_cell(&fixture, run_fixture_model(&fixture, "deepseek3", "manifest"),
                                         SK_CELL_PACKAGE, 16, "package");
    c->tasks = (sk_cell_tasks){.correctness = true};
    run_fixture_save(&fixture);
    assert_runs();
    json_t *rows = run_fixture_load(&fixture, "production-cache-bench.json");
    json_t *row = json_array_get(rows, 0);
    assert_string_equal(run_fixture_text(row, "skippy", "status"), "pass");
    assert_string_equal(run_fixture_text(row, "llama_server", "status"), "skipped");
    assert_string_equal(json_string_value(json_object_get(row, "stage_load_mode")), "layer-package");
    assert_int_equal(json_integer_value(json_object_get(row, "state_layer_start")), 3);
    assert_int_equal(json_array_size(json_object_get(row, "notes")), 2); /* prefix of 32, synthetic hidden states */
    json_decref(rows);
}

/* ---- lines for people ---- */

static void the_remaining_time_follows_from_the_cells_that_ended(void **state) {
    (void)state;
    assert_true(sk_run_minutes_left(UINT64_C(60000000000), 0, 5) < 0.0);
    assert_true(sk_run_minutes_left(UINT64_C(120000000000), 2, 5) == 5.0);
    assert_true(sk_run_minutes_left(UINT64_C(120000000000), 2, 0) == 0.0);
}

static void every_cell_has_a_line(void **state) {
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    sk_err e = {0};
    (void)state;
    assert_non_null(out);
    run_fixture_two_cells(&fixture, false);
    assert_int_equal(run_fixture_run(&fixture, out, &e), SKIPPY_OK);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "1/2 llama full p128: pass; exact "));
    assert_non_null(strstr(text, "2/2 llama sweep p64: pass; exact "));
    assert_non_null(strstr(text, "the run is completed: 2 of 2 cells are final, 0 failed or were stopped"));
    free(text);
}

int main(int argc, char **argv) {
    int code = 0;
    if (fake_server_asked(argc, argv, &code)) return code;
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_server_is_measured_and_every_cell_has_its_files),
        TEST(the_receipt_names_input_pins_versions_and_cells),
        TEST(receipts_name_every_file_and_every_process),
        TEST(a_missing_model_is_a_row_and_no_failure),
        TEST(what_does_not_pass_is_not_compared),
        TEST(a_server_that_does_not_start_leaves_the_others_measured),
        TEST(where_memory_is_short_servers_run_one_after_another),
        TEST(paired_servers_are_measured_beside_the_others),
        TEST(without_a_baseline_skippy_is_measured_alone),
        TEST(use_cases_are_measured_with_the_corpus_prompts),
        TEST(a_package_cell_is_certified_and_not_served),
        TEST(the_remaining_time_follows_from_the_cells_that_ended),
        TEST(every_cell_has_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
