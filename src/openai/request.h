/* The fields of a request body, checked; no model is needed for this step, so it is tested and fuzzed alone. */
#ifndef SKIPPY_OPENAI_REQUEST_H
#define SKIPPY_OPENAI_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "openai/api.h"
#include "openai/chat_bridge.h"

#define SK_MAX_CHOICES 16
#define SK_MAX_STOPS 16
#define SK_MAX_STOP_BYTES 1024
#define SK_MAX_PROMPTS 64
#define SK_MAX_TOOLS 512
#define SK_MAX_MESSAGES 16384
/* Nesting of schemas and tool arguments: what converts them is recursive. */
#define SK_MAX_NESTING 64

/* What the checks need to know about the server. */
typedef struct sk_request_limits {
    int32_t n_vocab;
    int32_t default_n_predict;
} sk_request_limits;

/* The chat part. JSON is borrowed from the body unless noted. */
typedef struct sk_chat_fields {
    const json_t *messages;
    const json_t *tools;     /* NULL when absent or empty */
    const char *forced_tool; /* tool_choice names one */
    enum sk_chat_tool_choice tool_choice;
    int parallel_tool_calls; /* -1 = as the template can */
    const json_t *kwargs;
    const char *reasoning_effort;
    int enable_thinking;    /* -1 = the template's default */
    bool extract_reasoning; /* reasoning goes to reasoning_content */
    bool add_generation_prompt;
    bool continue_final; /* the last message is an assistant's and is continued */
} sk_chat_fields;

typedef struct sk_request {
    enum sk_api_kind kind;
    json_t *body; /* owned; strings below point into it */
    sk_chat_fields chat;
    const json_t *prompt; /* text endpoints: checked shape */
    json_t *json_schema;  /* owned reference, NULL = none */
    const char *grammar;  /* the client's own GBNF, NULL = none */
    sk_sampling sampling; /* bias points to `bias`; no grammar yet */
    sk_logit_bias *bias;  /* owned */
    const char **stop;    /* owned array, borrowed strings */
    size_t n_stop;
    uint32_t n;
    int32_t n_predict;
    bool stream, include_usage;
    bool timings_per_token, return_progress, return_tokens, echo;
    bool logprobs;        /* report probabilities */
    int32_t top_logprobs; /* alternatives to show; sampling.n_probs may be larger */
    bool no_cache;
    bool keep_special;
    const char *cache_namespace;
    size_t *boundaries; /* owned; cache_boundaries of a raw prompt */
    size_t n_boundaries;
} sk_request;

/* Parses and checks a body. On success *out owns memory: sk_request_clear. On failure *out is cleared, and the HTTP
 * status is returned with *err filled. */
int sk_request_parse(enum sk_api_kind kind, const char *body, size_t len, const sk_request_limits *limits,
                     sk_request *out, sk_api_error *err);
void sk_request_clear(sk_request *r);

/* Only the chat part (messages, tools, template settings), for /apply-template. */
int sk_chat_fields_parse(const json_t *body, sk_chat_fields *out, sk_api_error *err);
/* response_format, json_schema and grammar. */
int sk_constraints_parse(sk_request *r, sk_api_error *err);
/* Checks messages: roles, content, tool calls. */
int sk_messages_check(const json_t *messages, sk_api_error *err);
/* Checks tools: names, schemas. */
int sk_tools_check(const json_t *tools, sk_api_error *err);

/* True when a checked prompt is a list of prompts rather than one. */
bool sk_prompt_is_list(const json_t *v);

/* Levels of nesting of a JSON value; a scalar has 0. Stops counting above `limit`. */
size_t sk_json_depth(const json_t *v, size_t limit);

#endif
