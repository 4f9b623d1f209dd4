/* What `skippy bench stages` measured, as JSON with every round and as a page for people. Pure functions on plain data.
 */
#ifndef SKIPPY_BENCH_STAGES_REPORT_H
#define SKIPPY_BENCH_STAGES_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "bench/facts.h"
#include "bench/process.h"

enum sk_stages_part { SK_STAGES_OVERHEAD, SK_STAGES_LANES, SK_STAGES_RIVALS, SK_STAGES_MEMORY, SK_STAGES_PARTS };
extern const char *const sk_stages_part_names[SK_STAGES_PARTS]; /* "overhead" and so on */

enum { SK_STAGES_MAX = 3, SK_STAGES_LINKS = 2 /* loopback as it is, and delayed */ };
enum sk_stages_server { SK_STAGES_SKIPPY, SK_STAGES_RPC, SK_STAGES_SERVERS };

/* One new prompt: asked for one token, once more for one token, and for one token and `predict` more. */
typedef struct sk_stages_visit {
    double cold_ms, warm_ms, long_ms;
    double warm_compute_ms, long_compute_ms; /* of all stages, for tokens after the first; 0: not said */
    size_t warm_cached;                      /* tokens of the prompt that the repeat did not compute */
} sk_stages_visit;

/* Two prompts that are stored, asked for the same number of tokens. */
typedef struct sk_stages_lanes_round {
    double first_ms, second_ms; /* one after the other */
    double together_ms;         /* until both are done */
} sk_stages_lanes_round;

typedef struct sk_stages_rivals {
    double delay_ms;
    sk_stages_visit *visits[SK_STAGES_SERVERS]; /* n each; owned */
    size_t n, same_text;                        /* rounds in which both gave the same answer */
    char command[SK_STAGES_SERVERS][1024];      /* of the front servers */
} sk_stages_rivals;

typedef struct sk_stages_process {
    int32_t from, to;                /* layers [from, to) */
    uint64_t weights, model_weights; /* bytes of tensor data: its own, and the whole model's */
    uint64_t disk;                   /* bytes of its folder: stage file and cache */
    sk_process_memory memory;
} sk_stages_process;

typedef struct sk_stages_report {
    sk_bench_facts facts;
    const char *version;
    int threads;
    bool tls;
    size_t prompt_tokens, predict;
    int32_t n_layers;
    char error[SK_STAGES_PARTS][512]; /* why a part is missing or incomplete; "" = it is not */
    sk_stages_visit *overhead;        /* owned */
    size_t n_overhead;
    sk_stages_lanes_round *lanes; /* owned */
    size_t n_lanes;
    sk_stages_rivals rivals[SK_STAGES_LINKS];
    sk_stages_process processes[SK_STAGES_MAX];
    size_t n_processes;
} sk_stages_report;

void sk_stages_report_free(sk_stages_report *r);

/* Per generated token: time, what all stages computed, and time / compute - 1. 0 where predict or compute is 0. */
double sk_stages_token_ms(const sk_stages_visit *v, size_t predict);
double sk_stages_token_compute_ms(const sk_stages_visit *v, size_t predict);
double sk_stages_overhead(const sk_stages_visit *v, size_t predict);
/* (first + second) / together; 0 for no time. */
double sk_stages_lanes_gain(const sk_stages_lanes_round *r);

/* New reference, or NULL when out of memory. */
json_t *sk_stages_json(const sk_stages_report *r);
/* Appends the page. Errors: SKIPPY_E_NOMEM. */
int sk_stages_markdown(const sk_stages_report *r, sk_buf *out);

#endif
