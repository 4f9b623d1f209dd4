#include "bench/stats.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "skippy/error.h"

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

double sk_stats_median(const double *sorted, size_t n) {
    if (n == 0) {
        return 0.0;
    }
    return n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

double sk_stats_rank(const double *sorted, size_t n, unsigned percent) {
    if (n == 0) {
        return 0.0;
    }
    size_t rank = (n / 100) * percent + ((n % 100) * percent + 99) / 100; /* ceil(n * percent / 100) without overflow */
    rank = rank < 1 ? 1 : rank;
    return sorted[rank > n ? n - 1 : rank - 1];
}

int sk_stats_summarize(const double *values, size_t n, sk_summary *out) {
    *out = (sk_summary){0};
    if (n == 0) {
        return SKIPPY_OK;
    }
    double *sorted = n <= SIZE_MAX / sizeof *sorted ? malloc(n * sizeof *sorted) : NULL;
    if (!sorted) {
        return SKIPPY_E_NOMEM;
    }
    memcpy(sorted, values, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_doubles);
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += sorted[i];
    }
    out->n = n;
    out->min = sorted[0];
    out->max = sorted[n - 1];
    out->p25 = sk_stats_rank(sorted, n, 25);
    out->p50 = sk_stats_median(sorted, n);
    out->p75 = sk_stats_rank(sorted, n, 75);
    out->p95 = sk_stats_rank(sorted, n, 95);
    out->mean = sum / (double)n;
    out->spread = out->p50 > 0.0 ? (out->max - out->min) / out->p50 : 0.0;
    free(sorted);
    return SKIPPY_OK;
}

const char *sk_stats_ratio(double theirs, double ours, char buf[SK_RATIO_CHARS]) {
    if (!(theirs > 0.0) || !(ours > 0.0)) {
        snprintf(buf, SK_RATIO_CHARS, "n/a");
        return buf;
    }
    const double ratio = theirs / ours;
    snprintf(buf, SK_RATIO_CHARS, ratio < 1.0 ? "%.2fx (slower)" : "%.2fx", ratio);
    return buf;
}
