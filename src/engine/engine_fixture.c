#include "engine/engine_fixture.h"

#include "runtime/test_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

sk_model *fixture_model(const char *family) {
    const char *path = test_model_path(family);
    if (!path) return NULL;
    sk_model_params p = {.path = path, .n_gpu_layers = 0};
    sk_model *m = NULL;
    sk_err e = {0};
    if (sk_model_load(&p, &m, &e)) fail_msg("%s: %s", path, e.text);
    return m;
}

/* On the engine thread, with the lock held. */
static void hold(fixture_run *r) {
    r->held = true;
    pthread_cond_broadcast(&r->changed);
    while (!r->unhold) pthread_cond_wait(&r->changed, &r->lock);
}

static void add_token(fixture_run *r, const sk_gen_token *t) {
    if (r->n_tokens == FIXTURE_TOKENS) return;
    r->tokens[r->n_tokens] = t->token;
    r->logprob[r->n_tokens] = t->chosen.logprob;
    r->lead[r->n_tokens++] = t->n_top >= 2 ? t->top[0].logprob - t->top[1].logprob : 0;
}

static void on_event(void *ud, const sk_gen_event *ev) {
    fixture_run *r = ud;
    uint64_t cancel = 0;
    pthread_mutex_lock(&r->lock);
    if (ev->stats) r->stats = *ev->stats;
    switch (ev->type) {
    case SK_EV_START: r->started = true; break;
    case SK_EV_PROGRESS:
        if (++r->n_progress == r->cancel_after_progress) cancel = r->job;
        break;
    case SK_EV_TEXT:
        for (size_t i = 0; i < ev->n_tokens; i++) add_token(r, &ev->tokens[i]);
        if (strlen(r->text) + ev->len < sizeof r->text) strncat(r->text, ev->text, ev->len);
        if (++r->n_text == r->cancel_after_text) cancel = r->job;
        if (r->n_text == r->hold_at_text) hold(r);
        break;
    case SK_EV_DONE:
        r->finish = ev->finish;
        snprintf(r->stop_word, sizeof r->stop_word, "%s", ev->stop_word ? ev->stop_word : "");
        r->done = true;
        r->n_last++;
        break;
    case SK_EV_ERROR:
        r->code = ev->code;
        snprintf(r->error, sizeof r->error, "%s", ev->error);
        r->done = true;
        r->n_last++;
        break;
    }
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    if (cancel) sk_engine_cancel(r->engine, cancel);
}

void fixture_prepare(fixture_run *r, const int32_t *tokens, size_t n, int n_predict) {
    memset(r, 0, sizeof *r);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->request.tokens = tokens;
    r->request.n_tokens = n;
    r->request.n_predict = n_predict;
    sk_sampling_defaults(&r->request.sampling);
    r->request.sampling.temperature = 0;
    r->request.sampling.n_probs = 1;
    r->request.sampling.ignore_eos = true;
    r->request.on_event = on_event;
    r->request.ud = r;
}

int fixture_submit(sk_engine *en, fixture_run *r) {
    sk_err e = {0};
    r->engine = en;
    pthread_mutex_lock(&r->lock); /* the job id is known before the first event is handled */
    r->submit_code = sk_engine_submit(en, &r->request, &r->job, &e);
    if (r->submit_code) {
        snprintf(r->error, sizeof r->error, "%s", e.text);
        r->done = true;
    }
    pthread_mutex_unlock(&r->lock);
    return r->submit_code;
}

void fixture_wait(fixture_run *r) {
    pthread_mutex_lock(&r->lock);
    while (!r->done) pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

void fixture_wait_started(fixture_run *r) {
    pthread_mutex_lock(&r->lock);
    while (!r->done && !r->started) pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

bool fixture_wait_held(fixture_run *r) {
    pthread_mutex_lock(&r->lock);
    while (!r->done && !r->held) pthread_cond_wait(&r->changed, &r->lock);
    bool held = r->held;
    pthread_mutex_unlock(&r->lock);
    return held;
}

void fixture_unhold(fixture_run *r) {
    pthread_mutex_lock(&r->lock);
    r->unhold = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

void fixture_release(fixture_run *r) {
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
}

void fixture_generate(sk_engine *en, fixture_run *r, const int32_t *tokens, size_t n, int n_predict) {
    fixture_prepare(r, tokens, n, n_predict);
    if (fixture_submit(en, r)) fail_msg("submit: %s", r->error);
    fixture_wait(r);
    if (r->code) fail_msg("request failed: %s", r->error);
}

void fixture_settle(sk_engine *en, uint64_t ended, sk_engine_stats *out) {
    const struct timespec pause = {.tv_nsec = 1000000};
    for (;;) {
        sk_engine_get_stats(en, out);
        if (out->completed + out->cancelled + out->failed >= ended && out->running == 0 && out->queued == 0) return;
        nanosleep(&pause, NULL);
    }
}

uint32_t fixture_seed(void) {
    const char *s = getenv("SKIPPY_TEST_SEED");
    return s ? (uint32_t)strtoul(s, NULL, 10) : 20261;
}

uint32_t fixture_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

void fixture_tokens(const sk_model *m, uint32_t seed, int32_t *out, size_t n) {
    uint32_t n_vocab = (uint32_t)sk_model_get_info(m)->n_vocab;
    uint32_t usable = n_vocab > 600 ? 600 : n_vocab;
    for (size_t i = 0; i < n; i++) {
        do {
            seed = seed * 1664525u + 1013904223u;
            out[i] = (int32_t)((seed >> 8) % usable);
        } while (sk_model_is_eog(m, out[i]));
    }
}

sk_engine *fixture_engine(const sk_model *m, sk_engine_params p) {
    sk_engine *en = NULL;
    sk_err e = {0};
    if (!p.n_ctx) p.n_ctx = 1024;
    if (!p.n_batch) p.n_batch = p.n_ubatch = 128;
    if (!p.n_threads) p.n_threads = 2;
    p.flash_attn = 1;
    if (sk_engine_start(m, &p, &en, &e)) fail_msg("engine: %s", e.text);
    return en;
}
