/* `skippy package` from the command line: what it writes, says and refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/test_folder.h"
#include "cli/capture.h"
#include "cli/package.h"
#include "runtime/file_server.h"
#include "runtime/package_fixture.h"
#include "runtime/test_gguf.h"

static char dir[512], model[600], package[600];
static captured output;

#define RUN(...) capture(&output, sk_cli_package, (const char *[]){"skippy package", __VA_ARGS__, NULL})

static void says(const char *text, const char *words) {
    if (!strstr(text, words)) fail_msg("'%s' is not in: %s", words, text);
}

static int set_up(void **state) {
    (void)state;
    const model_spec spec = {.name = "Small", .seed = 5, .changed_layer = -1};
    assert_true(gg_temp_dir(dir, sizeof dir));
    snprintf(model, sizeof model, "%s/model.gguf", dir);
    snprintf(package, sizeof package, "%s/package", dir);
    setenv("XDG_CACHE_HOME", dir, 1);
    fixture_model(model, &spec);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    captured_free(&output);
    return test_remove_tree(dir);
}

static void damage_layer(int32_t layer) {
    sk_package p;
    char path[800];
    fixture_manifest(package, &p);
    snprintf(path, sizeof path, "%s/%s", package, fixture_part(&p, SK_PART_LAYER, layer)->path);
    sk_package_free(&p);
    assert_int_equal(truncate(path, 50), 0);
}

static json_t *json_output(void) {
    json_error_t where;
    json_t *v = json_loads(output.out, JSON_REJECT_DUPLICATES, &where);
    if (!v) fail_msg("%s: %s", where.text, output.out);
    return v;
}

static int64_t number(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    assert_true(json_is_integer(v));
    return json_integer_value(v);
}

/* ---- making ---- */

static void a_package_is_made_and_summed_up(void **state) {
    (void)state;
    assert_int_equal(RUN(model, "-o", package), 0);
    says(output.out, "'Small' (llama, 3 layers) in 7 parts");
    says(output.err, "writing the package: 100 %");       /* not a terminal: lines */
    assert_int_equal(RUN("--output", package, model), 0); /* the same again is fine */
    assert_int_equal(RUN("verify", package), 0);
    says(output.out, "every part is what the manifest says");
}

static void a_package_of_another_model_is_not_overwritten_by_accident(void **state) {
    (void)state;
    char other[640];
    const model_spec spec = {.name = "Other", .seed = 6, .changed_layer = -1};
    snprintf(other, sizeof other, "%s/other.gguf", dir);
    fixture_model(other, &spec);
    assert_int_equal(RUN(model, "-o", package), 0);
    assert_int_equal(RUN(other, "-o", package), 3);
    says(output.err, "holds a package of 'Small'");
    assert_int_equal(RUN("inspect", package), 0);
    says(output.out, "Small");
    assert_int_equal(RUN(other, "-o", package, "--replace"), 0);
    assert_int_equal(RUN("inspect", package), 0);
    says(output.out, "Other");
}

static void a_manifest_that_cannot_be_read_is_not_overwritten_by_accident(void **state) {
    (void)state;
    char manifest[700];
    assert_int_equal(RUN(model, "-o", package), 0);
    snprintf(manifest, sizeof manifest, "%s/" SK_PACKAGE_MANIFEST, package);
    assert_true(gg_write(manifest, "{}", 2));
    assert_int_equal(RUN(model, "-o", package), 3);
    says(output.err, "--replace");
    assert_int_equal(RUN(model, "-o", package, "--replace"), 0);
}

static void a_model_that_is_none_is_said(void **state) {
    (void)state;
    assert_int_equal(RUN("no-such-model.gguf", "-o", package), 1);
    says(output.err, "skippy package: no-such-model.gguf: there is no such file");
    assert_true(gg_write(model, "nonsense", 8));
    assert_int_equal(RUN(model, "-o", package), 1);
    says(output.err, "not GGUF");
}

/* ---- verifying ---- */

static void damage_is_named_and_counts_as_refusal(void **state) {
    (void)state;
    assert_int_equal(RUN(model, "-o", package), 0);
    damage_layer(1);
    assert_int_equal(RUN("verify", package), 3);
    says(output.out, "layer 1: ");
    says(output.out, "has 50 bytes instead of");
    says(output.err, "1 of the package's parts cannot be used");
    assert_int_equal(RUN("verify", "--json", package), 3);
    json_t *v = json_output();
    assert_true(json_is_false(json_object_get(v, "whole")));
    const json_t *problems = json_object_get(v, "problems");
    assert_int_equal(json_array_size(problems), 1);
    assert_int_equal(number(json_array_get(problems, 0), "layer"), 1);
    json_decref(v);
}

static void a_whole_package_is_one_json_object(void **state) {
    (void)state;
    assert_int_equal(RUN(model, "-o", package), 0);
    assert_int_equal(RUN("verify", package, "--json"), 0);
    json_t *v = json_output();
    assert_true(json_is_true(json_object_get(v, "whole")));
    assert_int_equal(json_array_size(json_object_get(v, "problems")), 0);
    json_decref(v);
}

static void no_package_is_a_failure(void **state) {
    (void)state;
    assert_int_equal(RUN("verify", dir), 1);
    says(output.err, "model-package.json: there is no such file");
    assert_int_equal(RUN("inspect", dir), 1);
}

/* ---- showing ---- */

static void a_table_shows_what_a_stage_would_fetch(void **state) {
    (void)state;
    assert_int_equal(RUN(model, "-o", package), 0);
    assert_int_equal(RUN("inspect", package, "--layers", "1..1"), 0);
    says(output.out, "Small: llama, family llama, 3 layers of width 32");
    says(output.out, "* metadata");
    says(output.out, "* shared");
    says(output.out, "* layer 1");
    says(output.out, "  layer 0");
    says(output.out, "  embedding");
    says(output.out, "  head");
    says(output.out, "a stage of the layers 1..1 fetches 3 parts");
}

static void json_says_the_same(void **state) {
    (void)state;
    assert_int_equal(RUN(model, "-o", package), 0);
    assert_int_equal(RUN("inspect", package, "--layers=1..2", "--json"), 0);
    json_t *v = json_output();
    int64_t bytes = 0;
    size_t needed = 0, i;
    json_t *part;
    json_array_foreach(json_object_get(v, "parts"), i, part) {
        if (!json_is_true(json_object_get(part, "needed"))) continue;
        needed++;
        bytes += number(part, "bytes");
    }
    assert_int_equal(needed, 5); /* metadata, shared, two layers, head */
    assert_int_equal(number(json_object_get(v, "stage"), "parts"), 5);
    assert_int_equal(number(json_object_get(v, "stage"), "bytes"), bytes);
    assert_int_equal(number(json_object_get(v, "stage"), "last_layer"), 2);
    assert_true(number(v, "bytes") > bytes);
    json_decref(v);
    assert_int_equal(RUN("inspect", package, "--json"), 0);
    v = json_output();
    assert_null(json_object_get(v, "stage"));
    json_decref(v);
}

static void a_url_needs_the_manifest_alone(void **state) {
    (void)state;
    char url[700];
    assert_int_equal(RUN(model, "-o", package), 0);
    file_server *s = file_server_start(dir);
    snprintf(url, sizeof url, "%s", file_server_url(s, "/package"));
    assert_int_equal(RUN("inspect", url), 0);
    says(output.out, "Small");
    assert_int_equal(file_server_count(s, ""), 1);
    snprintf(url, sizeof url, "%s", file_server_url(s, "/none"));
    assert_int_equal(RUN("inspect", url), 1);
    says(output.err, "HTTP 404");
    file_server_stop(s);
}

static void a_manifest_that_is_wrong_is_refused(void **state) {
    (void)state;
    char manifest[700];
    assert_int_equal(RUN(model, "-o", package), 0);
    snprintf(manifest, sizeof manifest, "%s/" SK_PACKAGE_MANIFEST, package);
    assert_true(gg_write(manifest, "{\"format\": 9}", 13));
    assert_int_equal(RUN("inspect", package), 3);
    says(output.err, "format 9 is not known");
    assert_int_equal(RUN("verify", package), 3);
}

static void layers_that_the_model_lacks_are_refused(void **state) {
    (void)state;
    assert_int_equal(RUN(model, "-o", package), 0);
    assert_int_equal(RUN("inspect", package, "--layers", "2..3"), 3);
    says(output.err, "there is no layer 3");
}

/* ---- usage ---- */

static void wrong_usage_is_code_2_and_points_to_the_help(void **state) {
    (void)state;
    const char *const lines[][5] = {
        {"-o", package},
        {model},
        {"verify"},
        {"inspect"},
        {model, model, "-o"},
        {model, "-o"},
        {model, "--json", "-o", package},
        {"verify", package, "-o", package},
        {"verify", package, "--replace"},
        {"verify", package, "--layers", "0..1"},
        {model, "-o", package, "--layers", "0"},
        {"inspect", package, "--layers", "1-2"},
        {"inspect", package, "--nonsense"},
        {"verify", package, "--ca-file", "x"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const int code = RUN(lines[i][0], lines[i][1], lines[i][2], lines[i][3], lines[i][4]);
        if (code != 2) fail_msg("line %zu: code %d", i, code);
        says(output.err, "Try 'skippy package --help'");
        assert_string_equal(output.out, "");
    }
    assert_int_equal(RUN("inspect", "file:///etc"), 2);
    says(output.err, "neither a folder nor an http");
}

static void the_help_has_examples_and_exit_codes(void **state) {
    (void)state;
    assert_int_equal(RUN("--help"), 0);
    says(output.out, "Examples:");
    says(output.out, "--layers 3..4");
    says(output.out, "Exit codes:");
    assert_int_equal(RUN("inspect", "-h"), 0);
}

#define ON_MODEL(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_MODEL(a_package_is_made_and_summed_up),
        ON_MODEL(a_package_of_another_model_is_not_overwritten_by_accident),
        ON_MODEL(a_manifest_that_cannot_be_read_is_not_overwritten_by_accident),
        ON_MODEL(a_model_that_is_none_is_said),
        ON_MODEL(damage_is_named_and_counts_as_refusal),
        ON_MODEL(a_whole_package_is_one_json_object),
        ON_MODEL(no_package_is_a_failure),
        ON_MODEL(a_table_shows_what_a_stage_would_fetch),
        ON_MODEL(json_says_the_same),
        ON_MODEL(a_url_needs_the_manifest_alone),
        ON_MODEL(a_manifest_that_is_wrong_is_refused),
        ON_MODEL(layers_that_the_model_lacks_are_refused),
        ON_MODEL(wrong_usage_is_code_2_and_points_to_the_help),
        ON_MODEL(the_help_has_examples_and_exit_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
