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

/* Nothing but plots is written before everything is made; every file is written beside its name and renamed. The
 * folders of the files must be there. Errors: SKIPPY_E_INVALID (no input or output, an output that is an input or
 * another output, evict_json without plots), SKIPPY_E_TOO_LARGE (16 MiB), SKIPPY_E_IO, SKIPPY_E_NOMEM, those of
 * sk_row_set_load, sk_corpus_load, sk_plots_write and sk_html_page. */
int sk_family_report(const sk_family_report_options *o, sk_err *e);

#endif
