/* Activation-frame cache: frames that a stage would forward, keyed by activation id ("act:{page_id}:w{width}").
 *
 * CAVEATS, read first:
 *  - Experimental: this interface may change in any version.
 *  - Not thread-safe. Frames are copied in; a lookup lends a pointer that is valid until the next call that changes the
 *    cache, or until the release of a lease.
 *  - Least recently used frames leave first; leased frames stay.
 *  - The full prefix key is stored beside the short id and compared on every lookup. */
#ifndef SKIPPY_ACTIVATION_H
#define SKIPPY_ACTIVATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "skippy/allocator.h"
#include "skippy/error.h"
#include "skippy/identity.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct skippy_activation_cache skippy_activation_cache;

typedef struct skippy_activation_frame {
    const void *data; /* n_tokens x width values, row-major */
    size_t bytes;
    uint32_t n_tokens, width;
    uint32_t dtype; /* 0 = f32, 1 = f16 */
} skippy_activation_frame;

typedef struct skippy_activation_stats {
    size_t entries, leased;
    uint64_t bytes, hits, misses, evictions, refused;
} skippy_activation_stats;

/* max_bytes: cap on the sum of all frames' bytes, 0 = no limit. alloc NULL = malloc.
 * Errors: SKIPPY_E_INVALID, SKIPPY_E_NOMEM. */
SKIPPY_API int skippy_activation_create(const skippy_allocator *alloc, uint64_t max_bytes,
                                        skippy_activation_cache **out);
/* Frees all frames, leased ones as well. c may be NULL. */
SKIPPY_API void skippy_activation_destroy(skippy_activation_cache *c);
/* Stores a copy, replacing an unleased frame of the same id. Errors: SKIPPY_E_INVALID (bytes do not fit n_tokens x
 * width), SKIPPY_E_TOO_LARGE, SKIPPY_E_FULL (leases), SKIPPY_E_BUSY (same id is leased), SKIPPY_E_NOMEM. */
SKIPPY_API int skippy_activation_put(skippy_activation_cache *c, const char *activation_id,
                                     const skippy_key *prefix_key, const skippy_activation_frame *frame);
/* Finds and leases. SKIPPY_E_NOT_FOUND also when the id is there with another key. */
SKIPPY_API int skippy_activation_lease(skippy_activation_cache *c, const char *activation_id,
                                       const skippy_key *prefix_key, skippy_activation_frame *out);
/* Is it there? Neither counts as a use nor in the statistics, so that many ids can be asked for and few used. */
SKIPPY_API bool skippy_activation_has(const skippy_activation_cache *c, const char *activation_id,
                                      const skippy_key *prefix_key);
/* Ends one lease. Errors: SKIPPY_E_NOT_FOUND, SKIPPY_E_INVALID (not leased). */
SKIPPY_API int skippy_activation_release(skippy_activation_cache *c, const char *activation_id);
/* Removes a frame. Errors: SKIPPY_E_NOT_FOUND, SKIPPY_E_BUSY (leased), SKIPPY_E_INVALID. */
SKIPPY_API int skippy_activation_drop(skippy_activation_cache *c, const char *activation_id);
/* Removes every frame but leased ones; returns how many. The statistics go on. */
SKIPPY_API size_t skippy_activation_clear(skippy_activation_cache *c);
SKIPPY_API void skippy_activation_get_stats(const skippy_activation_cache *c, skippy_activation_stats *out);

#ifdef __cplusplus
}
#endif
#endif
