#include "bench/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

void sk_endpoint_init(sk_endpoint *ep, uint16_t port, int timeout_ms) {
    *ep = (sk_endpoint){0};
    sk_http_client_init(&ep->http, port, timeout_ms);
}

void sk_endpoint_close(sk_endpoint *ep) {
    sk_http_client_close(&ep->http);
    sk_http_response_free(&ep->response);
}

void sk_reply_free(sk_reply *r) {
    free(r->text);
    *r = (sk_reply){0};
}

/* One timed exchange on a connection that stands. */
static int exchange(sk_endpoint *ep, const char *method, const char *path, const char *body, double *ms, sk_err *e) {
    int rc = sk_http_client_prepare(&ep->http, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    const size_t len = body ? strlen(body) : 0;
    const uint64_t start = sk_now_ns();
    rc = sk_http_client_request(&ep->http, method, path, body, len, &ep->response, e);
    if (rc == SKIPPY_OK && ms) {
        *ms = (double)(sk_now_ns() - start) / 1e6;
    }
    return rc;
}

/* The "error" of an answer in words: {"error":{"message":...}} or the start of the body. */
static int refuse(const sk_endpoint *ep, const char *path, sk_err *e) {
    const sk_buf *body = &ep->response.body;
    json_t *root = json_loadb(body->data ? body->data : "", body->len, 0, NULL);
    const char *text = json_string_value(json_object_get(json_object_get(root, "error"), "message"));
    sk_err_set(e, SKIPPY_E_RUNTIME, "%s answered %d: %.300s", path, ep->response.status,
               text        ? text
               : body->len ? body->data
                           : "(nothing)");
    json_decref(root);
    return SKIPPY_E_RUNTIME;
}

/* Sends request (reference is consumed; NULL = GET) and parses the answer into *out. */
static int call(sk_endpoint *ep, const char *path, json_t *request, double *ms, json_t **out, sk_err *e) {
    char *body = request ? json_dumps(request, JSON_COMPACT) : NULL;
    const bool post = request != NULL;
    json_decref(request);
    *out = NULL;
    if (post && !body) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a request to %s", path);
    }
    int rc = exchange(ep, post ? "POST" : "GET", path, body, ms, e);
    free(body);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    if (ep->response.status != 200) {
        return refuse(ep, path, e);
    }
    json_error_t why;
    *out =
        json_loadb(ep->response.body.data ? ep->response.body.data : "", ep->response.body.len, JSON_ALLOW_NUL, &why);
    return *out ? SKIPPY_OK
                : sk_err_set(e, SKIPPY_E_CORRUPT, "%s answered something that is not JSON: %s", path, why.text);
}

int sk_endpoint_health(sk_endpoint *ep, double *ms, sk_err *e) {
    const int rc = exchange(ep, "GET", "/health", NULL, ms, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    return ep->response.status == 200 ? SKIPPY_OK : refuse(ep, "/health", e);
}

int sk_endpoint_tokenize(void *endpoint, const char *text, size_t len, int32_t **ids, size_t *n, sk_err *e) {
    json_t *root = NULL;
    *ids = NULL;
    *n = 0;
    json_t *request = json_pack("{s:s%, s:b}", "content", text, len, "add_special", 1);
    if (!request) {
        return sk_err_set(e, SKIPPY_E_INVALID, "a text of %zu bytes is not UTF-8, or memory is out", len);
    }
    const int rc = call(endpoint, "/tokenize", request, NULL, &root, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    const json_t *tokens = json_object_get(root, "tokens");
    const size_t count = json_array_size(tokens);
    *ids = json_is_array(tokens) ? calloc(count ? count : 1, sizeof **ids) : NULL;
    if (!*ids) {
        json_decref(root);
        return sk_err_set(e, SKIPPY_E_CORRUPT, "/tokenize answered without a list of tokens");
    }
    for (size_t i = 0; i < count; i++) {
        (*ids)[i] = (int32_t)json_integer_value(json_array_get(tokens, i));
    }
    *n = count;
    json_decref(root);
    return SKIPPY_OK;
}

static size_t count_of(const json_t *object, const char *key) {
    const json_int_t v = json_integer_value(json_object_get(object, key));
    return v > 0 ? (size_t)v : 0;
}

static int keep_text(sk_reply *r, const char *text, sk_err *e) {
    r->text = strdup(text);
    return r->text ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for an answer");
}

int sk_endpoint_complete(sk_endpoint *ep, const char *prompt, size_t n_predict, sk_reply *r, sk_err *e) {
    json_t *root = NULL;
    *r = (sk_reply){.first_token = -1};
    json_t *request = json_pack("{s:s, s:I, s:i, s:b, s:b, s:b}", "prompt", prompt, "n_predict", (json_int_t)n_predict,
                                "temperature", 0, "cache_prompt", 1, "ignore_eos", 1, "return_tokens", 1);
    if (!request) {
        return sk_err_set(e, SKIPPY_E_INVALID, "a prompt is not UTF-8, or memory is out");
    }
    int rc = call(ep, "/completion", request, &r->ms, &root, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    const json_t *timings = json_object_get(root, "timings");
    const char *text = json_string_value(json_object_get(root, "content"));
    const json_t *tokens = json_object_get(root, "tokens");
    if (!text || !json_is_object(timings)) {
        rc = sk_err_set(e, SKIPPY_E_CORRUPT, "/completion answered without content or timings");
    } else {
        r->cache_n = count_of(timings, "cache_n");
        r->prompt_n = count_of(timings, "prompt_n");
        r->predicted_n = count_of(timings, "predicted_n");
        r->stage_compute_ms = json_number_value(json_object_get(timings, "stage_compute_ms"));
        if (json_array_size(tokens)) {
            r->first_token = (int32_t)json_integer_value(json_array_get(tokens, 0));
        }
        rc = keep_text(r, text, e);
    }
    json_decref(root);
    return rc;
}

/* The text of a chat message: what was reasoned, then what was said. */
static int chat_text(const json_t *message, sk_reply *r, sk_err *e) {
    const char *thought = json_string_value(json_object_get(message, "reasoning_content"));
    const char *said = json_string_value(json_object_get(message, "content"));
    sk_buf b = {0};
    sk_buf_str(&b, thought ? thought : "");
    sk_buf_str(&b, said ? said : "");
    const int rc =
        b.failed ? sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for an answer") : keep_text(r, b.data ? b.data : "", e);
    sk_buf_free(&b);
    return rc;
}

int sk_endpoint_chat(sk_endpoint *ep, json_t *messages, size_t n_predict, sk_reply *r, sk_err *e) {
    json_t *root = NULL;
    *r = (sk_reply){.first_token = -1};
    json_t *request = json_pack("{s:O, s:I, s:i, s:b, s:b}", "messages", messages, "max_tokens", (json_int_t)n_predict,
                                "temperature", 0, "cache_prompt", 1, "ignore_eos", 1);
    if (!request) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a chat request");
    }
    int rc = call(ep, "/v1/chat/completions", request, &r->ms, &root, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    const json_t *usage = json_object_get(root, "usage");
    const json_t *message = json_object_get(json_array_get(json_object_get(root, "choices"), 0), "message");
    if (!json_is_object(message) || !json_is_object(usage)) {
        rc = sk_err_set(e, SKIPPY_E_CORRUPT, "/v1/chat/completions answered without a message or usage");
    } else {
        const size_t total = count_of(usage, "prompt_tokens");
        r->cache_n = count_of(json_object_get(usage, "prompt_tokens_details"), "cached_tokens");
        r->prompt_n = total > r->cache_n ? total - r->cache_n : 0;
        r->predicted_n = count_of(usage, "completion_tokens");
        rc = chat_text(message, r, e);
    }
    json_decref(root);
    return rc;
}

int sk_endpoint_apply_template(sk_endpoint *ep, json_t *messages, char **prompt, sk_err *e) {
    json_t *root = NULL;
    json_t *request = json_pack("{s:O}", "messages", messages);
    *prompt = NULL;
    if (!request) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a template request");
    }
    int rc = call(ep, "/apply-template", request, NULL, &root, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    const char *text = json_string_value(json_object_get(root, "prompt"));
    *prompt = text ? strdup(text) : NULL;
    rc = *prompt ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_CORRUPT, "/apply-template answered without a prompt");
    json_decref(root);
    return rc;
}

void sk_alternatives_free(sk_alternative *v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        free(v[i].best);
        free(v[i].second);
    }
    free(v);
}

/* list: an array of {"top_logprobs": [{"token", "logprob"}, ...]}, best first. */
static int read_alternatives(const json_t *list, sk_alternative **out, size_t *n, sk_err *e) {
    const size_t count = json_array_size(list);
    sk_alternative *v = count ? calloc(count, sizeof *v) : NULL;
    if (!v) {
        return sk_err_set(e, SKIPPY_E_CORRUPT, "the answer has no log-probabilities");
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *top = json_object_get(json_array_get(list, i), "top_logprobs");
        const json_t *first = json_array_get(top, 0);
        const json_t *next = json_array_get(top, 1);
        const char *best = json_string_value(json_object_get(first, "token"));
        const char *second = json_string_value(json_object_get(next, "token"));
        v[i].best = strdup(best ? best : "");
        v[i].second = strdup(second ? second : "");
        v[i].gap =
            json_number_value(json_object_get(first, "logprob")) - json_number_value(json_object_get(next, "logprob"));
        if (!best || !second || !v[i].best || !v[i].second) {
            sk_alternatives_free(v, count);
            return sk_err_set(e, SKIPPY_E_CORRUPT, "the answer has no second best token");
        }
    }
    *out = v;
    *n = count;
    return SKIPPY_OK;
}

static json_t *alternatives_request(bool chat, const char *prompt, size_t n_predict) {
    if (chat) {
        return json_pack("{s:o, s:I, s:i, s:b, s:b, s:i}", "messages", json_loads(prompt, 0, NULL), "max_tokens",
                         (json_int_t)n_predict, "temperature", 0, "ignore_eos", 1, "logprobs", 1, "top_logprobs", 2);
    }
    return json_pack("{s:s, s:I, s:i, s:b, s:i}", "prompt", prompt, "n_predict", (json_int_t)n_predict, "temperature",
                     0, "ignore_eos", 1, "n_probs", 2);
}

int sk_endpoint_alternatives(sk_endpoint *ep, bool chat, const char *prompt, size_t n_predict, sk_alternative **out,
                             size_t *n, sk_err *e) {
    json_t *root = NULL;
    json_t *request = alternatives_request(chat, prompt, n_predict);
    *out = NULL;
    *n = 0;
    if (!request) {
        return sk_err_set(e, SKIPPY_E_INVALID, "a prompt is not valid, or memory is out");
    }
    int rc = call(ep, chat ? "/v1/chat/completions" : "/completion", request, NULL, &root, e);
    if (rc == SKIPPY_OK) {
        const json_t *choice = json_array_get(json_object_get(root, "choices"), 0);
        rc = read_alternatives(chat ? json_object_get(json_object_get(choice, "logprobs"), "content")
                                    : json_object_get(root, "completion_probabilities"),
                               out, n, e);
    }
    json_decref(root);
    return rc;
}

int sk_endpoint_version(sk_endpoint *ep, char *buf, size_t cap, sk_err *e) {
    json_t *root = NULL;
    buf[0] = '\0';
    const int rc = call(ep, "/props", NULL, NULL, &root, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    const char *text = json_string_value(json_object_get(root, "build_info"));
    snprintf(buf, cap, "%s", text ? text : "");
    json_decref(root);
    return SKIPPY_OK;
}
