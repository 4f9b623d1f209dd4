#include "correctness/stage_certify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/stage_context.h"

enum { PROMPT = 24, DECODE = 8, PIECES = 3 /* of the prompt: state has to carry from one to the next */ };

/* One run of the whole model or of a stage: rows in, rows out. */
typedef struct work {
    const sk_stage_certify_options *o;
    uint32_t n_prompt, n_rows; /* rows: prompt and generated tokens */
    int32_t *tokens;           /* n_rows */
    size_t n_vocab, width;
    float *expected; /* n_rows x n_vocab: of the whole model */
    float *in, *out; /* n_rows x width: hidden states on the way through the stages */
    sk_stage_certify_report *report;
} work;

typedef struct loaded {
    sk_model *model;
    sk_context *ctx;
    const sk_model_info *info;
} loaded;

static void unload(loaded *l) {
    if (l->ctx) sk_context_free(l->ctx);
    if (l->model) sk_model_free(l->model);
    *l = (loaded){0};
}

static int load(const work *w, const char *path, loaded *l, sk_err *e) {
    const sk_stage_certify_options *o = w->o;
    if (o->go_on && !o->go_on()) return sk_err_set(e, SKIPPY_E_CANCELLED, "stopped");
    const sk_model_params mp = {.path = path, .n_gpu_layers = o->n_gpu_layers};
    const sk_context_params cp = {.n_ctx = 256,
                                  .n_batch = 256,
                                  .n_ubatch = 256,
                                  .n_seq_max = 1,
                                  .n_outputs = w->n_prompt,
                                  .n_threads = o->n_threads,
                                  .n_threads_batch = o->n_threads,
                                  .flash_attn = o->flash_attn,
                                  .type_k = o->type_k,
                                  .type_v = o->type_v};
    *l = (loaded){0};
    int rc = sk_model_load(&mp, &l->model, e);
    if (rc == SKIPPY_OK) rc = sk_context_create(l->model, &cp, &l->ctx, e);
    if (rc != SKIPPY_OK) {
        unload(l);
        return rc;
    }
    l->info = sk_model_get_info(l->model);
    return SKIPPY_OK;
}

/* Number of rows of the piece that begins at row `at`: a part of the prompt, or one generated token. */
static uint32_t piece(const work *w, uint32_t at) {
    if (at >= w->n_prompt) return 1;
    const uint32_t size = w->n_prompt / PIECES + 1, left = w->n_prompt - at;
    return left < size ? left : size;
}

static void make_rows(const work *w, uint32_t at, uint32_t n, sk_row *rows) {
    for (uint32_t i = 0; i < n; i++) rows[i] = (sk_row){.token = w->tokens[at + i], .output = true};
}

static int32_t best_of(const float *row, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (row[i] > row[best]) best = i;
    return (int32_t)best;
}

/* ---- the whole model ---- */

static int make_room(work *w, const sk_model_info *i, sk_err *e) {
    w->n_vocab = (size_t)i->n_vocab;
    w->width = (size_t)i->n_embd;
    w->tokens = calloc(w->n_rows, sizeof *w->tokens);
    w->expected = calloc(w->n_rows * w->n_vocab, sizeof *w->expected);
    w->in = calloc(w->n_rows * w->width, sizeof *w->in);
    w->out = calloc(w->n_rows * w->width, sizeof *w->out);
    if (!w->tokens || !w->expected || !w->in || !w->out)
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the comparison");
    /* a fixed walk through the vocabulary: 7919 is prime, so that neighbours are far apart */
    for (uint32_t t = 0; t < w->n_prompt; t++) w->tokens[t] = (int32_t)((7919ull * (t + 1)) % w->n_vocab);
    return SKIPPY_OK;
}

static int keep_logits(work *w, loaded *l, uint32_t at, uint32_t n, sk_err *e) {
    for (uint32_t i = 0; i < n; i++) {
        const float *row = sk_context_logits(l->ctx, i);
        if (!row) return sk_err_set(e, SKIPPY_E_RUNTIME, "a row of logits is missing");
        memcpy(w->expected + (at + i) * w->n_vocab, row, w->n_vocab * sizeof *row);
    }
    const uint32_t next = at + n;
    if (next >= w->n_prompt && next < w->n_rows)
        w->tokens[next] = best_of(w->expected + (next - 1) * w->n_vocab, w->n_vocab);
    return SKIPPY_OK;
}

static int run_whole(work *w, sk_err *e) {
    loaded l;
    int rc = load(w, w->o->whole, &l, e);
    if (rc != SKIPPY_OK) return rc;
    if (!l.info->stage.first || !l.info->stage.last)
        rc = sk_err_set(e, SKIPPY_E_INVALID, "'%s' is a stage; the whole model is needed", w->o->whole);
    if (rc == SKIPPY_OK) rc = make_room(w, l.info, e);
    for (uint32_t at = 0, n; rc == SKIPPY_OK && at < w->n_rows; at += n) {
        sk_row rows[256];
        uint32_t bad = 0;
        n = piece(w, at);
        make_rows(w, at, n, rows);
        rc = sk_context_decode(l.ctx, rows, n, &bad, e);
        if (rc == SKIPPY_OK) rc = keep_logits(w, &l, at, n, e);
    }
    unload(&l);
    return rc;
}

/* ---- the stages ---- */

/* Are these the layers behind the ones before, of the same model? */
static int check_stage(work *w, const char *path, const sk_model_info *i, size_t at, sk_err *e) {
    const sk_stage_facts *f = &i->stage;
    sk_stage_certify_report *r = w->report;
    const int32_t start = at == 0 ? 0 : r->layers[at - 1].end;
    const bool last = at + 1 == w->o->n_stages;
    if (at == 0) {
        r->n_layer = f->n_layer;
        snprintf(r->source, sizeof r->source, "%s", f->source);
    }
    if (!f->is_stage || f->layer_start != start || f->last != last || (size_t)f->width != w->width ||
        strcmp(f->source, r->source) != 0)
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "'%.200s' is not the stage that follows: layers from %d%s of the model %.16s", path,
                          (int)start, last ? " to the last" : "", r->source);
    r->layers[at] = (sk_layer_range){f->layer_start, f->layer_end};
    return SKIPPY_OK;
}

static void compare(work *w, uint32_t at, const float *row) {
    const float *expected = w->expected + at * w->n_vocab;
    w->report->rows++;
    if (memcmp(row, expected, w->n_vocab * sizeof *row) == 0) return;
    w->report->different++;
    for (size_t i = 0; i < w->n_vocab; i++) {
        const float d = fabsf(row[i] - expected[i]);
        if (!(d <= w->report->largest)) w->report->largest = d; /* NaN counts */
    }
}

static int run_piece(work *w, loaded *l, uint32_t at, uint32_t n, sk_err *e) {
    const sk_stage_facts *f = &l->info->stage;
    sk_row rows[256];
    uint32_t bad = 0;
    make_rows(w, at, n, rows);
    int rc = sk_context_decode_stage(l->ctx, rows, n, f->first ? NULL : w->in + at * w->width,
                                     f->last ? NULL : w->out + at * w->width, &bad, e);
    for (uint32_t i = 0; rc == SKIPPY_OK && f->last && i < n; i++) {
        const float *row = sk_context_logits(l->ctx, i);
        if (!row) return sk_err_set(e, SKIPPY_E_RUNTIME, "a row of logits is missing");
        compare(w, at + i, row);
    }
    return rc;
}

static int run_stage(work *w, size_t at, sk_err *e) {
    const char *path = w->o->stages[at];
    loaded l;
    int rc = load(w, path, &l, e);
    if (rc != SKIPPY_OK) return rc;
    rc = check_stage(w, path, l.info, at, e);
    if (rc == SKIPPY_OK && l.info->stage.last && (size_t)l.info->n_vocab != w->n_vocab)
        rc = sk_err_set(e, SKIPPY_E_INVALID, "'%.200s' gives %d logits, the whole model %zu", path,
                        (int)l.info->n_vocab, w->n_vocab);
    for (uint32_t row = 0, n; rc == SKIPPY_OK && row < w->n_rows; row += n) {
        n = piece(w, row);
        rc = run_piece(w, &l, row, n, e);
    }
    float *given = w->out; /* what this stage gave is what the next one takes */
    w->out = w->in;
    w->in = given;
    unload(&l);
    return rc;
}

static void judge(work *w) {
    sk_stage_certify_report *r = w->report;
    r->passed = r->rows == w->n_rows && r->different == 0;
    if (r->passed)
        snprintf(r->verdict, sizeof r->verdict,
                 "%zu stages give the whole model's logits bit for bit: %u rows, %u of them generated", r->n_stages,
                 r->rows, w->n_rows - w->n_prompt);
    else
        snprintf(r->verdict, sizeof r->verdict,
                 "%zu stages give other logits than the whole model: %u of %u rows differ, by up to %g", r->n_stages,
                 r->different, r->rows, (double)r->largest);
}

static const char *type_or_default(const char *type) {
    return type && *type ? type : "f16";
}

int sk_stage_certify_run(const sk_stage_certify_options *o, sk_stage_certify_report *out, sk_err *e) {
    const uint32_t n_prompt = o->n_prompt ? o->n_prompt : PROMPT, n_decode = o->n_decode ? o->n_decode : DECODE;
    *out =
        (sk_stage_certify_report){.n_stages = o->n_stages, .flash_attn = o->flash_attn, .date_s = (int64_t)time(NULL)};
    if (o->n_stages == 0 || o->n_stages > SK_STAGE_CERTIFY_MAX)
        return sk_err_set(e, SKIPPY_E_INVALID, "1 to %d stage files can be compared, not %zu", SK_STAGE_CERTIFY_MAX,
                          o->n_stages);
    if (n_prompt > 128 || n_decode > 128)
        return sk_err_set(e, SKIPPY_E_INVALID, "at most 128 tokens of prompt and 128 generated ones are compared");
    work w = {.o = o, .n_prompt = n_prompt, .n_rows = n_prompt + n_decode, .report = out};
    snprintf(out->type_k, sizeof out->type_k, "%s", type_or_default(o->type_k));
    snprintf(out->type_v, sizeof out->type_v, "%s", type_or_default(o->type_v));
    int rc = run_whole(&w, e);
    for (size_t i = 0; rc == SKIPPY_OK && i < o->n_stages; i++) rc = run_stage(&w, i, e);
    sk_runtime_abi(out->abi, sizeof out->abi);
    sk_runtime_devices(out->device, sizeof out->device);
    if (rc == SKIPPY_OK) judge(&w);
    free(w.tokens);
    free(w.expected);
    free(w.in);
    free(w.out);
    return rc;
}
