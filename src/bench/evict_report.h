/* The comparison of eviction policies on one trace: every memory kind, capacity and policy, and the clairvoyant bound.
 */
#ifndef SKIPPY_BENCH_EVICT_REPORT_H
#define SKIPPY_BENCH_EVICT_REPORT_H

#include <jansson.h>

#include "base/buf.h"
#include "bench/evict_cache.h"

enum { SK_EVICT_MAX_CAPACITIES = 16, SK_EVICT_MEMORIES = 2 };

typedef struct sk_evict_line {
    double percent;        /* of what an unlimited cache holds at the end; 0 = unlimited */
    uint64_t bytes;        /* UINT64_MAX = unlimited */
    uint64_t bound_tokens; /* no policy saves more */
    sk_evict_totals of[SK_EVICT_POLICIES];
} sk_evict_line;

typedef struct sk_evict_table {
    sk_evict_memory memory;
    uint64_t unlimited_bytes;
    sk_evict_line line[SK_EVICT_MAX_CAPACITIES + 1]; /* the last one is unlimited */
    size_t n_lines;
} sk_evict_table;

typedef struct sk_evict_report {
    const char *trace_name; /* borrowed */
    sk_evict_trace_facts facts;
    sk_evict_table table[SK_EVICT_MEMORIES];
} sk_evict_report;

/* The two kinds of memory that are compared. Bytes: a dense 8 B model (32 layers, 8 KV heads of 128, f16: 128 KiB a
 * token) and the 1.5 B Falcon-H1 shape (24 KiB of KV a token, 73 MiB of recurrent state a boundary). Compute: 0.1 ms a
 * token (only ratios matter), attention as dear as the rest at 32,768 tokens (8 B: 16 GFLOP a token, and 0.5 MFLOP more
 * for each earlier one). */
void sk_evict_memories(sk_evict_memory out[SK_EVICT_MEMORIES]);

/* Runs everything. percent: capacities, each above 0 and at most 100. Errors: SKIPPY_E_INVALID (too many capacities,
 * one out of range), SKIPPY_E_NOMEM. */
int sk_evict_compare(const sk_evict_trace *t, const char *name, const sk_evict_memory memories[SK_EVICT_MEMORIES],
                     const double *percent, size_t n, sk_evict_report *out, sk_err *e);

/* Markdown. */
void sk_evict_markdown(const sk_evict_report *r, sk_buf *out);
/* A new reference; NULL when out of memory. */
json_t *sk_evict_json(const sk_evict_report *r);

#endif
