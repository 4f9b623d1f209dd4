#include "bench/row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t our_variant(const sk_report *r) {
    size_t i = 0;
    while (i + 1 < r->n_variants && !r->variants[i].ours) {
        i++;
    }
    return i;
}

/* The measurement that names the rows: the one with most series. */
static const sk_measurement *widest(const sk_report *r, const sk_result *res) {
    const sk_measurement *best = &res->m[0];
    for (size_t i = 1; i < r->n_variants; i++) {
        if (res->m[i].n_series > best->n_series) {
            best = &res->m[i];
        }
    }
    return best;
}

size_t sk_row_count(const sk_report *r, const sk_result *res) {
    return widest(r, res)->n_series;
}

static int median_count(const sk_series *s, size_t offset, size_t *out) {
    double *v = calloc(s->n, sizeof *v);
    sk_summary sum;
    if (!v) {
        return SKIPPY_E_NOMEM;
    }
    for (size_t i = 0; i < s->n; i++) {
        v[i] = (double)*(const size_t *)((const char *)&s->v[i] + offset);
    }
    const int rc = sk_stats_summarize(v, s->n, &sum);
    *out = (size_t)(sum.p50 + 0.5);
    free(v);
    return rc;
}

static int make_cell(const sk_result *res, size_t variant, const char *series, sk_row_cell *out) {
    const sk_series *s = sk_measurement_find(&res->m[variant], series);
    *out = (sk_row_cell){.variant = variant};
    if (!res->ran[variant] || !s || s->n == 0) {
        return SKIPPY_OK;
    }
    double *ms = calloc(s->n, sizeof *ms);
    if (!ms) {
        return SKIPPY_E_NOMEM;
    }
    for (size_t i = 0; i < s->n; i++) {
        ms[i] = s->v[i].ms;
    }
    int rc = sk_stats_summarize(ms, s->n, &out->ms);
    free(ms);
    if (rc == SKIPPY_OK) {
        rc = median_count(s, offsetof(sk_sample, cache_n), &out->cache_n);
    }
    if (rc == SKIPPY_OK) {
        rc = median_count(s, offsetof(sk_sample, prompt_n), &out->prompt_n);
    }
    out->measured = rc == SKIPPY_OK;
    return rc;
}

int sk_row_make(const sk_report *r, const sk_result *res, size_t i, sk_row_view *out) {
    const size_t ours = our_variant(r);
    *out = (sk_row_view){.series = widest(r, res)->series[i].name};
    int rc = make_cell(res, ours, out->series, &out->ours);
    for (size_t v = 0; rc == SKIPPY_OK && v < r->n_variants; v++) {
        sk_row_cell cell;
        if (r->variants[v].ours) {
            continue;
        }
        rc = make_cell(res, v, out->series, &cell);
        if (v == 0) {
            out->base = cell;
        }
        /* A run that broke off is no competitor for "best". */
        if (rc == SKIPPY_OK && cell.measured && res->m[v].error.code == SKIPPY_OK &&
            (!out->best.measured || cell.ms.p50 < out->best.ms.p50)) {
            out->best = cell;
        }
    }
    sk_gate_compare(&res->m[out->base.variant], &res->m[ours], &out->base_gate);
    sk_gate_compare(&res->m[out->best.variant], &res->m[ours], &out->best_gate);
    return rc;
}

void sk_row_gate_text(const sk_row_view *row, char *buf, size_t cap) {
    const sk_gate *g = row->base_gate.comparable ? &row->best_gate : &row->base_gate;
    if (!row->ours.measured || !row->base.measured) {
        snprintf(buf, cap, "not measured on both");
    } else if (!g->same_prompts) {
        snprintf(buf, cap, "prompts differ: not comparable");
    } else if (g->comparable && g->cold_ties) {
        snprintf(buf, cap, "same but for near ties (%zu of %zu, %zu near ties; first tokens %zu of %zu)", g->cold_equal,
                 g->cold, g->cold_ties, g->first_equal, g->answers);
    } else if (g->comparable) {
        snprintf(buf, cap, "same (%zu of %zu; first tokens %zu of %zu)", g->cold_equal, g->cold, g->first_equal,
                 g->answers);
    } else {
        snprintf(buf, cap, "differs (%zu of %zu; first tokens %zu of %zu): not comparable", g->cold_equal, g->cold,
                 g->first_equal, g->answers);
    }
}
