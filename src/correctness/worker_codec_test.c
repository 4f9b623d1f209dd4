/* What the fresh process is told and what it answers: complete, or refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "correctness/worker_codec.h"

enum { PREFIX = 40, VOCAB = 5, REPEATS = 3 };

typedef struct example {
    int32_t tokens[PREFIX + SK_TRIAL_SUFFIX];
    uint8_t bytes[2][64];
    sk_parcel parcel;
    sk_worker_request request;
} example;

static void make(example *x) {
    *x = (example){.parcel = {.kind = SKIPPY_PAYLOAD_KV_RECURRENT, .n_tokens = PREFIX, .n_parts = 2}};
    for (size_t i = 0; i < sizeof x->tokens / sizeof *x->tokens; i++) x->tokens[i] = (int32_t)i - 3;
    memset(x->bytes, 0x5a, sizeof x->bytes);
    x->parcel.part[0] = (sk_state_part){SKIPPY_PART_KV, 0, PREFIX, x->bytes[0], 64};
    x->parcel.part[1] = (sk_state_part){SKIPPY_PART_STATE, PREFIX, PREFIX, x->bytes[1], 10};
    x->request = (sk_worker_request){.model_path = "a model.gguf",
                                     .n_gpu_layers = -1,
                                     .rig = {.n_ctx = 512, .n_threads = 2, .flash_attn = -1, .type_k = "q8_0"},
                                     .rows = {.multiple = 4, .max_rows = 60, .aligned = true},
                                     .tokens = x->tokens,
                                     .n_prefix = PREFIX,
                                     .repeats = REPEATS,
                                     .parcel = &x->parcel};
    x->request.layout.bytes[7] = 9;
}

static void a_request_arrives_as_it_was_sent(void **state) {
    (void)state;
    example x;
    sk_buf b = {0};
    sk_worker_job j;
    sk_err e = {0};
    make(&x);
    sk_worker_write_request(&b, &x.request);
    assert_int_equal(sk_worker_read_request(b.data, b.len, &j, &e), SKIPPY_OK);
    const sk_worker_request *q = &j.request;
    assert_string_equal(q->model_path, "a model.gguf");
    assert_int_equal(q->n_gpu_layers, -1);
    assert_int_equal(q->rig.n_ctx, 512);
    assert_int_equal(q->rig.flash_attn, -1);
    assert_string_equal(q->rig.type_k, "q8_0");
    assert_string_equal(q->rig.type_v, "");
    assert_int_equal(q->rows.multiple, 4);
    assert_true(q->rows.aligned);
    assert_true(skippy_key_equal(&q->layout, &x.request.layout));
    assert_memory_equal(q->tokens, x.tokens, sizeof x.tokens);
    assert_int_equal(q->repeats, REPEATS);
    assert_null(q->rig.script); /* a whole model */
    assert_int_equal(q->parcel->kind, SKIPPY_PAYLOAD_KV_RECURRENT);
    assert_int_equal(q->parcel->n_parts, 2);
    assert_int_equal(q->parcel->part[1].kind, SKIPPY_PART_STATE);
    assert_int_equal(q->parcel->part[1].len, 10);
    assert_memory_equal(q->parcel->part[0].data, x.bytes[0], 64);
    sk_worker_job_free(&j);
    sk_buf_free(&b);
}

static void what_a_stage_is_fed_arrives_with_the_request(void **state) {
    (void)state;
    enum { N = 3, WIDTH = 2 };
    int32_t tokens[N] = {5, -6, 7};
    float hidden[N * WIDTH] = {0.5f, -1.0f, 2.0f, 3.0f, -4.5f, 6.0f};
    sk_stage_script script = {.tokens = tokens, .hidden = hidden, .n = N, .width = WIDTH};
    example x;
    sk_buf b = {0};
    sk_worker_job j;
    sk_err e = {0};
    make(&x);
    x.request.rig.script = &script;
    sk_worker_write_request(&b, &x.request);
    assert_int_equal(sk_worker_read_request(b.data, b.len, &j, &e), SKIPPY_OK);
    const sk_stage_script *got = j.request.rig.script;
    assert_non_null(got);
    assert_int_equal(got->n, N);
    assert_int_equal(got->width, WIDTH);
    assert_memory_equal(got->tokens, tokens, sizeof tokens);
    assert_memory_equal(got->hidden, hidden, sizeof hidden);
    sk_worker_job_free(&j);
    script.hidden = NULL; /* a first stage takes tokens */
    sk_buf_clear(&b);
    sk_worker_write_request(&b, &x.request);
    assert_int_equal(sk_worker_read_request(b.data, b.len, &j, &e), SKIPPY_OK);
    assert_null(j.request.rig.script->hidden);
    sk_worker_job_free(&j);
    sk_buf_free(&b);
}

static void requests_with_other_fields_are_refused(void **state) {
    (void)state;
    example x;
    sk_buf b = {0};
    sk_worker_job j;
    sk_err e = {0};
    make(&x);
    sk_wire_begin(&b);
    sk_wire_put_text(&b, "m");
    sk_wire_seal(&b);
    assert_int_equal(sk_worker_read_request(b.data, b.len, &j, &e), SKIPPY_E_CORRUPT); /* nothing but a path */
    assert_int_equal(sk_worker_read_request("x", 1, &j, &e), SKIPPY_E_CORRUPT);
    sk_buf_clear(&b);
    make(&x);
    sk_worker_write_request(&b, &x.request);
    b.len -= 32; /* a field more than this version knows, sealed again */
    sk_wire_put_u64(&b, 1);
    sk_wire_seal(&b);
    assert_int_equal(sk_worker_read_request(b.data, b.len, &j, &e), SKIPPY_E_CORRUPT);
    assert_non_null(strstr(e.text, "fields of this version"));
    sk_buf_free(&b);
}

static void make_trial(sk_trial *t, uint32_t repeats) {
    sk_err e = {0};
    assert_int_equal(sk_trial_init(t, VOCAB, repeats, &e), SKIPPY_OK);
}

static void an_answer_arrives_as_it_was_sent(void **state) {
    (void)state;
    sk_trial sent, got;
    sk_buf b = {0};
    sk_err e = {0};
    make_trial(&sent, REPEATS);
    make_trial(&got, REPEATS);
    for (size_t i = 0; i < (SK_ROW_HITS + REPEATS) * VOCAB; i++) sent.rows[i] = (float)i * 0.5f;
    sent.greedy[63] = 17;
    sent.lead[0] = 0.25f;
    sent.state.bytes[31] = 1;
    sent.state_bytes = 1000;
    sent.import_ms[3] = 1.5;
    sk_worker_write_answer(&b, &(sk_err){0}, &sent);
    assert_int_equal(sk_worker_read_answer(b.data, b.len, &got, &e), SKIPPY_OK);
    assert_memory_equal(got.rows, sent.rows, (SK_ROW_HITS + REPEATS) * VOCAB * sizeof *got.rows);
    assert_int_equal(got.greedy[63], 17);
    assert_true(got.lead[0] == 0.25f && got.state_bytes == 1000 && got.import_ms[3] == 1.5);
    assert_int_equal(got.state.bytes[31], 1);
    sk_trial_free(&sent);
    sk_trial_free(&got);
    sk_buf_free(&b);
}

static void an_error_over_there_is_an_error_here(void **state) {
    (void)state;
    sk_trial t;
    sk_buf b = {0};
    sk_err e = {0};
    make_trial(&t, REPEATS);
    sk_worker_write_answer(&b, &(sk_err){.code = SKIPPY_E_MODEL, .text = "no such model"}, &t);
    assert_int_equal(sk_worker_read_answer(b.data, b.len, &t, &e), SKIPPY_E_MODEL);
    assert_string_equal(e.text, "no such model");
    sk_trial_free(&t);
    sk_buf_free(&b);
}

static void an_answer_of_another_size_is_refused(void **state) {
    (void)state;
    sk_trial sent, got;
    sk_buf b = {0};
    sk_err e = {0};
    make_trial(&sent, REPEATS + 1);
    make_trial(&got, REPEATS);
    sk_worker_write_answer(&b, &(sk_err){0}, &sent);
    assert_int_equal(sk_worker_read_answer(b.data, b.len, &got, &e), SKIPPY_E_CORRUPT);
    assert_int_equal(sk_worker_read_answer(b.data, b.len - 1, &got, &e), SKIPPY_E_CORRUPT);
    sk_buf_clear(&b);
    sk_wire_begin(&b);
    sk_wire_put_u64(&b, 999); /* no status of ours */
    sk_wire_put_text(&b, "?");
    sk_wire_seal(&b);
    assert_int_equal(sk_worker_read_answer(b.data, b.len, &got, &e), SKIPPY_E_CORRUPT);
    sk_trial_free(&sent);
    sk_trial_free(&got);
    sk_buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_arrives_as_it_was_sent),
        cmocka_unit_test(what_a_stage_is_fed_arrives_with_the_request),
        cmocka_unit_test(requests_with_other_fields_are_refused),
        cmocka_unit_test(an_answer_arrives_as_it_was_sent),
        cmocka_unit_test(an_error_over_there_is_an_error_here),
        cmocka_unit_test(an_answer_of_another_size_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
