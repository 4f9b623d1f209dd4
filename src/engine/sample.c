/* From logits to the client: sampling, text, stop conditions, the end of a request. */
#include <string.h>

#include "base/clock.h"
#include "engine/internal.h"

static void close_timings(sk_engine *en, sk_job *j) {
    uint64_t now = sk_now_ns();
    if (!j->t_admit) j->t_admit = now; /* it never had a lane to itself */
    if (!j->t_first) j->t_first = now;
    j->stats.predicted_n = j->n_generated;
    j->stats.prompt_ms = (double)(j->t_first - j->t_admit) / 1e6;
    j->stats.predicted_ms = (double)(now - j->t_first) / 1e6;
    if (!j->cancelled) sk_hist_add(&en->st.prompt_ms, j->stats.prompt_ms);
}

void sk_lane_done(sk_engine *en, sk_lane *l, enum sk_finish finish) {
    sk_job *j = l->job;
    if (j->is_shadow) {
        sk_lane_finish(en, l, false);
        return;
    }
    close_timings(en, j);
    if (finish != SK_FINISH_WORD) {
        size_t k = sk_text_flush(&j->text);
        if (k) sk_job_send_text(j, k, NULL);
    }
    en->st.completed++;
    sk_stats_publish(en); /* whoever asks after the last event finds this request counted */
    sk_job_send_done(j, finish);
    sk_lane_finish(en, l, true);
}

void sk_lane_fail(sk_engine *en, sk_lane *l, int code, const char *text) {
    sk_job *j = l->job;
    if (j->is_shadow) {
        sk_shadow_drop(&en->shadow);
        sk_lane_finish(en, l, false);
        return;
    }
    close_timings(en, j);
    if (code == SKIPPY_E_CANCELLED)
        en->st.cancelled++;
    else
        en->st.failed++;
    sk_stats_publish(en);
    sk_job_send_error(j, code, text);
    /* what was computed is right whoever asked for it, and the client may come again */
    sk_lane_finish(en, l, code == SKIPPY_E_CANCELLED || code == SKIPPY_E_TIMEOUT);
}

static void note_time(sk_engine *en, sk_job *j) {
    uint64_t now = sk_now_ns();
    if (j->n_generated == 0) {
        j->t_first = now;
        j->stats.first_token_ms = (double)(now - j->t_submit) / 1e6;
        sk_hist_add(&en->st.first_token_ms, j->stats.first_token_ms);
    } else {
        sk_hist_add(&en->st.token_ms, (double)(now - j->t_last) / 1e6);
    }
    j->t_last = now;
}

/* Sends the token's text. Returns true when a stop string is complete. */
static bool emit(sk_engine *en, sk_job *j, const sk_gen_token *tok, bool silent) {
    char piece[512];
    bool special = j->keep_special || sk_job_preserves(j, tok->token);
    size_t len = silent ? 0 : sk_model_piece(en->model, tok->token, special, piece, sizeof piece);
    size_t ready = sk_text_push(&j->text, piece, len);
    sk_job_send_text(j, ready, tok);
    return j->text.hit != NULL;
}

/* The sampler's answer: the token goes to the client, or the request ends. */
static void take_token(sk_engine *en, sk_lane *l, sk_gen_token *tok, int rc, sk_err *err) {
    sk_job *j = l->job;
    note_time(en, j);
    if (rc == SKIPPY_OK && !sk_job_append(j, tok->token)) rc = sk_err_set(err, SKIPPY_E_NOMEM, "out of memory");
    if (rc) {
        sk_lane_fail(en, l, rc, err->text);
        return;
    }
    en->st.tokens_generated++;
    bool eog = sk_model_is_eog(en->model, tok->token);
    bool stop = emit(en, j, tok, eog && !j->keep_special);
    if (stop)
        sk_lane_done(en, l, SK_FINISH_WORD);
    else if (eog)
        sk_lane_done(en, l, SK_FINISH_STOP);
    else if (j->n_predict > 0 && j->n_generated >= (size_t)j->n_predict)
        sk_lane_done(en, l, SK_FINISH_LIMIT);
    else if (j->n_tokens >= sk_context_get_info(en->ctx)->n_ctx)
        sk_lane_done(en, l, SK_FINISH_CONTEXT);
}

void sk_lane_sample(sk_engine *en, sk_lane *l, const float *logits) {
    sk_job *j = l->job;
    l->state = SK_LANE_DECODE;
    if (j->n_predict == 0) {
        sk_lane_done(en, l, SK_FINISH_LIMIT);
        return;
    }
    sk_err err = {0};
    sk_gen_token tok = {.top = j->top};
    int rc =
        sk_sampler_sample(j->sampler, logits, &tok.token, j->n_probs ? &tok.chosen : NULL, j->top, &tok.n_top, &err);
    take_token(en, l, &tok, rc, &err);
}

void sk_lane_sample_best(sk_engine *en, sk_lane *l, const int32_t *tokens, const float *logits, size_t n,
                         bool complete) {
    sk_job *j = l->job;
    sk_err err = {0};
    sk_gen_token tok = {.top = j->top};
    int rc = sk_sampler_sample_best(j->sampler, tokens, logits, n, complete, &tok.token);
    if (rc == SKIPPY_E_NOT_FOUND) { /* from now on with whole rows */
        j->whole_rows = true;
        sk_err_set(&err, rc, "the request's biases leave none of the most likely tokens");
        sk_lane_restart(en, l, &err);
        return;
    }
    l->state = SK_LANE_DECODE;
    take_token(en, l, &tok, rc, &err);
}
