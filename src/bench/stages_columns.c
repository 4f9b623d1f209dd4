#include "bench/stages_columns.h"

#include <stdlib.h>

/* ---- values of a round ---- */

double sk_stages_token_ms(const sk_stages_visit *v, size_t predict) {
    return predict ? (v->long_ms - v->warm_ms) / (double)predict : 0.0;
}

double sk_stages_token_compute_ms(const sk_stages_visit *v, size_t predict) {
    return predict ? (v->long_compute_ms - v->warm_compute_ms) / (double)predict : 0.0;
}

double sk_stages_overhead(const sk_stages_visit *v, size_t predict) {
    const double compute = sk_stages_token_compute_ms(v, predict);
    return compute > 0.0 ? sk_stages_token_ms(v, predict) / compute - 1.0 : 0.0;
}

double sk_stages_lanes_gain(const sk_stages_lanes_round *r) {
    return r->together_ms > 0.0 ? (r->first_ms + r->second_ms) / r->together_ms : 0.0;
}

/* ---- columns ---- */

static double value_of(const sk_stages_visit *v, enum sk_stages_column kind, size_t predict) {
    switch (kind) {
    case SK_COLUMN_COLD: return v->cold_ms;
    case SK_COLUMN_WARM: return v->warm_ms;
    case SK_COLUMN_TOKEN: return sk_stages_token_ms(v, predict);
    case SK_COLUMN_TOKEN_COMPUTE: return sk_stages_token_compute_ms(v, predict);
    case SK_COLUMN_OVERHEAD: return sk_stages_overhead(v, predict);
    case SK_COLUMN_WARM_GAIN: return v->warm_ms > 0.0 ? v->cold_ms / v->warm_ms : 0.0;
    }
    return 0.0;
}

sk_summary sk_stages_column(const sk_stages_visit *v, size_t n, enum sk_stages_column kind, size_t predict) {
    sk_summary sum = {0};
    double *values = n ? calloc(n, sizeof *values) : NULL;
    for (size_t i = 0; values && i < n; i++) values[i] = value_of(&v[i], kind, predict);
    if (!values || sk_stats_summarize(values, n, &sum) != SKIPPY_OK) sum.n = 0;
    free(values);
    return sum;
}

sk_summary sk_stages_ratio(const sk_stages_rivals *r, enum sk_stages_column kind, size_t predict) {
    sk_summary sum = {0};
    double *values = r->n ? calloc(r->n, sizeof *values) : NULL;
    for (size_t i = 0; values && i < r->n; i++) {
        const double ours = value_of(&r->visits[SK_STAGES_SKIPPY][i], kind, predict);
        values[i] = ours > 0.0 ? value_of(&r->visits[SK_STAGES_RPC][i], kind, predict) / ours : 0.0;
    }
    if (!values || sk_stats_summarize(values, r->n, &sum) != SKIPPY_OK) sum.n = 0;
    free(values);
    return sum;
}

sk_summary sk_stages_gains(const sk_stages_report *r) {
    sk_summary sum = {0};
    double *values = r->n_lanes ? calloc(r->n_lanes, sizeof *values) : NULL;
    for (size_t i = 0; values && i < r->n_lanes; i++) values[i] = sk_stages_lanes_gain(&r->lanes[i]);
    if (!values || sk_stats_summarize(values, r->n_lanes, &sum) != SKIPPY_OK) sum.n = 0;
    free(values);
    return sum;
}
