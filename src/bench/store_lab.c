#include "bench/store_lab.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/interrupt.h"
#include "correctness/prompt.h"

enum { CHUNK = 512, CELL_STEP = 256 };

/* ---- sizes ---- */

sk_store_sizes sk_store_sizes_default(void) {
    return (sk_store_sizes){.turns = 20,
                            .turn_tokens = 60,
                            .agents = 16,
                            .shared = 2000,
                            .own = 50,
                            .prefix = 1000,
                            .runs = 20,
                            .steps = {SK_PARCEL_WINDOW, 64}};
}

static uint64_t chat_tokens(const sk_store_sizes *s) {
    return (uint64_t)s->turns * s->turn_tokens;
}

static uint64_t agent_tokens(const sk_store_sizes *s) {
    return (uint64_t)s->shared + s->own;
}

int sk_store_sizes_check(const sk_store_sizes *s, sk_err *e) {
    const struct {
        const char *what;
        uint64_t tokens;
    } scenarios[] = {{"the chat", chat_tokens(s)}, {"an agent", agent_tokens(s)}, {"the prefix", s->prefix}};
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (scenarios[i].tokens > SK_STORE_MAX_TOKENS)
            return sk_err_set(e, SKIPPY_E_INVALID, "%s would have %llu tokens, at most %d are possible",
                              scenarios[i].what, (unsigned long long)scenarios[i].tokens, SK_STORE_MAX_TOKENS);
    if (!s->turns || !s->turn_tokens || !s->agents || !s->shared || !s->own || !s->prefix || !s->runs)
        return sk_err_set(e, SKIPPY_E_INVALID, "every scenario needs at least one token and one run");
    if (s->runs > SK_STORE_MAX_RUNS || s->agents > SK_STORE_MAX_RUNS)
        return sk_err_set(e, SKIPPY_E_INVALID, "at most %d runs or agents are possible", SK_STORE_MAX_RUNS);
    return SKIPPY_OK;
}

uint32_t sk_store_sizes_context(const sk_store_sizes *s) {
    uint64_t most = chat_tokens(s);
    if (agent_tokens(s) > most) most = agent_tokens(s);
    if (2 * (uint64_t)s->prefix > most) most = 2 * (uint64_t)s->prefix; /* computed and imported side by side */
    /* and some for the check of the state codec */
    return (uint32_t)((most + CELL_STEP + CELL_STEP - 1) / CELL_STEP * CELL_STEP);
}

/* ---- opening ---- */

static size_t tokens_needed(const sk_store_sizes *s) {
    size_t n = (size_t)s->shared + (size_t)s->agents * s->own;
    if (chat_tokens(s) > n) n = (size_t)chat_tokens(s);
    return s->prefix > n ? s->prefix : n;
}

static int open_rig(sk_store_lab *lab, sk_err *e) {
    static const sk_row_class none = {0}; /* the server's usual mode: no row classes, so they need not be probed */
    const sk_rig_params p = {
        .n_ctx = sk_store_sizes_context(&lab->o->sizes), .n_threads = lab->o->n_threads, .flash_attn = -1};
    int rc = sk_rig_open(lab->model, &p, &none, &lab->rig, e);
    if (rc) return rc;
    if (!lab->rig.movable)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "state of this model cannot be moved exactly: %.300s",
                          lab->rig.why_not_movable);
    const sk_context_info *info = sk_context_get_info(lab->rig.ctx);
    lab->shape = (sk_state_shape){.hybrid = info->recurrent && info->has_kv,
                                  .recurrent = !info->has_kv,
                                  .window = sk_model_get_info(lab->model)->n_swa > 0};
    return SKIPPY_OK;
}

int sk_store_lab_open(const sk_store_options *o, sk_store_lab *out, sk_err *e) {
    const sk_model_params mp = {.path = o->model, .n_gpu_layers = -1, .progress = o->load, .progress_ud = o->ud};
    *out = (sk_store_lab){.o = o, .n_tokens = tokens_needed(&o->sizes)};
    memset(out->ns.bytes, 0x5b, sizeof out->ns.bytes); /* any name: the stores are this program's own */
    sk_store_lab_note(out, "loading the model");
    int rc = sk_model_load(&mp, &out->model, e);
    if (rc == SKIPPY_OK) rc = open_rig(out, e);
    if (rc == SKIPPY_OK) {
        out->tokens = calloc(out->n_tokens, sizeof *out->tokens);
        out->row = calloc(out->rig.n_vocab, sizeof *out->row);
        if (!out->tokens || !out->row)
            rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu tokens", out->n_tokens);
    }
    if (rc == SKIPPY_OK) rc = sk_prompt_tokens(out->model, NULL, out->tokens, out->n_tokens, e);
    if (rc) sk_store_lab_close(out);
    return rc;
}

void sk_store_lab_close(sk_store_lab *lab) {
    sk_rig_close(&lab->rig);
    sk_model_free(lab->model);
    free(lab->tokens);
    free(lab->row);
    *lab = (sk_store_lab){0};
}

/* ---- use ---- */

int sk_store_lab_feed(sk_store_lab *lab, uint32_t seq, const int32_t *tokens, uint32_t n, sk_err *e) {
    if (sk_interrupted()) return sk_err_set(e, SKIPPY_E_CANCELLED, "interrupted");
    return sk_rig_feed_plain(&lab->rig, seq, tokens, n, CHUNK, lab->row, e);
}

int sk_store_lab_export(sk_store_lab *lab, uint32_t seq, uint32_t n, sk_parcel *out, sk_err *e) {
    const bool recurrent = sk_context_get_info(lab->rig.ctx)->recurrent;
    return sk_parcel_export(&lab->rig, seq, recurrent ? SKIPPY_PAYLOAD_KV_RECURRENT : SKIPPY_PAYLOAD_RESIDENT_KV, n,
                            out, e);
}

int sk_store_lab_export_whole(sk_store_lab *lab, uint32_t seq, uint32_t n, sk_parcel *out, sk_err *e) {
    return sk_parcel_export(&lab->rig, seq, SKIPPY_PAYLOAD_FULL_STATE, n, out, e);
}

sk_store_name sk_store_lab_name(const sk_store_lab *lab, const int32_t *tokens) {
    return (sk_store_name){.ns = &lab->ns, .layout = &lab->rig.caps.layout, .tokens = tokens};
}

void sk_store_lab_note(const sk_store_lab *lab, const char *fmt, ...) {
    char text[160];
    va_list args;
    if (!lab->o->note) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    lab->o->note(lab->o->ud, text);
}
