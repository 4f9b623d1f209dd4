/* The part of Markdown that the tables use, as HTML: headings, paragraphs, pipe tables, lists, rules, bold text, code,
 * links. Everything else is text. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_HTML_MARKDOWN_H
#define SKIPPY_BENCH_FAMILY_HTML_MARKDOWN_H

#include <stddef.h>

#include "base/buf.h"

typedef struct sk_html_document {
    sk_buf body;       /* HTML */
    sk_buf contents;   /* one list item with a link for each heading of level 2 and 3 */
    size_t n_headings; /* so far: the numbers in their ids */
} sk_html_document;

/* Appends the HTML of markdown (UTF-8). Nothing in it can become a tag, an attribute or a script. Out of memory shows
 * in the buffers' `failed`. */
void sk_html_markdown(const char *markdown, sk_html_document *d);
/* Appends a heading with its entry in the table of contents; text is plain (n bytes), not Markdown. */
void sk_html_heading(sk_html_document *d, int level, const char *text, size_t n);
/* Appends one line's text with bold, code and links. */
void sk_html_inline(sk_buf *out, const char *text, size_t n);
void sk_html_document_free(sk_html_document *d);

#endif
