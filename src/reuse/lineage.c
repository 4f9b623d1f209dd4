#include "reuse/lineage.h"

#include <stdlib.h>
#include <string.h>

sk_window *sk_window_new(void) {
    sk_window *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    atomic_init(&w->refs, 1);
    atomic_init(&w->state, SK_WINDOW_PENDING);
    return w;
}

sk_window *sk_window_retain(sk_window *w) {
    atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
    return w;
}

void sk_window_release(sk_window *w) {
    if (!w || atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) != 1) return;
    free(w->blocks);
    free(w);
}

void sk_window_set_blocks(sk_window *w, const skippy_block_ref *blocks, size_t n) {
    w->blocks = malloc(n * sizeof *blocks);
    if (!w->blocks) {
        sk_window_fail(w);
        return;
    }
    memcpy(w->blocks, blocks, n * sizeof *blocks);
    w->n_blocks = n;
    atomic_store_explicit(&w->state, SK_WINDOW_STORED, memory_order_release);
}

sk_lineage *sk_lineage_new(void) {
    sk_lineage *l = calloc(1, sizeof *l);
    if (l) l->refs = 1;
    return l;
}

sk_lineage *sk_lineage_retain(sk_lineage *l) {
    if (l) l->refs++;
    return l;
}

void sk_lineage_release(sk_lineage *l) {
    if (!l || --l->refs > 0) return;
    for (size_t k = 0; k < l->cap; k++) sk_window_release(l->slot[k]);
    free(l->slot);
    free(l);
}

sk_window *sk_lineage_get(const sk_lineage *l, size_t k) {
    if (!l || k >= l->cap || !l->slot[k] || sk_window_get_state(l->slot[k]) == SK_WINDOW_FAILED) return NULL;
    return l->slot[k];
}

int sk_lineage_set(sk_lineage *l, size_t k, sk_window *w) {
    if (k >= l->cap) {
        size_t cap = l->cap ? l->cap : 8;
        while (cap <= k) cap *= 2;
        sk_window **grown = realloc(l->slot, cap * sizeof(sk_window *));
        if (!grown) return SKIPPY_E_NOMEM;
        memset(grown + l->cap, 0, (cap - l->cap) * sizeof(sk_window *));
        l->slot = grown;
        l->cap = cap;
    }
    sk_window_release(l->slot[k]);
    l->slot[k] = w;
    return SKIPPY_OK;
}

sk_lineage *sk_lineage_cut(const sk_lineage *l, size_t n) {
    sk_lineage *c = l ? sk_lineage_new() : NULL;
    for (size_t k = 0; c && k < n / SK_WINDOW_TOKENS; k++) {
        sk_window *w = sk_lineage_get(l, k);
        if (!w) continue;
        if (sk_lineage_set(c, k, sk_window_retain(w)) != SKIPPY_OK) sk_window_release(w); /* exported again then */
    }
    return c;
}
