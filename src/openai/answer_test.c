#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/buf.h"
#include "openai/api.h"
#include "openai/fake_model.h"

#define USER "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define TOOLS                                                                                                          \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":\"object\","    \
    "\"properties\":{\"city\":{\"type\":\"string\"}},\"required\":[\"city\"]}}}]"

/* A template with tools in the manner of the Hermes and Qwen families. */
static const char tool_template[] =
    "{%- if tools %}<|im_start|>system\nTools:\n{%- for tool in tools %}\n{{ tool | tojson }}{%- endfor %}\nCall them in "
    "<tool_call></tool_call>.<|im_end|>\n{% endif %}{%- for message in messages %}{%- if message.role == 'assistant' and "
    "message.tool_calls %}<|im_start|>assistant\n{{ message.content }}{%- for call in message.tool_calls %}\n<tool_call>\n{\"name\": "
    "\"{{ call.function.name }}\", \"arguments\": {{ call.function.arguments | tojson }}}\n</tool_call>{%- endfor "
    "%}<|im_end|>\n{%- elif message.role == 'tool' %}<|im_start|>user\n<tool_response>\n{{ message.content "
    "}}\n</tool_response><|im_end|>\n{%- else %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{%- endif %}{%- "
    "endfor %}{%- if add_generation_prompt %}<|im_start|>assistant\n{%- endif %}";

static sk_api *open_api(const char *chat_template) {
    sk_api_params p = {.model = fake_model(),
                       .model_id = "fake",
                       .n_ctx = 4096,
                       .chat_template = chat_template,
                       .default_n_predict = -1};
    sk_api *api = NULL;
    sk_err e = {0};
    if (sk_api_create(&p, &api, &e)) fail_msg("%s", e.text);
    return api;
}

static sk_api_call *open_call(sk_api *api, enum sk_api_kind kind, const char *body) {
    sk_api_call *c = NULL;
    sk_api_error err = {0};
    if (sk_api_parse(api, kind, body, strlen(body), &c, &err)) fail_msg("%s: %s", err.param, err.message);
    return c;
}

static void start(sk_api_call *c, size_t job, size_t cached, sk_buf *out) {
    size_t n = sk_api_call_request(c, job)->n_tokens;
    sk_gen_stats s = {.n_prompt = n, .cache_n = cached < n ? cached : n - 1, .cache = {.tokens = cached}};
    s.prompt_n = n - s.cache_n;
    sk_gen_event ev = {.type = SK_EV_START, .stats = &s};
    assert_int_equal(sk_api_call_event(c, job, &ev, out), SKIPPY_OK);
}

/* One token for each byte of text, with two alternatives. */
static void text(sk_api_call *c, size_t job, const char *s, sk_buf *out) {
    static const sk_token_prob top[2] = {{'a', -0.5f}, {'b', -1.5f}};
    sk_gen_token tokens[256];
    size_t n = strlen(s);
    for (size_t i = 0; i < n; i++)
        tokens[i] = (sk_gen_token){
            .token = (unsigned char)s[i], .chosen = {(unsigned char)s[i], -0.25f}, .top = top, .n_top = 2};
    sk_gen_event ev = {.type = SK_EV_TEXT, .text = s, .len = n, .tokens = tokens, .n_tokens = n};
    assert_int_equal(sk_api_call_event(c, job, &ev, out), SKIPPY_OK);
}

static void done(sk_api_call *c, size_t job, enum sk_finish finish, size_t cached, sk_buf *out) {
    size_t n = sk_api_call_request(c, job)->n_tokens;
    sk_gen_stats s = {
        .n_prompt = n, .cache_n = cached < n ? cached : n - 1, .predicted_n = 2, .prompt_ms = 4, .predicted_ms = 8};
    s.prompt_n = n - s.cache_n;
    s.cache.tokens = cached;
    sk_gen_event ev = {
        .type = SK_EV_DONE, .finish = finish, .stop_word = finish == SK_FINISH_WORD ? "END" : NULL, .stats = &s};
    assert_int_equal(sk_api_call_event(c, job, &ev, out), SKIPPY_OK);
}

static json_t *body_of(sk_api_call *c, int status) {
    sk_buf out = {0};
    assert_true(sk_api_call_done(c));
    assert_int_equal(sk_api_call_response(c, &out), status);
    json_error_t e;
    json_t *v = json_loadb(out.data, out.len, 0, &e);
    if (!v) fail_msg("%s in %s", e.text, out.data);
    sk_buf_free(&out);
    return v;
}

/* Value at a path such as "choices.0.message.content"; fails when there is none. */
static const json_t *at(const json_t *v, const char *path) {
    char copy[256];
    snprintf(copy, sizeof copy, "%s", path);
    for (char *save = NULL, *part = strtok_r(copy, ".", &save); part; part = strtok_r(NULL, ".", &save)) {
        v = json_is_array(v) ? json_array_get(v, strtoul(part, NULL, 10)) : json_object_get(v, part);
        if (!v) fail_msg("no %s in %s", part, path);
    }
    return v;
}

static void assert_text(const json_t *v, const char *path, const char *expected) {
    const char *s = json_string_value(at(v, path));
    if (!s || strcmp(s, expected) != 0) fail_msg("%s is '%s', not '%s'", path, s ? s : "(no string)", expected);
}

static void assert_count(const json_t *v, const char *path, json_int_t expected) {
    const json_t *n = at(v, path);
    if (!json_is_integer(n) || json_integer_value(n) != expected)
        fail_msg("%s is %lld, not %lld", path, (long long)json_integer_value(n), (long long)expected);
}

/* The JSON of each SSE message, as an array; "[DONE]" becomes a string. */
static json_t *messages_of(const sk_buf *out) {
    json_t *list = json_array();
    const char *p = out->data;
    while (p && *p) {
        const char *end = strstr(p, "\n\n");
        assert_memory_equal(p, "data: ", 6);
        assert_non_null(end);
        size_t n = (size_t)(end - p) - 6;
        json_error_t e;
        json_t *v = n == 6 && !memcmp(p + 6, "[DONE]", 6) ? json_string("[DONE]") : json_loadb(p + 6, n, 0, &e);
        if (!v) fail_msg("%.*s", (int)n, p + 6);
        json_array_append_new(list, v);
        p = end + 2;
    }
    return list;
}

static void a_chat_answer_has_the_openai_shape(void **state) {
    (void)state;
    sk_api *api = open_api(NULL);
    sk_api_call *c = open_call(api, SK_API_CHAT, "{" USER "}");
    sk_buf out = {0};
    size_t n = sk_api_call_request(c, 0)->n_tokens;
    start(c, 0, 5, &out);
    text(c, 0, "Hello", &out);
    text(c, 0, " \"you\"", &out);
    done(c, 0, SK_FINISH_STOP, 5, &out);
    assert_int_equal(out.len, 0);
    json_t *v = body_of(c, 200);
    assert_text(v, "object", "chat.completion");
    assert_text(v, "model", "fake");
    assert_text(v, "choices.0.message.role", "assistant");
    assert_text(v, "choices.0.message.content", "Hello \"you\"");
    assert_text(v, "choices.0.finish_reason", "stop");
    assert_true(json_is_null(at(v, "choices.0.logprobs")));
    assert_memory_equal(json_string_value(at(v, "id")), "chatcmpl-", 9);
    assert_count(v, "usage.prompt_tokens", (json_int_t)n);
    assert_count(v, "usage.completion_tokens", 11);
    assert_count(v, "usage.total_tokens", (json_int_t)n + 11);
    assert_count(v, "usage.prompt_tokens_details.cached_tokens", 5);
    assert_count(v, "timings.cache_n", 5);
    assert_count(v, "timings.prompt_n", (json_int_t)n - 5);
    json_decref(v);
    sk_api_call_free(c);
    sk_api_destroy(api);
}

static void an_exact_repeat_reports_the_whole_prompt_as_cached(void **state) {
    (void)state;
    sk_api *api = open_api(NULL);
    sk_api_call *c = open_call(api, SK_API_CHAT, "{" USER "}");
    sk_buf out = {0};
    json_int_t n = (json_int_t)sk_api_call_request(c, 0)->n_tokens;
    start(c, 0, (size_t)n, &out);
    done(c, 0, SK_FINISH_LIMIT, (size_t)n + 3, &out);
    json_t *v = body_of(c, 200);
    assert_count(v, "usage.prompt_tokens_details.cached_tokens", n);
    assert_count(v, "timings.cache_n", n - 1);
    assert_text(v, "choices.0.finish_reason", "length");
    json_decref(v);
    sk_api_call_free(c);
    sk_api_destroy(api);
}

static void a_chat_stream_opens_with_a_role_and_ends_with_usage_and_done(void **state) {
    (void)state;
    sk_api *api = open_api(NULL);
    sk_api_call *c =
        open_call(api, SK_API_CHAT, "{" USER ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    sk_buf out = {0};
    start(c, 0, 0, &out);
    assert_int_equal(out.len, 0);
    text(c, 0, "Hel", &out);
    sk_gen_event nothing = {.type = SK_EV_TEXT, .text = "", .len = 0};
    sk_api_call_event(c, 0, &nothing, &out);
    text(c, 0, "lo", &out);
    done(c, 0, SK_FINISH_LIMIT, 0, &out);
    assert_true(sk_api_call_done(c));
    json_t *m = messages_of(&out);
    assert_int_equal(json_array_size(m), 6);
    assert_text(m, "0.object", "chat.completion.chunk");
    assert_text(m, "0.choices.0.delta.role", "assistant");
    assert_text(m, "1.choices.0.delta.content", "Hel");
    assert_true(json_is_null(at(m, "1.choices.0.finish_reason")));
    assert_true(json_is_null(at(m, "1.usage")));
    assert_text(m, "2.choices.0.delta.content", "lo");
    assert_text(m, "3.choices.0.finish_reason", "length");
    assert_int_equal(json_array_size(at(m, "4.choices")), 0);
    assert_count(m, "4.usage.completion_tokens", 5);
    assert_text(m, "5", "[DONE]");
    json_decref(m);
    sk_buf_free(&out);
    sk_api_call_free(c);
    sk_api_destroy(api);
}

static void two_choices_are_kept_apart_and_their_prompt_counts_once(void **state) {
    (void)state;
    sk_api *api = open_api(NULL);
    sk_api_call *c = open_call(api, SK_API_CHAT, "{" USER ",\"n\":2,\"seed\":7}");
    sk_buf out = {0};
    assert_int_equal(sk_api_call_jobs(c), 2);
    assert_int_equal(sk_api_call_request(c, 0)->sampling.seed, 7);
    assert_int_equal(sk_api_call_request(c, 1)->sampling.seed, 8);
    text(c, 1, "two", &out);
    text(c, 0, "one", &out);
    done(c, 1, SK_FINISH_STOP, 0, &out);
    assert_false(sk_api_call_done(c));
    done(c, 0, SK_FINISH_STOP, 0, &out);
    json_t *v = body_of(c, 200);
    assert_text(v, "choices.0.message.content", "one");
    assert_text(v, "choices.1.message.content", "two");
    assert_count(v, "usage.prompt_tokens", (json_int_t)sk_api_call_request(c, 0)->n_tokens);
    assert_count(v, "usage.completion_tokens", 6);
    json_decref(v);
    sk_api_call_free(c);
    sk_api_destroy(api);
}

static void chat_logprobs_carry_tokens_bytes_and_alternatives(void **state) {
    (void)state;
    sk_api *api = open_api(NULL);
    sk_api_call *c = open_call(api, SK_API_CHAT, "{" USER ",\"logprobs\":true,\"top_logprobs\":1}");
    sk_buf out = {0};
    text(c, 0, "q", &out);
    done(c, 0, SK_FINISH_STOP, 0, &out);
    json_t *v = body_of(c, 200);
    assert_text(v, "choices.0.logprobs.content.0.token", "q");
    assert_count(v, "choices.0.logprobs.content.0.bytes.0", 'q');
    assert_int_equal(json_array_size(at(v, "choices.0.logprobs.content.0.top_logprobs")), 1);
    assert_text(v, "choices.0.logprobs.content.0.top_logprobs.0.token", "a");
    assert_float_equal(json_number_value(at(v, "choices.0.logprobs.content.0.logprob")), -0.25, 1e-6);
    json_decref(v);
    sk_api_call_free(c);
    sk_api_destroy(api);
}

static void a_tool_call_is_read_from_the_text(void **state) {
    (void)state;
    sk_api *api = open_api(tool_template);
    sk_api_call *c = open_call(api, SK_API_CHAT, "{" USER "," TOOLS "}");
    sk_buf out = {0};
    assert_non_null(sk_api_call_request(c, 0)->sampling.grammar);
    assert_true(sk_api_call_request(c, 0)->sampling.grammar_lazy);
    assert_true(sk_api_call_request(c, 0)->sampling.n_triggers > 0);
    text(c, 0, "\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Ulm\"}}\n</tool_call>", &out);
    done(c, 0, SK_FINISH_STOP, 0, &out);
    json_t *v = body_of(c, 200);
    assert_true(json_is_null(at(v, "choices.0.message.content")));
    assert_text(v, "choices.0.message.tool_calls.0.type", "function");
    assert_text(v, "choices.0.message.tool_calls.0.function.name", "get_weather");
    assert_text(v, "choices.0.message.tool_calls.0.function.arguments", "{\"city\": \"Ulm\"}");
    assert_text(v, "choices.0.finish_reason", "tool_calls");
    json_decref(v);
    sk_api_call_free(c);
    sk_api_destroy(api);
}

static void a_streamed_tool_call_names_itself_once(void **state) {
    (void)state;
    sk_api *api = open_api(tool_template);
    sk_api_call *c = open_call(api, SK_API_CHAT, "{" USER "," TOOLS ",\"stream\":true}");
    static const char answer[] =
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Ulm\"}}\n</tool_call>";
    sk_buf out = {0}, arguments = {0};
    for (size_t i = 0; answer[i]; i++) text(c, 0, (const char[]){answer[i], '\0'}, &out);
    done(c, 0, SK_FINISH_STOP, 0, &out);
    json_t *m = messages_of(&out);
    size_t names = 0, n = json_array_size(m);
    for (size_t i = 0; i + 1 < n; i++) {
        const json_t *call = json_object_get(at(json_array_get(m, i), "choices.0.delta"), "tool_calls");
        if (!call) continue;
        assert_count(call, "0.index", 0);
        if (json_object_get(at(call, "0.function"), "name")) names++;
        sk_buf_str(&arguments, json_string_value(at(call, "0.function.arguments")));
    }
    assert_int_equal(names, 1);
    assert_string_equal(arguments.data, "{\"city\": \"Ulm\"}");
    assert_text(json_array_get(m, n - 2), "choices.0.finish_reason", "tool_calls");
    json_decref(m);
    sk_buf_free(&out);
    sk_buf_free(&arguments);
    sk_api_call_free(c);
    sk_api_destroy(api);
}

static void an_error_in_a_stream_is_told_and_the_stream_ends(void **state) {
    (void)state;
    sk_api *api = open_api(NULL);
    sk_api_call *c = open_call(api, SK_API_CHAT, "{" USER ",\"stream\":true}");
    sk_buf out = {0};
    text(c, 0, "Hel", &out);
    sk_gen_event ev = {.type = SK_EV_ERROR, .code = SKIPPY_E_CANCELLED, .error = "the server is shutting down"};
    assert_int_equal(sk_api_call_event(c, 0, &ev, &out), SKIPPY_OK);
    assert_true(sk_api_call_done(c));
    json_t *m = messages_of(&out);
    size_t n = json_array_size(m);
    assert_text(json_array_get(m, n - 2), "error.message", "the server is shutting down");
    assert_text(json_array_get(m, n - 2), "error.type", "server_error");
    assert_text(json_array_get(m, n - 1), "", "[DONE]");
    assert_int_equal(sk_api_call_event(c, 0, &ev, &out), SKIPPY_E_INVALID); /* nothing follows a last event */
    json_decref(m);
    sk_buf_free(&out);
    sk_api_call_free(c);
    sk_api_destroy(api);
}

static void a_failed_job_makes_the_answer_an_error_object(void **state) {
    (void)state;
    sk_api *api = open_api(NULL);
    sk_api_call *c = open_call(api, SK_API_CHAT, "{" USER ",\"n\":2}");
    sk_buf out = {0};
    text(c, 0, "x", &out);
    done(c, 0, SK_FINISH_STOP, 0, &out);
    sk_api_call_fail(c, 1, SKIPPY_E_FULL, "256 requests are waiting", &out);
    json_t *v = body_of(c, 429);
    assert_text(v, "error.message", "256 requests are waiting");
    assert_text(v, "error.type", "rate_limit_error");
    json_decref(v);
    sk_api_call_free(c);
    sk_api_destroy(api);
}

static void completions_echo_and_report_legacy_logprobs(void **state) {
    (void)state;
    sk_api *api = open_api(NULL);
    sk_buf out = {0};
    sk_api_call *c = open_call(api, SK_API_COMPLETIONS, "{\"prompt\":[\"ab\",\"cd\"],\"echo\":true}");
    assert_int_equal(sk_api_call_jobs(c), 2);
    for (size_t i = 0; i < 2; i++) {
        text(c, i, "!", &out);
        done(c, i, SK_FINISH_STOP, 0, &out);
    }
    json_t *v = body_of(c, 200);
    assert_text(v, "object", "text_completion");
    assert_text(v, "choices.0.text", "ab!");
    assert_text(v, "choices.1.text", "cd!");
    assert_count(v, "usage.prompt_tokens", 6); /* two texts of two bytes, each behind a begin-of-text token */
    json_decref(v);
    sk_api_call_free(c);
    c = open_call(api, SK_API_COMPLETIONS, "{\"prompt\":[97,98],\"logprobs\":2}");
    text(c, 0, "xy", &out);
    done(c, 0, SK_FINISH_STOP, 0, &out);
    v = body_of(c, 200);
    assert_text(v, "choices.0.logprobs.tokens.1", "y");
    assert_count(v, "choices.0.logprobs.text_offset.1", 1);
    assert_float_equal(json_number_value(at(v, "choices.0.logprobs.top_logprobs.0.b")), -1.5, 1e-6);
    assert_count(v, "usage.prompt_tokens", 2);
    json_decref(v);
    sk_api_call_free(c);
    sk_api_destroy(api);
}

static void llama_answers_have_its_fields(void **state) {
    (void)state;
    sk_api *api = open_api(NULL);
    sk_buf out = {0};
    sk_api_call *c =
        open_call(api, SK_API_LLAMA,
                  "{\"prompt\":[97,\"bc\"],\"n_predict\":3,\"return_tokens\":true,\"n_probs\":2,\"stop\":[\"END\"]}");
    assert_int_equal(sk_api_call_request(c, 0)->n_stop, 1);
    text(c, 0, "x\n", &out);
    done(c, 0, SK_FINISH_WORD, 2, &out);
    json_t *v = body_of(c, 200);
    assert_text(v, "content", "x\n");
    assert_count(v, "tokens.0", 'x');
    assert_true(json_is_true(at(v, "stop")));
    assert_text(v, "stop_type", "word");
    assert_text(v, "stopping_word", "END");
    assert_text(v, "prompt", "abc");
    assert_count(v, "tokens_predicted", 2);
    assert_count(v, "tokens_evaluated", 3);
    assert_count(v, "tokens_cached", 4);
    assert_true(json_is_true(at(v, "has_new_line")));
    assert_false(json_is_true(at(v, "truncated")));
    assert_count(v, "timings.cache_n", 2);
    assert_count(v, "timings.prompt_n", 1);
    assert_count(v, "generation_settings.n_predict", 3);
    assert_count(v, "completion_probabilities.0.id", 'x');
    assert_int_equal(json_array_size(at(v, "completion_probabilities")), 2);
    json_decref(v);
    sk_api_call_free(c);
    c = open_call(api, SK_API_LLAMA, "{\"prompt\":\"abc\",\"stream\":true}");
    text(c, 0, "x", &out);
    done(c, 0, SK_FINISH_CONTEXT, 0, &out);
    json_t *m = messages_of(&out);
    assert_int_equal(json_array_size(m), 2);
    assert_text(m, "0.content", "x");
    assert_true(json_is_false(at(m, "0.stop")));
    assert_text(m, "1.stop_type", "limit");
    assert_true(json_is_true(at(m, "1.truncated")));
    json_decref(m);
    sk_buf_free(&out);
    sk_api_call_free(c);
    sk_api_destroy(api);
}

static void progress_is_streamed_when_it_was_asked_for(void **state) {
    (void)state;
    sk_api *api = open_api(NULL);
    sk_buf out = {0};
    sk_api_call *c = open_call(api, SK_API_CHAT, "{" USER ",\"stream\":true,\"return_progress\":true}");
    assert_true(sk_api_call_request(c, 0)->want_progress);
    sk_gen_stats s = {.n_prompt = 20, .cache_n = 4};
    sk_gen_event ev = {.type = SK_EV_PROGRESS, .n_processed = 12, .stats = &s};
    sk_api_call_event(c, 0, &ev, &out);
    json_t *m = messages_of(&out);
    assert_count(m, "1.prompt_progress.processed", 12);
    assert_count(m, "1.prompt_progress.cache", 4);
    assert_count(m, "1.prompt_progress.total", 20);
    json_decref(m);
    sk_buf_free(&out);
    sk_api_call_free(c);
    sk_api_destroy(api);
}

static void a_prompt_over_the_context_is_refused_with_both_numbers(void **state) {
    (void)state;
    sk_api_params p = {.model = fake_model(), .model_id = "fake", .n_ctx = 8, .default_n_predict = -1};
    sk_api *api = NULL;
    sk_api_call *c;
    sk_api_error err;
    static const char body[] = "{\"prompt\":\"0123456789\"}";
    assert_int_equal(sk_api_create(&p, &api, NULL), SKIPPY_OK);
    assert_int_equal(sk_api_parse(api, SK_API_LLAMA, body, sizeof body - 1, &c, &err), 400);
    assert_string_equal(err.code, "context_length_exceeded");
    assert_non_null(strstr(err.message, "11 tokens, and the context holds 8"));
    sk_api_destroy(api);
}

static void one_shot(int (*fn)(sk_api *, const char *, size_t, sk_buf *), sk_api *api, const char *body, int status,
                     const char *expected) {
    sk_buf out = {0};
    int got = fn(api, body, strlen(body), &out);
    if (got != status || !strstr(out.data, expected)) fail_msg("%s gave %d %s", body, got, out.data);
    sk_buf_free(&out);
}

static void one_shot_endpoints_answer_and_refuse(void **state) {
    (void)state;
    sk_api *api = open_api(NULL);
    one_shot(sk_api_tokenize, api, "{\"content\":\"ab\"}", 200, "{\"tokens\":[97,98]}");
    one_shot(sk_api_tokenize, api, "{\"content\":\"a\",\"add_special\":true}", 200, "[256,97]");
    one_shot(sk_api_tokenize, api, "{\"content\":\"<s>\",\"parse_special\":false}", 200, "[60,115,62]");
    one_shot(sk_api_tokenize, api, "{\"content\":\"\xc3\xa9\",\"with_pieces\":true}", 200,
             "{\"id\":195,\"piece\":[195]}");
    one_shot(sk_api_tokenize, api, "{}", 400, "'content' must be a string");
    one_shot(sk_api_tokenize, api, "nonsense", 400, "not valid JSON");
    one_shot(sk_api_detokenize, api, "{\"tokens\":[104,105,258]}", 200, "{\"content\":\"hi<|im_start|>\"}");
    one_shot(sk_api_detokenize, api, "{\"tokens\":[260]}", 400, "entry 0 of 'tokens'");
    one_shot(sk_api_detokenize, api, "{\"tokens\":\"x\"}", 400, "must be an array");
    one_shot(sk_api_apply_template, api, "{" USER "}", 200,
             "<|im_start|>user\\nhi<|im_end|>\\n<|im_start|>assistant\\n");
    one_shot(sk_api_apply_template, api, "{\"messages\":[]}", 400, "'messages' is empty");
    sk_buf out = {0};
    sk_api_models(api, &out);
    json_t *v = json_loadb(out.data, out.len, 0, NULL);
    assert_text(v, "object", "list");
    assert_text(v, "data.0.id", "fake");
    json_decref(v);
    sk_buf_free(&out);
    assert_non_null(strstr(sk_api_template_source(api), "<|im_start|>"));
    sk_api_destroy(api);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chat_answer_has_the_openai_shape),
        cmocka_unit_test(an_exact_repeat_reports_the_whole_prompt_as_cached),
        cmocka_unit_test(a_chat_stream_opens_with_a_role_and_ends_with_usage_and_done),
        cmocka_unit_test(two_choices_are_kept_apart_and_their_prompt_counts_once),
        cmocka_unit_test(chat_logprobs_carry_tokens_bytes_and_alternatives),
        cmocka_unit_test(a_tool_call_is_read_from_the_text),
        cmocka_unit_test(a_streamed_tool_call_names_itself_once),
        cmocka_unit_test(an_error_in_a_stream_is_told_and_the_stream_ends),
        cmocka_unit_test(a_failed_job_makes_the_answer_an_error_object),
        cmocka_unit_test(completions_echo_and_report_legacy_logprobs),
        cmocka_unit_test(llama_answers_have_its_fields),
        cmocka_unit_test(progress_is_streamed_when_it_was_asked_for),
        cmocka_unit_test(a_prompt_over_the_context_is_refused_with_both_numbers),
        cmocka_unit_test(one_shot_endpoints_answer_and_refuse),
    };
    return cmocka_run_group_tests_name("answer", tests, NULL, NULL);
}
