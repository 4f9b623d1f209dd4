/* Where else a thing that is resident is: masks of 1 << enum skippy_tier. Owner thread only. */
#ifndef SKIPPY_REUSE_COPIES_H
#define SKIPPY_REUSE_COPIES_H

#include <stdint.h>

typedef struct sk_copies {
    unsigned stored;    /* was stored there (it may have left since) */
    unsigned refused;   /* will not be taken there */
    unsigned in_flight; /* is on its way there */
    uint64_t since;     /* clock of the record: newer things are stored first */
} sk_copies;

/* What came of a put to these tiers. */
static inline void sk_copies_settle(sk_copies *c, unsigned tiers, unsigned stored, unsigned refused) {
    c->in_flight &= ~tiers;
    c->stored |= stored;
    c->refused |= refused;
}

#endif
