/* Logarithmic axes: which range, and which ticks a person can read. Pure; thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_PLOT_SCALE_H
#define SKIPPY_BENCH_FAMILY_PLOT_SCALE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Zero-initialise; empty while hi is 0. */
typedef struct sk_plot_scale {
    double lo, hi; /* both above 0 */
} sk_plot_scale;

enum { SK_PLOT_MAX_TICKS = 16 };

/* Widens the range so that it has v; values that are not finite and above 0 have no place on the axis and are ignored.
 */
void sk_plot_scale_add(sk_plot_scale *s, double v);
/* Leaves free these shares of the axis before the smallest and after the largest value (each 0..0.8, together below
 * 0.9). A range of one value becomes a factor of 2 first, so that there is an axis at all. */
void sk_plot_scale_pad(sk_plot_scale *s, double before, double after);
/* The densest familiar ticks (1, 2, 5 in each decade, or more or fewer of them) of which at most max fit without
 * touching; returns their number. 1 is always one of them when it is in the range and any of them fits. max is at most
 * SK_PLOT_MAX_TICKS. */
size_t sk_plot_scale_ticks(const sk_plot_scale *s, size_t max, double ticks[SK_PLOT_MAX_TICKS]);
/* gnuplot's words for this axis: scale, range and ticks. axis: 'x' or 'y'; unit: behind each number ("x", "" ...). */
void sk_plot_scale_axis(const sk_plot_scale *s, char axis, const char *unit, size_t max_ticks, sk_buf *out);

#endif
