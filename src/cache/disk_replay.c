#include "cache/disk_replay.h"

#include <string.h>

#include "cache/disk_record.h"
#include "cache/mem.h"

/* Numbers count up from 1; the last value is kept free so that "the next one" never wraps. */
static bool number_valid(uint64_t n) {
    return n > 0 && n < UINT64_MAX;
}

/* Below what a file offset can hold, with room for a block. */
static bool place_valid(const sk_record_place *p) {
    return number_valid(p->segment) && p->offset >= SK_FILE_HEADER_BYTES && p->offset < (uint64_t)1 << 62;
}

static sk_segment *segment_of(sk_disk_index *ix, uint64_t number) {
    sk_segment *g = sk_index_segment_find(ix, number);
    return g ? g : sk_index_segment_add(ix, number);
}

/* ---- put ---- */

static int define_block(sk_disk_index *ix, const sk_record_place *p) {
    if (!number_valid(p->number) || !place_valid(p) || p->ref.bytes == 0 || p->ref.bytes > SKIPPY_BLOCK_MAX ||
        sk_index_block_numbered(ix, p->number))
        return SKIPPY_E_CORRUPT;
    sk_segment *g = segment_of(ix, p->segment);
    sk_disk_block *b = g ? sk_index_block_add(ix, &p->ref, p->number) : NULL;
    if (!b) return SKIPPY_E_NOMEM;
    sk_index_block_place(ix, b, g, p->offset);
    return SKIPPY_OK;
}

/* Each defined block has one hold of its own until the entry refers to it. *n_defined says how many there are. */
static int define_blocks(sk_disk_index *ix, const sk_record_put *p, size_t *n_defined) {
    int status = SKIPPY_OK;
    for (*n_defined = 0; *n_defined < p->n_definitions; ++*n_defined) {
        sk_record_place place;
        sk_record_definition(p, *n_defined, &place);
        status = define_block(ix, &place);
        if (status != SKIPPY_OK) break;
    }
    return status;
}

/* Ends the holds: what no entry refers to goes again. */
static void release_definitions(sk_disk_index *ix, const sk_record_put *p, size_t n_defined) {
    for (size_t i = 0; i < n_defined; i++) {
        sk_record_place place;
        sk_record_definition(p, i, &place);
        sk_index_block_unhold(ix, sk_index_block_numbered(ix, place.number));
    }
}

/* Memory for what a manifest points to. */
typedef struct shape {
    skippy_part *parts;
    skippy_block_ref *refs;
    sk_disk_block **blocks;
    int32_t *tokens;
    char *tenant, *cache_namespace;
} shape;

static void shape_free(const skippy_allocator *a, shape *s) {
    sk_mem_release(a, s->parts);
    sk_mem_release(a, s->refs);
    sk_mem_release(a, s->blocks);
    sk_mem_release(a, s->tokens);
    sk_mem_release(a, s->tenant);
    sk_mem_release(a, s->cache_namespace);
}

static char *copy_text(const skippy_allocator *a, const char *text, size_t len) {
    char *copy = sk_mem_alloc(a, len + 1);
    if (copy && len) memcpy(copy, text, len);
    return copy;
}

/* Counts are bounded by the payload's length, which is bounded by the file's: no product overflows. */
static bool shape_alloc(const skippy_allocator *a, const sk_record_put *p, shape *s) {
    s->parts = sk_mem_alloc(a, (p->m.n_parts + 1) * sizeof *s->parts);
    s->refs = sk_mem_alloc(a, (p->n_refs + 1) * sizeof *s->refs);
    s->blocks = sk_mem_alloc(a, (p->n_refs + 1) * sizeof(sk_disk_block *));
    s->tokens = sk_mem_alloc(a, (p->m.n_tokens + 1) * sizeof *s->tokens);
    s->tenant = copy_text(a, p->tenant, p->tenant_len);
    s->cache_namespace = copy_text(a, p->cache_namespace, p->cache_namespace_len);
    return s->parts && s->refs && s->blocks && s->tokens && s->tenant && s->cache_namespace;
}

static int resolve_refs(const sk_disk_index *ix, const sk_record_put *p, shape *s) {
    for (size_t i = 0; i < p->n_refs; i++) {
        s->blocks[i] = sk_index_block_numbered(ix, sk_record_ref(p, i));
        if (!s->blocks[i]) return SKIPPY_E_CORRUPT;
        s->refs[i] = s->blocks[i]->ref;
    }
    return SKIPPY_OK;
}

static void fill_manifest(const sk_record_put *p, shape *s, skippy_manifest *m) {
    *m = p->m;
    size_t at = 0;
    for (size_t i = 0; i < m->n_parts; i++) {
        sk_record_part(p, i, &s->parts[i]);
        s->parts[i].blocks = s->refs + at;
        at += s->parts[i].n_blocks;
    }
    for (size_t i = 0; i < m->n_tokens; i++) s->tokens[i] = sk_record_token(p, i);
    m->parts = s->parts;
    m->tokens = s->tokens;
    m->tenant = p->has_tenant ? s->tenant : NULL;
    m->cache_namespace = p->has_cache_namespace ? s->cache_namespace : NULL;
}

static int add_entry(sk_disk_index *ix, const sk_record_put *p) {
    shape s = {0};
    skippy_manifest m;
    sk_disk_entry *e = NULL;
    uint64_t logical;
    int status = SKIPPY_E_NOMEM;
    if (!shape_alloc(&ix->alloc, p, &s)) goto out;
    status = resolve_refs(ix, p, &s);
    if (status != SKIPPY_OK) goto out;
    fill_manifest(p, &s, &m);
    status = SKIPPY_E_CORRUPT;
    if (skippy_manifest_check(&m, &logical) != SKIPPY_OK || sk_index_entry_same(ix, &m)) goto out;
    status = SKIPPY_E_NOMEM;
    e = sk_disk_entry_new(&ix->alloc, &m);
    if (!e) goto out;
    memcpy(e->blocks, s.blocks, e->n_blocks * sizeof(sk_disk_block *));
    e->id = p->id;
    e->logical_bytes = logical;
    e->record_bytes = sk_record_put_bytes(&m, e->n_blocks);
    sk_index_entry_add(ix, e);
    status = SKIPPY_OK;
out:
    shape_free(&ix->alloc, &s);
    return status;
}

static int replay_put(sk_disk_index *ix, const uint8_t *payload, size_t bytes) {
    sk_record_put p;
    size_t n_defined;
    if (!sk_record_get_put(payload, bytes, &p) || !number_valid(p.id) || sk_index_entry_find(ix, p.id))
        return SKIPPY_E_CORRUPT;
    int status = define_blocks(ix, &p, &n_defined);
    if (status == SKIPPY_OK) status = add_entry(ix, &p);
    release_definitions(ix, &p, n_defined);
    return status;
}

/* ---- the others. Numbers that are not known (any more) are passed over: an entry may leave through another door
 * between the decision to write such a record and its writing. ---- */

static int replay_begin(sk_disk_index *ix, const uint8_t *p, size_t bytes) {
    uint64_t *next[] = {&ix->next_id, &ix->next_block, &ix->next_segment};
    if (bytes != SK_BEGIN_BYTES) return SKIPPY_E_CORRUPT;
    for (size_t i = 0; i < 3; i++)
        if (!number_valid(sk_get_u64(p + 8 * i))) return SKIPPY_E_CORRUPT;
    for (size_t i = 0; i < 3; i++) {
        uint64_t value = sk_get_u64(p + 8 * i);
        if (value > *next[i]) *next[i] = value;
    }
    return SKIPPY_OK;
}

static int replay_drop(sk_replay *r, const uint8_t *p, size_t bytes) {
    if (bytes % SK_DROP_BYTES) return SKIPPY_E_CORRUPT;
    for (const uint8_t *end = p + bytes; p < end; p += SK_DROP_BYTES) {
        sk_disk_entry *e = sk_index_entry_find(r->ix, sk_get_u64(p));
        if (sk_get_u32(p + 8) == SKIPPY_DROP_ERASED) r->erased = true;
        if (!e) continue;
        sk_index_entry_hide(r->ix, e, SKIPPY_DROP_EVICTED);
        sk_index_entry_forget(r->ix, e);
    }
    return SKIPPY_OK;
}

static int replay_touch(sk_disk_index *ix, const uint8_t *p, size_t bytes) {
    if (bytes % SK_TOUCH_BYTES) return SKIPPY_E_CORRUPT;
    for (const uint8_t *end = p + bytes; p < end; p += SK_TOUCH_BYTES) {
        sk_disk_entry *e = sk_index_entry_find(ix, sk_get_u64(p));
        if (!e) continue;
        e->used_ms = sk_get_u64(p + 8);
        e->hits = sk_get_u64(p + 16);
    }
    return SKIPPY_OK;
}

static int replay_move(sk_disk_index *ix, const uint8_t *p, size_t bytes) {
    if (bytes % SK_MOVE_BYTES) return SKIPPY_E_CORRUPT;
    for (size_t i = 0; i < bytes; i += SK_MOVE_BYTES) {
        sk_record_place to = {.segment = sk_get_u64(p + i + 8), .offset = sk_get_u64(p + i + 16)};
        if (!place_valid(&to)) return SKIPPY_E_CORRUPT;
    }
    for (size_t i = 0; i < bytes; i += SK_MOVE_BYTES) {
        sk_disk_block *b = sk_index_block_numbered(ix, sk_get_u64(p + i));
        if (!b) continue;
        sk_segment *g = segment_of(ix, sk_get_u64(p + i + 8));
        if (!g) return SKIPPY_E_NOMEM;
        sk_index_block_place(ix, b, g, sk_get_u64(p + i + 16));
    }
    return SKIPPY_OK;
}

int sk_replay_record(sk_replay *r, uint32_t type, const uint8_t *payload, size_t bytes) {
    switch (type) {
    case SK_RECORD_BEGIN: return replay_begin(r->ix, payload, bytes);
    case SK_RECORD_PUT: return replay_put(r->ix, payload, bytes);
    case SK_RECORD_DROP: return replay_drop(r, payload, bytes);
    case SK_RECORD_TOUCH: return replay_touch(r->ix, payload, bytes);
    case SK_RECORD_MOVE: return replay_move(r->ix, payload, bytes);
    default: return SKIPPY_E_CORRUPT;
    }
}
