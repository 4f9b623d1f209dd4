/* Shared inside openai/: the call object and the writers that turn engine events into JSON. */
#ifndef SKIPPY_OPENAI_INTERNAL_H
#define SKIPPY_OPENAI_INTERNAL_H

#include <pthread.h>
#include <stdint.h>

#include "openai/api.h"
#include "openai/chat_bridge.h"
#include "openai/logprobs.h"
#include "openai/prompt.h"
#include "openai/request.h"

struct sk_api {
    const sk_model *model; /* borrowed */
    char *model_id;
    uint32_t n_ctx;
    int32_t default_n_predict;
    /* One conversation is rendered at a time: llama.cpp's template code is not written for more (it calls localtime).
     */
    pthread_mutex_t chat_lock;
    sk_chat *chat;
    sk_prompt_memo *memo;
};

/* 400 when a text of len bytes cannot fit into the context, whatever its tokens are. */
int sk_api_check_length(const sk_api *api, size_t len, sk_api_error *err);
/* Renders a conversation with the model's template, one at a time, unless it cannot fit into the context. As
 * sk_render_chat. */
int sk_api_render(sk_api *api, const sk_chat_fields *fields, const json_t *schema, sk_chat_prompt *out,
                  sk_api_error *err);

/* One generation: one choice of one prompt. */
typedef struct sk_choice {
    sk_gen_request request; /* borrows from the call */
    uint32_t index;         /* choice index in the answer */
    size_t prompt;          /* index of its prompt */
    sk_buf text;            /* everything generated so far */
    int32_t *tokens;        /* everything generated so far */
    size_t n_tokens, cap_tokens;
    sk_token_record *records; /* with logprobs and without streaming: everything so far, owned */
    size_t n_records, cap_records;
    size_t text_offset;     /* where the next token's text begins, for legacy logprobs */
    sk_chat_parser *parser; /* chat only; NULL while the text is the content */
    bool opened;            /* streaming: the first chunk was sent */
    bool done;
    int error_code; /* enum skippy_status, 0 = none */
    char *error_text;
    enum sk_finish finish;
    char *stop_word;
    sk_gen_stats stats; /* of the newest event that had some */
    bool has_stats;
    uint64_t start_ns, first_ns; /* left the queue; first text */
} sk_choice;

struct sk_api_call {
    sk_api *api;
    sk_request request;
    sk_prompt *prompts;
    size_t n_prompts;
    sk_chat_format *format; /* chat only */
    sk_sampling sampling;   /* the request's, with the format's grammar */
    sk_trigger *triggers;
    int32_t *preserved;
    char *grammar;     /* of a schema, on text endpoints */
    const char **stop; /* the request's and the format's */
    size_t n_stop;
    sk_choice *choices;
    size_t n_choices, n_done;
    char id[40];
    int64_t created;
};

/* One kind of answer: how events become bytes. */
typedef struct sk_writer {
    /* Streaming: a TEXT event; may write nothing. */
    void (*text)(sk_api_call *c, sk_choice *j, const sk_gen_event *ev, sk_buf *out);
    /* Streaming: a PROGRESS event. */
    void (*progress)(sk_api_call *c, sk_choice *j, const sk_gen_event *ev, sk_buf *out);
    /* Streaming: a job ended well. */
    void (*finish)(sk_api_call *c, sk_choice *j, sk_buf *out);
    /* Streaming: all jobs ended. */
    void (*close)(sk_api_call *c, sk_buf *out);
    /* Not streaming: the whole body. */
    void (*body)(sk_api_call *c, sk_buf *out);
} sk_writer;
extern const sk_writer sk_chat_writer, sk_completion_writer, sk_llama_writer;

/* Parts that several writers share. Each appends to out; JSON unless said otherwise. */

/* A quoted string; bytes that are not UTF-8 become U+FFFD. */
void sk_write_string(sk_buf *out, const char *text, size_t len);
/* A double, or null where JSON has no number for it. */
void sk_write_number(sk_buf *out, double v);
/* The members id, object, created, model and system_fingerprint, without braces. */
void sk_write_head(const sk_api_call *c, const char *object, sk_buf *out);
/* usage of the whole call: each prompt is counted once, each choice's tokens too. */
void sk_write_usage(const sk_api_call *c, sk_buf *out);
/* llama-server's timings object of a job, estimated from our clock while it runs. */
void sk_write_timings(const sk_choice *j, sk_buf *out);
/* llama-server's prompt_progress object. */
void sk_write_progress(const sk_choice *j, const sk_gen_event *ev, sk_buf *out);
/* `[1,2,3]`. */
void sk_write_tokens(const int32_t *tokens, size_t n, sk_buf *out);
/* An SSE message around JSON: what stands between begin and end. */
void sk_sse_begin(sk_buf *out);
void sk_sse_end(sk_buf *out);
/* Ends a chunk of /v1/chat/completions or /v1/completions from behind the choice's logprobs on, and its SSE event.
 * finish: why the choice ended, NULL while it goes on; ev: the event that the chunk is about, NULL for none. */
void sk_write_chunk_end(const sk_api_call *c, const sk_choice *j, const sk_gen_event *ev, const char *finish,
                        sk_buf *out);
/* True when every byte belongs to a whole UTF-8 sequence. */
bool sk_utf8_valid(const char *s, size_t len);
/* "stop" or "length". */
const char *sk_finish_reason(enum sk_finish finish);

#endif
