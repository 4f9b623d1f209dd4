/* Times of one step, run after run. Not thread-safe. */
#ifndef SKIPPY_BENCH_STORE_SERIES_H
#define SKIPPY_BENCH_STORE_SERIES_H

#include <stddef.h>
#include <stdint.h>

#include "bench/stats.h"

typedef struct sk_store_series {
    double *ms; /* owned */
    size_t n, cap;
    uint64_t bytes; /* that each run moves */
} sk_store_series;

/* Room for cap times. Errors: SKIPPY_E_NOMEM. */
int sk_store_series_init(sk_store_series *s, size_t cap);
void sk_store_series_free(sk_store_series *s);
/* Adds the time since start_ns (sk_now_ns); more than cap times are ignored. */
void sk_store_series_add(sk_store_series *s, uint64_t start_ns);
/* GB/s (10^9 bytes) at a time in ms; 0 for no time. Pure. */
double sk_store_rate(uint64_t bytes, double ms);

#endif
