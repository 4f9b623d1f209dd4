/* Many clients and a pool that is far too small for them: nobody is lost, nothing fails, and nothing stays behind. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine_fixture.h"

/* Everything is several times slower with a sanitizer. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { REQUESTS = 1 };
#else
enum { REQUESTS = 3 };
#endif

enum { CLIENTS = 16, DOCS = 6, DOC_TOKENS = 260, MAX_OWN = 40, MAX_PROMPT = DOC_TOKENS + MAX_OWN, MAX_PREDICT = 24 };

typedef struct load {
    const char *family;
    sk_engine_params params;
    bool has_kv;
} load;

static const load loads[] = {
    {"llama", {.n_ctx = 512}, true},
    {"falcon-h1", {.n_ctx = 512}, true},
    {"gemma3", {.n_ctx = 2048, .n_batch = 64, .n_ubatch = 64}, true}, /* detached windows */
    {"gemma3", {.n_ctx = 512, .swa_full = true}, true},
    {"mamba2", {.n_ctx = 512, .cache_seqs = 8}, false},
    {"llama", {.n_ctx = 512, .exact = SK_EXACT_BIT}, true},
};

static const sk_model *model;
static sk_engine *engine;
static int32_t docs[DOCS][DOC_TOKENS];

typedef struct client {
    uint32_t seed; /* of the next request; the reference repeats it */
    uint32_t n_cancelled;
    char failure[256];
    pthread_t thread;
} client;

/* Documents in pairs with a common beginning. */
static void make_docs(void) {
    for (uint32_t d = 0; d < DOCS; d++) {
        fixture_tokens(model, 1000 + d / 2, docs[d], DOC_TOKENS);
        if (d % 2) fixture_tokens(model, 2000 + d, docs[d] + 100, DOC_TOKENS - 100);
    }
}

typedef struct plan {
    int32_t tokens[MAX_PROMPT];
    size_t n, boundary;
    int n_predict;
    int cancel_after_text, cancel_after_progress;
    bool no_cache;
} plan;

/* One random request: a document up to some place, sometimes with an edit in it, and a branch of its own. */
static void make_plan(uint32_t *seed, plan *p) {
    memset(p, 0, sizeof *p);
    size_t shared = 100 + fixture_random(seed) % (DOC_TOKENS - 100), own = fixture_random(seed) % MAX_OWN;
    memcpy(p->tokens, docs[fixture_random(seed) % DOCS], shared * sizeof *p->tokens);
    if (fixture_random(seed) % 4 == 0)
        fixture_tokens(model, fixture_random(seed) % 5, p->tokens + 60 + fixture_random(seed) % 30, 3);
    fixture_tokens(model, 3000 + fixture_random(seed) % 8, p->tokens + shared, own);
    p->n = shared + own;
    p->boundary = shared;
    p->n_predict = (int)(fixture_random(seed) % (MAX_PREDICT + 1));
    uint32_t kind = fixture_random(seed) % 16;
    if (kind == 0) p->cancel_after_text = 1 + (int)(fixture_random(seed) % 5);
    if (kind == 1) p->cancel_after_progress = 1;
    p->no_cache = kind == 2;
}

static void prepare(fixture_run *r, const plan *p) {
    fixture_prepare(r, p->tokens, p->n, p->n_predict);
    r->request.boundaries = &p->boundary;
    r->request.n_boundaries = 1;
    r->request.no_cache = p->no_cache;
    r->request.want_progress = true;
    r->cancel_after_text = p->cancel_after_text;
    r->cancel_after_progress = p->cancel_after_progress;
}

/* What is wrong with a request that has ended, or NULL. */
static const char *judge(const fixture_run *r, const plan *p) {
    bool may_cancel = p->cancel_after_text || p->cancel_after_progress;
    if (r->submit_code) return "it was refused";
    if (r->n_last != 1) return "it has not exactly one last event";
    if (r->code == SKIPPY_E_CANCELLED) return may_cancel ? NULL : "it was cancelled, but not by its client";
    if (r->code) return "it failed";
    if (r->n_tokens != (size_t)p->n_predict) return "its answer has another length";
    const sk_gen_stats *g = &r->stats;
    if (r->n_tokens && (g->queue_ms < 0 || g->prompt_ms < 0 || g->queue_ms + g->prompt_ms > g->first_token_ms + 1))
        return "its times are impossible";
    return NULL;
}

/* In bit mode: the same request alone, without a cache. Filled by one thread before the clients start. */
typedef struct answer {
    int32_t tokens[MAX_PREDICT];
    float logprob[MAX_PREDICT];
} answer;
static answer (*reference)[REQUESTS];

static bool differs(const fixture_run *r, const answer *want) {
    return memcmp(r->tokens, want->tokens, r->n_tokens * sizeof *r->tokens) != 0 ||
           memcmp(r->logprob, want->logprob, r->n_tokens * sizeof *r->logprob) != 0;
}

static client clients[CLIENTS];

static void *run_client(void *ud) {
    client *c = ud;
    plan p;
    fixture_run r;
    for (int i = 0; i < REQUESTS && !c->failure[0]; i++) {
        make_plan(&c->seed, &p);
        prepare(&r, &p);
        if (fixture_submit(engine, &r) == SKIPPY_OK) fixture_wait(&r);
        const char *wrong = judge(&r, &p);
        if (!wrong && reference && differs(&r, &reference[c - clients][i]))
            wrong = "its answer is not the one without a cache";
        if (wrong)
            snprintf(c->failure, sizeof c->failure, "client %d, request %d of %zu tokens (%zu restored): %s: %.100s",
                     (int)(c - clients), i, p.n, r.stats.cache.tokens, wrong, r.error);
        c->n_cancelled += r.code == SKIPPY_E_CANCELLED;
        fixture_release(&r);
    }
    return NULL;
}

static void seed_clients(uint32_t seed) {
    memset(clients, 0, sizeof clients);
    for (uint32_t k = 0; k < CLIENTS; k++) clients[k].seed = seed + 7919 * k;
}

/* Every request ends once, as it must; the engine is empty afterwards. */
static void run_load(const load *l, uint32_t seed, sk_engine_stats *s) {
    seed_clients(seed);
    for (uint32_t k = 0; k < CLIENTS; k++)
        assert_int_equal(pthread_create(&clients[k].thread, NULL, run_client, &clients[k]), 0);
    uint64_t cancelled = 0;
    for (uint32_t k = 0; k < CLIENTS; k++) {
        pthread_join(clients[k].thread, NULL);
        cancelled += clients[k].n_cancelled;
    }
    for (uint32_t k = 0; k < CLIENTS; k++)
        if (clients[k].failure[0]) fail_msg("%s, seed %u: %s", l->family, seed, clients[k].failure);
    fixture_settle(engine, CLIENTS * REQUESTS, s);
    assert_int_equal(s->requests, CLIENTS * REQUESTS);
    assert_int_equal(s->cancelled, cancelled);
    assert_int_equal(s->completed, CLIENTS * REQUESTS - cancelled);
    assert_int_equal(s->failed, 0);
    assert_int_equal(s->lookups, s->hits + s->misses);
    assert_int_equal(s->restore_faults, 0);
}

static void nothing_stays_behind(const load *l, sk_engine_stats *s) {
    if (l->has_kv) assert_true(s->cells_used > 0);
    assert_true(s->entries > 0);
    sk_engine_erase(engine, NULL);
    sk_engine_get_stats(engine, s);
    assert_int_equal(s->cells_used, 0);
    assert_int_equal(s->entries, 0);
    assert_int_equal(s->entry_tokens, 0);
    assert_int_equal(s->logits_rows, 0);
    assert_int_equal(s->logits_bytes, 0);
    sk_lane_view lane[16];
    size_t n = sk_engine_get_lanes(engine, lane, 16);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(lane[i].state, 0);
        assert_int_equal(lane[i].n_kept, 0);
    }
}

static uint64_t evictions(const sk_engine_stats *s) {
    uint64_t n = 0;
    for (size_t i = 0; i < sizeof s->evictions / sizeof *s->evictions; i++) n += s->evictions[i];
    return n;
}

static sk_engine *start(const load *l, bool cache_off) {
    sk_engine_params p = l->params;
    p.n_lanes = cache_off ? 1 : 4;
    p.n_threads = 1;
    p.cache_off = cache_off;
    return fixture_engine(model, p);
}

static void make_reference(const load *l, uint32_t seed) {
    static answer answers[CLIENTS][REQUESTS];
    engine = start(l, true);
    seed_clients(seed);
    for (uint32_t k = 0; k < CLIENTS; k++) {
        for (int i = 0; i < REQUESTS; i++) {
            plan p;
            fixture_run r;
            make_plan(&clients[k].seed, &p);
            fixture_generate(engine, &r, p.tokens, p.n, p.n_predict);
            memcpy(answers[k][i].tokens, r.tokens, r.n_tokens * sizeof *r.tokens);
            memcpy(answers[k][i].logprob, r.logprob, r.n_tokens * sizeof *r.logprob);
            fixture_release(&r);
        }
    }
    sk_engine_stop(engine);
    reference = answers;
}

static void sixteen_clients_in_a_pool_that_is_too_small(void **state) {
    const load *l = *state;
    sk_model *m = fixture_model(l->family);
    if (!m) skip();
    model = m;
    reference = NULL;
    make_docs();
    uint32_t seed = fixture_seed();
    printf("%s, %u cells, seed %u\n", l->family, l->params.n_ctx, seed);
    if (l->params.exact == SK_EXACT_BIT) make_reference(l, seed);
    engine = start(l, false);
    sk_engine_stats s;
    run_load(l, seed, &s);
    printf(
        "%llu of %llu lookups hit, %llu waited for another, %llu preemptions, %llu evictions, %llu cell retries, %llu relocations\n",
        (unsigned long long)s.hits, (unsigned long long)s.lookups, (unsigned long long)s.coalesced,
        (unsigned long long)s.preemptions, (unsigned long long)evictions(&s), (unsigned long long)s.cell_retries,
        (unsigned long long)s.relocations);
    assert_true(s.hits > 0);
    assert_true(evictions(&s) > 0);
    nothing_stays_behind(l, &s);
    sk_engine_stop(engine);
    sk_model_free(m);
}

/* Answers that grow past the pool: the youngest is put back, resumes, and gets the answer that it would have got. */
static void answers_that_outgrow_the_pool_are_resumed(void **state) {
    enum { GREEDY = 4, PROMPT = 60, ANSWER = 200 };
    sk_model *m = fixture_model("llama");
    if (!m) skip();
    model = m;
    sk_engine_params p = {.n_lanes = 1, .n_ctx = 512, .n_threads = 1, .exact = SK_EXACT_BIT, .cache_off = true};
    static fixture_run want[GREEDY], got[GREEDY];
    static int32_t prompts[GREEDY][PROMPT];
    (void)state;
    engine = fixture_engine(m, p);
    for (uint32_t i = 0; i < GREEDY; i++) {
        fixture_tokens(m, 50 + i, prompts[i], PROMPT);
        fixture_generate(engine, &want[i], prompts[i], PROMPT, ANSWER);
        fixture_release(&want[i]);
    }
    sk_engine_stop(engine);
    p.n_lanes = GREEDY;
    p.cache_off = false;
    engine = fixture_engine(m, p);
    for (uint32_t i = 0; i < GREEDY; i++) {
        fixture_prepare(&got[i], prompts[i], PROMPT, ANSWER);
        assert_int_equal(fixture_submit(engine, &got[i]), SKIPPY_OK);
    }
    for (uint32_t i = 0; i < GREEDY; i++) {
        fixture_wait(&got[i]);
        assert_int_equal(got[i].code, SKIPPY_OK);
        assert_int_equal(got[i].n_tokens, ANSWER);
        assert_memory_equal(got[i].tokens, want[i].tokens, ANSWER * sizeof *got[i].tokens);
        assert_memory_equal(got[i].logprob, want[i].logprob, ANSWER * sizeof *got[i].logprob);
        fixture_release(&got[i]);
    }
    sk_engine_stats s;
    fixture_settle(engine, GREEDY, &s);
    assert_true(s.preemptions > 0);
    printf("%llu preemptions\n", (unsigned long long)s.preemptions);
    sk_engine_stop(engine);
    sk_model_free(m);
}

/* A client that is not one: erases, reads statistics and cancels at random until the others have ended. */
static atomic_bool meddling;

static void *meddle(void *ud) {
    uint32_t seed = *(const uint32_t *)ud;
    while (atomic_load(&meddling)) {
        sk_engine_stats s;
        sk_engine_erase(engine, fixture_random(&seed) % 2 ? NULL : "nobody");
        sk_engine_get_stats(engine, &s);
        sk_engine_cancel(engine, 1000000 + fixture_random(&seed) % 1000); /* no such job */
    }
    return NULL;
}

static void erasing_while_requests_run_loses_no_request(void **state) {
    enum { MEDDLERS = 3 };
    const load *l = *state;
    sk_model *m = fixture_model(l->family);
    if (!m) skip();
    model = m;
    reference = NULL;
    make_docs();
    engine = start(l, false);
    pthread_t thread[MEDDLERS];
    uint32_t seeds[MEDDLERS];
    sk_engine_stats s;
    atomic_store(&meddling, true);
    for (uint32_t i = 0; i < MEDDLERS; i++) {
        seeds[i] = fixture_seed() + i;
        assert_int_equal(pthread_create(&thread[i], NULL, meddle, &seeds[i]), 0);
    }
    run_load(l, fixture_seed(), &s);
    atomic_store(&meddling, false);
    for (uint32_t i = 0; i < MEDDLERS; i++) pthread_join(thread[i], NULL);
    sk_engine_erase(engine, NULL);
    sk_engine_get_stats(engine, &s);
    assert_int_equal(s.cells_used, 0);
    assert_int_equal(s.entries, 0);
    sk_engine_stop(engine);
    sk_model_free(m);
}

/* An argument selects tests by pattern. */
int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
#define LOAD(name, i)                                                                                                  \
    {                                                                                                                  \
        "sixteen_clients_in_a_pool_that_is_too_small " name, sixteen_clients_in_a_pool_that_is_too_small, NULL, NULL,  \
            (void *)&loads[i]                                                                                          \
    }
    const struct CMUnitTest tests[] = {
        LOAD("llama", 0),
        LOAD("falcon-h1", 1),
        LOAD("gemma3", 2),
        LOAD("gemma3, full windows", 3),
        LOAD("mamba2", 4),
        LOAD("llama, bit mode", 5),
        {"erasing_while_requests_run_loses_no_request", erasing_while_requests_run_loses_no_request, NULL, NULL,
         (void *)&loads[0]},
        cmocka_unit_test(answers_that_outgrow_the_pool_are_resumed),
    };
    return cmocka_run_group_tests_name("engine under stress", tests, NULL, NULL);
}
