/* Candidate policy: which prefix lengths to look up and which to record, where only hashed keys are known.
 *
 * Pure functions, thread-safe, no allocation. */
#ifndef SKIPPY_POLICY_H
#define SKIPPY_POLICY_H

#include <stddef.h>

#include "skippy/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct skippy_policy {
    size_t min_tokens;          /* shorter prefixes are not worth a lookup; 0 = only the exact length */
    size_t stride_tokens;       /* distance of the lookup grid; effective stride is min(stride, max(min_tokens, 1)) */
    size_t record_limit;        /* rungs of the record ladder; 0 = all candidates */
    size_t max_resident_tokens; /* cap on the sum of the geometric rungs; 0 = none */
} skippy_policy;

/* Lookup lengths of an n-token prompt, longest first: n, then the grid down to min_tokens.
 * Example: n 160, min 64, stride 32 gives 160 128 96 64. n 63 gives 63.
 * Writes at most cap lengths, *n_out receives how many there are. SKIPPY_E_TOO_SMALL when cap was not enough. */
SKIPPY_API int skippy_policy_lookup(const skippy_policy *p, size_t n_tokens, size_t *out, size_t cap, size_t *n_out);

/* Record ladder, longest first: the exact length, the near tail, then geometric rungs snapped to the grid.
 * Example: n 160, min 64, stride 32, limit 2 gives 160 128; n 2214, min 256, stride 128, limit 2 gives 2214 2176. */
SKIPPY_API int skippy_policy_record(const skippy_policy *p, size_t n_tokens, size_t *out, size_t cap, size_t *n_out);

#ifdef __cplusplus
}
#endif
#endif
