/* Plays one conversation of the agent corpus: which messages the next request has, and what of its answer stays in the
 * history. It sends nothing itself, so that the same conversation goes to every server in the same way.
 *
 * A message of the user that follows another one (two results of tools, an edit behind a tool's result) is joined to it
 * with an empty line in the request, because chat templates that insist on alternating roles refuse two in a row; the
 * steps still count them one by one. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_REPLAY_H
#define SKIPPY_BENCH_FAMILY_REPLAY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/family/corpus.h"

typedef struct sk_replay_state {
    const sk_replay_conversation *conversation; /* borrowed */
    size_t step;                                /* the next one */
    size_t requests;                            /* made so far */
    const char *system;                         /* borrowed from the conversation; NULL = none */
    json_t *history;                            /* messages behind the system message; owned */
    sk_replay_kind asked;                       /* kind of the last request */
    bool waiting;                               /* for its answer */
    uint32_t strip_percent;                     /* what the next message takes from the last answer */
    const char *after;                          /* see sk_replay_request */
} sk_replay_state;

typedef struct sk_replay_request {
    sk_replay_kind kind; /* ASK, REGENERATE or SIDE */
    const char *after;   /* what moved the conversation last: "user", "tool", "edit"; static */
    uint32_t max_tokens;
    size_t number;    /* of the request in its conversation, from 1 */
    json_t *messages; /* owned; NULL when the conversation has ended */
} sk_replay_request;

/* Errors: SKIPPY_E_NOMEM. */
int sk_replay_begin(sk_replay_state *s, const sk_replay_conversation *c, sk_err *e);
void sk_replay_end(sk_replay_state *s);
/* Does the steps up to and including the next request; out->messages is NULL when none is left. Errors:
 * SKIPPY_E_INVALID with the conversation's key and the step (a step that does not fit what is there, an answer that was
 * not given), SKIPPY_E_NOMEM. */
int sk_replay_next(sk_replay_state *s, sk_replay_request *out, sk_err *e);
/* What the server answered to the last request; a side request's answer is forgotten. An empty answer stays as one
 * space: some chat templates leave out a message without content, and the roles would not alternate any more. Errors:
 * SKIPPY_E_INVALID (nothing was asked, not UTF-8), SKIPPY_E_NOMEM. */
int sk_replay_answer(sk_replay_state *s, const char *text, sk_err *e);
void sk_replay_request_free(sk_replay_request *r);

/* "system", "user", "tool", "ask", "edit", "regenerate", "side". Static. */
const char *sk_replay_kind_name(sk_replay_kind kind);
/* What is left of an answer when its first `percent` percent of characters go; never nothing: the last character stays.
 * Points into text. Pure. */
const char *sk_replay_strip(const char *text, uint32_t percent);

#endif
