/* Payloads and the RAM store: bytes per second, cost of an eviction, and what the cuts save. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cache/cache_bench.h"
#include "skippy/ram_store.h"

enum { MIB = 1 << 20, PART_BLOCKS = 8192 };

static skippy_ram_store *open_store(const skippy_allocator *alloc, uint64_t max_bytes) {
    const skippy_ram_params p = {.max_bytes = max_bytes};
    skippy_ram_store *s;
    bench_check(skippy_ram_create(alloc, &p, &s), "create RAM store");
    return s;
}

/* The bytes of one part, its references in the order of the bytes: a source that walks along with the put. */
typedef struct span {
    const unsigned char *data;
    const skippy_block_ref *refs;
    size_t n, next, offset;
} span;

static int give(void *ud, const skippy_block_ref *block, const void **data) {
    span *p = ud;
    for (size_t tried = 0; tried <= p->n; tried++) {
        if (p->next == p->n) p->next = p->offset = 0;
        const skippy_block_ref *at = &p->refs[p->next++];
        *data = p->data + p->offset;
        p->offset += at->bytes;
        if (skippy_key_equal(&at->digest, &block->digest)) return SKIPPY_OK;
    }
    return SKIPPY_E_NOT_FOUND;
}

static skippy_manifest manifest_of(uint64_t number, const skippy_part *parts, size_t n) {
    static const int32_t tokens[256];
    skippy_manifest m = {.payload_kind = SKIPPY_PAYLOAD_RESIDENT_KV,
                         .reach = SKIPPY_REACH_RANGE,
                         .reason = SKIPPY_REASON_WRITE_BEHIND,
                         .tokens = tokens,
                         .n_tokens = 256,
                         .cost_ms = 100,
                         .parts = parts,
                         .n_parts = n};
    memcpy(m.prefix_key.bytes, &number, sizeof number);
    return m;
}

static void put_span(skippy_ram_store *s, uint64_t number, span *from) {
    const skippy_part part = {SKIPPY_PART_KV, 0, 256, from->refs, from->n};
    const skippy_manifest m = manifest_of(number, &part, 1);
    uint64_t id;
    bench_check(skippy_ram_put(s, &m, give, from, &id), "put");
}

/* ---- bytes per second ---- */

typedef struct rates {
    double cut, put, full, read; /* seconds */
    uint64_t bytes;
} rates;

static double seconds_since(uint64_t start) {
    return (double)(sk_now_ns() - start) / 1e9;
}

static void stamp(unsigned char *data, size_t bytes, size_t block, uint64_t number) {
    for (size_t at = 0; at < bytes; at += block, number++) memcpy(data + at, &number, sizeof number);
}

static void time_reads(skippy_ram_store *s, const skippy_block_ref *refs, size_t n, unsigned char *buf, rates *t) {
    uint64_t start = sk_now_ns();
    for (size_t i = 0; i < n; i++) bench_check(skippy_ram_read(s, &refs[i], buf), "read");
    t->read += seconds_since(start);
}

/* Stores chunks of 16 MiB until the total is reached, then as many again, for each of which one is evicted. */
static rates time_blocks(size_t total_mib, size_t block) {
    enum { CHUNK = 16 * MIB };
    unsigned char *data = bench_must(malloc(CHUNK)), *buf = bench_must(malloc(SKIPPY_BLOCK_MAX));
    size_t n = CHUNK / block, chunks = total_mib * MIB / CHUNK, *cuts = bench_must(calloc(n, sizeof *cuts));
    skippy_block_ref *refs = bench_must(calloc(n, sizeof *refs));
    rates t = {.bytes = (uint64_t)chunks * CHUNK};
    /* Room for the chunks and their metadata, and for less than one more. */
    skippy_ram_store *s = open_store(NULL, (uint64_t)chunks * (CHUNK + n * 512) + 4 * MIB);
    memset(data, 1, CHUNK);
    for (size_t i = 0; i < n; i++) cuts[i] = (i + 1) * block;
    for (size_t k = 0; k < 2 * chunks; k++) {
        stamp(data, CHUNK, block, k * n);
        uint64_t start = sk_now_ns();
        bench_check(skippy_blocks_cut(data, CHUNK, cuts, n, refs, n, &n), "cut");
        if (k < chunks) t.cut += seconds_since(start);
        span from = {.data = data, .refs = refs, .n = n};
        start = sk_now_ns();
        put_span(s, k + 1, &from);
        *(k < chunks ? &t.put : &t.full) += seconds_since(start);
        if (k < chunks) time_reads(s, refs, n, buf, &t);
    }
    skippy_ram_destroy(s);
    free(refs);
    free(cuts);
    free(buf);
    free(data);
    return t;
}

static void bench_rates(bench_report *r, const bench_options *o) {
    static const struct {
        const char *name;
        size_t bytes;
    } blocks[] = {{"blocks of 1 MiB", MIB}, {"blocks of 128 KiB", MIB / 8}, {"blocks of 16 KiB", MIB / 64}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        rates t = time_blocks(o->store_mib, blocks[i].bytes);
        double gb = (double)t.bytes / 1e9;
        bench_rate_add(r, "cut", blocks[i].name, gb / t.cut, "GB/s");
        bench_rate_add(r, "put", blocks[i].name, gb / t.put, "GB/s");
        bench_rate_add(r, "cut_and_put", blocks[i].name, gb / (t.cut + t.put), "GB/s");
        bench_rate_add(r, "put_full", blocks[i].name, gb / t.full, "GB/s");
        bench_rate_add(r, "read", blocks[i].name, gb / t.read, "GB/s");
    }
}

/* ---- eviction ---- */

enum { EVICT_PARTS = 5, EVICT_BLOCKS = 4, EVICT_BYTES = 64 };

typedef struct evict_bench {
    skippy_ram_store *s;
    uint64_t next;
} evict_bench;

/* 20 small blocks in 5 parts, all of them new: only the bookkeeping counts. */
static void put_small(void *ud, size_t i) {
    evict_bench *b = ud;
    (void)i;
    static unsigned char data[EVICT_PARTS * EVICT_BLOCKS * EVICT_BYTES];
    skippy_block_ref refs[EVICT_PARTS * EVICT_BLOCKS];
    skippy_part parts[EVICT_PARTS];
    span from = {.data = data, .refs = refs, .n = EVICT_PARTS * EVICT_BLOCKS};
    stamp(data, sizeof data, EVICT_BYTES, ++b->next * from.n);
    for (size_t k = 0; k < from.n; k++)
        bench_check(skippy_block_digest(data + k * EVICT_BYTES, EVICT_BYTES, &refs[k]), "digest");
    for (size_t k = 0; k < EVICT_PARTS; k++)
        parts[k] = (skippy_part){SKIPPY_PART_KV, 0, 256, refs + k * EVICT_BLOCKS, EVICT_BLOCKS};
    const skippy_manifest m = manifest_of(b->next, parts, EVICT_PARTS);
    uint64_t id;
    bench_check(skippy_ram_put(b->s, &m, give, &from, &id), "put");
}

static uint64_t physical(skippy_ram_store *s) {
    skippy_store_stats st;
    skippy_ram_get_stats(s, &st);
    return st.physical_bytes;
}

static void bench_eviction(bench_report *r, const bench_options *o) {
    evict_bench b = {.s = open_store(&bench_allocator, UINT64_MAX / 4)};
    for (size_t i = 0; i < o->entries; i++) put_small(&b, i);
    uint64_t full = physical(b.s);
    skippy_ram_destroy(b.s);
    b = (evict_bench){.s = open_store(&bench_allocator, full)};
    for (size_t i = 0; i < o->entries; i++) put_small(&b, i);
    bench_measure(r, o, "ram", "put_evict", put_small, &b);
    skippy_ram_destroy(b.s);
}

/* ---- what the cuts save ---- */

/* State as llama.cpp exports it: for each layer the K rows of all tokens, then their V rows. */
enum { LAYERS = 4, ROW = 512, WINDOW = 256, TOKENS_MAX = 8192, CUTS_MAX = 2 * LAYERS * WINDOW };

static void write_rows(unsigned char *out, size_t run, const int32_t *stream, size_t from, size_t to) {
    for (size_t t = from; t < to; t++, out += ROW) {
        uint64_t seed = ((uint64_t)(uint32_t)stream[t] << 32 | t) * 0x9e3779b97f4a7c15u + run;
        for (size_t i = 0; i < ROW / sizeof seed; i++, seed = seed * 6364136223846793005u + 1442695040888963407u)
            memcpy(out + i * sizeof seed, &seed, sizeof seed);
    }
}

/* Returns the bytes of positions [from, to). Cuts after each run of rows, and inside it every `step` tokens. */
static size_t export_rows(unsigned char *out, const int32_t *stream, size_t from, size_t to, size_t step, size_t *cuts,
                          size_t *n_cuts) {
    size_t bytes = (to - from) * ROW;
    *n_cuts = 0;
    for (size_t run = 0; run < 2 * LAYERS; run++) {
        write_rows(out + run * bytes, run, stream, from, to);
        for (size_t t = from + step; t < to; t += step) cuts[(*n_cuts)++] = run * bytes + (t - from) * ROW;
        cuts[(*n_cuts)++] = (run + 1) * bytes;
    }
    return 2 * LAYERS * bytes;
}

typedef struct cutter {
    skippy_ram_store *s;
    unsigned char *data;
    skippy_block_ref *refs;
    skippy_part parts[TOKENS_MAX / WINDOW + 1];
    uint64_t next;
} cutter;

static void store_windows(cutter *c, const int32_t *stream, size_t n, size_t step) {
    size_t cuts[CUTS_MAX], n_cuts, n_parts = 0, n_refs = 0, at = 0;
    for (size_t from = 0; from < n; from += WINDOW) {
        size_t to = from + WINDOW < n ? from + WINDOW : n, blocks;
        size_t bytes = export_rows(c->data + at, stream, from, to, step, cuts, &n_cuts);
        bench_check(
            skippy_blocks_cut(c->data + at, bytes, cuts, n_cuts, c->refs + n_refs, PART_BLOCKS - n_refs, &blocks),
            "cut");
        c->parts[n_parts++] = (skippy_part){SKIPPY_PART_KV, 0, WINDOW, c->refs + n_refs, blocks};
        n_refs += blocks;
        at += bytes;
    }
    span from = {.data = c->data, .refs = c->refs, .n = n_refs};
    const skippy_manifest m = manifest_of(++c->next, c->parts, n_parts);
    uint64_t id;
    bench_check(skippy_ram_put(c->s, &m, give, &from, &id), "put");
}

static void store_fixed(cutter *c, const int32_t *stream, size_t n, size_t step) {
    size_t cuts[CUTS_MAX], n_cuts, blocks;
    size_t bytes = export_rows(c->data, stream, 0, n, step, cuts, &n_cuts); /* cuts that are not used */
    bench_check(skippy_blocks_cut(c->data, bytes, NULL, 0, c->refs, PART_BLOCKS, &blocks), "cut");
    span from = {.data = c->data, .refs = c->refs, .n = blocks};
    put_span(c->s, ++c->next, &from);
}

typedef void (*store_fn)(cutter *c, const int32_t *stream, size_t n, size_t step);

static void chat_of_20_turns(cutter *c, store_fn store, size_t step, int32_t *stream) {
    for (size_t t = 0; t < TOKENS_MAX; t++) stream[t] = (int32_t)t;
    for (size_t turn = 1; turn <= 20; turn++) store(c, stream, turn * 300, step);
}

static void agents_with_a_common_prefix(cutter *c, store_fn store, size_t step, int32_t *stream) {
    for (int32_t agent = 1; agent <= 16; agent++) {
        for (size_t t = 0; t < 2050; t++) stream[t] = t < 2000 ? (int32_t)t : -agent;
        store(c, stream, 2050, step);
    }
}

typedef void (*play_fn)(cutter *c, store_fn store, size_t step, int32_t *stream);

static double saved(play_fn play, store_fn store, size_t step) {
    int32_t *stream = bench_must(calloc(TOKENS_MAX, sizeof *stream));
    cutter c = {.s = open_store(NULL, UINT64_MAX / 4)};
    c.data = bench_must(malloc((size_t)TOKENS_MAX * 2 * LAYERS * ROW));
    c.refs = bench_must(calloc(PART_BLOCKS, sizeof *c.refs));
    play(&c, store, step, stream);
    skippy_store_stats st;
    skippy_ram_get_stats(c.s, &st);
    skippy_ram_destroy(c.s);
    free(c.refs);
    free(c.data);
    free(stream);
    return 100 * (1 - (double)st.block_bytes / (double)st.logical_bytes);
}

void bench_store(bench_report *r, const bench_options *o) {
    bench_eviction(r, o);
    bench_rates(r, o);
    static const struct {
        const char *chat, *agents;
        store_fn store;
        size_t step;
    } ways[] = {{"chat, windows, rows of 256 tokens", "agents, windows, rows of 256 tokens", store_windows, WINDOW},
                {"chat, windows, rows of 64 tokens", "agents, windows, rows of 64 tokens", store_windows, 64},
                {"chat, every MiB", "agents, every MiB", store_fixed, WINDOW}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        bench_rate_add(r, "saved", ways[i].chat, saved(chat_of_20_turns, ways[i].store, ways[i].step), "%");
        bench_rate_add(r, "saved", ways[i].agents, saved(agents_with_a_common_prefix, ways[i].store, ways[i].step),
                       "%");
    }
}
