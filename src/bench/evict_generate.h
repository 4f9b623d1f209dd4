/* A generated trace of coding agents at work, for the eviction simulation: growing conversations over shared system
 * prompts, edits, calls that never come back, and pauses. Integer arithmetic only, so that a seed gives the same trace
 * on every machine. */
#ifndef SKIPPY_BENCH_EVICT_GENERATE_H
#define SKIPPY_BENCH_EVICT_GENERATE_H

#include "bench/evict_trace.h"

/* From .. to, both included. */
typedef struct sk_evict_range {
    uint32_t from, to;
} sk_evict_range;

/* Shares are in percent of the steps of an agent; what they leave is the next turn of the conversation. */
typedef struct sk_evict_workload {
    uint64_t seed;
    size_t requests;
    uint32_t agents;               /* at work at the same time */
    uint32_t kinds;                /* kinds of agents; agents of a kind share system prompt and tools */
    sk_evict_range system_tokens;  /* of each kind */
    sk_evict_range project_tokens; /* of each agent: instructions and files that open all its conversations */
    sk_evict_range message_tokens; /* what a person writes */
    sk_evict_range tool_tokens;    /* what a tool returns */
    sk_evict_range output_tokens;
    uint32_t context_tokens; /* a longer conversation is compacted: system, project, and a summary */
    sk_evict_range summary_tokens;
    uint32_t person_share;   /* turns that a person writes; the others are tool results */
    uint32_t edit_share;     /* an earlier message is replaced, up to three turns back */
    uint32_t retry_share;    /* the same prompt again */
    uint32_t side_share;     /* a one-off call with a small system prompt of its own (titles, classification) */
    uint32_t fork_share;     /* a one-off call that continues the conversation (summary, sub-agent) */
    uint32_t end_share;      /* the conversation is over: the agent starts a new one */
    uint32_t pause_share;    /* the agent rests after this turn */
    sk_evict_range think_ms; /* before a person's message */
    sk_evict_range tool_ms;  /* before a tool's result */
    sk_evict_range pause_ms;
} sk_evict_workload;

/* The values that docs/eviction.md reports. */
sk_evict_workload sk_evict_workload_default(void);

/* Fills an empty trace. Errors: SKIPPY_E_INVALID (no agents, kinds or requests, a range that runs backwards, shares
 * over 100), SKIPPY_E_NOMEM. After an error the trace is empty. */
int sk_evict_generate(const sk_evict_workload *w, sk_evict_trace *t, sk_err *e);

#endif
