#include "correctness/stage_script.h"

#include <stdlib.h>
#include <string.h>

#include "correctness/prompt.h"
#include "runtime/stage_context.h"

enum {
    PRODUCER_BATCH = 64, /* a first stage has room for a row of logits for each row of a batch */
    CELL_STEP = 256,     /* llama.cpp rounds contexts up to this */
    SYNTHETIC_IDS = 32768
};

bool sk_stage_needs_script(const sk_model_info *i) {
    return i->stage.is_stage && !(i->stage.first && i->stage.last);
}

int32_t sk_stage_script_token(const sk_stage_script *s, uint32_t position) {
    return position < s->n ? s->tokens[position] : 0;
}

void sk_stage_script_free(sk_stage_script *s) {
    free(s->tokens);
    free(s->hidden);
    *s = (sk_stage_script){0};
}

/* ---- without the layers before ---- */

/* The ids only tell positions apart: there is no vocabulary here. */
static void make_synthetic(sk_stage_script *s) {
    uint32_t x = 2024;
    for (uint32_t i = 0; i < s->n; i++) {
        x = x * 1664525u + 1013904223u; /* Numerical Recipes' generator: any spread of ids will do */
        s->tokens[i] = (int32_t)((x >> 8) % SYNTHETIC_IDS);
        sk_stage_synthetic(s->tokens[i], i, s->hidden + (size_t)i * s->width, s->width);
    }
}

/* ---- with them ---- */

static int check_producer(const char *path, const sk_stage_facts *p, const sk_stage_facts *stage, sk_err *e) {
    if (!p->is_stage || !p->first)
        return sk_err_set(e, SKIPPY_E_INVALID, "the producer '%.200s' does not begin with layer 0: it takes no tokens",
                          path);
    if (strcmp(p->source, stage->source) != 0 || p->width != stage->width)
        return sk_err_set(e, SKIPPY_E_INVALID, "the producer '%.150s' is of another model (%.16s, not %.16s)", path,
                          p->source, stage->source);
    if (p->layer_end == stage->layer_start) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_INVALID, "the producer holds layers 0 to %d, but the stage begins with layer %d: %s",
                      (int)p->layer_end - 1, (int)stage->layer_start,
                      p->layer_end < stage->layer_start ? "layers between them are missing" : "they overlap");
}

static int create_context(const sk_model *m, const sk_stage_script_params *p, sk_context **out, sk_err *e) {
    const sk_context_params cp = {.n_ctx = (p->n + CELL_STEP - 1) / CELL_STEP * CELL_STEP,
                                  .n_batch = PRODUCER_BATCH,
                                  .n_ubatch = PRODUCER_BATCH,
                                  .n_seq_max = 1,
                                  .n_outputs = PRODUCER_BATCH,
                                  .n_threads = p->n_threads,
                                  .n_threads_batch = p->n_threads,
                                  .flash_attn = p->flash_attn,
                                  .type_k = p->type_k,
                                  .type_v = p->type_v};
    return sk_context_create(m, &cp, out, e);
}

static int run_producer(sk_context *c, sk_stage_script *s, sk_err *e) {
    sk_row rows[PRODUCER_BATCH];
    int rc = SKIPPY_OK;
    for (uint32_t at = 0, k = 0; rc == SKIPPY_OK && at < s->n; at += k) {
        k = s->n - at < PRODUCER_BATCH ? s->n - at : PRODUCER_BATCH;
        for (uint32_t i = 0; i < k; i++) rows[i] = (sk_row){.token = s->tokens[at + i]};
        rc = sk_context_decode_stage(c, rows, k, NULL, s->hidden + (size_t)at * s->width, NULL, e);
    }
    return rc;
}

static int make_real(const sk_stage_facts *stage, const sk_stage_script_params *p, sk_stage_script *s, sk_err *e) {
    const sk_model_params mp = {.path = p->producer, .n_gpu_layers = p->n_gpu_layers};
    sk_model *m = NULL;
    sk_context *c = NULL;
    int rc = sk_model_load(&mp, &m, e);
    if (rc == SKIPPY_OK) rc = check_producer(p->producer, &sk_model_get_info(m)->stage, stage, e);
    if (rc == SKIPPY_OK) rc = sk_prompt_tokens(m, p->prompt, s->tokens, s->n, e);
    if (rc == SKIPPY_OK) rc = create_context(m, p, &c, e);
    if (rc == SKIPPY_OK) rc = run_producer(c, s, e);
    sk_context_free(c);
    sk_model_free(m);
    return rc;
}

/* ---- both ---- */

static int check(const sk_stage_facts *stage, const sk_stage_script_params *p, sk_err *e) {
    if (stage->first && p->producer)
        return sk_err_set(e, SKIPPY_E_INVALID, "the first stage takes tokens: there is nothing before it to produce");
    if (!stage->first && !p->producer && p->prompt)
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "a text needs the tokenizer, which only first stages have: give a producer, or no text");
    return SKIPPY_OK;
}

int sk_stage_script_make(const sk_model *stage, const sk_stage_script_params *p, sk_stage_script *out, sk_err *e) {
    const sk_stage_facts *f = &sk_model_get_info(stage)->stage;
    *out = (sk_stage_script){.n = p->n, .width = (uint32_t)f->width};
    int rc = check(f, p, e);
    if (rc) return rc;
    out->tokens = calloc(p->n, sizeof *out->tokens);
    if (!f->first) out->hidden = calloc((size_t)p->n * out->width, sizeof *out->hidden);
    if (!out->tokens || (!f->first && !out->hidden))
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %u hidden states", p->n);
    else if (f->first)
        rc = sk_prompt_tokens(stage, p->prompt, out->tokens, p->n, e);
    else if (p->producer)
        rc = make_real(f, p, out, e);
    else
        make_synthetic(out);
    if (rc) sk_stage_script_free(out);
    return rc;
}
