#include "server/http_chunks.h"

#include <stdbool.h>

/* A size line holds at most 16 hexadecimal digits and an extension that nobody uses; trailers are skipped. */
enum { MAX_LINE = 256, MAX_TRAILER = 8192, MAX_DIGITS = 15 };
enum { SIZE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, TRAILER_START, TRAILER, TRAILER_LF, LAST_LF };

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static int after_size(sk_http_chunks *c) {
    if (c->digits == 0) return 400;
    c->state = c->left ? DATA : TRAILER_START;
    c->digits = 0;
    c->line_len = 0;
    return 0;
}

static int in_size_line(sk_http_chunks *c, char ch) {
    if (++c->line_len > MAX_LINE) return 400;
    if (c->state == SIZE_LF) return ch == '\n' ? after_size(c) : 400;
    if (ch == '\r') {
        c->state = SIZE_LF;
        return 0;
    }
    if (ch == '\n') return after_size(c);
    if (c->state == EXTENSION) return 0;
    int digit = hex_digit(ch);
    if (digit >= 0) {
        if (++c->digits > MAX_DIGITS) return 400;
        c->left = c->left * 16 + (uint64_t)digit;
        return 0;
    }
    if (c->digits == 0 || (ch != ';' && ch != ' ' && ch != '\t')) return 400;
    c->state = EXTENSION;
    return 0;
}

static int in_trailer(sk_http_chunks *c, char ch) {
    if (++c->trailer_len > MAX_TRAILER) return 400;
    switch (c->state) {
    case TRAILER_START:
        if (ch == '\n') return 1;
        c->state = ch == '\r' ? LAST_LF : TRAILER;
        return 0;
    case TRAILER:
        if (ch == '\n') c->state = TRAILER_START;
        return 0;
    default: return ch == '\n' ? 1 : 400;
    }
}

static int in_data_end(sk_http_chunks *c, char ch) {
    if (c->state == DATA_CR && ch == '\r') {
        c->state = DATA_LF;
        return 0;
    }
    if (ch != '\n') return 400;
    c->state = SIZE;
    return 0;
}

static int one_byte(sk_http_chunks *c, char ch) {
    if (c->state <= SIZE_LF) return in_size_line(c, ch);
    if (c->state == DATA_CR || c->state == DATA_LF) return in_data_end(c, ch);
    return in_trailer(c, ch);
}

int sk_http_chunks_feed(sk_http_chunks *c, const char *data, size_t len, size_t max, sk_buf *out, size_t *used) {
    size_t i = 0;
    int rc = 0;
    while (rc == 0 && i < len) {
        if (c->state != DATA) {
            rc = one_byte(c, data[i++]);
            if (rc == 0 && c->state == DATA && (out->len > max || c->left > max - out->len)) rc = 413;
            continue;
        }
        size_t take = len - i < c->left ? len - i : (size_t)c->left;
        sk_buf_add(out, data + i, take);
        if (out->failed) rc = 503;
        i += take;
        c->left -= take;
        if (c->left == 0) c->state = DATA_CR;
    }
    *used = i;
    return rc;
}
