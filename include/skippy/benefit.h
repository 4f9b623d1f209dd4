/* What a stored prefix is worth: the number that decides which entry leaves first. Pure functions, thread-safe.
 * docs/eviction.md compares it with LRU, FIFO and the clairvoyant bound on recorded traces. */
#ifndef SKIPPY_BENEFIT_H
#define SKIPPY_BENEFIT_H

#include <stdint.h>

#include "skippy/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct skippy_benefit_input {
    double cost_ms;         /* compute that a hit saves, minus what the restore costs; negative counts as 0 */
    double exclusive_bytes; /* what dropping it would free: a block that k entries share counts 1/k of its size */
    uint64_t hits;          /* since it was stored */
    uint64_t age;           /* clock ticks since its last use; any unit, the same for all entries that are compared */
    uint64_t period;        /* ticks after which an unused entry's chance has halved; 0 = a default in ticks of one use */
} skippy_benefit_input;

/* chance of reuse x cost / bytes. Larger is worth more; never negative, never NaN. Ties are broken by the caller:
 * oldest use first, then lowest id. */
SKIPPY_API double skippy_benefit_score(const skippy_benefit_input *in);

#ifdef __cplusplus
}
#endif
#endif
