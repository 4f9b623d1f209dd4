/* The scenarios of `skippy bench quick`: the same requests, in the same order, to each server.
 *
 * A scenario runs against a fresh server process, so that rows do not depend on each other. Everything in it follows
 * from the sizes and the seed; prompts are sized by the server's own tokenizer. Not thread-safe. */
#ifndef SKIPPY_BENCH_SCENARIO_H
#define SKIPPY_BENCH_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/endpoint.h"
#include "bench/measurement.h"
#include "bench/prompts.h"

/* Counts of runs, and lengths in tokens. */
typedef struct sk_sizes {
    uint64_t seed;
    size_t runs;                             /* measured requests of the short scenarios */
    size_t long_runs;                        /* measured repetitions of agent and clients, rounds of bitcost */
    size_t prefix_tokens;                    /* exact, prefix */
    size_t new_tokens;                       /* prefix */
    size_t chat_tokens;                      /* alternation: each of the two chats */
    size_t turns, turn_tokens, turn_predict; /* agent */
    size_t clients, system_tokens, tail_tokens, clients_predict;
    size_t history_tokens, edit_tokens, edits;
    size_t cost_tokens, cost_predict, cost_lanes; /* bitcost */
} sk_sizes;

typedef struct sk_run {
    sk_endpoint *ep;
    int timeout_ms;
    const sk_sizes *sizes;
    bool chat;
    sk_prompts prompts;
    sk_measurement *m;
} sk_run;

typedef struct sk_scenario {
    const char *name;  /* for --only and the JSON */
    const char *title; /* for people */
    unsigned id;       /* part of its seeds: never renumbered */
    bool chat;         /* messages instead of text */
    bool optional;     /* only with --chat or --only */
    bool long_runs;    /* repeated sizes.long_runs times */
    size_t (*lanes)(const sk_sizes *s);
    size_t (*lane_tokens)(const sk_sizes *s); /* context that one lane needs */
    int (*run)(sk_run *r, sk_err *e);
} sk_scenario;

enum {
    SK_SCENARIO_EXACT = 1,
    SK_SCENARIO_PREFIX = 2,
    SK_SCENARIO_ALTERNATION = 3,
    SK_SCENARIO_AGENT = 4,
    SK_SCENARIO_CLIENTS = 5,
    SK_SCENARIO_EDIT = 6,
    SK_SCENARIO_SOAK = 7,
    SK_SCENARIO_BIT_COST = 8
};

/* Requests before the measured ones of a short scenario, so that the first decode of each batch shape is not measured.
 */
enum { SK_WARM_UPS = 2 };
/* Tokens of a cold answer that is compared between servers. */
enum { SK_GATE_TOKENS = 16 };

void sk_sizes_default(sk_sizes *s);
/* Two runs of everything and short prompts: checks that the benchmark works, proves nothing about speed. */
void sk_sizes_quick_check(sk_sizes *s);
/* Seed of one text: different for each scenario, repetition and part. */
uint64_t sk_sizes_seed(const sk_sizes *s, unsigned scenario, size_t repetition, size_t part);

const sk_scenario *sk_scenario_at(size_t i); /* NULL after the last */
const sk_scenario *sk_scenario_find(const char *name, size_t len);

/* Sends text or conversation c. series != NULL: the time is a sample of it. The answer is kept for the comparison;
 * *answer (may be NULL) is valid until the next send. Errors: those of the endpoint, SKIPPY_E_CANCELLED. */
struct sk_conversation;
int sk_measured_send(sk_endpoint *ep, sk_measurement *m, const struct sk_conversation *c, size_t n_predict,
                     const char *series, bool cold, const char **answer, sk_err *e);
/* The same with the connection and the measurement of a run. */
int sk_run_send(sk_run *r, const struct sk_conversation *c, size_t n_predict, const char *series, bool cold,
                const char **answer, sk_err *e);
/* Chat form: both servers must render the messages to the same prompt, so the rendering becomes part of the digest. */
int sk_prompts_note_template(sk_prompts *p, sk_endpoint *ep, const struct sk_conversation *c, sk_err *e);
int sk_run_note_template(sk_run *r, const struct sk_conversation *c, sk_err *e);

int sk_scenario_exact(sk_run *r, sk_err *e);
int sk_scenario_prefix(sk_run *r, sk_err *e);
int sk_scenario_alternation(sk_run *r, sk_err *e);
int sk_scenario_agent(sk_run *r, sk_err *e);
int sk_scenario_clients(sk_run *r, sk_err *e);
int sk_scenario_edit(sk_run *r, sk_err *e);

#endif
