/* Rows: every field of the format, where their bytes come from, and rows of cells that did not run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench/family/cell.h"
#include "bench/family/cell_row.h"

static sk_family_input in;
static sk_family_cell cell;

static int set_up(void **state) {
    (void)state;
    in = (sk_family_input){.n_models = 1};
    in.models[0].preset = sk_preset_find("llama");
    in.models[0].found = (sk_found_model){.runtime_entry = "/models/llama.gguf",
                                          .layers = 8,
                                          .width = 2048,
                                          .synthetic = true,
                                          .quant = "Q4_K_M",
                                          .n_files = 1};
    in.models[0].found.file[0] = (sk_found_file){.path = "/models/llama.gguf", .bytes = 5};
    cell = (sk_family_cell){.preset = in.models[0].preset, .kind = SK_CELL_FULL, .prefix_tokens = 128};
    return 0;
}

static const char *text(json_t *row, const char *key) {
    return json_string_value(json_object_get(row, key));
}

static json_int_t number(json_t *row, const char *key) {
    assert_true(json_is_integer(json_object_get(row, key)));
    return json_integer_value(json_object_get(row, key));
}

static void a_row_without_a_run_has_every_field(void **state) {
    static const char *const fields[] = {"schema_version",
                                         "key",
                                         "family",
                                         "model_id",
                                         "model_path",
                                         "model_files",
                                         "synthetic",
                                         "layers",
                                         "layers_real",
                                         "width",
                                         "quant",
                                         "payload",
                                         "kind",
                                         "stage_load_mode",
                                         "state_layer_start",
                                         "state_layer_end",
                                         "prefix_tokens",
                                         "benchmark_prompt_token_count",
                                         "case",
                                         "use_case",
                                         "use_case_label",
                                         "use_case_source",
                                         "read",
                                         "skippy",
                                         "llama_server",
                                         "hosts",
                                         "parts",
                                         "notes",
                                         "promotion"};
    json_t *row = sk_cell_row_without_run(&in, &cell, "not-run", "nobody came");
    (void)state;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!json_object_get(row, fields[i])) fail_msg("'%s' is missing", fields[i]);
    assert_int_equal(json_object_size(row), sizeof fields / sizeof *fields);
    assert_string_equal(text(row, "key"), "llama");
    assert_string_equal(text(row, "kind"), "full");
    assert_string_equal(text(row, "stage_load_mode"), "runtime-slice");
    assert_int_equal(number(row, "layers"), 8);
    assert_int_equal(number(row, "layers_real"), 16);
    assert_int_equal(number(row, "state_layer_end"), 8);
    assert_int_equal(number(row, "benchmark_prompt_token_count"), 129);
    assert_string_equal(text(json_object_get(row, "skippy"), "status"), "not-run");
    assert_string_equal(text(json_object_get(row, "skippy"), "why"), "nobody came");
    assert_string_equal(text(json_object_get(row, "llama_server"), "status"), "skipped");
    assert_int_equal(json_array_size(json_object_get(row, "hosts")), 0);
    assert_int_equal(json_object_size(json_object_get(row, "parts")), 0);
    assert_true(json_is_null(json_object_get(row, "promotion")));
    json_decref(row);
}

static void the_case_has_every_field_of_the_preset(void **state) {
    json_t *row = sk_cell_row_without_run(&in, &cell, "not-run", "");
    json_t *preset = json_object_get(row, "case");
    (void)state;
    assert_int_equal(json_object_size(preset), 21);
    assert_string_equal(text(preset, "repo"), in.models[0].preset->repo);
    assert_int_equal(number(preset, "kv_bytes_per_token"), 32768);
    json_decref(row);
}

static void a_missing_model_is_missing_for_both_sides(void **state) {
    (void)state;
    in.models[0].found = (sk_found_model){.status = SK_FOUND_MISSING, .requested = "/models/other.gguf"};
    json_t *row = sk_cell_row_without_run(&in, &cell, "missing-model", "no such file");
    assert_string_equal(text(json_object_get(row, "llama_server"), "status"), "missing-model");
    assert_string_equal(text(row, "model_path"), "/models/other.gguf");
    assert_int_equal(number(row, "layers"), 16); /* of the real model */
    json_decref(row);
}

static void a_package_row_names_its_layers(void **state) {
    (void)state;
    in.models[0].preset = cell.preset = sk_preset_find("deepseek3");
    in.models[0].found.layers = 0;
    cell.kind = SK_CELL_PACKAGE;
    json_t *row = sk_cell_row_without_run(&in, &cell, "not-run", "");
    assert_string_equal(text(row, "stage_load_mode"), "layer-package");
    assert_int_equal(number(row, "state_layer_start"), 3);
    assert_int_equal(number(row, "state_layer_end"), 4);
    json_decref(row);
}

static void a_use_case_row_has_label_and_source_of_the_corpus(void **state) {
    char key[] = "open_chat", label[] = "Open chat", dataset[] = "d", config[] = "c", split[] = "s";
    sk_use_case use = {.key = key, .label = label, .dataset = dataset, .config = config, .split = split, .row_idx = 7};
    const sk_corpus corpus = {.v = &use, .n = 1};
    const sk_cell_status good = {"pass", ""}, ok = {"ok", ""};
    const sk_cell_outcome o = {.skippy = &good, .llama = &ok};
    (void)state;
    cell.kind = SK_CELL_USE_CASE;
    snprintf(cell.use_case, sizeof cell.use_case, "open_chat");
    json_t *row = sk_cell_row(&in, &corpus, &cell, &o);
    json_t *source = json_object_get(row, "use_case_source");
    assert_string_equal(text(row, "kind"), "use-case");
    assert_string_equal(text(row, "use_case"), "open_chat");
    assert_string_equal(text(row, "use_case_label"), "Open chat");
    assert_string_equal(text(source, "dataset"), "d");
    assert_int_equal(number(source, "row_idx"), 7);
    assert_true(json_is_false(json_object_get(source, "written")));
    json_decref(row);
}

static void the_certificate_is_part_of_the_row(void **state) {
    const sk_correctness c = {.status = "pass",
                              .why = "continues exactly",
                              .elapsed_ms = 9000.0,
                              .recompute_total_ms = 800.0,
                              .cache_hit_total_ms = 30.0,
                              .storage_bytes = 4096,
                              .prompt_tokens = 128};
    const sk_cell_status bad = {"error", "it fell over"}, ok = {"ok", ""};
    const sk_cell_outcome o = {.correctness = &c, .skippy = &bad, .llama = &ok};
    (void)state;
    json_t *row = sk_cell_row(&in, NULL, &cell, &o);
    json_t *ours = json_object_get(row, "skippy");
    assert_string_equal(text(ours, "status"), "error");
    assert_string_equal(text(ours, "verdict"), "continues exactly");
    assert_string_equal(text(ours, "report"), "cache-correctness-stage.json");
    assert_string_equal(text(ours, "storage_method"), "measured");
    assert_int_equal(number(ours, "storage_bytes"), 4096);
    assert_true(json_real_value(json_object_get(ours, "recompute_total_ms")) == 800.0);
    json_decref(row);
}

static void bytes_are_measured_or_derived_from_the_layers_that_are_there(void **state) {
    sk_correctness c = {.storage_bytes = 4096, .prompt_tokens = 128};
    (void)state;
    assert_int_equal(sk_cell_storage_of(&in, &cell, &c).bytes, 4096);
    c.prompt_tokens = 32; /* another length than the cell's */
    assert_string_equal(sk_cell_storage_of(&in, &cell, &c).method, "metadata-derived");
    assert_int_equal(sk_cell_storage_of(&in, &cell, &c).bytes, 32768 / 2 * 128);
    assert_int_equal(sk_cell_storage_of(&in, &cell, NULL).bytes, 32768 / 2 * 128);
    in.models[0].preset = cell.preset = sk_preset_find("falcon_h1");
    assert_string_equal(sk_cell_storage_of(&in, &cell, NULL).method, "n/a");
    in.models[0].preset = cell.preset = sk_preset_find("deepseek3");
    /* of the one layer that is measured */
    assert_int_equal(sk_cell_storage_of(&in, &cell, NULL).bytes, cell.preset->kv_bytes_per_token / 61 * 128);
}

static void the_first_bad_status_stays(void **state) {
    sk_cell_status s = {{0}, {0}};
    (void)state;
    sk_cell_status_worsen(&s, "pass", "pass", "");
    sk_cell_status_worsen(&s, "pass", "error", "first");
    sk_cell_status_worsen(&s, "pass", "timeout", "second");
    assert_string_equal(s.status, "error");
    assert_string_equal(s.why, "first");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(a_row_without_a_run_has_every_field),
        TEST(the_case_has_every_field_of_the_preset),
        TEST(a_missing_model_is_missing_for_both_sides),
        TEST(a_package_row_names_its_layers),
        TEST(a_use_case_row_has_label_and_source_of_the_corpus),
        TEST(the_certificate_is_part_of_the_row),
        TEST(bytes_are_measured_or_derived_from_the_layers_that_are_there),
        TEST(the_first_bad_status_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
