#include "bench/family/html_text.h"

#include <string.h>

void sk_html_escape(sk_buf *out, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        switch (text[i]) {
        case '&': sk_buf_str(out, "&amp;"); break;
        case '<': sk_buf_str(out, "&lt;"); break;
        case '>': sk_buf_str(out, "&gt;"); break;
        case '"': sk_buf_str(out, "&quot;"); break;
        case '\'': sk_buf_str(out, "&#39;"); break;
        default: sk_buf_add(out, &text[i], 1);
        }
    }
}

static bool begins(const char *text, size_t n, const char *with) {
    const size_t len = strlen(with);
    return n >= len && memcmp(text, with, len) == 0;
}

bool sk_html_address_ok(const char *address, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)address[i] <= ' ') {
            return false; /* browsers drop some of these, and what is left could be another address */
        }
    }
    /* Without a colon there is no scheme, so no script either. */
    return n > 0 && (begins(address, n, "https://") || begins(address, n, "http://") || !memchr(address, ':', n));
}
