/* The corpora of the family benchmark: single prompts for each use case, and conversations of agents that are replayed
 * as a whole. Read-only after loading: thread-safe then. */
#ifndef SKIPPY_BENCH_FAMILY_CORPUS_H
#define SKIPPY_BENCH_FAMILY_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/family/sha256.h"

enum { SK_CORPUS_MAX_PROMPT = 65536, SK_CORPUS_MAX_USE_CASES = 128, SK_CORPUS_MAX_FILE = 16 << 20 };

typedef struct sk_use_case {
    char *key;              /* [a-z0-9_]+, at most 63, unique */
    char *label;            /* for people; as dataset, config and split: 1..255 bytes without control characters */
    char *prompt;           /* 1..65,536 bytes of UTF-8 without NUL */
    uint32_t prefix_tokens; /* 1..65,536, default 128 */
    char *dataset, *config, *split;
    int64_t row_idx;
    bool written; /* the prompt was written for this project, in the manner of that dataset; it is no row of it */
} sk_use_case;

typedef struct sk_corpus {
    sk_use_case *v;
    size_t n;
    char sha256[SK_SHA256_HEX]; /* of the file's bytes */
} sk_corpus;

/* The eight keys in the order of the tables; NULL after the last. */
const char *sk_use_case_key_at(size_t i);
/* Rank for the tables: the eight keys first, others after them. */
size_t sk_use_case_rank(const char *key);

/* Reads a corpus, version 1; unknown fields, duplicate keys, wrong types and sizes are refused with the use case's key
 * and the field. Errors: SKIPPY_E_NOT_FOUND, SKIPPY_E_IO, SKIPPY_E_TOO_LARGE, SKIPPY_E_INVALID, SKIPPY_E_NOMEM. */
int sk_corpus_load(const char *path, sk_corpus *out, sk_err *e);
int sk_corpus_parse(const char *text, size_t len, sk_corpus *out, sk_err *e);
void sk_corpus_free(sk_corpus *c);
const sk_use_case *sk_corpus_find(const sk_corpus *c, const char *key);

/* ---- conversations ---- */

typedef enum sk_replay_kind {
    SK_REPLAY_SYSTEM, /* sets the system message; "{{turn}}" in it is replaced by the number of the request (a
                         volatile first line) */
    SK_REPLAY_USER,   /* appends a user message */
    SK_REPLAY_TOOL,   /* appends a tool's result, as a user message that begins with "Tool result:" (agents that drive
                         models without native tool calls do so, and every chat template takes it) */
    SK_REPLAY_ASK,    /* sends the conversation, measured; appends the server's own answer */
    SK_REPLAY_EDIT,   /* drops the last `drop` messages and appends `text` as the user's: an edited message */
    SK_REPLAY_REGENERATE, /* drops the last answer and asks again, measured */
    SK_REPLAY_SIDE /* a request beside the conversation (a title, a summary), measured, not kept: system `text`, user
                      = the conversation's first user message */
} sk_replay_kind;

typedef struct sk_replay_step {
    sk_replay_kind kind;
    char *text;             /* NULL where the kind has none */
    uint32_t max_tokens;    /* ASK, REGENERATE, SIDE: 1..4,096; else 0 */
    uint32_t strip_percent; /* ASK: this part of the answer, from its start, is thinking: it leaves the history when the
                               next user message comes (as clients do that strip thinking); 0..100 */
    uint32_t drop;          /* EDIT: messages, at least 1 */
} sk_replay_step;

typedef struct sk_replay_conversation {
    char *key, *label, *what; /* what: one sentence for people: what moves in this conversation */
    sk_replay_step *step;
    size_t n_steps;
    size_t n_asks; /* measured requests */
} sk_replay_conversation;

typedef struct sk_replay_corpus {
    sk_replay_conversation *v;
    size_t n;
    char sha256[SK_SHA256_HEX];
} sk_replay_corpus;

/* {"version":1,"source":{"written":true,"note":...},"conversations":[{"key","label","what","steps":[
 *   {"do":"system","text":...}, {"do":"user","text":...}, {"do":"tool","text":...},
 *   {"do":"ask","max_tokens":16,"strip_percent":50}, {"do":"edit","drop":2,"text":...},
 *   {"do":"regenerate","max_tokens":16}, {"do":"side","text":...,"max_tokens":8}]}]}
 * "source" may be left out. A conversation needs an ASK; an ASK needs a message of the user or a tool's result right
 * before it, a REGENERATE an answer, a SIDE some message, and an EDIT drops no more messages than there are (the system
 * message is none of them). At most 32 conversations of 256 steps; texts as long as a prompt may be. Errors: as
 * sk_corpus_load. */
int sk_replay_load(const char *path, sk_replay_corpus *out, sk_err *e);
int sk_replay_parse(const char *text, size_t len, sk_replay_corpus *out, sk_err *e);
void sk_replay_free(sk_replay_corpus *c);

#endif
