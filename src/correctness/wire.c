#include "correctness/wire.h"

#include <string.h>

#include "base/hash.h"

static const char MAGIC[8] = {'s', 'k', 'i', 'p', 'p', 'y', 'W', '1'};
enum { HEAD = sizeof MAGIC + sizeof(uint64_t) };

void sk_wire_begin(sk_buf *b) {
    sk_buf_add(b, MAGIC, sizeof MAGIC);
    sk_wire_put_u64(b, 0);
}

void sk_wire_put_u64(sk_buf *b, uint64_t v) {
    sk_buf_add(b, &v, sizeof v);
}

void sk_wire_put_f64(sk_buf *b, double v) {
    sk_buf_add(b, &v, sizeof v);
}

void sk_wire_put_bytes(sk_buf *b, const void *data, size_t len) {
    sk_wire_put_u64(b, len);
    if (len) sk_buf_add(b, data, len);
}

void sk_wire_put_text(sk_buf *b, const char *text) {
    sk_wire_put_bytes(b, text, text ? strlen(text) : 0);
}

void sk_wire_seal(sk_buf *b) {
    uint8_t digest[SK_HASH_BYTES];
    if (b->failed) return;
    uint64_t body = b->len - HEAD;
    memcpy(b->data + sizeof MAGIC, &body, sizeof body);
    sk_hash(b->data, b->len, digest);
    sk_buf_add(b, digest, sizeof digest);
}

int sk_wire_open(const void *data, size_t len, sk_wire_reader *out, sk_err *e) {
    const uint8_t *bytes = data;
    uint8_t digest[SK_HASH_BYTES];
    uint64_t body = 0;
    *out = (sk_wire_reader){.failed = true};
    if (len < HEAD + SK_HASH_BYTES || memcmp(bytes, MAGIC, sizeof MAGIC) != 0)
        return sk_err_set(e, SKIPPY_E_CORRUPT, "not a container of this program (%zu bytes)", len);
    memcpy(&body, bytes + sizeof MAGIC, sizeof body);
    if (body != len - HEAD - SK_HASH_BYTES)
        return sk_err_set(e, SKIPPY_E_CORRUPT, "the container is cut off or has a tail (%zu bytes)", len);
    sk_hash(bytes, len - SK_HASH_BYTES, digest);
    if (memcmp(digest, bytes + len - SK_HASH_BYTES, SK_HASH_BYTES) != 0)
        return sk_err_set(e, SKIPPY_E_CORRUPT, "the container's digest does not match its bytes");
    *out = (sk_wire_reader){.at = bytes + HEAD, .left = (size_t)body};
    return SKIPPY_OK;
}

/* The next n bytes, or NULL (and the reader fails). */
static const uint8_t *take(sk_wire_reader *r, size_t n) {
    if (r->failed || n > r->left) {
        r->failed = true;
        return NULL;
    }
    const uint8_t *at = r->at;
    r->at += n;
    r->left -= n;
    return at;
}

void sk_wire_get_exact(sk_wire_reader *r, void *out, size_t len) {
    const uint8_t *at = take(r, len);
    if (at)
        memcpy(out, at, len);
    else
        memset(out, 0, len);
}

uint64_t sk_wire_get_u64(sk_wire_reader *r) {
    uint64_t v;
    sk_wire_get_exact(r, &v, sizeof v);
    return v;
}

double sk_wire_get_f64(sk_wire_reader *r) {
    double v;
    sk_wire_get_exact(r, &v, sizeof v);
    return v;
}

const void *sk_wire_get_bytes(sk_wire_reader *r, size_t *len) {
    uint64_t n = sk_wire_get_u64(r);
    const uint8_t *at = n <= SIZE_MAX ? take(r, (size_t)n) : NULL;
    *len = at ? (size_t)n : 0;
    return at;
}

void sk_wire_get_text(sk_wire_reader *r, char *buf, size_t cap) {
    size_t n = 0;
    const void *text = sk_wire_get_bytes(r, &n);
    if (n >= cap) r->failed = true;
    if (r->failed) n = 0;
    if (n) memcpy(buf, text, n);
    buf[n] = '\0';
}

bool sk_wire_done(const sk_wire_reader *r) {
    return !r->failed && r->left == 0;
}
