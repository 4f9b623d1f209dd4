/* Prefix index: one token radix tree per namespace key. It answers "which stored state covers the longest
 * beginning of this prompt", at token granularity.
 *
 * CAVEATS, read first:
 *  - Not thread-safe: one owner thread, or the caller's lock.
 *  - The index stores numbers, not state: the caller keeps id -> state, and must remove a residency BEFORE the
 *    state it names is gone or reused.
 *  - Reach decides exactness. SKIPPY_REACH_RANGE: any shorter length of the stored path is usable too (attention-only
 *    state). SKIPPY_REACH_EXACT: only the stored length (recurrent, hybrid, sliding-window state). Declaring RANGE for
 *    state that cannot be cut back gives silently wrong answers downstream.
 *  - Matching does not touch recency; that is the resident cache's business. */
#ifndef SKIPPY_INDEX_H
#define SKIPPY_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "skippy/allocator.h"
#include "skippy/error.h"
#include "skippy/identity.h"

#ifdef __cplusplus
extern "C" {
#endif

enum skippy_tier {
    SKIPPY_TIER_RESIDENT = 0,
    SKIPPY_TIER_RAM = 1,
    SKIPPY_TIER_DISK = 2,
    SKIPPY_TIER_REMOTE = 3,
    SKIPPY_TIER_COUNT = 4
};
enum skippy_reach { SKIPPY_REACH_EXACT = 0, SKIPPY_REACH_RANGE = 1 };
/* TERMINAL: the logits row after the last token of the path; always exact, found only at the full query length. */
enum skippy_kind { SKIPPY_KIND_STATE = 0, SKIPPY_KIND_TERMINAL = 1 };

typedef struct skippy_residency {
    uint64_t id; /* caller's handle, non-zero, unique within the index */
    uint8_t kind, tier, reach;
} skippy_residency;

/* Result of a match. length 0 and id 0 = nothing. */
typedef struct skippy_match {
    size_t
        common; /* longest common beginning with any stored path, usable or not: a good place for a future snapshot */
    struct {
        size_t length; /* usable tokens, longest over RANGE and EXACT residencies of this tier */
        uint64_t id;
        uint8_t reach;
    } state[SKIPPY_TIER_COUNT];
    uint64_t terminal_id; /* logits stored for exactly the whole query, the newest of any tier; 0 = none */
    uint64_t terminal[SKIPPY_TIER_COUNT]; /* the newest of each tier; 0 = none */
} skippy_match;

typedef struct skippy_index_stats {
    size_t namespaces, nodes, residencies, edge_tokens, bytes;
} skippy_index_stats;

typedef struct skippy_index skippy_index; /* opaque; owned by the caller */

/* alloc NULL = malloc. Errors: SKIPPY_E_NOMEM. */
SKIPPY_API int skippy_index_create(const skippy_allocator *alloc, skippy_index **out);
SKIPPY_API void skippy_index_destroy(skippy_index *ix);

/* Adds one residency at the path tokens[0..n_tokens). Tokens are copied.
 * Errors: SKIPPY_E_INVALID (n_tokens 0, id 0, bad enum), SKIPPY_E_EXISTS (id is known), SKIPPY_E_NOMEM (nothing
 * changed). */
SKIPPY_API int skippy_index_insert(skippy_index *ix, const skippy_key *ns, const int32_t *tokens, size_t n_tokens,
                                   const skippy_residency *r);
/* Removes by id; nodes that nothing needs any more are merged, empty namespaces dropped. Never fails for lack of
 * memory: a merge that gets none is left out, which costs a node and changes no answer. Errors: SKIPPY_E_NOT_FOUND,
 * SKIPPY_E_INVALID. */
SKIPPY_API int skippy_index_remove(skippy_index *ix, uint64_t id);
/* Longest usable match, for each tier. No allocation, O(n_tokens + depth).
 * limit: longer lengths are not usable (pass n_tokens for none): it cuts RANGE state and hides EXACT state that ends
 * beyond it. It does not touch terminal_id and common.
 * Among states of one tier that are usable at the same length, one whose path ends exactly there is preferred, the
 * newest of them; else it is any RANGE state that runs through that point (which one depends on the order of earlier
 * calls). An unknown namespace is an empty match. Errors: SKIPPY_E_INVALID. */
SKIPPY_API int skippy_index_match(const skippy_index *ix, const skippy_key *ns, const int32_t *tokens, size_t n_tokens,
                                  size_t limit, skippy_match *out);
/* Path length of an id, 0 when unknown. */
SKIPPY_API size_t skippy_index_length(const skippy_index *ix, uint64_t id);
/* Calls visit for each residency of kind STATE whose path is a beginning of tokens (its own full path included),
 * shortest first; stops when visit returns non-zero and returns that value. The visitor must not change the index. */
typedef int (*skippy_index_visit)(void *ud, const skippy_residency *r, size_t length);
SKIPPY_API int skippy_index_walk(const skippy_index *ix, const skippy_key *ns, const int32_t *tokens, size_t n_tokens,
                                 skippy_index_visit visit, void *ud);
SKIPPY_API void skippy_index_get_stats(const skippy_index *ix, skippy_index_stats *out);
/* Checks every invariant of the structure (counts, parents, order). For tests and after suspected damage. Slow.
 * Returns SKIPPY_OK or SKIPPY_E_CORRUPT. */
SKIPPY_API int skippy_index_check(const skippy_index *ix);

#ifdef __cplusplus
}
#endif
#endif
