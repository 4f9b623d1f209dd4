/* What no eviction policy can exceed: the clairvoyant bound on saved blocks. Pure. */
#ifndef SKIPPY_BENCH_EVICT_BOUND_H
#define SKIPPY_BENCH_EVICT_BOUND_H

#include "bench/evict_trace.h"

/* The most blocks that a cache of `capacity` blocks can save on this trace, whatever it keeps.
 *
 * A block can be saved at a use only if it was held since its previous use: keeping it is an interval that fills one of
 * `capacity` places. Blocks have one size and save one block each, so the largest set of intervals that fits is found
 * greedily: whenever too many are held, the one whose next use is farthest goes (Belady's rule, with the freedom not to
 * keep a block at all). A block's parent is used whenever the block is, so its next use is never later: on ties the
 * deeper block goes first, what is held stays a set of whole prefixes, and the bound can be reached by a cache that
 * knows the future and evicts single blocks.
 *
 * It is exact for saved tokens of attention-only models. For models with a tail at each boundary it is an upper bound
 * that is not tight: it charges no tails and lets every block boundary serve. It says nothing about saved time: tokens
 * at the end of a long prompt cost more, and with unequal gains the greedy choice is no longer the best one.
 *
 * capacity SIZE_MAX: unlimited. *hits (may be NULL): requests that save at least one block in that optimum (not a bound
 * of its own: an optimum for hits could keep other blocks). Errors: SKIPPY_E_NOMEM. */
int sk_evict_bound(const sk_evict_trace *t, size_t capacity, uint64_t *saved_blocks, uint64_t *hits);

#endif
