/* BLAKE3-256 behind a narrow interface. The implementation is BLAKE3's official C and assembly. */
#ifndef SKIPPY_BASE_HASH_H
#define SKIPPY_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define SK_HASH_BYTES 32

/* Running hash state. It may be copied by assignment, and a copy finalised while the
 * original goes on: that is how one pass over tokens yields the keys of many lengths. */
typedef struct sk_hasher {
    _Alignas(16) unsigned char opaque[1920];
} sk_hasher;

void sk_hash_init(sk_hasher *h);
void sk_hash_update(sk_hasher *h, const void *data, size_t len);
/* Writes the digest of everything so far; h stays usable. */
void sk_hash_final(const sk_hasher *h, uint8_t out[SK_HASH_BYTES]);
/* One-shot digest. */
void sk_hash(const void *data, size_t len, uint8_t out[SK_HASH_BYTES]);
/* Lower-case hexadecimal of n bytes; out has room for 2n+1 characters. */
void sk_hex(const uint8_t *bytes, size_t n, char *out);

#endif
