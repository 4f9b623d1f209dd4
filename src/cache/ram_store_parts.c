/* Blocks and parts of the RAM store: two tables of counted objects. */
#include <string.h>

#include "cache/ram_store_internal.h"

/* ---- blocks ---- */

/* The digest is uniformly distributed already. */
static uint64_t digest_hash(const skippy_key *k) {
    uint64_t h;
    memcpy(&h, k->bytes, sizeof h);
    return h;
}

static bool same_ref(const skippy_block_ref *a, const skippy_block_ref *b) {
    return a->bytes == b->bytes && skippy_key_equal(&a->digest, &b->digest);
}

sk_ram_block *sk_ram_block_find(const skippy_ram_store *s, const skippy_block_ref *ref) {
    for (sk_map_link *l = sk_map_first(&s->blocks, digest_hash(&ref->digest)); l; l = sk_map_same(l))
        if (same_ref(&sk_ram_block_of(l)->ref, ref)) return sk_ram_block_of(l);
    return NULL;
}

uint64_t sk_ram_block_charge(const skippy_ram_store *s, uint32_t bytes) {
    return sk_ram_charge(s, sizeof(sk_ram_block)) + sk_ram_charge(s, bytes);
}

sk_ram_block *sk_ram_block_new(skippy_ram_store *s, const skippy_block_ref *ref) {
    sk_ram_block *b = sk_ram_alloc(s, sizeof *b);
    if (!b) return NULL;
    *b = (sk_ram_block){.ref = *ref, .data = sk_ram_alloc(s, ref->bytes)};
    if (!b->data) {
        sk_ram_free(s, b, sizeof *b);
        return NULL;
    }
    sk_ram_block_pin(s, b);
    return b;
}

void sk_ram_block_list(skippy_ram_store *s, sk_ram_block *b) {
    sk_map_add(&s->blocks, &b->link, digest_hash(&b->ref.digest));
    b->listed = true;
    s->stats.block_bytes += b->ref.bytes;
}

void sk_ram_block_unlist(skippy_ram_store *s, sk_ram_block *b) {
    if (!b->listed) return;
    sk_map_remove(&s->blocks, &b->link);
    b->listed = false;
    s->stats.block_bytes -= b->ref.bytes;
}

static void free_if_unused(skippy_ram_store *s, sk_ram_block *b) {
    if (b->refs || b->pins) return;
    sk_ram_block_unlist(s, b);
    b->link.next = s->graveyard ? &s->graveyard->link : NULL;
    s->graveyard = b;
    s->dying += sk_ram_block_charge(s, b->ref.bytes);
}

void sk_ram_block_pin(skippy_ram_store *s, sk_ram_block *b) {
    if (b->pins++ == 0) s->pinned += sk_ram_block_charge(s, b->ref.bytes);
}

void sk_ram_block_unpin(skippy_ram_store *s, sk_ram_block *b) {
    if (--b->pins == 0) s->pinned -= sk_ram_block_charge(s, b->ref.bytes);
    free_if_unused(s, b);
}

/* ---- parts ---- */

/* One allocation: the part, its pointers to blocks, then the references that manifests lend. */
static size_t part_size(size_t n) {
    return sizeof(sk_ram_part) + n * (sizeof(sk_ram_block *) + sizeof(skippy_block_ref));
}

uint64_t sk_ram_part_charge(const skippy_ram_store *s, size_t n_blocks) {
    return sk_ram_charge(s, part_size(n_blocks));
}

static uint64_t part_hash(const skippy_part *p) {
    uint64_t h = sk_map_hash_u64(p->from) ^ sk_map_hash_u64(~p->to) ^ p->kind;
    for (size_t i = 0; i < p->n_blocks; i++) h = sk_map_hash_u64(h + digest_hash(&p->blocks[i].digest));
    return h;
}

static bool same_part(const sk_ram_part *a, const skippy_part *b) {
    if (a->kind != b->kind || a->from != b->from || a->to != b->to || a->n != b->n_blocks) return false;
    for (size_t i = 0; i < a->n; i++)
        if (!same_ref(&a->refs_of[i], &b->blocks[i])) return false;
    return true;
}

sk_ram_part *sk_ram_part_find(const skippy_ram_store *s, const skippy_part *p) {
    for (sk_map_link *l = sk_map_first(&s->parts, part_hash(p)); l; l = sk_map_same(l))
        if (same_part(sk_ram_part_of(l), p)) return sk_ram_part_of(l);
    return NULL;
}

sk_ram_part *sk_ram_part_new(skippy_ram_store *s, const skippy_part *view) {
    sk_ram_part *p = sk_ram_alloc(s, part_size(view->n_blocks));
    if (!p) return NULL;
    *p = (sk_ram_part){.kind = view->kind, .from = view->from, .to = view->to, .n = view->n_blocks};
    p->refs_of = (skippy_block_ref *)(void *)(p->block + p->n);
    memcpy(p->refs_of, view->blocks, p->n * sizeof *p->refs_of);
    for (size_t i = 0; i < p->n; i++) p->bytes += p->refs_of[i].bytes;
    return p;
}

void sk_ram_part_list(skippy_ram_store *s, sk_ram_part *p) {
    for (size_t i = 0; i < p->n; i++) {
        p->block[i] = sk_ram_block_find(s, &p->refs_of[i]);
        p->block[i]->refs++;
    }
    const skippy_part view = {p->kind, p->from, p->to, p->refs_of, p->n};
    sk_map_add(&s->parts, &p->link, part_hash(&view));
    p->listed = true;
}

void sk_ram_part_unlist(skippy_ram_store *s, sk_ram_part *p) {
    if (p->listed) sk_map_remove(&s->parts, &p->link);
    p->listed = false;
}

void sk_ram_part_discard(skippy_ram_store *s, sk_ram_part *p) {
    if (p) sk_ram_free(s, p, part_size(p->n));
}

void sk_ram_part_release(skippy_ram_store *s, sk_ram_part *p) {
    if (--p->refs) return;
    sk_ram_part_unlist(s, p);
    for (size_t i = 0; i < p->n; i++) {
        sk_ram_block *b = p->block[i];
        b->refs--;
        free_if_unused(s, b);
    }
    sk_ram_part_discard(s, p);
}

bool sk_ram_part_has(const sk_ram_part *p, const sk_ram_block *b) {
    for (size_t i = 0; i < p->n; i++)
        if (p->block[i] == b) return true;
    return false;
}
