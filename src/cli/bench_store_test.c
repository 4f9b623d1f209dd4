/* `skippy bench store` as people call it, on tiny models of each memory kind. No test looks at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "cli/bench_store.h"
#include "cli/capture.h"
#include "runtime/test_models.h"

static captured output;

#define RUN(...) capture(&output, sk_cli_bench_store, (const char *[]){"skippy bench store", __VA_ARGS__, NULL})

static int forget_output(void **state) {
    (void)state;
    captured_free(&output);
    return 0;
}

static void says(const char *text, const char *words) {
    if (!strstr(text, words)) fail_msg("'%s' is not in: %s", words, text);
}

static json_int_t integer(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v)) fail_msg("'%s' is no integer", key);
    return json_integer_value(v);
}

static double saved(const json_t *use) {
    const double percent = json_number_value(json_object_get(json_object_get(use, "total"), "saved_percent"));
    assert_true(percent >= 0.0 && percent <= 100.0);
    return percent;
}

/* What the source gave is what the store kept; parts add up; every cut sees the same state. */
static void check_use(const json_t *use, json_int_t logical, json_int_t tokens) {
    const json_t *total = json_object_get(use, "total");
    json_int_t sum = 0;
    const char *key;
    json_t *content;
    json_object_foreach(json_object_get(use, "contents"), key, content) sum += integer(content, "unique_bytes");
    assert_int_equal(sum, integer(total, "unique_bytes"));
    assert_int_equal(integer(use, "block_bytes"), integer(total, "unique_bytes"));
    assert_true(integer(use, "store_bytes") >= integer(use, "block_bytes"));
    assert_true(integer(use, "block_references") >= integer(use, "unique_blocks"));
    /* parts repeat the frame and the headers of runs, whole exports do not */
    const json_int_t apart = llabs(integer(total, "logical_bytes") - logical);
    assert_true(apart <= logical / 20 + 12 * tokens);
    saved(use);
}

static void check_savings(const json_t *savings, bool dense) {
    assert_int_equal(json_array_size(savings), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *scenario = json_array_get(savings, i), *cuts = json_object_get(scenario, "cuts");
        assert_int_equal(json_array_size(cuts), 4);
        const json_t *layout = json_array_get(cuts, 0), *fixed = json_array_get(cuts, 3);
        assert_string_equal(json_string_value(json_object_get(layout, "cut")), "layout");
        assert_string_equal(json_string_value(json_object_get(fixed, "cut")), "fixed_1_mib");
        const json_int_t logical = integer(json_object_get(layout, "total"), "logical_bytes");
        for (size_t k = 0; k < 4; k++) check_use(json_array_get(cuts, k), logical, integer(scenario, "tokens"));
        assert_true(saved(layout) >= saved(fixed));
        /* of 3 agents with 320 tokens each, two need not store the first 256 again */
        if (dense && i == 1) assert_true(saved(layout) > 50.0);
    }
}

static void check_times(const json_t *root) {
    const json_t *speed = json_object_get(root, "speed");
    static const char *const steps[] = {"export",           "cut_and_hash", "ram_put",        "ram_read",
                                        "ram_put_evicting", "disk_put",     "disk_read_warm", "import"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const json_t *step = json_object_get(speed, steps[i]);
        if (json_array_size(json_object_get(step, "runs_ms")) != 2) fail_msg("step %s was not run twice", steps[i]);
        assert_true(integer(step, "bytes") > 0);
    }
    const json_t *paths = json_object_get(json_object_get(root, "restore"), "paths");
    assert_int_equal(json_array_size(json_object_get(json_object_get(paths, "recompute"), "runs_ms")), 2);
    assert_int_equal(json_array_size(json_object_get(json_object_get(paths, "ram"), "runs_ms")), 2);
    assert_int_equal(json_array_size(json_object_get(json_object_get(paths, "disk_warm"), "runs_ms")), 2);
}

static void measure(const char *family, bool dense) {
    const char *path = test_model_path(family);
    if (!path) skip();
    const int code = RUN("-m", path, "-t", "1", "--turns", "4", "--turn-tokens", "70", "--agents", "3", "--shared",
                         "300", "--own", "20", "--prefix", "280", "--runs", "2", "--dir", ".", "--json");
    if (code != 0) fail_msg("%s", output.err);
    says(output.err, "chat: turn 4 of 4");
    json_t *root = json_loads(output.out, 0, NULL);
    assert_non_null(root);
    assert_true(json_is_true(json_object_get(root, "complete")));
    check_savings(json_object_get(root, "savings"), dense);
    check_times(root);
    json_decref(root);
}

static void dense_state_is_measured(void **state) {
    (void)state;
    measure("llama", true);
}

static void hybrid_state_is_measured(void **state) {
    (void)state;
    measure("falcon-h1", false);
}

static void window_state_is_measured(void **state) {
    (void)state;
    measure("gemma3", false);
}

static void recurrent_state_is_measured(void **state) {
    (void)state;
    measure("rwkv7", false);
}

static void people_get_tables(void **state) {
    (void)state;
    const char *path = test_model_path("llama");
    if (!path) skip();
    assert_int_equal(RUN("-m", path, "--turns", "2", "--agents", "1", "--shared", "40", "--own", "8", "--prefix", "40",
                         "--runs", "1", "--subcut", "0"),
                     0);
    says(output.out, "### chat: ");
    says(output.out, "| as the server does |");
    says(output.out, "### speed: a prefix of 40 tokens, 1 runs");
    says(output.out, "| compute again |");
    assert_null(strstr(output.out, "| every 64 tokens |"));
}

static void what_cannot_be_done_ends_with_code_1_and_words(void **state) {
    (void)state;
    assert_int_equal(RUN("-m", "there-is-no-such.gguf"), 1);
    says(output.err, "there-is-no-such.gguf");
    assert_string_equal(output.out, "");
    const char *path = test_model_path("llama");
    if (!path) skip();
    /* the savings are measured before the folder is needed, and shown */
    assert_int_equal(RUN("-m", path, "--turns", "1", "--agents", "1", "--shared", "8", "--own", "8", "--prefix", "8",
                         "--runs", "1", "--dir", "there/is/no/such/folder"),
                     1);
    says(output.err, "there/is/no/such/folder");
    says(output.out, "**Not complete**");
    says(output.out, "### agents: ");
}

static void wrong_usage_ends_with_code_2_and_words(void **state) {
    (void)state;
    assert_int_equal(RUN("--runs", "3"), 2);
    says(output.err, "which model?");
    assert_int_equal(RUN("-m", "m.gguf", "--turns", "0"), 2);
    assert_int_equal(RUN("-m", "m.gguf", "--turns", "16000", "--turn-tokens", "100"), 2);
    says(output.err, "the chat would have 1600000 tokens");
    assert_int_equal(RUN("-m", "m.gguf", "--subcut", "64,x"), 2);
    says(output.err, "--subcut needs up to 4 numbers");
    assert_int_equal(RUN("-m", "m.gguf", "--subcut", "64,0"), 2);
    assert_int_equal(RUN("-m", "m.gguf", "--subcut", "1,2,3,4,5"), 2);
    assert_int_equal(RUN("-m", "m.gguf", "--subcut", ""), 2);
    assert_int_equal(RUN("-m", "m.gguf", "--run", "1"), 2);
    says(output.err, "unknown option '--run'");
}

static void help_names_examples_and_exit_codes(void **state) {
    (void)state;
    assert_int_equal(RUN("--help"), 0);
    says(output.out, "Usage: skippy bench store");
    says(output.out, "Examples:");
    says(output.out, "Exit codes:");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(dense_state_is_measured, forget_output),
        cmocka_unit_test_teardown(hybrid_state_is_measured, forget_output),
        cmocka_unit_test_teardown(window_state_is_measured, forget_output),
        cmocka_unit_test_teardown(recurrent_state_is_measured, forget_output),
        cmocka_unit_test_teardown(people_get_tables, forget_output),
        cmocka_unit_test_teardown(what_cannot_be_done_ends_with_code_1_and_words, forget_output),
        cmocka_unit_test_teardown(wrong_usage_ends_with_code_2_and_words, forget_output),
        cmocka_unit_test_teardown(help_names_examples_and_exit_codes, forget_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
