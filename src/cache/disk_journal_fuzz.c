/* Searches for journal records that break the tables. Input: records of one type byte, a length of two bytes and so
 * many bytes of payload, without checks: a fuzzer could not get past those. Whatever is accepted must be written and
 * read again to the same tables, and sums must agree with what they sum up. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cache/disk_record.h"
#include "cache/disk_replay.h"
#include "cache/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition) {
    if (!condition) abort();
}

static void check_sums(const sk_disk_index *ix) {
    uint64_t entries = 0, refs = 0, logical = 0, records = 0, live = 0;
    for (const sk_disk_entry *e = ix->first; e; e = e->next) {
        uint64_t bytes;
        must(skippy_manifest_check(&e->m, &bytes) == SKIPPY_OK && bytes == e->logical_bytes);
        must(sk_index_entry_find(ix, e->id) == e && sk_index_entry_same(ix, &e->m) == e);
        entries++;
        refs += e->n_blocks;
        logical += bytes;
        records += e->record_bytes;
    }
    for (const sk_segment *g = ix->segments; g; g = g->next) {
        for (const sk_disk_block *b = g->blocks; b; b = b->next) {
            must(b->segment == g && b->refs > 0 && b->holds == 0);
            live += SK_BLOCK_HEADER_BYTES + (uint64_t)b->ref.bytes;
        }
    }
    must(entries == ix->n_entries && refs == ix->n_refs && logical == ix->logical_bytes);
    must(records == ix->record_bytes && live == ix->live_bytes);
}

/* The tables as one journal would hold them, the oldest entry first. */
static void encode(sk_disk_index *ix, sk_bytes *out) {
    sk_chain c = {.sequence = 1};
    uint64_t mark = sk_index_next_mark(ix);
    const sk_disk_entry *e = ix->first;
    while (e && e->next) e = e->next;
    sk_record_add_begin(out, &c, ix);
    for (; e; e = e->prev) sk_record_add_put(out, &c, e, mark, false);
    must(!out->failed);
}

static void replay(sk_disk_index *ix, const sk_bytes *bytes) {
    sk_replay r = {.ix = ix};
    sk_chain c = {.sequence = 1};
    for (size_t at = 0; at < bytes->len;) {
        size_t len;
        uint32_t type;
        const uint8_t *record = bytes->data + at;
        must(sk_record_header(record, &c, bytes->len - at - SK_RECORD_HEADER_BYTES, &len, &type));
        must(sk_record_verify(record, record + SK_RECORD_HEADER_BYTES, len, &c));
        must(sk_replay_record(&r, type, record + SK_RECORD_HEADER_BYTES, len) == SKIPPY_OK);
        at += SK_RECORD_FRAME_BYTES + len;
    }
}

static void check_round_trip(sk_disk_index *ix, const skippy_allocator *a) {
    sk_disk_index copy;
    sk_bytes first = {.alloc = a}, second = {.alloc = a};
    must(sk_index_init(&copy, a));
    encode(ix, &first);
    replay(&copy, &first);
    check_sums(&copy);
    encode(&copy, &second);
    must(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    sk_bytes_free(&first);
    sk_bytes_free(&second);
    sk_index_free(&copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    skippy_allocator a = sk_mem_hooks(NULL);
    sk_disk_index ix;
    sk_replay r = {.ix = &ix};
    must(sk_index_init(&ix, &a));
    while (size >= 3) {
        size_t len = (size_t)data[1] | (size_t)data[2] << 8;
        if (len > size - 3) len = size - 3;
        int status = sk_replay_record(&r, data[0] % 7, data + 3, len);
        must(status == SKIPPY_OK || status == SKIPPY_E_CORRUPT);
        data += 3 + len;
        size -= 3 + len;
    }
    check_sums(&ix);
    check_round_trip(&ix, &a);
    sk_index_free(&ix);
    return 0;
}
