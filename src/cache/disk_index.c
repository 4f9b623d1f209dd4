#include "cache/disk_index.h"

#include <stdint.h>
#include <string.h>

#include "cache/disk_format.h"
#include "cache/mem.h"

/* ---- the whole ---- */

bool sk_index_init(sk_disk_index *ix, const skippy_allocator *alloc) {
    enum { N_MAPS = 5 };
    memset(ix, 0, sizeof *ix);
    ix->alloc = *alloc;
    ix->next_id = ix->next_block = ix->next_segment = 1;
    sk_map *const maps[N_MAPS] = {&ix->entries, &ix->prefixes, &ix->blocks, &ix->numbers, &ix->segment_map};
    for (size_t i = 0; i < N_MAPS; i++) {
        if (sk_map_init(maps[i], alloc)) continue;
        while (i--) sk_map_free(maps[i]);
        return false;
    }
    return true;
}

#define OWNER(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

void sk_index_free(sk_disk_index *ix) {
    sk_map_link *l;
    while ((l = sk_map_pop(&ix->entries))) sk_disk_entry_free(&ix->alloc, OWNER(l, sk_disk_entry, by_id));
    while ((l = sk_map_pop(&ix->numbers))) sk_mem_release(&ix->alloc, OWNER(l, sk_disk_block, by_number));
    while ((l = sk_map_pop(&ix->segment_map))) sk_mem_release(&ix->alloc, OWNER(l, sk_segment, by_number));
    sk_map_free(&ix->entries);
    sk_map_free(&ix->prefixes);
    sk_map_free(&ix->blocks);
    sk_map_free(&ix->numbers);
    sk_map_free(&ix->segment_map);
}

/* Digests are spread evenly already. */
static uint64_t key_hash(const skippy_key *k) {
    return sk_get_u64(k->bytes);
}

/* ---- segments ---- */

sk_segment *sk_index_segment_find(const sk_disk_index *ix, uint64_t number) {
    for (sk_map_link *l = sk_map_first(&ix->segment_map, sk_map_hash_u64(number)); l; l = sk_map_same(l)) {
        sk_segment *g = OWNER(l, sk_segment, by_number);
        if (g->number == number) return g;
    }
    return NULL;
}

sk_segment *sk_index_segment_add(sk_disk_index *ix, uint64_t number) {
    sk_segment *g = sk_mem_alloc(&ix->alloc, sizeof *g);
    if (!g) return NULL;
    g->number = number;
    g->fd = -1;
    g->next = ix->segments;
    ix->segments = g;
    ix->n_segments++;
    sk_map_add(&ix->segment_map, &g->by_number, sk_map_hash_u64(number));
    if (number >= ix->next_segment) ix->next_segment = number + 1;
    return g;
}

void sk_index_segment_resize(sk_disk_index *ix, sk_segment *g, uint64_t size) {
    ix->segment_bytes = ix->segment_bytes - g->size + size;
    g->size = size;
}

void sk_index_segment_detach(sk_disk_index *ix, sk_segment *g) {
    sk_segment **at = &ix->segments;
    while (*at != g) at = &(*at)->next;
    *at = g->next;
    g->next = NULL;
    ix->n_segments--;
    sk_index_segment_resize(ix, g, 0);
    sk_map_remove(&ix->segment_map, &g->by_number);
}

uint64_t sk_segment_dead(const sk_segment *g) {
    uint64_t used = g->live + SK_FILE_HEADER_BYTES;
    return g->size > used ? g->size - used : 0;
}

/* ---- blocks ---- */

static uint64_t stored_bytes(const sk_disk_block *b) {
    return SK_BLOCK_HEADER_BYTES + (uint64_t)b->ref.bytes;
}

sk_disk_block *sk_index_block_find(const sk_disk_index *ix, const skippy_block_ref *ref) {
    for (sk_map_link *l = sk_map_first(&ix->blocks, key_hash(&ref->digest)); l; l = sk_map_same(l)) {
        sk_disk_block *b = OWNER(l, sk_disk_block, by_digest);
        if (b->ref.bytes == ref->bytes && skippy_key_equal(&b->ref.digest, &ref->digest)) return b;
    }
    return NULL;
}

sk_disk_block *sk_index_block_numbered(const sk_disk_index *ix, uint64_t number) {
    for (sk_map_link *l = sk_map_first(&ix->numbers, sk_map_hash_u64(number)); l; l = sk_map_same(l)) {
        sk_disk_block *b = OWNER(l, sk_disk_block, by_number);
        if (b->number == number) return b;
    }
    return NULL;
}

sk_disk_block *sk_index_block_add(sk_disk_index *ix, const skippy_block_ref *ref, uint64_t number) {
    sk_disk_block *b = sk_mem_alloc(&ix->alloc, sizeof *b);
    if (!b) return NULL;
    b->ref = *ref;
    b->number = number;
    b->holds = 1;
    sk_map_add(&ix->blocks, &b->by_digest, key_hash(&ref->digest));
    sk_map_add(&ix->numbers, &b->by_number, sk_map_hash_u64(number));
    if (number >= ix->next_block) ix->next_block = number + 1;
    return b;
}

void sk_index_block_unplace(sk_disk_index *ix, sk_disk_block *b) {
    if (!b->segment) return;
    if (b->prev)
        b->prev->next = b->next;
    else
        b->segment->blocks = b->next;
    if (b->next) b->next->prev = b->prev;
    b->segment->live -= stored_bytes(b);
    ix->live_bytes -= stored_bytes(b);
    b->prev = b->next = NULL;
    b->segment = NULL;
}

void sk_index_block_place(sk_disk_index *ix, sk_disk_block *b, sk_segment *g, uint64_t offset) {
    sk_index_block_unplace(ix, b);
    b->segment = g;
    b->offset = offset;
    b->next = g->blocks;
    if (g->blocks) g->blocks->prev = b;
    g->blocks = b;
    g->live += stored_bytes(b);
    ix->live_bytes += stored_bytes(b);
}

void sk_index_block_condemn(sk_disk_index *ix, sk_disk_block *b) {
    if (b->bad) return;
    b->bad = true;
    sk_map_remove(&ix->blocks, &b->by_digest);
}

static void free_if_unused(sk_disk_index *ix, sk_disk_block *b) {
    if (b->refs || b->holds) return;
    sk_index_block_unplace(ix, b);
    if (!b->bad) sk_map_remove(&ix->blocks, &b->by_digest);
    sk_map_remove(&ix->numbers, &b->by_number);
    sk_mem_release(&ix->alloc, b);
}

void sk_index_block_unhold(sk_disk_index *ix, sk_disk_block *b) {
    b->holds--;
    free_if_unused(ix, b);
}

static void refer(sk_disk_index *ix, sk_disk_block *b) {
    if (b->refs++ == 0) {
        ix->n_blocks++;
        ix->block_bytes += b->ref.bytes;
    }
    ix->n_refs++;
}

static void unrefer(sk_disk_index *ix, sk_disk_block *b) {
    ix->n_refs--;
    if (--b->refs) return;
    ix->n_blocks--;
    ix->block_bytes -= b->ref.bytes;
    free_if_unused(ix, b);
}

uint64_t sk_index_next_mark(sk_disk_index *ix) {
    return ++ix->mark;
}

/* ---- entries ---- */

/* Adds *sum += count * size; false on overflow. */
static bool add_array(size_t *sum, size_t count, size_t size) {
    if (count > (SIZE_MAX - *sum) / size) return false;
    *sum += count * size;
    return true;
}

/* Takes `count * size` bytes at *at and fills them when from is set. */
static void *take(char **at, const void *from, size_t count, size_t size) {
    char *p = *at;
    if (from && count) memcpy(p, from, count * size);
    *at += count * size;
    return p;
}

static size_t text_bytes(const char *text) {
    return text ? strlen(text) + 1 : 0;
}

/* One allocation, the arrays in order of falling alignment:
 *   entry | block pointers | parts | tokens | block references | tenant | cache namespace */
sk_disk_entry *sk_disk_entry_new(const skippy_allocator *alloc, const skippy_manifest *m) {
    size_t n_blocks = 0, bytes = sizeof(sk_disk_entry);
    for (size_t i = 0; i < m->n_parts; i++)
        if (!add_array(&n_blocks, m->parts[i].n_blocks, 1)) return NULL;
    size_t tenant = text_bytes(m->tenant), ns = text_bytes(m->cache_namespace);
    if (!add_array(&bytes, n_blocks, sizeof(sk_disk_block *)) || !add_array(&bytes, m->n_parts, sizeof(skippy_part)) ||
        !add_array(&bytes, m->n_tokens, sizeof *m->tokens) || !add_array(&bytes, n_blocks, sizeof(skippy_block_ref)) ||
        !add_array(&bytes, tenant, 1) || !add_array(&bytes, ns, 1))
        return NULL;
    sk_disk_entry *e = sk_mem_alloc(alloc, bytes);
    if (!e) return NULL;

    char *at = (char *)(e + 1);
    e->n_blocks = n_blocks;
    e->blocks = take(&at, NULL, n_blocks, sizeof(sk_disk_block *));
    skippy_part *parts = take(&at, m->parts, m->n_parts, sizeof *parts);
    e->m = *m;
    e->m.parts = parts;
    e->m.tokens = take(&at, m->tokens, m->n_tokens, sizeof *m->tokens);
    for (size_t i = 0; i < m->n_parts; i++)
        parts[i].blocks = take(&at, m->parts[i].blocks, parts[i].n_blocks, sizeof(skippy_block_ref));
    if (m->tenant) e->m.tenant = take(&at, m->tenant, tenant, 1);
    if (m->cache_namespace) e->m.cache_namespace = take(&at, m->cache_namespace, ns, 1);
    e->used_ms = m->used_ms;
    e->hits = m->hits;
    return e;
}

void sk_disk_entry_free(const skippy_allocator *alloc, sk_disk_entry *e) {
    sk_mem_release(alloc, e);
}

void sk_index_entry_add(sk_disk_index *ix, sk_disk_entry *e) {
    for (size_t i = 0; i < e->n_blocks; i++) refer(ix, e->blocks[i]);
    e->next = ix->first;
    if (ix->first) ix->first->prev = e;
    ix->first = e;
    ix->n_entries++;
    ix->logical_bytes += e->logical_bytes;
    ix->record_bytes += e->record_bytes;
    sk_map_add(&ix->entries, &e->by_id, sk_map_hash_u64(e->id));
    sk_map_add(&ix->prefixes, &e->by_prefix, key_hash(&e->m.prefix_key));
    if (e->id >= ix->next_id) ix->next_id = e->id + 1;
}

void sk_index_entry_hide(sk_disk_index *ix, sk_disk_entry *e, enum skippy_drop_reason reason) {
    for (size_t i = 0; i < e->n_blocks; i++) unrefer(ix, e->blocks[i]);
    if (e->prev)
        e->prev->next = e->next;
    else
        ix->first = e->next;
    if (e->next) e->next->prev = e->prev;
    e->prev = e->next = NULL;
    ix->n_entries--;
    ix->logical_bytes -= e->logical_bytes;
    ix->record_bytes -= e->record_bytes;
    sk_map_remove(&ix->prefixes, &e->by_prefix);
    e->gone = true;
    e->reason = reason;
}

void sk_index_entry_forget(sk_disk_index *ix, sk_disk_entry *e) {
    sk_map_remove(&ix->entries, &e->by_id);
    sk_disk_entry_free(&ix->alloc, e);
}

sk_disk_entry *sk_index_entry_find(const sk_disk_index *ix, uint64_t id) {
    for (sk_map_link *l = sk_map_first(&ix->entries, sk_map_hash_u64(id)); l; l = sk_map_same(l)) {
        sk_disk_entry *e = OWNER(l, sk_disk_entry, by_id);
        if (e->id == id) return e;
    }
    return NULL;
}

sk_disk_entry *sk_index_entry_same(const sk_disk_index *ix, const skippy_manifest *m) {
    for (sk_map_link *l = sk_map_first(&ix->prefixes, key_hash(&m->prefix_key)); l; l = sk_map_same(l)) {
        sk_disk_entry *e = OWNER(l, sk_disk_entry, by_prefix);
        if (e->m.payload_kind == m->payload_kind && skippy_key_equal(&e->m.prefix_key, &m->prefix_key) &&
            skippy_key_equal(&e->m.ns, &m->ns))
            return e;
    }
    return NULL;
}

bool sk_disk_entry_uses(const sk_disk_entry *e, const sk_disk_block *b) {
    for (size_t i = 0; i < e->n_blocks; i++)
        if (e->blocks[i] == b) return true;
    return false;
}
