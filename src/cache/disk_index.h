/* The tables of a disk store: entries, blocks and the segments that hold them. In memory only, no system calls, no
 * locks: the caller holds the store's lock.
 *
 *   entry ---blocks[]---> block ---segment---> segment        (an arrow is a pointer)
 *     |                     |  ^                  |
 *   by id, by prefix     by digest,           list of its
 *                        by number            live blocks
 *
 * A block lives while an entry refers to it (refs) or a call holds it (holds). */
#ifndef SKIPPY_CACHE_DISK_INDEX_H
#define SKIPPY_CACHE_DISK_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/map.h"
#include "skippy/allocator.h"
#include "skippy/payload.h"

typedef struct sk_disk_block sk_disk_block;

typedef struct sk_segment {
    sk_map_link by_number;
    struct sk_segment *next; /* of all segments, newest first */
    uint64_t number;
    uint64_t size; /* of the file */
    uint64_t live; /* block headers and bytes of its live blocks */
    sk_disk_block *blocks;
    int fd;         /* -1 while closed */
    unsigned pins;  /* reads that are under way */
    uint64_t used;  /* tick of the last read, for closing the handle that is used least */
    bool gone;      /* unlinked: freed when the last pin goes */
    bool published; /* has its header and its final name */
} sk_segment;

struct sk_disk_block {
    sk_map_link by_digest, by_number;
    sk_disk_block *prev, *next; /* of its segment */
    sk_segment *segment;        /* NULL until placed */
    uint64_t offset;            /* of the block header in the file */
    uint64_t number;            /* name of the block in the journal, never reused */
    uint64_t mark;              /* see sk_index_next_mark */
    skippy_block_ref ref;
    uint32_t refs, holds;
    bool bad; /* failed its digest: not found by digest any more */
};

typedef struct sk_disk_entry {
    sk_map_link by_id, by_prefix;
    struct sk_disk_entry *prev, *next; /* of all visible entries */
    struct sk_disk_entry *notify_next;
    uint64_t id;
    uint64_t tick;    /* of its last use */
    uint64_t used_ms; /* the manifest keeps the values that the entry was stored with */
    uint64_t hits;
    uint64_t logical_bytes;
    uint64_t record_bytes; /* of its journal record, block definitions apart */
    unsigned leases;
    enum skippy_drop_reason reason;
    bool gone;      /* left the tables; freed when the last lease ends and it was reported */
    bool notifying; /* is on a list of entries to report */
    bool dirty;     /* its use is newer than the journal's */
    skippy_manifest m;
    sk_disk_block **blocks; /* of all parts, in order; NULL = not resolved yet */
    size_t n_blocks;
} sk_disk_entry;

typedef struct sk_disk_index {
    skippy_allocator alloc;
    sk_map entries, prefixes, blocks, numbers, segment_map;
    sk_disk_entry *first; /* visible entries, newest first */
    sk_segment *segments;
    uint64_t n_entries, n_leased, n_blocks, n_refs;
    uint64_t logical_bytes, block_bytes, record_bytes; /* sums over visible entries, live blocks, visible entries */
    uint64_t segment_bytes, live_bytes;                /* sums over segments */
    size_t n_segments;
    uint64_t next_id, next_block, next_segment;
    uint64_t mark;
} sk_disk_index;

/* False when out of memory. */
bool sk_index_init(sk_disk_index *ix, const skippy_allocator *alloc);
/* Frees everything; the caller closed the segments' descriptors. */
void sk_index_free(sk_disk_index *ix);

/* ---- segments ---- */

sk_segment *sk_index_segment_find(const sk_disk_index *ix, uint64_t number);
/* NULL when out of memory. */
sk_segment *sk_index_segment_add(sk_disk_index *ix, uint64_t number);
void sk_index_segment_resize(sk_disk_index *ix, sk_segment *g, uint64_t size);
/* Takes a segment without live blocks out of the tables; the memory stays the caller's. */
void sk_index_segment_detach(sk_disk_index *ix, sk_segment *g);
/* Bytes of the file that no live block uses, its header apart. */
uint64_t sk_segment_dead(const sk_segment *g);

/* ---- blocks ---- */

sk_disk_block *sk_index_block_find(const sk_disk_index *ix, const skippy_block_ref *ref);
sk_disk_block *sk_index_block_numbered(const sk_disk_index *ix, uint64_t number);
/* A new block, not placed, with one hold. NULL when out of memory. */
sk_disk_block *sk_index_block_add(sk_disk_index *ix, const skippy_block_ref *ref, uint64_t number);
/* Says where it lies, or that it moved. */
void sk_index_block_place(sk_disk_index *ix, sk_disk_block *b, sk_segment *g, uint64_t offset);
/* Its bytes are nowhere (any more). */
void sk_index_block_unplace(sk_disk_index *ix, sk_disk_block *b);
/* Hides a block whose bytes are wrong. */
void sk_index_block_condemn(sk_disk_index *ix, sk_disk_block *b);
/* Ends one hold, frees the block when nothing uses it any more. */
void sk_index_block_unhold(sk_disk_index *ix, sk_disk_block *b);
/* A value that no block carries as its mark yet: for visiting each block once. */
uint64_t sk_index_next_mark(sk_disk_index *ix);

/* ---- entries ---- */

/* A copy of a manifest; the blocks are not resolved, the tables do not know it. n_blocks is taken from the parts.
 * NULL when out of memory. */
sk_disk_entry *sk_disk_entry_new(const skippy_allocator *alloc, const skippy_manifest *m);
/* Frees an entry that is not in the tables. */
void sk_disk_entry_free(const skippy_allocator *alloc, sk_disk_entry *e);
/* Makes an entry visible: every block pointer is set, and gains a reference. */
void sk_index_entry_add(sk_disk_index *ix, sk_disk_entry *e);
/* Hides an entry and gives its references up. It is found by id until sk_index_entry_forget. */
void sk_index_entry_hide(sk_disk_index *ix, sk_disk_entry *e, enum skippy_drop_reason reason);
/* Removes a hidden entry from the last table and frees it. */
void sk_index_entry_forget(sk_disk_index *ix, sk_disk_entry *e);
/* Visible or hidden. */
sk_disk_entry *sk_index_entry_find(const sk_disk_index *ix, uint64_t id);
/* The visible entry of the same namespace, prefix and payload kind. */
sk_disk_entry *sk_index_entry_same(const sk_disk_index *ix, const skippy_manifest *m);
bool sk_disk_entry_uses(const sk_disk_entry *e, const sk_disk_block *b);

#endif
