/* API objects to engine requests and back: JSON in, JSON or SSE out. No sockets here.
 * One sk_api per server. Its functions may be called on any thread, several at a time. A call belongs to one thread at
 * a time. */
#ifndef SKIPPY_OPENAI_API_H
#define SKIPPY_OPENAI_API_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "engine/engine.h"

typedef struct sk_api sk_api;
typedef struct sk_api_call sk_api_call;

/* An HTTP error for the client: becomes {"error":{"message","type","param","code"}}. */
typedef struct sk_api_error {
    int status;     /* 400, 401, 404, 405, 413, 429, 500, 503 ... */
    char type[48];  /* "invalid_request_error", "authentication_error", "rate_limit_error", "server_error" ... */
    char code[48];  /* "" = null */
    char param[64]; /* field at fault, "" = null */
    char message[512];
} sk_api_error;

/* Formats the error object. */
void sk_api_error_json(const sk_api_error *e, sk_buf *out);
/* Fills an error; returns e->status. */
int sk_api_error_set(sk_api_error *e, int status, const char *type, const char *code, const char *param,
                     const char *fmt, ...) __attribute__((format(printf, 6, 7)));

typedef struct sk_api_params {
    const sk_model *model;
    const char *model_id; /* alias shown to clients */
    uint32_t n_ctx;
    const char *chat_template; /* Jinja override; NULL = the model's */
    bool no_jinja_tools;       /* reserved */
    int32_t default_n_predict; /* -1 */
} sk_api_params;

/* Prepares the chat template once (analysis is memoised, not repeated per request). A model without a template gets the
 * ChatML fallback and a warning in the log. */
int sk_api_create(const sk_api_params *p, sk_api **out, sk_err *e);
void sk_api_destroy(sk_api *api);

enum sk_api_kind {
    SK_API_CHAT = 0 /* /v1/chat/completions */,
    SK_API_COMPLETIONS = 1 /* /v1/completions */,
    SK_API_LLAMA = 2 /* /completion */
};

/* Parses and checks a body (any bytes; `len` of them): strict JSON, types, ranges, roles, UTF-8, tools,
 * response_format; renders the template; tokenises; finds boundaries (end of system prompt + tools, start and end of
 * the last user message, end of prompt). Returns 0 and a call, or the HTTP status with *err filled. */
int sk_api_parse(sk_api *api, enum sk_api_kind kind, const char *body, size_t len, sk_api_call **out,
                 sk_api_error *err);
void sk_api_call_free(sk_api_call *c);

/* Jobs of a call (n choices times prompts). The request is complete but for on_event, ud, tenant and deadline_ns; it
 * borrows from the call. */
size_t sk_api_call_jobs(const sk_api_call *c);
const sk_gen_request *sk_api_call_request(const sk_api_call *c, size_t job);
bool sk_api_call_stream(const sk_api_call *c);

/* Feeds an event of one job. Streaming: appends complete SSE messages ("data: {...}\n\n", last one "data: [DONE]\n\n"
 * for the OpenAI endpoints) to out. Not streaming: collects, out untouched. */
int sk_api_call_event(sk_api_call *c, size_t job, const sk_gen_event *ev, sk_buf *out);
/* All jobs had their last event. */
bool sk_api_call_done(const sk_api_call *c);
/* Not streaming, after done: the body. Returns the HTTP status (200, or the error of a failed job as an error object).
 */
int sk_api_call_response(sk_api_call *c, sk_buf *out);
/* Error of a job that never started, as an SSE message or remembered for the response. code as enum skippy_status. */
void sk_api_call_fail(sk_api_call *c, size_t job, int code, const char *text, sk_buf *out);
/* HTTP status for an engine code: INVALID 400, TOO_LARGE 400 (code "context_length_exceeded"), FULL 429, BUSY 503,
 * TIMEOUT 504, else 500. */
int sk_api_status_for(int code);

/* Body of DELETE /cache: {"prompt": text or token ids, "prompt_cache_key": name}, both optional; an empty body means
 * everything. Unknown names are refused: less would be meant than is erased. Returns 0 and what is meant (free with
 * sk_api_erase_free), or the HTTP status with *err filled. */
typedef struct sk_api_erase {
    char *cache_namespace; /* owned; NULL = any */
    int32_t *tokens;       /* owned; entries that begin so; NULL = any */
    size_t n_tokens;
} sk_api_erase;
int sk_api_parse_erase(sk_api *api, const char *body, size_t len, sk_api_erase *out, sk_api_error *err);
void sk_api_erase_free(sk_api_erase *e);

/* One-shot endpoints: return the HTTP status; body (answer or error object) in out. */
int sk_api_tokenize(sk_api *api, const char *body, size_t len,
                    sk_buf *out); /* {"content","add_special","parse_special","with_pieces"} */
int sk_api_detokenize(sk_api *api, const char *body, size_t len, sk_buf *out);     /* {"tokens"} */
int sk_api_apply_template(sk_api *api, const char *body, size_t len, sk_buf *out); /* {"messages", ...} -> {"prompt"} */
void sk_api_models(sk_api *api, sk_buf *out);                                      /* /v1/models */
/* Source of the template in use, for /props. */
const char *sk_api_template_source(const sk_api *api);

#endif
