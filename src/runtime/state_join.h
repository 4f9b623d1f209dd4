/* Puts states of one layout that hold different cells together into one: the inverse of exporting a range in pieces.
 * Pure; thread-safe. */
#ifndef SKIPPY_RUNTIME_STATE_JOIN_H
#define SKIPPY_RUNTIME_STATE_JOIN_H

#include "runtime/state_codec.h"

typedef struct sk_state_piece {
    const uint8_t *blob;
    size_t len;
    const sk_state_parse *parse; /* of this blob */
} sk_state_piece;

/* KV sections: the cells of all pieces in their order, rows likewise. RS section: that of the last piece. *out is
 * malloc'ed. Errors: SKIPPY_E_INVALID (no pieces), SKIPPY_E_CORRUPT (layouts differ), SKIPPY_E_NOMEM. */
int sk_state_join(const sk_state_piece *pieces, size_t n, uint8_t **out, size_t *len, sk_err *e);

#endif
