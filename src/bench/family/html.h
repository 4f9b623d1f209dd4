/* The report as one self-contained HTML page: tables and plots inside, no script, nothing loaded from elsewhere. */
#ifndef SKIPPY_BENCH_FAMILY_HTML_H
#define SKIPPY_BENCH_FAMILY_HTML_H

#include "base/buf.h"
#include "bench/family/plots.h"

/* markdown: the tables as family/tables.h writes them (headings, paragraphs, pipe tables, lists, emphasis, code);
 * plots: inlined as SVG. Everything from rows is escaped. Readable on a phone and in dark mode. Errors: SKIPPY_E_IO (a
 * plot), SKIPPY_E_NOMEM. */
int sk_html_page(const char *title, const char *markdown, const sk_plot *plots, size_t n_plots, sk_buf *out, sk_err *e);

#endif
