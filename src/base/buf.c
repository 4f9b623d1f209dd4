#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sk_buf_free(sk_buf *b) {
    free(b->data);
    memset(b, 0, sizeof *b);
}

void sk_buf_clear(sk_buf *b) {
    b->len = 0;
    b->failed = false;
    if (b->data) b->data[0] = '\0';
}

bool sk_buf_reserve(sk_buf *b, size_t extra) {
    if (b->failed) return false;
    if (extra > SIZE_MAX - b->len - 1) {
        b->failed = true;
        return false;
    }
    size_t need = b->len + extra + 1;
    if (need <= b->cap) return true;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need) cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    char *grown = realloc(b->data, cap);
    if (!grown) {
        b->failed = true;
        return false;
    }
    if (!b->data) grown[0] = '\0';
    b->data = grown;
    b->cap = cap;
    return true;
}

void sk_buf_add(sk_buf *b, const void *data, size_t len) {
    if (!sk_buf_reserve(b, len)) return;
    if (len) memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void sk_buf_str(sk_buf *b, const char *text) {
    sk_buf_add(b, text, strlen(text));
}

void sk_buf_printf(sk_buf *b, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0 && sk_buf_reserve(b, (size_t)n)) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void sk_buf_consume(sk_buf *b, size_t n) {
    if (n >= b->len) {
        sk_buf_clear(b);
        return;
    }
    memmove(b->data, b->data + n, b->len - n + 1);
    b->len -= n;
}

/* Length of the valid UTF-8 sequence at s (1..4), or 0 (RFC 3629: no overlong forms, no surrogates). */
static size_t utf8_sequence(const unsigned char *s, size_t len) {
    unsigned char c = s[0];
    size_t n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
    if (n == 0 || n > len) return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if (n == 3 && ((c == 0xe0 && s[1] < 0xa0) || (c == 0xed && s[1] >= 0xa0))) return 0;
    if (n == 4 && ((c == 0xf0 && s[1] < 0x90) || (c == 0xf4 && s[1] >= 0x90))) return 0;
    return n;
}

void sk_buf_json_escape(sk_buf *b, const char *text, size_t len) {
    const unsigned char *s = (const unsigned char *)text;
    size_t i = 0;
    while (i < len) {
        size_t n = utf8_sequence(s + i, len - i);
        if (n == 0) {
            sk_buf_str(b, "\xef\xbf\xbd");
            i++;
            continue;
        }
        if (n == 1) {
            switch (s[i]) {
            case '"': sk_buf_str(b, "\\\""); break;
            case '\\': sk_buf_str(b, "\\\\"); break;
            case '\n': sk_buf_str(b, "\\n"); break;
            case '\r': sk_buf_str(b, "\\r"); break;
            case '\t': sk_buf_str(b, "\\t"); break;
            default:
                if (s[i] < 0x20 || s[i] == 0x7f)
                    sk_buf_printf(b, "\\u%04x", s[i]);
                else
                    sk_buf_add(b, s + i, 1);
            }
        } else {
            sk_buf_add(b, s + i, n);
        }
        i += n;
    }
}
