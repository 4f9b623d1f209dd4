/* Bytes for another process of the same program: typed fields in order, sealed with a BLAKE3-256 digest. Little endian
 * is assumed by nobody: both ends are one program on one machine, and a container never outlives the run.
 *
 *     "skippyW1" | u64 bytes of the body | body | BLAKE3-256 of everything before
 *
 * Not thread-safe. */
#ifndef SKIPPY_CORRECTNESS_WIRE_H
#define SKIPPY_CORRECTNESS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* ---- writing: into an sk_buf that starts empty; check b->failed at the end ---- */

void sk_wire_begin(sk_buf *b);
void sk_wire_put_u64(sk_buf *b, uint64_t v);
void sk_wire_put_f64(sk_buf *b, double v);
/* Length and bytes; a NULL string is written as an empty one. */
void sk_wire_put_bytes(sk_buf *b, const void *data, size_t len);
void sk_wire_put_text(sk_buf *b, const char *text);
/* Fills in the length and appends the digest. */
void sk_wire_seal(sk_buf *b);

/* ---- reading ---- */

/* A cursor over a verified body. `failed` is sticky: a field that is not there reads as zero or empty. */
typedef struct sk_wire_reader {
    const uint8_t *at;
    size_t left;
    bool failed;
} sk_wire_reader;

/* Errors: SKIPPY_E_CORRUPT (not a container, cut off, another digest). */
int sk_wire_open(const void *data, size_t len, sk_wire_reader *out, sk_err *e);
uint64_t sk_wire_get_u64(sk_wire_reader *r);
double sk_wire_get_f64(sk_wire_reader *r);
/* Points into the container. */
const void *sk_wire_get_bytes(sk_wire_reader *r, size_t *len);
/* Copies a text that must fit cap bytes with its NUL; else the reader fails. */
void sk_wire_get_text(sk_wire_reader *r, char *buf, size_t cap);
/* Copies exactly len bytes. */
void sk_wire_get_exact(sk_wire_reader *r, void *out, size_t len);
/* True when every field was there and nothing is left. */
bool sk_wire_done(const sk_wire_reader *r);

#endif
