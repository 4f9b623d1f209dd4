/* A call: one HTTP request with its prompts and jobs, from body to engine requests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "openai/boundaries.h"
#include "openai/grammar_check.h"
#include "openai/internal.h"
#include "openai/render.h"

static void choice_clear(sk_choice *j) {
    sk_records_free(j->records, j->n_records);
    free(j->tokens);
    free(j->error_text);
    free(j->stop_word);
    sk_buf_free(&j->text);
    sk_chat_parser_free(j->parser);
}

void sk_api_call_free(sk_api_call *c) {
    if (!c) return;
    for (size_t i = 0; i < c->n_choices; i++) choice_clear(&c->choices[i]);
    for (size_t i = 0; i < c->n_prompts; i++) sk_prompt_clear(&c->prompts[i]);
    free(c->choices);
    free(c->prompts);
    free(c->triggers);
    free(c->preserved);
    free(c->grammar);
    free(c->stop);
    sk_chat_format_release(c->format);
    sk_request_clear(&c->request);
    free(c);
}

static void make_id(sk_api_call *c) {
    unsigned char random[12];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        uint64_t now = sk_now_ns(); /* no entropy yet, early after boot: unique is enough for an id */
        memcpy(random, &now, sizeof now);
        memset(random + sizeof now, 0, sizeof random - sizeof now);
    }
    size_t n = (size_t)snprintf(c->id, sizeof c->id, "%s", c->request.kind == SK_API_CHAT ? "chatcmpl-" : "cmpl-");
    for (size_t i = 0; i < sizeof random; i++) n += (size_t)snprintf(c->id + n, sizeof c->id - n, "%02x", random[i]);
    c->created = sk_wall_s();
}

static int check_fits(const sk_api_call *c, const sk_prompt *p, sk_api_error *err) {
    return p->n_tokens >= c->api->n_ctx ? sk_api_context_exceeded(err, p->n_tokens, c->api->n_ctx) : 0;
}

/* Bytes of text in a prompt: it may be a list that mixes text and token ids. */
static size_t text_bytes(const json_t *v) {
    size_t n = json_string_length(v);
    for (size_t i = 0; i < json_array_size(v); i++) n += json_string_length(json_array_get(v, i));
    return n;
}

static int add_chat_prompt(sk_api_call *c, sk_api_error *err) {
    sk_chat_prompt rendered;
    int status = sk_api_render(c->api, &c->request.chat, c->request.json_schema, &rendered, err);
    if (status) return status;
    c->format = rendered.format;
    c->prompts = calloc(1, sizeof *c->prompts);
    if (!c->prompts) {
        free(rendered.text);
        return sk_api_nomem(err);
    }
    status = sk_api_check_length(c->api, rendered.len, err);
    if (status) {
        free(rendered.text);
        return status;
    }
    c->n_prompts = 1;
    status = sk_prompt_from_text(c->api->memo, rendered.text, rendered.len, &c->prompts[0], err);
    if (!status) status = check_fits(c, &c->prompts[0], err);
    /* where the opening stays, the end of the prompt is a boundary anyway, and a better one */
    if (!status)
        sk_boundaries_of_chat(c->api->model, c->request.chat.messages,
                              rendered.opening_stays ? 0 : rendered.n_generation, &c->prompts[0]);
    return status;
}

static void copy_boundaries(const sk_request *r, sk_prompt *p) {
    for (size_t i = 0; i < r->n_boundaries; i++)
        if (r->boundaries[i] < p->n_tokens) p->boundaries[p->n_boundaries++] = r->boundaries[i];
}

static int add_text_prompts(sk_api_call *c, sk_api_error *err) {
    const json_t *v = c->request.prompt;
    bool list = sk_prompt_is_list(v);
    size_t n = list ? json_array_size(v) : 1;
    c->prompts = calloc(n, sizeof *c->prompts);
    if (!c->prompts) return sk_api_nomem(err);
    for (size_t i = 0; i < n; i++) {
        sk_prompt *p = &c->prompts[i];
        const json_t *one = list ? json_array_get(v, i) : v;
        int status = sk_api_check_length(c->api, text_bytes(one), err);
        if (!status) status = sk_prompt_from_json(c->api->model, c->api->memo, one, p, err);
        if (status) return status;
        c->n_prompts++;
        status = check_fits(c, p, err);
        if (status) return status;
        copy_boundaries(&c->request, p);
        if (c->request.echo && !sk_prompt_need_text(c->api->model, p)) return sk_api_nomem(err);
    }
    return 0;
}

/* The id of a text that is exactly one token, or -1. */
static int32_t single_token(const sk_model *m, const char *text) {
    int32_t *tokens = NULL;
    size_t n = 0;
    int32_t id = -1;
    if (sk_model_tokenize(m, text, strlen(text), false, true, &tokens, &n) == SKIPPY_OK && n == 1) id = tokens[0];
    free(tokens);
    return id;
}

static int set_preserved(sk_api_call *c, const sk_chat_format_info *f, sk_api_error *err) {
    c->preserved = calloc(f->n_preserved ? f->n_preserved : 1, sizeof *c->preserved);
    if (!c->preserved) return sk_api_nomem(err);
    for (size_t i = 0; i < f->n_preserved; i++) {
        int32_t id = single_token(c->api->model, f->preserved[i]);
        if (id >= 0) c->preserved[c->sampling.n_preserved++] = id;
    }
    c->sampling.preserved_tokens = c->preserved;
    return 0;
}

/* A trigger word that is one token is matched as this token: its text is hidden from the word search otherwise. */
static int set_triggers(sk_api_call *c, const sk_chat_format_info *f, sk_api_error *err) {
    static const enum sk_trigger_type types[] = {SK_TRIGGER_TOKEN, SK_TRIGGER_WORD, SK_TRIGGER_PATTERN,
                                                 SK_TRIGGER_PATTERN_FULL};
    c->triggers = calloc(f->n_triggers ? f->n_triggers : 1, sizeof *c->triggers);
    if (!c->triggers) return sk_api_nomem(err);
    for (size_t i = 0; i < f->n_triggers; i++) {
        sk_trigger t = {.type = types[f->trigger_types[i]], .text = f->triggers[i]};
        if (t.type == SK_TRIGGER_WORD || t.type == SK_TRIGGER_TOKEN) {
            t.token = single_token(c->api->model, t.text);
            t.type = t.token >= 0 ? SK_TRIGGER_TOKEN : SK_TRIGGER_WORD;
        }
        c->triggers[i] = t;
    }
    c->sampling.triggers = c->triggers;
    c->sampling.n_triggers = f->n_triggers;
    return 0;
}

static int set_format(sk_api_call *c, sk_api_error *err) {
    const sk_chat_format_info *f = sk_chat_format_get_info(c->format);
    int status = 0;
    if (*f->grammar) {
        status = sk_grammar_check(f->grammar, c->request.json_schema ? "response_format" : "tools", err);
        c->sampling.grammar = f->grammar;
        c->sampling.grammar_lazy = f->grammar_lazy;
    }
    if (!status) status = set_preserved(c, f, err);
    return status ? status : set_triggers(c, f, err);
}

static int set_stops(sk_api_call *c, sk_api_error *err) {
    const sk_chat_format_info *f = c->format ? sk_chat_format_get_info(c->format) : NULL;
    size_t extra = f ? f->n_stops : 0, n = c->request.n_stop + extra;
    if (n == 0) return 0;
    c->stop = calloc(n, sizeof *c->stop);
    if (!c->stop) return sk_api_nomem(err);
    for (size_t i = 0; i < c->request.n_stop; i++) c->stop[c->n_stop++] = c->request.stop[i];
    for (size_t i = 0; i < extra; i++) c->stop[c->n_stop++] = f->stops[i];
    return 0;
}

/* Text endpoints: a schema becomes a grammar here; the chat format brings its own. */
static int set_grammar(sk_api_call *c, sk_api_error *err) {
    sk_request *r = &c->request;
    if (r->grammar) c->sampling.grammar = r->grammar;
    if (r->kind == SK_API_CHAT || !r->json_schema) return 0;
    sk_err e = {0};
    char *schema = json_dumps(r->json_schema, JSON_COMPACT), *grammar = NULL;
    int rc = schema ? sk_chat_schema_grammar(schema, &grammar, &e) : SKIPPY_E_NOMEM;
    free(schema);
    if (rc == SKIPPY_E_NOMEM) return sk_api_nomem(err);
    if (rc) return sk_api_invalid(err, "json_schema", "the schema cannot be turned into a grammar: %s", e.text);
    c->grammar = grammar;
    c->sampling.grammar = grammar;
    return sk_grammar_check(grammar, "json_schema", err);
}

static void fill_request(const sk_api_call *c, const sk_prompt *p, uint32_t choice, sk_gen_request *out) {
    const sk_request *r = &c->request;
    out->tokens = p->tokens;
    out->n_tokens = p->n_tokens;
    out->boundaries = p->boundaries;
    out->n_boundaries = p->n_boundaries;
    out->n_predict = r->n_predict;
    out->sampling = c->sampling;
    /* Choices of one request differ: each has its own seed, derived so that a repeat of the request repeats them. */
    if (out->sampling.seed != UINT32_MAX)
        out->sampling.seed = (uint32_t)(((uint64_t)out->sampling.seed + choice) % UINT32_MAX);
    out->stop = c->stop;
    out->n_stop = c->n_stop;
    out->keep_special = r->keep_special;
    out->no_cache = r->no_cache;
    out->cache_namespace = r->cache_namespace;
    out->want_progress = r->stream && r->return_progress;
}

static int add_choices(sk_api_call *c, sk_api_error *err) {
    size_t per_prompt = c->request.n;
    c->choices = calloc(c->n_prompts * per_prompt, sizeof *c->choices);
    if (!c->choices) return sk_api_nomem(err);
    for (size_t i = 0; i < c->n_prompts * per_prompt; i++) {
        sk_choice *j = &c->choices[c->n_choices++];
        j->index = (uint32_t)i;
        j->prompt = i / per_prompt;
        fill_request(c, &c->prompts[j->prompt], (uint32_t)(i % per_prompt), &j->request);
        if (!c->format || sk_chat_format_get_info(c->format)->plain) continue;
        if (sk_chat_parser_create(c->format, &j->parser, NULL)) return sk_api_nomem(err);
    }
    return 0;
}

static int build(sk_api_call *c, sk_api_error *err) {
    make_id(c);
    c->sampling = c->request.sampling;
    int status = c->request.kind == SK_API_CHAT ? add_chat_prompt(c, err) : add_text_prompts(c, err);
    if (!status && c->format) status = set_format(c, err);
    if (!status) status = set_grammar(c, err);
    if (!status) status = set_stops(c, err);
    return status ? status : add_choices(c, err);
}

int sk_api_parse(sk_api *api, enum sk_api_kind kind, const char *body, size_t len, sk_api_call **out,
                 sk_api_error *err) {
    *out = NULL;
    sk_api_call *c = calloc(1, sizeof *c);
    if (!c) return sk_api_nomem(err);
    c->api = api;
    sk_request_limits limits = {.n_vocab = sk_model_get_info(api->model)->n_vocab,
                                .default_n_predict = api->default_n_predict};
    int status = sk_request_parse(kind, body, len, &limits, &c->request, err);
    if (!status) status = build(c, err);
    if (status) {
        sk_api_call_free(c);
        return status;
    }
    *out = c;
    return 0;
}

size_t sk_api_call_jobs(const sk_api_call *c) {
    return c->n_choices;
}

const sk_gen_request *sk_api_call_request(const sk_api_call *c, size_t job) {
    return &c->choices[job].request;
}

bool sk_api_call_stream(const sk_api_call *c) {
    return c->request.stream;
}

bool sk_api_call_done(const sk_api_call *c) {
    return c->n_done == c->n_choices;
}
