/* Terminal logits: the row of raw logits after the last token of a prompt, so that an exact repeat samples its first
 * token without a decode. Least recently used rows leave when the byte cap is reached. Owner thread only. */
#ifndef SKIPPY_REUSE_TERMINAL_H
#define SKIPPY_REUSE_TERMINAL_H

#include <stddef.h>
#include <stdint.h>

#include "reuse/copies.h"
#include "reuse/prefix.h"

typedef struct sk_terminal_row {
    uint64_t id;
    uint64_t last_use;
    float *row;
    sk_prefix prompt; /* owned */
    sk_copies copies;
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
/* Copies a row, its prompt and what is known of its copies. SKIPPY_E_NOMEM, SKIPPY_E_FULL (evict first). */
int sk_terminal_put(sk_terminal *t, uint64_t id, const sk_prefix *prompt, const sk_copies *copies, const float *row);
/* The row with everything about it, NULL when unknown. Valid until the next put or drop. */
sk_terminal_row *sk_terminal_find(const sk_terminal *t, uint64_t id);
/* The row, NULL when unknown; refreshes its recency. Valid until the next put or drop. */
const float *sk_terminal_get(sk_terminal *t, uint64_t id);
void sk_terminal_drop(sk_terminal *t, uint64_t id);

#endif
