/* Test support: a loaded model, an engine, and requests that are waited for. Not part of the product. */
#ifndef SKIPPY_ENGINE_FIXTURE_H
#define SKIPPY_ENGINE_FIXTURE_H

#include <pthread.h>

#include "engine/engine.h"

/* Loads it; NULL when it is not there. Fails the test on a load error. */
sk_model *fixture_model(const char *family);

enum { FIXTURE_TOKENS = 256 };

/* One request and what came of it. */
typedef struct fixture_run {
    sk_gen_request request; /* fill in; tokens etc. must live until the submit */
    int cancel_after_text;  /* cancels itself at the n-th text event, 0 = never */
    int cancel_after_progress;
    int hold_at_text; /* stands still, and the engine with it, at the n-th text event until fixture_unhold; 0 = never */
    sk_engine *engine;

    uint64_t job;
    int submit_code;
    char error[512];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool started, done, held, unhold;
    int n_text, n_progress, n_last; /* n_last: DONE or ERROR events, must be 1 */
    int code;                       /* error code, SKIPPY_OK when DONE */
    enum sk_finish finish;
    char stop_word[64];
    int32_t tokens[FIXTURE_TOKENS];
    float logprob[FIXTURE_TOKENS];
    float lead[FIXTURE_TOKENS]; /* log-probability of the best token over the next best, where n_probs >= 2 */
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
/* Waits until the request stands at hold_at_text. False when it ended before. */
bool fixture_wait_held(fixture_run *r);
void fixture_unhold(fixture_run *r);
void fixture_release(fixture_run *r);
/* Prepare, submit, wait; asserts that it ended well. */
void fixture_generate(sk_engine *en, fixture_run *r, const int32_t *tokens, size_t n, int n_predict);
/* Statistics after the engine has counted `ended` requests as ended and has nothing more to do: lanes and queue are
 * empty. */
void fixture_settle(sk_engine *en, uint64_t ended, sk_engine_stats *out);
/* Seed of random tests: SKIPPY_TEST_SEED, or a fixed one. */
uint32_t fixture_seed(void);
/* Next number of a small generator; below 2^24. */
uint32_t fixture_random(uint32_t *state);
/* Deterministic tokens of the model's ordinary vocabulary. */
void fixture_tokens(const sk_model *m, uint32_t seed, int32_t *out, size_t n);
/* Engine with test-sized defaults changed by the caller's params; fails the test with the engine's words. */
sk_engine *fixture_engine(const sk_model *m, sk_engine_params p);

#endif
