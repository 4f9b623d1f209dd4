#include "runtime/stage_context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml-backend.h>
#include <ggml.h>

#include "runtime/context_internal.h"

/* Called for each node of the graph (ask), and again when a node that was asked for has its values. Every write to K, V
 * and recurrent state precedes the output of the last layer, so stopping there leaves nothing undone. */
static bool on_node(struct ggml_tensor *t, bool ask, void *ud) {
    sk_stage_io *io = &((sk_context *)ud)->stage;
    if (strcmp(t->name, io->node) != 0) return !ask;
    if (ask) return true;
    if (!io->out) return false;
    size_t rows = (size_t)ggml_nrows(t);
    if (t->type != GGML_TYPE_F32 || t->ne[0] != io->width || !ggml_is_contiguous(t) || rows > io->cap - io->rows) {
        io->failed = true;
        return false;
    }
    ggml_backend_tensor_get(t, io->out + io->rows * io->width, 0, rows * io->width * sizeof(float));
    io->rows += rows;
    return false;
}

void sk_stage_io_params(sk_context *c, struct llama_context_params *cp) {
    const sk_model_info *mi = sk_model_get_info(c->model);
    sk_stage_io *io = &c->stage;
    io->takes = mi->stage.is_stage && !mi->stage.first;
    io->gives = mi->stage.is_stage && !mi->stage.last;
    io->width = (uint32_t)mi->stage.width;
    if (!io->gives) return;
    snprintf(io->node, sizeof io->node, "l_out-%d", mi->n_layer - 1);
    cp->cb_eval = on_node;
    cp->cb_eval_user_data = c;
    if (cp->n_outputs_max < cp->n_batch) cp->n_outputs_max = cp->n_batch; /* every row is an output */
}

int sk_stage_io_init(sk_context *c, sk_err *e) {
    sk_stage_io *io = &c->stage;
    if (!io->takes) return SKIPPY_OK;
    enum llama_rope_type rope = llama_model_rope_type(sk_model_native(c->model));
    io->per_row = rope == LLAMA_ROPE_TYPE_MROPE || rope == LLAMA_ROPE_TYPE_IMROPE ? 4 : 1;
    io->pos = calloc((size_t)c->info.n_batch * io->per_row, sizeof *io->pos);
    io->scratch = calloc((size_t)c->info.n_batch * io->width, sizeof *io->scratch);
    if (io->pos && io->scratch) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %u hidden states", c->info.n_batch);
}

void sk_stage_io_free(sk_context *c) {
    free(c->stage.pos);
    free(c->stage.scratch);
}

/* With M-RoPE the positions stand in sections of n: text has its position in the first three and 0 in the fourth. */
struct llama_batch sk_stage_io_batch(sk_context *c, const float *in) {
    sk_stage_io *io = &c->stage;
    struct llama_batch b = c->batch;
    size_t n = (size_t)b.n_tokens;
    for (uint32_t section = 0; section < io->per_row; section++)
        for (size_t i = 0; i < n; i++) io->pos[section * n + i] = section < 3 ? c->batch.pos[i] : 0;
    b.token = NULL;
    b.embd = (float *)in; /* llama.cpp only reads it */
    b.pos = io->pos;
    return b;
}

static bool one_sequence(const sk_row *rows, size_t n) {
    for (size_t i = 1; i < n; i++)
        if (rows[i].seq != rows[0].seq) return false;
    return true;
}

int sk_context_decode_stage(sk_context *c, const sk_row *rows, size_t n, const float *in, float *out, uint32_t *bad_seq,
                            sk_err *e) {
    const sk_stage_io *io = &c->stage;
    if (io->takes != (in != NULL) || (io->gives != (out != NULL)))
        return sk_err_set(e, SKIPPY_E_INVALID, "this stage takes %s and gives %s",
                          io->takes ? "hidden states" : "tokens", io->gives ? "hidden states" : "logits");
    if (c->info.recurrent && !one_sequence(rows, n))
        return sk_err_set(e, SKIPPY_E_INVALID, "rows of several sequences for a stage with recurrent state");
    return sk_context_decode_rows(c, rows, n, in, out, bad_seq, e);
}

/* Mixes the bits of a number so that neighbours have nothing in common (the finaliser of SplitMix64). */
static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void sk_stage_synthetic(int32_t token, uint32_t position, float *row, uint32_t width) {
    uint64_t seed = mix((uint64_t)(uint32_t)token << 32 | position);
    for (uint32_t i = 0; i < width; i++) {
        /* 24 bits, so that the division is exact and every machine gets the same float */
        int32_t v = (int32_t)(mix(seed + i) >> 40) - (1 << 23);
        row[i] = (float)v / (float)(1 << 23);
    }
}

void sk_stage_to_f16(const float *in, uint16_t *out, size_t n) {
    ggml_fp32_to_fp16_row(in, out, (int64_t)n);
}

void sk_stage_from_f16(const uint16_t *in, float *out, size_t n) {
    ggml_fp16_to_fp32_row(in, out, (int64_t)n);
}
