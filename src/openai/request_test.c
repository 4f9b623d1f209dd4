#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "openai/error.h"
#include "openai/request.h"

static const sk_request_limits limits = {.n_vocab = 1000, .default_n_predict = -1};

#define USER "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define TOOL(params) "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":" params "}}"

static int parse(enum sk_api_kind kind, const char *body, sk_request *r, sk_api_error *err) {
    memset(err, 0, sizeof *err);
    return sk_request_parse(kind, body, strlen(body), &limits, r, err);
}

typedef struct refusal {
    enum sk_api_kind kind;
    const char *body;
    const char *param;   /* expected param, "" = null */
    const char *message; /* expected part of the message */
} refusal;

static const refusal refusals[] = {
    {SK_API_CHAT, "", "", "empty"},
    {SK_API_CHAT, "{", "", "not valid JSON"},
    {SK_API_CHAT, "[1]", "", "an array; a JSON object is expected"},
    {SK_API_CHAT, "{\"a\":\"\xff\"}", "", "not valid JSON"},
    {SK_API_CHAT, "{\"temperature\":1e999}", "", "not valid JSON"},
    {SK_API_CHAT, "{} trailing", "", "not valid JSON"},
    {SK_API_CHAT, "{}", "messages", "missing"},
    {SK_API_CHAT, "{\"messages\":[]}", "messages", "empty"},
    {SK_API_CHAT, "{\"messages\":{}}", "messages", "must be an array, but it is an object"},
    {SK_API_CHAT, "{\"messages\":[1]}", "messages[0]", "must be an object, but it is an integer"},
    {SK_API_CHAT, "{\"messages\":[{}]}", "messages[0].role", "must be a string"},
    {SK_API_CHAT, "{\"messages\":[{\"role\":\"wizard\",\"content\":\"x\"}]}", "messages[0].role", "unknown role"},
    {SK_API_CHAT, "{\"messages\":[{\"role\":\"user\\u0000\",\"content\":\"x\"}]}", "messages[0].role", "unknown role"},
    {SK_API_CHAT, "{\"messages\":[{\"role\":\"user\"}]}", "messages[0].content", "missing"},
    {SK_API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":null}]}", "messages[0].content", "missing"},
    {SK_API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":7}]}", "messages[0].content", "string or an array"},
    {SK_API_CHAT, "{\"messages\":[{\"role\":\"assistant\"}]}", "messages[0].content", "'content' or 'tool_calls'"},
    {SK_API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{}]}]}", "messages[0].content", "'type'"},
    {SK_API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}", "messages[0].content",
     "no multimodal support"},
    {SK_API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_audio\"}]}]}",
     "messages[0].content", "no multimodal support"},
    {SK_API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"poem\"}]}]}", "messages[0].content",
     "unknown part type"},
    {SK_API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}", "messages[0].content",
     "needs a string 'text'"},
    {SK_API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"name\":3}]}", "messages[0].name", "string"},
    {SK_API_CHAT, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{}]}]}", "messages[0].tool_calls", "type"},
    {SK_API_CHAT, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"type\":\"function\"}]}]}",
     "messages[0].tool_calls", "'function'"},
    {SK_API_CHAT,
     "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
     "\"arguments\":\"{oops\"}}]}]}",
     "messages[0].tool_calls.function.arguments", "not valid JSON"},
    {SK_API_CHAT,
     "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"type\":\"function\",\"function\":{\"arguments\":\"{}\"}}]}]}",
     "messages[0].tool_calls", "'name'"},
    {SK_API_CHAT, "{" USER ",\"n\":17}", "n", "from 1 to 16, but it is 17"},
    {SK_API_CHAT, "{" USER ",\"n\":0}", "n", "from 1 to 16"},
    {SK_API_CHAT, "{" USER ",\"n\":\"2\"}", "n", "must be an integer, but it is a string"},
    {SK_API_CHAT, "{" USER ",\"n\":1.5}", "n", "must be an integer"},
    {SK_API_CHAT, "{" USER ",\"temperature\":-1}", "temperature", "from 0 to 100"},
    {SK_API_CHAT, "{" USER ",\"temperature\":\"hot\"}", "temperature", "must be a number, but it is a string"},
    {SK_API_CHAT, "{" USER ",\"top_p\":1.1}", "top_p", "from 0 to 1"},
    {SK_API_CHAT, "{" USER ",\"min_p\":-0.1}", "min_p", "from 0 to 1"},
    {SK_API_CHAT, "{" USER ",\"top_k\":-2}", "top_k", "from -1"},
    {SK_API_CHAT, "{" USER ",\"top_k\":3000000000}", "top_k", "to 2147483647"},
    {SK_API_CHAT, "{" USER ",\"presence_penalty\":3}", "presence_penalty", "from -2 to 2"},
    {SK_API_CHAT, "{" USER ",\"seed\":\"x\"}", "seed", "integer"},
    {SK_API_CHAT, "{" USER ",\"seed\":99999999999999999999}", "", "not valid JSON"},
    {SK_API_CHAT, "{" USER ",\"max_tokens\":-2}", "max_tokens", "from -1"},
    {SK_API_CHAT, "{" USER ",\"max_completion_tokens\":true}", "max_completion_tokens", "integer, but it is a boolean"},
    {SK_API_CHAT, "{" USER ",\"stop\":5}", "stop", "string or an array of strings, but it holds an integer"},
    {SK_API_CHAT, "{" USER ",\"stop\":[\"a\",1]}", "stop", "holds an integer"},
    {SK_API_CHAT, "{" USER ",\"stop\":\"a\\u0000b\"}", "stop", "NUL"},
    {SK_API_CHAT,
     "{" USER
     ",\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\",\"11\",\"12\",\"13\",\"14\",\"15\","
     "\"16\",\"17\"]}",
     "stop", "17 strings; at most 16"},
    {SK_API_CHAT, "{" USER ",\"stream\":1}", "stream", "boolean"},
    {SK_API_CHAT, "{" USER ",\"stream_options\":{\"include_usage\":true}}", "stream_options", "needs 'stream': true"},
    {SK_API_CHAT, "{" USER ",\"stream\":true,\"stream_options\":{\"include_usage\":1}}", "stream_options.include_usage",
     "boolean"},
    {SK_API_CHAT, "{" USER ",\"logprobs\":3}", "logprobs", "boolean"},
    {SK_API_CHAT, "{" USER ",\"top_logprobs\":3}", "top_logprobs", "needs 'logprobs': true"},
    {SK_API_CHAT, "{" USER ",\"logprobs\":true,\"top_logprobs\":21}", "top_logprobs", "from 0 to 20"},
    {SK_API_CHAT, "{" USER ",\"logit_bias\":5}", "logit_bias", "object"},
    {SK_API_CHAT, "{" USER ",\"logit_bias\":{\"1000\":1}}", "logit_bias", "does not exist: the vocabulary has 1000"},
    {SK_API_CHAT, "{" USER ",\"logit_bias\":{\"-1\":1}}", "logit_bias", "token -1"},
    {SK_API_CHAT, "{" USER ",\"logit_bias\":{\"1x\":1}}", "logit_bias", "not a token id"},
    {SK_API_CHAT, "{" USER ",\"logit_bias\":{\"1\":\"x\"}}", "logit_bias", "must be a number"},
    {SK_API_CHAT, "{" USER ",\"logit_bias\":{\"1\":1e300}}", "logit_bias", "must be a number from -1e6"},
    {SK_API_CHAT, "{" USER ",\"logit_bias\":[[1]]}", "logit_bias", "[token id, bias]"},
    {SK_API_CHAT, "{" USER ",\"logit_bias\":[[5000,1]]}", "logit_bias", "token 5000"},
    {SK_API_CHAT, "{" USER ",\"response_format\":\"json\"}", "response_format", "must be an object"},
    {SK_API_CHAT, "{" USER ",\"response_format\":{\"type\":\"xml\"}}", "response_format.type", "json_schema"},
    {SK_API_CHAT, "{" USER ",\"response_format\":{\"type\":\"json_schema\"}}", "response_format.json_schema", "object"},
    {SK_API_CHAT, "{" USER ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{}}}",
     "response_format.json_schema.schema", "missing"},
    {SK_API_CHAT, "{" USER ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":3}}}",
     "response_format.json_schema.schema", "must be a JSON schema object"},
    {SK_API_CHAT, "{" USER ",\"tools\":{}}", "tools", "must be an array"},
    {SK_API_CHAT, "{" USER ",\"tools\":[1]}", "tools[0].type", "function"},
    {SK_API_CHAT, "{" USER ",\"tools\":[{\"type\":\"function\"}]}", "tools[0].function", "object"},
    {SK_API_CHAT, "{" USER ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"\"}}]}",
     "tools[0].function.name", "1 to 256"},
    {SK_API_CHAT, "{" USER ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":1}}]}",
     "tools[0].function.description", "string"},
    {SK_API_CHAT, "{" USER ",\"tools\":[" TOOL("[]") "]}", "tools[0].function.parameters", "JSON schema object"},
    {SK_API_CHAT, "{" USER ",\"tool_choice\":\"required\"}", "tool_choice", "no 'tools'"},
    {SK_API_CHAT, "{" USER ",\"tools\":[" TOOL("{}") "],\"tool_choice\":\"maybe\"}", "tool_choice", "must be"},
    {SK_API_CHAT, "{" USER ",\"tools\":[" TOOL("{}") "],\"tool_choice\":{\"type\":\"function\"}}", "tool_choice",
     "must be"},
    {SK_API_CHAT,
     "{" USER ",\"tools\":[" TOOL("{}") "],\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"g\"}}}",
     "tool_choice", "names 'g', which is not in 'tools'"},
    {SK_API_CHAT, "{" USER ",\"tools\":[" TOOL("{}") "],\"grammar\":\"root ::= \\\"a\\\"\"}", "grammar",
     "with 'tools'"},
    {SK_API_CHAT, "{" USER ",\"grammar\":\"x\",\"response_format\":{\"type\":\"json_object\"}}", "grammar", "combined"},
    {SK_API_CHAT, "{" USER ",\"json_schema\":{},\"response_format\":{\"type\":\"json_object\"}}", "json_schema",
     "combined"},
    {SK_API_CHAT, "{" USER ",\"functions\":[]}", "functions", "use 'tools'"},
    {SK_API_CHAT, "{" USER ",\"audio\":{}}", "audio", "no multimodal support"},
    {SK_API_CHAT, "{" USER ",\"model\":3}", "model", "string"},
    {SK_API_CHAT, "{" USER ",\"prompt_cache_key\":3}", "prompt_cache_key", "string"},
    {SK_API_CHAT, "{" USER ",\"reasoning_format\":\"loud\"}", "reasoning_format", "must be"},
    {SK_API_CHAT, "{" USER ",\"chat_template_kwargs\":[]}", "chat_template_kwargs", "object"},
    {SK_API_CHAT, "{" USER ",\"chat_template_kwargs\":{\"enable_thinking\":\"yes\"}}",
     "chat_template_kwargs.enable_thinking", "boolean"},
    {SK_API_COMPLETIONS, "{}", "prompt", "missing"},
    {SK_API_COMPLETIONS, "{\"prompt\":{}}", "prompt", "must be a string"},
    {SK_API_COMPLETIONS, "{\"prompt\":[]}", "prompt", "0 prompts"},
    {SK_API_COMPLETIONS, "{\"prompt\":[1,true]}", "prompt", "entry 1 is a boolean"},
    {SK_API_COMPLETIONS, "{\"prompt\":[1000]}", "prompt", "token 1000"},
    {SK_API_COMPLETIONS, "{\"prompt\":[[-1]]}", "prompt", "token -1"},
    {SK_API_COMPLETIONS, "{\"prompt\":\"x\",\"logprobs\":true}", "logprobs", "integer"},
    {SK_API_COMPLETIONS, "{\"prompt\":\"x\",\"echo\":true,\"logprobs\":1}", "logprobs", "'echo' is not supported"},
    {SK_API_COMPLETIONS, "{\"prompt\":\"x\",\"suffix\":\"y\"}", "suffix", "not supported"},
    {SK_API_COMPLETIONS, "{\"prompt\":\"x\",\"best_of\":3}", "best_of", "unless it equals 'n'"},
    {SK_API_LLAMA, "{\"prompt\":\"x\",\"n_probs\":101}", "n_probs", "from 0 to 100"},
    {SK_API_LLAMA, "{\"prompt\":\"x\",\"json_schema\":7}", "json_schema", "JSON schema object"},
    {SK_API_LLAMA, "{\"prompt\":\"x\",\"cache_boundaries\":[0]}", "cache_boundaries", "1 or more"},
    {SK_API_LLAMA, "{\"prompt\":\"x\",\"cache_boundaries\":[5,5]}", "cache_boundaries", "ascending"},
    {SK_API_LLAMA, "{\"prompt\":\"x\",\"cache_prompt\":\"no\"}", "cache_prompt", "boolean"},
};

static void every_bad_field_is_named_and_explained(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const refusal *c = &refusals[i];
        sk_request r;
        sk_api_error err;
        int status = parse(c->kind, c->body, &r, &err);
        if (status != 400 || strcmp(err.param, c->param) != 0 || !strstr(err.message, c->message))
            fail_msg("%s\n  gave %d, param '%s', message '%s'\n  expected param '%s', message with '%s'", c->body,
                     status, err.param, err.message, c->param, c->message);
        assert_string_equal(err.type, "invalid_request_error");
        assert_null(r.body);
    }
}

static void parse_ok(enum sk_api_kind kind, const char *body, sk_request *r) {
    sk_api_error err;
    if (parse(kind, body, r, &err)) fail_msg("%s\n  was refused: %s: %s", body, err.param, err.message);
}

static void defaults_are_those_of_llama_server(void **state) {
    (void)state;
    sk_request r;
    parse_ok(SK_API_CHAT, "{" USER ",\"some_future_field\":{\"x\":1}}", &r);
    assert_float_equal(r.sampling.temperature, 0.8f, 1e-6f);
    assert_int_equal(r.sampling.top_k, 40);
    assert_float_equal(r.sampling.top_p, 0.95f, 1e-6f);
    assert_float_equal(r.sampling.min_p, 0.05f, 1e-6f);
    assert_int_equal(r.sampling.seed, UINT32_MAX);
    assert_int_equal(r.n, 1);
    assert_int_equal(r.n_predict, -1);
    assert_false(r.stream);
    assert_false(r.no_cache);
    assert_true(r.chat.add_generation_prompt);
    sk_request_clear(&r);
}

static void fields_reach_the_sampler_settings(void **state) {
    (void)state;
    sk_request r;
    parse_ok(
        SK_API_CHAT,
        "{" USER
        ",\"temperature\":0,\"top_k\":7,\"top_p\":0.5,\"min_p\":0.1,\"frequency_penalty\":1,\"presence_penalty\":-1,"
        "\"repeat_penalty\":1.2,\"seed\":42,\"logit_bias\":{\"3\":-100,\"4\":2.5},\"n\":2,\"max_completion_tokens\":9,"
        "\"stop\":[\"a\",\"\",\"b\"],\"stream\":true,\"stream_options\":{\"include_usage\":true},\"logprobs\":true,"
        "\"top_logprobs\":3,\"cache_prompt\":false,\"prompt_cache_key\":\"k\"}",
        &r);
    assert_float_equal(r.sampling.temperature, 0, 0);
    assert_int_equal(r.sampling.top_k, 7);
    assert_float_equal(r.sampling.repeat_penalty, 1.2f, 1e-6f);
    assert_int_equal(r.sampling.seed, 42);
    assert_int_equal(r.sampling.n_bias, 2);
    assert_int_equal(r.sampling.bias[0].token, 3);
    assert_float_equal(r.sampling.bias[1].bias, 2.5f, 0);
    assert_int_equal(r.n, 2);
    assert_int_equal(r.n_predict, 9);
    assert_int_equal(r.n_stop, 2); /* an empty stop string would stop everything */
    assert_string_equal(r.stop[1], "b");
    assert_true(r.stream && r.include_usage && r.logprobs && r.no_cache);
    assert_int_equal(r.sampling.n_probs, 3);
    assert_string_equal(r.cache_namespace, "k");
    sk_request_clear(&r);
}

static void llama_forms_are_understood(void **state) {
    (void)state;
    sk_request r;
    parse_ok(
        SK_API_LLAMA,
        "{\"prompt\":[1,\"mid\",2],\"logit_bias\":[[5,1.5],[6,false]],\"n_predict\":4,\"max_tokens\":8,\"n_probs\":2,"
        "\"cache_boundaries\":[3,9],\"seed\":-1,\"json_schema\":{\"type\":\"string\"}}",
        &r);
    assert_false(sk_prompt_is_list(r.prompt));
    assert_int_equal(r.n_predict, 4); /* the server's own name wins */
    assert_true(isinf(r.sampling.bias[1].bias) && r.sampling.bias[1].bias < 0);
    assert_int_equal(r.sampling.seed, UINT32_MAX);
    assert_int_equal(r.n_boundaries, 2);
    assert_int_equal(r.boundaries[1], 9);
    assert_non_null(r.json_schema);
    sk_request_clear(&r);
}

static void prompts_are_told_apart_from_lists_of_prompts(void **state) {
    (void)state;
    static const struct {
        const char *body;
        bool list;
    } cases[] = {{"{\"prompt\":\"a\"}", false},        {"{\"prompt\":[1,2]}", false},
                 {"{\"prompt\":[\"a\",2]}", false},    {"{\"prompt\":[\"a\",\"b\"]}", true},
                 {"{\"prompt\":[[1,2],\"b\"]}", true}, {"{\"prompt\":[[1],[2]]}", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sk_request r;
        parse_ok(SK_API_COMPLETIONS, cases[i].body, &r);
        if (sk_prompt_is_list(r.prompt) != cases[i].list) fail_msg("%s", cases[i].body);
        sk_request_clear(&r);
    }
}

static void a_wide_seed_stays_deterministic_and_is_never_the_random_mark(void **state) {
    (void)state;
    sk_request a, b;
    parse_ok(SK_API_LLAMA, "{\"prompt\":\"x\",\"seed\":9007199254740993}", &a);
    parse_ok(SK_API_LLAMA, "{\"prompt\":\"x\",\"seed\":4294967295}", &b);
    assert_int_not_equal(a.sampling.seed, UINT32_MAX);
    assert_int_not_equal(b.sampling.seed, UINT32_MAX);
    sk_request_clear(&a);
    sk_request_clear(&b);
}

static void a_named_tool_is_required(void **state) {
    (void)state;
    sk_request r;
    parse_ok(SK_API_CHAT,
             "{" USER
             ",\"tools\":[" TOOL("{}") "],\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}}",
             &r);
    assert_string_equal(r.chat.forced_tool, "f");
    assert_int_equal(r.chat.tool_choice, SK_CHAT_TOOLS_REQUIRED);
    sk_request_clear(&r);
}

static void a_conversation_that_ends_with_the_assistant_is_continued(void **state) {
    (void)state;
    sk_request r;
    parse_ok(SK_API_CHAT,
             "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]}", &r);
    assert_true(r.chat.continue_final);
    sk_request_clear(&r);
    parse_ok(SK_API_CHAT,
             "{\"messages\":[{\"role\":\"assistant\",\"content\":\"b\"}],\"continue_final_message\":false}", &r);
    assert_false(r.chat.continue_final);
    sk_request_clear(&r);
}

/* `open` n times, then `close` n times, inside prefix and suffix. */
static char *nested(const char *prefix, char open, char close, size_t n, const char *suffix) {
    size_t p = strlen(prefix), s = strlen(suffix);
    char *out = malloc(p + 2 * n + s + 1);
    assert_non_null(out);
    memcpy(out, prefix, p);
    memset(out + p, open, n);
    memset(out + p + n, close, n);
    memcpy(out + p + 2 * n, suffix, s + 1);
    return out;
}

static void deep_nesting_is_refused_not_followed(void **state) {
    (void)state;
    static const struct {
        const char *prefix, *suffix;
        size_t depth;
        const char *message;
    } cases[] = {
        {"{\"x\":", "}", 100000, "not valid JSON"},
        {"{" USER ",\"chat_template_kwargs\":{\"a\":", "}}", 100, "nested too deeply"},
        {"{" USER ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"a\":", "}}}]}",
         100, "nested too deeply"},
        {"{" USER ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"a\":", "}}}}", 100,
         "levels deep"},
        {"{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
         "\"arguments\":\"",
         "\"}}]}]}", 100000, "nested too deeply"},
        {"{\"messages\":[{\"role\":\"tool\",\"content\":\"", "\"}]}", 100000, "nested too deeply"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *body = nested(cases[i].prefix, '[', ']', cases[i].depth, cases[i].suffix);
        sk_request r;
        sk_api_error err;
        int status = parse(SK_API_CHAT, body, &r, &err);
        if (status != 400 || !strstr(err.message, cases[i].message))
            fail_msg("case %zu: %d %s", i, status, err.message);
        free(body);
    }
}

static void parentheses_of_a_grammar_nest_only_so_deep(void **state) {
    (void)state;
    static const struct {
        const char *prefix;
        size_t depth;
        const char *suffix;
        int status;
    } cases[] = {
        {"root ::= ", 256, "", 0},
        {"root ::= ", 257, "", 400},
        {"root ::= ", 100000, "", 400},
        /* parentheses in literals, classes, tokens and comments do not nest */
        {"root ::= \\\"", 1000, "\\\"", 0},
        {"root ::= [", 1000, "]", 0},
        {"root ::= <", 1000, ">", 0},
        {"root ::= \\\"a\\\" # ", 1000, "", 0},
        /* and what opens one of them inside another does not hide those that do */
        {"root ::= \\\"\\\\\\\"\\\" ", 1000, "", 400},
        {"root ::= [\\\"] ", 1000, "", 400},
        {"root ::= <\\\"> ", 1000, "", 400},
        {"# \\\"\\rroot ::= ", 1000, "", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char prefix[128], suffix[32];
        snprintf(prefix, sizeof prefix, "{\"prompt\":\"x\",\"grammar\":\"%s", cases[i].prefix);
        snprintf(suffix, sizeof suffix, "%s\"}", cases[i].suffix);
        char *body = nested(prefix, '(', ')', cases[i].depth, suffix);
        sk_request r;
        sk_api_error err = {0};
        int status = parse(SK_API_LLAMA, body, &r, &err);
        if (status != cases[i].status || (status && !strstr(err.message, "nested more than")))
            fail_msg("case %zu: %d %s", i, status, err.message);
        if (!status) sk_request_clear(&r);
        free(body);
    }
}

static void error_objects_have_the_four_members(void **state) {
    (void)state;
    sk_api_error err;
    sk_buf out = {0};
    assert_int_equal(sk_api_error_set(&err, 404, "invalid_request_error", NULL, NULL, "no \"%s\"", "path"), 404);
    sk_api_error_json(&err, &out);
    assert_string_equal(out.data, "{\"error\":{\"message\":\"no \\\"path\\\"\",\"type\":\"invalid_request_error\","
                                  "\"param\":null,\"code\":null}}");
    sk_buf_clear(&out);
    sk_api_context_exceeded(&err, 12, 10);
    sk_api_error_json(&err, &out);
    assert_non_null(strstr(out.data, "\"code\":\"context_length_exceeded\""));
    assert_non_null(strstr(out.data, "12 tokens, and the context holds 10"));
    sk_buf_free(&out);
}

static void engine_codes_have_http_statuses(void **state) {
    (void)state;
    assert_int_equal(sk_api_status_for(SKIPPY_OK), 200);
    assert_int_equal(sk_api_status_for(SKIPPY_E_INVALID), 400);
    assert_int_equal(sk_api_status_for(SKIPPY_E_TOO_LARGE), 400);
    assert_int_equal(sk_api_status_for(SKIPPY_E_FULL), 429);
    assert_int_equal(sk_api_status_for(SKIPPY_E_BUSY), 503);
    assert_int_equal(sk_api_status_for(SKIPPY_E_TIMEOUT), 504);
    assert_int_equal(sk_api_status_for(SKIPPY_E_RUNTIME), 500);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bad_field_is_named_and_explained),
        cmocka_unit_test(defaults_are_those_of_llama_server),
        cmocka_unit_test(fields_reach_the_sampler_settings),
        cmocka_unit_test(llama_forms_are_understood),
        cmocka_unit_test(prompts_are_told_apart_from_lists_of_prompts),
        cmocka_unit_test(a_wide_seed_stays_deterministic_and_is_never_the_random_mark),
        cmocka_unit_test(a_named_tool_is_required),
        cmocka_unit_test(a_conversation_that_ends_with_the_assistant_is_continued),
        cmocka_unit_test(deep_nesting_is_refused_not_followed),
        cmocka_unit_test(parentheses_of_a_grammar_nest_only_so_deep),
        cmocka_unit_test(error_objects_have_the_four_members),
        cmocka_unit_test(engine_codes_have_http_statuses),
    };
    return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
