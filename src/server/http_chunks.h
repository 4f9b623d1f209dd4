/* Decoder for a request body with Transfer-Encoding: chunked (RFC 9112, section 7.1). Pure; no sockets. */
#ifndef SKIPPY_SERVER_HTTP_CHUNKS_H
#define SKIPPY_SERVER_HTTP_CHUNKS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Zero-initialise before the first byte of a body. */
typedef struct sk_http_chunks {
    int state;
    uint64_t left;      /* bytes of the current chunk that are still to come */
    size_t line_len;    /* bytes seen of the current size or trailer line */
    unsigned digits;    /* of the current size */
    size_t trailer_len; /* bytes of all trailer lines */
} sk_http_chunks;

/* Feeds len bytes; decoded data is appended to out, *used says how many bytes belonged to this body.
 * Returns 0 when more is needed, 1 when the body is complete, or an HTTP status: 400 (not chunked coding, or a line
 * that is too long), 413 (out would grow beyond max bytes), 503 (out of memory). */
int sk_http_chunks_feed(sk_http_chunks *c, const char *data, size_t len, size_t max, sk_buf *out, size_t *used);

#endif
