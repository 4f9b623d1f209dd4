/* Answers of /v1/chat/completions. */
#include <stdlib.h>
#include <string.h>

#include "openai/internal.h"

static bool has_calls(const sk_choice *j) {
    return j->parser && sk_chat_parser_message(j->parser)->n_calls > 0;
}

static const char *chat_finish(const sk_choice *j) {
    bool ended = j->finish == SK_FINISH_STOP || j->finish == SK_FINISH_WORD;
    if (has_calls(j) && sk_chat_parser_message(j->parser)->cut) ended = true;
    return ended && has_calls(j) ? "tool_calls" : sk_finish_reason(j->finish);
}

/* Opens a chunk up to the inside of its delta. */
static void chunk_begin(const sk_api_call *c, const sk_choice *j, sk_buf *out) {
    sk_sse_begin(out);
    sk_buf_str(out, "{");
    sk_write_head(c, "chat.completion.chunk", out);
    sk_buf_printf(out, ",\"choices\":[{\"index\":%u,\"delta\":{", j->index);
}

/* Closes it; finish is NULL inside an answer. */
static void chunk_end(const sk_api_call *c, const sk_choice *j, const sk_gen_event *ev, const char *finish,
                      sk_buf *out) {
    sk_buf_str(out, "},\"logprobs\":");
    sk_token_record *r = ev && c->request.logprobs ? sk_records_borrow(ev) : NULL;
    if (r) {
        sk_buf_str(out, "{\"content\":");
        sk_write_chat_logprobs(c->api->model, r, ev->n_tokens, (size_t)c->request.top_logprobs, false, out);
        sk_buf_str(out, ",\"refusal\":null}");
        free(r);
    } else {
        sk_buf_str(out, "null");
    }
    sk_write_chunk_end(c, j, ev, finish, out);
}

static void open_stream(sk_api_call *c, sk_choice *j, sk_buf *out) {
    if (j->opened) return;
    j->opened = true;
    chunk_begin(c, j, out);
    sk_buf_str(out, "\"role\":\"assistant\",\"content\":\"\",\"refusal\":null");
    chunk_end(c, j, NULL, NULL, out);
}

static void text_member(const char *name, const char *text, size_t len, sk_buf *out) {
    sk_buf_printf(out, "\"%s\":", name);
    sk_write_string(out, text, len);
}

/* What a parser callback needs to write its chunk; the event's tokens go with the first one. */
typedef struct delta_sink {
    sk_api_call *c;
    sk_choice *j;
    const sk_gen_event *ev;
    sk_buf *out;
} delta_sink;

static void write_call_delta(const sk_chat_delta *d, sk_buf *out) {
    sk_buf_printf(out, "\"tool_calls\":[{\"index\":%zu", d->call);
    if (d->kind == SK_CHAT_CALL_START) {
        sk_buf_str(out, ",\"id\":");
        sk_write_string(out, d->id, strlen(d->id));
        sk_buf_str(out, ",\"type\":\"function\",\"function\":{\"name\":");
        sk_write_string(out, d->name, strlen(d->name));
        sk_buf_str(out, ",\"arguments\":\"\"}}]");
        return;
    }
    sk_buf_str(out, ",\"function\":{");
    text_member("arguments", d->text, d->len, out);
    sk_buf_str(out, "}}]");
}

static void on_delta(void *ud, const sk_chat_delta *d) {
    delta_sink *s = ud;
    chunk_begin(s->c, s->j, s->out);
    switch (d->kind) {
    case SK_CHAT_CONTENT: text_member("content", d->text, d->len, s->out); break;
    case SK_CHAT_REASONING: text_member("reasoning_content", d->text, d->len, s->out); break;
    case SK_CHAT_CALL_START:
    case SK_CHAT_CALL_ARGUMENTS: write_call_delta(d, s->out); break;
    }
    chunk_end(s->c, s->j, s->ev, NULL, s->out);
    s->ev = NULL;
}

static void stream_text(sk_api_call *c, sk_choice *j, const sk_gen_event *ev, sk_buf *out) {
    bool probabilities = c->request.logprobs && ev->n_tokens > 0;
    open_stream(c, j, out);
    delta_sink sink = {c, j, ev, out};
    if (j->parser) {
        if (sk_chat_parser_feed(j->parser, ev->text, ev->len, false, on_delta, &sink, NULL)) out->failed = true;
        if (!sink.ev || !probabilities) return;
        chunk_begin(c, j, out); /* the text is kept back, its probabilities are not */
        chunk_end(c, j, ev, NULL, out);
    } else if (ev->len > 0 || probabilities) {
        chunk_begin(c, j, out);
        text_member("content", ev->text, ev->len, out);
        chunk_end(c, j, ev, NULL, out);
    }
}

static void stream_progress(sk_api_call *c, sk_choice *j, const sk_gen_event *ev, sk_buf *out) {
    open_stream(c, j, out);
    sk_sse_begin(out);
    sk_buf_str(out, "{");
    sk_write_head(c, "chat.completion.chunk", out);
    sk_buf_printf(out,
                  ",\"choices\":[{\"index\":%u,\"delta\":{},\"finish_reason\":null}],\"prompt_progress\":", j->index);
    sk_write_progress(j, ev, out);
    sk_buf_str(out, "}");
    sk_sse_end(out);
}

static void stream_finish(sk_api_call *c, sk_choice *j, sk_buf *out) {
    open_stream(c, j, out);
    delta_sink sink = {c, j, NULL, out};
    if (j->parser && sk_chat_parser_feed(j->parser, "", 0, true, on_delta, &sink, NULL)) out->failed = true;
    chunk_begin(c, j, out);
    chunk_end(c, j, NULL, chat_finish(j), out);
}

static void stream_close(sk_api_call *c, sk_buf *out) {
    if (c->request.include_usage) {
        sk_sse_begin(out);
        sk_buf_str(out, "{");
        sk_write_head(c, "chat.completion.chunk", out);
        sk_buf_str(out, ",\"choices\":[],\"usage\":");
        sk_write_usage(c, out);
        sk_buf_str(out, "}");
        sk_sse_end(out);
    }
    sk_sse_begin(out);
    sk_buf_str(out, "[DONE]");
    sk_sse_end(out);
}

static void write_calls(const sk_chat_message *m, sk_buf *out) {
    sk_buf_str(out, ",\"tool_calls\":[");
    for (size_t i = 0; i < m->n_calls; i++) {
        const sk_chat_call *call = &m->calls[i];
        sk_buf_str(out, i ? ",{\"id\":" : "{\"id\":");
        sk_write_string(out, call->id, strlen(call->id));
        sk_buf_str(out, ",\"type\":\"function\",\"function\":{\"name\":");
        sk_write_string(out, call->name, strlen(call->name));
        sk_buf_str(out, ",\"arguments\":");
        sk_write_string(out, call->arguments, strlen(call->arguments));
        sk_buf_str(out, "}}");
    }
    sk_buf_str(out, "]");
}

static void write_message(const sk_choice *j, sk_buf *out) {
    sk_chat_message plain = {.content = j->text.data ? j->text.data : "", .content_len = j->text.len};
    const sk_chat_message *m = j->parser ? sk_chat_parser_message(j->parser) : &plain;
    sk_buf_str(out, "{\"role\":\"assistant\",\"content\":");
    if (m->content_len == 0 && m->n_calls > 0)
        sk_buf_str(out, "null");
    else
        sk_write_string(out, m->content, m->content_len);
    if (m->reasoning_len > 0) {
        sk_buf_str(out, ",");
        text_member("reasoning_content", m->reasoning, m->reasoning_len, out);
    }
    if (m->n_calls > 0) write_calls(m, out);
    sk_buf_str(out, ",\"refusal\":null}");
}

static void write_choice(const sk_api_call *c, const sk_choice *j, sk_buf *out) {
    sk_buf_printf(out, "{\"index\":%u,\"message\":", j->index);
    write_message(j, out);
    sk_buf_str(out, ",\"logprobs\":");
    if (c->request.logprobs) {
        sk_buf_str(out, "{\"content\":");
        sk_write_chat_logprobs(c->api->model, j->records, j->n_records, (size_t)c->request.top_logprobs, false, out);
        sk_buf_str(out, ",\"refusal\":null}");
    } else {
        sk_buf_str(out, "null");
    }
    sk_buf_printf(out, ",\"finish_reason\":\"%s\"}", chat_finish(j));
}

static void write_body(sk_api_call *c, sk_buf *out) {
    sk_buf_str(out, "{");
    sk_write_head(c, "chat.completion", out);
    sk_buf_str(out, ",\"choices\":[");
    for (size_t i = 0; i < c->n_choices; i++) {
        if (i) sk_buf_str(out, ",");
        write_choice(c, &c->choices[i], out);
    }
    sk_buf_str(out, "],\"usage\":");
    sk_write_usage(c, out);
    sk_buf_str(out, ",\"timings\":");
    sk_write_timings(&c->choices[0], out);
    sk_buf_str(out, "}");
}

const sk_writer sk_chat_writer = {stream_text, stream_progress, stream_finish, stream_close, write_body};
