#include "cache/disk_format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "cache/mem.h"
#include "skippy/disk_store.h"

/* Where things lie in a file header. */
enum { AT_VERSION = 8, AT_HEADER_BYTES = 12, AT_NUMBER = 16, AT_CHECK = SK_FILE_HEADER_BYTES - SK_CHECK_BYTES };
/* And in a block header. */
enum { AT_BLOCK_BYTES = 4, AT_DIGEST = 8, AT_BLOCK_CHECK = 40, BLOCK_CHECK_BYTES = 8 };

static const char journal_magic[8] = {'S', 'K', 'I', 'P', 'P', 'Y', 'J', '\n'};
static const char segment_magic[8] = {'S', 'K', 'I', 'P', 'P', 'Y', 'S', '\n'};
static const char block_magic[4] = {'S', 'K', 'B', '\n'};

/* ---- names ---- */

void sk_file_name(char out[SK_FILE_NAME_BYTES], enum sk_file_kind kind, uint64_t number, bool temporary) {
    bool journal = kind == SK_FILE_JOURNAL;
    snprintf(out, SK_FILE_NAME_BYTES, "%s-%010" PRIu64 ".%s%s", journal ? "journal" : "segment", number,
             journal ? "skj" : "sks", temporary ? ".tmp" : "");
}

/* The number behind the dash; 0 when there is none or it does not fit. */
static uint64_t number_in(const char *name) {
    const char *c = strchr(name, '-');
    uint64_t n = 0;
    for (c = c ? c + 1 : ""; *c >= '0' && *c <= '9'; c++) {
        if (n > (UINT64_MAX - 9) / 10) return 0;
        n = 10 * n + (uint64_t)(*c - '0');
    }
    return n;
}

/* A name is ours exactly when formatting its number again gives the same name. */
enum sk_file_kind sk_file_parse(const char *name, uint64_t *number) {
    static const enum sk_file_kind kinds[] = {SK_FILE_JOURNAL, SK_FILE_SEGMENT};
    char again[SK_FILE_NAME_BYTES];
    *number = 0;
    if (strcmp(name, "lock") == 0) return SK_FILE_LOCK;
    uint64_t n = number_in(name);
    if (n == 0) return SK_FILE_FOREIGN;
    for (size_t i = 0; i < 2; i++) {
        for (int temporary = 0; temporary < 2; temporary++) {
            sk_file_name(again, kinds[i], n, temporary);
            if (strcmp(name, again) != 0) continue;
            *number = n;
            return temporary ? SK_FILE_TEMPORARY : kinds[i];
        }
    }
    return SK_FILE_FOREIGN;
}

bool sk_store_name_valid(const char *name) {
    static const char allowed[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz._-";
    if (!name || name[0] == '.') return false;
    size_t len = strlen(name);
    return len >= 1 && len <= 64 && strspn(name, allowed) == len;
}

/* ---- headers ---- */

static void check_of(const uint8_t *data, size_t len, uint8_t *out, size_t out_len) {
    uint8_t digest[SK_HASH_BYTES];
    sk_hash(data, len, digest);
    memcpy(out, digest, out_len);
}

static const char *magic_of(enum sk_file_kind kind) {
    return kind == SK_FILE_JOURNAL ? journal_magic : segment_magic;
}

void sk_file_header_encode(uint8_t out[SK_FILE_HEADER_BYTES], enum sk_file_kind kind, uint64_t number) {
    memset(out, 0, SK_FILE_HEADER_BYTES);
    memcpy(out, magic_of(kind), 8);
    sk_put_u32(out + AT_VERSION, SKIPPY_DISK_VERSION);
    sk_put_u32(out + AT_HEADER_BYTES, SK_FILE_HEADER_BYTES);
    sk_put_u64(out + AT_NUMBER, number);
    check_of(out, AT_CHECK, out + AT_CHECK, SK_CHECK_BYTES);
}

enum sk_header_state sk_file_header_check(const uint8_t in[SK_FILE_HEADER_BYTES], enum sk_file_kind kind,
                                          uint64_t number, uint32_t *version) {
    uint8_t expected[SK_FILE_HEADER_BYTES], check[SK_CHECK_BYTES];
    *version = 0;
    check_of(in, AT_CHECK, check, sizeof check);
    if (memcmp(in, magic_of(kind), 8) != 0 || memcmp(in + AT_CHECK, check, sizeof check) != 0) return SK_HEADER_DAMAGED;
    *version = sk_get_u32(in + AT_VERSION);
    if (*version != SKIPPY_DISK_VERSION) return SK_HEADER_OTHER_VERSION;
    sk_file_header_encode(expected, kind, number);
    return memcmp(in, expected, sizeof expected) == 0 ? SK_HEADER_OK : SK_HEADER_DAMAGED;
}

void sk_block_header_encode(uint8_t out[SK_BLOCK_HEADER_BYTES], const skippy_block_ref *block) {
    memcpy(out, block_magic, sizeof block_magic);
    sk_put_u32(out + AT_BLOCK_BYTES, block->bytes);
    memcpy(out + AT_DIGEST, block->digest.bytes, sizeof block->digest.bytes);
    check_of(out, AT_BLOCK_CHECK, out + AT_BLOCK_CHECK, BLOCK_CHECK_BYTES);
}

bool sk_block_header_matches(const uint8_t in[SK_BLOCK_HEADER_BYTES], const skippy_block_ref *block) {
    uint8_t expected[SK_BLOCK_HEADER_BYTES];
    sk_block_header_encode(expected, block);
    return memcmp(in, expected, sizeof expected) == 0;
}

/* ---- bytes ---- */

void sk_bytes_free(sk_bytes *b) {
    sk_mem_release(b->alloc, b->data);
    b->data = NULL;
    b->len = b->cap = 0;
}

void sk_bytes_clear(sk_bytes *b) {
    b->len = 0;
    b->failed = false;
}

static bool grow(sk_bytes *b, size_t need) {
    enum { FIRST_BYTES = 4096 };
    size_t cap = b->cap ? b->cap : FIRST_BYTES;
    while (cap < need) cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    uint8_t *wider = sk_mem_alloc_raw(b->alloc, cap);
    if (!wider) return false;
    if (b->len) memcpy(wider, b->data, b->len);
    sk_mem_release(b->alloc, b->data);
    b->data = wider;
    b->cap = cap;
    return true;
}

uint8_t *sk_bytes_extend(sk_bytes *b, size_t len) {
    if (b->failed || len > SIZE_MAX - b->len || (b->len + len > b->cap && !grow(b, b->len + len))) {
        b->failed = true;
        return NULL;
    }
    uint8_t *at = b->data + b->len;
    b->len += len;
    return at;
}

void sk_bytes_add(sk_bytes *b, const void *data, size_t len) {
    if (len == 0) return;
    uint8_t *at = sk_bytes_extend(b, len);
    if (at) memcpy(at, data, len);
}

void sk_bytes_u32(sk_bytes *b, uint32_t v) {
    uint8_t *at = sk_bytes_extend(b, 4);
    if (at) sk_put_u32(at, v);
}

void sk_bytes_u64(sk_bytes *b, uint64_t v) {
    uint8_t *at = sk_bytes_extend(b, 8);
    if (at) sk_put_u64(at, v);
}
