/* What the files of a disk store have in common: names, headers, little-endian integers.
 * The format, byte for byte, is docs/formats/disk-store.md. */
#ifndef SKIPPY_CACHE_DISK_FORMAT_H
#define SKIPPY_CACHE_DISK_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "skippy/allocator.h"
#include "skippy/payload.h"

enum {
    SK_FILE_HEADER_BYTES = 64,
    SK_BLOCK_HEADER_BYTES = 48,
    SK_CHECK_BYTES = 16, /* the first bytes of a BLAKE3-256: enough against accidents, which is what they are for */
    SK_FILE_NAME_BYTES = 48
};

/* ---- names ---- */

enum sk_file_kind {
    SK_FILE_FOREIGN, /* not ours: never touched */
    SK_FILE_LOCK,
    SK_FILE_JOURNAL,
    SK_FILE_SEGMENT,
    SK_FILE_TEMPORARY /* a journal or segment that was never published */
};

/* Name of a journal or segment, with ".tmp" when temporary. */
void sk_file_name(char out[SK_FILE_NAME_BYTES], enum sk_file_kind kind, uint64_t number, bool temporary);
/* What a name means; *number is set for journals, segments and temporaries. */
enum sk_file_kind sk_file_parse(const char *name, uint64_t *number);
/* May a store be called so? */
bool sk_store_name_valid(const char *name);

/* ---- headers ---- */

enum sk_header_state { SK_HEADER_OK, SK_HEADER_DAMAGED, SK_HEADER_OTHER_VERSION };

void sk_file_header_encode(uint8_t out[SK_FILE_HEADER_BYTES], enum sk_file_kind kind, uint64_t number);
/* *version is set unless damaged. */
enum sk_header_state sk_file_header_check(const uint8_t in[SK_FILE_HEADER_BYTES], enum sk_file_kind kind,
                                          uint64_t number, uint32_t *version);
void sk_block_header_encode(uint8_t out[SK_BLOCK_HEADER_BYTES], const skippy_block_ref *block);
bool sk_block_header_matches(const uint8_t in[SK_BLOCK_HEADER_BYTES], const skippy_block_ref *block);

/* ---- integers ---- */

static inline void sk_put_u32(uint8_t *out, uint32_t v) {
    for (int i = 0; i < 4; i++) out[i] = (uint8_t)(v >> (8 * i));
}

static inline void sk_put_u64(uint8_t *out, uint64_t v) {
    for (int i = 0; i < 8; i++) out[i] = (uint8_t)(v >> (8 * i));
}

static inline uint32_t sk_get_u32(const uint8_t *in) {
    uint32_t v = 0;
    for (int i = 3; i >= 0; i--) v = v << 8 | in[i];
    return v;
}

static inline uint64_t sk_get_u64(const uint8_t *in) {
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--) v = v << 8 | in[i];
    return v;
}

/* ---- a growing run of bytes that uses the store's allocator ---- */

/* `failed` is sticky: a writer checks once at the end. */
typedef struct sk_bytes {
    const skippy_allocator *alloc;
    uint8_t *data;
    size_t len, cap;
    bool failed;
} sk_bytes;

void sk_bytes_free(sk_bytes *b);
void sk_bytes_clear(sk_bytes *b);
/* Room for `len` more bytes at the end, NULL when out of memory. The bytes are undefined. */
uint8_t *sk_bytes_extend(sk_bytes *b, size_t len);
void sk_bytes_add(sk_bytes *b, const void *data, size_t len);
void sk_bytes_u32(sk_bytes *b, uint32_t v);
void sk_bytes_u64(sk_bytes *b, uint64_t v);

#endif
