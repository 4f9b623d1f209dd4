/* The inside of sk_hold, shared by its source files only. */
#ifndef SKIPPY_REUSE_HOLD_INTERNAL_H
#define SKIPPY_REUSE_HOLD_INTERNAL_H

#include "reuse/hold.h"

/* Bytes of a state of n tokens outside of the runtime, for planning. */
static inline uint64_t sk_hold_state_bytes(const sk_hold *h, size_t n) {
    return n * h->caps.cell_bytes + h->caps.tail_bytes;
}

/* The one kind of payload that may continue a request on this context. */
static inline uint8_t sk_hold_payload_kind(const sk_hold *h) {
    return h->params.mode == SK_CACHE_KV_RECURRENT ? SKIPPY_PAYLOAD_KV_RECURRENT : SKIPPY_PAYLOAD_RESIDENT_KV;
}

/* spill.c: last chance of what leaves to make room for another; hooks of sk_reuse, ud is the hold. */
void sk_hold_keep_entry(void *ud, sk_reuse_entry *x);
void sk_hold_keep_row(void *ud, sk_terminal_row *row);

/* idle.c: should the RAM store have what was recorded, before it has to leave, and should it have this one? */
bool sk_hold_wants_ram_copies(const sk_hold *h);
bool sk_hold_copies_to_ram(const sk_hold *h, const sk_reuse_entry *x);

/* recall.c: is there a recall that waits for it? */
bool sk_hold_awaits(const sk_hold *h, const sk_fetch *f);

#endif
