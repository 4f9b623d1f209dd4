#include "bench/family/plot_scale.h"

#include <math.h>
#include <string.h>

/* Which multiples of a power of ten carry a tick, and of every how many-th power. From dense to sparse. */
typedef struct density {
    int every;
    size_t n;
    double multiple[10];
} density;

static const density DENSITIES[] = {
    {1, 10, {1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8}},
    {1, 6, {1, 1.5, 2, 3, 5, 7}},
    {1, 4, {1, 2, 4, 7}},
    {1, 3, {1, 2, 5}},
    {1, 2, {1, 3}},
    {1, 1, {1}},
    {2, 1, {1}},
    {3, 1, {1}},
    {6, 1, {1}},
};

void sk_plot_scale_add(sk_plot_scale *s, double v) {
    if (!isfinite(v) || v <= 0.0) {
        return;
    }
    s->lo = s->hi > 0.0 && s->lo < v ? s->lo : v;
    s->hi = s->hi > v ? s->hi : v;
}

void sk_plot_scale_pad(sk_plot_scale *s, double before, double after) {
    if (s->hi <= 0.0) {
        return;
    }
    if (s->hi / s->lo < 1.05) {
        s->lo /= sqrt(2.0);
        s->hi *= sqrt(2.0);
    }
    const double whole = log10(s->hi / s->lo) / (1.0 - before - after);
    s->lo /= pow(10.0, whole * before);
    s->hi *= pow(10.0, whole * after);
}

/* Labels of ticks that are nearer to each other than this share of an even distribution would touch. */
#define NEAREST 0.9

static bool touches(const sk_plot_scale *s, double before, double at, size_t max) {
    return log10(at / before) < NEAREST * log10(s->hi / s->lo) / (double)max;
}

/* The ticks of one density; max + 1 when they are too many or too near to each other. */
static size_t ticks_of(const sk_plot_scale *s, const density *d, size_t max, double ticks[SK_PLOT_MAX_TICKS]) {
    size_t n = 0;
    const int last = (int)ceil(log10(s->hi));
    for (int decade = (int)floor(log10(s->lo)); decade <= last; decade++) {
        for (size_t i = 0; i < d->n && decade % d->every == 0; i++) {
            const double at = d->multiple[i] * pow(10.0, decade);
            if (at < s->lo || at > s->hi) {
                continue;
            }
            if (n == max || (n > 0 && touches(s, ticks[n - 1], at, max))) {
                return max + 1;
            }
            ticks[n++] = at;
        }
    }
    return n;
}

size_t sk_plot_scale_ticks(const sk_plot_scale *s, size_t max, double ticks[SK_PLOT_MAX_TICKS]) {
    const size_t limit = max < SK_PLOT_MAX_TICKS ? max : SK_PLOT_MAX_TICKS;
    for (size_t i = 0; s->hi > 0.0 && i < sizeof DENSITIES / sizeof DENSITIES[0]; i++) {
        const size_t n = ticks_of(s, &DENSITIES[i], limit, ticks);
        if (n <= limit) {
            return n;
        }
    }
    return 0;
}

void sk_plot_scale_axis(const sk_plot_scale *s, char axis, const char *unit, size_t max_ticks, sk_buf *out) {
    double ticks[SK_PLOT_MAX_TICKS] = {0};
    const size_t n = sk_plot_scale_ticks(s, max_ticks, ticks);
    sk_buf_printf(out, "set logscale %c 10\nset %crange [%.6g:%.6g]\nset %ctics (", axis, axis, s->lo, s->hi, axis);
    for (size_t i = 0; i < n; i++) {
        sk_buf_printf(out, "%s'%.10g%s' %.10g", i ? ", " : "", ticks[i], unit, ticks[i]);
    }
    sk_buf_str(out, ")\n");
}
