/* Restores that the rules of production must refuse, or may grant only where they are exact. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "correctness/internal.h"

/* A forced restore counts as wrong when it is clearly further from the recorded row than cold runs are. */
static const double CLEARLY_WRONG = 1e-3;

/* Shallow copies with fewer parts; they own nothing. */
static sk_parcel select_parts(const sk_parcel *from, bool kv) {
    sk_parcel out = {.kind = from->kind, .n_tokens = from->n_tokens};
    for (size_t i = 0; i < from->n_parts; i++)
        if ((from->part[i].kind == SKIPPY_PART_KV) == kv) out.part[out.n_parts++] = from->part[i];
    return out;
}

static sk_parcel drop_parts_beyond(const sk_parcel *from, uint32_t n_tokens) {
    sk_parcel out = {.kind = from->kind, .n_tokens = n_tokens};
    for (size_t i = 0; i < from->n_parts; i++)
        if (from->part[i].kind != SKIPPY_PART_KV || from->part[i].from < n_tokens)
            out.part[out.n_parts++] = from->part[i];
    return out;
}

static int decode_next(sk_proof_session *s, uint32_t position, float *row, sk_err *e) {
    static const uint32_t first = 0;
    return sk_rig_feed(s->rig, SK_RIG_OTHER, s->tokens + position, 1, &first, 1, row, e);
}

static void set(sk_mode_result *out, enum sk_outcome outcome, const char *reason) {
    out->outcome = outcome;
    snprintf(out->reason, sizeof out->reason, "%s", reason);
}

/* ---- recurrent state alone ---- */

int sk_handoff_recurrent_only(sk_proof_session *s, const sk_handoff_params *p, sk_mode_result *out, sk_err *e) {
    sk_err why = {0};
    if (!s->rig->caps.windows) {
        set(out, SK_OUTCOME_NOT_APPLICABLE, "the state's layout cannot be read, so it has no parts");
        return SKIPPY_OK;
    }
    if (!s->rig->caps.has_kv) return sk_handoff_payload(s, p, &s->production, out, e);
    sk_parcel parcel = select_parts(&s->production, false);
    int rc = sk_parcel_import(&parcel, s->rig, SK_RIG_OTHER, s->n_prefix, &why);
    sk_context_seq_clear(s->rig->ctx, SK_RIG_OTHER);
    if (sk_handoff_is_breakdown(rc)) return sk_err_set(e, rc, "%s", why.text);
    if (rc == SKIPPY_OK)
        set(out, SK_OUTCOME_FAIL, "recurrent state without its keys and values was accepted");
    else
        snprintf(out->reason, sizeof out->reason, "refused: %.300s", why.text), out->outcome = SK_OUTCOME_REFUSED;
    return SKIPPY_OK;
}

/* ---- keys and values alone ---- */

static void judge_forced(const sk_proof_session *s, sk_mode_result *out, const char *refusal) {
    const sk_drift *f = &out->forced;
    if (f->rel_l2 > CLEARLY_WRONG && f->rel_l2 > 2.0 * s->cold.rel_l2) {
        out->outcome = SK_OUTCOME_REFUSED;
        snprintf(out->reason, sizeof out->reason, "refused: %.160s; forced, the next row is off by %.2g of its length",
                 refusal, f->rel_l2);
        return;
    }
    out->outcome = SK_OUTCOME_FAIL;
    snprintf(out->reason, sizeof out->reason,
             "refused, but forcing it changed the next row by only %.2g of its length: this prompt cannot show that "
             "state is missing",
             f->rel_l2);
}

static int force(sk_proof_session *s, const sk_parcel *kv, sk_mode_result *out, const char *refusal, sk_err *e) {
    sk_err why = {0};
    sk_parcel forced = *kv;
    float *row = malloc(s->rig->n_vocab * sizeof *row);
    if (!row) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a row of logits");
    forced.forced = true;
    int rc = sk_parcel_import(&forced, s->rig, SK_RIG_OTHER, s->n_prefix, &why);
    if (rc == SKIPPY_OK) rc = decode_next(s, s->n_prefix, row, &why);
    if (rc == SKIPPY_OK) {
        out->was_forced = true;
        sk_drift_measure(sk_trial_row(&s->recorded, SK_ROW_NEXT), row, s->rig->n_vocab, &out->forced);
        judge_forced(s, out, refusal);
    } else if (!sk_handoff_is_breakdown(rc)) {
        out->outcome = SK_OUTCOME_REFUSED;
        snprintf(out->reason, sizeof out->reason, "refused: %.130s; forced, decoding is refused: %.130s", refusal,
                 why.text);
        rc = SKIPPY_OK;
    } else {
        sk_err_set(e, rc, "%s", why.text);
    }
    sk_context_seq_clear(s->rig->ctx, SK_RIG_OTHER);
    free(row);
    return rc;
}

int sk_handoff_kv_only(sk_proof_session *s, sk_mode_result *out, sk_err *e) {
    sk_err why = {0};
    const sk_state_caps *caps = &s->rig->caps;
    if (!caps->has_kv || !caps->has_tail || !caps->windows) {
        set(out, SK_OUTCOME_NOT_APPLICABLE,
            !caps->has_kv     ? "the model has no keys and values"
            : !caps->has_tail ? "keys and values are the model's whole state"
                              : "the state's layout cannot be read, so it has no parts");
        return SKIPPY_OK;
    }
    sk_parcel kv = select_parts(&s->production, true);
    int rc = sk_parcel_import(&kv, s->rig, SK_RIG_OTHER, s->n_prefix, &why);
    sk_context_seq_clear(s->rig->ctx, SK_RIG_OTHER);
    if (rc == SKIPPY_OK) {
        set(out, SK_OUTCOME_FAIL, "keys and values without the state that belongs to them were accepted");
        return SKIPPY_OK;
    }
    if (sk_handoff_is_breakdown(rc)) return sk_err_set(e, rc, "%s", why.text);
    return force(s, &kv, out, why.text, e);
}

/* ---- shorter lengths ---- */

/* One restore of length p was granted: is it exact? Clears the sequence. */
static int judge_sample(sk_proof_session *s, size_t i, const char *source, float *row, sk_mode_result *out, sk_err *e) {
    sk_drift d;
    sk_err why = {0};
    int rc = decode_next(s, s->sample[i], row, &why);
    sk_context_seq_clear(s->rig->ctx, SK_RIG_OTHER);
    if (sk_handoff_is_breakdown(rc)) return sk_err_set(e, rc, "%s", why.text);
    if (rc) {
        out->outcome = SK_OUTCOME_FAIL;
        snprintf(out->reason, sizeof out->reason, "%u of %u tokens from the %s: %.200s", s->sample[i], s->n_prefix,
                 source, why.text);
        return SKIPPY_OK;
    }
    sk_drift_measure(s->sample_rows + i * s->rig->n_vocab, row, s->rig->n_vocab, &d);
    if (sk_criterion_allows(&s->criterion, &d)) {
        out->exact++;
        return SKIPPY_OK;
    }
    out->outcome = SK_OUTCOME_FAIL;
    snprintf(out->reason, sizeof out->reason, "%u of %u tokens from the %s: the next row is off by %.2g of its length",
             s->sample[i], s->n_prefix, source, d.rel_l2);
    return SKIPPY_OK;
}

/* rc: of the restore. must: this memory can be cut anywhere, so a refusal is a failure. never: a grant is one. */
static int judge_restore(sk_proof_session *s, size_t i, const char *source, int rc, const sk_err *why, bool must,
                         bool never, float *row, sk_mode_result *out, sk_err *e) {
    out->tried++;
    if (sk_handoff_is_breakdown(rc)) return sk_err_set(e, rc, "%s", why->text);
    if (rc == SKIPPY_OK && !never) return judge_sample(s, i, source, row, out, e);
    sk_context_seq_clear(s->rig->ctx, SK_RIG_OTHER);
    if (rc != SKIPPY_OK && !must) {
        out->refused++;
        return SKIPPY_OK;
    }
    out->outcome = SK_OUTCOME_FAIL;
    snprintf(out->reason, sizeof out->reason, "%u of %u tokens from the %s: %.200s", s->sample[i], s->n_prefix, source,
             rc == SKIPPY_OK ? "granted, though this state cannot be cut" : why->text);
    return SKIPPY_OK;
}

static int try_sample(sk_proof_session *s, size_t i, float *row, sk_mode_result *out, sk_err *e) {
    const sk_context_info *info = sk_context_get_info(s->rig->ctx);
    const sk_state_caps *caps = &s->rig->caps;
    sk_err why = {0};
    int rc = sk_context_seq_copy(s->rig->ctx, SK_RIG_CACHE, SK_RIG_OTHER, s->sample[i], &why);
    rc = judge_restore(s, i, "snapshot", rc, &why, !info->recurrent && info->n_swa == 0, info->recurrent, row, out, e);
    if (rc || !s->rig->movable) return rc;
    sk_parcel shorter = drop_parts_beyond(&s->production, s->sample[i]);
    rc = sk_parcel_import(&shorter, s->rig, SK_RIG_OTHER, s->sample[i], &why);
    bool whole_only = caps->has_tail || !caps->windows;
    return judge_restore(s, i, "payload", rc, &why, !whole_only, whole_only, row, out, e);
}

int sk_handoff_truncated(sk_proof_session *s, sk_mode_result *out, sk_err *e) {
    float *row = malloc(s->rig->n_vocab * sizeof *row);
    if (!row) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a row of logits");
    int rc = SKIPPY_OK;
    for (size_t i = 0; rc == SKIPPY_OK && i < s->n_samples; i++) rc = try_sample(s, i, row, out, e);
    free(row);
    if (rc || out->outcome == SK_OUTCOME_FAIL) return rc;
    out->outcome = out->exact ? SK_OUTCOME_PASS : SK_OUTCOME_REFUSED;
    snprintf(out->reason, sizeof out->reason, "%u restores of %zu shorter lengths: %u exact, %u refused", out->tried,
             s->n_samples, out->exact, out->refused);
    return SKIPPY_OK;
}
