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

/* Every timed request asks for one token unless it says otherwise; cold answers are kept for the gate.
 *
 * exact: the same prompt of prefix_tokens + 1 tokens again (series "exact"). A use-case cell takes the corpus's prompt,
 * cut to that length by the server's tokenizer, or lengthened with words where it is shorter (extra: "prompt_tokens",
 * "prompt_sha256", "lengthened").
 *
 * suffix: the prefix and each time suffix_tokens other tokens (series "suffix").
 *
 * edit: history_tokens of conversation over several messages and a last user message that is edited: each round another
 * text; messages over /v1/chat/completions (series "edit") and the same as plain text over /completion (series "edit
 * text"). Before an edited message is timed, the version before it is asked again, since the other form had the lane
 * meanwhile.
 *
 * thinking: a growing conversation; the first half of each answer is dropped from the history at the next turn, as
 * clients do that strip thinking; in chat form; round = turn. The first token is timed (series "thinking"), then the
 * whole answer is asked for. After some turns another conversation begins, so that the context has a bound.
 *
 * restart: the server gets the prompt of restart_tokens that it knows, and time to write what it keeps (GET /metrics),
 * then it is stopped and started again, then the prompt is sent (series "restart"). "ready": how long the start took,
 * until /health answers and the disk store, if there is one, is open. Answers after a restart count as cold. Extra:
 * "restarts", "same_answer" (restarts after which the answer was the one before), "disk_store".
 *
 * curve: round = level of sizes->concurrency: that many clients send concurrent_requests streamed requests (shared
 * prefix, own suffix), concurrent_output_tokens each. extra.levels[]:
 * {"clients","requests","ok","wall_ms","ttft_ms":[], "tpot_ms":[],"elapsed_ms":[],"goodput_rps","within_slo"}; series
 * "ttft" and "tpot" hold all of them.
 *
 * agent: round = one conversation of the replay corpus. Series: one for each conversation (its key; samples are its
 * measured requests in order), and "all conversations" (one sample: the sum). extra.steps: for each conversation key
 * the kinds of its measured requests in order ("ask", "regenerate", "side", with "after": "tool", "user", "edit"). */
extern const sk_part sk_part_exact, sk_part_suffix, sk_part_edit, sk_part_thinking, sk_part_restart, sk_part_curve,
    sk_part_agent;

/* The parts that a cell's tasks ask for, in the order in which they run; returns their number (at most 8). Pure. */
enum { SK_MAX_PARTS = 8 };
size_t sk_parts_of(const sk_family_cell *cell, const sk_family_sizes *s, const sk_part *out[SK_MAX_PARTS]);
/* The context of one lane that all of these parts need, rounded up to 256. Pure. */
uint32_t sk_parts_context(const sk_part *const *parts, size_t n, const sk_part_task *t);

/* Tokens that are kept free in a lane: for one token of an answer and what a server adds; for a chat template's own
 * text around some messages, generously. */
enum { SK_PART_SPARE_TOKENS = 16, SK_PART_TEMPLATE_TOKENS = 512 };
/* cache_hit_repeats for ours, llama_repeats for the others: rounds of a part that repeats a request. Pure. */
size_t sk_part_repeats(const sk_part_host *h);
/* Rounds of the parts that are conversations: a round is several requests. */
size_t sk_part_conversation_repeats(const sk_part_host *h);
/* Seed of one text: another one for each kind of cell, use case, prefix length, part, round and piece of a round; the
 * same for all hosts. Pure. */
uint64_t sk_part_seed(const sk_part_host *h, const char *part, size_t round, size_t piece);

/* Waits rest_ms, so that other servers' threads are asleep. A signal ends it early; the request that follows finds that
 * out. */
void sk_part_rest(const sk_part_host *h);
/* Sends text (messages when chat) and keeps time and answer; see sk_measured_send. series NULL = not measured. Waits
 * rest_ms before the clock starts. *text (may be NULL) is the answer, malloc'ed for the caller. */
struct sk_conversation;
int sk_part_send(sk_part_host *h, const struct sk_conversation *c, size_t n_predict, const char *series, bool cold,
                 char **text, sk_err *e);

#endif
