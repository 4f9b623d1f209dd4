/* Which exported windows belong to a sequence, so that a growing conversation exports only its new ones.
 *
 * A window is one export of 256 KV positions. A lineage is the list of windows of one sequence content, shared by the
 * lane that computes it and the entries recorded from it: slot k covers positions [256k, 256k + 256). A window may be
 * taken over only by a sequence whose cells are those that were exported (the same cells, or cells that were imported
 * from it), never by one that computed the same tokens again: two computations may differ in their last bits.
 *
 * Lineages belong to the context's owner thread. Windows are shared with the store and fetch threads: counted
 * atomically, and their blocks are written once, before the state becomes STORED. */
#ifndef SKIPPY_REUSE_LINEAGE_H
#define SKIPPY_REUSE_LINEAGE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "skippy/payload.h"

enum { SK_WINDOW_TOKENS = 256 };
enum sk_window_state { SK_WINDOW_PENDING = 0, SK_WINDOW_STORED = 1, SK_WINDOW_FAILED = 2 };

typedef struct sk_window {
    atomic_uint refs;
    atomic_int state; /* enum sk_window_state */
    skippy_block_ref *blocks;
    size_t n_blocks;
} sk_window;

/* One reference, PENDING. NULL when out of memory. */
sk_window *sk_window_new(void);
sk_window *sk_window_retain(sk_window *w);
void sk_window_release(sk_window *w); /* w may be NULL */
/* Copies the blocks and makes the window STORED; out of memory: FAILED. Once, by the thread that hashed it. */
void sk_window_set_blocks(sk_window *w, const skippy_block_ref *blocks, size_t n);
static inline enum sk_window_state sk_window_get_state(const sk_window *w) {
    return (enum sk_window_state)atomic_load_explicit(&w->state, memory_order_acquire);
}
static inline void sk_window_fail(sk_window *w) {
    atomic_store_explicit(&w->state, SK_WINDOW_FAILED, memory_order_release);
}

typedef struct sk_lineage {
    unsigned refs;
    sk_window **slot;
    size_t cap;
} sk_lineage;

/* One reference, no windows. NULL when out of memory. */
sk_lineage *sk_lineage_new(void);
sk_lineage *sk_lineage_retain(sk_lineage *l); /* l may be NULL */
void sk_lineage_release(sk_lineage *l);       /* l may be NULL */
/* A new lineage with the windows that lie wholly in the first n tokens. NULL when out of memory or l is NULL. */
sk_lineage *sk_lineage_cut(const sk_lineage *l, size_t n);
/* Window k when it is known and has not failed; borrowed. l may be NULL. */
sk_window *sk_lineage_get(const sk_lineage *l, size_t k);
/* Takes one reference of w into slot k (a failed window there is replaced). SKIPPY_OK or SKIPPY_E_NOMEM: w is not
 * taken. */
int sk_lineage_set(sk_lineage *l, size_t k, sk_window *w);

#endif
