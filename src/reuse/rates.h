/* Measured speeds, and the choice that depends on them: restore from a tier, or compute again. Pure; one owner thread.
 * Each rate is a moving average in which a new sample weighs a quarter. */
#ifndef SKIPPY_REUSE_RATES_H
#define SKIPPY_REUSE_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "skippy/index.h"

typedef struct sk_rates {
    double prefill_ms;                   /* per prompt token; 0 = not measured yet */
    double fetch_ms[SKIPPY_TIER_COUNT];  /* per byte, from the request to verified bytes */
    double import_ms;                    /* per byte, into the runtime */
    uint32_t refused[SKIPPY_TIER_COUNT]; /* in a row */
} sk_rates;

/* Samples that say nothing (0 tokens, 0 bytes, a time that is not positive) are ignored. */
void sk_rates_add_prefill(sk_rates *r, size_t tokens, double ms);
void sk_rates_add_fetch(sk_rates *r, uint8_t tier, uint64_t bytes, double ms);
void sk_rates_add_import(sk_rates *r, uint64_t bytes, double ms);

/* Time to bring `bytes` back from this tier; measured, or a guess before the first time (2 GiB a second). */
double sk_rates_restore_ms(const sk_rates *r, uint8_t tier, uint64_t bytes);

typedef struct sk_estimate {
    double restore_ms, recompute_ms; /* 0 where nothing was measured yet */
} sk_estimate;

/* Is it faster to restore `bytes` from this tier than to compute `tokens` tokens? True while either is unknown, and for
 * one in sixteen refusals, since a tier that is never used is never measured again. */
bool sk_rates_worth(sk_rates *r, uint8_t tier, uint64_t bytes, size_t tokens, sk_estimate *out);

#endif
