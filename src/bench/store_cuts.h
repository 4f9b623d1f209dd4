/* Finer cuts than the codec's: inside a run, at absolute token positions.
 *
 *    rows of one run, positions 200 .. 330      200 | 256 ...          | 320 .. 330
 *    cut every 64 tokens                             ^256               ^320
 *
 * Cuts at absolute positions, not at distances from the beginning, so that a sliding window that has moved on shares
 * the rows it still has. Pure functions, thread-safe. */
#ifndef SKIPPY_BENCH_STORE_CUTS_H
#define SKIPPY_BENCH_STORE_CUTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "runtime/state_codec.h"

/* Where to cut one part: at the codec's places and, in attention runs whose rows lie one after the other, before each
 * row whose position is a multiple of step (not 0). No span is shorter than the codec allows: a short one joins the
 * next, the rest of a run the rows before it. *cuts is malloc'ed: ascending, the last one is len. Errors: those of
 * sk_state_parse_blob, SKIPPY_E_NOMEM. */
int sk_store_cuts(const uint8_t *data, size_t len, const sk_state_shape *shape, uint32_t step, size_t **cuts,
                  size_t *n_cuts, sk_err *e);

#endif
