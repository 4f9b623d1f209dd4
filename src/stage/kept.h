/* Hidden states that a stage forwarded and keeps, so that they need not be computed when only stages behind it lost
 * their state. On top of the cache library's activation frames (skippy/activation.h).
 *
 * Kept in pieces: [64k, 64(k+1)) of a prompt's positions, and the last piece of a prompt as far as it goes. A piece is
 * found by the prefix key of all tokens up to its end, so it belongs to exactly these tokens. One owner thread. */
#ifndef SKIPPY_STAGE_KEPT_H
#define SKIPPY_STAGE_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "skippy/activation.h"
#include "skippy/identity.h"

enum { SK_KEPT_PIECE = 64 };

typedef struct sk_kept sk_kept;

/* stage_id, layer_start: of the page ids. width: f32 values of a row. max_bytes: cap on the sum of all pieces' bytes; 0
 * = keep nothing. */
int sk_kept_open(const char *stage_id, uint32_t layer_start, uint32_t width, uint64_t max_bytes, sk_kept **out,
                 sk_err *e);
void sk_kept_close(sk_kept *k);

/* One prompt on its way through the stage: collects rows until pieces are whole. Zero-initialise. */
typedef struct sk_kept_writer {
    float *rows; /* of the unfinished piece */
    uint32_t from, n;
} sk_kept_writer;
/* Rows of positions [pos, pos+n) of tokens (all tokens up to pos+n are given; n x width). Rows must follow each other;
 * when they do not (a restore in between) the writer goes on from the held part of this piece that ends at pos, or
 * begins anew at the next multiple. end: pos+n ends the prompt, so its last piece is kept as far as it goes, and the
 * writer is ready for another prompt. A writer whose prompt does not come to its end must be freed before it is used
 * for another one. Failures only mean that less is kept. */
void sk_kept_add(sk_kept *k, sk_kept_writer *w, const skippy_key *ns, const int32_t *tokens, uint32_t pos, uint32_t n,
                 const float *rows, bool end);
void sk_kept_writer_free(sk_kept_writer *w);

/* The longest run of positions [*from, *to) of this prompt that is held without a gap (of equal ones the first): whole
 * pieces and the prompt's own last piece; behind them as much of the next piece as another prompt, which ended in it,
 * left. *from == *to: nothing. Not a use of what is held. O(n / 64) lookups after one pass over the tokens, and at most
 * 63 more. */
void sk_kept_cover(sk_kept *k, const skippy_key *ns, const int32_t *tokens, uint32_t n, uint32_t *from, uint32_t *to);
/* Copies rows [from, to) to out ((to-from) x width). False when a piece is not held (any more), or from < to <= n does
 * not hold: out is undefined. */
bool sk_kept_read(sk_kept *k, const skippy_key *ns, const int32_t *tokens, uint32_t n, uint32_t from, uint32_t to,
                  float *out);
/* Forgets everything (an erase: pieces have no owner's name beside them). */
void sk_kept_clear(sk_kept *k);
void sk_kept_get_stats(const sk_kept *k, skippy_activation_stats *out);

#endif
