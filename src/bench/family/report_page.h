/* The report as one text, and where its plots lie as seen from it. */
#ifndef SKIPPY_BENCH_FAMILY_REPORT_PAGE_H
#define SKIPPY_BENCH_FAMILY_REPORT_PAGE_H

#include "bench/family/plots.h"
#include "bench/family/tables.h"

/* The Markdown in two halves, since plots stand between them: introduction, facts and reading; then the tables.
 * Appends. Pure. */
void sk_report_page_head(const sk_row_set *s, sk_buf *out);
void sk_report_page_tables(const sk_row_set *s, const sk_corpus *corpus, sk_buf *out);
/* A section with a picture and its caption for each plot, linked by paths relative to the folder of `output`.
 * Errors: SKIPPY_E_NOT_FOUND and SKIPPY_E_IO (a path that cannot be resolved). */
int sk_report_page_plots(const sk_plot *plots, size_t n, const char *output, sk_buf *out, sk_err *e);
/* The path from the folder `from` to `to`; both absolute, without links, "." and "..". Pure. */
void sk_relative_path(const char *from, const char *to, sk_buf *out);

#endif
