/* Stages against the whole: what passes, what is seen, and the receipts that are left. */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/test_folder.h"
#include "correctness/stage_receipt.h"
#include "runtime/context.h"
#include "runtime/slice.h"
#include "runtime/test_models.h"

static char folder[64], model[1100], paths[3][200];
static const char *stages[3] = {paths[0], paths[1], paths[2]};
static sk_stage_certify_report report;
static sk_err e;

/* Three stage files of a generated model. False (and the test is skipped) when it is not there. */
static void cut(const char *family) {
    sk_tensor_source s;
    const char *path = test_model_path(family);
    if (!path) skip();
    snprintf(model, sizeof model, "%s", path);
    assert_int_equal(sk_tensor_source_open_gguf(model, NULL, NULL, NULL, &s, &e), SKIPPY_OK);
    const int32_t n = sk_slice_layers(&s), third = n / 3;
    for (int32_t i = 0; i < 3; i++) {
        const sk_layer_range r = {i * third, i == 2 ? n : (i + 1) * third};
        snprintf(paths[i], sizeof paths[i], "%s/%d.gguf", folder, (int)i);
        assert_int_equal(sk_slice_write(&s, r, paths[i], NULL, NULL, &e), SKIPPY_OK);
    }
    sk_tensor_source_close(&s);
}

static int certify(size_t n) {
    const sk_stage_certify_options o = {
        .whole = model, .stages = stages, .n_stages = n, .n_threads = 1, .flash_attn = -1};
    return sk_stage_certify_run(&o, &report, &e);
}

static int set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "stage-certify-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    return test_remove_tree(folder);
}

static void stages_of_a_model_pass(void **state) {
    (void)state;
    cut("llama");
    if (certify(3) != SKIPPY_OK) fail_msg("%s", e.text);
    if (!report.passed) fail_msg("%s", report.verdict);
    assert_int_equal(report.rows, 32);
    assert_int_equal(report.different, 0);
    assert_int_equal(report.layers[1].start, 2);
    assert_int_equal(report.layers[2].end, report.n_layer);
    assert_int_equal(strlen(report.source), 64);
}

static void the_whole_model_may_be_a_stage_file_of_all_layers(void **state) {
    (void)state;
    sk_tensor_source s;
    cut("llama");
    assert_int_equal(sk_tensor_source_open_gguf(model, NULL, NULL, NULL, &s, &e), SKIPPY_OK);
    snprintf(model, sizeof model, "%s/whole.gguf", folder);
    const sk_layer_range all = {0, sk_slice_layers(&s)};
    assert_int_equal(sk_slice_write(&s, all, model, NULL, NULL, &e), SKIPPY_OK);
    sk_tensor_source_close(&s);
    if (certify(3) != SKIPPY_OK) fail_msg("%s", e.text);
    assert_true(report.passed);
}

static void one_changed_weight_is_seen(void **state) {
    (void)state;
    cut("llama");
    FILE *f = fopen(paths[1], "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -4096, SEEK_END), 0);
    for (int i = 0; i < 64; i++) fputc(0x3d, f);
    assert_int_equal(fclose(f), 0);
    if (certify(3) != SKIPPY_OK) fail_msg("%s", e.text);
    assert_false(report.passed);
    assert_true(report.different > 0 && report.largest > 0);
    assert_non_null(strstr(report.verdict, "other logits"));
}

static void files_that_are_not_the_stages_in_order_are_refused(void **state) {
    (void)state;
    cut("llama");
    assert_int_equal(certify(2), SKIPPY_E_INVALID); /* the last one is missing */
    stages[0] = paths[1];
    stages[1] = paths[0];
    assert_int_equal(certify(3), SKIPPY_E_INVALID);
    stages[0] = paths[0];
    stages[1] = paths[1];
    snprintf(model, sizeof model, "%s", paths[0]);
    assert_int_equal(certify(3), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "whole model"));
}

static bool stop(void) {
    return false;
}

static void wrong_options_and_a_stop_are_told_in_words(void **state) {
    (void)state;
    assert_int_equal(certify(0), SKIPPY_E_INVALID);
    const sk_stage_certify_options many = {.whole = "x", .stages = stages, .n_stages = 3, .n_prompt = 500};
    assert_int_equal(sk_stage_certify_run(&many, &report, &e), SKIPPY_E_INVALID);
    const sk_stage_certify_options stopped = {.whole = "x", .stages = stages, .n_stages = 3, .go_on = stop};
    assert_int_equal(sk_stage_certify_run(&stopped, &report, &e), SKIPPY_E_CANCELLED);
    snprintf(model, sizeof model, "there-is-no-such.gguf");
    assert_int_equal(certify(3), SKIPPY_E_NOT_FOUND);
}

/* A report as a run would make it. */
static void make_report(bool passed) {
    memset(&report, 0, sizeof report);
    report.passed = passed;
    report.rows = 32;
    report.n_layer = 6;
    report.n_stages = 2;
    report.layers[0] = (sk_layer_range){0, 2};
    report.layers[1] = (sk_layer_range){2, 6};
    report.flash_attn = -1;
    memset(report.source, 'a', 64);
    snprintf(report.type_k, sizeof report.type_k, "f16");
    snprintf(report.type_v, sizeof report.type_v, "q8_0");
    sk_runtime_abi(report.abi, sizeof report.abi);
    sk_runtime_devices(report.device, sizeof report.device);
    snprintf(report.verdict, sizeof report.verdict, "as expected");
}

static sk_stage_receipt_facts facts_of(int32_t start, int32_t end) {
    return (sk_stage_receipt_facts){
        .source = report.source, .layers = {start, end}, .type_v = "q8_0", .flash_attn = -1};
}

static void each_stage_has_a_receipt_for_exactly_its_settings(void **state) {
    sk_stage_receipt r;
    (void)state;
    make_report(true);
    assert_int_equal(sk_stage_receipt_write(folder, &report, "1.2.3", &e), SKIPPY_OK);
    sk_stage_receipt_facts f = facts_of(2, 6);
    assert_int_equal(sk_stage_receipt_find(folder, &f, &r, &e), SKIPPY_OK);
    assert_true(r.passed);
    assert_string_equal(r.verdict, "as expected");
    f = facts_of(2, 5);
    assert_int_equal(sk_stage_receipt_find(folder, &f, &r, &e), SKIPPY_E_NOT_FOUND);
    assert_non_null(strstr(e.text, "layers 2 to 4 are not certified"));
    f = facts_of(0, 2);
    f.flash_attn = 1;
    assert_int_equal(sk_stage_receipt_find(folder, &f, &r, &e), SKIPPY_E_NOT_FOUND);
    f = facts_of(0, 2);
    f.type_v = NULL;
    assert_int_equal(sk_stage_receipt_find(folder, &f, &r, &e), SKIPPY_E_NOT_FOUND);
}

static void a_failure_is_kept_as_well(void **state) {
    sk_stage_receipt r;
    (void)state;
    make_report(false);
    assert_int_equal(sk_stage_receipt_write(folder, &report, "1.2.3", &e), SKIPPY_OK);
    const sk_stage_receipt_facts f = facts_of(0, 2);
    assert_int_equal(sk_stage_receipt_find(folder, &f, &r, &e), SKIPPY_OK);
    assert_false(r.passed);
}

/* Turns the verdict of the only receipt for layers [0, 2) around, in place. */
static void edit_receipt(void) {
    char pattern[400], text[8192];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/stage-*-0-2-*.json", folder);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    FILE *f = fopen(found.gl_pathv[0], "r+b");
    globfree(&found);
    if (!f) fail_msg("the receipt cannot be opened");
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    const char *verdict = strstr(text, "\"fail\"");
    if (!verdict) fail_msg("no verdict to edit in: %s", text);
    assert_int_equal(fseek(f, verdict - text, SEEK_SET), 0);
    assert_int_equal(fwrite("\"pass\"", 1, 6, f), 6);
    assert_int_equal(fclose(f), 0);
}

static void an_edited_receipt_is_none(void **state) {
    sk_stage_receipt r;
    (void)state;
    make_report(false);
    assert_int_equal(sk_stage_receipt_write(folder, &report, "1.2.3", &e), SKIPPY_OK);
    edit_receipt();
    const sk_stage_receipt_facts f = facts_of(0, 2);
    assert_int_equal(sk_stage_receipt_find(folder, &f, &r, &e), SKIPPY_E_CORRUPT);
    assert_non_null(strstr(e.text, "does not match its digest"));
}

#define ON_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_FOLDER(stages_of_a_model_pass),
        ON_FOLDER(the_whole_model_may_be_a_stage_file_of_all_layers),
        ON_FOLDER(one_changed_weight_is_seen),
        ON_FOLDER(files_that_are_not_the_stages_in_order_are_refused),
        ON_FOLDER(wrong_options_and_a_stop_are_told_in_words),
        ON_FOLDER(each_stage_has_a_receipt_for_exactly_its_settings),
        ON_FOLDER(a_failure_is_kept_as_well),
        ON_FOLDER(an_edited_receipt_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
