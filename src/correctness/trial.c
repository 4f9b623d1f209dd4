#include "correctness/trial.h"

#include <stdlib.h>

#include "base/clock.h"

static double ms_since(uint64_t start_ns) {
    return (double)(sk_now_ns() - start_ns) / 1e6;
}

int sk_trial_init(sk_trial *t, size_t n_vocab, uint32_t repeats, sk_err *e) {
    *t = (sk_trial){.n_vocab = n_vocab, .repeats = repeats};
    if (repeats > SK_TRIAL_MAX_REPEATS)
        return sk_err_set(e, SKIPPY_E_INVALID, "%u repeated hits; at most %d", repeats, SK_TRIAL_MAX_REPEATS);
    t->rows = calloc((SK_ROW_HITS + (size_t)repeats) * n_vocab, sizeof *t->rows);
    return t->rows ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for rows of logits");
}

void sk_trial_free(sk_trial *t) {
    free(t->rows);
    *t = (sk_trial){0};
}

float *sk_trial_row(const sk_trial *t, size_t row) {
    return t->rows + row * t->n_vocab;
}

static int restore_timed(sk_rig *r, sk_restore_fn restore, void *ud, double *ms, sk_err *e) {
    sk_context_seq_clear(r->ctx, SK_RIG_OTHER);
    uint64_t start = sk_now_ns();
    int rc = restore(ud, r, SK_RIG_OTHER, e);
    *ms = ms_since(start);
    return rc;
}

static int next_row(sk_rig *r, int32_t token, float *out, double *ms, sk_err *e) {
    static const uint32_t first = 0;
    uint64_t start = sk_now_ns();
    int rc = sk_rig_feed(r, SK_RIG_OTHER, &token, 1, &first, 1, out, e);
    *ms = ms_since(start);
    return rc;
}

static int first_restore(sk_trial *t, sk_rig *r, sk_restore_fn restore, void *ud, int32_t token, sk_err *e) {
    int rc = restore_timed(r, restore, ud, &t->import_ms[0], e);
    if (rc == SKIPPY_OK && r->movable) {
        uint64_t start = sk_now_ns();
        rc = sk_rig_state_digest(r, SK_RIG_OTHER, &t->state, &t->state_bytes, e);
        t->export_ms = ms_since(start);
    }
    if (rc == SKIPPY_OK) rc = next_row(r, token, sk_trial_row(t, SK_ROW_NEXT), &t->decode_ms[0], e);
    if (rc) return rc;
    return sk_rig_greedy(r, SK_RIG_OTHER, sk_trial_row(t, SK_ROW_NEXT), SK_TRIAL_GREEDY, t->greedy, t->lead,
                         sk_trial_row(t, SK_ROW_LAST), e);
}

int sk_trial_run(sk_trial *t, sk_rig *r, sk_restore_fn restore, void *ud, const int32_t *tokens, uint32_t n_prefix,
                 sk_err *e) {
    static const uint32_t last = SK_TRIAL_SUFFIX - 1;
    double unused = 0.0;
    int rc = first_restore(t, r, restore, ud, tokens[n_prefix], e);
    for (uint32_t i = 0; rc == SKIPPY_OK && i < t->repeats; i++) {
        rc = restore_timed(r, restore, ud, &t->import_ms[1 + i], e);
        if (rc == SKIPPY_OK)
            rc = next_row(r, tokens[n_prefix], sk_trial_row(t, SK_ROW_HITS + i), &t->decode_ms[1 + i], e);
    }
    if (rc == SKIPPY_OK) rc = restore_timed(r, restore, ud, &unused, e);
    if (rc == SKIPPY_OK)
        rc = sk_rig_feed(r, SK_RIG_OTHER, tokens + n_prefix, SK_TRIAL_SUFFIX, &last, 1, sk_trial_row(t, SK_ROW_SUFFIX),
                         e);
    sk_context_seq_clear(r->ctx, SK_RIG_OTHER);
    return rc;
}
