#include "cache/disk_record.h"

#include <string.h>

#include "base/hash.h"

/* Where things lie in the fixed part of a put. */
enum {
    AT_ID = 0,
    AT_KINDS = 8, /* payload kind, reach, reason, flags: one byte each */
    AT_N_PARTS = 12,
    AT_NS = 16,
    AT_PREFIX = 48,
    AT_LAYOUT = 80,
    AT_COST = 112,
    AT_CREATED = 120,
    AT_USED = 128,
    AT_HITS = 136,
    AT_N_TOKENS = 144,
    AT_TENANT_LEN = 148,
    AT_CACHE_NS_LEN = 152,
    AT_N_DEFINITIONS = 156,
    AT_N_REFS = 160,
    PUT_FIXED_BYTES = 168
};
enum { PART_BYTES = 24, REF_BYTES = 8, TOKEN_BYTES = 4 };
enum { FLAG_TENANT = 1, FLAG_CACHE_NS = 2, FLAGS = 3 };

/* ---- chain ---- */

void sk_chain_start(sk_chain *c, const uint8_t file_header[SK_FILE_HEADER_BYTES]) {
    memcpy(c->check, file_header + (SK_FILE_HEADER_BYTES - SK_CHECK_BYTES), SK_CHECK_BYTES);
    c->sequence = 1;
}

static void check_of(const sk_chain *c, const uint8_t *header, const uint8_t *payload, size_t bytes,
                     uint8_t out[SK_CHECK_BYTES]) {
    uint8_t digest[SK_HASH_BYTES];
    sk_hasher h;
    sk_hash_init(&h);
    sk_hash_update(&h, c->check, sizeof c->check);
    sk_hash_update(&h, header, SK_RECORD_HEADER_BYTES);
    sk_hash_update(&h, payload, bytes);
    sk_hash_final(&h, digest);
    memcpy(out, digest, SK_CHECK_BYTES);
}

static void chain_move(sk_chain *c, const uint8_t check[SK_CHECK_BYTES]) {
    memcpy(c->check, check, SK_CHECK_BYTES);
    c->sequence++;
}

/* ---- writing ---- */

size_t sk_record_begin(sk_bytes *out, enum sk_record_type type) {
    size_t start = out->len;
    sk_bytes_u32(out, 0); /* the length: known at the end */
    sk_bytes_u32(out, (uint32_t)type);
    sk_bytes_u64(out, 0); /* the sequence number */
    return start;
}

void sk_record_end(sk_bytes *out, size_t start, sk_chain *c) {
    uint8_t check[SK_CHECK_BYTES];
    if (out->failed) return;
    uint8_t *header = out->data + start;
    size_t bytes = out->len - start - SK_RECORD_HEADER_BYTES;
    if (bytes > SK_RECORD_MAX) {
        out->failed = true;
        return;
    }
    sk_put_u32(header, (uint32_t)bytes);
    sk_put_u64(header + 8, c->sequence);
    check_of(c, header, header + SK_RECORD_HEADER_BYTES, bytes, check);
    sk_bytes_add(out, check, sizeof check);
    chain_move(c, check);
}

void sk_record_add_begin(sk_bytes *out, sk_chain *c, const sk_disk_index *ix) {
    size_t start = sk_record_begin(out, SK_RECORD_BEGIN);
    sk_bytes_u64(out, ix->next_id);
    sk_bytes_u64(out, ix->next_block);
    sk_bytes_u64(out, ix->next_segment);
    sk_record_end(out, start, c);
}

void sk_record_add_drop(sk_bytes *out, uint64_t id, enum skippy_drop_reason reason) {
    sk_bytes_u64(out, id);
    sk_bytes_u32(out, (uint32_t)reason);
}

void sk_record_add_touch(sk_bytes *out, uint64_t id, uint64_t used_ms, uint64_t hits) {
    sk_bytes_u64(out, id);
    sk_bytes_u64(out, used_ms);
    sk_bytes_u64(out, hits);
}

void sk_record_add_move(sk_bytes *out, uint64_t number, uint64_t segment, uint64_t offset) {
    sk_bytes_u64(out, number);
    sk_bytes_u64(out, segment);
    sk_bytes_u64(out, offset);
}

static void put_fixed(uint8_t *p, const sk_disk_entry *e, uint32_t n_definitions) {
    const skippy_manifest *m = &e->m;
    uint64_t cost;
    memcpy(&cost, &m->cost_ms, sizeof cost);
    sk_put_u64(p + AT_ID, e->id);
    p[AT_KINDS] = m->payload_kind;
    p[AT_KINDS + 1] = m->reach;
    p[AT_KINDS + 2] = m->reason;
    p[AT_KINDS + 3] = (uint8_t)((m->tenant ? FLAG_TENANT : 0) | (m->cache_namespace ? FLAG_CACHE_NS : 0));
    sk_put_u32(p + AT_N_PARTS, (uint32_t)m->n_parts);
    memcpy(p + AT_NS, m->ns.bytes, sizeof m->ns.bytes);
    memcpy(p + AT_PREFIX, m->prefix_key.bytes, sizeof m->prefix_key.bytes);
    memcpy(p + AT_LAYOUT, m->layout.bytes, sizeof m->layout.bytes);
    sk_put_u64(p + AT_COST, cost);
    sk_put_u64(p + AT_CREATED, m->created_ms);
    sk_put_u64(p + AT_USED, e->used_ms);
    sk_put_u64(p + AT_HITS, e->hits);
    sk_put_u32(p + AT_N_TOKENS, (uint32_t)m->n_tokens);
    sk_put_u32(p + AT_TENANT_LEN, (uint32_t)(m->tenant ? strlen(m->tenant) : 0));
    sk_put_u32(p + AT_CACHE_NS_LEN, (uint32_t)(m->cache_namespace ? strlen(m->cache_namespace) : 0));
    sk_put_u32(p + AT_N_DEFINITIONS, n_definitions);
    sk_put_u64(p + AT_N_REFS, e->n_blocks);
}

static void add_definition(sk_bytes *out, const sk_disk_block *b) {
    sk_bytes_u64(out, b->number);
    sk_bytes_add(out, b->ref.digest.bytes, sizeof b->ref.digest.bytes);
    sk_bytes_u32(out, b->ref.bytes);
    sk_bytes_u64(out, b->segment->number);
    sk_bytes_u64(out, b->offset);
}

static uint32_t add_definitions(sk_bytes *out, const sk_disk_entry *e, uint64_t mark, bool only_new) {
    uint32_t n = 0;
    for (size_t i = 0; i < e->n_blocks; i++) {
        sk_disk_block *b = e->blocks[i];
        if (b->mark == mark || (only_new && b->refs)) continue;
        b->mark = mark;
        add_definition(out, b);
        n++;
    }
    return n;
}

static void add_parts(sk_bytes *out, const skippy_manifest *m) {
    for (size_t i = 0; i < m->n_parts; i++) {
        sk_bytes_u32(out, m->parts[i].kind);
        sk_bytes_u64(out, m->parts[i].from);
        sk_bytes_u64(out, m->parts[i].to);
        sk_bytes_u32(out, (uint32_t)m->parts[i].n_blocks);
    }
}

void sk_record_add_put(sk_bytes *out, sk_chain *c, const sk_disk_entry *e, uint64_t mark, bool only_new) {
    const skippy_manifest *m = &e->m;
    size_t start = sk_record_begin(out, SK_RECORD_PUT);
    size_t fixed = out->len;
    sk_bytes_extend(out, PUT_FIXED_BYTES);
    if (m->tenant) sk_bytes_add(out, m->tenant, strlen(m->tenant));
    if (m->cache_namespace) sk_bytes_add(out, m->cache_namespace, strlen(m->cache_namespace));
    for (size_t i = 0; i < m->n_tokens; i++) sk_bytes_u32(out, (uint32_t)m->tokens[i]);
    uint32_t n_definitions = add_definitions(out, e, mark, only_new);
    add_parts(out, m);
    for (size_t i = 0; i < e->n_blocks; i++) sk_bytes_u64(out, e->blocks[i]->number);
    if (!out->failed) put_fixed(out->data + fixed, e, n_definitions);
    sk_record_end(out, start, c);
}

/* Each count alone is below 2^32 and the sum below 2^40: nothing overflows. */
uint64_t sk_record_put_bytes(const skippy_manifest *m, size_t n_blocks) {
    uint64_t tenant = m->tenant ? strlen(m->tenant) : 0, ns = m->cache_namespace ? strlen(m->cache_namespace) : 0;
    if (m->n_tokens > SK_RECORD_MAX || m->n_parts > SK_RECORD_MAX || n_blocks > SK_RECORD_MAX ||
        tenant > SK_RECORD_MAX || ns > SK_RECORD_MAX)
        return UINT64_MAX;
    uint64_t bytes = PUT_FIXED_BYTES + tenant + ns + (uint64_t)TOKEN_BYTES * m->n_tokens +
                     (uint64_t)PART_BYTES * m->n_parts + (uint64_t)REF_BYTES * n_blocks;
    if (bytes + (uint64_t)SK_DEFINITION_BYTES * n_blocks > SK_RECORD_MAX) return UINT64_MAX;
    return SK_RECORD_FRAME_BYTES + bytes;
}

/* ---- reading ---- */

bool sk_record_header(const uint8_t header[SK_RECORD_HEADER_BYTES], const sk_chain *c, uint64_t left, size_t *bytes,
                      uint32_t *type) {
    *bytes = sk_get_u32(header);
    *type = sk_get_u32(header + 4);
    return *bytes <= SK_RECORD_MAX && left >= SK_CHECK_BYTES && *bytes <= left - SK_CHECK_BYTES &&
           sk_get_u64(header + 8) == c->sequence;
}

bool sk_record_verify(const uint8_t header[SK_RECORD_HEADER_BYTES], const uint8_t *payload, size_t bytes, sk_chain *c) {
    uint8_t check[SK_CHECK_BYTES];
    check_of(c, header, payload, bytes, check);
    if (memcmp(check, payload + bytes, sizeof check) != 0) return false;
    chain_move(c, check);
    return true;
}

/* Takes `count` items of `size` bytes from what is left; NULL when there are fewer. */
static const uint8_t *take(const uint8_t **at, size_t *left, uint64_t count, size_t size) {
    if (count > *left / size) return NULL;
    const uint8_t *p = *at;
    *at += count * size;
    *left -= (size_t)count * size;
    return p;
}

static bool name_valid(bool present, const uint8_t *text, size_t len) {
    return present ? !memchr(text, '\0', len) : len == 0;
}

static void get_fixed(const uint8_t *p, sk_record_put *out) {
    uint64_t cost = sk_get_u64(p + AT_COST);
    skippy_manifest *m = &out->m;
    out->id = sk_get_u64(p + AT_ID);
    m->payload_kind = p[AT_KINDS];
    m->reach = p[AT_KINDS + 1];
    m->reason = p[AT_KINDS + 2];
    out->has_tenant = p[AT_KINDS + 3] & FLAG_TENANT;
    out->has_cache_namespace = p[AT_KINDS + 3] & FLAG_CACHE_NS;
    m->n_parts = sk_get_u32(p + AT_N_PARTS);
    memcpy(m->ns.bytes, p + AT_NS, sizeof m->ns.bytes);
    memcpy(m->prefix_key.bytes, p + AT_PREFIX, sizeof m->prefix_key.bytes);
    memcpy(m->layout.bytes, p + AT_LAYOUT, sizeof m->layout.bytes);
    memcpy(&m->cost_ms, &cost, sizeof cost);
    m->created_ms = sk_get_u64(p + AT_CREATED);
    m->used_ms = sk_get_u64(p + AT_USED);
    m->hits = sk_get_u64(p + AT_HITS);
    m->n_tokens = sk_get_u32(p + AT_N_TOKENS);
    out->tenant_len = sk_get_u32(p + AT_TENANT_LEN);
    out->cache_namespace_len = sk_get_u32(p + AT_CACHE_NS_LEN);
    out->n_definitions = sk_get_u32(p + AT_N_DEFINITIONS);
}

/* The parts together have exactly as many blocks as there are references. */
static bool parts_tile(const sk_record_put *p) {
    uint64_t sum = 0;
    for (size_t i = 0; i < p->m.n_parts; i++) sum += sk_get_u32(p->parts + i * PART_BYTES + 20);
    return sum == p->n_refs;
}

bool sk_record_get_put(const uint8_t *payload, size_t bytes, sk_record_put *out) {
    memset(out, 0, sizeof *out);
    if (bytes < PUT_FIXED_BYTES || payload[AT_KINDS + 3] & ~FLAGS) return false;
    get_fixed(payload, out);
    uint64_t n_refs = sk_get_u64(payload + AT_N_REFS);
    const uint8_t *at = payload + PUT_FIXED_BYTES, *tenant, *ns;
    size_t left = bytes - PUT_FIXED_BYTES;
    if (!(tenant = take(&at, &left, out->tenant_len, 1)) || !(ns = take(&at, &left, out->cache_namespace_len, 1)) ||
        !(out->tokens = take(&at, &left, out->m.n_tokens, TOKEN_BYTES)) ||
        !(out->definitions = take(&at, &left, out->n_definitions, SK_DEFINITION_BYTES)) ||
        !(out->parts = take(&at, &left, out->m.n_parts, PART_BYTES)) ||
        !(out->refs = take(&at, &left, n_refs, REF_BYTES)) || left)
        return false;
    out->n_refs = (size_t)n_refs;
    out->tenant = (const char *)tenant;
    out->cache_namespace = (const char *)ns;
    return name_valid(out->has_tenant, tenant, out->tenant_len) &&
           name_valid(out->has_cache_namespace, ns, out->cache_namespace_len) && parts_tile(out);
}

int32_t sk_record_token(const sk_record_put *p, size_t i) {
    return (int32_t)sk_get_u32(p->tokens + i * TOKEN_BYTES);
}

void sk_record_definition(const sk_record_put *p, size_t i, sk_record_place *out) {
    const uint8_t *d = p->definitions + i * SK_DEFINITION_BYTES;
    out->number = sk_get_u64(d);
    memcpy(out->ref.digest.bytes, d + 8, sizeof out->ref.digest.bytes);
    out->ref.bytes = sk_get_u32(d + 40);
    out->segment = sk_get_u64(d + 44);
    out->offset = sk_get_u64(d + 52);
}

void sk_record_part(const sk_record_put *p, size_t i, skippy_part *out) {
    const uint8_t *d = p->parts + i * PART_BYTES;
    uint32_t kind = sk_get_u32(d);
    out->kind = kind <= UINT8_MAX ? (uint8_t)kind : 0; /* 0 is no kind: the manifest's check refuses it */
    out->from = sk_get_u64(d + 4);
    out->to = sk_get_u64(d + 12);
    out->n_blocks = sk_get_u32(d + 20);
    out->blocks = NULL;
}

uint64_t sk_record_ref(const sk_record_put *p, size_t i) {
    return sk_get_u64(p->refs + i * REF_BYTES);
}
