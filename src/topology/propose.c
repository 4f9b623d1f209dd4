#include "topology/propose.h"

#include <stdlib.h>

#include "topology/plan.h"
#include "topology/split_rule.h"

static int check(int32_t layers, size_t n_stages, sk_err *e) {
    if (n_stages == 0 || n_stages > SK_MAX_STAGES)
        return sk_err_set(e, SKIPPY_E_INVALID, "the number of stages must be from 1 to %d", SK_MAX_STAGES);
    if (layers < (int32_t)n_stages || layers > SK_MAX_LAYERS)
        return sk_err_set(e, SKIPPY_E_INVALID, "%d layers cannot be cut into %zu stages (%d layers at most)", layers,
                          n_stages, SK_MAX_LAYERS);
    return SKIPPY_OK;
}

int sk_propose_even(int32_t layers, size_t n_stages, int32_t *cuts, sk_err *e) {
    int rc = check(layers, n_stages, e);
    for (size_t i = 1; i < n_stages && rc == SKIPPY_OK; i++) cuts[i - 1] = (int32_t)i * layers / (int32_t)n_stages;
    return rc;
}

int sk_propose_weighted(int32_t layers, const uint64_t *weights, size_t n_stages, int32_t *cuts, sk_err *e) {
    int rc = check(layers, n_stages, e);
    if (rc != SKIPPY_OK) return rc;
    uint64_t total = 0;
    for (size_t i = 0; i < n_stages; i++) {
        if (weights[i] > UINT64_C(1) << 40) return sk_err_set(e, SKIPPY_E_INVALID, "weight %zu is too large", i + 1);
        total += weights[i];
    }
    if (total == 0) return sk_err_set(e, SKIPPY_E_INVALID, "all weights are 0");
    uint64_t sum = 0;
    for (size_t i = 0; i + 1 < n_stages; i++) {
        sum += weights[i]; /* the cut is the rounded share of all stages so far: errors do not add up */
        int32_t cut = (int32_t)((sum * (uint64_t)layers + total / 2) / total);
        int32_t least = (i == 0 ? 0 : cuts[i - 1]) + 1, most = layers - (int32_t)(n_stages - 1 - i);
        cuts[i] = cut < least ? least : cut > most ? most : cut;
    }
    return SKIPPY_OK;
}

/* Both tables have `width` columns, one more than layers. */
typedef struct search {
    const sk_family_entry *f;
    int32_t layers;
    size_t n_stages, width;
    bool *stage_ok; /* [b * width + c]: layers [b, c) can be one stage, and no rule forbids a cut at c */
    int64_t *cost;  /* [k * width + b]: the least cost of cutting layers [b, layers) into k stages, or NO_WAY */
} search;

enum { NO_WAY = -1 };

/* Asked once for each pair: the search itself asks once for each number of stages. */
static void fill_stage_ok(search *s) {
    bool rules = !(s->f->has_split && s->f->split.result == SK_FOUND_REFUSED);
    char why[160];
    for (int32_t c = 1; c <= s->layers; c++) {
        const char *reason = NULL;
        if (c < s->layers && !sk_split_cut_allowed(s->f, c, &reason)) continue;
        for (int32_t b = 0; b < c; b++)
            s->stage_ok[(size_t)b * s->width + (size_t)c] =
                !rules || sk_split_stage_allowed(s->f, s->layers, (sk_layer_range){b, c}, why, sizeof why);
    }
}

/* Cost of a stage [b, c) with k stages from b on, the rest included. */
static int64_t cost_from(const search *s, size_t k, int32_t b, int32_t c) {
    int64_t rest = s->cost[(k - 1) * s->width + (size_t)c];
    if (rest == NO_WAY || !s->stage_ok[(size_t)b * s->width + (size_t)c]) return NO_WAY;
    int64_t ideal = (int64_t)(s->n_stages - k + 1) * s->layers;
    int64_t off = (int64_t)c * (int64_t)s->n_stages - ideal;
    return rest + (off < 0 ? -off : off); /* 0 for the end of the model, which is no cut */
}

static void fill_cost(search *s) {
    for (size_t i = 0; i < (s->n_stages + 1) * s->width; i++) s->cost[i] = NO_WAY;
    s->cost[s->layers] = 0; /* no layers left, no stages left */
    for (size_t k = 1; k <= s->n_stages; k++) {
        for (int32_t b = s->layers - 1; b >= 0; b--) {
            int64_t *best = &s->cost[k * s->width + (size_t)b];
            for (int32_t c = b + 1; c <= s->layers; c++) {
                int64_t cost = cost_from(s, k, b, c);
                if (cost != NO_WAY && (*best == NO_WAY || cost < *best)) *best = cost;
            }
        }
    }
}

/* Walks along the least cost, taking the lowest cut that keeps it. */
static void read_cuts(const search *s, int32_t *cuts) {
    int32_t b = 0;
    for (size_t i = 0; i + 1 < s->n_stages; i++) {
        size_t k = s->n_stages - i;
        int32_t c = b + 1;
        while (cost_from(s, k, b, c) != s->cost[k * s->width + (size_t)b]) c++;
        cuts[i] = b = c;
    }
}

int sk_propose_balanced(const sk_family_entry *f, int32_t layers, size_t n_stages, int32_t *cuts, sk_err *e) {
    int rc = check(layers, n_stages, e);
    if (rc != SKIPPY_OK) return rc;
    search s = {.f = f, .layers = layers, .n_stages = n_stages, .width = (size_t)layers + 1};
    s.stage_ok = calloc(s.width * s.width, sizeof *s.stage_ok);
    s.cost = calloc((n_stages + 1) * s.width, sizeof *s.cost);
    if (!s.stage_ok || !s.cost) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
        goto out;
    }
    fill_stage_ok(&s);
    fill_cost(&s);
    if (s.cost[n_stages * s.width] == NO_WAY)
        rc = sk_err_set(e, SKIPPY_E_NOT_FOUND, "no accepted cuts make %zu stages of %d layers", n_stages, layers);
    else
        read_cuts(&s, cuts);
out:
    free(s.stage_ok);
    free(s.cost);
    return rc;
}
