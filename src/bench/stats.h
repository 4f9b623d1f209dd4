/* Order statistics of a series of measurements. Pure functions, thread-safe. */
#ifndef SKIPPY_BENCH_STATS_H
#define SKIPPY_BENCH_STATS_H

#include <stddef.h>

#define SK_RATIO_CHARS 32

/* All values have the unit of the input. n == 0: every value is 0. */
typedef struct sk_summary {
    size_t n;
    double min, p25, p50, p75, p95, max, mean;
    double spread; /* (max - min) / p50, 0 when p50 is 0: how far single runs lie apart */
} sk_summary;

/* Median of n sorted values; the mean of the middle two when n is even. 0 for n == 0. */
double sk_stats_median(const double *sorted, size_t n);
/* Nearest-rank percentile: the smallest value that at least `percent` percent of the values do not exceed
 * (percent in 1..100). It is always a value that was measured. 0 for n == 0. */
double sk_stats_rank(const double *sorted, size_t n, unsigned percent);
/* Summarises values in any order; values is not changed. Errors: SKIPPY_E_NOMEM (*out is zeroed). */
int sk_stats_summarize(const double *values, size_t n, sk_summary *out);
/* "12.34x", or "0.80x (slower)" where ours took longer than theirs, or "n/a" when one of them was not measured.
 * Times in one unit; returns buf. */
const char *sk_stats_ratio(double theirs, double ours, char buf[SK_RATIO_CHARS]);

#endif
