#include "correctness/handoff.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "correctness/internal.h"
#include "correctness/worker.h"

static const char *const mode_names[SK_MODES] = {"resident",     "resident-kv",      "full-state", "recurrent-only",
                                                 "kv-recurrent", "truncated-prefix", "kv-only"};

const char *sk_mode_name(enum sk_mode m) {
    return mode_names[m];
}

const char *sk_outcome_name(enum sk_outcome o) {
    static const char *const names[] = {"not-applicable", "pass", "refused", "fail"};
    return names[o];
}

const char *sk_target_name(enum sk_target t) {
    static const char *const names[] = {"fresh-lane", "fresh-context", "fresh-process"};
    return names[t];
}

void sk_mode_result_free(sk_mode_result *r) {
    free(r->blocks);
    *r = (sk_mode_result){0};
}

/* Errors that say nothing about the model. */
bool sk_handoff_is_breakdown(int rc) {
    return rc == SKIPPY_E_NOMEM || rc == SKIPPY_E_IO || rc == SKIPPY_E_CANCELLED;
}

/* ---- one target ---- */

static int restore_resident(void *ud, sk_rig *r, uint32_t seq, sk_err *e) {
    const sk_proof_session *s = ud;
    return sk_context_seq_copy(r->ctx, SK_RIG_CACHE, seq, s->n_prefix, e);
}

static int restore_parcel(void *ud, sk_rig *r, uint32_t seq, sk_err *e) {
    const sk_parcel *p = ud;
    return sk_parcel_import(p, r, seq, p->n_tokens, e);
}

static int run_in_fresh_context(sk_proof_session *s, const sk_handoff_params *p, sk_parcel *parcel, sk_trial *t,
                                sk_err *e) {
    sk_rig fresh = {0};
    int rc = sk_rig_open(s->rig->model, p->rig, &s->rig->rows, &fresh, e);
    if (rc) return rc;
    if (!skippy_key_equal(&fresh.caps.layout, &s->rig->caps.layout))
        rc = sk_err_set(e, SKIPPY_E_CORRUPT, "the fresh context learned another state layout");
    if (rc == SKIPPY_OK) rc = sk_trial_run(t, &fresh, restore_parcel, parcel, s->tokens, s->n_prefix, e);
    sk_rig_close(&fresh);
    return rc;
}

static int run_in_fresh_process(sk_proof_session *s, const sk_handoff_params *p, const sk_parcel *parcel, sk_trial *t,
                                sk_err *e) {
    const sk_worker_request q = {.model_path = p->model_path,
                                 .n_gpu_layers = p->n_gpu_layers,
                                 .rig = *p->rig,
                                 .rows = s->rig->rows,
                                 .layout = s->rig->caps.layout,
                                 .tokens = s->tokens,
                                 .n_prefix = s->n_prefix,
                                 .repeats = p->repeats,
                                 .parcel = parcel};
    return sk_worker_run(p->worker_argv, &q, p->worker_timeout_ms, t, e);
}

static int run_trial(sk_proof_session *s, const sk_handoff_params *p, enum sk_target target, sk_parcel *parcel,
                     sk_trial *t, sk_err *e) {
    switch (target) {
    case SK_TARGET_CONTEXT: return run_in_fresh_context(s, p, parcel, t, e);
    case SK_TARGET_PROCESS: return run_in_fresh_process(s, p, parcel, t, e);
    default: break;
    }
    if (parcel) return sk_trial_run(t, s->rig, restore_parcel, parcel, s->tokens, s->n_prefix, e);
    return sk_trial_run(t, s->rig, restore_resident, s, s->tokens, s->n_prefix, e);
}

/* parcel NULL: the resident snapshot. */
static int try_target(sk_proof_session *s, const sk_handoff_params *p, enum sk_target target, sk_parcel *parcel,
                      sk_target_result *out, sk_err *e) {
    sk_trial t;
    sk_err why = {0};
    int rc = sk_trial_init(&t, s->rig->n_vocab, p->repeats, e);
    if (rc == SKIPPY_OK) {
        rc = run_trial(s, p, target, parcel, &t, &why);
        if (sk_handoff_is_breakdown(rc)) {
            sk_err_set(e, rc, "%s", why.text);
        } else if (rc) {
            snprintf(out->error, sizeof out->error, "%.255s", why.text);
            rc = SKIPPY_OK;
        } else {
            sk_check_compare(&s->recorded, &t, &s->criterion, &out->check);
            out->export_ms = t.export_ms;
            out->state_bytes = t.state_bytes;
            out->repeats = t.repeats;
            for (uint32_t i = 0; i <= t.repeats; i++)
                out->import_ms[i] = t.import_ms[i], out->decode_ms[i] = t.decode_ms[i];
        }
    }
    sk_trial_free(&t);
    return rc;
}

/* ---- verdicts over targets ---- */

static void judge_targets(const sk_proof_session *s, sk_mode_result *out, size_t n_targets) {
    char words[160];
    out->outcome = SK_OUTCOME_PASS;
    for (size_t i = 0; i < n_targets; i++) {
        const sk_target_result *t = &out->target[i];
        if (sk_check_passed(&t->check, &s->criterion)) continue;
        sk_check_complaint(&t->check, &s->criterion, words, sizeof words);
        out->outcome = SK_OUTCOME_FAIL;
        if (t->error[0])
            snprintf(out->reason, sizeof out->reason, "%s: %s", sk_target_name((enum sk_target)i), t->error);
        else
            snprintf(out->reason, sizeof out->reason, "%s: other than recorded: %s", sk_target_name((enum sk_target)i),
                     words);
        return;
    }
    snprintf(out->reason, sizeof out->reason, "%s",
             s->criterion.bit ? "every row of output has the recorded bits"
                              : "state bytes are equal; rows of output differ less than those of cold runs can");
}

static int run_resident(sk_proof_session *s, const sk_handoff_params *p, sk_mode_result *out, sk_err *e) {
    int rc = try_target(s, p, SK_TARGET_LANE, NULL, &out->target[SK_TARGET_LANE], e);
    if (rc == SKIPPY_OK) judge_targets(s, out, 1);
    return rc;
}

/* ---- payloads ---- */

/* High bytes at the end of a part are a sign or an exponent: the value changes grossly. */
static void damage(sk_parcel *p, enum sk_fault fault) {
    if (fault == SK_FAULT_DROP_STATE) {
        sk_parcel_keep(p, true);
        p->forced = true;
    }
    for (size_t i = 0; fault == SK_FAULT_FLIP_BYTE && i < p->n_parts; i++)
        if (p->blob[i].len) p->blob[i].data[p->blob[i].len - 1] ^= 0x40;
}

/* The payload 16 tokens later goes into the same store: what of it is new? */
static int measure_growth(sk_proof_session *s, skippy_ram_store *store, sk_parcel_cost *cost, sk_err *e) {
    skippy_store_stats before, after;
    sk_parcel_cost grown = {0};
    uint64_t id = 0;
    skippy_ram_get_stats(store, &before);
    int rc = sk_parcel_put(&s->grown, store, &s->ns, &s->rig->caps.layout, s->tokens, &id, &grown, NULL, 0, e);
    skippy_ram_get_stats(store, &after);
    cost->grown_bytes = grown.total_bytes;
    cost->grown_new_bytes = after.block_bytes - before.block_bytes;
    return rc;
}

/* Through the block store and back. */
static int pass_through_store(sk_proof_session *s, const sk_parcel *parcel, sk_mode_result *out, sk_parcel *back,
                              sk_err *e) {
    const skippy_ram_params rp = {.max_bytes = UINT64_C(1) << 40}; /* the store takes what it needs, not what it may */
    skippy_ram_store *store = NULL;
    uint64_t id = 0;
    out->blocks = calloc(SK_HANDOFF_MAX_BLOCKS, sizeof *out->blocks);
    int rc = out->blocks ? skippy_ram_create(NULL, &rp, &store) : SKIPPY_E_NOMEM;
    if (rc) return sk_err_set(e, rc, "no block store can be made: %s", skippy_strerror(rc));
    out->has_cost = true;
    out->cost.export_ms = s->times.export_ms;
    rc = sk_parcel_put(parcel, store, &s->ns, &s->rig->caps.layout, s->tokens, &id, &out->cost, out->blocks,
                       SK_HANDOFF_MAX_BLOCKS, e);
    out->n_blocks = out->cost.blocks < SK_HANDOFF_MAX_BLOCKS ? (size_t)out->cost.blocks : SK_HANDOFF_MAX_BLOCKS;
    uint64_t start = sk_now_ns();
    if (rc == SKIPPY_OK) rc = sk_parcel_fetch(store, id, back, e);
    out->cost.read_ms = (double)(sk_now_ns() - start) / 1e6;
    if (rc == SKIPPY_OK && parcel->kind == s->grown.kind) rc = measure_growth(s, store, &out->cost, e);
    skippy_ram_destroy(store);
    return rc;
}

int sk_handoff_payload(sk_proof_session *s, const sk_handoff_params *p, const sk_parcel *parcel, sk_mode_result *out,
                       sk_err *e) {
    sk_parcel back = {0};
    int rc = pass_through_store(s, parcel, out, &back, e);
    if (rc == SKIPPY_OK) damage(&back, p->fault);
    for (int t = SK_TARGET_LANE; rc == SKIPPY_OK && t < SK_TARGETS; t++)
        rc = try_target(s, p, (enum sk_target)t, &back, &out->target[t], e);
    if (rc == SKIPPY_OK) judge_targets(s, out, SK_TARGETS);
    sk_parcel_free(&back);
    return rc;
}

/* ---- which mode means what for this model ---- */

static void does_not_apply(sk_mode_result *out, const char *why) {
    out->outcome = SK_OUTCOME_NOT_APPLICABLE;
    snprintf(out->reason, sizeof out->reason, "%s", why);
}

int sk_handoff_run(sk_proof_session *s, const sk_handoff_params *p, enum sk_mode mode, sk_mode_result *out, sk_err *e) {
    bool recurrent = sk_context_get_info(s->rig->ctx)->recurrent;
    *out = (sk_mode_result){.mode = mode};
    if (mode == SK_MODE_RESIDENT) return run_resident(s, p, out, e);
    if (mode == SK_MODE_TRUNCATED) return sk_handoff_truncated(s, out, e);
    if (!s->rig->movable) {
        does_not_apply(out, s->rig->why_not_movable);
        return SKIPPY_OK;
    }
    switch (mode) {
    case SK_MODE_RESIDENT_KV:
        if (!recurrent) return sk_handoff_payload(s, p, &s->production, out, e);
        does_not_apply(out, "the model has recurrent state: its payload is kv-recurrent");
        break;
    case SK_MODE_KV_RECURRENT:
        if (recurrent) return sk_handoff_payload(s, p, &s->production, out, e);
        does_not_apply(out, "the model has no recurrent state: its payload is resident-kv");
        break;
    case SK_MODE_FULL_STATE: return sk_handoff_payload(s, p, &s->full, out, e);
    case SK_MODE_RECURRENT_ONLY:
        if (recurrent) return sk_handoff_recurrent_only(s, p, out, e);
        does_not_apply(out, "the model has no recurrent state");
        break;
    default: return sk_handoff_kv_only(s, out, e);
    }
    return SKIPPY_OK;
}
