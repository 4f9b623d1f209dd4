#include "correctness/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "correctness/drift.h"
#include "correctness/stage_class.h"

enum { BATCH = 512, PADDING = 8, OUTPUTS = 64 };

static sk_context_params context_params(const sk_rig_params *p) {
    return (sk_context_params){.n_ctx = p->n_ctx,
                               .n_batch = BATCH,
                               .n_ubatch = BATCH,
                               .n_seq_max = SK_RIG_SEQS,
                               .n_outputs = OUTPUTS,
                               .n_threads = p->n_threads,
                               .n_threads_batch = p->n_threads,
                               .flash_attn = p->flash_attn,
                               .type_k = p->type_k,
                               .type_v = p->type_v,
                               .swa_full = p->swa_full};
}

static int find_row_class(sk_rig *r, const sk_row_class *known, sk_err *e) {
    if (known) {
        r->rows = *known;
        return SKIPPY_OK;
    }
    const sk_context_info *info = sk_context_get_info(r->ctx);
    if (info->has_kv && info->flash_attn != 1) {
        snprintf(r->why_not_bit, sizeof r->why_not_bit, "without flash attention other sequences take part in sums");
        return SKIPPY_OK;
    }
    sk_err why = {0};
    int rc = r->feed.script ? sk_stage_class_find(r, &why)
                            : sk_row_class_probe(r->ctx, r->model, SK_RIG_LANE, SK_RIG_CACHE,
                                                 SK_RIG_SEQS - SK_RIG_CACHE, &r->rows, &why);
    sk_context_clear(r->ctx);
    if (rc == SKIPPY_OK) return rc;
    r->rows = (sk_row_class){0};
    if (rc != SKIPPY_E_UNSUPPORTED) return sk_err_set(e, rc, "the row-class probe failed: %s", why.text);
    snprintf(r->why_not_bit, sizeof r->why_not_bit, "%.255s", why.text);
    return SKIPPY_OK;
}

static int learn_state(sk_rig *r, sk_err *e) {
    sk_err why = {0};
    int rc = sk_state_selfcheck(r->ctx, SK_RIG_LANE, SK_RIG_OTHER, SK_RIG_SCRATCH, &r->caps, &why);
    sk_context_clear(r->ctx);
    r->movable = rc == SKIPPY_OK;
    if (rc == SKIPPY_OK) return rc;
    if (rc != SKIPPY_E_UNSUPPORTED) return sk_err_set(e, rc, "the state self-check failed: %s", why.text);
    snprintf(r->why_not_movable, sizeof r->why_not_movable, "%.255s", why.text);
    return SKIPPY_OK;
}

int sk_rig_open(const sk_model *m, const sk_rig_params *p, const sk_row_class *known, sk_rig *out, sk_err *e) {
    sk_context_params cp = context_params(p);
    sk_rig r = {.model = m, .n_vocab = (size_t)sk_model_get_info(m)->n_vocab};
    int rc = sk_context_create(m, &cp, &r.ctx, e);
    if (rc) return rc;
    r.batch = calloc(BATCH + PADDING, sizeof *r.batch);
    if (!r.batch) rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    if (rc == SKIPPY_OK && p->script) rc = sk_stage_feed_init(&r.feed, m, p->script, BATCH + PADDING, e);
    if (rc == SKIPPY_OK && p->script) r.n_vocab = sk_stage_feed_values(&r.feed, m);
    if (rc == SKIPPY_OK) rc = find_row_class(&r, known, e);
    if (rc == SKIPPY_OK) rc = learn_state(&r, e);
    if (rc)
        sk_rig_close(&r);
    else
        *out = r;
    return rc;
}

void sk_rig_close(sk_rig *r) {
    sk_context_free(r->ctx);
    sk_stage_feed_free(&r->feed);
    free(r->batch);
    *r = (sk_rig){0};
}

/* Rows of the next piece. Recurrent memory takes whole multiples of the class, then single rows. */
static uint32_t piece(const sk_rig *r, uint32_t left, uint32_t chunk) {
    uint32_t k = left < chunk ? left : chunk;
    if (sk_rig_bit(r) && sk_context_get_info(r->ctx)->recurrent)
        k = k >= r->rows.multiple ? k - k % r->rows.multiple : 1;
    return k;
}

static int decode_piece(sk_rig *r, uint32_t k, bool padded, sk_err *e) {
    uint32_t unused = 0;
    if (r->feed.script)
        return sk_stage_feed_decode(&r->feed, r->ctx, padded ? &r->rows : NULL, r->batch, k, SK_RIG_SCRATCH, e);
    if (!padded) return sk_context_decode(r->ctx, r->batch, k, NULL, e);
    return sk_row_class_decode(r->ctx, &r->rows, r->batch, k, SK_RIG_SCRATCH, &unused, NULL, e);
}

static int copy_row(sk_rig *r, uint32_t index, float *out, sk_err *e) {
    const float *row = r->feed.script ? sk_stage_feed_row(&r->feed, r->ctx, index) : sk_context_logits(r->ctx, index);
    if (!row) return sk_err_set(e, SKIPPY_E_RUNTIME, "llama.cpp gave no logits for a row that asked for them");
    memcpy(out, row, r->n_vocab * sizeof *out);
    return SKIPPY_OK;
}

int sk_rig_feed(sk_rig *r, uint32_t seq, const int32_t *tokens, uint32_t n, const uint32_t *wanted, size_t n_wanted,
                float *out, sk_err *e) {
    bool padded = sk_rig_bit(r);
    uint32_t chunk = padded ? r->rows.max_rows : BATCH;
    size_t done = 0;
    for (uint32_t at = 0; at < n;) {
        uint32_t k = piece(r, n - at, chunk);
        for (uint32_t i = 0; i < k; i++) r->batch[i] = (sk_row){.token = tokens[at + i], .seq = seq};
        size_t end = done;
        while (end < n_wanted && wanted[end] < at + k) r->batch[wanted[end++] - at].output = true;
        int rc = decode_piece(r, k, padded, e);
        for (; rc == SKIPPY_OK && done < end; done++) rc = copy_row(r, wanted[done] - at, out + done * r->n_vocab, e);
        if (rc) return rc;
        at += k;
    }
    return SKIPPY_OK;
}

int sk_rig_feed_plain(sk_rig *r, uint32_t seq, const int32_t *tokens, uint32_t n, uint32_t chunk, float *out,
                      sk_err *e) {
    uint32_t k = 0;
    if (chunk > BATCH) chunk = BATCH;
    for (uint32_t at = 0; at < n; at += k) {
        k = n - at < chunk ? n - at : chunk;
        for (uint32_t i = 0; i < k; i++)
            r->batch[i] = (sk_row){.token = tokens[at + i], .seq = seq, .output = at + i + 1 == n};
        int rc = decode_piece(r, k, false, e);
        if (rc) return rc;
    }
    return copy_row(r, k - 1, out, e);
}

int sk_rig_greedy(sk_rig *r, uint32_t seq, const float *row, size_t n, int32_t *out, float *lead, float *last,
                  sk_err *e) {
    static const uint32_t first = 0;
    memcpy(last, row, r->n_vocab * sizeof *last);
    for (size_t i = 0; i < n; i++) {
        out[i] = sk_drift_best(last, r->n_vocab, &lead[i]);
        if (out[i] < 0) return sk_err_set(e, SKIPPY_E_RUNTIME, "a row of logits holds no number");
        const sk_stage_script *script = r->feed.script;
        int32_t token = script ? sk_stage_script_token(script, sk_context_seq_len(r->ctx, seq)) : out[i];
        int rc = sk_rig_feed(r, seq, &token, 1, &first, 1, last, e);
        if (rc) return rc;
    }
    return SKIPPY_OK;
}

int sk_rig_state_digest(sk_rig *r, uint32_t seq, skippy_key *digest, uint64_t *bytes, sk_err *e) {
    sk_blob blob = {0};
    int rc = sk_state_export_whole(r->ctx, &r->caps, seq, &blob, e);
    if (rc == SKIPPY_OK) {
        sk_hash(blob.data, blob.len, digest->bytes);
        *bytes = blob.len;
    }
    sk_blob_free(&blob);
    return rc;
}
