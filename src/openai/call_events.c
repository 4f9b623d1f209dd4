/* Engine events of a call's jobs: collected, and streamed through the writer of the endpoint. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "openai/error.h"
#include "openai/internal.h"

static const sk_writer *writer_of(const sk_api_call *c) {
    switch (c->request.kind) {
    case SK_API_CHAT: return &sk_chat_writer;
    case SK_API_COMPLETIONS: return &sk_completion_writer;
    case SK_API_LLAMA: break;
    }
    return &sk_llama_writer;
}

static bool keep_tokens(sk_choice *j, const sk_gen_event *ev) {
    while (ev->n_tokens > j->cap_tokens - j->n_tokens) {
        size_t cap = j->cap_tokens ? j->cap_tokens * 2 : 64;
        int32_t *grown = realloc(j->tokens, cap * sizeof *grown);
        if (!grown) return false;
        j->tokens = grown;
        j->cap_tokens = cap;
    }
    for (size_t i = 0; i < ev->n_tokens; i++) j->tokens[j->n_tokens++] = ev->tokens[i].token;
    return true;
}

static void keep_stats(sk_choice *j, const sk_gen_event *ev) {
    if (!ev->stats) return;
    j->stats = *ev->stats;
    j->has_stats = true;
}

static int on_text(sk_api_call *c, sk_choice *j, const sk_gen_event *ev, sk_buf *out) {
    const sk_request *r = &c->request;
    if (!j->first_ns) j->first_ns = sk_now_ns();
    sk_buf_add(&j->text, ev->text, ev->len);
    bool ok = keep_tokens(j, ev) && !j->text.failed;
    if (ok && r->logprobs && !r->stream) ok = sk_records_keep(&j->records, &j->n_records, &j->cap_records, ev);
    if (!ok) return SKIPPY_E_NOMEM;
    if (r->stream) writer_of(c)->text(c, j, ev, out);
    return SKIPPY_OK;
}

static void error_of(const sk_choice *j, sk_api_error *err) {
    int status = sk_api_status_for(j->error_code);
    const char *type = "server_error", *code = NULL;
    if (status == 400) type = "invalid_request_error";
    if (status == 429) type = "rate_limit_error";
    if (status == 503) type = "service_unavailable_error";
    if (status == 504) type = "timeout_error";
    if (j->error_code == SKIPPY_E_TOO_LARGE) code = "context_length_exceeded";
    sk_api_error_set(err, status, type, code, NULL, "%s",
                     j->error_text ? j->error_text : skippy_strerror(j->error_code));
}

static void job_done(sk_api_call *c, sk_choice *j, sk_buf *out) {
    j->done = true;
    c->n_done++;
    if (c->request.stream && c->n_done == c->n_choices) writer_of(c)->close(c, out);
}

static void job_failed(sk_api_call *c, sk_choice *j, int code, const char *text, sk_buf *out) {
    sk_api_error err;
    j->error_code = code ? code : SKIPPY_E_RUNTIME;
    j->error_text = text ? strdup(text) : NULL;
    if (c->request.stream) {
        error_of(j, &err);
        sk_sse_begin(out);
        sk_api_error_json(&err, out);
        sk_sse_end(out);
    }
    job_done(c, j, out);
}

static int on_done(sk_api_call *c, sk_choice *j, const sk_gen_event *ev, sk_buf *out) {
    keep_stats(j, ev);
    j->finish = ev->finish;
    if (ev->finish == SK_FINISH_WORD && ev->stop_word) {
        j->stop_word = strdup(ev->stop_word);
        if (!j->stop_word) return SKIPPY_E_NOMEM;
    }
    if (j->parser && !c->request.stream) {
        int rc = sk_chat_parser_feed(j->parser, j->text.data ? j->text.data : "", j->text.len, true, NULL, NULL, NULL);
        if (rc) return rc;
    }
    j->done = true; /* its numbers are final from here on */
    if (c->request.stream) writer_of(c)->finish(c, j, out);
    job_done(c, j, out);
    return SKIPPY_OK;
}

int sk_api_call_event(sk_api_call *c, size_t job, const sk_gen_event *ev, sk_buf *out) {
    if (job >= c->n_choices || c->choices[job].done) return SKIPPY_E_INVALID;
    sk_choice *j = &c->choices[job];
    int rc = SKIPPY_OK;
    switch (ev->type) {
    case SK_EV_START:
        keep_stats(j, ev);
        j->start_ns = sk_now_ns();
        break;
    case SK_EV_PROGRESS:
        keep_stats(j, ev);
        if (c->request.stream && c->request.return_progress) writer_of(c)->progress(c, j, ev, out);
        break;
    case SK_EV_TEXT: rc = on_text(c, j, ev, out); break;
    case SK_EV_DONE: rc = on_done(c, j, ev, out); break;
    case SK_EV_ERROR: job_failed(c, j, ev->code, ev->error, out); return SKIPPY_OK;
    }
    if (!rc && c->request.stream && out->failed) rc = SKIPPY_E_NOMEM;
    if (rc && !j->done) job_failed(c, j, rc, NULL, out);
    return rc;
}

void sk_api_call_fail(sk_api_call *c, size_t job, int code, const char *text, sk_buf *out) {
    if (job < c->n_choices && !c->choices[job].done) job_failed(c, &c->choices[job], code, text, out);
}

int sk_api_call_response(sk_api_call *c, sk_buf *out) {
    sk_api_error err;
    for (size_t i = 0; i < c->n_choices; i++) {
        if (!c->choices[i].error_code) continue;
        error_of(&c->choices[i], &err);
        sk_api_error_json(&err, out);
        return err.status;
    }
    writer_of(c)->body(c, out);
    if (!out->failed) return 200;
    sk_buf_clear(out);
    sk_api_nomem(&err);
    sk_api_error_json(&err, out);
    return err.status;
}
