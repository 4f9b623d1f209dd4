#include "bench/family/html_svg.h"

#include <stdbool.h>
#include <string.h>

#include "bench/family/html_text.h"

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* What stands before an id: in a definition or in a reference. Returns its length, 0 when text begins with none. */
static size_t before_id(const char *text) {
    static const char *const marks[] = {" id='", " id=\"", "href='#", "href=\"#", "url(#"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        if (begins(text, marks[i])) {
            return strlen(marks[i]);
        }
    }
    return 0;
}

/* Length of an element that is left out, with its content; 0 when text begins with none. */
static size_t dropped(const char *text) {
    static const char *const elements[][2] = {{"<title>", "</title>"}, {"<desc>", "</desc>"}};
    for (size_t i = 0; i < sizeof elements / sizeof elements[0]; i++) {
        const char *end = begins(text, elements[i][0]) ? strstr(text, elements[i][1]) : NULL;
        if (end) {
            return (size_t)(end - text) + strlen(elements[i][1]);
        }
    }
    return 0;
}

static void copy(const char *svg, const char *prefix, sk_buf *out) {
    while (*svg) {
        const size_t drop = dropped(svg);
        const size_t id = drop ? 0 : before_id(svg);
        if (id) {
            sk_buf_add(out, svg, id);
            sk_buf_printf(out, "%s-", prefix);
        } else if (!drop) {
            sk_buf_add(out, svg, 1);
        }
        svg += drop ? drop : id ? id : 1;
    }
}

int sk_html_svg(const char *svg, const char *prefix, const char *label, sk_buf *out, sk_err *e) {
    const char *start = strstr(svg, "<svg");
    if (!start || !strstr(start, "</svg>")) {
        return sk_err_set(e, SKIPPY_E_INVALID, "the plot '%s' is no complete SVG file: draw it again", prefix);
    }
    if (strstr(start, "<script") || strstr(start, "<foreignObject") || strstr(start, "javascript:")) {
        return sk_err_set(e, SKIPPY_E_INVALID, "the plot '%s' holds a script, which gnuplot did not write here",
                          prefix);
    }
    sk_buf_str(out, "<svg role=\"img\" aria-label=\"");
    sk_html_escape(out, label, strlen(label));
    sk_buf_str(out, "\"");
    copy(start + strlen("<svg"), prefix, out);
    return out->failed ? sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the plot '%s'", prefix) : SKIPPY_OK;
}
