/* Stages that are certified without the whole model: each kind of memory passes as first, middle and last stage, damage
 * is seen, and the inputs are what the layers before make of tokens, or synthetic. The program starts itself again for
 * the hand-over to a fresh process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "correctness/report.h"
#include "correctness/schema_check.h"
#include "correctness/stage_receipt.h"
#include "correctness/worker.h"
#include "runtime/slice_fixture.h"
#include "runtime/stage_context.h"

enum { PREFIX = 64 };

static const char *const again[] = {"/proc/self/exe", "--restore-worker", NULL};

/* Writes the stage file of these layers; end 0 = to the last. False: the model cannot be made here. */
static bool cut(const char *family, int32_t start, int32_t end, char path[512]) {
    sk_tensor_source s;
    sk_err e = {0};
    if (!sx_source(family, &s)) return false;
    const sk_layer_range r = {start, end > 0 ? end : sk_slice_layers(&s)};
    snprintf(path, 512, "%s/%s-%d-%d.gguf", sx_dir(), family, (int)r.start, (int)r.end);
    if (sk_slice_write(&s, r, path, NULL, NULL, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    sk_tensor_source_close(&s);
    return true;
}

static sk_certify_options options(const char *stage) {
    return (sk_certify_options){
        .model_path = stage, .prefix = {PREFIX}, .n_prefix = 1, .n_threads = 1, .flash_attn = -1, .worker_argv = again};
}

static sk_certify_report *certify(const sk_certify_options *o) {
    sk_err e = {0};
    sk_certify_report *r = calloc(1, sizeof *r);
    assert_non_null(r);
    if (sk_certify_run(o, r, &e)) fail_msg("%s", e.text);
    assert_true(r->identity.alone);
    return r;
}

static void discard(sk_certify_report *r) {
    sk_certify_report_free(r);
    free(r);
}

static void assert_passed(const sk_certify_report *r, const char *inputs) {
    char fed[64];
    if (!r->passed) fail_msg("%s", r->verdict);
    assert_string_equal(sk_certify_inputs(&r->identity, fed, sizeof fed), inputs);
    assert_non_null(strstr(r->verdict, inputs));
    assert_non_null(strstr(r->verdict, "not compared with the whole model"));
    const sk_mode_result *m = &r->length[0].mode[r->production];
    for (int t = 0; t < SK_TARGETS; t++) {
        assert_true(m->target[t].check.ran);
        assert_true(m->target[t].check.state);
        assert_int_equal(m->target[t].check.greedy_equal, SK_TRIAL_GREEDY);
    }
    assert_true(m->cost.total_bytes > 0);
    assert_int_equal(r->length[0].mode[SK_MODE_RESIDENT].outcome, SK_OUTCOME_PASS);
}

typedef struct subject {
    const char *family;
    int32_t first_end, middle_end; /* layers [0, first_end), [first_end, middle_end), and the rest */
    enum sk_outcome shorter;       /* of truncated prefixes */
} subject;

static subject dense = {"llama", 2, 4, SK_OUTCOME_PASS};
static subject hybrid = {"falcon-h1", 2, 4, SK_OUTCOME_REFUSED};
static subject mixture = {"deepseek3", 2, 4, SK_OUTCOME_PASS};

static void first_middle_and_last_stage_pass(void **state) {
    const subject *x = *state;
    const int32_t starts[] = {0, x->first_end, x->middle_end}, ends[] = {x->first_end, x->middle_end, 0};
    static const char *const inputs[] = {"tokens", "synthetic hidden states", "synthetic hidden states"};
    char path[512];
    for (size_t i = 0; i < 3; i++) {
        if (!cut(x->family, starts[i], ends[i], path)) skip();
        const sk_certify_options o = options(path);
        sk_certify_report *r = certify(&o);
        assert_passed(r, inputs[i]);
        assert_true(r->length[0].criterion.bit); /* one thread: the sums have one order */
        assert_int_equal(r->identity.stage.layer_start, starts[i]);
        assert_int_equal(r->length[0].mode[SK_MODE_TRUNCATED].outcome, x->shorter);
        discard(r);
    }
}

static void a_real_producer_gives_the_hidden_states(void **state) {
    const subject *x = *state;
    char stage[512], producer[512], inputs[64];
    if (!cut(x->family, x->first_end, x->middle_end, stage) || !cut(x->family, 0, x->first_end, producer)) skip();
    sk_certify_options o = options(stage);
    o.producer = producer;
    o.prompt = "Tell me";
    sk_certify_report *r = certify(&o);
    snprintf(inputs, sizeof inputs, "hidden states of layers 0 to %d", (int)x->first_end - 1);
    assert_passed(r, inputs);
    assert_false(r->identity.synthetic);
    discard(r);
}

static void the_script_holds_what_the_layers_before_compute(void **state) {
    enum { N = 100, PIECE = 64 }; /* more than one batch of the producer */
    char stage[512], producer[512];
    sk_model *m = NULL, *before = NULL;
    sk_context *c = NULL;
    sk_stage_script s;
    sk_err e = {0};
    sk_row rows[N];
    (void)state;
    if (!cut("llama", 2, 4, stage) || !cut("llama", 0, 2, producer)) skip();
    const sk_model_params mp = {.path = stage}, bp = {.path = producer};
    const sk_context_params cp = {.n_ctx = 256,
                                  .n_batch = N,
                                  .n_ubatch = N,
                                  .n_seq_max = 1,
                                  .n_threads = 1,
                                  .n_threads_batch = 1,
                                  .flash_attn = -1};
    const sk_stage_script_params p = {.producer = producer, .n = N, .n_threads = 1, .flash_attn = -1};
    assert_int_equal(sk_model_load(&mp, &m, &e), SKIPPY_OK);
    assert_int_equal(sk_model_load(&bp, &before, &e), SKIPPY_OK);
    assert_int_equal(sk_context_create(before, &cp, &c, &e), SKIPPY_OK);
    if (sk_stage_script_make(m, &p, &s, &e)) fail_msg("%s", e.text);
    assert_int_equal(s.n, N);
    float *expected = calloc((size_t)N * s.width, sizeof *expected);
    assert_non_null(expected);
    for (size_t i = 0; i < N; i++) rows[i] = (sk_row){.token = s.tokens[i]};
    assert_int_equal(sk_context_decode_stage(c, rows, PIECE, NULL, expected, NULL, &e), SKIPPY_OK);
    assert_int_equal(
        sk_context_decode_stage(c, rows + PIECE, N - PIECE, NULL, expected + (size_t)PIECE * s.width, NULL, &e),
        SKIPPY_OK);
    assert_memory_equal(s.hidden, expected, (size_t)N * s.width * sizeof *expected);
    free(expected);
    sk_stage_script_free(&s);
    sk_context_free(c);
    sk_model_free(before);
    sk_model_free(m);
}

/* The report must say fail, and blame the payload and not the snapshot. */
static void assert_damage_is_seen(const char *family, int32_t start, int32_t end, enum sk_fault fault) {
    char path[512];
    if (!cut(family, start, end, path)) skip();
    sk_certify_options o = options(path);
    o.fault = fault;
    sk_certify_report *r = certify(&o);
    assert_false(r->passed);
    assert_int_equal(r->length[0].mode[SK_MODE_RESIDENT].outcome, SK_OUTCOME_PASS);
    assert_int_equal(r->length[0].mode[r->production].outcome, SK_OUTCOME_FAIL);
    discard(r);
}

static void a_flipped_bit_of_a_stages_state_fails(void **state) {
    (void)state;
    assert_damage_is_seen("llama", 0, 2, SK_FAULT_FLIP_BYTE);
    assert_damage_is_seen("llama", 2, 4, SK_FAULT_FLIP_BYTE);
    assert_damage_is_seen("deepseek3", 2, 4, SK_FAULT_FLIP_BYTE);
    assert_damage_is_seen("falcon-h1", 4, 0, SK_FAULT_FLIP_BYTE);
}

static void a_lost_recurrent_part_of_a_stage_fails(void **state) {
    (void)state;
    assert_damage_is_seen("falcon-h1", 2, 4, SK_FAULT_DROP_STATE);
}

static void without_flash_attention_values_are_compared(void **state) {
    char path[512];
    (void)state;
    if (!cut("llama", 2, 4, path)) skip();
    sk_certify_options o = options(path);
    o.flash_attn = 0;
    sk_certify_report *r = certify(&o);
    assert_passed(r, "synthetic hidden states");
    assert_false(r->length[0].criterion.bit);
    discard(r);
}

static void assert_refused(const sk_certify_options *o, const char *words) {
    sk_err e = {0};
    sk_certify_report *r = calloc(1, sizeof *r);
    assert_non_null(r);
    assert_int_equal(sk_certify_run(o, r, &e), SKIPPY_E_INVALID);
    if (!strstr(e.text, words)) fail_msg("'%s' is not in: %s", words, e.text);
    free(r);
}

static void a_producer_that_does_not_fit_is_refused_in_words(void **state) {
    char stage[512], producer[512], other[512], whole[1024];
    (void)state;
    if (!cut("llama", 3, 4, stage) || !cut("llama", 0, 2, producer) || !cut("falcon-h1", 0, 2, other)) skip();
    if (!sx_model("llama", whole, sizeof whole)) skip();
    sk_certify_options o = options(stage);
    o.producer = producer;
    assert_refused(&o, "layers between them are missing");
    assert_true(cut("llama", 1, 2, stage));
    assert_refused(&o, "they overlap");
    o.producer = other;
    assert_refused(&o, "of another model");
    o.producer = stage;
    assert_refused(&o, "does not begin with layer 0");
    o.model_path = producer;
    assert_refused(&o, "nothing before it");
    o.model_path = whole;
    assert_refused(&o, "no layers before it");
    o = options(stage);
    o.prompt = "a text";
    assert_refused(&o, "needs the tokenizer");
}

static void the_report_says_what_was_fed_and_matches_its_schema(void **state) {
    char path[512];
    (void)state;
    if (!cut("llama", 4, 0, path)) skip();
    sk_certify_options o = options(path);
    o.stage_index = 2;
    sk_certify_report *r = certify(&o);
    json_t *report = sk_certify_report_json(r, "test");
    assert_matches_schema(report, "docs/formats/certification-report.schema.json");
    const json_t *stage = json_object_get(report, "stage");
    assert_int_equal(json_integer_value(json_object_get(report, "stage_index")), 2);
    assert_int_equal(json_integer_value(json_object_get(report, "layer_start")), 4);
    assert_int_equal(json_integer_value(json_object_get(report, "layer_end")), r->identity.stage.n_layer);
    assert_true(json_is_false(json_object_get(report, "include_embeddings")));
    assert_true(json_is_true(json_object_get(report, "include_output")));
    assert_true(json_is_false(json_object_get(stage, "compared_with_whole")));
    assert_string_equal(json_string_value(json_object_get(stage, "inputs")), "synthetic hidden states");
    json_decref(report);
    discard(r);
}

/* ---- receipts ---- */

/* A report as a run would make it. */
static void make_report(sk_certify_report *r, bool passed) {
    *r = (sk_certify_report){.passed = passed, .production = SK_MODE_RESIDENT_KV, .n_lengths = 1};
    sk_certify_identity *i = &r->identity;
    i->alone = i->synthetic = true;
    i->stage = (sk_stage_facts){.is_stage = true, .layer_start = 3, .layer_end = 5, .n_layer = 8};
    memset(i->stage.source, 'b', 64);
    snprintf(i->type_k, sizeof i->type_k, "f16");
    snprintf(i->type_v, sizeof i->type_v, "f16");
    sk_runtime_abi(i->abi, sizeof i->abi);
    sk_runtime_devices(i->device, sizeof i->device);
    snprintf(r->verdict, sizeof r->verdict, "alone");
}

static void write_whole(const sk_certify_report *r, bool passed) {
    static sk_stage_certify_report whole;
    sk_err e = {0};
    whole =
        (sk_stage_certify_report){.passed = passed, .n_stages = 1, .n_layer = 8, .layers = {{3, 5}}, .flash_attn = -1};
    snprintf(whole.source, sizeof whole.source, "%s", r->identity.stage.source);
    snprintf(whole.type_k, sizeof whole.type_k, "f16");
    snprintf(whole.type_v, sizeof whole.type_v, "f16");
    snprintf(whole.abi, sizeof whole.abi, "%s", r->identity.abi);
    snprintf(whole.device, sizeof whole.device, "%s", r->identity.device);
    snprintf(whole.verdict, sizeof whole.verdict, "against the whole");
    assert_int_equal(sk_stage_receipt_write(sx_dir(), &whole, "1", &e), SKIPPY_OK);
}

static void assert_found(const sk_certify_report *r, bool passed, bool alone, const char *verdict) {
    sk_stage_receipt got;
    sk_err e = {0};
    const sk_stage_receipt_facts f = {.source = r->identity.stage.source, .layers = {3, 5}, .flash_attn = -1};
    if (sk_stage_receipt_find(sx_dir(), &f, &got, &e)) fail_msg("%s", e.text);
    assert_int_equal(got.passed, passed);
    assert_int_equal(got.alone, alone);
    assert_string_equal(got.verdict, verdict);
}

static void the_comparison_with_the_whole_counts_unless_the_state_failed(void **state) {
    static sk_certify_report r;
    char path[600];
    sk_err e = {0};
    sk_stage_receipt none;
    (void)state;
    make_report(&r, true);
    const sk_stage_receipt_facts f = {.source = r.identity.stage.source, .layers = {3, 5}, .flash_attn = -1};
    assert_int_equal(sk_stage_receipt_find(sx_dir(), &f, &none, &e), SKIPPY_E_NOT_FOUND);
    assert_non_null(strstr(e.text, "--package P --layers 3..4"));
    assert_int_equal(sk_stage_receipt_write_alone(sx_dir(), &r, -1, "1", path, sizeof path, &e), SKIPPY_OK);
    assert_non_null(strstr(path, "-3-5-"));
    assert_found(&r, true, true, "alone");
    write_whole(&r, true);
    assert_found(&r, true, false, "against the whole");
    r.passed = false;
    assert_int_equal(sk_stage_receipt_write_alone(sx_dir(), &r, -1, "1", NULL, 0, &e), SKIPPY_OK);
    assert_found(&r, false, true, "alone");
    r.passed = true;
    assert_int_equal(sk_stage_receipt_write_alone(sx_dir(), &r, -1, "1", NULL, 0, &e), SKIPPY_OK);
    write_whole(&r, false);
    assert_found(&r, false, false, "against the whole");
    FILE *damaged = fopen(path, "w");
    assert_non_null(damaged);
    fclose(damaged);
    assert_int_equal(sk_stage_receipt_find(sx_dir(), &f, &none, &e), SKIPPY_E_CORRUPT);
    assert_false(none.passed);
}

static void a_report_of_a_whole_model_makes_no_receipt_of_a_stage(void **state) {
    static sk_certify_report r;
    sk_err e = {0};
    (void)state;
    make_report(&r, true);
    r.identity.alone = false;
    assert_int_equal(sk_stage_receipt_write_alone(sx_dir(), &r, -1, "1", NULL, 0, &e), SKIPPY_E_INVALID);
}

#define FAMILY(test, x)                                                                                                \
    { .name = #x ": " #test, .test_func = (test), .initial_state = &(x) }

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--restore-worker") == 0) return sk_worker_main(argv[2]);
    const struct CMUnitTest tests[] = {
        FAMILY(first_middle_and_last_stage_pass, dense),
        FAMILY(first_middle_and_last_stage_pass, hybrid),
        FAMILY(first_middle_and_last_stage_pass, mixture),
        FAMILY(a_real_producer_gives_the_hidden_states, dense),
        FAMILY(a_real_producer_gives_the_hidden_states, hybrid),
        FAMILY(a_real_producer_gives_the_hidden_states, mixture),
        cmocka_unit_test(the_script_holds_what_the_layers_before_compute),
        cmocka_unit_test(a_flipped_bit_of_a_stages_state_fails),
        cmocka_unit_test(a_lost_recurrent_part_of_a_stage_fails),
        cmocka_unit_test(without_flash_attention_values_are_compared),
        cmocka_unit_test(a_producer_that_does_not_fit_is_refused_in_words),
        cmocka_unit_test(the_report_says_what_was_fed_and_matches_its_schema),
        cmocka_unit_test(the_comparison_with_the_whole_counts_unless_the_state_failed),
        cmocka_unit_test(a_report_of_a_whole_model_makes_no_receipt_of_a_stage),
    };
    return cmocka_run_group_tests(tests, sx_setup, sx_teardown);
}
