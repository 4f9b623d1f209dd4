/* Little-endian numbers in the bytes of a state. */
#ifndef SKIPPY_RUNTIME_STATE_BYTES_H
#define SKIPPY_RUNTIME_STATE_BYTES_H

#include <stdint.h>

static inline uint32_t sk_le32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t sk_le64(const uint8_t *p) {
    return (uint64_t)sk_le32(p) | (uint64_t)sk_le32(p + 4) << 32;
}

static inline void sk_put_le32(uint8_t *p, uint32_t v) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (8 * i));
}

#endif
