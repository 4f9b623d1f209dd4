/* The parts of a cell: what is asked of a server, round by round.
 *
 * A part does not know about other servers. Each server gets its own sk_part_host, all rounds are the same for all of
 * them, and the schedule (family/turns.h) decides who works when. Everything follows from sizes and seed; prompts are
 * sized with the server's own tokenizer, and equal digests of them prove equal work. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_PART_H
#define SKIPPY_BENCH_FAMILY_PART_H

#include <jansson.h>

#include "bench/family/corpus.h"
#include "bench/family/host.h"
#include "bench/family/input.h"
#include "bench/measurement.h"
#include "bench/scenario.h"

typedef struct sk_part_task {
    const sk_family_cell *cell;
    const sk_family_sizes *sizes;
    const sk_use_case *use_case;    /* of a use-case cell, else NULL */
    const sk_replay_corpus *replay; /* NULL = no conversations */
} sk_part_task;

/* A part's view of one server. */
typedef struct sk_part_host {
    const sk_part_task *task;
    sk_family_host *host;
    sk_prompts prompts; /* initialised with the host's endpoint */
    sk_measurement *m;  /* samples and answers go here */
    size_t rounds; /* measured rounds of this host: cache_hit_repeats or llama_repeats where a part repeats a request */
    json_t *extra; /* object: what a part wants to add to its record of this host; owned by the caller */
    void *state;   /* the part's own */
} sk_part_host;

typedef struct sk_part {
    const char *name;  /* "exact", "suffix", "edit", "thinking", "restart", "curve", "agent" */
    const char *title; /* for people */
    bool last;         /* ends or replaces the server's process: runs after all others */
    /* Rounds of this host (measured ones). */
    size_t (*rounds)(const sk_part_host *h);
    /* Context that one lane needs, in tokens. */
    size_t (*lane_tokens)(const sk_part_task *t);
    /* Everything before the first measured request: prompts, the cold request, warm-ups. May fail like a round. */
    int (*prepare)(sk_part_host *h, sk_err *e);
    /* Measured round i. Rounds of one host come in order; other hosts' rounds come in between. Errors: the endpoint's.
     */
    int (*round)(sk_part_host *h, size_t i, sk_err *e);
    /* Frees state; always called once after prepare was called, also on errors. */
    void (*finish)(sk_part_host *h);
} sk_part;

/* exact: the same prompt of prefix_tokens + 1 tokens again, one token generated (series "exact"); use-case cells take
 * the corpus's prompt, cut to that length by the server's tokenizer, or lengthened with words when it is shorter
 * (extra: "prompt_tokens", "prompt_sha256", "lengthened"). The cold answer of one token is kept for the gate. suffix:
 * the prefix and each time suffix_tokens other tokens (series "suffix"). edit: history_tokens of conversation and a
 * last user message that is edited: each round another text; messages over /v1/chat/completions (series "edit") and the
 * same as plain text over /completion (series "edit text"). thinking: a growing conversation; the first half of each
 * answer is dropped from the history at the next turn, as clients do that strip thinking (series "thinking"), in chat
 * form; round = turn. restart: round 0.. : the server is stopped and started again; then the prompt of restart_tokens
 * that it knew before is sent (series "restart": the first request after it was ready; "ready": how long the start
 * took). Before the stop the server gets the prompt and time to write what it keeps (its /health must answer; skippy's
 * disk tier is asked through /metrics or /cache whether the write has ended). curve: round = level of
 * sizes->concurrency: that many clients send concurrent_requests streamed requests (shared prefix, own suffix),
 * concurrent_output_tokens each. extra.levels[]: {"clients","requests","ok","wall_ms","ttft_ms":[],
 *       "tpot_ms":[],"elapsed_ms":[],"goodput_rps","within_slo"}; series "ttft" and "tpot" hold all of them.
 * agent: round = one conversation of the replay corpus. Series: one for each conversation (its key; samples are its
 * measured requests in order), and "all conversations" (one sample: the sum). extra.steps: for each conversation key
 * the kinds of its measured requests in order ("ask", "regenerate", "side", with "after": "tool", "user", "edit").
 */
extern const sk_part sk_part_exact, sk_part_suffix, sk_part_edit, sk_part_thinking, sk_part_restart, sk_part_curve,
    sk_part_agent;

/* The parts that a cell's tasks ask for, in the order in which they run; returns their number (at most 8). Pure. */
enum { SK_MAX_PARTS = 8 };
size_t sk_parts_of(const sk_family_cell *cell, const sk_family_sizes *s, const sk_part *out[SK_MAX_PARTS]);
/* The context of one lane that all of these parts need, rounded up to 256. Pure. */
uint32_t sk_parts_context(const sk_part *const *parts, size_t n, const sk_part_task *t);

/* Sends text (messages when chat) and keeps time and answer; see sk_run_send. series NULL = not measured. Waits rest_ms
 * before the clock starts. *text (may be NULL) is the answer, malloc'ed for the caller. */
struct sk_conversation;
int sk_part_send(sk_part_host *h, const struct sk_conversation *c, size_t n_predict, const char *series, bool cold,
                 char **text, sk_err *e);

#endif
