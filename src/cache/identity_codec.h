/* The byte encoding behind the namespace key. Format: docs/formats/identity.md.
 *
 * One table describes the fields; encoding, decoding and comparing all walk it, so that a field cannot be hashed and
 * forgotten elsewhere. Decoding exists to prove that the encoding is injective: it accepts exactly what encoding makes.
 */
#ifndef SKIPPY_CACHE_IDENTITY_CODEC_H
#define SKIPPY_CACHE_IDENTITY_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "skippy/allocator.h"
#include "skippy/identity.h"

/* Receives the encoding piece by piece. */
typedef void (*sk_identity_sink)(void *ud, const void *data, size_t len);

/* Errors: SKIPPY_E_INVALID (NULL arguments, adapters NULL with n_adapters > 0); nothing was written then. */
int sk_identity_encode(const skippy_identity *id, sk_identity_sink sink, void *ud);

/* An identity that owns its strings and adapters. */
typedef struct sk_identity_copy {
    skippy_identity id;
    skippy_allocator alloc;
    unsigned char storage[]; /* adapters, then strings */
} sk_identity_copy;

/* The only identity with this encoding. Free with sk_identity_copy_free.
 * Errors: SKIPPY_E_CORRUPT (not an encoding that sk_identity_encode makes), SKIPPY_E_UNSUPPORTED (another version),
 * SKIPPY_E_NOMEM. */
int sk_identity_decode(const uint8_t *data, size_t len, const skippy_allocator *alloc, sk_identity_copy **out);
void sk_identity_copy_free(sk_identity_copy *copy);

/* Field by field: strings by content, floats by bit pattern. */
bool sk_identity_equal(const skippy_identity *a, const skippy_identity *b);

#endif
