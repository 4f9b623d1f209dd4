#include "base/hash.h"

#include <blake3.h>

_Static_assert(sizeof(blake3_hasher) <= sizeof(sk_hasher), "sk_hasher is too small for blake3_hasher");
_Static_assert(SK_HASH_BYTES == BLAKE3_OUT_LEN, "digest size");

static blake3_hasher *inner(sk_hasher *h) {
    /* Only the address is used: sk_hash_init gives memory its first content through it. */
    /* cppcheck-suppress ctuuninitvar */
    return (blake3_hasher *)(void *)h->opaque;
}

void sk_hash_init(sk_hasher *h) {
    blake3_hasher_init(inner(h));
}

void sk_hash_update(sk_hasher *h, const void *data, size_t len) {
    blake3_hasher_update(inner(h), data, len);
}

void sk_hash_final(const sk_hasher *h, uint8_t out[SK_HASH_BYTES]) {
    blake3_hasher_finalize((const blake3_hasher *)(const void *)h->opaque, out, SK_HASH_BYTES);
}

void sk_hash(const void *data, size_t len, uint8_t out[SK_HASH_BYTES]) {
    sk_hasher h;
    sk_hash_init(&h);
    sk_hash_update(&h, data, len);
    sk_hash_final(&h, out);
}

void sk_hex(const uint8_t *bytes, size_t n, char *out) {
    static const char digit[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digit[bytes[i] >> 4];
        out[2 * i + 1] = digit[bytes[i] & 15];
    }
    out[2 * n] = '\0';
}
