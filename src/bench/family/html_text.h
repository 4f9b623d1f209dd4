/* Texts and SVG files for a page of HTML. Pure; thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_HTML_TEXT_H
#define SKIPPY_BENCH_FAMILY_HTML_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Appends n bytes so that they are only text, inside and outside of attributes. */
void sk_html_escape(sk_buf *out, const char *text, size_t n);
/* The address may stand in a link: a place on the page, a relative path, http or https. */
bool sk_html_address_ok(const char *address, size_t n);

#endif
