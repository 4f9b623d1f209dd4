/* Terminal logits: the row of raw logits after the last token of a prompt, so that an exact repeat samples its first
 * token without a decode. Least recently used rows leave when the byte cap is reached. Engine thread only. */
#ifndef SKIPPY_ENGINE_TERMINAL_H
#define SKIPPY_ENGINE_TERMINAL_H

#include <stddef.h>
#include <stdint.h>

typedef struct sk_terminal_row {
    uint64_t id;
    uint64_t last_use;
    float *row;
    char *tenant; /* NULL = none; for erasing */
} sk_terminal_row;

typedef struct sk_terminal {
    size_t n_vocab;
    uint64_t max_bytes, bytes, clock;
    sk_terminal_row *rows;
    size_t n, cap;
} sk_terminal;

void sk_terminal_init(sk_terminal *t, size_t n_vocab, uint64_t max_bytes);
void sk_terminal_free(sk_terminal *t);
/* Would one more row fit after evicting? False when a single row is larger than the cap. */
int sk_terminal_fits(const sk_terminal *t);
/* Least recently used id when a new row needs its place, 0 when there is room. */
uint64_t sk_terminal_victim(const sk_terminal *t);
/* Copies a row. SKIPPY_E_NOMEM, SKIPPY_E_FULL (evict first). */
int sk_terminal_put(sk_terminal *t, uint64_t id, const float *row, const char *tenant);
/* The row, NULL when unknown; refreshes its recency. Valid until the next put or drop. */
const float *sk_terminal_get(sk_terminal *t, uint64_t id);
void sk_terminal_drop(sk_terminal *t, uint64_t id);

#endif
