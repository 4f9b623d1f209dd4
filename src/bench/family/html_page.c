#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/family/html.h"
#include "bench/family/html_markdown.h"
#include "bench/family/html_style.h"
#include "bench/family/html_svg.h"
#include "bench/family/html_text.h"

enum { MAX_SVG_BYTES = 16 << 20 };

/* The whole file as text. */
static int read_text(const char *path, sk_buf *out, sk_err *e) {
    char chunk[16384];
    size_t n;
    FILE *f = fopen(path, "re");
    if (!f) {
        return sk_err_set(e, SKIPPY_E_IO, "cannot read the plot '%s': %s", path, strerror(errno));
    }
    while (out->len <= MAX_SVG_BYTES && (n = fread(chunk, 1, sizeof chunk, f)) > 0) {
        sk_buf_add(out, chunk, n);
    }
    const bool bad = ferror(f) != 0;
    fclose(f);
    if (bad || out->len > MAX_SVG_BYTES) {
        return sk_err_set(e, SKIPPY_E_IO, "cannot read the plot '%s': %s", path,
                          bad ? "the file cannot be read to its end" : "it is larger than 16 MiB");
    }
    return out->failed ? sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the plot '%s'", path) : SKIPPY_OK;
}

static int add_figure(sk_html_document *d, const sk_plot *plot, sk_err *e) {
    sk_buf svg = {0};
    int rc = read_text(plot->path, &svg, e);
    if (rc == SKIPPY_OK) {
        sk_html_heading(d, 3, plot->title, strlen(plot->title));
        sk_buf_str(&d->body, "<figure><div class=\"wide\" tabindex=\"0\">\n");
        rc = sk_html_svg(svg.data ? svg.data : "", plot->name, plot->title, &d->body, e);
        sk_buf_str(&d->body, "</div>\n<figcaption>");
        sk_html_escape(&d->body, plot->caption, strlen(plot->caption));
        sk_buf_str(&d->body, "</figcaption></figure>\n");
    }
    sk_buf_free(&svg);
    return rc;
}

static int add_plots(sk_html_document *d, const sk_plot *plots, size_t n, sk_err *e) {
    static const char heading[] = "Plots";
    int rc = SKIPPY_OK;
    if (n > 0) {
        sk_html_heading(d, 2, heading, sizeof heading - 1);
    }
    for (size_t i = 0; i < n && rc == SKIPPY_OK; i++) {
        rc = add_figure(d, &plots[i], e);
    }
    return rc;
}

/* Where the first heading of level 2 begins: what stands before it is the introduction. */
static size_t introduction(const char *markdown) {
    const char *at = strncmp(markdown, "## ", 3) == 0 ? markdown : strstr(markdown, "\n## ");
    return at ? (size_t)(at - markdown) + (*at == '\n') : strlen(markdown);
}

/* Introduction, plots, tables. *intro is the length of the first one's HTML. */
static int add_body(sk_html_document *d, const char *title, const char *markdown, const sk_plot *plots, size_t n_plots,
                    size_t *intro, sk_err *e) {
    const size_t split = introduction(markdown);
    sk_buf first = {0};
    sk_buf_add(&first, markdown, split);
    if (strncmp(markdown, "# ", 2) != 0) {
        sk_html_heading(d, 1, title, strlen(title));
    }
    sk_html_markdown(first.data ? first.data : "", d);
    d->body.failed |= first.failed;
    sk_buf_free(&first);
    *intro = d->body.len;
    const int rc = add_plots(d, plots, n_plots, e);
    if (rc == SKIPPY_OK) {
        sk_html_markdown(markdown + split, d);
    }
    return rc;
}

static void add_page(const char *title, const sk_html_document *d, size_t intro, sk_buf *out) {
    sk_buf_str(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    sk_html_escape(out, title, strlen(title));
    sk_buf_printf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n", sk_html_style);
    sk_buf_add(out, d->body.data, intro);
    if (d->contents.len) {
        sk_buf_str(out, "<nav aria-label=\"Contents\"><ul>\n");
        sk_buf_add(out, d->contents.data, d->contents.len);
        sk_buf_str(out, "</ul></nav>\n");
    }
    sk_buf_add(out, d->body.data + intro, d->body.len - intro);
    sk_buf_str(out, "</main>\n</body>\n</html>\n");
}

int sk_html_page(const char *title, const char *markdown, const sk_plot *plots, size_t n_plots, sk_buf *out,
                 sk_err *e) {
    sk_html_document d = {0};
    size_t intro = 0;
    int rc = add_body(&d, title, markdown, plots, n_plots, &intro, e);
    if (rc == SKIPPY_OK && !d.body.failed && !d.contents.failed) {
        add_page(title, &d, intro, out);
    }
    if (rc == SKIPPY_OK && (d.body.failed || d.contents.failed || out->failed)) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the page");
    }
    sk_html_document_free(&d);
    return rc;
}
