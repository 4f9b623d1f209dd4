#include "skippy/policy.h"

#include <math.h>
#include <stdbool.h>

/* The lookup grid below n: multiples of the stride, longest first, the last one raised to min_tokens. */
typedef struct grid {
    size_t first, stride, min;
    size_t count; /* 0 when n itself is the only candidate */
} grid;

static grid grid_below(const skippy_policy *p, size_t n) {
    grid g = {0};
    if (p->min_tokens == 0 || n <= p->min_tokens) return g;
    g.min = p->min_tokens;
    g.stride = p->stride_tokens ? p->stride_tokens : 1;
    if (g.stride > g.min) g.stride = g.min;
    g.first = (n - 1) / g.stride * g.stride; /* the longest multiple below n */
    if (g.first < g.min) g.first = g.min;
    g.count = 1 + (g.first - g.min) / g.stride + ((g.first - g.min) % g.stride != 0);
    return g;
}

/* i-th grid length, 0 = longest. */
static size_t grid_length(const grid *g, size_t i) {
    return i + 1 < g->count ? g->first - i * g->stride : g->min;
}

/* Writes when there is room, counts always. */
static void put(size_t *out, size_t cap, size_t at, size_t value) {
    if (at < cap) out[at] = value;
}

static bool valid(const skippy_policy *p, const size_t *out, size_t cap, const size_t *n_out) {
    return p && n_out && (out || cap == 0);
}

int skippy_policy_lookup(const skippy_policy *p, size_t n_tokens, size_t *out, size_t cap, size_t *n_out) {
    if (!valid(p, out, cap, n_out)) return SKIPPY_E_INVALID;
    *n_out = 0;
    if (n_tokens == 0) return SKIPPY_OK;
    grid g = grid_below(p, n_tokens);
    put(out, cap, 0, n_tokens);
    for (size_t i = 0; i < g.count; i++) put(out, cap, i + 1, grid_length(&g, i));
    *n_out = g.count + 1;
    return *n_out <= cap ? SKIPPY_OK : SKIPPY_E_TOO_SMALL;
}

/* Distance from the top of the grid (0 = longest) of the grid length that is nearest to a target. */
static size_t nearest(const grid *g, double target) {
    size_t best = 0;
    double best_gap = INFINITY;
    /* The lengths fall, so the gap falls and then rises: stop at the turn. */
    for (size_t i = 0; i < g->count; i++) {
        double gap = fabs((double)grid_length(g, i) - target);
        if (gap > best_gap) break;
        best_gap = gap;
        best = i;
    }
    return best;
}

/* Rungs i = 1..slots sit near min * (n/min)^(i/(slots+1)): equal ratios, so that a shared beginning of any length has a
 * rung within the same factor. Calls put for each rung, shortest last at out[at + used - 1]; used is known only at the
 * end because of the token cap, hence two passes: out NULL counts. */
static size_t geometric_rungs(const skippy_policy *p, const grid *g, size_t n, size_t slots, size_t *out, size_t cap,
                              size_t at, size_t used) {
    size_t last = g->count; /* position of the rung before, counted from the top */
    size_t sum = 0, i;
    for (i = 0; i < slots; i++) {
        double ratio = (double)n / (double)g->min;
        size_t pos = nearest(g, (double)g->min * pow(ratio, (double)(i + 1) / (double)(slots + 1)));
        /* Each rung is longer than the one before, and enough lengths stay free below the near tail (position 0) for
         * the rungs that follow. */
        if (pos >= last) pos = last - 1;
        if (pos < slots - i) pos = slots - i;
        size_t length = grid_length(g, pos);
        if (p->max_resident_tokens && length > p->max_resident_tokens - sum) break;
        sum += length;
        last = pos;
        if (used) put(out, cap, at + used - 1 - i, length);
    }
    return i;
}

int skippy_policy_record(const skippy_policy *p, size_t n_tokens, size_t *out, size_t cap, size_t *n_out) {
    if (!valid(p, out, cap, n_out)) return SKIPPY_E_INVALID;
    *n_out = 0;
    grid g = grid_below(p, n_tokens);
    if (n_tokens == 0 || p->record_limit == 0 || g.count + 1 <= p->record_limit)
        return skippy_policy_lookup(p, n_tokens, out, cap, n_out);
    put(out, cap, 0, n_tokens);
    *n_out = 1;
    if (p->record_limit >= 2) {
        put(out, cap, 1, grid_length(&g, 0));
        *n_out = 2;
        size_t slots = p->record_limit - 2;
        size_t used = geometric_rungs(p, &g, n_tokens, slots, NULL, 0, 2, 0);
        geometric_rungs(p, &g, n_tokens, used ? slots : 0, out, cap, 2, used);
        *n_out += used;
    }
    return *n_out <= cap ? SKIPPY_OK : SKIPPY_E_TOO_SMALL;
}
