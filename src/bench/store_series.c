#include "bench/store_series.h"

#include <stdlib.h>

#include "base/clock.h"
#include "skippy/error.h"

int sk_store_series_init(sk_store_series *s, size_t cap) {
    *s = (sk_store_series){.ms = calloc(cap ? cap : 1, sizeof *s->ms), .cap = cap};
    return s->ms ? SKIPPY_OK : SKIPPY_E_NOMEM;
}

void sk_store_series_free(sk_store_series *s) {
    free(s->ms);
    *s = (sk_store_series){0};
}

void sk_store_series_add(sk_store_series *s, uint64_t start_ns) {
    const double ms = (double)(sk_now_ns() - start_ns) / 1e6;
    if (s->n < s->cap) s->ms[s->n++] = ms;
}

double sk_store_rate(uint64_t bytes, double ms) {
    return ms > 0.0 ? (double)bytes / ms / 1e6 : 0.0;
}
