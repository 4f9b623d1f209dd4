/* What a stored prefix is worth: the number that decides which entry leaves first. Pure functions, thread-safe.
 * docs/eviction.md compares it with LRU, FIFO and the clairvoyant bound on traces. */
#ifndef SKIPPY_BENEFIT_H
#define SKIPPY_BENEFIT_H

#include <stdint.h>

#include "skippy/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero-initialise, then fill in: a field that is zero has the meaning that is named, so fields may be added. All
 * entries that are compared must be described in the same way. */
typedef struct skippy_benefit_input {
    double cost_ms; /* compute that a hit saves: that of all its tokens, minus what the restore costs; below 0 counts as
                     * 0. Never what the entry adds to its neighbours: when those leave first, it carries all of it */
    double total_bytes;     /* of its payload, shared blocks in full; 0 = not known, exclusive_bytes stands in for it */
    double exclusive_bytes; /* what dropping it would free: a block that k entries share counts 1/k of its size. Used
                             * only without total_bytes: it favours entries that hold little of their own, which leave
                             * without freeing much and stay without being of use */
    uint64_t hits; /* leases of it, and those that it inherited: an entry that replaces another one (the conversation
                    * grew) starts with the hits of that one. A boundary beside its elders starts with 0 */
    uint64_t age; /* ticks since it was stored or last leased. A tick is one put or one lease in the store: a clock that
                   * stands still while nothing happens, so that a night without requests ages nobody */
    uint64_t period; /* ticks after which the chance of an unused entry has halved; 0 = 1 tick */
} skippy_benefit_input;

/* chance of reuse x cost / bytes, with chance = (2 when it was ever hit, else 1) / (1 + age / period).
 *
 * More hits than one do not count further: in the traces, what was used often long ago is no likelier to come back than
 * what was used once, and a sum that only grows keeps dead conversations. Larger is worth more; never negative, never
 * NaN. Ties are broken by the caller: oldest use first, then lowest id. */
SKIPPY_API double skippy_benefit_score(const skippy_benefit_input *in);

#ifdef __cplusplus
}
#endif
#endif
