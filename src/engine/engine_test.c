/* What a request sees, for each kind of memory. Every test runs on tiny generated models and skips, with the reason,
 * without them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine_fixture.h"

enum { N = 200, SUFFIX = 20 };

typedef struct kind {
    const char *family;
    bool exact_boundaries;
    bool has_kv;
} kind;

static const kind kinds[] = {
    {"llama", false, true}, {"gemma3", true, true},  {"falcon-h1", true, true}, {"qwen3next", true, true},
    {"lfm2", true, true},   {"mamba2", true, false}, {"rwkv7", true, false},
};

static sk_model *model_of(const kind *k) {
    sk_model *m = fixture_model(k->family);
    if (!m) skip();
    return m;
}

static void exact_repeat(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    sk_engine *en = fixture_engine(m, (sk_engine_params){.n_lanes = 2});
    int32_t t[N];
    fixture_tokens(m, 1, t, N);
    fixture_run a, b, c;
    fixture_generate(en, &a, t, N, 8);
    assert_int_equal(a.stats.cache.tokens, 0);
    assert_string_equal(a.stats.cache.reason, "cold");
    sk_engine_stats before, after;
    sk_engine_get_stats(en, &before);
    fixture_generate(en, &b, t, N, 1);
    assert_int_equal(b.stats.cache.tokens, N);
    assert_true(b.stats.cache.terminal_logits);
    assert_int_equal(b.stats.cache_n, N - 1);
    assert_int_equal(b.stats.prompt_n, 1);
    assert_int_equal(b.tokens[0], a.tokens[0]);
    assert_memory_equal(&b.logprob[0], &a.logprob[0], sizeof(float));
    fixture_generate(en, &c, t, N, 8);
    sk_engine_get_stats(en, &after);
    assert_int_equal(after.tokens_computed, before.tokens_computed); /* no prompt token was computed again */
    assert_memory_equal(c.tokens, a.tokens, 8 * sizeof *c.tokens);
    fixture_release(&a);
    fixture_release(&b);
    fixture_release(&c);
    sk_engine_stop(en);
    sk_model_free(m);
}

static void growing_chat(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    sk_engine *en = fixture_engine(m, (sk_engine_params){.n_lanes = 1});
    int32_t t[N + 64 + 8 * SUFFIX];
    fixture_tokens(m, 2, t, N + 64 + 8 * SUFFIX);
    size_t n = 64, previous = 0;
    for (int turn = 0; turn < 5; turn++) {
        fixture_run r;
        fixture_generate(en, &r, t, n, 3);
        if (turn) assert_true(r.stats.cache.tokens >= previous); /* the whole earlier prompt and what was generated */
        /* the next turn holds this prompt, the two generated tokens that are in the state, and new text */
        memcpy(t + n, r.tokens, 2 * sizeof *t);
        previous = n + 2;
        fixture_release(&r);
        n += 2 + SUFFIX;
    }
    sk_engine_stop(en);
    sk_model_free(m);
}

/* A conversation whose last message is edited: the boundary before the message is where the next one starts. */
static void edited_last_message(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    sk_engine *en = fixture_engine(m, (sk_engine_params){.n_lanes = 2});
    int32_t t[N];
    const size_t boundary = N - SUFFIX;
    fixture_tokens(m, 3, t, N);
    for (uint32_t edit = 0; edit < 4; edit++) {
        fixture_tokens(m, 100 + edit, t + boundary, SUFFIX);
        fixture_run r;
        fixture_prepare(&r, t, N, 2);
        r.request.boundaries = &boundary;
        r.request.n_boundaries = 1;
        assert_int_equal(fixture_submit(en, &r), SKIPPY_OK);
        fixture_wait(&r);
        assert_int_equal(r.code, SKIPPY_OK);
        assert_int_equal(r.stats.cache.tokens, edit == 0 ? 0 : boundary);
        fixture_release(&r);
    }
    sk_engine_stop(en);
    sk_model_free(m);
}

static uint64_t decodes_of(sk_engine *en, const int32_t *t, size_t n, const size_t *bounds, size_t n_bounds) {
    sk_engine_stats before, after;
    fixture_run r;
    sk_engine_get_stats(en, &before);
    fixture_prepare(&r, t, n, 1);
    r.request.boundaries = bounds;
    r.request.n_boundaries = n_bounds;
    assert_int_equal(fixture_submit(en, &r), SKIPPY_OK);
    fixture_wait(&r);
    assert_int_equal(r.code, SKIPPY_OK);
    fixture_release(&r);
    sk_engine_get_stats(en, &after);
    return after.decodes - before.decodes;
}

/* A stop is a decode of its own: a few tokens behind the state that is there it would not pay. */
static void no_stop_close_behind_the_restored_state(void **state) {
    enum { KNOWN = 96, CLOSE = KNOWN + 5, FAR = KNOWN + 40, ALL = KNOWN + 60 };
    static const size_t bounds[] = {CLOSE, FAR};
    const kind *k = *state;
    sk_model *m = model_of(k);
    sk_engine *en = fixture_engine(m, (sk_engine_params){.n_lanes = 1});
    int32_t t[ALL];
    fixture_tokens(m, 12, t, ALL);
    decodes_of(en, t, KNOWN, NULL, 0);
    assert_int_equal(decodes_of(en, t, ALL, bounds, 2), k->exact_boundaries ? 2 : 1);
    sk_engine_stop(en);
    sk_model_free(m);
}

/* Without hints: the place where the second prompt left the first is learned, and the third starts there. */
static void learned_boundary(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    sk_engine *en = fixture_engine(m, (sk_engine_params){.n_lanes = 1});
    int32_t t[N];
    const size_t shared = 149; /* not on the ladder of an N-token prompt */
    fixture_tokens(m, 4, t, N);
    size_t hit[3];
    for (uint32_t i = 0; i < 3; i++) {
        fixture_tokens(m, 200 + i, t + shared, N - shared);
        fixture_run r;
        fixture_generate(en, &r, t, N, 1);
        hit[i] = r.stats.cache.tokens;
        fixture_release(&r);
    }
    assert_int_equal(hit[0], 0);
    assert_int_equal(hit[2], shared);
    sk_engine_stop(en);
    sk_model_free(m);
}

/* Requests that are cold at the same time compute the shared beginning once. */
static void cold_clients_share(void **state) {
    enum { CLIENTS = 6, SHARED = 160, TAIL = 17 };
    const kind *k = *state;
    sk_model *m = model_of(k);
    sk_engine *en = fixture_engine(m, (sk_engine_params){.n_lanes = 4, .n_ctx = 2048});
    static fixture_run r[CLIENTS];
    int32_t t[CLIENTS][SHARED + TAIL];
    for (uint32_t i = 0; i < CLIENTS; i++) {
        fixture_tokens(m, 5, t[i], SHARED);
        fixture_tokens(m, 300 + i, t[i] + SHARED, TAIL);
        fixture_prepare(&r[i], t[i], SHARED + TAIL, 4);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) assert_int_equal(fixture_submit(en, &r[i]), SKIPPY_OK);
    for (uint32_t i = 0; i < CLIENTS; i++) fixture_wait(&r[i]);
    sk_engine_stats s;
    sk_engine_get_stats(en, &s);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        assert_int_equal(r[i].code, SKIPPY_OK);
        fixture_release(&r[i]);
    }
    assert_true(s.tokens_computed <= SHARED + CLIENTS * (TAIL + 1));
    assert_int_equal(s.lookups, s.hits + s.misses);
    assert_int_equal(s.misses, 1);
    sk_engine_stop(en);
    sk_model_free(m);
}

/* The same conversation on two lanes in turn with another one: both stay hits. */
static void alternation(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    sk_engine *en = fixture_engine(m, (sk_engine_params){.n_lanes = 1});
    int32_t t[2][N];
    fixture_tokens(m, 6, t[0], N);
    fixture_tokens(m, 7, t[1], N);
    fixture_run first[2];
    for (int i = 0; i < 2; i++) fixture_generate(en, &first[i], t[i], N, 1);
    for (int i = 0; i < 6; i++) {
        fixture_run r;
        fixture_generate(en, &r, t[i % 2], N, 1);
        assert_int_equal(r.stats.cache.tokens, N);
        assert_int_equal(r.tokens[0], first[i % 2].tokens[0]);
        assert_memory_equal(&r.logprob[0], &first[i % 2].logprob[0], sizeof(float));
        fixture_release(&r);
    }
    for (int i = 0; i < 2; i++) fixture_release(&first[i]);
    sk_engine_stop(en);
    sk_model_free(m);
}

static void opt_out_neither_reads_nor_records(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    sk_engine *en = fixture_engine(m, (sk_engine_params){.n_lanes = 1});
    int32_t t[N];
    fixture_tokens(m, 8, t, N);
    fixture_run r;
    for (int i = 0; i < 2; i++) {
        fixture_prepare(&r, t, N, 1);
        r.request.no_cache = true;
        assert_int_equal(fixture_submit(en, &r), SKIPPY_OK);
        fixture_wait(&r);
        assert_int_equal(r.stats.cache.tokens, 0);
        assert_string_equal(r.stats.cache.reason, "request-opt-out");
        fixture_release(&r);
    }
    fixture_generate(en, &r, t, N, 1); /* nothing was recorded */
    assert_int_equal(r.stats.cache.tokens, 0);
    fixture_release(&r);
    fixture_prepare(&r, t, N, 1); /* something is recorded now, and still not read */
    r.request.no_cache = true;
    assert_int_equal(fixture_submit(en, &r), SKIPPY_OK);
    fixture_wait(&r);
    assert_int_equal(r.stats.cache.tokens, 0);
    fixture_release(&r);
    sk_engine_stop(en);
    sk_model_free(m);
}

static void tenants_and_namespaces_do_not_share(void **state) {
    const kind *k = *state;
    sk_model *m = model_of(k);
    sk_engine *en = fixture_engine(m, (sk_engine_params){.n_lanes = 2, .n_ctx = 2048});
    int32_t t[N];
    fixture_tokens(m, 9, t, N);
    const struct {
        const char *tenant, *ns;
        size_t hit;
    } step[] = {{"a", NULL, 0}, {"b", NULL, 0}, {"a", "x", 0}, {NULL, NULL, 0},
                {"a", NULL, N}, {"b", NULL, N}, {"a", "x", N}};
    for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
        fixture_run r;
        fixture_prepare(&r, t, N, 1);
        r.request.tenant = step[i].tenant;
        r.request.cache_namespace = step[i].ns;
        assert_int_equal(fixture_submit(en, &r), SKIPPY_OK);
        fixture_wait(&r);
        assert_int_equal(r.stats.cache.tokens, step[i].hit);
        fixture_release(&r);
    }
    assert_true(sk_engine_erase(en, "a") > 0);
    fixture_run r;
    fixture_prepare(&r, t, N, 1);
    r.request.tenant = "a";
    assert_int_equal(fixture_submit(en, &r), SKIPPY_OK);
    fixture_wait(&r);
    assert_int_equal(r.stats.cache.tokens, 0);
    fixture_release(&r);
    sk_engine_stop(en);
    sk_model_free(m);
}

#define FOR_EACH_KIND(test)                                                                                            \
    {#test " llama", test, NULL, NULL, (void *)&kinds[0]}, {#test " gemma3", test, NULL, NULL, (void *)&kinds[1]},     \
        {#test " falcon-h1", test, NULL, NULL, (void *)&kinds[2]},                                                     \
        {#test " qwen3next", test, NULL, NULL, (void *)&kinds[3]},                                                     \
        {#test " lfm2", test, NULL, NULL, (void *)&kinds[4]}, {#test " mamba2", test, NULL, NULL, (void *)&kinds[5]},  \
    {                                                                                                                  \
#test " rwkv7", test, NULL, NULL, (void *)&kinds[6]                                                            \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        FOR_EACH_KIND(exact_repeat),
        FOR_EACH_KIND(growing_chat),
        FOR_EACH_KIND(edited_last_message),
        FOR_EACH_KIND(no_stop_close_behind_the_restored_state),
        FOR_EACH_KIND(learned_boundary),
        FOR_EACH_KIND(cold_clients_share),
        FOR_EACH_KIND(alternation),
        FOR_EACH_KIND(opt_out_neither_reads_nor_records),
        FOR_EACH_KIND(tenants_and_namespaces_do_not_share),
    };
    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
