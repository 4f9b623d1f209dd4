/* `skippy certify --package P --layers A..B` as people start it: nothing of the package but the stage's own parts is
 * touched, a receipt is left where `skippy stage` looks, and what cannot be certified is refused in words. This program
 * stands in for skippy when a certification starts it again. */
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
#include "cli/certify.h"
#include "cli/stage_certificate.h"
#include "correctness/schema_check.h"
#include "correctness/stage_receipt.h"
#include "runtime/file_server.h"
#include "runtime/package_fixture.h"
#include "runtime/slice_fixture.h"

static char folder[64], package[100], receipts[100];
static captured output;

static int set_up(void **state) {
    char cache[100];
    (void)state;
    snprintf(folder, sizeof folder, "certify-stage-test-XXXXXX");
    if (!mkdtemp(folder) || setenv("TMPDIR", folder, 1) != 0) return -1;
    snprintf(package, sizeof package, "%s/package", folder);
    snprintf(receipts, sizeof receipts, "%s/receipts", folder);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    return setenv("XDG_CACHE_HOME", cache, 1);
}

static int tear_down(void **state) {
    (void)state;
    captured_free(&output);
    return test_remove_tree(folder);
}

/* A package of a generated model. False: it cannot be made here. */
static bool pack(const char *family) {
    char model[1024];
    if (!sx_model(family, model, sizeof model)) return false;
    fixture_package(model, package);
    return true;
}

/* Removes every part that these layers do not need; returns how many are left. */
static size_t keep_only(sk_layer_range a, sk_layer_range b) {
    sk_package p;
    char path[300];
    fixture_manifest(package, &p);
    for (size_t i = 0; i < p.n_parts; i++) {
        if (sk_package_stage_needs(&p, a, &p.parts[i]) || sk_package_stage_needs(&p, b, &p.parts[i])) continue;
        snprintf(path, sizeof path, "%s/%s", package, p.parts[i].path);
        assert_int_equal(unlink(path), 0);
    }
    sk_package_free(&p);
    return fixture_count_parts(package);
}

static int certify(const char *const *arguments) {
    const char *args[32] = {"skippy certify", "-t", "1", "--prefix", "64", "--receipts", receipts};
    size_t n = 7;
    for (size_t i = 0; arguments[i]; i++) args[n++] = arguments[i];
    return capture(&output, sk_cli_certify, args);
}

#define CERTIFY(...) certify((const char *const[]){__VA_ARGS__, NULL})

static void says(const char *words) {
    if (!strstr(output.out, words) && !strstr(output.err, words))
        fail_msg("'%s' is not in: %s%s", words, output.out, output.err);
}

static void passes(int code) {
    if (code != 0) fail_msg("code %d: %s%s", code, output.out, output.err);
}

static json_t *first_report(void) {
    json_t *list = json_loads(output.out, 0, NULL);
    if (!list) fail_msg("not JSON: %s%s", output.out, output.err);
    json_t *one = json_incref(json_array_get(list, 0));
    json_decref(list);
    return one;
}

/* What `skippy stage` is told about these layers. */
static sk_stage_receipt receipt_of(int32_t start, int32_t end) {
    sk_package p;
    sk_stage_receipt r;
    sk_err e = {0};
    char source[65];
    fixture_manifest(package, &p);
    sk_hex(p.manifest_digest.bytes, sizeof p.manifest_digest.bytes, source);
    sk_package_free(&p);
    const sk_stage_receipt_facts f = {.source = source, .layers = {start, end}, .flash_attn = -1};
    if (sk_stage_receipt_find(receipts, &f, &r, &e)) fail_msg("%s", e.text);
    return r;
}

static void a_receipt_of_a_stage_alone_is_told_but_is_no_comparison(void **state) {
    char model[1024], text[600];
    sk_tensor_source s;
    sk_err e = {0};
    bool failed = true;
    const sk_engine_params p = {.flash_attn = -1};
    (void)state;
    if (!sx_model("llama", model, sizeof model)) skip();
    passes(CERTIFY("-m", model, "--layers", "2..3"));
    assert_int_equal(sk_tensor_source_open_gguf(model, NULL, NULL, NULL, &s, &e), SKIPPY_OK);
    char source[65];
    sk_hex(s.digest.bytes, sizeof s.digest.bytes, source);
    sk_tensor_source_close(&s);
    assert_false(sk_stage_certificate_find(receipts, source, (sk_layer_range){2, 4}, &p, text, sizeof text, &failed));
    assert_false(failed);
    assert_non_null(strstr(text, "certified alone on "));
    assert_non_null(strstr(text, "not compared with the whole model"));
}

static void both_window_caches_are_behind_one_receipt(void **state) {
    (void)state;
    if (!pack("gemma3")) skip();
    passes(CERTIFY("--package", package, "--layers", "0..5", "--json"));
    json_t *list = json_loads(output.out, 0, NULL);
    assert_int_equal(json_array_size(list), 2);
    json_decref(list);
    assert_true(receipt_of(0, 6).passed);
    /* two layers with a window and none without: longer prefixes cannot leave the full cache */
    assert_int_equal(CERTIFY("--package", package, "--layers", "0..1", "--prefix", "304"), 1);
    says("with the full window cache: ");
    sk_stage_receipt none;
    sk_err e = {0};
    const sk_stage_receipt_facts f = {.source = "", .layers = {0, 2}, .flash_attn = -1};
    assert_int_equal(sk_stage_receipt_find(receipts, &f, &none, &e), SKIPPY_E_NOT_FOUND);
    passes(CERTIFY("--package", package, "--layers", "0..1", "--prefix", "304", "--window", "sliding"));
    assert_true(receipt_of(0, 2).passed);
}

static void a_middle_stage_needs_only_its_own_parts(void **state) {
    (void)state;
    if (!pack("deepseek3")) skip();
    const sk_layer_range layers = {3, 5};
    const size_t all = fixture_count_parts(package), left = keep_only(layers, layers);
    assert_true(left < all);
    passes(CERTIFY("--package", package, "--stage", "1", "--layers", "3..4", "--json"));
    json_t *r = first_report();
    const json_t *p = json_object_get(r, "package");
    assert_matches_schema(r, "docs/formats/certification-report.schema.json");
    assert_int_equal(json_integer_value(json_object_get(r, "stage_index")), 1);
    assert_int_equal(json_array_size(json_object_get(p, "owned_parts")), left);
    assert_true(json_integer_value(json_object_get(p, "owned_bytes")) <
                json_integer_value(json_object_get(p, "bytes")));
    assert_true(json_is_true(json_object_get(p, "assembled_now")));
    json_decref(r);
    const sk_stage_receipt receipt = receipt_of(3, 5);
    assert_true(receipt.passed && receipt.alone);
    assert_non_null(strstr(receipt.verdict, "fed synthetic hidden states"));
}

static void a_real_producer_needs_the_layers_before_as_well(void **state) {
    (void)state;
    if (!pack("deepseek3")) skip();
    const sk_layer_range layers = {3, 5}, before = {0, 3};
    keep_only(layers, before);
    passes(CERTIFY("--package", package, "--layers", "3..4", "--producer", "0..2", "--prompt", "Tell me"));
    says("fed        hidden states of layers 0 to 2; gives hidden states");
    says("parts: ");
    says("PASS: layers 3 to 4 of");
    assert_non_null(strstr(receipt_of(3, 5).verdict, "hidden states of layers 0 to 2"));
}

static void first_and_last_stages_pass(void **state) {
    (void)state;
    if (!pack("llama")) skip();
    passes(CERTIFY("--package", package, "--stage", "0", "--layers", "0..1"));
    says("fed        tokens; gives hidden states");
    passes(CERTIFY("--package", package, "--layers", "4..5"));
    says("fed        synthetic hidden states; gives logits");
    assert_true(receipt_of(0, 2).passed && receipt_of(4, 6).passed);
    passes(CERTIFY("--package", package, "--layers", "4..5"));
    says("were there already");
}

static void a_hybrids_stage_passes(void **state) {
    (void)state;
    if (!pack("falcon-h1")) skip();
    passes(CERTIFY("--package", package, "--layers", "2..3"));
    says("kv-recurrent");
    assert_true(receipt_of(2, 4).passed);
}

static void over_http_no_other_part_is_asked_for(void **state) {
    sk_package p;
    size_t asked = 0;
    (void)state;
    if (!pack("llama")) skip();
    const sk_layer_range layers = {2, 4};
    file_server *s = file_server_start(package);
    char url[200];
    snprintf(url, sizeof url, "%s", file_server_url(s, ""));
    int code = CERTIFY("--package", url, "--layers", "2..3", "--no-receipt");
    fixture_manifest(package, &p);
    for (size_t i = 0; i < p.n_parts; i++) {
        const bool needed = sk_package_stage_needs(&p, layers, &p.parts[i]);
        if ((file_server_count(s, p.parts[i].path) > 0) != needed) asked++;
    }
    sk_package_free(&p);
    file_server_stop(s);
    passes(code);
    assert_int_equal(asked, 0);
}

static void a_whole_model_is_cut_and_a_stage_file_taken_as_it_is(void **state) {
    char model[1024], stage[200];
    sk_tensor_source s;
    sk_err e = {0};
    (void)state;
    if (!sx_model("llama", model, sizeof model)) skip();
    passes(CERTIFY("-m", model, "--layers", "2..3"));
    says("PASS: layers 2 to 3 of 6");
    snprintf(stage, sizeof stage, "%s/stage.gguf", folder);
    assert_int_equal(sk_tensor_source_open_gguf(model, NULL, NULL, NULL, &s, &e), SKIPPY_OK);
    assert_int_equal(sk_slice_write(&s, (sk_layer_range){2, 4}, stage, NULL, NULL, &e), SKIPPY_OK);
    sk_tensor_source_close(&s);
    passes(CERTIFY("-m", stage));
    says("-alone.json");
    assert_int_equal(CERTIFY("-m", stage, "--layers", "2..3"), 1);
    says("is a stage file: certify it without --layers");
}

static void what_cannot_be_certified_is_refused_in_words(void **state) {
    (void)state;
    if (!pack("llama")) skip();
    assert_int_equal(CERTIFY("--package", package, "--layers", "5..9"), 1);
    says("layers 5..9 are not a range of");
    assert_int_equal(CERTIFY("--package", "no-such-folder", "--layers", "2..3"), 1);
    says("there is no package 'no-such-folder'");
    assert_int_equal(CERTIFY("--package", folder, "--layers", "2..3"), 1);
    says("model-package.json");
    keep_only((sk_layer_range){2, 3}, (sk_layer_range){2, 3});
    assert_int_equal(CERTIFY("--package", package, "--layers", "2..3"), 1);
    says("parts/");
}

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "certify") == 0) return sk_cli_certify(argc - 1, argv + 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_middle_stage_needs_only_its_own_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_real_producer_needs_the_layers_before_as_well, set_up, tear_down),
        cmocka_unit_test_setup_teardown(first_and_last_stages_pass, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_hybrids_stage_passes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(over_http_no_other_part_is_asked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_whole_model_is_cut_and_a_stage_file_taken_as_it_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_receipt_of_a_stage_alone_is_told_but_is_no_comparison, set_up, tear_down),
        cmocka_unit_test_setup_teardown(both_window_caches_are_behind_one_receipt, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_certified_is_refused_in_words, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, sx_setup, sx_teardown);
}
