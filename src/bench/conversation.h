/* A growing prompt in one of two forms: plain text for /completion, or messages for /v1/chat/completions.
 * Scenarios that exist in both forms are written once on top of it. Not thread-safe. */
#ifndef SKIPPY_BENCH_CONVERSATION_H
#define SKIPPY_BENCH_CONVERSATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "bench/endpoint.h"

typedef struct sk_conversation {
    bool chat;
    sk_buf text;      /* plain form */
    json_t *messages; /* chat form */
} sk_conversation;

/* Errors of all: SKIPPY_E_NOMEM, SKIPPY_E_INVALID (text is not UTF-8). */
int sk_conversation_init(sk_conversation *c, bool chat, sk_err *e);
void sk_conversation_free(sk_conversation *c);
/* Adds a message. The plain form joins with one space and forgets the role ("system", "user", "assistant"). */
int sk_conversation_add(sk_conversation *c, const char *role, const char *text, sk_err *e);
/* Replaces the text of the last message (chat form), or the whole text (plain form). */
int sk_conversation_replace(sk_conversation *c, const char *text, sk_err *e);
/* The plain text, or the messages as JSON: malloc'ed, NULL when out of memory. */
char *sk_conversation_dump(const sk_conversation *c);
/* Sends it; see sk_endpoint_complete and sk_endpoint_chat. */
int sk_conversation_send(const sk_conversation *c, sk_endpoint *ep, size_t n_predict, sk_reply *r, sk_err *e);

#endif
