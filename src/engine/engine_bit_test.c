/* Bit-exact mode: every answer, log-probabilities included, is the same without a cache, with a cold and a warm cache,
 * and whatever other clients do. This is the oracle for restore, scheduling and eviction. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine_fixture.h"

enum { DOCS = 4, DOC_TOKENS = 180, REQUESTS = 24, MAX_PROMPT = 240, PREDICT = 6 };

/* A request of the random workload: some document's beginning, then tokens of its own. */
typedef struct plan {
    int32_t tokens[MAX_PROMPT];
    size_t n;
    size_t boundary;
    bool cancel;
} plan;

static uint32_t next(uint32_t *x) {
    *x = *x * 1664525u + 1013904223u;
    return *x >> 8;
}

static void make_plans(const sk_model *m, uint32_t seed, plan *p, size_t n) {
    static int32_t docs[DOCS][DOC_TOKENS];
    for (uint32_t d = 0; d < DOCS; d++)
        fixture_tokens(m, 1000 + d / 2, docs[d], DOC_TOKENS); /* pairs share a beginning */
    for (uint32_t d = 1; d < DOCS; d += 2) fixture_tokens(m, 2000 + d, docs[d] + 100, DOC_TOKENS - 100);
    for (size_t i = 0; i < n; i++) {
        const int32_t *doc = docs[next(&seed) % DOCS];
        size_t shared = 20 + next(&seed) % (DOC_TOKENS - 20), own = next(&seed) % 40;
        memcpy(p[i].tokens, doc, shared * sizeof *doc);
        fixture_tokens(m, 3000 + next(&seed) % 8, p[i].tokens + shared, own);
        p[i].n = shared + own;
        p[i].boundary = shared;
        p[i].cancel = next(&seed) % 6 == 0;
    }
}

static void prepare(fixture_run *r, const plan *p, bool may_cancel) {
    fixture_prepare(r, p->tokens, p->n, PREDICT);
    r->request.boundaries = &p->boundary;
    r->request.n_boundaries = 1;
    if (may_cancel && p->cancel) r->cancel_after_text = 2;
}

static sk_engine_params bit_params(void) {
    sk_engine_params p = {.n_lanes = 3, .n_ctx = 1024, .exact = SK_EXACT_BIT};
    return p;
}

/* The reference: one request after the other, no reuse at all. */
static void run_reference(const sk_model *m, const plan *p, fixture_run *out) {
    sk_engine_params params = bit_params();
    params.cache_off = true;
    params.n_lanes = 1;
    sk_engine *en = fixture_engine(m, params);
    for (size_t i = 0; i < REQUESTS; i++) {
        prepare(&out[i], &p[i], false);
        assert_int_equal(fixture_submit(en, &out[i]), SKIPPY_OK);
        fixture_wait(&out[i]);
        assert_int_equal(out[i].code, SKIPPY_OK);
    }
    sk_engine_stop(en);
}

static void compare(const fixture_run *want, const fixture_run *got, uint32_t seed, size_t i) {
    size_t n = got->n_tokens;
    if (got->code == SKIPPY_OK && n != want->n_tokens)
        fail_msg("seed %u request %zu: %zu tokens, not %zu", seed, i, n, want->n_tokens);
    if (memcmp(got->tokens, want->tokens, n * sizeof *got->tokens) != 0 ||
        memcmp(got->logprob, want->logprob, n * sizeof *got->logprob) != 0)
        fail_msg("seed %u request %zu: the answer differs from the one without a cache (%zu tokens were restored)",
                 seed, i, got->stats.cache.tokens);
}

static uint32_t test_seed(void) {
    const char *s = getenv("SKIPPY_TEST_SEED");
    return s ? (uint32_t)strtoul(s, NULL, 10) : 20261;
}

/* Everything at once: shared beginnings, branches, cancels, and a pool that does not hold it all. */
static void answers_do_not_depend_on_the_cache(void **state) {
    static plan plans[REQUESTS];
    static fixture_run want[REQUESTS], got[REQUESTS];
    sk_model *m = fixture_model(*state);
    if (!m) skip();
    uint32_t seed = test_seed();
    make_plans(m, seed, plans, REQUESTS);
    run_reference(m, plans, want);
    sk_engine *en = fixture_engine(m, bit_params());
    for (int pass = 0; pass < 2; pass++) { /* cold, then warm */
        for (size_t i = 0; i < REQUESTS; i++) prepare(&got[i], &plans[i], true);
        for (size_t i = 0; i < REQUESTS; i++) assert_int_equal(fixture_submit(en, &got[i]), SKIPPY_OK);
        for (size_t i = 0; i < REQUESTS; i++) {
            fixture_wait(&got[i]);
            assert_int_equal(got[i].n_last, 1);
            if (got[i].code != SKIPPY_E_CANCELLED) assert_int_equal(got[i].code, SKIPPY_OK);
            compare(&want[i], &got[i], seed, i);
            fixture_release(&got[i]);
        }
    }
    sk_engine_stats s;
    sk_engine_get_stats(en, &s);
    assert_true(s.hits > REQUESTS);
    assert_int_equal(s.restore_faults, 0);
    printf("%s: seed %u, %llu hits of %llu, %llu relocations, %llu preemptions, %llu pad rows of %llu\n",
           (const char *)*state, seed, (unsigned long long)s.hits, (unsigned long long)s.lookups,
           (unsigned long long)s.relocations, (unsigned long long)s.preemptions, (unsigned long long)s.pad_rows,
           (unsigned long long)s.rows);
    for (size_t i = 0; i < REQUESTS; i++) fixture_release(&want[i]);
    sk_engine_stop(en);
    sk_model_free(m);
}

static void bit_mode_without_flash_attention_is_refused(void **state) {
    sk_model *m = fixture_model(*state);
    if (!m) skip();
    sk_engine_params p = bit_params();
    p.n_batch = p.n_ubatch = 128;
    p.flash_attn = 0;
    sk_engine *en = NULL;
    sk_err e = {0};
    assert_int_equal(sk_engine_start(m, &p, &en, &e), SKIPPY_E_UNSUPPORTED);
    assert_non_null(strstr(e.text, "flash attention"));
    sk_model_free(m);
}

#define MODEL_TEST(test, family)                                                                                       \
    { #test " " family, test, NULL, NULL, (void *)(family) }

int main(void) {
    const struct CMUnitTest tests[] = {
        MODEL_TEST(answers_do_not_depend_on_the_cache, "llama"),
        MODEL_TEST(answers_do_not_depend_on_the_cache, "gemma3"),
        MODEL_TEST(answers_do_not_depend_on_the_cache, "falcon-h1"),
        MODEL_TEST(answers_do_not_depend_on_the_cache, "qwen3next"),
        MODEL_TEST(answers_do_not_depend_on_the_cache, "mamba2"),
        MODEL_TEST(bit_mode_without_flash_attention_is_refused, "llama"),
    };
    return cmocka_run_group_tests_name("engine, bit mode", tests, NULL, NULL);
}
