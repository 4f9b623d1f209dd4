/* RAM tier: payloads in memory, deduplicated by block.
 *
 * CAVEATS, read first:
 *  - Experimental: this interface may change in any version.
 *  - Thread-safe: an internal lock is held for bookkeeping and for the copy of one block at a time, never for a whole
 *    payload. The allocator hooks must be thread-safe.
 *  - max_bytes is a hard limit on everything that the store allocates, blocks rounded up to what the allocator takes
 *    (pages for large blocks) and metadata included, so that the process's resident set obeys it.
 *  - A leased entry is never evicted, dropped or erased.
 *  - Entries leave by benefit: (saved compute x chance of reuse) / exclusive bytes, where a block that k entries share
 *    costs each of them 1/k of its size. */
#ifndef SKIPPY_RAM_STORE_H
#define SKIPPY_RAM_STORE_H

#include "skippy/allocator.h"
#include "skippy/payload.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct skippy_ram_store skippy_ram_store;

typedef struct skippy_ram_params {
    uint64_t max_bytes;  /* 0 = the store accepts nothing */
    uint64_t soft_bytes; /* eviction aims below this, 0 = max_bytes: leaves room for the next put */
    skippy_dropped_fn on_drop;
    void *ud;
} skippy_ram_params;

/* alloc NULL = malloc. Errors: SKIPPY_E_INVALID (soft > max), SKIPPY_E_NOMEM. */
SKIPPY_API int skippy_ram_create(const skippy_allocator *alloc, const skippy_ram_params *p, skippy_ram_store **out);
/* No lease may be open, no call running. s may be NULL. */
SKIPPY_API void skippy_ram_destroy(skippy_ram_store *s);

/* Stores an entry, evicting as needed; source is asked only for blocks that are not held, and their digests are
 * checked. *id (non-zero, unique in this store) names it. An entry of the same prefix key, namespace and payload kind
 * is there already: SKIPPY_E_EXISTS, *id is its id and its recency is refreshed. Errors: SKIPPY_E_TOO_LARGE (alone over
 * max_bytes: nothing was evicted for it), SKIPPY_E_FULL (leases), SKIPPY_E_NOMEM, SKIPPY_E_CORRUPT (source gave other
 * bytes), SKIPPY_E_INVALID, or what source returned. After any error nothing of the entry is stored. */
SKIPPY_API int skippy_ram_put(skippy_ram_store *s, const skippy_manifest *m, skippy_block_source source, void *ud,
                              uint64_t *id);
/* Pins an entry, counts a hit and lends its manifest until the release. Errors: SKIPPY_E_NOT_FOUND. */
SKIPPY_API int skippy_ram_lease(skippy_ram_store *s, uint64_t id, const skippy_manifest **m);
SKIPPY_API int skippy_ram_release(skippy_ram_store *s, uint64_t id);
/* Copies a block into buf (block->bytes long) and verifies it there. SKIPPY_E_CORRUPT: every entry that refers to it is
 * quarantined: on_drop is called for each, and it leaves when its leases end. Errors: SKIPPY_E_NOT_FOUND. */
SKIPPY_API int skippy_ram_read(skippy_ram_store *s, const skippy_block_ref *block, void *buf);
/* Is the block held? (A put elsewhere can then use skippy_ram_read as its source.) */
SKIPPY_API bool skippy_ram_has(skippy_ram_store *s, const skippy_block_ref *block);
/* Errors: SKIPPY_E_NOT_FOUND, SKIPPY_E_BUSY (leased). on_drop is not called. */
SKIPPY_API int skippy_ram_drop(skippy_ram_store *s, uint64_t id, enum skippy_drop_reason reason);
/* Drops what the filter means and calls on_drop for each; leased entries go when their leases end and cannot be leased
 * again. The bytes are overwritten before they are freed. Returns how many. */
SKIPPY_API size_t skippy_ram_erase(skippy_ram_store *s, const skippy_erase_filter *f);
SKIPPY_API void skippy_ram_get_stats(skippy_ram_store *s, skippy_store_stats *out);
/* Checks every invariant (reference counts, sums, digests when verify). SKIPPY_OK or SKIPPY_E_CORRUPT. Slow. */
SKIPPY_API int skippy_ram_check(skippy_ram_store *s, bool verify);

#ifdef __cplusplus
}
#endif
#endif
