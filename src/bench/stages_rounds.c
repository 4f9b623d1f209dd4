#include "bench/stages_rounds.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/interrupt.h"
#include "bench/prompts.h"
#include "bench/race.h"

/* The threads of a parallel region go on spinning for some milliseconds after its end. */
enum { SETTLE_MS = 60 };

/* Different parts send different prompts, so that none finds what another one left. */
enum text_of { TEXT_OVERHEAD, TEXT_LANES, TEXT_RIVALS, TEXT_FILL };

static void settle(void) {
    const struct timespec t = {.tv_nsec = SETTLE_MS * 1000000L};
    nanosleep(&t, NULL);
}

static int make_text(const sk_stages_options *o, sk_fleet *f, enum text_of what, size_t i, sk_buf *text, sk_err *e) {
    sk_prompts prompts;
    sk_prompts_init(&prompts, sk_endpoint_tokenize, &f->ep);
    sk_buf_clear(text);
    return sk_prompts_text(&prompts, o->seed * UINT64_C(1000003) + (uint64_t)what * 100000u + i, o->prompt_tokens, text,
                           e);
}

static int ask(sk_fleet *f, const char *text, size_t n_predict, sk_reply *r, sk_err *e) {
    if (sk_interrupted()) return sk_err_set(e, SKIPPY_E_CANCELLED, "interrupted");
    settle();
    const int rc = sk_endpoint_complete(&f->ep, text, n_predict, r, e);
    return rc == SKIPPY_OK ? rc : sk_fleet_explain(f, e);
}

/* answer (may be NULL) receives the text of the long answer, malloc'ed. */
static int visit(const sk_stages_options *o, sk_fleet *f, const char *text, sk_stages_visit *v, char **answer,
                 sk_err *e) {
    sk_reply r[3] = {{0}};
    int rc = ask(f, text, 1, &r[0], e);
    if (rc == SKIPPY_OK) rc = ask(f, text, 1, &r[1], e);
    if (rc == SKIPPY_OK) rc = ask(f, text, 1 + o->predict, &r[2], e);
    if (rc == SKIPPY_OK && r[2].predicted_n != 1 + o->predict)
        rc = sk_err_set(e, SKIPPY_E_CORRUPT, "a server generated %zu tokens instead of %zu", r[2].predicted_n,
                        1 + o->predict);
    if (rc == SKIPPY_OK && r[2].ms <= r[1].ms)
        rc = sk_err_set(e, SKIPPY_E_CORRUPT, "%zu more tokens took no time (%.3f ms after %.3f ms)", o->predict,
                        r[2].ms, r[1].ms);
    *v = (sk_stages_visit){.cold_ms = r[0].ms,
                           .warm_ms = r[1].ms,
                           .long_ms = r[2].ms,
                           .warm_compute_ms = r[1].stage_compute_ms,
                           .long_compute_ms = r[2].stage_compute_ms,
                           .warm_cached = r[1].cache_n};
    if (rc == SKIPPY_OK && answer) {
        *answer = r[2].text;
        r[2].text = NULL;
    }
    for (size_t i = 0; i < 3; i++) sk_reply_free(&r[i]);
    return rc;
}

static int no_memory(sk_err *e) {
    return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the rounds");
}

int sk_stages_overhead_run(const sk_stages_options *o, sk_fleet *f, sk_stages_visit **out, size_t *n, sk_err *e) {
    sk_buf text = {0};
    *n = 0;
    *out = calloc(o->runs, sizeof **out);
    int rc = *out ? SKIPPY_OK : no_memory(e);
    for (size_t i = 0; rc == SKIPPY_OK && i < SK_STAGES_WARM_UPS + o->runs; i++) {
        sk_stages_visit v = {0};
        rc = make_text(o, f, TEXT_OVERHEAD, i, &text, e);
        if (rc == SKIPPY_OK) rc = visit(o, f, text.data, &v, NULL, e);
        if (rc == SKIPPY_OK && v.long_compute_ms <= 0.0)
            rc = sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                            "the server does not say what its stages computed (timings.stage_compute_ms)");
        if (rc == SKIPPY_OK && i >= SK_STAGES_WARM_UPS) (*out)[(*n)++] = v;
    }
    sk_buf_free(&text);
    return rc;
}

/* ---- lanes ---- */

static int alone(sk_racer *r, double *ms, sk_err *e) {
    settle();
    return sk_race_run(r, 1, ms, e);
}

static int together(sk_racer r[2], double *ms, sk_err *e) {
    settle();
    return sk_race_run(r, 2, ms, e);
}

/* Stores both prompts; then one after the other and together, in changing order. */
static int lanes_round(const sk_stages_options *o, sk_fleet *f, size_t i, sk_racer r[2], sk_stages_lanes_round *out,
                       sk_err *e) {
    sk_buf text = {0};
    int rc = SKIPPY_OK;
    for (size_t k = 0; rc == SKIPPY_OK && k < 2; k++) {
        sk_reply reply = {0};
        rc = make_text(o, f, TEXT_LANES, 2 * i + k, &text, e);
        if (rc == SKIPPY_OK) rc = sk_conversation_replace(&r[k].prompt, text.data, e);
        if (rc == SKIPPY_OK) rc = ask(f, text.data, 1, &reply, e);
        sk_reply_free(&reply);
    }
    sk_buf_free(&text);
    if (rc == SKIPPY_OK && i % 2) rc = together(r, &out->together_ms, e);
    if (rc == SKIPPY_OK) rc = alone(&r[0], &out->first_ms, e);
    if (rc == SKIPPY_OK) rc = alone(&r[1], &out->second_ms, e);
    if (rc == SKIPPY_OK && i % 2 == 0) rc = together(r, &out->together_ms, e);
    return rc == SKIPPY_OK ? rc : sk_fleet_explain(f, e);
}

int sk_stages_lanes_run(const sk_stages_options *o, sk_fleet *f, sk_stages_lanes_round **out, size_t *n, sk_err *e) {
    sk_racer racers[2];
    *n = 0;
    *out = calloc(o->runs, sizeof **out);
    int rc = *out ? SKIPPY_OK : no_memory(e);
    for (size_t k = 0; k < 2; k++) {
        sk_racer_init(&racers[k], f->port, o->timeout_s * 1000, 1 + o->predict);
        const int made = sk_conversation_init(&racers[k].prompt, false, e);
        rc = rc == SKIPPY_OK ? made : rc;
    }
    for (size_t i = 0; rc == SKIPPY_OK && i < SK_STAGES_WARM_UPS + o->runs; i++) {
        sk_stages_lanes_round round = {0};
        rc = lanes_round(o, f, i, racers, &round, e);
        if (rc == SKIPPY_OK && i >= SK_STAGES_WARM_UPS) (*out)[(*n)++] = round;
    }
    for (size_t k = 0; k < 2; k++) sk_racer_free(&racers[k]);
    return rc;
}

/* ---- rivals ---- */

static int same_tokens(sk_fleet f[SK_STAGES_SERVERS], const char *text, sk_err *e) {
    int32_t *ids[SK_STAGES_SERVERS] = {NULL};
    size_t n[SK_STAGES_SERVERS] = {0};
    int rc = SKIPPY_OK;
    for (size_t s = 0; rc == SKIPPY_OK && s < SK_STAGES_SERVERS; s++)
        rc = sk_endpoint_tokenize(&f[s].ep, text, strlen(text), &ids[s], &n[s], e);
    if (rc == SKIPPY_OK && (n[0] != n[1] || memcmp(ids[0], ids[1], n[0] * sizeof *ids[0]) != 0))
        rc = sk_err_set(e, SKIPPY_E_INVALID, "llama-server makes other tokens of a prompt than skippy (%zu and %zu)",
                        n[1], n[0]);
    for (size_t s = 0; s < SK_STAGES_SERVERS; s++) free(ids[s]);
    return rc;
}

/* Who goes first changes, so that neither always follows the other's heat. */
static int rivals_round(const sk_stages_options *o, sk_fleet f[SK_STAGES_SERVERS], size_t i, const char *text,
                        sk_stages_visit v[SK_STAGES_SERVERS], bool *same, sk_err *e) {
    char *answer[SK_STAGES_SERVERS] = {NULL};
    int rc = same_tokens(f, text, e);
    for (size_t k = 0; rc == SKIPPY_OK && k < SK_STAGES_SERVERS; k++) {
        const size_t s = (i + k) % SK_STAGES_SERVERS;
        rc = visit(o, &f[s], text, &v[s], &answer[s], e);
    }
    *same = rc == SKIPPY_OK && answer[0] && answer[1] && strcmp(answer[0], answer[1]) == 0;
    for (size_t s = 0; s < SK_STAGES_SERVERS; s++) free(answer[s]);
    return rc;
}

int sk_stages_rivals_run(const sk_stages_options *o, sk_fleet f[SK_STAGES_SERVERS], sk_stages_rivals *out, sk_err *e) {
    sk_buf text = {0};
    int rc = SKIPPY_OK;
    out->n = out->same_text = 0;
    for (size_t s = 0; rc == SKIPPY_OK && s < SK_STAGES_SERVERS; s++) {
        out->visits[s] = calloc(o->runs, sizeof *out->visits[s]);
        rc = out->visits[s] ? SKIPPY_OK : no_memory(e);
    }
    for (size_t i = 0; rc == SKIPPY_OK && i < SK_STAGES_WARM_UPS + o->runs; i++) {
        sk_stages_visit v[SK_STAGES_SERVERS];
        bool same = false;
        rc = make_text(o, &f[0], TEXT_RIVALS, i, &text, e);
        if (rc == SKIPPY_OK) rc = rivals_round(o, f, i, text.data, v, &same, e);
        if (rc != SKIPPY_OK || i < SK_STAGES_WARM_UPS) continue;
        for (size_t s = 0; s < SK_STAGES_SERVERS; s++) out->visits[s][out->n] = v[s];
        out->n++;
        out->same_text += same;
    }
    sk_buf_free(&text);
    return rc;
}

int sk_stages_fill(const sk_stages_options *o, sk_fleet *f, size_t prompts, sk_err *e) {
    sk_buf text = {0};
    int rc = SKIPPY_OK;
    for (size_t i = 0; rc == SKIPPY_OK && i < prompts; i++) {
        sk_reply reply = {0};
        rc = make_text(o, f, TEXT_FILL, i, &text, e);
        if (rc == SKIPPY_OK) rc = ask(f, text.data, 1, &reply, e);
        sk_reply_free(&reply);
    }
    sk_buf_free(&text);
    return rc;
}
