#include "correctness/session.h"

#include <stdlib.h>

#include "base/clock.h"

enum { SERVER_CHUNK = 512, OTHER_CHUNK = 32, TENANT_TOKENS = 24 };

/* One pair of cold runs is a small sample of what batches and placement can do. */
static const double TOLERANCE_FACTOR = 4.0, LEAST_TOLERANCE = 1e-3;

static double ms_since(uint64_t start_ns) {
    return (double)(sk_now_ns() - start_ns) / 1e6;
}

enum skippy_payload_kind sk_proof_session_production_kind(const sk_rig *r) {
    return sk_context_get_info(r->ctx)->recurrent ? SKIPPY_PAYLOAD_KV_RECURRENT : SKIPPY_PAYLOAD_RESIDENT_KV;
}

/* ---- the reference: how far apart are two cold runs? ---- */

/* Prefix, and then rows after the token that follows it and after the rest of the suffix. tenant: tokens of another
 * sequence that come in between, so that the cells of this one do not lie side by side. */
static int plain_run(sk_proof_session *s, uint32_t seq, uint32_t chunk, uint32_t tenant, float *rows,
                     sk_proof_session_times *times, sk_err *e) {
    const int32_t *suffix = s->tokens + s->n_prefix;
    uint32_t half = tenant ? s->n_prefix / 2 : 0;
    uint64_t start = sk_now_ns();
    int rc = SKIPPY_OK;
    if (half) rc = sk_rig_feed_plain(s->rig, seq, s->tokens, half, chunk, rows, e);
    if (rc == SKIPPY_OK && half) rc = sk_rig_feed_plain(s->rig, SK_RIG_CACHE, s->tokens, tenant, chunk, rows, e);
    if (rc == SKIPPY_OK) rc = sk_rig_feed_plain(s->rig, seq, s->tokens + half, s->n_prefix - half, chunk, rows, e);
    times->prefill_ms = ms_since(start);
    start = sk_now_ns();
    if (rc == SKIPPY_OK) rc = sk_rig_feed_plain(s->rig, seq, suffix, 1, chunk, rows, e);
    times->decode_ms = ms_since(start);
    if (rc == SKIPPY_OK)
        rc = sk_rig_feed_plain(s->rig, seq, suffix + 1, SK_TRIAL_SUFFIX - 1, chunk, rows + s->rig->n_vocab, e);
    return rc;
}

static void fold_cold_rows(sk_proof_session *s, const float *a, const float *b) {
    sk_drift d;
    for (size_t row = 0; row < 2; row++) {
        sk_drift_measure(a + row * s->rig->n_vocab, b + row * s->rig->n_vocab, s->rig->n_vocab, &d);
        sk_drift_fold(&s->cold, &d);
    }
}

/* Once at the bottom of an empty pool, once above the first run, in smaller pieces and with a gap: as restores lie. */
static int measure_cold_drift(sk_proof_session *s, sk_err *e) {
    sk_proof_session_times unused;
    float *rows = malloc(4 * s->rig->n_vocab * sizeof *rows);
    if (!rows) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for rows of logits");
    float *other = rows + 2 * s->rig->n_vocab;
    int rc = plain_run(s, SK_RIG_LANE, SERVER_CHUNK, 0, rows, &s->times, e);
    if (rc == SKIPPY_OK) rc = plain_run(s, SK_RIG_OTHER, OTHER_CHUNK, TENANT_TOKENS, other, &unused, e);
    if (rc == SKIPPY_OK) fold_cold_rows(s, rows, other);
    sk_context_clear(s->rig->ctx);
    free(rows);
    double tolerance = TOLERANCE_FACTOR * s->cold.max_abs;
    s->criterion = (sk_criterion){.bit = sk_rig_bit(s->rig),
                                  .tolerance = tolerance > LEAST_TOLERANCE ? tolerance : LEAST_TOLERANCE};
    return rc;
}

/* ---- recording ---- */

/* Lengths at which a truncated prefix is tried: near both ends, in the middle, and at the edge of a window. */
static void choose_samples(sk_proof_session *s) {
    const uint32_t n = s->n_prefix, wanted[SK_SESSION_SAMPLES] = {n / 4, n / 2, SK_PARCEL_WINDOW, n - n / 8, n - 1};
    for (size_t i = 0; i < SK_SESSION_SAMPLES; i++) {
        uint32_t p = wanted[i];
        bool ascends = s->n_samples == 0 || p > s->sample[s->n_samples - 1];
        bool leaves_order = p == SK_PARCEL_WINDOW && p >= n - n / 8;
        if (p > 0 && p < n && ascends && !leaves_order) s->sample[s->n_samples++] = p;
    }
}

/* Computes prefix and suffix from nothing; keeps the rows at the samples and after the suffix. */
static int run_cold(sk_proof_session *s, sk_err *e) {
    size_t n_vocab = s->rig->n_vocab;
    uint32_t wanted[SK_SESSION_SAMPLES + 1];
    choose_samples(s);
    s->sample_rows = malloc((s->n_samples + 1) * n_vocab * sizeof *s->sample_rows);
    if (!s->sample_rows) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for rows of logits");
    for (size_t i = 0; i < s->n_samples; i++) wanted[i] = s->sample[i];
    wanted[s->n_samples] = s->n_prefix + SK_TRIAL_SUFFIX - 1;
    int rc = sk_rig_feed(s->rig, SK_RIG_OTHER, s->tokens, s->n_prefix + SK_TRIAL_SUFFIX, wanted, s->n_samples + 1,
                         s->sample_rows, e);
    if (rc) return rc;
    const float *suffix = s->sample_rows + s->n_samples * n_vocab;
    for (size_t i = 0; i < n_vocab; i++) sk_trial_row(&s->recorded, SK_ROW_SUFFIX)[i] = suffix[i];
    if (s->rig->movable)
        rc = sk_parcel_export(s->rig, SK_RIG_OTHER, sk_proof_session_production_kind(s->rig),
                              s->n_prefix + SK_TRIAL_SUFFIX, &s->grown, e);
    sk_context_seq_clear(s->rig->ctx, SK_RIG_OTHER);
    return rc;
}

static int export_parcels(sk_proof_session *s, sk_err *e) {
    if (!s->rig->movable) return SKIPPY_OK;
    uint64_t start = sk_now_ns();
    int rc =
        sk_parcel_export(s->rig, SK_RIG_LANE, sk_proof_session_production_kind(s->rig), s->n_prefix, &s->production, e);
    s->times.export_ms = ms_since(start);
    if (rc == SKIPPY_OK)
        rc = sk_parcel_export(s->rig, SK_RIG_LANE, SKIPPY_PAYLOAD_FULL_STATE, s->n_prefix, &s->full, e);
    if (rc == SKIPPY_OK) rc = sk_rig_state_digest(s->rig, SK_RIG_LANE, &s->recorded.state, &s->recorded.state_bytes, e);
    return rc;
}

static int record(sk_proof_session *s, sk_err *e) {
    static const uint32_t first = 0;
    float *next = sk_trial_row(&s->recorded, SK_ROW_NEXT);
    int rc = sk_rig_feed(s->rig, SK_RIG_LANE, s->tokens, s->n_prefix, NULL, 0, NULL, e);
    if (rc == SKIPPY_OK) rc = export_parcels(s, e);
    if (rc == SKIPPY_OK) rc = sk_context_seq_snapshot(s->rig->ctx, SK_RIG_LANE, SK_RIG_CACHE, e);
    if (rc == SKIPPY_OK) rc = sk_rig_feed(s->rig, SK_RIG_LANE, s->tokens + s->n_prefix, 1, &first, 1, next, e);
    if (rc) return rc;
    return sk_rig_greedy(s->rig, SK_RIG_LANE, next, SK_TRIAL_GREEDY, s->recorded.greedy, s->recorded.lead,
                         sk_trial_row(&s->recorded, SK_ROW_LAST), e);
}

int sk_proof_session_open(sk_rig *r, const sk_proof_session_params *p, sk_proof_session *out, sk_err *e) {
    *out = (sk_proof_session){.rig = r, .ns = *p->ns, .tokens = p->tokens, .n_prefix = p->n_prefix};
    int rc = sk_trial_init(&out->recorded, r->n_vocab, 0, e);
    if (rc == SKIPPY_OK) rc = measure_cold_drift(out, e);
    if (rc == SKIPPY_OK) rc = run_cold(out, e);
    if (rc == SKIPPY_OK) rc = record(out, e);
    if (rc) sk_proof_session_close(out);
    return rc;
}

void sk_proof_session_close(sk_proof_session *s) {
    if (s->rig) sk_context_clear(s->rig->ctx);
    sk_trial_free(&s->recorded);
    sk_parcel_free(&s->production);
    sk_parcel_free(&s->full);
    sk_parcel_free(&s->grown);
    free(s->sample_rows);
    *s = (sk_proof_session){0};
}
