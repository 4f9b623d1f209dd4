/* One line of the comparison: one series of one scenario, llama-server with its default flags, with the fastest of the
 * flag sets that were tried, and ours. Pure functions. */
#ifndef SKIPPY_BENCH_ROW_H
#define SKIPPY_BENCH_ROW_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/report.h"
#include "bench/stats.h"

typedef struct sk_row_cell {
    bool measured;
    size_t variant; /* index */
    sk_summary ms;
    size_t cache_n, prompt_n; /* medians of the server's own counts */
} sk_row_cell;

typedef struct sk_row_view {
    const char *series;
    sk_row_cell base, best, ours; /* best may be the same variant as base */
    sk_gate base_gate, best_gate; /* against ours */
} sk_row_view;

/* Number of rows of a result: the series of the variant that has most of them. */
size_t sk_row_count(const sk_report *r, const sk_result *res);
/* Row i. Errors: SKIPPY_E_NOMEM. */
int sk_row_make(const sk_report *r, const sk_result *res, size_t i, sk_row_view *out);
/* "same (3 of 3)", "differs: 2 of 3 cold answers equal, first tokens 9 of 10", "prompts differ", "not measured". */
void sk_row_gate_text(const sk_row_view *row, char *buf, size_t cap);

#endif
