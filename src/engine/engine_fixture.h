/* Test support: a loaded model, an engine, and requests that are waited for. Not part of the product. */
#ifndef SKIPPY_ENGINE_FIXTURE_H
#define SKIPPY_ENGINE_FIXTURE_H

#include <pthread.h>

#include "engine/engine.h"

/* Path of a generated test model, or NULL (and a printed reason) when it is not there. Static buffer. */
const char *fixture_model_path(const char *family);
/* Loads it; NULL when it is not there. Fails the test on a load error. */
sk_model *fixture_model(const char *family);

enum { FIXTURE_TOKENS = 256 };

/* One request and what came of it. */
typedef struct fixture_run {
    sk_gen_request request; /* fill in; tokens etc. must live until the submit */
    int cancel_after_text;  /* cancels itself at the n-th text event, 0 = never */
    int cancel_after_progress;
    sk_engine *engine;

    uint64_t job;
    int submit_code;
    char error[512];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool started, done;
    int n_text, n_progress, n_last; /* n_last: DONE or ERROR events, must be 1 */
    int code;               /* error code, SKIPPY_OK when DONE */
    enum sk_finish finish;
    int32_t tokens[FIXTURE_TOKENS];
    float logprob[FIXTURE_TOKENS];
    size_t n_tokens;
    char text[4096];
    sk_gen_stats stats;
} fixture_run;

/* Prepares a greedy request with log-probabilities. */
void fixture_prepare(fixture_run *r, const int32_t *tokens, size_t n, int n_predict);
int fixture_submit(sk_engine *en, fixture_run *r);
void fixture_wait(fixture_run *r);
/* Waits until the request has left the queue (or ended). */
void fixture_wait_started(fixture_run *r);
void fixture_release(fixture_run *r);
/* Prepare, submit, wait; asserts that it ended well. */
void fixture_generate(sk_engine *en, fixture_run *r, const int32_t *tokens, size_t n, int n_predict);
/* Deterministic tokens of the model's ordinary vocabulary. */
void fixture_tokens(const sk_model *m, uint32_t seed, int32_t *out, size_t n);
/* Engine with test-sized defaults changed by the caller's params; fails the test with the engine's words. */
sk_engine *fixture_engine(const sk_model *m, sk_engine_params p);

#endif
