/* Where to cut a model into stages. Each function fills cuts[0 .. n_stages-2] with ascending layer numbers.
 * Common errors: SKIPPY_E_INVALID (fewer than one layer per stage, no stage, more than SK_MAX_STAGES or SK_MAX_LAYERS).
 */
#ifndef SKIPPY_TOPOLOGY_PROPOSE_H
#define SKIPPY_TOPOLOGY_PROPOSE_H

#include "base/err.h"
#include "topology/capability.h"

/* Stages of equal size, give or take a layer. Knows nothing of the family. */
int sk_propose_even(int32_t layers, size_t n_stages, int32_t *cuts, sk_err *e);

/* Stages in proportion to weights[0 .. n_stages-1], such as each machine's memory, at least one layer each.
 * Also SKIPPY_E_INVALID when the weights are all 0 or one is over 2^40. */
int sk_propose_weighted(int32_t layers, const uint64_t *weights, size_t n_stages, int32_t *cuts, sk_err *e);

/* The accepted cuts that are closest to equal stages: the smallest sum of |cut i x n_stages - i x layers|; of several,
 * the one whose first different cut is lower. Accepted means that no cut parts shared layers and no stage breaks a
 * measured rule. A family whose split is refused as a whole is cut by the review's rules only, so that a plan can show
 * what stands against it. Also SKIPPY_E_NOT_FOUND (no set of cuts is accepted), SKIPPY_E_NOMEM. */
int sk_propose_balanced(const sk_family_entry *f, int32_t layers, size_t n_stages, int32_t *cuts, sk_err *e);

#endif
