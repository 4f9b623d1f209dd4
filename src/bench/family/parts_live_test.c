/* The parts "agent" and "curve" against the program itself, on a generated model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/test_folder.h"
#include "bench/family/turns.h"
#include "runtime/test_models.h"

enum { LANES = 3, LANE_TOKENS = 1280, TIMEOUT_MS = 60000, CLIENTS = 3, REQUESTS = 5, GENERATED = 6 };

#define ANSWER_TOKENS "8"

/* Every kind of step, and a first line that changes. */
static const char every_step[] =
    "{\"version\":1,\"conversations\":[{\"key\":\"every_step\",\"label\":\"every step\",\"what\":\"everything moves\","
    "\"steps\":["
    "{\"do\":\"system\",\"text\":\"Request {{turn}}. You are a helpful agent that answers briefly.\"},"
    "{\"do\":\"user\",\"text\":\"What is the weather like in the town where the river meets the sea?\"},"
    "{\"do\":\"ask\",\"max_tokens\":" ANSWER_TOKENS ",\"strip_percent\":50},"
    "{\"do\":\"side\",\"text\":\"Give this talk a title.\",\"max_tokens\":" ANSWER_TOKENS "},"
    "{\"do\":\"system\",\"text\":\"You are a helpful agent that answers briefly and to the point.\"},"
    "{\"do\":\"tool\",\"text\":\"{\\\"temperature\\\": 12, \\\"wind\\\": \\\"north\\\"}\"},"
    "{\"do\":\"ask\",\"max_tokens\":" ANSWER_TOKENS "},"
    "{\"do\":\"regenerate\",\"max_tokens\":" ANSWER_TOKENS "},"
    "{\"do\":\"user\",\"text\":\"And tomorrow?\"},"
    "{\"do\":\"ask\",\"max_tokens\":" ANSWER_TOKENS "},"
    "{\"do\":\"edit\",\"drop\":2,\"text\":\"And the day after tomorrow?\"},"
    "{\"do\":\"ask\",\"max_tokens\":" ANSWER_TOKENS "}]}]}";

static const char *const kinds[] = {"ask user", "side user", "ask tool", "regenerate tool", "ask user", "ask edit"};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

typedef struct fixture {
    char folder[64];
    char program[1024];
    sk_family_host host;
    sk_family_cell cell;
    sk_family_sizes sizes;
    sk_part_task task;
    sk_turns turns;
} fixture;

static fixture f;

static int stop(void **state) {
    (void)state;
    sk_host_free(&f.host);
    return f.folder[0] ? test_remove_tree(f.folder) : 0;
}

static int start(void **state) {
    (void)state;
    const char *build = getenv("SKIPPY_BUILD_DIR");
    const char *model = test_model_path("llama");
    sk_err e = {0};
    if (!build || !model) {
        return -1;
    }
    snprintf(f.program, sizeof f.program, "%s/skippy", build);
    snprintf(f.folder, sizeof f.folder, "parts-live-XXXXXX");
    if (!mkdtemp(f.folder)) {
        return -1;
    }
    f.sizes = (sk_family_sizes){.seed = 1,
                                .suffix_tokens = 8,
                                .n_concurrency = 1,
                                .concurrency = {CLIENTS},
                                .concurrent_requests = REQUESTS,
                                .concurrent_output_tokens = GENERATED,
                                .ttft_slo_ms = 600000,
                                .tpot_slo_ms = 600000};
    f.cell = (sk_family_cell){.prefix_tokens = 32};
    f.task = (sk_part_task){.cell = &f.cell, .sizes = &f.sizes};
    f.host = (sk_family_host){.name = SK_HOST_OURS,
                              .ours = true,
                              .launch = {.program = f.program,
                                         .subcommand = "serve",
                                         .model = model,
                                         .n_ctx = LANES * LANE_TOKENS,
                                         .threads = 1,
                                         .lanes = LANES,
                                         .cache_home = f.folder,
                                         .ready_timeout_ms = TIMEOUT_MS},
                              .folder = f.folder,
                              .timeout_ms = TIMEOUT_MS};
    f.turns = (sk_turns){.hosts = &f.host, .n_hosts = 1, .together = true, .task = &f.task};
    const int rc = sk_host_start(&f.host, &e);
    if (rc != SKIPPY_OK) {
        printf("the server does not start: %s\n", e.text);
    }
    return rc;
}

/* Runs a part on the one server; the caller frees *out. */
static void run(const sk_part *part, int expected, sk_part_result *out) {
    const int rc = sk_turns_run(&f.turns, part, out);
    if (rc != expected) {
        fail_msg("%s ended with %d: %s", part->name, rc, out->err.text);
    }
}

static void load_conversations(const char *text, sk_replay_corpus *corpus) {
    sk_err e = {0};
    if (sk_replay_parse(text, strlen(text), corpus, &e) != SKIPPY_OK) {
        fail_msg("%s", e.text);
    }
    f.task.replay = corpus;
}

static void free_conversations(sk_replay_corpus *corpus) {
    f.task.replay = NULL;
    sk_replay_free(corpus);
}

/* The sum of all requests is the one sample of its series; nothing was larger than the room that was asked for. */
static void check_samples(const sk_measurement *m) {
    const sk_series *all = sk_measurement_find(m, "all conversations");
    const sk_series *s = sk_measurement_find(m, "every_step");
    const size_t room = sk_part_agent.lane_tokens(&f.task);
    sk_sample sum = {0};
    assert_non_null(s);
    assert_non_null(all);
    assert_int_equal(s->n, N_KINDS);
    assert_int_equal(all->n, 1);
    assert_true(room <= LANE_TOKENS);
    for (size_t i = 0; i < s->n; i++) {
        assert_true(s->v[i].cache_n + s->v[i].prompt_n < room);
        sum.ms += s->v[i].ms;
        sum.cache_n += s->v[i].cache_n;
        sum.prompt_n += s->v[i].prompt_n;
    }
    assert_float_equal(all->v[0].ms, sum.ms, 1e-6);
    assert_int_equal(all->v[0].cache_n, sum.cache_n);
    assert_int_equal(all->v[0].prompt_n, sum.prompt_n);
    assert_true(s->v[3].cache_n >= s->v[2].cache_n + s->v[2].prompt_n - 1); /* made again: all of it is known */
    assert_true(s->v[5].cache_n > s->v[5].prompt_n);                        /* edited: all but the end is */
}

static void check_kinds(const json_t *extra) {
    const json_t *list = json_object_get(json_object_get(extra, "steps"), "every_step");
    assert_int_equal(json_array_size(list), N_KINDS);
    for (size_t i = 0; i < N_KINDS; i++) {
        const json_t *step = json_array_get(list, i);
        char text[64];
        snprintf(text, sizeof text, "%s %s", json_string_value(json_object_get(step, "do")),
                 json_string_value(json_object_get(step, "after")));
        assert_string_equal(text, kinds[i]);
    }
}

static void a_conversation_is_replayed_with_every_kind_of_step(void **state) {
    (void)state;
    sk_replay_corpus corpus;
    sk_part_result out;
    size_t cold = 0;
    load_conversations(every_step, &corpus);
    run(&sk_part_agent, SKIPPY_OK, &out);
    check_samples(&out.m[0]);
    check_kinds(out.extra[0]);
    for (size_t i = 0; i < out.m[0].n_answers; i++) {
        cold += out.m[0].answers[i].cold;
    }
    assert_int_equal(cold, 1); /* only the first request has no answers of the server in it */
    sk_part_result_free(&out);
    free_conversations(&corpus);
}

/* What a server answers must not get into the digest: servers may differ at a near tie. */
static void equal_conversations_have_equal_digests(void **state) {
    (void)state;
    sk_replay_corpus corpus;
    sk_part_result first, second, other;
    load_conversations(every_step, &corpus);
    run(&sk_part_agent, SKIPPY_OK, &first);
    run(&sk_part_agent, SKIPPY_OK, &second);
    assert_memory_equal(first.m[0].prompts_digest, second.m[0].prompts_digest, SK_HASH_BYTES);
    corpus.v[0].step[corpus.v[0].n_steps - 1].max_tokens++;
    run(&sk_part_agent, SKIPPY_OK, &other);
    assert_memory_not_equal(first.m[0].prompts_digest, other.m[0].prompts_digest, SK_HASH_BYTES);
    sk_part_result_free(&first);
    sk_part_result_free(&second);
    sk_part_result_free(&other);
    free_conversations(&corpus);
}

static void a_conversation_that_does_not_fit_fails_with_the_servers_words(void **state) {
    (void)state;
    sk_buf text = {0};
    sk_replay_corpus corpus;
    sk_part_result out;
    sk_buf_str(&text, "{\"version\":1,\"conversations\":[{\"key\":\"long\",\"label\":\"l\",\"what\":\"w\",\"steps\":["
                      "{\"do\":\"user\",\"text\":\"");
    for (size_t i = 0; i < LANES * LANE_TOKENS; i++) {
        sk_buf_str(&text, "word ");
    }
    sk_buf_str(&text, "\"},{\"do\":\"ask\",\"max_tokens\":4}]}]}");
    load_conversations(text.data, &corpus);
    run(&sk_part_agent, SKIPPY_E_RUNTIME, &out);
    assert_non_null(strstr(out.err.text, "/v1/chat/completions answered 400: "));
    assert_null(sk_measurement_find(&out.m[0], "all conversations"));
    sk_part_result_free(&out);
    free_conversations(&corpus);
    sk_buf_free(&text);
}

static void a_level_of_the_curve_has_the_times_of_every_request(void **state) {
    (void)state;
    sk_part_result out;
    run(&sk_part_curve, SKIPPY_OK, &out);
    const json_t *levels = json_object_get(out.extra[0], "levels");
    const json_t *level = json_array_get(levels, 0);
    assert_int_equal(json_array_size(levels), 1);
    assert_int_equal(json_integer_value(json_object_get(level, "clients")), CLIENTS);
    assert_int_equal(json_integer_value(json_object_get(level, "requests")), REQUESTS);
    assert_int_equal(json_integer_value(json_object_get(level, "ok")), REQUESTS);
    assert_int_equal(json_integer_value(json_object_get(level, "within_slo")), REQUESTS);
    assert_int_equal(json_array_size(json_object_get(level, "ttft_ms")), REQUESTS);
    assert_int_equal(json_array_size(json_object_get(level, "elapsed_ms")), REQUESTS);
    assert_true(json_real_value(json_object_get(level, "goodput_rps")) > 0.0);
    const sk_series *ttft = sk_measurement_find(&out.m[0], "ttft");
    const sk_series *tpot = sk_measurement_find(&out.m[0], "tpot");
    assert_non_null(ttft);
    assert_non_null(tpot);
    assert_int_equal(ttft->n, REQUESTS);
    assert_int_equal(tpot->n, json_array_size(json_object_get(level, "tpot_ms")));
    for (size_t i = 0; i < REQUESTS; i++) {
        assert_int_equal(ttft->v[i].cache_n + ttft->v[i].prompt_n, f.cell.prefix_tokens + f.sizes.suffix_tokens);
    }
    sk_part_result_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_conversation_is_replayed_with_every_kind_of_step),
        cmocka_unit_test(equal_conversations_have_equal_digests),
        cmocka_unit_test(a_conversation_that_does_not_fit_fails_with_the_servers_words),
        cmocka_unit_test(a_level_of_the_curve_has_the_times_of_every_request),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
