/* Requests that go wrong or are ended early: what the client is told, and that the engine is as good as before
 * afterwards. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "engine/engine_fixture.h"

enum { N = 200 };

static sk_model *model;
static int32_t prompt[N];

static int load_model(void **state) {
    (void)state;
    model = fixture_model("llama");
    if (model) fixture_tokens(model, 1, prompt, N);
    return 0;
}

static int free_model(void **state) {
    (void)state;
    sk_model_free(model);
    return 0;
}

static sk_engine *start(sk_engine_params p) {
    if (!model) skip();
    if (!p.n_lanes) p.n_lanes = 1;
    p.n_threads = 1; /* many short steps: on busy cores they wait for each other longer than they compute */
    return fixture_engine(model, p);
}

/* The engine still serves, and every lane is free. Ends the engine. */
static void finish(sk_engine *en, uint64_t ended) {
    sk_engine_stats s;
    fixture_settle(en, ended, &s);
    assert_int_equal(s.running, 0);
    assert_int_equal(s.queued, 0);
    fixture_run r;
    fixture_generate(en, &r, prompt, 20, 2);
    assert_int_equal(r.n_last, 1);
    fixture_release(&r);
    sk_engine_stop(en);
}

static void submit_ok(sk_engine *en, fixture_run *r) {
    if (fixture_submit(en, r)) fail_msg("submit: %s", r->error);
}

static void expect_ended(fixture_run *r, int code, const char *words) {
    fixture_wait(r);
    assert_int_equal(r->code, code);
    assert_int_equal(r->n_last, 1);
    assert_non_null(strstr(r->error, words));
}

static void wait_until(uint64_t ns) {
    const struct timespec pause = {.tv_nsec = 1000000};
    while (sk_now_ns() <= ns) nanosleep(&pause, NULL);
}

/* ---- refused at the door ---- */

static void expect_refused(sk_engine *en, fixture_run *r, int code, const char *words) {
    assert_int_equal(fixture_submit(en, r), code);
    if (!strstr(r->error, words)) fail_msg("'%s' does not say '%s'", r->error, words);
    assert_int_equal(r->n_last, 0); /* no event follows a refusal */
    fixture_release(r);
}

static void a_prompt_over_the_context_is_refused_with_both_numbers(void **state) {
    (void)state;
    sk_engine *en = start((sk_engine_params){.n_ctx = 256});
    static int32_t long_prompt[300];
    fixture_tokens(model, 2, long_prompt, 300);
    fixture_run r;
    fixture_prepare(&r, long_prompt, 256, 1); /* fits alone, but not with an answer */
    expect_refused(en, &r, SKIPPY_E_TOO_LARGE, "256 tokens");
    fixture_prepare(&r, long_prompt, 300, 1);
    expect_refused(en, &r, SKIPPY_E_TOO_LARGE, "300 tokens");
    fixture_prepare(&r, long_prompt, 300, 1);
    expect_refused(en, &r, SKIPPY_E_TOO_LARGE, "256");
    fixture_generate(en, &r, long_prompt, 256, 0); /* without an answer it fits exactly */
    fixture_release(&r);
    fixture_generate(en, &r, long_prompt + 20, 255, 5); /* and with one there is room for one token */
    assert_int_equal(r.n_tokens, 1);
    assert_int_equal(r.finish, SK_FINISH_CONTEXT);
    fixture_release(&r);
    finish(en, 2);
}

static void malformed_requests_are_refused_in_words(void **state) {
    (void)state;
    sk_engine *en = start((sk_engine_params){0});
    const int32_t n_vocab = sk_model_get_info(model)->n_vocab;
    fixture_run r;
    fixture_prepare(&r, prompt, 0, 1);
    expect_refused(en, &r, SKIPPY_E_INVALID, "empty");
    fixture_prepare(&r, NULL, 10, 1);
    expect_refused(en, &r, SKIPPY_E_INVALID, "empty");
    const int32_t outside[] = {-1, n_vocab, INT32_MAX};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        int32_t t[5];
        memcpy(t, prompt, sizeof t);
        t[3] = outside[i];
        char words[64];
        snprintf(words, sizeof words, "token %d at position 3", outside[i]);
        fixture_prepare(&r, t, 5, 1);
        expect_refused(en, &r, SKIPPY_E_INVALID, words);
    }
    fixture_prepare(&r, prompt, 5, 1);
    r.request.sampling.grammar = "root ::= (";
    expect_refused(en, &r, SKIPPY_E_INVALID, "grammar");
    finish(en, 0);
}

static void a_full_queue_refuses_and_takes_again_later(void **state) {
    (void)state;
    sk_engine *en = start((sk_engine_params){.queue_max = 2});
    fixture_run running, waiting[2], late;
    fixture_prepare(&running, prompt, N, 2);
    running.hold_at_text = 1;
    submit_ok(en, &running);
    assert_true(fixture_wait_held(&running));
    for (int i = 0; i < 2; i++) {
        fixture_prepare(&waiting[i], prompt + i, 30, 1);
        submit_ok(en, &waiting[i]);
    }
    fixture_prepare(&late, prompt, 40, 1);
    expect_refused(en, &late, SKIPPY_E_FULL, "2 requests are waiting");
    fixture_unhold(&running);
    fixture_wait(&running);
    for (int i = 0; i < 2; i++) {
        fixture_wait(&waiting[i]);
        assert_int_equal(waiting[i].code, SKIPPY_OK);
        fixture_release(&waiting[i]);
    }
    fixture_release(&running);
    finish(en, 3);
}

static void draining_refuses_new_requests_and_finishes_the_others(void **state) {
    (void)state;
    sk_engine *en = start((sk_engine_params){0});
    fixture_run running, queued, late;
    fixture_prepare(&running, prompt, N, 3);
    running.hold_at_text = 1;
    submit_ok(en, &running);
    assert_true(fixture_wait_held(&running));
    fixture_prepare(&queued, prompt, 30, 3);
    submit_ok(en, &queued);
    sk_engine_drain(en);
    fixture_prepare(&late, prompt, 40, 1);
    expect_refused(en, &late, SKIPPY_E_BUSY, "shutting down");
    fixture_unhold(&running);
    fixture_wait(&running);
    fixture_wait(&queued);
    assert_int_equal(running.n_tokens, 3);
    assert_int_equal(queued.n_tokens, 3);
    fixture_release(&running);
    fixture_release(&queued);
    sk_engine_stop(en);
}

/* ---- deadlines ---- */

static void a_deadline_that_has_passed_ends_a_request_before_it_starts(void **state) {
    (void)state;
    sk_engine *en = start((sk_engine_params){0});
    fixture_run r;
    fixture_prepare(&r, prompt, N, 3);
    r.request.deadline_ns = 1;
    submit_ok(en, &r);
    expect_ended(&r, SKIPPY_E_TIMEOUT, "deadline");
    assert_false(r.started);
    fixture_release(&r);
    finish(en, 1);
}

static void a_deadline_holds_in_the_queue(void **state) {
    (void)state;
    sk_engine *en = start((sk_engine_params){0});
    fixture_run running, queued;
    fixture_prepare(&running, prompt, N, 3);
    running.hold_at_text = 1;
    submit_ok(en, &running);
    assert_true(fixture_wait_held(&running));
    fixture_prepare(&queued, prompt, 30, 3);
    queued.request.deadline_ns = sk_now_ns() + 2000000;
    submit_ok(en, &queued);
    wait_until(queued.request.deadline_ns);
    fixture_unhold(&running);
    expect_ended(&queued, SKIPPY_E_TIMEOUT, "deadline");
    assert_false(queued.started);
    fixture_wait(&running);
    assert_int_equal(running.code, SKIPPY_OK);
    fixture_release(&running);
    fixture_release(&queued);
    finish(en, 2);
}

static void a_deadline_holds_while_generating(void **state) {
    (void)state;
    sk_engine *en = start((sk_engine_params){0});
    fixture_run r;
    uint64_t ended = 0, allowed = 200000000;
    for (bool held = false; !held; allowed *= 2, ended++) { /* a slow machine gets more time until the first token */
        fixture_prepare(&r, prompt, N, -1);
        r.hold_at_text = 2;
        r.request.deadline_ns = sk_now_ns() + allowed;
        submit_ok(en, &r);
        held = fixture_wait_held(&r);
        wait_until(r.request.deadline_ns);
        fixture_unhold(&r);
        expect_ended(&r, SKIPPY_E_TIMEOUT, "deadline");
        if (held) assert_int_equal(r.n_tokens, 2);
        fixture_release(&r);
    }
    finish(en, ended);
}

/* ---- cancels ---- */

static void a_cancel_in_the_queue(void **state) {
    (void)state;
    sk_engine *en = start((sk_engine_params){0});
    fixture_run running, queued;
    fixture_prepare(&running, prompt, N, 3);
    running.hold_at_text = 1;
    submit_ok(en, &running);
    assert_true(fixture_wait_held(&running));
    fixture_prepare(&queued, prompt, 30, 3);
    submit_ok(en, &queued);
    sk_engine_cancel(en, queued.job);
    sk_engine_cancel(en, queued.job); /* twice is not more */
    fixture_unhold(&running);
    expect_ended(&queued, SKIPPY_E_CANCELLED, "cancelled");
    assert_false(queued.started);
    fixture_wait(&running);
    assert_int_equal(running.n_tokens, 3);
    fixture_release(&running);
    fixture_release(&queued);
    finish(en, 2);
}

static void a_cancelled_prompt_leaves_what_was_computed(void **state) {
    (void)state;
    sk_engine *en = start((sk_engine_params){.n_batch = 32, .n_ubatch = 32});
    fixture_run r, again;
    fixture_prepare(&r, prompt, N, 3);
    r.request.want_progress = true;
    r.cancel_after_progress = 2;
    submit_ok(en, &r);
    expect_ended(&r, SKIPPY_E_CANCELLED, "cancelled");
    assert_int_equal(r.n_tokens, 0);
    assert_int_equal(r.n_progress, 2);
    fixture_generate(en, &again, prompt, N, 3);
    assert_int_equal(again.stats.cache.tokens, 64); /* two chunks of 32 */
    fixture_release(&r);
    fixture_release(&again);
    finish(en, 2);
}

static void a_cancelled_answer_leaves_prompt_and_answer(void **state) {
    (void)state;
    sk_engine *en = start((sk_engine_params){0});
    fixture_run r, again, next;
    fixture_prepare(&r, prompt, N, -1);
    r.cancel_after_text = 3;
    submit_ok(en, &r);
    expect_ended(&r, SKIPPY_E_CANCELLED, "cancelled");
    assert_int_equal(r.n_tokens, 3);
    fixture_generate(en, &again, prompt, N, 3);
    assert_int_equal(again.stats.cache.tokens, N);
    assert_true(again.stats.cache.terminal_logits);
    assert_memory_equal(again.tokens, r.tokens, 3 * sizeof *r.tokens);
    int32_t longer[N + 12];
    memcpy(longer, prompt, sizeof prompt);
    memcpy(longer + N, r.tokens, 2 * sizeof *longer);
    fixture_tokens(model, 9, longer + N + 2, 10);
    fixture_generate(en, &next, longer, N + 12, 1);
    assert_int_equal(next.stats.cache.tokens, N + 2);
    fixture_release(&r);
    fixture_release(&again);
    fixture_release(&next);
    finish(en, 3);
}

static void a_cancel_of_an_unknown_or_finished_job_is_ignored(void **state) {
    (void)state;
    sk_engine *en = start((sk_engine_params){0});
    fixture_run r;
    sk_engine_cancel(en, 0);
    sk_engine_cancel(en, 123456);
    fixture_generate(en, &r, prompt, 30, 2);
    for (int i = 0; i < 100; i++) sk_engine_cancel(en, r.job);
    fixture_release(&r);
    finish(en, 1);
}

/* ---- stopping ---- */

static void *stop_engine(void *en) {
    sk_engine_stop(en);
    return NULL;
}

static void a_stop_tells_running_and_queued_requests_once(void **state) {
    (void)state;
    enum { ALL = 4 };
    sk_engine *en = start((sk_engine_params){.n_lanes = 2, .queue_max = 2});
    fixture_run r[ALL], probe;
    for (uint32_t i = 0; i < ALL; i++) fixture_prepare(&r[i], prompt + i, 30, -1);
    r[0].hold_at_text = r[1].hold_at_text = 1;
    submit_ok(en, &r[0]);
    assert_true(fixture_wait_held(&r[0]));
    submit_ok(en, &r[1]);
    fixture_unhold(&r[0]);
    assert_true(fixture_wait_held(&r[1])); /* both lanes are taken now */
    submit_ok(en, &r[2]);
    submit_ok(en, &r[3]);
    pthread_t stopper;
    assert_int_equal(pthread_create(&stopper, NULL, stop_engine, en), 0);
    do { /* the queue is full, so no request is taken until the stop is known */
        fixture_prepare(&probe, prompt, 30, 1);
        assert_int_not_equal(fixture_submit(en, &probe), SKIPPY_OK);
        fixture_release(&probe);
    } while (probe.submit_code != SKIPPY_E_BUSY);
    fixture_unhold(&r[1]);
    pthread_join(stopper, NULL);
    for (uint32_t i = 0; i < ALL; i++) {
        assert_true(r[i].done);
        expect_ended(&r[i], SKIPPY_E_CANCELLED, "shutting down");
        fixture_release(&r[i]);
    }
}

/* ---- good ends ---- */

static void n_predict_0_only_records_the_prompt(void **state) {
    (void)state;
    sk_engine *en = start((sk_engine_params){0});
    fixture_run r, after;
    fixture_generate(en, &r, prompt, N, 0);
    assert_int_equal(r.n_tokens, 0);
    assert_int_equal(r.finish, SK_FINISH_LIMIT);
    assert_string_equal(r.text, "");
    assert_int_equal(r.stats.predicted_n, 0);
    fixture_generate(en, &after, prompt, N, 1);
    assert_int_equal(after.stats.cache.tokens, N);
    assert_true(after.stats.cache.terminal_logits);
    fixture_release(&r);
    fixture_release(&after);
    finish(en, 2);
}

/* Two neighbouring bytes of plain ASCII somewhere after the beginning of a text. */
static bool find_stop(const char *text, char stop[3]) {
    for (size_t i = 1; text[0] && text[i] && text[i + 1]; i++) {
        if ((unsigned char)text[i] >= 0x80 || (unsigned char)text[i + 1] >= 0x80) continue;
        memcpy(stop, text + i, 2);
        stop[2] = '\0';
        return true;
    }
    return false;
}

static void a_stop_string_ends_the_answer_and_is_not_sent(void **state) {
    (void)state;
    sk_engine *en = start((sk_engine_params){0});
    fixture_run whole, cut;
    char stop[3];
    uint64_t ended = 0;
    do {
        ended++;
        fixture_generate(en, &whole, prompt + ended, 60, 40);
        fixture_release(&whole);
        assert_true(ended < 20); /* some answer has two plain letters */
    } while (!find_stop(whole.text, stop));
    const char *const stops[] = {"not in any answer", stop};
    fixture_prepare(&cut, prompt + ended, 60, 40);
    cut.request.stop = stops;
    cut.request.n_stop = 2;
    submit_ok(en, &cut);
    fixture_wait(&cut);
    assert_int_equal(cut.code, SKIPPY_OK);
    assert_int_equal(cut.finish, SK_FINISH_WORD);
    assert_string_equal(cut.stop_word, stop);
    size_t before = (size_t)(strstr(whole.text, stop) - whole.text);
    assert_int_equal(strlen(cut.text), before);
    assert_memory_equal(cut.text, whole.text, before);
    fixture_release(&cut);
    finish(en, ended + 1);
}

static void an_end_token_ends_the_answer(void **state) {
    (void)state;
    sk_engine *en = start((sk_engine_params){0});
    int32_t eog = 0;
    while (!sk_model_is_eog(model, eog)) eog++;
    const sk_logit_bias bias = {.token = eog, .bias = 1000};
    fixture_run r;
    fixture_prepare(&r, prompt, N, 20);
    r.request.sampling.ignore_eos = false;
    r.request.sampling.bias = &bias;
    r.request.sampling.n_bias = 1;
    submit_ok(en, &r);
    fixture_wait(&r);
    assert_int_equal(r.code, SKIPPY_OK);
    assert_int_equal(r.finish, SK_FINISH_STOP);
    assert_int_equal(r.n_tokens, 1);
    assert_string_equal(r.text, "");
    fixture_release(&r);
    finish(en, 1);
}

static void an_answer_ends_where_the_context_is_full(void **state) {
    (void)state;
    sk_engine *en = start((sk_engine_params){.n_ctx = 256, .n_lanes = 2});
    fixture_run r;
    fixture_generate(en, &r, prompt, 60, -1);
    assert_int_equal(r.finish, SK_FINISH_CONTEXT);
    assert_int_equal(60 + r.n_tokens, 256);
    fixture_release(&r);
    finish(en, 1);
}

static void times_stay_true_for_a_request_that_was_put_back(void **state) {
    (void)state;
    enum { CLIENTS = 4 };
    sk_engine *en = start((sk_engine_params){.n_ctx = 256, .n_lanes = CLIENTS});
    fixture_run r[CLIENTS];
    for (uint32_t i = 0; i < CLIENTS; i++) {
        fixture_prepare(&r[i], prompt + 30 * i, 40, 100); /* together more than the context */
        submit_ok(en, &r[i]);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        fixture_wait(&r[i]);
        assert_int_equal(r[i].code, SKIPPY_OK);
        assert_int_equal(r[i].n_tokens, 100);
        const sk_gen_stats *g = &r[i].stats;
        assert_true(g->queue_ms >= 0 && g->prompt_ms >= 0 && g->predicted_ms >= 0);
        /* parts of one time, that the clock bounds */
        assert_true(g->queue_ms + g->prompt_ms <= g->first_token_ms + 1);
        fixture_release(&r[i]);
    }
    sk_engine_stats s;
    fixture_settle(en, CLIENTS, &s);
    assert_true(s.preemptions > 0);
    finish(en, CLIENTS);
}

/* ---- parameters ---- */

static void impossible_parameters_are_refused_in_words(void **state) {
    (void)state;
    if (!model) skip();
    const struct {
        sk_engine_params p;
        const char *words;
    } bad[] = {
        {{.type_k = "q9_9"}, "'q9_9' is not known"},
        {{.type_v = "int4"}, "'int4' is not known"},
        {{.n_ctx = 1u << 20}, "larger than the model's 4096"},
        {{.n_lanes = 17}, "17 lanes"},
        {{.n_lanes = 8, .n_batch = 4, .n_ubatch = 4}, "smaller than the 8 lanes"},
        {{.cache_seqs = 1000}, "1000 cache sequences"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sk_engine *en = NULL;
        sk_err e = {0};
        assert_int_equal(sk_engine_start(model, &bad[i].p, &en, &e), SKIPPY_E_INVALID);
        assert_null(en);
        if (!strstr(e.text, bad[i].words)) fail_msg("'%s' does not say '%s'", e.text, bad[i].words);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_over_the_context_is_refused_with_both_numbers),
        cmocka_unit_test(malformed_requests_are_refused_in_words),
        cmocka_unit_test(a_full_queue_refuses_and_takes_again_later),
        cmocka_unit_test(draining_refuses_new_requests_and_finishes_the_others),
        cmocka_unit_test(a_deadline_that_has_passed_ends_a_request_before_it_starts),
        cmocka_unit_test(a_deadline_holds_in_the_queue),
        cmocka_unit_test(a_deadline_holds_while_generating),
        cmocka_unit_test(a_cancel_in_the_queue),
        cmocka_unit_test(a_cancelled_prompt_leaves_what_was_computed),
        cmocka_unit_test(a_cancelled_answer_leaves_prompt_and_answer),
        cmocka_unit_test(a_cancel_of_an_unknown_or_finished_job_is_ignored),
        cmocka_unit_test(a_stop_tells_running_and_queued_requests_once),
        cmocka_unit_test(n_predict_0_only_records_the_prompt),
        cmocka_unit_test(a_stop_string_ends_the_answer_and_is_not_sent),
        cmocka_unit_test(an_end_token_ends_the_answer),
        cmocka_unit_test(an_answer_ends_where_the_context_is_full),
        cmocka_unit_test(times_stay_true_for_a_request_that_was_put_back),
        cmocka_unit_test(impossible_parameters_are_refused_in_words),
    };
    return cmocka_run_group_tests_name("engine, requests that end early", tests, load_model, free_model);
}
