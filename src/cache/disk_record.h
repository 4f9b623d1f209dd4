/* Records of the manifest journal: encoding and decoding, pure.
 *
 *   | bytes u32 | type u32 | sequence u64 | payload ... | check 16 |
 *
 * The check covers the check of the record before it (the first one: that of the file header), then this record's
 * header and payload. So a record is valid only behind the records that were there when it was written: what an
 * interrupted or failed write left behind the end of a journal can never be taken for a part of it. */
#ifndef SKIPPY_CACHE_DISK_RECORD_H
#define SKIPPY_CACHE_DISK_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/disk_format.h"
#include "cache/disk_index.h"

enum sk_record_type {
    SK_RECORD_BEGIN = 1, /* first record of a journal: the next unused numbers */
    SK_RECORD_PUT = 2,   /* an entry, and where those of its blocks lie that no entry before it has */
    SK_RECORD_DROP = 3,  /* entries that left */
    SK_RECORD_TOUCH = 4, /* recency and hits */
    SK_RECORD_MOVE = 5   /* new places of blocks */
};

enum { SK_RECORD_HEADER_BYTES = 16, SK_RECORD_FRAME_BYTES = SK_RECORD_HEADER_BYTES + SK_CHECK_BYTES };
enum { SK_DEFINITION_BYTES = 60, SK_DROP_BYTES = 12, SK_TOUCH_BYTES = 24, SK_MOVE_BYTES = 24, SK_BEGIN_BYTES = 24 };
/* Longest payload: longer ones are refused when they are written and taken for damage when they are read. */
#define SK_RECORD_MAX ((uint64_t)1 << 28)

/* What the next record continues. */
typedef struct sk_chain {
    uint8_t check[SK_CHECK_BYTES];
    uint64_t sequence;
} sk_chain;

/* The chain behind a file header. */
void sk_chain_start(sk_chain *c, const uint8_t file_header[SK_FILE_HEADER_BYTES]);

/* ---- writing: begin, payload, end ---- */

/* Appends a record header; returns where it begins, for the end. */
size_t sk_record_begin(sk_bytes *out, enum sk_record_type type);
void sk_record_end(sk_bytes *out, size_t start, sk_chain *c);

void sk_record_add_begin(sk_bytes *out, sk_chain *c, const sk_disk_index *ix);
void sk_record_add_drop(sk_bytes *out, uint64_t id, enum skippy_drop_reason reason);
void sk_record_add_touch(sk_bytes *out, uint64_t id, uint64_t used_ms, uint64_t hits);
void sk_record_add_move(sk_bytes *out, uint64_t number, uint64_t segment, uint64_t offset);
/* A whole record: the entry with a definition of each of its blocks whose mark is not `mark` and, when only_new, that
 * no visible entry refers to; sets their marks. */
void sk_record_add_put(sk_bytes *out, sk_chain *c, const sk_disk_entry *e, uint64_t mark, bool only_new);
/* Bytes of an entry's record without definitions, or UINT64_MAX when its payload could exceed SK_RECORD_MAX. */
uint64_t sk_record_put_bytes(const skippy_manifest *m, size_t n_blocks);

/* ---- reading ---- */

/* Payload length and type of a header that continues c; false when it cannot. `left` bytes follow the header. */
bool sk_record_header(const uint8_t header[SK_RECORD_HEADER_BYTES], const sk_chain *c, uint64_t left, size_t *bytes,
                      uint32_t *type);
/* Compares the check; true moves the chain on. payload holds the payload and its check. */
bool sk_record_verify(const uint8_t header[SK_RECORD_HEADER_BYTES], const uint8_t *payload, size_t bytes, sk_chain *c);

typedef struct sk_record_place {
    uint64_t number, segment, offset;
    skippy_block_ref ref; /* not set for moves */
} sk_record_place;

/* A decoded put that points into its payload. */
typedef struct sk_record_put {
    uint64_t id;
    skippy_manifest m; /* without tokens, parts and names */
    const char *tenant, *cache_namespace;
    size_t tenant_len, cache_namespace_len;
    bool has_tenant, has_cache_namespace;
    size_t n_definitions, n_refs;
    const uint8_t *tokens, *definitions, *parts, *refs;
} sk_record_put;

/* False when the payload is not a put: every count is checked against the length. */
bool sk_record_get_put(const uint8_t *payload, size_t bytes, sk_record_put *out);
int32_t sk_record_token(const sk_record_put *p, size_t i);
void sk_record_definition(const sk_record_put *p, size_t i, sk_record_place *out);
/* blocks is not set. */
void sk_record_part(const sk_record_put *p, size_t i, skippy_part *out);
uint64_t sk_record_ref(const sk_record_put *p, size_t i);

#endif
