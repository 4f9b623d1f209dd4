/* A simulated prefix cache, for the comparison of eviction policies. It keeps the books that the RAM and disk stores
 * keep (entries that share blocks, recency, hits) and stores nothing.
 *
 * An entry is a stored prefix: the first n blocks of some prompt. Blocks that several entries share are held once. What
 * a prompt can continue from depends on the kind of memory:
 *
 *    any_prefix (attention)     the longest beginning whose blocks are held, whoever owns them. A stored prefix serves
 *                               every shorter one too, so the entry that it grew from is dropped (superseded), and its
 *                               hits pass on.
 *    boundaries (hybrid)        only a whole stored prefix, because recurrent state cannot be cut back. Each boundary
 *                               holds a tail of fixed size beside the shared blocks. Where a prompt leaves what is
 *                               stored at a place without a boundary, one is recorded there, as the engine does
 *                               (learned boundary).
 *
 * Not thread-safe. */
#ifndef SKIPPY_BENCH_EVICT_CACHE_H
#define SKIPPY_BENCH_EVICT_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/evict_trace.h"

enum sk_evict_policy { SK_EVICT_FIFO, SK_EVICT_LRU, SK_EVICT_BENEFIT, SK_EVICT_POLICIES };
/* "fifo", "lru", "benefit" */
const char *sk_evict_policy_name(enum sk_evict_policy p);

/* What state costs in bytes and in compute. */
typedef struct sk_evict_memory {
    const char *name;
    bool any_prefix;        /* else: recorded boundaries only */
    uint64_t block_bytes;   /* attention state of one block */
    uint64_t tail_bytes;    /* recurrent state of one boundary */
    double token_ms;        /* compute of one token without attention */
    double attention_equal; /* context length at which attention costs as much as the rest of a token */
} sk_evict_memory;

/* Compute of a prompt's first n tokens: token_ms x (n + n^2 / (2 x attention_equal)); the n-th token attends to n
 * others, so the sum over tokens of n / attention_equal is half the square. Milliseconds. */
double sk_evict_cost_ms(const sk_evict_memory *m, uint64_t n_tokens);

typedef struct sk_evict_totals {
    uint64_t requests, hits; /* a hit saves at least one block */
    uint64_t tokens, saved_tokens;
    double cost_ms, saved_ms;
    uint64_t used_bytes, peak_bytes;               /* at the end; the most that was held after a request */
    uint64_t stored, superseded, evicted, refused; /* entries; refused = larger than the cache */
} sk_evict_totals;

typedef struct sk_evict_cache sk_evict_cache;

/* capacity: bytes, UINT64_MAX = unlimited. The trace and m must outlive the cache. NULL when there is no memory. */
sk_evict_cache *sk_evict_cache_create(const sk_evict_trace *t, const sk_evict_memory *m, enum sk_evict_policy p,
                                      uint64_t capacity);
void sk_evict_cache_destroy(sk_evict_cache *c);

/* The next prompt of the trace: looked up, then recorded. Returns how many of its blocks were saved. Never fails: all
 * memory was allocated by create. */
size_t sk_evict_cache_request(sk_evict_cache *c, const sk_evict_request *r);
sk_evict_totals sk_evict_cache_totals(const sk_evict_cache *c);

/* The whole trace through one cache. Errors: SKIPPY_E_NOMEM. */
int sk_evict_simulate(const sk_evict_trace *t, const sk_evict_memory *m, enum sk_evict_policy p, uint64_t capacity,
                      sk_evict_totals *out);

#endif
