/* SVG files inside a page: several of them must not share ids. Pure; thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_HTML_SVG_H
#define SKIPPY_BENCH_FAMILY_HTML_SVG_H

#include "base/buf.h"
#include "base/err.h"

/* Appends the SVG element of a file that gnuplot wrote, for a page of HTML: what stands before the element is left out,
 * ids and references to them begin with `prefix` and "-", titles of parts (which browsers show as tips) are dropped,
 * and `label` names the picture for people who do not see it. Errors: SKIPPY_E_INVALID (no SVG, or one with scripts),
 * SKIPPY_E_NOMEM. */
int sk_html_svg(const char *svg, const char *prefix, const char *label, sk_buf *out, sk_err *e);

#endif
