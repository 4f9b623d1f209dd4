/* A chain of stages computes the bits that the whole model computes, for every family that may be cut. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <gguf.h>

#include "runtime/slice_fixture.h"
#include "runtime/stage_context.h"
#include "runtime/test_gguf.h"

enum { PREFILL = 70, DECODES = 6 };

typedef struct cut_case {
    const char *family;
    size_t n_stages;
    int32_t cuts[SX_MAX_STAGES + 1];
    void (*edit)(sk_tensor_source *s); /* changes the metadata before cutting; NULL = nothing */
} cut_case;

static void decode_some(sx_chain *whole, sx_chain *stages, uint32_t seq, const char *what) {
    for (int i = 0; i < DECODES; i++) sx_same(whole, stages, seq, 1, what);
}

/* The whole model goes through the same steps, since the place of a cell can change the bits of a one-row decode. */
static void compare(sx_chain *whole, sx_chain *stages) {
    sx_chain_check(whole);
    sx_chain_check(stages);
    sx_same(whole, stages, 0, PREFILL, "prefill");
    sx_chain_copy(whole, 0, 1);
    sx_chain_copy(stages, 0, 1);
    sx_chain_move(whole, 0, 2);
    sx_chain_move(stages, 0, 2);
    decode_some(whole, stages, 0, "decode");
    decode_some(whole, stages, 1, "decode after a resident restore");
    decode_some(whole, stages, 2, "decode after export and import");
}

static void stages_give_the_bits_of_the_whole_model(void **state) {
    const cut_case *t = *state;
    char path[1024];
    sk_tensor_source s = {0};
    sx_chain whole, stages;
    if (!sx_model(t->family, path, sizeof path) || !sx_source(t->family, &s)) skip();
    if (t->edit) {
        t->edit(&s);
        sx_chain_cut(&whole, &s, (int32_t[]){0, t->cuts[t->n_stages]}, 1);
    } else {
        sx_chain_whole(&whole, path);
    }
    sx_chain_cut(&stages, &s, t->cuts, t->n_stages);
    compare(&whole, &stages);
    sx_chain_close(&whole);
    sx_chain_close(&stages);
    sk_tensor_source_close(&s);
}

/* The rows of a converted file stand in another order, too; that changes the weights' values, not what is compared. */
static void convert_glm4(sk_tensor_source *s) {
    gguf_set_arr_data(s->meta, "glm4.rope.dimension_sections", GGUF_TYPE_INT32, (int32_t[]){16, 16, 0, 0}, 4);
}

static void one_layer_for_prediction(sk_tensor_source *s) {
    sx_set(s, "nextn_predict_layers", 1);
}

static void forget_gating(sk_tensor_source *s) {
    gguf_remove_key(s->meta, "deepseek2.expert_gating_func");
}

/* Five layers of which each fifth has no window: [7, 12) then has a full layer each third. */
static void period_of_five(sk_tensor_source *s) {
    sx_set(s, "attention.sliding_window_pattern", 5);
}

/* ---- one stage by itself ---- */

static const char *const ALONE[] = {"llama", "mamba2", "falcon-h1", "qwen35", "gemma3", "deepseek2lite"};

/* What certification, cost probes and self-checks do on a stage without the stages before it. */
static void every_stage_can_be_checked_by_itself(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof ALONE / sizeof *ALONE; i++) {
        sk_tensor_source s = {0};
        sx_chain ch;
        if (!sx_source(ALONE[i], &s)) skip();
        int32_t half = sk_slice_layers(&s) / 2;
        sx_chain_cut(&ch, &s, (int32_t[]){0, half, 2 * half}, 2);
        sx_chain_check(&ch);
        for (size_t k = 0; k < ch.n; k++) {
            const sk_context_info *ci = sk_context_get_info(ch.c[k]);
            sk_context_params p = {.n_ctx = 512,
                                   .n_batch = 64,
                                   .n_ubatch = 64,
                                   .n_seq_max = 2,
                                   .n_threads = 1,
                                   .n_threads_batch = 1,
                                   .flash_attn = 1};
            sk_memory_cost cost;
            sk_err e = {0};
            if (sk_context_probe_cost(ch.m[k], &p, &cost, &e)) fail_msg("%s: %s", ALONE[i], e.text);
            assert_int_equal(cost.cell > 0, ci->has_kv);
            assert_int_equal(cost.state > 0, ci->recurrent || ci->n_swa > 0);
        }
        sx_chain_close(&ch);
        sk_tensor_source_close(&s);
    }
}

/* A chain of three llama stages. */
static void open_llama(sx_chain *ch, sk_tensor_source *s) {
    if (!sx_source("llama", s)) skip();
    sx_chain_cut(ch, s, (int32_t[]){0, 2, 4, 6}, 3);
}

static void close_llama(sx_chain *ch, sk_tensor_source *s) {
    sx_chain_close(ch);
    sk_tensor_source_close(s);
}

static float *hidden(const sx_chain *ch, size_t n) {
    float *h = calloc(n * (size_t)sk_model_get_info(ch->m[0])->n_embd, sizeof *h);
    assert_non_null(h);
    return h;
}

static void a_plain_decode_feeds_the_fixed_formula(void **state) {
    (void)state;
    sk_tensor_source s = {0};
    sx_chain ch;
    sk_err e = {0};
    open_llama(&ch, &s);
    sx_chain_check(&ch);
    uint32_t width = (uint32_t)sk_model_get_info(ch.m[0])->n_embd;
    float *in = hidden(&ch, 3), *out = hidden(&ch, 3);
    sk_row rows[3];
    for (uint32_t i = 0; i < 3; i++) {
        rows[i] = (sk_row){.token = (int32_t)(1000000 + i)}; /* tokens of a vocabulary that the stage does not have */
        sk_stage_synthetic(rows[i].token, i, in + i * width, width);
    }
    if (sk_context_decode(ch.c[1], rows, 3, NULL, &e)) fail_msg("%s", e.text);
    for (int i = 0; i < 3; i++) rows[i].seq = 1;
    if (sk_context_decode_stage(ch.c[1], rows, 3, in, out, NULL, &e)) fail_msg("%s", e.text);
    sk_blob a = {0}, b = {0};
    assert_int_equal(sk_state_export_whole(ch.c[1], &ch.caps[1], 0, &a, &e), SKIPPY_OK);
    assert_int_equal(sk_state_export_whole(ch.c[1], &ch.caps[1], 1, &b, &e), SKIPPY_OK);
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    assert_null(sk_context_logits(ch.c[1], 2));
    sk_blob_free(&a);
    sk_blob_free(&b);
    free(in);
    free(out);
    close_llama(&ch, &s);
}

static void input_and_output_must_be_those_of_the_stage(void **state) {
    (void)state;
    sk_tensor_source s = {0};
    sx_chain ch;
    sk_err e = {0};
    open_llama(&ch, &s);
    sk_row row = {.token = 5};
    float *h = hidden(&ch, 1), *out = hidden(&ch, 1);
    const struct {
        size_t stage;
        const float *in;
        float *out;
    } wrong[] = {{0, h, out}, {0, NULL, NULL}, {1, NULL, out}, {1, h, NULL}, {2, NULL, NULL}, {2, h, out}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int rc = sk_context_decode_stage(ch.c[wrong[i].stage], &row, 1, wrong[i].in, wrong[i].out, NULL, &e);
        assert_int_equal(rc, SKIPPY_E_INVALID);
        assert_int_equal(sk_context_seq_len(ch.c[wrong[i].stage], 0), 0);
    }
    row.token = 1000000; /* the first stage looks tokens up */
    assert_int_equal(sk_context_decode_stage(ch.c[0], &row, 1, NULL, out, NULL, &e), SKIPPY_E_INVALID);
    row.seq = SX_SEQS;
    assert_int_equal(sk_context_decode_stage(ch.c[1], &row, 1, h, out, NULL, &e), SKIPPY_E_INVALID);
    free(h);
    free(out);
    close_llama(&ch, &s);
}

/* More rows than cells: nothing changes, on any stage. */
static void a_full_stage_refuses_rows_and_keeps_what_it_has(void **state) {
    (void)state;
    sk_tensor_source s = {0};
    sx_chain ch;
    sk_err e = {0};
    open_llama(&ch, &s);
    sk_row rows[SX_BATCH] = {{0}};
    float *in = hidden(&ch, SX_BATCH), *out = hidden(&ch, SX_BATCH);
    int rc = SKIPPY_OK;
    for (int i = 0; i < 100 && rc == SKIPPY_OK; i++)
        rc = sk_context_decode_stage(ch.c[1], rows, SX_BATCH - 1, in, out, NULL, &e);
    assert_int_equal(rc, SKIPPY_E_FULL);
    uint32_t len = sk_context_seq_len(ch.c[1], 0);
    assert_int_equal(len % (SX_BATCH - 1), 0);
    assert_int_equal(sk_context_cells_used(ch.c[1]), len);
    assert_int_equal(sk_context_decode_stage(ch.c[1], rows, 1, in, out, NULL, &e), SKIPPY_OK);
    free(in);
    free(out);
    close_llama(&ch, &s);
}

/* Two sequences in one call give the rows that each gives alone, in the order of the rows. */
static void attention_stages_may_mix_sequences(void **state) {
    (void)state;
    enum { EACH = 12 };
    sk_tensor_source s = {0};
    sx_chain ch;
    sk_err e = {0};
    open_llama(&ch, &s);
    size_t width = (size_t)sk_model_get_info(ch.m[0])->n_embd;
    float *both = hidden(&ch, 2 * EACH), *alone = hidden(&ch, 2 * EACH);
    sk_row rows[2 * EACH];
    for (int i = 0; i < 2 * EACH; i++) rows[i] = (sk_row){.token = 7 + i, .seq = i < EACH ? 0 : 1};
    assert_int_equal(sk_context_decode_stage(ch.c[0], rows, 2 * EACH, NULL, both, NULL, &e), SKIPPY_OK);
    sk_context_clear(ch.c[0]);
    for (int q = 0; q < 2; q++)
        assert_int_equal(
            sk_context_decode_stage(ch.c[0], rows + q * EACH, EACH, NULL, alone + (size_t)(q * EACH) * width, NULL, &e),
            SKIPPY_OK);
    for (size_t i = 0; i < 2 * EACH * width; i++)
        if (fabsf(both[i] - alone[i]) > 1e-3f) fail_msg("value %zu: %g, not %g", i, (double)both[i], (double)alone[i]);
    free(both);
    free(alone);
    close_llama(&ch, &s);
}

static void recurrent_stages_take_one_sequence_a_call(void **state) {
    (void)state;
    sk_tensor_source s = {0};
    sx_chain ch;
    sk_err e = {0};
    if (!sx_source("mamba2", &s)) skip();
    sx_chain_cut(&ch, &s, (int32_t[]){0, 3, 6}, 2);
    float *out = hidden(&ch, 2);
    sk_row rows[2] = {{.token = 5, .seq = 0}, {.token = 6, .seq = 1}};
    assert_int_equal(sk_context_decode_stage(ch.c[0], rows, 2, NULL, out, NULL, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_context_seq_len(ch.c[0], 0), 0);
    free(out);
    sx_chain_close(&ch);
    sk_tensor_source_close(&s);
}

/* ---- what a stage says of itself ---- */

static void a_stage_knows_its_place(void **state) {
    (void)state;
    sk_tensor_source s = {0};
    sx_chain ch, whole;
    char path[1024];
    open_llama(&ch, &s);
    assert_true(sx_model("llama", path, sizeof path));
    sx_chain_whole(&whole, path);
    const sk_stage_facts *w = &sk_model_get_info(whole.m[0])->stage;
    assert_true(!w->is_stage && w->first && w->last);
    assert_int_equal(w->layer_start, 0);
    assert_int_equal(w->layer_end, 6);
    assert_int_equal(w->n_layer, 6);
    assert_int_equal(w->width, 256);
    assert_string_equal(w->source, "");
    for (int32_t i = 0; i < 3; i++) {
        const sk_stage_facts *f = &sk_model_get_info(ch.m[i])->stage;
        assert_true(f->is_stage);
        assert_int_equal(f->first, i == 0);
        assert_int_equal(f->last, i == 2);
        assert_int_equal(f->layer_start, 2 * i);
        assert_int_equal(f->layer_end, 2 * i + 2);
        assert_int_equal(f->n_layer, 6);
        assert_int_equal(f->width, 256);
        assert_int_equal(strlen(f->source), 64);
        assert_string_equal(f->source_name, s.name);
    }
    sx_chain_close(&whole);
    close_llama(&ch, &s);
}

/* Overwrites a u32 of a file's metadata in place. */
static void patch(const char *path, const char *key, uint32_t value) {
    sk_buf b = {0};
    if (!gg_read(path, &b) || !b.data) {
        fail_msg("nothing to overwrite in %s", path);
        return;
    }
    char *at = memmem(b.data, b.len, key, strlen(key));
    assert_non_null(at);
    memcpy(at + strlen(key) + 4, &value, sizeof value); /* behind the value's type */
    assert_true(gg_write(path, b.data, b.len));
    sk_buf_free(&b);
}

static void a_stage_file_that_contradicts_itself_does_not_load(void **state) {
    (void)state;
    const struct {
        const char *key;
        uint32_t value;
        int code;
    } wrong[] = {{"skippy.stage.version", 2, SKIPPY_E_UNSUPPORTED},
                 {"skippy.stage.layer_end", 5, SKIPPY_E_MODEL},
                 {"skippy.stage.layer_count", 3, SKIPPY_E_MODEL},
                 {"skippy.stage.layer_start", UINT32_MAX, SKIPPY_E_MODEL},
                 {"skippy.stage.width", 128, SKIPPY_E_MODEL}};
    char path[512];
    sk_tensor_source s = {0};
    if (!sx_source("llama", &s)) skip();
    snprintf(path, sizeof path, "%s/patched.gguf", sx_dir());
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sk_model *m = NULL;
        sk_err e = {0};
        if (sk_slice_write(&s, (sk_layer_range){2, 4}, path, NULL, NULL, &e)) fail_msg("%s", e.text);
        patch(path, wrong[i].key, wrong[i].value);
        assert_int_equal(sk_model_load(&(sk_model_params){.path = path}, &m, &e), wrong[i].code);
        assert_non_null(strstr(e.text, "make it again"));
        assert_null(m);
    }
    sk_tensor_source_close(&s);
}

static void only_the_first_stage_has_a_tokenizer(void **state) {
    (void)state;
    sk_tensor_source s = {0};
    sx_chain ch;
    int32_t *tokens;
    size_t n;
    open_llama(&ch, &s);
    assert_int_equal(sk_model_tokenize(ch.m[0], "hello", 5, false, false, &tokens, &n), SKIPPY_OK);
    free(tokens);
    assert_non_null(sk_model_chat_template(ch.m[0]));
    for (int i = 1; i < 3; i++) {
        assert_int_equal(sk_model_tokenize(ch.m[i], "hello", 5, false, false, &tokens, &n), SKIPPY_E_UNSUPPORTED);
        assert_null(sk_model_chat_template(ch.m[i]));
        assert_int_equal(sk_model_bos(ch.m[i]), -1);
    }
    assert_int_equal(sk_model_get_info(ch.m[1])->n_vocab, 1);
    assert_int_equal(sk_model_get_info(ch.m[2])->n_vocab, sk_model_get_info(ch.m[0])->n_vocab);
    close_llama(&ch, &s);
}

static void adapters_are_refused_on_a_stage(void **state) {
    (void)state;
    sk_tensor_source s = {0};
    sx_chain ch;
    sk_context *c;
    sk_err e = {0};
    open_llama(&ch, &s);
    sk_lora_spec lora = {.path = "adapter.gguf", .scale = 1};
    sk_context_params p = {.n_ctx = 64,
                           .n_batch = 16,
                           .n_ubatch = 16,
                           .n_seq_max = 1,
                           .n_threads = 1,
                           .n_threads_batch = 1,
                           .lora = &lora,
                           .n_lora = 1};
    assert_int_equal(sk_context_create(ch.m[1], &p, &c, &e), SKIPPY_E_UNSUPPORTED);
    assert_non_null(strstr(e.text, "stage"));
    close_llama(&ch, &s);
}

/* ---- numbers ---- */

static void synthetic_hidden_states_are_the_same_everywhere(void **state) {
    (void)state;
    float a[64], b[64];
    double sum = 0;
    sk_stage_synthetic(11, 3, a, 64);
    sk_stage_synthetic(11, 3, b, 64);
    assert_memory_equal(a, b, sizeof a);
    sk_stage_synthetic(11, 4, b, 64);
    assert_memory_not_equal(a, b, sizeof a);
    sk_stage_synthetic(12, 3, b, 64);
    assert_memory_not_equal(a, b, sizeof a);
    for (int i = 0; i < 64; i++) {
        assert_true(a[i] >= -1 && a[i] < 1);
        sum += (double)a[i] * (double)a[i];
    }
    assert_true(sum > 64 * 0.2 && sum < 64 * 0.5); /* uniform: a third each */
    assert_true(a[0] == 4420147 / 8388608.0f && a[63] == 4349742 / 8388608.0f);
}

static void half_floats_round_to_the_nearest_even(void **state) {
    (void)state;
    const float in[] = {0.0f, -0.0f, 1.0f, -2.5f, 65504.0f, 1.0f + 1.0f / 2048, 1.0f + 3.0f / 2048, 6.0e-8f, 1e6f};
    const uint16_t want[] = {0x0000, 0x8000, 0x3c00, 0xc100, 0x7bff, 0x3c00, 0x3c02, 0x0001, 0x7c00};
    enum { N = sizeof in / sizeof *in };
    uint16_t half[N];
    float back[N];
    sk_stage_to_f16(in, half, N);
    assert_memory_equal(half, want, sizeof want);
    sk_stage_from_f16(half, back, N);
    for (int i = 0; i < 5; i++) assert_memory_equal(&back[i], &in[i], sizeof in[i]);
    assert_true(isinf(back[N - 1]));
}

#define CASE(name, ...)                                                                                                \
    {                                                                                                                  \
        name, stages_give_the_bits_of_the_whole_model, NULL, NULL, &(cut_case) {                                       \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define CUT2(family, a, n) CASE(family " in two", family, 2, {0, a, n}, NULL)
#define CUT3(family, a, b, n) CASE(family " in three", family, 3, {0, a, b, n}, NULL)

int main(void) {
    const struct CMUnitTest tests[] = {
        CUT2("llama", 2, 6),
        CUT3("llama", 1, 4, 6),
        CUT2("qwen3", 3, 6),
        CUT3("qwen3", 2, 3, 6),
        CUT2("olmo", 5, 6),
        CUT3("olmo", 1, 2, 6),
        CUT2("minimax-m2", 3, 6),
        CUT3("minimax-m2", 2, 4, 6),
        CUT2("mamba2", 1, 6),
        CUT3("mamba2", 3, 4, 6),
        CUT2("falcon-h1", 4, 6),
        CUT3("falcon-h1", 2, 4, 6),
        CUT2("deepseek2lite", 3, 6),
        CUT3("deepseek2lite", 1, 4, 6),
        CUT2("deepseek2mha", 1, 6),
        CUT3("deepseek2mha", 2, 4, 6),
        CUT2("deepseek3", 2, 7),
        CUT3("deepseek3", 1, 5, 7),
        CUT2("glm47flash", 3, 6),
        CUT3("glm47flash", 2, 4, 6),
        CUT2("qwen3next", 6, 12),
        CUT3("qwen3next", 4, 8, 12),
        CUT2("qwen35", 4, 12),
        CUT3("qwen35", 5, 10, 12),
        CUT2("lfm2", 4, 9),
        CUT3("lfm2", 3, 6, 9),
        CUT2("granitehybrid", 4, 9),
        CUT3("granitehybrid", 3, 7, 9),
        CUT2("gemma3", 6, 12),
        CUT3("gemma3", 6, 9, 12),
        CUT2("gemma4a4b", 7, 12),
        CUT3("gemma4a4b", 4, 8, 12),
        CUT3("llama+q4_k_m", 2, 4, 6),
        CUT2("falcon-h1+q8_0", 2, 6),
        CASE("glm4 converted", "glm4", 3, {0, 2, 4, 6}, convert_glm4),
        CASE("layers for prediction are dropped", "glm47flash", 2, {0, 2, 5}, one_layer_for_prediction),
        CASE("gating that only the loader knows", "deepseek2lite", 2, {0, 2, 6}, forget_gating),
        CASE("a stage that starts inside a period", "gemma3", 3, {0, 5, 7, 12}, period_of_five),
        cmocka_unit_test(every_stage_can_be_checked_by_itself),
        cmocka_unit_test(a_plain_decode_feeds_the_fixed_formula),
        cmocka_unit_test(input_and_output_must_be_those_of_the_stage),
        cmocka_unit_test(a_full_stage_refuses_rows_and_keeps_what_it_has),
        cmocka_unit_test(attention_stages_may_mix_sequences),
        cmocka_unit_test(recurrent_stages_take_one_sequence_a_call),
        cmocka_unit_test(a_stage_knows_its_place),
        cmocka_unit_test(a_stage_file_that_contradicts_itself_does_not_load),
        cmocka_unit_test(only_the_first_stage_has_a_tokenizer),
        cmocka_unit_test(adapters_are_refused_on_a_stage),
        cmocka_unit_test(synthetic_hidden_states_are_the_same_everywhere),
        cmocka_unit_test(half_floats_round_to_the_nearest_even),
    };
    return cmocka_run_group_tests_name("stage_context", tests, sx_setup, sx_teardown);
}
