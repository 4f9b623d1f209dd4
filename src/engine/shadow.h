/* Shadow comparisons: which hits are computed again, what their rows of logits were, and which namespaces are not
 * trusted any more. Bookkeeping and arithmetic; shadow_run.c moves it. Engine thread only. */
#ifndef SKIPPY_ENGINE_SHADOW_H
#define SKIPPY_ENGINE_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "skippy/identity.h"

/* A hit that waits for its comparison. */
typedef struct sk_shadow_case {
    skippy_key ns;
    int32_t *tokens; /* owned */
    size_t n_tokens;
    float *row; /* owned: logits after the prompt, from the reused state */
} sk_shadow_case;

typedef struct sk_shadow {
    double share, due; /* due: comparisons owed so far; one is taken when it reaches 1 */
    uint64_t skipped;  /* owed and not made: another one was waiting or running, or a client needed the lane */
    size_t n_vocab;
    bool waiting, running;
    sk_shadow_case hit; /* while waiting or running */
    skippy_key *distrusted;
    size_t n_distrusted;
    bool all; /* out of memory while distrusting: nothing is trusted */
} sk_shadow;

void sk_shadow_init(sk_shadow *s, double share, size_t n_vocab);
void sk_shadow_free(sk_shadow *s);
/* Is it this hit's turn? Every 1/share-th is, deterministically; never while another is waiting or running. */
bool sk_shadow_due(sk_shadow *s);
/* Keeps a copy. False when out of memory. */
bool sk_shadow_take(sk_shadow *s, const skippy_key *ns, const int32_t *tokens, size_t n, const float *row);
/* Forgets the case. */
void sk_shadow_drop(sk_shadow *s);
bool sk_shadow_distrusts(const sk_shadow *s, const skippy_key *ns);
void sk_shadow_distrust(sk_shadow *s, const skippy_key *ns);

/* ||a - b|| / ||b||, 0 for two equal rows (equal bits, NaN included), infinity when b is all zero or a value is not
 * finite on one side only. */
double sk_shadow_distance(const float *a, const float *b, size_t n);
/* Do two rows disagree? Bit mode: any bit. State mode: a relative distance above SK_SHADOW_LIMIT, which is above what
 * two cold computations of one prompt were measured to differ by (docs/exactness.md) and below that of wrong state. */
#define SK_SHADOW_LIMIT 0.35
bool sk_shadow_disagree(double distance, bool bit_mode);

#endif
