#include "cache/test_payload.h"

#include <stdlib.h>
#include <string.h>

void test_library_open(test_library *lib, const uint32_t *bytes, size_t n) {
    *lib = (test_library){.n = n};
    for (size_t i = 0; i < n; i++) {
        lib->data[i] = malloc(bytes[i]);
        if (!lib->data[i]) abort();
        for (size_t k = 0; k < bytes[i]; k++) lib->data[i][k] = (unsigned char)(i * 37 + k * 11 + k / 256 + 1);
        if (skippy_block_digest(lib->data[i], bytes[i], &lib->ref[i]) != SKIPPY_OK) abort();
    }
}

void test_library_close(test_library *lib) {
    for (size_t i = 0; i < lib->n; i++) free(lib->data[i]);
}

int test_library_source(void *ud, const skippy_block_ref *block, const void **data) {
    test_library *lib = ud;
    if (lib->before) lib->before(lib->ud, lib);
    if (++lib->asked == lib->fail_at) return lib->fail_with;
    for (size_t i = 0; i < lib->n; i++) {
        if (!skippy_key_equal(&lib->ref[i].digest, &block->digest)) continue;
        *data = lib->data[i];
        return SKIPPY_OK;
    }
    return SKIPPY_E_NOT_FOUND;
}

void test_entry_init(test_entry *e, uint32_t prefix) {
    *e = (test_entry){0};
    for (int32_t i = 0; i < TEST_TOKENS; i++) e->tokens[i] = i + 1;
    e->tokens[TEST_TOKENS - 1] = (int32_t)prefix;
    e->m = (skippy_manifest){.ns = {{7}},
                             .layout = {{8}},
                             .payload_kind = SKIPPY_PAYLOAD_RESIDENT_KV,
                             .reach = SKIPPY_REACH_RANGE,
                             .reason = SKIPPY_REASON_WRITE_BEHIND,
                             .tokens = e->tokens,
                             .n_tokens = TEST_TOKENS,
                             .cost_ms = 10,
                             .created_ms = 1,
                             .used_ms = 1,
                             .parts = e->parts};
    memcpy(e->m.prefix_key.bytes, &prefix, sizeof prefix);
}

void test_entry_part(test_entry *e, const test_library *lib, const uint8_t *blocks, size_t n) {
    size_t at = e->m.n_parts++;
    for (size_t i = 0; i < n; i++) e->blocks[at][i] = lib->ref[blocks[i]];
    e->parts[at] = (skippy_part){SKIPPY_PART_KV, 16 * at, 16 * at + 16, e->blocks[at], n};
}

static void part_of_digits(test_entry *e, const test_library *lib, const char *digits) {
    uint8_t blocks[TEST_PART_BLOCKS];
    size_t n = 0;
    for (; digits[n]; n++) blocks[n] = (uint8_t)(digits[n] - '0');
    test_entry_part(e, lib, blocks, n);
}

void test_entry_make(test_entry *e, const test_library *lib, uint32_t prefix, const char *part0, const char *part1) {
    test_entry_init(e, prefix);
    part_of_digits(e, lib, part0);
    if (part1) part_of_digits(e, lib, part1);
}
