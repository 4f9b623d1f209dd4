/* Inside of the RAM store. Three levels, each counted:
 *
 *   entry ----> part ----> block         entry: one manifest (tokens, names, views of its parts)
 *   entry --^   (refs = 2)  ^            part:  a list of blocks; equal parts of different entries are one object, so a
 *   entry ----> part -------+                   growing chat stores the references of its full windows once
 *                           (refs = 2)   block: the bytes, found by digest
 *
 * block.refs counts the places in parts that name it, part.refs the entries that hold it. Both kinds of objects are
 * freed when their count falls to 0 (blocks also wait for their pins). Freeing goes through the graveyard: unlinked
 * blocks are queued there and freed one by one, the lock is let go between two of them.
 *
 * All functions below are called with the lock held, unless they say otherwise. */
#ifndef SKIPPY_CACHE_RAM_STORE_INTERNAL_H
#define SKIPPY_CACHE_RAM_STORE_INTERNAL_H

#include <pthread.h>

#include "cache/map.h"
#include "cache/pool.h"
#include "skippy/ram_store.h"

typedef struct sk_ram_part sk_ram_part;
typedef struct sk_ram_entry sk_ram_entry;

typedef struct sk_ram_block {
    sk_map_link link; /* in the table while listed; in the graveyard through link.next */
    skippy_block_ref ref;
    uint32_t pins; /* reads and puts that use it now */
    uint64_t refs;
    uint64_t mark;     /* the round of the last walk that came here */
    uint64_t seen;     /* counted by skippy_ram_check */
    bool listed, wipe; /* wipe: overwrite before the memory is given back */
    unsigned char *data;
} sk_ram_block;

struct sk_ram_part {
    sk_map_link link;
    uint64_t refs;
    uint64_t from, to;
    uint64_t bytes; /* sum of its blocks */
    uint64_t mark, seen;
    uint8_t kind;
    bool listed;
    bool bad; /* a block of it failed its digest */
    size_t n;
    skippy_block_ref *refs_of; /* n of them: what manifests lend */
    sk_ram_block *block[];
};

struct sk_ram_entry {
    sk_map_link by_id, by_prefix;
    sk_ram_entry *next; /* chain of entries whose drop is to be told */
    size_t at;          /* its place in the store's array */
    uint64_t id, leases, pins /* announcements under way */, hits, last_use, logical, refs_n;
    double score;
    enum skippy_drop_reason reason; /* of a gone entry */
    bool gone;                      /* out of every look-up; memory stays until leases and pins are 0 */
    size_t size;                    /* bytes of this allocation */
    size_t n_parts;                 /* parts it still holds */
    sk_ram_part **part;
    skippy_manifest m;
};

struct skippy_ram_store {
    pthread_mutex_t lock;
    skippy_allocator outer; /* the caller's hooks, or malloc: the store itself and scratch of a running put */
    skippy_allocator alloc; /* everything that is kept: outer, or the pool */
    uint64_t base;          /* physical size of the empty store */
    bool pooled;            /* alloc is the pool: physical size is measured instead of estimated */
    skippy_ram_params params;
    sk_pool pool;
    uint64_t charged;  /* estimate of everything kept, without the tables */
    uint64_t reserved; /* promised to running puts and not yet allocated */
    uint64_t dying;    /* charge of what lies in the graveyard */
    uint64_t pinned;   /* charge of blocks with pins */
    sk_map blocks, parts, ids, prefixes;
    size_t pending_blocks, pending_parts, pending_entries; /* what running puts may still add to the tables */
    sk_ram_entry **entry;                                  /* all entries, gone ones included, in any order */
    size_t n_entries, cap_entries;
    sk_ram_block *graveyard;
    uint64_t clock, last_id, round;
    skippy_store_stats stats; /* physical_bytes, max_bytes and blocks are filled in when asked for */
};

static inline sk_ram_block *sk_ram_block_of(sk_map_link *l) {
    return (sk_ram_block *)(void *)((char *)l - offsetof(sk_ram_block, link));
}
static inline sk_ram_part *sk_ram_part_of(sk_map_link *l) {
    return (sk_ram_part *)(void *)((char *)l - offsetof(sk_ram_part, link));
}

/* ---- memory (ram_store_memory.c) ---- */

/* What an allocation of this size occupies at most. */
uint64_t sk_ram_charge(const skippy_ram_store *s, size_t size);
void *sk_ram_alloc(skippy_ram_store *s, size_t size);
void sk_ram_free(skippy_ram_store *s, void *memory, size_t size);
/* What the store occupies now, without memory that it only keeps warm and gives up when it is needed. */
uint64_t sk_ram_physical(const skippy_ram_store *s);
/* Peak of what a table adds when `extra` elements come. */
uint64_t sk_ram_table_growth(const skippy_ram_store *s, const sk_map *m, size_t extra);
uint64_t sk_ram_array_growth(const skippy_ram_store *s, size_t extra);
/* Frees everything in the graveyard; lets the lock go between two blocks, and holds it again at the end, when the
 * graveyard is empty. */
void sk_ram_bury(skippy_ram_store *s);

/* ---- blocks and parts (ram_store_parts.c) ---- */

sk_ram_block *sk_ram_block_find(const skippy_ram_store *s, const skippy_block_ref *ref);
/* A pinned block outside the table, its bytes not yet set. NULL: no memory. */
sk_ram_block *sk_ram_block_new(skippy_ram_store *s, const skippy_block_ref *ref);
void sk_ram_block_list(skippy_ram_store *s, sk_ram_block *b);
void sk_ram_block_unlist(skippy_ram_store *s, sk_ram_block *b);
void sk_ram_block_pin(skippy_ram_store *s, sk_ram_block *b);
/* Takes a pin off; a block that nobody needs goes to the graveyard. */
void sk_ram_block_unpin(skippy_ram_store *s, sk_ram_block *b);
uint64_t sk_ram_block_charge(const skippy_ram_store *s, uint32_t bytes);

sk_ram_part *sk_ram_part_find(const skippy_ram_store *s, const skippy_part *p);
/* A part that nobody holds, outside the table, its blocks not yet set. NULL: no memory. */
sk_ram_part *sk_ram_part_new(skippy_ram_store *s, const skippy_part *p);
/* Sets the part's blocks from the table, where all of them must be, and adds it to the table of parts. */
void sk_ram_part_list(skippy_ram_store *s, sk_ram_part *p);
/* Takes the part out of the table, so that no later entry shares it. */
void sk_ram_part_unlist(skippy_ram_store *s, sk_ram_part *p);
void sk_ram_part_release(skippy_ram_store *s, sk_ram_part *p);
/* Frees a part that was never listed. */
void sk_ram_part_discard(skippy_ram_store *s, sk_ram_part *p);
uint64_t sk_ram_part_charge(const skippy_ram_store *s, size_t n_blocks);
bool sk_ram_part_has(const sk_ram_part *p, const sk_ram_block *b);

/* ---- entries (ram_store_entries.c) ---- */

sk_ram_entry *sk_ram_entry_find(const skippy_ram_store *s, uint64_t id);
/* An entry of the same namespace, prefix and kind that is not gone. */
sk_ram_entry *sk_ram_entry_twin(const skippy_ram_store *s, const skippy_manifest *m);
/* Size of the allocation for an entry with this manifest; 0 when it does not fit into memory at all. */
size_t sk_ram_entry_size(const skippy_manifest *m);
/* A copy of the manifest without parts, outside every table. NULL: no memory. */
sk_ram_entry *sk_ram_entry_new(skippy_ram_store *s, const skippy_manifest *m, size_t size);
/* Room in the array for the entries that are there and all pending ones. */
bool sk_ram_entries_reserve(skippy_ram_store *s);
/* Gives the entry an id and makes it findable; its parts are set, room was reserved. */
void sk_ram_entry_list(skippy_ram_store *s, sk_ram_entry *e, uint64_t logical);
void sk_ram_entry_touch(skippy_ram_store *s, sk_ram_entry *e);
/* Takes the entry out of every look-up, pins it and puts it on the chain of those to tell about. Its blocks go to the
 * graveyard unless it is leased. */
void sk_ram_entry_retire(skippy_ram_store *s, sk_ram_entry *e, enum skippy_drop_reason reason, sk_ram_entry **chain);
/* Has the bytes of the entry's blocks overwritten before they are freed, whoever frees them. */
void sk_ram_entry_wipe(sk_ram_entry *e);
/* Frees a gone entry when nobody uses it. */
void sk_ram_entry_settle(skippy_ram_store *s, sk_ram_entry *e);
/* Tells on_drop about the chain with the lock let go, then settles its entries and buries what they held. */
void sk_ram_tell(skippy_ram_store *s, sk_ram_entry *chain);

/* ---- eviction (ram_store_evict.c) ---- */

/* Evicts until `need` more bytes fit, and reserves them. Lets the lock go while it tells and frees. Errors:
 * SKIPPY_E_FULL. */
int sk_ram_make_room(skippy_ram_store *s, uint64_t need);

#endif
