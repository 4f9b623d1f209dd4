/* Where a request can start, and what a lane needs to begin with it. admit.c has it all; split_admit.c shares it.
 * Engine thread only. */
#ifndef SKIPPY_ENGINE_START_H
#define SKIPPY_ENGINE_START_H

#include "engine/internal.h"

/* Fewer tokens than SK_MIN_GAIN are cheaper to compute than to wait or stop for; a rung of the ladder, which nothing
 * but its place speaks for, has to save more. */
enum { SK_MIN_GAIN = 16, SK_LADDER_GAIN = 64 };

typedef struct sk_start {
    enum sk_hit_source source;
    size_t length;
    sk_lane *lane; /* HOT_LANE: the idle lane itself; ACTIVE_LANE: the running lane to copy from */
    uint64_t entry;
    uint64_t terminal; /* logits of the whole prompt, in memory */
    sk_reuse_hit hit;  /* what is stored, by tier */
    size_t common;
    bool failed; /* a restore was tried and did not work */
} sk_start;

/* Tokens that a lane's sequence and a job of the same namespace begin with alike; 0 when the lane holds nothing that
 * may be shared. */
size_t sk_start_common(const sk_lane *l, const sk_job *j);
/* Is another lane computing a beginning of this prompt that is worth waiting for, beyond `have` tokens? Asks it to stop
 * and record where that is needed. */
bool sk_start_worth_waiting(sk_engine *en, const sk_job *j, size_t have);
/* The idle lane whose content is cheapest to lose, NULL when none is idle. */
sk_lane *sk_start_pick_lane(sk_engine *en);
/* Is there room for the cells of this job beside those that running requests will still need? shared: cells that it
 * takes over from a running lane. */
bool sk_start_cells_allow(sk_engine *en, const sk_job *j, size_t shared);
/* The idle lane goes on where it is, with the first `length` of its tokens. */
int sk_start_borrow(sk_engine *en, sk_lane *l, size_t length, sk_err *e);
/* The lane holds s->length tokens of the job: it runs from now on, and the client learns what the cache did. */
void sk_start_begin(sk_engine *en, sk_lane *l, sk_job *j, sk_start *s);

#endif
