/* RAM tier: payloads in memory, deduplicated by block.
 *
 * CAVEATS, read first:
 *  - Experimental: this interface may change in any version.
 *  - Thread-safe: an internal lock is held for bookkeeping (a round of eviction visits every entry) and while one block
 *    is freed. Bytes are copied and hashed, and callbacks run, without it. Allocator hooks must be thread-safe.
 *  - Without hooks the store takes whole pages from the system for what it keeps and gives them back, so max_bytes is a
 *    hard limit on what it adds to the process's resident set, metadata included. With hooks the limit is on an
 *    estimate of what malloc occupies. Not counted: about 60 bytes of scratch for each block while a put runs.
 *  - A page is the smallest piece for a block then: blocks of a few hundred bytes occupy 4 KiB each.
 *  - A leased entry is never evicted or dropped. Erased or quarantined while leased, it can no longer be found, and its
 *    memory stays until the last lease ends.
 *  - Entries leave by benefit (benefit.h), judged by all bytes of their payload. Its clock ticks with each put and each
 *    lease.
 *  - Tables grow with the number of blocks and entries and never shrink.
 *
 * Memory, 1 MiB of state in blocks of 128 KiB: 8 pieces of 32 pages, 1.6 KiB for the blocks, 0.5 KiB for their part. */
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
    uint64_t soft_bytes; /* once a put exceeds max_bytes, eviction goes on down to this; 0 = max_bytes. A few percent
                          * less than max_bytes make eviction rounds rare */
    skippy_dropped_fn on_drop;
    void *ud;
} skippy_ram_params;

/* alloc NULL = pages from the system (and malloc for scratch). Errors: SKIPPY_E_INVALID (soft > max), SKIPPY_E_NOMEM.
 */
SKIPPY_API int skippy_ram_create(const skippy_allocator *alloc, const skippy_ram_params *p, skippy_ram_store **out);
/* No lease may be open, no call running. s may be NULL. */
SKIPPY_API void skippy_ram_destroy(skippy_ram_store *s);

/* Stores an entry, evicting as needed; source is asked only for blocks that are not held, and their digests are
 * checked. *id (non-zero, unique in this store) names it. An entry of the same prefix key, namespace and payload kind
 * is there already: SKIPPY_E_EXISTS, *id is its id and its recency is refreshed. source is called without locks, may
 * read from this store, and may be asked for a block again when other calls quarantined entries meanwhile. An erase
 * that runs at the same time does not mean an entry whose put has not returned. Errors: SKIPPY_E_TOO_LARGE (alone over
 * max_bytes: nothing was evicted for it), SKIPPY_E_FULL (leases and running puts hold too much: nothing was evicted,
 * short of surprises with pages that small objects share), SKIPPY_E_NOMEM, SKIPPY_E_CORRUPT (source gave other bytes),
 * SKIPPY_E_INVALID, or what source returned. After any error nothing of the entry is stored. */
SKIPPY_API int skippy_ram_put(skippy_ram_store *s, const skippy_manifest *m, skippy_block_source source, void *ud,
                              uint64_t *id);
/* Pins an entry, counts a hit and lends its manifest until the release. hits and used_ms in it are those of the first
 * of several leases that overlap. Allocates nothing. Errors: SKIPPY_E_NOT_FOUND. */
SKIPPY_API int skippy_ram_lease(skippy_ram_store *s, uint64_t id, const skippy_manifest **m);
/* Ends one lease. Errors: SKIPPY_E_NOT_FOUND, SKIPPY_E_INVALID (not leased). */
SKIPPY_API int skippy_ram_release(skippy_ram_store *s, uint64_t id);
/* Copies a block into buf (block->bytes long) and verifies it there. Needs no lease, but without one the block may have
 * left. Allocates nothing. SKIPPY_E_CORRUPT: every entry that refers to it is quarantined: on_drop is called for each,
 * and it leaves when its leases end; the same state can be stored anew at once. Errors: SKIPPY_E_NOT_FOUND. */
SKIPPY_API int skippy_ram_read(skippy_ram_store *s, const skippy_block_ref *block, void *buf);
/* Is the block held? (A put elsewhere can then use skippy_ram_read as its source.) */
SKIPPY_API bool skippy_ram_has(skippy_ram_store *s, const skippy_block_ref *block);
/* Errors: SKIPPY_E_NOT_FOUND, SKIPPY_E_BUSY (leased). on_drop is not called. */
SKIPPY_API int skippy_ram_drop(skippy_ram_store *s, uint64_t id, enum skippy_drop_reason reason);
/* Drops what the filter means and calls on_drop for each; leased entries go when their leases end and cannot be leased
 * again. The bytes are overwritten before they are freed. Returns how many. */
SKIPPY_API size_t skippy_ram_erase(skippy_ram_store *s, const skippy_erase_filter *f);
SKIPPY_API void skippy_ram_get_stats(skippy_ram_store *s, skippy_store_stats *out);
/* Checks every invariant (reference counts, sums, digests when verify). SKIPPY_OK or SKIPPY_E_CORRUPT. Slow, and the
 * lock is held all the time: for tests and diagnosis. */
SKIPPY_API int skippy_ram_check(skippy_ram_store *s, bool verify);

#ifdef __cplusplus
}
#endif
#endif
