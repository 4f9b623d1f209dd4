/* Payloads for tests: a library of numbered blocks, manifests made of them, and a block source that can be told to
 * fail.
 */
#ifndef SKIPPY_CACHE_TEST_PAYLOAD_H
#define SKIPPY_CACHE_TEST_PAYLOAD_H

#include "skippy/payload.h"

enum { TEST_BLOCKS = 64, TEST_PARTS = 4, TEST_PART_BLOCKS = 8, TEST_TOKENS = 64 };

/* Block n holds bytes that depend on n alone. */
typedef struct test_library {
    skippy_block_ref ref[TEST_BLOCKS];
    unsigned char *data[TEST_BLOCKS];
    size_t n;
    size_t asked;                                    /* calls of the source */
    size_t fail_at;                                  /* the call with this number (from 1) fails; 0: none */
    int fail_with;                                   /* status of that call */
    void (*before)(void *ud, struct test_library *); /* called by each call of the source, may be NULL */
    void *ud;
} test_library;

/* n blocks, block i of bytes[i] bytes. */
void test_library_open(test_library *lib, const uint32_t *bytes, size_t n);
void test_library_close(test_library *lib);
/* A skippy_block_source over a test_library. */
int test_library_source(void *ud, const skippy_block_ref *block, const void **data);

/* A manifest with memory for what it points to. Not to be copied. */
typedef struct test_entry {
    skippy_manifest m;
    int32_t tokens[TEST_TOKENS];
    skippy_part parts[TEST_PARTS];
    skippy_block_ref blocks[TEST_PARTS][TEST_PART_BLOCKS];
} test_entry;

/* Entry `prefix` (tokens 1, 2 ... and the number, prefix key of it) without parts. */
void test_entry_init(test_entry *e, uint32_t prefix);
/* Adds a part of n blocks of the library. */
void test_entry_part(test_entry *e, const test_library *lib, const uint8_t *blocks, size_t n);
/* Both: one part for each list of blocks, given as strings of characters '0' + block number. */
void test_entry_make(test_entry *e, const test_library *lib, uint32_t prefix, const char *part0, const char *part1);

#endif
