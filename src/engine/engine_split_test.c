/* The engine at the head of a chain: answers are those of the whole model, bit for bit, cold and restored, whatever
 * happens to the stages. Tiny generated models; stages in threads of this process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/split_fixture.h"

enum { N = 200, ANSWER = 6, MIB = 1 << 20 };

typedef struct kind {
    const char *family;
    size_t stages;
} kind;

static kind kinds[] = {{"llama", 2},     {"llama", 3},     {"qwen3", 2}, {"gemma3", 2}, {"falcon-h1", 2},
                       {"falcon-h1", 3}, {"qwen3next", 2}, {"lfm2", 2},  {"mamba2", 2}};

static void open_or_skip(split_model *s, const kind *k) {
    if (!split_open(s, k->family, k->stages)) skip();
}

/* The whole model's answer to a first request, with prompts cut into the same chunks. */
static void reference(const split_model *s, fixture_run *r, const int32_t *t, size_t n) {
    sk_engine_params p = s->params;
    p.disk_dir = NULL;
    sk_engine *en = fixture_engine(s->whole, p);
    fixture_generate(en, r, t, n, ANSWER);
    fixture_release(r);
    sk_engine_stop(en);
}

static void ask(split_model *s, fixture_run *r, const int32_t *t, size_t n) {
    fixture_generate(s->engine, r, t, n, ANSWER);
    fixture_release(r);
}

static void assert_same_answer(const fixture_run *a, const fixture_run *b) {
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_memory_equal(a->tokens, b->tokens, a->n_tokens * sizeof *a->tokens);
    assert_memory_equal(a->logprob, b->logprob, a->n_tokens * sizeof *a->logprob);
}

/* After a restore the prompt's end is computed in other chunks, which may round the last bits another way. */
static void assert_near_answer(const fixture_run *a, const fixture_run *b) {
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_memory_equal(a->tokens, b->tokens, a->n_tokens * sizeof *a->tokens);
    for (size_t i = 0; i < a->n_tokens; i++) assert_float_equal(a->logprob[i], b->logprob[i], 1e-3F);
}

static void pause_ms(long ms) {
    const struct timespec t = {.tv_nsec = ms * 1000000};
    nanosleep(&t, NULL);
}

static void cold_and_restored_answers_are_those_of_the_whole_model(void **state) {
    split_model s;
    fixture_run cold, again, whole;
    int32_t t[N];
    open_or_skip(&s, *state);
    split_start(&s);
    fixture_tokens(s.whole, 1, t, N);
    reference(&s, &whole, t, N);
    ask(&s, &cold, t, N);
    assert_same_answer(&cold, &whole);
    assert_int_equal(cold.stats.cache.tokens, 0);
    ask(&s, &again, t, N);
    assert_same_answer(&again, &whole);
    assert_int_equal(again.stats.cache.tokens, N);
    assert_true(again.stats.cache.terminal_logits);
    split_close(&s);
}

/* Without log-probabilities the last stage sends the largest logits instead of rows. */
static void greedy_answers_need_no_rows_of_logits(void **state) {
    split_model s;
    fixture_run r, whole;
    int32_t t[N];
    open_or_skip(&s, *state);
    split_start(&s);
    fixture_tokens(s.whole, 13, t, N);
    reference(&s, &whole, t, N);
    fixture_prepare(&r, t, N, ANSWER);
    r.request.sampling.n_probs = 0;
    assert_int_equal(fixture_submit(s.engine, &r), SKIPPY_OK);
    fixture_wait(&r);
    fixture_release(&r);
    if (r.code) fail_msg("%s", r.error);
    assert_int_equal(r.n_tokens, whole.n_tokens);
    assert_memory_equal(r.tokens, whole.tokens, r.n_tokens * sizeof *r.tokens);
    split_close(&s);
}

/* An exact repeat costs neither a decode nor a hidden state on any link. */
static void exact_repeat_sends_no_hidden_states(void **state) {
    split_model s;
    fixture_run r;
    int32_t t[N];
    sk_engine_stats before, after;
    open_or_skip(&s, *state);
    split_start(&s);
    fixture_tokens(s.whole, 2, t, N);
    ask(&s, &r, t, N);
    fixture_settle(s.engine, 1, &before);
    fixture_generate(s.engine, &r, t, N, 1);
    fixture_release(&r);
    fixture_settle(s.engine, 2, &after);
    assert_int_equal(after.hidden_bytes_sent, before.hidden_bytes_sent);
    assert_int_equal(after.decodes, before.decodes);
    assert_int_equal(after.terminal_hits, before.terminal_hits + 1);
    split_close(&s);
}

static void longer_prompt_computes_only_its_end(void **state) {
    split_model s;
    fixture_run r, whole;
    int32_t t[N + 20];
    open_or_skip(&s, *state);
    split_start(&s);
    fixture_tokens(s.whole, 3, t, N + 20);
    ask(&s, &r, t, N);
    ask(&s, &r, t, N + 20);
    assert_true(r.stats.cache.tokens >= N - 1);
    reference(&s, &whole, t, N + 20);
    assert_memory_equal(r.tokens, whole.tokens, sizeof *r.tokens);
    split_close(&s);
}

static void stage_that_lost_its_state_is_fed_from_kept_hidden_states(void **state) {
    split_model s;
    fixture_run r, whole;
    int32_t t[N];
    sk_engine_stats st;
    open_or_skip(&s, *state);
    s.activations = 64 * MIB;
    split_start(&s);
    fixture_tokens(s.whole, 4, t, N);
    ask(&s, &r, t, N);
    fixture_settle(s.engine, 1, &st);
    uint64_t computed = st.tokens_computed;
    split_stop_stage(&s, s.n_behind - 1);
    split_start_stage(&s, s.n_behind - 1);
    ask(&s, &r, t, N);
    reference(&s, &whole, t, N);
    assert_near_answer(&r, &whole);
    fixture_settle(s.engine, 2, &st);
    assert_true(st.tokens_computed - computed <= 64); /* the head did not compute the prompt again */
    assert_true(r.stats.cache.tokens > 0);
    split_close(&s);
}

/* A stage is stopped in the middle of an answer and comes back: the client sees the same tokens. */
static void answer_goes_on_exactly_after_a_stage_restarted(void **state) {
    split_model s;
    fixture_run r, whole;
    int32_t t[N];
    open_or_skip(&s, *state);
    split_start(&s);
    fixture_tokens(s.whole, 5, t, N);
    fixture_prepare(&r, t, N, 24);
    r.hold_at_text = 8;
    assert_int_equal(fixture_submit(s.engine, &r), SKIPPY_OK);
    assert_true(fixture_wait_held(&r));
    split_stop_stage(&s, s.n_behind - 1);
    fixture_unhold(&r);
    split_start_stage(&s, s.n_behind - 1);
    fixture_wait(&r);
    if (r.code) fail_msg("%s", r.error);
    fixture_release(&r);
    sk_engine *en = fixture_engine(s.whole, s.params);
    fixture_generate(en, &whole, t, N, 24);
    fixture_release(&whole);
    sk_engine_stop(en);
    assert_int_equal(r.n_tokens, 24);
    assert_memory_equal(r.tokens, whole.tokens, 24 * sizeof *r.tokens);
    split_close(&s);
}

static void request_fails_with_words_when_a_stage_stays_away(void **state) {
    split_model s;
    fixture_run r;
    int32_t t[N];
    open_or_skip(&s, *state);
    s.split.patience_ms = 300;
    split_start(&s);
    fixture_tokens(s.whole, 6, t, N);
    split_stop_stage(&s, 0);
    fixture_prepare(&r, t, N, 4);
    assert_int_equal(fixture_submit(s.engine, &r), SKIPPY_OK);
    fixture_wait(&r);
    assert_int_equal(r.code, SKIPPY_E_BUSY);
    assert_non_null(strstr(r.error, s.addresses[0]));
    fixture_release(&r);
    split_start_stage(&s, 0);
    fixture_run again;
    for (int tries = 0; tries < 200; tries++) { /* until the chain is up again */
        pause_ms(50);
        fixture_prepare(&again, t, N, 4);
        assert_int_equal(fixture_submit(s.engine, &again), SKIPPY_OK);
        fixture_wait(&again);
        fixture_release(&again);
        if (again.code == SKIPPY_OK) break;
    }
    assert_int_equal(again.code, SKIPPY_OK);
    split_close(&s);
}

static void lanes_run_at_the_same_time(void **state) {
    split_model s;
    fixture_run r[4], whole;
    int32_t t[4][N];
    open_or_skip(&s, *state);
    split_start(&s);
    for (int i = 0; i < 4; i++) {
        fixture_tokens(s.whole, 10 + (uint32_t)i, t[i], N);
        fixture_prepare(&r[i], t[i], N, ANSWER);
        assert_int_equal(fixture_submit(s.engine, &r[i]), SKIPPY_OK);
    }
    for (int i = 0; i < 4; i++) {
        fixture_wait(&r[i]);
        if (r[i].code) fail_msg("%s", r[i].error);
        fixture_release(&r[i]);
        reference(&s, &whole, t[i], N);
        assert_int_equal(r[i].n_tokens, ANSWER);
        assert_int_equal(r[i].tokens[0], whole.tokens[0]);
    }
    split_close(&s);
}

static void wait_disks(split_model *s) {
    sk_engine_stats head;
    for (sk_engine_get_stats(s->engine, &head); !head.tiers.disk_ready; sk_engine_get_stats(s->engine, &head))
        pause_ms(2);
    for (size_t i = 0; i < s->n_behind; i++) {
        sk_stage_stats st;
        for (sk_stage_get_stats(s->behind[i].stage, &st); !st.disk_ready; sk_stage_get_stats(s->behind[i].stage, &st))
            pause_ms(2);
    }
    pause_ms(50); /* what was found is taken */
}

static void every_stage_restores_from_disk_after_all_were_restarted(void **state) {
    split_model s;
    fixture_run r, whole;
    int32_t t[N];
    char disk[320];
    open_or_skip(&s, *state);
    s.stage_disk = true;
    snprintf(disk, sizeof disk, "%s/disk0", s.folder);
    s.params.disk_dir = disk;
    split_start(&s);
    wait_disks(&s);
    fixture_tokens(s.whole, 7, t, N);
    ask(&s, &r, t, N);
    split_stop(&s);
    split_start(&s);
    wait_disks(&s);
    ask(&s, &r, t, N);
    reference(&s, &whole, t, N);
    assert_memory_equal(r.tokens, whole.tokens, sizeof *r.tokens);
    assert_int_equal(r.stats.cache.tokens, N);
    assert_int_equal(r.stats.cache.source, SK_SRC_DISK);
    assert_int_equal(r.stats.cache.stage_source[0], SK_STAGE_DISK);
    split_close(&s);
}

static void erase_reaches_every_stage(void **state) {
    split_model s;
    fixture_run r;
    int32_t t[N];
    open_or_skip(&s, *state);
    s.activations = 64 * MIB;
    split_start(&s);
    fixture_tokens(s.whole, 8, t, N);
    ask(&s, &r, t, N);
    const skippy_erase_filter all = {0};
    size_t n = 0;
    assert_int_equal(sk_engine_erase_matching(s.engine, &all, &n), SKIPPY_OK);
    assert_true(n >= s.n_behind + 1);
    for (size_t i = 0; i < s.n_behind; i++) {
        sk_stage_stats st;
        do { /* the numbers are published a moment after the answer */
            pause_ms(2);
            sk_stage_get_stats(s.behind[i].stage, &st);
        } while (st.entries > 0);
        assert_int_equal(st.activations.entries, 0);
    }
    ask(&s, &r, t, N);
    assert_int_equal(r.stats.cache.tokens, 0);
    split_close(&s);
}

static void tenants_share_nothing(void **state) {
    split_model s;
    fixture_run r;
    int32_t t[N];
    open_or_skip(&s, *state);
    split_start(&s);
    fixture_tokens(s.whole, 9, t, N);
    ask(&s, &r, t, N);
    fixture_prepare(&r, t, N, ANSWER);
    r.request.tenant = "ann";
    assert_int_equal(fixture_submit(s.engine, &r), SKIPPY_OK);
    fixture_wait(&r);
    fixture_release(&r);
    assert_int_equal(r.code, SKIPPY_OK);
    assert_int_equal(r.stats.cache.tokens, 0);
    split_close(&s);
}

static void cancelled_request_frees_its_lane_on_every_stage(void **state) {
    split_model s;
    fixture_run r;
    int32_t t[N];
    sk_engine_stats st;
    open_or_skip(&s, *state);
    s.params.n_lanes = 1;
    split_start(&s);
    fixture_tokens(s.whole, 11, t, N);
    fixture_prepare(&r, t, N, 200);
    r.cancel_after_text = 3;
    assert_int_equal(fixture_submit(s.engine, &r), SKIPPY_OK);
    fixture_wait(&r);
    fixture_release(&r);
    assert_int_equal(r.code, SKIPPY_E_CANCELLED);
    fixture_tokens(s.whole, 12, t, N);
    ask(&s, &r, t, N);
    fixture_settle(s.engine, 2, &st);
    assert_int_equal(st.running, 0);
    split_close(&s);
}

static void refuses_what_needs_the_whole_model(void **state) {
    split_model s;
    open_or_skip(&s, *state);
    sk_engine *en = NULL;
    sk_err e = {0};
    const char *nowhere = "unix:/nonexistent/skippy";
    const sk_split_params split = {.addresses = &nowhere, .n_addresses = 1, .wait_ms = 50};
    sk_engine_params p = s.params;
    p.split = &split;
    p.exact = SK_EXACT_BIT;
    assert_int_equal(sk_engine_start(s.head, &p, &en, &e), SKIPPY_E_UNSUPPORTED);
    assert_non_null(strstr(e.text, "--exact bit"));
    p.exact = SK_EXACT_STATE;
    assert_int_equal(sk_engine_start(s.whole, &p, &en, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "--layers"));
    assert_int_equal(sk_engine_start(s.head, &p, &en, &e), SKIPPY_E_TIMEOUT);
    assert_non_null(strstr(e.text, nowhere));
    split_close(&s);
}

#define ON(test, k)                                                                                                    \
    { #test, test, NULL, NULL, (void *)(k) }

int main(void) {
    enum { N_KINDS = sizeof kinds / sizeof *kinds };
    static kind dense = {"llama", 3}, hybrid = {"falcon-h1", 2};
    const struct CMUnitTest both[] = {
        ON(greedy_answers_need_no_rows_of_logits, &dense),
        ON(greedy_answers_need_no_rows_of_logits, &hybrid),
        ON(exact_repeat_sends_no_hidden_states, &dense),
        ON(exact_repeat_sends_no_hidden_states, &hybrid),
        ON(longer_prompt_computes_only_its_end, &dense),
        ON(longer_prompt_computes_only_its_end, &hybrid),
        ON(stage_that_lost_its_state_is_fed_from_kept_hidden_states, &dense),
        ON(stage_that_lost_its_state_is_fed_from_kept_hidden_states, &hybrid),
        ON(answer_goes_on_exactly_after_a_stage_restarted, &dense),
        ON(answer_goes_on_exactly_after_a_stage_restarted, &hybrid),
        ON(request_fails_with_words_when_a_stage_stays_away, &dense),
        ON(lanes_run_at_the_same_time, &dense),
        ON(lanes_run_at_the_same_time, &hybrid),
        ON(every_stage_restores_from_disk_after_all_were_restarted, &dense),
        ON(every_stage_restores_from_disk_after_all_were_restarted, &hybrid),
        ON(erase_reaches_every_stage, &dense),
        ON(tenants_share_nothing, &dense),
        ON(cancelled_request_frees_its_lane_on_every_stage, &dense),
        ON(cancelled_request_frees_its_lane_on_every_stage, &hybrid),
        ON(refuses_what_needs_the_whole_model, &dense),
    };
    struct CMUnitTest per_kind[N_KINDS];
    char names[N_KINDS][96];
    for (size_t i = 0; i < N_KINDS; i++) {
        snprintf(names[i], sizeof names[i], "cold_and_restored_answers_are_those_of_the_whole_model: %s, %zu stages",
                 kinds[i].family, kinds[i].stages);
        per_kind[i] = (struct CMUnitTest){.name = names[i],
                                          .test_func = cold_and_restored_answers_are_those_of_the_whole_model,
                                          .initial_state = &kinds[i]};
    }
    int failed = cmocka_run_group_tests_name("engine_split", both, NULL, NULL);
    return failed + cmocka_run_group_tests_name("engine_split by family", per_kind, NULL, NULL);
}
