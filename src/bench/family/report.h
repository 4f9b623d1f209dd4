/* `skippy bench report`: rows in, Markdown tables, TODO list, plots and one HTML page out. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_REPORT_H
#define SKIPPY_BENCH_FAMILY_REPORT_H

#include <stddef.h>

#include "base/err.h"

typedef struct sk_family_report_options {
    const char *const *inputs; /* production-cache-bench.json files */
    size_t n_inputs;
    const char *corpus;     /* for the table of sources; NULL = none */
    const char *output;     /* Markdown; at most 16 MiB */
    const char *todo;       /* TODO.md; NULL = none; removed when there is nothing to say */
    const char *html;       /* NULL = none */
    const char *plots;      /* folder; NULL = no plots */
    const char *evict_json; /* see plots.h */
    const char *gnuplot;    /* see plots.h */
} sk_family_report_options;

/* Errors: those of the parts. Every file is written beside its name and renamed. */
int sk_family_report(const sk_family_report_options *o, sk_err *e);

#endif
