#include "openai/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openai/fields.h"
#include "openai/sampling_fields.h"

static int parse_stop(sk_request *r, sk_api_error *err) {
    const json_t *v = sk_field(r->body, "stop");
    if (!v) return 0;
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    if (n > SK_MAX_STOPS)
        return sk_api_invalid(err, "stop", "'stop' has %zu strings; at most %d are allowed", n, SK_MAX_STOPS);
    r->stop = calloc(n ? n : 1, sizeof *r->stop);
    if (!r->stop) return sk_api_nomem(err);
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_string(s))
            return sk_api_invalid(err, "stop", "'stop' must be a string or an array of strings, but it holds %s",
                                  sk_field_kind(s));
        if (sk_json_has_nul(s)) return sk_api_invalid(err, "stop", "'stop' must not contain a NUL character");
        if (json_string_length(s) > SK_MAX_STOP_BYTES)
            return sk_api_invalid(err, "stop", "a string in 'stop' is longer than %d bytes", SK_MAX_STOP_BYTES);
        if (json_string_length(s) > 0) r->stop[r->n_stop++] = json_string_value(s); /* "" would stop everything */
    }
    return 0;
}

/* The first of the length fields that is present: each API has its own name for it. */
static int parse_length(sk_request *r, int32_t fallback, sk_api_error *err) {
    static const char *const names[] = {"n_predict", "max_completion_tokens", "max_tokens"};
    int64_t value = fallback;
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int64_t v = -1;
        int rc = sk_field_int(r->body, names[i], -1, INT32_MAX, &v, err);
        if (rc) return rc;
        if (!found && sk_field(r->body, names[i])) {
            value = v;
            found = true;
        }
    }
    r->n_predict = (int32_t)value;
    return 0;
}

static int parse_choices(sk_request *r, sk_api_error *err) {
    int64_t n = 1;
    int rc = sk_field_int(r->body, sk_field(r->body, "n_cmpl") ? "n_cmpl" : "n", 1, SK_MAX_CHOICES, &n, err);
    r->n = (uint32_t)n;
    return rc;
}

static int parse_stream(sk_request *r, sk_api_error *err) {
    int rc = sk_field_bool(r->body, "stream", &r->stream, err);
    if (rc) return rc;
    const json_t *options = NULL;
    rc = sk_field_object(r->body, "stream_options", &options, err);
    if (rc || !options) return rc;
    if (!r->stream) return sk_api_invalid(err, "stream_options", "'stream_options' needs 'stream': true");
    rc = sk_field_bool(options, "include_usage", &r->include_usage, err);
    if (rc) snprintf(err->param, sizeof err->param, "stream_options.include_usage");
    return rc;
}

/* Chat: logprobs (boolean) switches them on, top_logprobs says how many alternatives. */
static int parse_chat_logprobs(sk_request *r, sk_api_error *err) {
    bool on = false;
    int64_t top = 0;
    int rc = sk_field_bool(r->body, "logprobs", &on, err);
    if (!rc) rc = sk_field_int(r->body, "top_logprobs", 0, 20, &top, err);
    if (rc) return rc;
    if (!on && top > 0) return sk_api_invalid(err, "top_logprobs", "'top_logprobs' needs 'logprobs': true");
    if (on) {
        r->sampling.n_probs = top > 0 ? (int32_t)top : 1; /* the chosen token's own probability needs one */
        r->top_logprobs = (int32_t)top;
        r->logprobs = true;
    }
    return 0;
}

/* /v1/completions: logprobs is a number of alternatives; 0 asks for the chosen token's probability only. */
static int parse_text_logprobs(sk_request *r, sk_api_error *err) {
    int64_t top = 0;
    int rc = sk_field_int(r->body, "logprobs", 0, SK_MAX_PROBS, &top, err);
    if (rc || !sk_field(r->body, "logprobs")) return rc;
    if (r->echo && r->n_predict != 0)
        return sk_api_invalid(err, "logprobs",
                              "'logprobs' together with 'echo' is not supported: prompt tokens have none");
    r->sampling.n_probs = top > 0 ? (int32_t)top : 1;
    r->top_logprobs = (int32_t)top;
    r->logprobs = true;
    return 0;
}

static int parse_logprobs(sk_request *r, sk_api_error *err) {
    if (r->kind == SK_API_CHAT) return parse_chat_logprobs(r, err);
    if (r->kind == SK_API_COMPLETIONS) return parse_text_logprobs(r, err);
    r->top_logprobs = r->sampling.n_probs;
    r->logprobs = r->sampling.n_probs > 0;
    return 0;
}

static int parse_cache(sk_request *r, sk_api_error *err) {
    bool cache_prompt = true;
    int rc = sk_field_bool(r->body, "cache_prompt", &cache_prompt, err);
    if (!rc) rc = sk_field_string(r->body, "prompt_cache_key", &r->cache_namespace, err);
    if (rc) return rc;
    r->no_cache = !cache_prompt;
    if (r->cache_namespace && strlen(r->cache_namespace) > 256)
        return sk_api_invalid(err, "prompt_cache_key", "'prompt_cache_key' is longer than 256 bytes");
    if (r->cache_namespace && !*r->cache_namespace) r->cache_namespace = NULL;
    return 0;
}

/* cache_boundaries: token positions of a raw prompt where a later request is likely to diverge. */
static int parse_boundaries(sk_request *r, sk_api_error *err) {
    const json_t *v = NULL;
    int rc = sk_field_array(r->body, "cache_boundaries", &v, err);
    if (rc || !v) return rc;
    size_t n = json_array_size(v);
    if (n > SK_MAX_BOUNDARIES)
        return sk_api_invalid(err, "cache_boundaries", "'cache_boundaries' has %zu entries; at most %d are allowed", n,
                              SK_MAX_BOUNDARIES);
    if (n == 0) return 0;
    r->boundaries = calloc(n, sizeof *r->boundaries);
    if (!r->boundaries) return sk_api_nomem(err);
    for (size_t i = 0; i < n; i++) {
        const json_t *at = json_array_get(v, i);
        json_int_t pos = json_integer_value(at);
        if (!json_is_integer(at) || pos < 1 || pos > INT32_MAX)
            return sk_api_invalid(err, "cache_boundaries", "'cache_boundaries' must hold token positions of 1 or more");
        if (i > 0 && (size_t)pos <= r->boundaries[i - 1])
            return sk_api_invalid(err, "cache_boundaries", "'cache_boundaries' must be ascending");
        r->boundaries[i] = (size_t)pos;
    }
    r->n_boundaries = n;
    return 0;
}

static bool token_or_text(const json_t *v) {
    return json_is_integer(v) || json_is_string(v);
}

/* A prompt is text, or an array of token ids and text pieces. */
static int check_one_prompt(const json_t *v, int32_t n_vocab, sk_api_error *err) {
    if (json_is_string(v)) return 0;
    if (!json_is_array(v) || json_array_size(v) == 0)
        return sk_api_invalid(err, "prompt", "'prompt' must be a string, an array of token ids, or an array of these");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *part = json_array_get(v, i);
        if (!token_or_text(part))
            return sk_api_invalid(err, "prompt", "'prompt' must hold token ids and strings, but entry %zu is %s", i,
                                  sk_field_kind(part));
        json_int_t id = json_integer_value(part);
        if (json_is_integer(part) && (id < 0 || id >= n_vocab))
            return sk_api_invalid(err, "prompt", "token %lld in 'prompt' does not exist: the vocabulary has %d tokens",
                                  (long long)id, n_vocab);
    }
    return 0;
}

bool sk_prompt_is_list(const json_t *v) {
    if (!json_is_array(v)) return false;
    bool any_token = false, any_list = false;
    for (size_t i = 0; i < json_array_size(v); i++) {
        any_token = any_token || json_is_integer(json_array_get(v, i));
        any_list = any_list || json_is_array(json_array_get(v, i));
    }
    return any_list || !any_token; /* ["a", "b"] are two prompts; [1, "a"] is one */
}

static int check_prompt(sk_request *r, int32_t n_vocab, sk_api_error *err) {
    const json_t *v = sk_field(r->body, "prompt");
    if (!v) return sk_api_invalid(err, "prompt", "'prompt' is missing");
    r->prompt = v;
    if (!sk_prompt_is_list(v)) return check_one_prompt(v, n_vocab, err);
    size_t n = json_array_size(v);
    if (n == 0 || n > SK_MAX_PROMPTS)
        return sk_api_invalid(err, "prompt", "'prompt' has %zu prompts; 1 to %d are allowed", n, SK_MAX_PROMPTS);
    for (size_t i = 0; i < n; i++) {
        int rc = check_one_prompt(json_array_get(v, i), n_vocab, err);
        if (rc) return rc;
    }
    return 0;
}

/* Known fields whose meaning would be lost if they were ignored. */
static int refuse_unsupported(const sk_request *r, sk_api_error *err) {
    const json_t *suffix = sk_field(r->body, "suffix");
    if (r->kind == SK_API_COMPLETIONS && suffix && json_string_length(suffix) > 0)
        return sk_api_invalid(err, "suffix", "'suffix' is not supported");
    const json_t *best_of = sk_field(r->body, "best_of");
    if (r->kind == SK_API_COMPLETIONS && best_of && json_integer_value(best_of) != (json_int_t)r->n)
        return sk_api_invalid(err, "best_of", "'best_of' is not supported unless it equals 'n'");
    if (r->kind == SK_API_CHAT && sk_field(r->body, "functions"))
        return sk_api_invalid(err, "functions", "'functions' is not supported: use 'tools'");
    if (r->kind == SK_API_CHAT && sk_field(r->body, "audio"))
        return sk_api_invalid(err, "audio", "this server has no multimodal support");
    return 0;
}

static int parse_output(sk_request *r, sk_api_error *err) {
    int rc = sk_field_bool(r->body, "timings_per_token", &r->timings_per_token, err);
    if (!rc) rc = sk_field_bool(r->body, "return_progress", &r->return_progress, err);
    if (!rc) rc = sk_field_bool(r->body, "return_tokens", &r->return_tokens, err);
    if (!rc) rc = sk_field_bool(r->body, "special", &r->keep_special, err);
    if (!rc && r->kind == SK_API_COMPLETIONS) rc = sk_field_bool(r->body, "echo", &r->echo, err);
    const char *model = NULL; /* one model is served, so only the type matters */
    if (!rc) rc = sk_field_string(r->body, "model", &model, err);
    return rc;
}

static int parse_all(sk_request *r, const sk_request_limits *limits, sk_api_error *err) {
    int rc = parse_choices(r, err);
    if (!rc) rc = refuse_unsupported(r, err);
    if (!rc) rc = sk_sampling_parse(r->body, &r->sampling, err);
    if (!rc) rc = sk_logit_bias_parse(r->body, limits->n_vocab, &r->bias, &r->sampling.n_bias, err);
    if (rc) return rc;
    r->sampling.bias = r->bias;
    rc = parse_stop(r, err);
    if (!rc) rc = parse_length(r, limits->default_n_predict, err);
    if (!rc) rc = parse_stream(r, err);
    if (!rc) rc = parse_output(r, err);
    if (!rc) rc = parse_logprobs(r, err);
    if (!rc) rc = parse_cache(r, err);
    if (!rc) rc = sk_constraints_parse(r, err);
    if (rc) return rc;
    if (r->kind == SK_API_CHAT) return sk_chat_fields_parse(r->body, &r->chat, err);
    rc = check_prompt(r, limits->n_vocab, err);
    return rc ? rc : parse_boundaries(r, err);
}

int sk_request_parse(enum sk_api_kind kind, const char *body, size_t len, const sk_request_limits *limits,
                     sk_request *out, sk_api_error *err) {
    memset(out, 0, sizeof *out);
    out->kind = kind;
    sk_sampling_defaults(&out->sampling);
    int rc = sk_fields_parse(body, len, &out->body, err);
    if (!rc) rc = parse_all(out, limits, err);
    if (rc) sk_request_clear(out);
    return rc;
}

void sk_request_clear(sk_request *r) {
    free(r->bias);
    free(r->stop);
    free(r->boundaries);
    json_decref(r->json_schema);
    json_decref(r->body);
    memset(r, 0, sizeof *r);
}

size_t sk_json_depth(const json_t *v, size_t limit) {
    size_t deepest = 0;
    if (!json_is_object(v) && !json_is_array(v)) return 0;
    if (limit == 0) return 1;
    if (json_is_array(v)) {
        for (size_t i = 0; i < json_array_size(v); i++) {
            size_t d = sk_json_depth(json_array_get(v, i), limit - 1);
            if (d > deepest) deepest = d;
        }
        return deepest + 1;
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)v, key, value) {
        size_t d = sk_json_depth(value, limit - 1);
        if (d > deepest) deepest = d;
    }
    return deepest + 1;
}
