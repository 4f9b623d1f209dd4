/* How the page looks. */
#ifndef SKIPPY_BENCH_FAMILY_HTML_STYLE_H
#define SKIPPY_BENCH_FAMILY_HTML_STYLE_H

/* CSS for the page's one style element; static. */
extern const char sk_html_style[];

#endif
