/* The plots of the report, one function each. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_PLOT_KINDS_H
#define SKIPPY_BENCH_FAMILY_PLOT_KINDS_H

#include <jansson.h>

#include "bench/family/plot_page.h"
#include "bench/family/row.h"

typedef struct sk_plot_source {
    const sk_row_set *rows;
    const json_t *evict; /* what `skippy bench evict --json` prints; NULL = not given */
} sk_plot_source;

/* Fill an empty page with the program and its data. A page without panels (n_panels 0) says that there was nothing to
 * show. The caller frees the page, also on errors. Errors: SKIPPY_E_NOMEM; of the hit rate also SKIPPY_E_INVALID. */
int sk_plot_speedup(const sk_plot_source *s, sk_plot_page *p, sk_err *e);
int sk_plot_latency(const sk_plot_source *s, sk_plot_page *p, sk_err *e);
int sk_plot_agent(const sk_plot_source *s, sk_plot_page *p, sk_err *e);
int sk_plot_hit_rate(const sk_plot_source *s, sk_plot_page *p, sk_err *e);

#endif
