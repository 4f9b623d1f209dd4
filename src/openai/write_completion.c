/* Answers of /v1/completions. */
#include <stdlib.h>
#include <string.h>

#include "openai/internal.h"

/* Legacy logprobs count offsets in the whole text, which begins with the prompt where it is echoed. */
static size_t echo_len(const sk_api_call *c, const sk_choice *j) {
    return c->request.echo ? c->prompts[j->prompt].text_len : 0;
}

static void write_chunk(sk_api_call *c, sk_choice *j, const char *text, size_t len, const sk_gen_event *ev,
                        const char *finish, sk_buf *out) {
    sk_sse_begin(out);
    sk_buf_str(out, "{");
    sk_write_head(c, "text_completion", out);
    sk_buf_printf(out, ",\"choices\":[{\"text\":");
    sk_write_string(out, text, len);
    sk_buf_printf(out, ",\"index\":%u,\"logprobs\":", j->index);
    sk_token_record *r = ev && c->request.logprobs ? sk_records_borrow(ev) : NULL;
    if (r)
        sk_write_legacy_logprobs(c->api->model, r, ev->n_tokens, (size_t)c->request.top_logprobs, &j->text_offset, out);
    else
        sk_buf_str(out, "null");
    free(r);
    sk_write_chunk_end(c, j, ev, finish, out);
}

static void open_stream(sk_api_call *c, sk_choice *j, sk_buf *out) {
    if (j->opened) return;
    j->opened = true;
    j->text_offset = echo_len(c, j);
    if (c->request.echo) write_chunk(c, j, c->prompts[j->prompt].text, c->prompts[j->prompt].text_len, NULL, NULL, out);
}

static void stream_text(sk_api_call *c, sk_choice *j, const sk_gen_event *ev, sk_buf *out) {
    open_stream(c, j, out);
    if (ev->len > 0 || (c->request.logprobs && ev->n_tokens > 0)) write_chunk(c, j, ev->text, ev->len, ev, NULL, out);
}

static void stream_progress(sk_api_call *c, sk_choice *j, const sk_gen_event *ev, sk_buf *out) {
    sk_sse_begin(out);
    sk_buf_str(out, "{");
    sk_write_head(c, "text_completion", out);
    sk_buf_printf(
        out,
        ",\"choices\":[{\"text\":\"\",\"index\":%u,\"logprobs\":null,\"finish_reason\":null}],\"prompt_progress\":",
        j->index);
    sk_write_progress(j, ev, out);
    sk_buf_str(out, "}");
    sk_sse_end(out);
}

static void stream_finish(sk_api_call *c, sk_choice *j, sk_buf *out) {
    open_stream(c, j, out);
    write_chunk(c, j, "", 0, NULL, sk_finish_reason(j->finish), out);
}

static void stream_close(sk_api_call *c, sk_buf *out) {
    if (c->request.include_usage) {
        sk_sse_begin(out);
        sk_buf_str(out, "{");
        sk_write_head(c, "text_completion", out);
        sk_buf_str(out, ",\"choices\":[],\"usage\":");
        sk_write_usage(c, out);
        sk_buf_str(out, "}");
        sk_sse_end(out);
    }
    sk_sse_begin(out);
    sk_buf_str(out, "[DONE]");
    sk_sse_end(out);
}

static void write_choice(sk_api_call *c, sk_choice *j, sk_buf *out) {
    const sk_prompt *p = &c->prompts[j->prompt];
    sk_buf_str(out, "{\"text\":\"");
    if (c->request.echo) sk_buf_json_escape(out, p->text, p->text_len);
    if (j->text.len) sk_buf_json_escape(out, j->text.data, j->text.len);
    sk_buf_printf(out, "\",\"index\":%u,\"logprobs\":", j->index);
    size_t offset = echo_len(c, j);
    if (c->request.logprobs)
        sk_write_legacy_logprobs(c->api->model, j->records, j->n_records, (size_t)c->request.top_logprobs, &offset,
                                 out);
    else
        sk_buf_str(out, "null");
    sk_buf_printf(out, ",\"finish_reason\":\"%s\"}", sk_finish_reason(j->finish));
}

static void write_body(sk_api_call *c, sk_buf *out) {
    sk_buf_str(out, "{");
    sk_write_head(c, "text_completion", out);
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

const sk_writer sk_completion_writer = {stream_text, stream_progress, stream_finish, stream_close, write_body};
