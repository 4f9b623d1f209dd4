/* State that left the runtime: a RAM store and a disk store, with a thread that hashes and writes (store thread) and
 * one that reads and verifies (fetch thread). The owner's thread gives and takes; it never waits for either.
 *
 *    owner thread --put, drop, erase--> store thread --> RAM store, disk store
 *                 --fetch-------------> fetch thread <-- (leases, verified blocks)
 *                 <--events------------ both
 *
 * Commands of one kind are done in the order in which they were given. Events come in the order in which things
 * happened; `wake` is called after each, from another thread. */
#ifndef SKIPPY_REUSE_TIERS_H
#define SKIPPY_REUSE_TIERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "reuse/lineage.h"
#include "reuse/prefix.h"
#include "reuse/tier_stats.h"
#include "runtime/state.h"
#include "skippy/index.h"
#include "skippy/payload.h"

typedef struct sk_tiers sk_tiers;

typedef struct sk_tiers_params {
    uint64_t ram_bytes;      /* 0 = no RAM tier */
    const char *disk_dir;    /* NULL = no disk tier */
    uint64_t disk_bytes;     /* over the directory; 0 = no limit */
    const char *store_name;  /* folder below disk_dir: one for each namespace */
    uint64_t staging_bytes;  /* exported bytes that may wait for the store thread; one put is always accepted */
    uint64_t throttle_bytes; /* reads of the disk tier are slowed to so many bytes a second; 0 = not (for tests) */
    void (*wake)(void *ud);
    void *ud;
} sk_tiers_params;

/* One part on its way to the stores: fresh bytes, or blocks that are known from an earlier export. */
typedef struct sk_put_part {
    uint8_t kind; /* enum skippy_part_kind */
    uint32_t from, to;
    sk_window *window; /* one reference; NULL when nobody else will want these blocks */
    sk_blob blob;      /* data NULL: the window's blocks */
} sk_put_part;

/* One entry on its way. Owned by whoever holds it: free with sk_put_free. */
typedef struct sk_put {
    struct sk_put *next;
    uint64_t owner;    /* of the caller: id of the entry, or of the row of logits */
    unsigned tiers;    /* 1 << enum skippy_tier, where it should go */
    uint64_t staged;   /* bytes of all blobs */
    sk_prefix prefix;  /* owned */
    skippy_manifest m; /* borrows from prefix; parts: filled by the store thread */
    sk_put_part *parts;
    size_t n_parts;
    /* results, by tier */
    int rc[SKIPPY_TIER_COUNT];
    uint64_t id[SKIPPY_TIER_COUNT];
} sk_put;
/* A put for a copy of this prefix, with room for n_parts parts; its manifest is what the prefix says. NULL when out of
 * memory. */
sk_put *sk_put_new(const sk_prefix *prefix, size_t n_parts);
void sk_put_free(sk_put *p); /* p may be NULL */

/* One entry on its way back. */
typedef struct sk_fetch {
    struct sk_fetch *next;
    uint8_t tier;
    uint64_t state_id, terminal_id; /* in that tier; terminal 0 = not wanted */
    skippy_key ns, layout;
    int32_t *tokens; /* owned: the first `length` must be the entry's */
    uint32_t length;
    atomic_bool abandoned; /* nobody wants it any more: the event only frees it */
    bool done;             /* owner thread: its event has come */
    /* results */
    int rc;
    char why[160];
    sk_state_part *parts; /* data owned */
    sk_window **windows;  /* one for each part; NULL where it is no whole window */
    size_t n_parts;
    float *logits; /* owned; NULL = none */
    size_t n_logits;
    size_t stored_tokens; /* of the entry: `length` when it was restored whole */
    uint64_t bytes;
    double ms;
} sk_fetch;
void sk_fetch_free(sk_fetch *f); /* f may be NULL */

enum sk_tier_event_type {
    SK_TIER_PUT = 1,     /* put: finished, look at rc and id by tier */
    SK_TIER_DROPPED = 2, /* tier, id: left by itself */
    SK_TIER_FOUND = 3,   /* tier, id, put: found on disk at the start; put has its tokens and kinds, no parts */
    SK_TIER_FETCHED = 4, /* fetch: finished */
    SK_TIER_ERASED = 5,  /* count: answer to sk_tiers_erase */
    SK_TIER_OPENED = 6   /* the disk store is open (rc 0) or cannot be used (rc, in the log) */
};
typedef struct sk_tier_event {
    struct sk_tier_event *next;
    enum sk_tier_event_type type;
    uint8_t tier;
    int rc;
    uint64_t id;
    size_t count;
    sk_put *put;     /* owned by the event */
    sk_fetch *fetch; /* owned by the event */
} sk_tier_event;
void sk_tier_event_free(sk_tier_event *e);

/* Starts the threads; the disk store is opened by the store thread, entries are reported as they are found. */
int sk_tiers_open(const sk_tiers_params *p, sk_tiers **out, sk_err *e);
/* Finishes all puts that were accepted, then ends the threads. t may be NULL. Events that nobody took are freed. */
void sk_tiers_close(sk_tiers *t);

/* Is there room for a put of so many bytes? Thread-safe. */
bool sk_tiers_accepts(sk_tiers *t, uint64_t bytes);
/* The tiers that exist: 1 << enum skippy_tier. The disk tier counts while its store opens and ends when it cannot be.
 */
unsigned sk_tiers_mask(sk_tiers *t);
/* All three take ownership. Never fail: a put or fetch that cannot be done comes back as an event that says so. */
void sk_tiers_put(sk_tiers *t, sk_put *p);
void sk_tiers_fetch(sk_tiers *t, sk_fetch *f);
/* Drops one entry: no event follows. SKIPPY_E_NOMEM: it stays. */
int sk_tiers_drop(sk_tiers *t, uint8_t tier, uint64_t id, enum skippy_drop_reason reason);
/* Erases in both tiers after all earlier puts; the filter is copied. SKIPPY_E_NOMEM: no event follows. */
int sk_tiers_erase(sk_tiers *t, const skippy_erase_filter *f);
/* Takes all events: a list in order, owned by the caller. */
sk_tier_event *sk_tiers_events(sk_tiers *t);
void sk_tiers_get_stats(sk_tiers *t, sk_tier_stats *out);

#endif
