/* Within a line: bold text, code and links. */
#include <string.h>

#include "bench/family/html_markdown.h"
#include "bench/family/html_text.h"

/* A piece that does not end within so many bytes is text. Without this limit a long line of opening marks would be
 * searched to its end from each of them. */
enum { REACH = 4096 };

/* Where `mark` stands next in text[from..n); n when it does not. */
static size_t find(const char *text, size_t from, size_t n, const char *mark) {
    const size_t len = strlen(mark);
    const size_t end = n - from > REACH ? from + REACH : n;
    for (size_t i = from; i + len <= end; i++) {
        if (memcmp(text + i, mark, len) == 0) {
            return i;
        }
    }
    return n;
}

/* Each of these tries to read its piece at the beginning of text; returns its length, or 0 when there is none. */

static size_t code(sk_buf *out, const char *text, size_t n) {
    const size_t end = text[0] == '`' ? find(text, 1, n, "`") : n;
    if (end == n || end == 1) {
        return 0;
    }
    sk_buf_str(out, "<code>");
    sk_html_escape(out, text + 1, end - 1);
    sk_buf_str(out, "</code>");
    return end + 1;
}

static size_t link_to(sk_buf *out, const char *text, size_t n) {
    const size_t middle = text[0] == '[' ? find(text, 1, n, "](") : n;
    const size_t end = middle < n ? find(text, middle + 2, n, ")") : n;
    if (end == n || !sk_html_address_ok(text + middle + 2, end - middle - 2)) {
        return 0;
    }
    sk_buf_str(out, "<a href=\"");
    sk_html_escape(out, text + middle + 2, end - middle - 2);
    sk_buf_str(out, "\">");
    sk_html_escape(out, text + 1, middle - 1);
    sk_buf_str(out, "</a>");
    return end + 1;
}

static size_t code_or_link(sk_buf *out, const char *text, size_t n) {
    const size_t len = code(out, text, n);
    return len ? len : link_to(out, text, n);
}

static void plain(sk_buf *out, const char *text, size_t n) {
    for (size_t i = 0; i < n;) {
        const size_t len = code_or_link(out, text + i, n - i);
        if (!len) {
            sk_html_escape(out, text + i, 1);
        }
        i += len ? len : 1;
    }
}

static size_t bold(sk_buf *out, const char *text, size_t n) {
    const size_t end = n >= 2 && memcmp(text, "**", 2) == 0 ? find(text, 2, n, "**") : n;
    if (end == n || end == 2) {
        return 0;
    }
    sk_buf_str(out, "<strong>");
    plain(out, text + 2, end - 2);
    sk_buf_str(out, "</strong>");
    return end + 2;
}

void sk_html_inline(sk_buf *out, const char *text, size_t n) {
    for (size_t i = 0; i < n;) {
        size_t len = code_or_link(out, text + i, n - i);
        len = len ? len : bold(out, text + i, n - i);
        if (!len) {
            sk_html_escape(out, text + i, 1);
        }
        i += len ? len : 1;
    }
}
