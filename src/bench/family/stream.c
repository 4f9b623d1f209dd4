#include "bench/family/stream.h"

#include <jansson.h>
#include <string.h>

#include "base/clock.h"

static double ms_between(uint64_t from_ns, uint64_t to_ns) {
    return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e6 : 0.0;
}

static size_t count_of(const json_t *object, const char *key) {
    const json_int_t v = json_integer_value(json_object_get(object, key));
    return v > 0 ? (size_t)v : 0;
}

/* ---- events ---- */

static void mark(sk_stream_marks *m, size_t tokens, uint64_t now_ns) {
    m->last = (sk_stream_mark){.ns = now_ns, .tokens = tokens};
    if (m->first.tokens == 0) {
        m->first = m->last;
    }
}

static const char *error_words(const json_t *event) {
    const json_t *error = json_object_get(event, "error");
    const char *text = json_string_value(json_object_get(error, "message"));
    return !error ? NULL : text ? text : "an error without words";
}

static int read_event(sk_stream *s, const json_t *event, uint64_t now_ns, sk_err *e) {
    const char *error = error_words(event);
    const char *content = json_string_value(json_object_get(event, "content"));
    if (error) {
        return sk_err_set(e, SKIPPY_E_RUNTIME, "/completion ended its stream with an error: %.300s", error);
    }
    if (!content) {
        return sk_err_set(e, SKIPPY_E_CORRUPT, "/completion streamed an event without content");
    }
    const size_t tokens = count_of(event, "tokens_predicted");
    s->tokens = tokens > s->tokens ? tokens : s->tokens;
    if (json_is_true(json_object_get(event, "stop"))) {
        const json_t *timings = json_object_get(event, "timings");
        s->ended = true;
        s->cache_n = count_of(timings, "cache_n");
        s->prompt_n = count_of(timings, "prompt_n");
    }
    if (tokens > 0 && *content) {
        mark(&s->with_text, tokens, now_ns);
    }
    if (tokens > 0 && !s->ended) {
        mark(&s->any, tokens, now_ns);
    }
    return SKIPPY_OK;
}

/* An empty line ends an event. */
static int end_event(sk_stream *s, uint64_t now_ns, sk_err *e) {
    static const char done[] = "[DONE]";
    if (s->data.len == 0 || (s->data.len == sizeof done - 1 && memcmp(s->data.data, done, s->data.len) == 0)) {
        sk_buf_clear(&s->data);
        return SKIPPY_OK;
    }
    json_error_t why;
    json_t *event = json_loadb(s->data.data, s->data.len, JSON_ALLOW_NUL, &why);
    const int rc = json_is_object(event)
                       ? read_event(s, event, now_ns, e)
                       : sk_err_set(e, SKIPPY_E_CORRUPT, "/completion streamed something that is not a JSON object: %s",
                                    event ? "another type" : why.text);
    json_decref(event);
    sk_buf_clear(&s->data);
    return rc;
}

/* Keeps the value of a data line; comments and other fields say nothing about tokens. */
static void read_line(sk_stream *s, const char *line, size_t n) {
    static const char name[] = "data:";
    const size_t skip = sizeof name - 1;
    if (n >= skip && memcmp(line, name, skip) == 0) {
        const bool space = n > skip && line[skip] == ' ';
        if (s->data.len) {
            sk_buf_str(&s->data, "\n");
        }
        sk_buf_add(&s->data, line + skip + space, n - skip - space);
    }
}

int sk_stream_feed(sk_stream *s, const char *data, size_t len, uint64_t now_ns, sk_err *e) {
    sk_buf_add(&s->in, data, len);
    size_t from = 0;
    int rc = SKIPPY_OK;
    const char *newline = NULL;
    while (rc == SKIPPY_OK && s->in.len > from &&
           (newline = memchr(s->in.data + from, '\n', s->in.len - from)) != NULL) {
        const char *line = s->in.data + from;
        size_t n = (size_t)(newline - line);
        from += n + 1;
        n -= n > 0 && line[n - 1] == '\r';
        if (n == 0) {
            rc = end_event(s, now_ns, e);
        } else {
            read_line(s, line, n);
        }
    }
    sk_buf_consume(&s->in, from);
    if (rc == SKIPPY_OK && (s->in.failed || s->data.failed)) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for an event");
    }
    if (rc == SKIPPY_OK && (s->in.len > SK_STREAM_MAX_EVENT || s->data.len > SK_STREAM_MAX_EVENT)) {
        rc = sk_err_set(e, SKIPPY_E_TOO_LARGE, "/completion streamed an event of more than %zu bytes",
                        SK_STREAM_MAX_EVENT);
    }
    return rc;
}

void sk_stream_free(sk_stream *s) {
    sk_buf_free(&s->in);
    sk_buf_free(&s->data);
    *s = (sk_stream){0};
}

int sk_stream_finish(const sk_stream *s, uint64_t start_ns, uint64_t end_ns, sk_stream_times *out, sk_err *e) {
    const sk_stream_marks *m = s->with_text.first.tokens ? &s->with_text : &s->any;
    *out = (sk_stream_times){0};
    if (!s->ended) {
        return sk_err_set(e, SKIPPY_E_IO, "/completion ended its stream without a last event");
    }
    if (m->first.tokens == 0) {
        return sk_err_set(e, SKIPPY_E_CORRUPT, "/completion streamed no token");
    }
    *out = (sk_stream_times){.ttft_ms = ms_between(start_ns, m->first.ns),
                             .elapsed_ms = ms_between(start_ns, end_ns),
                             .has_tpot = m->last.tokens > m->first.tokens,
                             .tokens = s->tokens,
                             .cache_n = s->cache_n,
                             .prompt_n = s->prompt_n};
    if (out->has_tpot) {
        out->tpot_ms = ms_between(m->first.ns, m->last.ns) / (double)(m->last.tokens - m->first.tokens);
    }
    return SKIPPY_OK;
}

/* ---- request ---- */

char *sk_stream_body(const char *prompt, size_t n_predict) {
    json_t *request =
        json_pack("{s:s, s:I, s:i, s:b, s:b, s:b, s:b}", "prompt", prompt, "n_predict", (json_int_t)n_predict,
                  "temperature", 0, "cache_prompt", 1, "ignore_eos", 1, "stream", 1, "return_tokens", 1);
    char *body = request ? json_dumps(request, JSON_COMPACT) : NULL;
    json_decref(request);
    return body;
}

static int feed_piece(void *ud, const char *data, size_t len, sk_err *e) {
    return sk_stream_feed(ud, data, len, sk_now_ns(), e);
}

static int refused(const sk_http_response *r, sk_err *e) {
    json_t *root = json_loadb(r->body.data ? r->body.data : "", r->body.len, 0, NULL);
    const char *text = error_words(root);
    sk_err_set(e, SKIPPY_E_RUNTIME, "/completion answered %d: %.300s", r->status,
               text          ? text
               : r->body.len ? r->body.data
                             : "(nothing)");
    json_decref(root);
    return SKIPPY_E_RUNTIME;
}

int sk_stream_request(sk_http_client *c, const char *body, sk_stream_times *out, sk_err *e) {
    sk_stream s = {0};
    sk_http_response r = {0};
    *out = (sk_stream_times){0};
    sk_http_client_close(c);
    int rc = sk_http_client_prepare(c, e);
    const uint64_t start_ns = sk_now_ns();
    if (rc == SKIPPY_OK) {
        rc = sk_http_client_stream(c, "/completion", body, strlen(body), feed_piece, &s, &r, e);
    }
    const uint64_t end_ns = sk_now_ns();
    if (rc == SKIPPY_OK && r.status != 200) {
        rc = refused(&r, e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_stream_finish(&s, start_ns, end_ns, out, e);
    }
    sk_http_response_free(&r);
    sk_stream_free(&s);
    return rc;
}
