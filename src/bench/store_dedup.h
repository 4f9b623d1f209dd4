/* How much the block store saves on real exports, by the way in which they are cut. Not thread-safe. */
#ifndef SKIPPY_BENCH_STORE_DEDUP_H
#define SKIPPY_BENCH_STORE_DEDUP_H

#include "bench/store_lab.h"

/* A way to cut. */
enum sk_store_cut {
    SK_STORE_BY_LAYOUT, /* as the server stores it: windows of 256 tokens, cut where the codec says */
    SK_STORE_BY_TOKENS, /* the same windows, cut between tensors and inside at multiples of `step` tokens */
    SK_STORE_FIXED      /* one export of everything, cut every MiB */
};
enum { SK_STORE_MAX_WAYS = SK_STORE_MAX_STEPS + 2 };

typedef struct sk_store_use {
    enum sk_store_cut cut;
    uint32_t step; /* BY_TOKENS only */
    sk_store_sum sum[SK_STORE_CONTENTS];
    skippy_store_stats stats; /* of the RAM store that holds all exports */
} sk_store_use;

typedef struct sk_store_savings {
    const char *name, *title; /* static */
    uint32_t exports;
    uint64_t tokens;                     /* sum over the exports */
    sk_store_use way[SK_STORE_MAX_WAYS]; /* by layout first, fixed last */
    size_t n_ways;
} sk_store_savings;

/* One sequence that grows turn by turn, exported after each. Errors: those of the lab; SKIPPY_E_NOMEM (not enough
 * memory to keep everything that is exported). The lab's sequences are empty before and after. */
int sk_store_chat(sk_store_lab *lab, sk_store_savings *out, sk_err *e);
/* A shared prefix is computed once; agent after agent goes on from a copy of it with tokens of its own. */
int sk_store_agents(sk_store_lab *lab, sk_store_savings *out, sk_err *e);

/* 100 * (1 - fresh / logical); 0 when there is nothing. Pure. */
double sk_store_saved(sk_store_sum sum);
/* Over all contents. Pure. */
sk_store_sum sk_store_use_total(const sk_store_use *use);

#endif
