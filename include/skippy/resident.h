/* Resident bookkeeping: which sequence ids of the live runtime hold which prefix, and what to evict.
 *
 * CAVEATS, read first:
 *  - Not thread-safe.
 *  - Pure bookkeeping: the caller does the native copies and drops. Order matters: reserve -> drop natively what was
 *    returned as victims and call skippy_resident_drop for each -> copy natively -> commit. On a native failure: abort.
 *  - A leased entry is never a victim and cannot be dropped. Leases are counted: a second request for a leased entry
 *    is a hit.
 *  - bytes and cells are real values from the runtime. A cell that several entries share is charged once, to the entry
 *    that the caller says (skippy_resident_charge moves the charge when its owner is dropped). */
#ifndef SKIPPY_RESIDENT_H
#define SKIPPY_RESIDENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "skippy/allocator.h"
#include "skippy/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct skippy_resident_limits {
    size_t max_entries;   /* 0 = no entry is ever admitted (cache off) */
    uint64_t max_bytes;   /* 0 = no limit */
    uint64_t max_cells;   /* 0 = no limit */
    int32_t first_seq_id; /* the cache owns sequence ids [first, first + n) */
    int32_t n_seq_ids;
} skippy_resident_limits;

typedef struct skippy_resident_entry {
    uint64_t id;
    int32_t seq_id;
    size_t n_tokens;
    uint64_t cells, bytes; /* charged to this entry */
    double cost;           /* what a miss would recompute: tokens beyond the nearest shorter stored boundary, or ms */
    uint32_t leases;
    uint64_t hits;
    uint64_t last_use; /* logical clock of the cache */
} skippy_resident_entry;

/* Why an entry left; counted in the statistics. */
enum skippy_evict_reason {
    SKIPPY_EVICT_ENTRIES = 0,
    SKIPPY_EVICT_BYTES = 1,
    SKIPPY_EVICT_CELLS = 2,
    SKIPPY_EVICT_SEQ_IDS = 3,
    SKIPPY_EVICT_SUPERSEDED = 4,
    SKIPPY_EVICT_ERASED = 5,
    SKIPPY_EVICT_FAULT = 6,
    SKIPPY_EVICT_IDLE = 7, /* another store has it, and nobody used it for a while */
    SKIPPY_EVICT_REASONS = 8
};

typedef struct skippy_resident_stats {
    size_t entries, leased, free_seq_ids;
    uint64_t tokens, cells, bytes, hits, commits, aborts, refused_too_large, refused_full;
    uint64_t evictions[SKIPPY_EVICT_REASONS];
} skippy_resident_stats;

typedef struct skippy_resident skippy_resident;

/* All memory is allocated here, for n_seq_ids entries. alloc NULL = malloc.
 * Errors: SKIPPY_E_INVALID (negative or overflowing sequence ids), SKIPPY_E_NOMEM. */
SKIPPY_API int skippy_resident_create(const skippy_allocator *alloc, const skippy_resident_limits *limits,
                                      skippy_resident **out);
SKIPPY_API void skippy_resident_destroy(skippy_resident *r);

/* Benefit of keeping an entry: saved compute x chance of reuse / space. Pure.
 *   chance = (1 + hits) / (1 + age), age = clock - last_use; space = max(1, bytes + cells). */
SKIPPY_API double skippy_resident_benefit(const skippy_resident_entry *e, uint64_t clock);

/* First phase of recording. Chooses victims so that one more entry with these cells and bytes fits every limit, and
 * writes their ids to victims (at most cap), *n_victims of them; *reason says which limit asked first. The new entry's
 * id and sequence id go to *out_id and *out_seq (the sequence id may be one that a victim still holds: drop victims
 * first). Nothing is removed by this call. Exactly one reservation may be open at a time.
 * Victims are chosen by lowest benefit, then oldest use, then lowest id, among those that help against the limit; none
 * is named that could stay. *reason and the ids are written only with SKIPPY_OK; *reason means something only when
 * *n_victims > 0. No allocation.
 * Errors: SKIPPY_E_TOO_LARGE (alone over a limit, or the cache is off; no victim is named), SKIPPY_E_FULL (leases are
 * in the way), SKIPPY_E_BUSY (a reservation is open), SKIPPY_E_TOO_SMALL (more victims than cap: *n_victims of them),
 * SKIPPY_E_INVALID (n_tokens 0, a cost that is negative or not finite, sums that overflow). */
SKIPPY_API int skippy_resident_reserve(skippy_resident *r, size_t n_tokens, uint64_t cells, uint64_t bytes, double cost,
                                       uint64_t *victims, size_t cap, size_t *n_victims,
                                       enum skippy_evict_reason *reason, uint64_t *out_id, int32_t *out_seq);
/* Second phase: the entry exists now. SKIPPY_E_INVALID without an open reservation of this id, SKIPPY_E_BUSY while a
 * named victim is still present. */
SKIPPY_API int skippy_resident_commit(skippy_resident *r, uint64_t id);
/* Gives the reservation up; its sequence id is free again. */
SKIPPY_API int skippy_resident_abort(skippy_resident *r, uint64_t id);

/* Pins an entry, counts a hit and refreshes its recency. */
SKIPPY_API int skippy_resident_lease(skippy_resident *r, uint64_t id);
/* Ends one lease and refreshes recency: the entry was in use until now. Errors: SKIPPY_E_NOT_FOUND, SKIPPY_E_INVALID
 * (not leased). */
SKIPPY_API int skippy_resident_release(skippy_resident *r, uint64_t id);
/* Removes an entry after its native state is gone. Errors: SKIPPY_E_NOT_FOUND, SKIPPY_E_BUSY (leased). */
SKIPPY_API int skippy_resident_drop(skippy_resident *r, uint64_t id, enum skippy_evict_reason reason);
/* The entry grew in place (its sequence was extended) or its share of cells changed. */
SKIPPY_API int skippy_resident_charge(skippy_resident *r, uint64_t id, size_t n_tokens, uint64_t cells, uint64_t bytes,
                                      double cost);
/* Copies the entry's data. SKIPPY_E_NOT_FOUND. */
SKIPPY_API int skippy_resident_get(const skippy_resident *r, uint64_t id, skippy_resident_entry *out);
/* The entry that would be evicted next, 0 when all are leased or there is none. */
SKIPPY_API uint64_t skippy_resident_victim(const skippy_resident *r);
/* The entries that would be evicted next, the first to go first, without leased ones. Returns how many were written, at
 * most cap. O(cap x entries). */
SKIPPY_API size_t skippy_resident_victims(const skippy_resident *r, uint64_t *ids, size_t cap);
/* Ids of all entries, oldest id first; returns how many there are (may exceed cap). */
SKIPPY_API size_t skippy_resident_list(const skippy_resident *r, uint64_t *ids, size_t cap);
SKIPPY_API void skippy_resident_get_stats(const skippy_resident *r, skippy_resident_stats *out);

#ifdef __cplusplus
}
#endif
#endif
