/* One value of each round of `skippy bench stages`, and what a series of them amounts to. Pure functions. */
#ifndef SKIPPY_BENCH_STAGES_COLUMNS_H
#define SKIPPY_BENCH_STAGES_COLUMNS_H

#include "bench/stages_report.h"
#include "bench/stats.h"

enum sk_stages_column {
    SK_COLUMN_COLD,          /* ms of a new prompt */
    SK_COLUMN_WARM,          /* ms of its repeat */
    SK_COLUMN_TOKEN,         /* ms of a generated token */
    SK_COLUMN_TOKEN_COMPUTE, /* of these, what the stages computed */
    SK_COLUMN_OVERHEAD,      /* the former divided by the latter, less 1 */
    SK_COLUMN_WARM_GAIN      /* new prompt / repeat */
};

/* All: n of the result is 0 when there are no rounds, or memory is out. */
sk_summary sk_stages_column(const sk_stages_visit *v, size_t n, enum sk_stages_column kind, size_t predict);
/* Round by round: theirs / ours. */
sk_summary sk_stages_ratio(const sk_stages_rivals *r, enum sk_stages_column kind, size_t predict);
/* sk_stages_lanes_gain of every round. */
sk_summary sk_stages_gains(const sk_stages_report *r);

#endif
