/* Answers of /completion, with llama-server's fields. */
#include <stdlib.h>
#include <string.h>

#include "openai/internal.h"

static const char *stop_type(enum sk_finish finish) {
    switch (finish) {
    case SK_FINISH_STOP: return "eos";
    case SK_FINISH_WORD: return "word";
    case SK_FINISH_LIMIT:
    case SK_FINISH_CONTEXT: return "limit";
    }
    return "none";
}

typedef struct named_float {
    const char *name;
    float value;
} named_float;

typedef struct named_int {
    const char *name;
    long long value;
} named_int;

static void write_float_settings(const sk_sampling *s, sk_buf *out) {
    const named_float list[] = {
        {"temperature", s->temperature},
        {"dynatemp_range", s->dynatemp_range},
        {"dynatemp_exponent", s->dynatemp_exponent},
        {"top_p", s->top_p},
        {"min_p", s->min_p},
        {"top_n_sigma", s->top_n_sigma},
        {"xtc_probability", s->xtc_probability},
        {"xtc_threshold", s->xtc_threshold},
        {"typical_p", s->typical_p},
        {"repeat_penalty", s->repeat_penalty},
        {"presence_penalty", s->presence_penalty},
        {"frequency_penalty", s->frequency_penalty},
        {"dry_multiplier", s->dry_multiplier},
        {"dry_base", s->dry_base},
        {"mirostat_tau", s->mirostat_tau},
        {"mirostat_eta", s->mirostat_eta},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        sk_buf_printf(out, ",\"%s\":%.7g", list[i].name, (double)list[i].value);
}

static void write_int_settings(const sk_api_call *c, const sk_sampling *s, sk_buf *out) {
    const named_int list[] = {
        {"top_k", s->top_k},
        {"repeat_last_n", s->repeat_last_n},
        {"dry_allowed_length", s->dry_allowed_length},
        {"dry_penalty_last_n", s->dry_penalty_last_n},
        {"mirostat", s->mirostat},
        {"n_probs", s->n_probs},
        {"min_keep", s->min_keep},
        {"n_predict", c->request.n_predict},
        {"max_tokens", c->request.n_predict},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        sk_buf_printf(out, ",\"%s\":%lld", list[i].name, list[i].value);
}

static void write_settings(const sk_api_call *c, const sk_choice *j, sk_buf *out) {
    const sk_sampling *s = &j->request.sampling;
    sk_buf_printf(out, "{\"seed\":%u", s->seed);
    write_float_settings(s, out);
    write_int_settings(c, s, out);
    sk_buf_printf(out, ",\"ignore_eos\":%s,\"stream\":%s,\"stop\":[", s->ignore_eos ? "true" : "false",
                  c->request.stream ? "true" : "false");
    for (size_t i = 0; i < c->n_stop; i++) {
        if (i) sk_buf_str(out, ",");
        sk_write_string(out, c->stop[i], strlen(c->stop[i]));
    }
    sk_buf_str(out, "],\"logit_bias\":[");
    for (size_t i = 0; i < s->n_bias; i++) {
        sk_buf_printf(out, "%s{\"token\":%d,\"bias\":", i ? "," : "", s->bias[i].token);
        sk_write_number(out, (double)s->bias[i].bias);
        sk_buf_str(out, "}");
    }
    sk_buf_str(out, "],\"grammar\":");
    sk_write_string(out, s->grammar ? s->grammar : "", s->grammar ? strlen(s->grammar) : 0);
    sk_buf_str(out, "}");
}

static void write_probabilities(const sk_api_call *c, const sk_token_record *r, size_t n, sk_buf *out) {
    sk_buf_str(out, ",\"completion_probabilities\":");
    sk_write_chat_logprobs(c->api->model, r, n, (size_t)c->request.top_logprobs, true, out);
}

static void stream_text(sk_api_call *c, sk_choice *j, const sk_gen_event *ev, sk_buf *out) {
    const sk_request *r = &c->request;
    if (ev->len == 0 && !((r->logprobs || r->return_tokens) && ev->n_tokens > 0)) return;
    sk_sse_begin(out);
    sk_buf_printf(out, "{\"index\":%u,\"content\":", j->index);
    sk_write_string(out, ev->text, ev->len);
    sk_buf_str(out, ",\"tokens\":");
    size_t n_shown = r->return_tokens ? ev->n_tokens : 0;
    sk_write_tokens(j->tokens + j->n_tokens - n_shown, n_shown, out);
    sk_buf_printf(out, ",\"stop\":false,\"id_slot\":%u,\"tokens_predicted\":%zu,\"tokens_evaluated\":%zu",
                  j->stats.lane, j->n_tokens, c->prompts[j->prompt].n_tokens);
    sk_token_record *records = r->logprobs ? sk_records_borrow(ev) : NULL;
    if (records) write_probabilities(c, records, ev->n_tokens, out);
    free(records);
    if (r->timings_per_token) {
        sk_buf_str(out, ",\"timings\":");
        sk_write_timings(j, out);
    }
    sk_buf_str(out, "}");
    sk_sse_end(out);
}

static void stream_progress(sk_api_call *c, sk_choice *j, const sk_gen_event *ev, sk_buf *out) {
    sk_sse_begin(out);
    sk_buf_printf(out,
                  "{\"index\":%u,\"content\":\"\",\"tokens\":[],\"stop\":false,\"id_slot\":%u,\"tokens_predicted\":0,"
                  "\"tokens_evaluated\":%zu,\"prompt_progress\":",
                  j->index, j->stats.lane, c->prompts[j->prompt].n_tokens);
    sk_write_progress(j, ev, out);
    sk_buf_str(out, "}");
    sk_sse_end(out);
}

/* Tokens whose state the lane holds at the end: the last sampled one was not evaluated. */
static size_t tokens_cached(const sk_api_call *c, const sk_choice *j) {
    return c->prompts[j->prompt].n_tokens + (j->n_tokens ? j->n_tokens - 1 : 0);
}

static void write_final(sk_api_call *c, sk_choice *j, sk_buf *out) {
    const sk_request *r = &c->request;
    bool whole = !r->stream;
    sk_buf_printf(out, "{\"index\":%u,\"content\":", j->index);
    sk_write_string(out, whole && j->text.len ? j->text.data : "", whole ? j->text.len : 0);
    sk_buf_str(out, ",\"tokens\":");
    sk_write_tokens(j->tokens, whole && r->return_tokens ? j->n_tokens : 0, out);
    sk_buf_printf(out, ",\"id_slot\":%u,\"stop\":true,\"model\":", j->stats.lane);
    sk_write_string(out, c->api->model_id, strlen(c->api->model_id));
    sk_buf_printf(out, ",\"tokens_predicted\":%zu,\"tokens_evaluated\":%zu,\"generation_settings\":", j->n_tokens,
                  c->prompts[j->prompt].n_tokens);
    write_settings(c, j, out);
    sk_prompt *p = &c->prompts[j->prompt];
    sk_buf_str(out, ",\"prompt\":");
    if (sk_prompt_need_text(c->api->model, p))
        sk_write_string(out, p->text, p->text_len);
    else
        sk_buf_str(out, "null");
    bool new_line = j->text.len && memchr(j->text.data, '\n', j->text.len);
    sk_buf_printf(out, ",\"has_new_line\":%s,\"truncated\":%s,\"stop_type\":\"%s\",\"stopping_word\":",
                  new_line ? "true" : "false", j->finish == SK_FINISH_CONTEXT ? "true" : "false", stop_type(j->finish));
    sk_write_string(out, j->stop_word ? j->stop_word : "", j->stop_word ? strlen(j->stop_word) : 0);
    sk_buf_printf(out, ",\"tokens_cached\":%zu,\"timings\":", tokens_cached(c, j));
    sk_write_timings(j, out);
    if (whole && r->logprobs) write_probabilities(c, j->records, j->n_records, out);
    sk_buf_str(out, "}");
}

static void stream_finish(sk_api_call *c, sk_choice *j, sk_buf *out) {
    sk_sse_begin(out);
    write_final(c, j, out);
    sk_sse_end(out);
}

/* llama-server ends this stream without a marker. */
static void stream_close(sk_api_call *c, sk_buf *out) {
    (void)c;
    (void)out;
}

/* One prompt and one choice give an object, more give an array. */
static void write_body(sk_api_call *c, sk_buf *out) {
    if (c->n_choices == 1) {
        write_final(c, &c->choices[0], out);
        return;
    }
    sk_buf_str(out, "[");
    for (size_t i = 0; i < c->n_choices; i++) {
        if (i) sk_buf_str(out, ",");
        write_final(c, &c->choices[i], out);
    }
    sk_buf_str(out, "]");
}

const sk_writer sk_llama_writer = {stream_text, stream_progress, stream_finish, stream_close, write_body};
