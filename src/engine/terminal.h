/* Terminal logits: the row of raw logits after the last token of a prompt, so that an exact repeat samples its first
 * token without a decode. Least recently used rows leave when the byte cap is reached. Engine thread only. */
#ifndef SKIPPY_ENGINE_TERMINAL_H
#define SKIPPY_ENGINE_TERMINAL_H

#include <stddef.h>
#include <stdint.h>

#include "skippy/identity.h"

typedef struct sk_terminal_row {
    uint64_t id;
    uint64_t last_use;
    float *row;
    skippy_key ns;
    int32_t *tokens; /* the prompt */
    size_t n_tokens;
    char *tenant, *cache_namespace;      /* NULL = none */
    unsigned stored, refused, in_flight; /* as in sk_reuse_entry */
    uint64_t since;
} sk_terminal_row;

typedef struct sk_terminal {
    size_t n_vocab;
    uint64_t max_bytes, bytes, clock;
    sk_terminal_row *rows;
    size_t n, cap;
} sk_terminal;

void sk_terminal_init(sk_terminal *t, size_t n_vocab, uint64_t max_bytes);
void sk_terminal_free(sk_terminal *t);
/* Would a row for a prompt of n_tokens fit after evicting? False when it alone is larger than the cap. */
int sk_terminal_fits(const sk_terminal *t, size_t n_tokens);
/* Least recently used id when such a row needs its place, 0 when there is room. */
uint64_t sk_terminal_victim(const sk_terminal *t, size_t n_tokens);
/* Copies a row and what desc says about it (its id, namespace, prompt, tenant, stored, since). SKIPPY_E_NOMEM,
 * SKIPPY_E_FULL (evict first). */
int sk_terminal_put(sk_terminal *t, const sk_terminal_row *desc, const float *row);
/* The row with everything about it, NULL when unknown. Valid until the next put or drop. */
sk_terminal_row *sk_terminal_find(const sk_terminal *t, uint64_t id);
/* The row, NULL when unknown; refreshes its recency. Valid until the next put or drop. */
const float *sk_terminal_get(sk_terminal *t, uint64_t id);
void sk_terminal_drop(sk_terminal *t, uint64_t id);

#endif
