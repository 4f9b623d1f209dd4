/* Where models are cut: by layers, by memory, and where the file forbids it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/cut_plan.h"
#include "cli/stage_weights.h"
#include "runtime/test_models.h"

static sk_weights_source source;
static sk_cut_plan plan;
static sk_err e;

static bool go_on(void) {
    return true;
}

/* Opens a generated model; skips the test when it is not there. */
static const sk_tensor_source *open_model(const char *family) {
    static const sk_split_options none = {0};
    const char *path = test_model_path(family);
    if (!path) skip();
    assert_int_equal(sk_weights_source_open(path, &none, go_on, &source, &e), SKIPPY_OK);
    return &source.tensors;
}

static int close_model(void **state) {
    (void)state;
    sk_weights_source_close(&source);
    source = (sk_weights_source){0};
    return 0;
}

/* The stages follow each other without a gap, and the file allows each. */
static void assert_whole(const sk_tensor_source *s, size_t n_stages) {
    assert_int_equal(plan.n_stages, n_stages);
    int32_t at = 0;
    for (size_t i = 0; i < n_stages; i++) {
        assert_int_equal(plan.stage[i].start, at);
        assert_int_equal(sk_slice_check(s, plan.stage[i], &e), SKIPPY_OK);
        assert_true(plan.bytes[i] == sk_slice_bytes(s, plan.stage[i]) && plan.bytes[i] > 0);
        at = plan.stage[i].end;
    }
    assert_int_equal(at, sk_slice_layers(s));
}

static void stages_are_about_equal(void **state) {
    (void)state;
    const sk_tensor_source *s = open_model("llama");
    const int32_t layers = sk_slice_layers(s);
    for (size_t n = 1; n <= (size_t)layers; n++) {
        assert_int_equal(sk_cut_plan_make(s, n, NULL, &plan, &e), SKIPPY_OK);
        assert_whole(s, n);
        for (size_t i = 0; i < n; i++) {
            const int32_t size = plan.stage[i].end - plan.stage[i].start;
            assert_in_range(size, layers / (int32_t)n, (layers + (int32_t)n - 1) / (int32_t)n);
        }
    }
}

static void every_stage_of_a_hybrid_has_both_kinds_of_layers(void **state) {
    (void)state;
    const sk_tensor_source *s = open_model("qwen3next");
    assert_int_equal(sk_cut_plan_make(s, 2, NULL, &plan, &e), SKIPPY_OK);
    assert_whole(s, 2);
}

static void stages_are_in_proportion_to_memory_and_fit(void **state) {
    (void)state;
    const sk_tensor_source *s = open_model("llama");
    const uint64_t whole = sk_slice_bytes(s, (sk_layer_range){0, sk_slice_layers(s)});
    const uint64_t uneven[] = {whole, 3 * whole};
    assert_int_equal(sk_cut_plan_make(s, 2, uneven, &plan, &e), SKIPPY_OK);
    assert_whole(s, 2);
    assert_true(plan.stage[0].end - plan.stage[0].start < plan.stage[1].end - plan.stage[1].start);
    /* the second fits one layer only, whatever the proportion says */
    const sk_layer_range last = {sk_slice_layers(s) - 1, sk_slice_layers(s)};
    const uint64_t tight[] = {whole, sk_slice_bytes(s, last)};
    assert_int_equal(sk_cut_plan_make(s, 2, tight, &plan, &e), SKIPPY_OK);
    assert_int_equal(plan.stage[1].start, last.start);
}

static void missing_memory_is_told_in_bytes(void **state) {
    (void)state;
    const sk_tensor_source *s = open_model("llama");
    const uint64_t little[] = {1000, 1000};
    assert_int_equal(sk_cut_plan_make(s, 2, little, &plan, &e), SKIPPY_E_TOO_LARGE);
    const uint64_t missing = plan.bytes[0] + plan.bytes[1] - 2000;
    char number[32];
    snprintf(number, sizeof number, "%llu bytes", (unsigned long long)missing);
    if (!strstr(e.text, number)) fail_msg("'%s' is not in: %s", number, e.text);
}

static void a_model_that_cannot_be_cut_is_refused_with_the_reason(void **state) {
    (void)state;
    const sk_tensor_source *s = open_model("rwkv7");
    assert_int_equal(sk_cut_plan_make(s, 2, NULL, &plan, &e), SKIPPY_E_UNSUPPORTED);
    assert_non_null(strstr(e.text, "layer 0"));
}

static void given_cuts_are_checked(void **state) {
    (void)state;
    const sk_tensor_source *s = open_model("llama");
    assert_int_equal(sk_cut_plan_fixed(s, (const int32_t[]){1, 4}, 3, &plan, &e), SKIPPY_OK);
    assert_whole(s, 3);
    char text[200];
    assert_string_equal(sk_cut_plan_text(&plan, text, sizeof text), "layers 0 to 0, 1 to 3 and 4 to 5");
    assert_int_equal(sk_cut_plan_fixed(s, (const int32_t[]){4, 1}, 3, &plan, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_cut_plan_fixed(s, (const int32_t[]){6}, 2, &plan, &e), SKIPPY_E_INVALID);
}

static void there_are_as_many_stages_as_layers_at_most(void **state) {
    (void)state;
    const sk_tensor_source *s = open_model("llama");
    assert_int_equal(sk_cut_plan_make(s, 0, NULL, &plan, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_cut_plan_make(s, 7, NULL, &plan, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "6 layers cannot be cut into 7 stages"));
    assert_int_equal(sk_cut_plan_make(s, SK_CUT_STAGES_MAX + 1, NULL, &plan, &e), SKIPPY_E_INVALID);
}

#define ON_MODEL(test) cmocka_unit_test_teardown(test, close_model)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_MODEL(stages_are_about_equal),
        ON_MODEL(every_stage_of_a_hybrid_has_both_kinds_of_layers),
        ON_MODEL(stages_are_in_proportion_to_memory_and_fit),
        ON_MODEL(missing_memory_is_told_in_bytes),
        ON_MODEL(a_model_that_cannot_be_cut_is_refused_with_the_reason),
        ON_MODEL(given_cuts_are_checked),
        ON_MODEL(there_are_as_many_stages_as_layers_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
