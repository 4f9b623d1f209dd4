#include "cache/map.h"

#include "cache/mem.h"

enum { FIRST_BUCKETS = 16 };

bool sk_map_init(sk_map *m, const skippy_allocator *alloc) {
    m->alloc = *alloc;
    m->count = 0;
    m->n_buckets = FIRST_BUCKETS;
    m->bucket = sk_mem_alloc(alloc, FIRST_BUCKETS * sizeof(sk_map_link *));
    return m->bucket != NULL;
}

void sk_map_free(sk_map *m) {
    sk_mem_release(&m->alloc, m->bucket);
    m->bucket = NULL;
    m->n_buckets = 0;
    m->count = 0;
}

static sk_map_link **slot_of(const sk_map *m, uint64_t hash) {
    return &m->bucket[hash & (m->n_buckets - 1)];
}

static void push(sk_map *m, sk_map_link *link) {
    sk_map_link **slot = slot_of(m, link->hash);
    link->next = *slot;
    *slot = link;
}

static void try_grow(sk_map *m) {
    if (m->n_buckets > SIZE_MAX / sizeof(sk_map_link *) / 2) return;
    size_t old_n = m->n_buckets;
    sk_map_link **old = m->bucket;
    sk_map_link **wider = sk_mem_alloc(&m->alloc, 2 * old_n * sizeof(sk_map_link *));
    if (!wider) return;
    m->bucket = wider;
    m->n_buckets = 2 * old_n;
    for (size_t i = 0; i < old_n; i++) {
        for (sk_map_link *l = old[i], *next; l; l = next) {
            next = l->next;
            push(m, l);
        }
    }
    sk_mem_release(&m->alloc, old);
}

void sk_map_add(sk_map *m, sk_map_link *link, uint64_t hash) {
    if (m->count >= m->n_buckets) try_grow(m);
    link->hash = hash;
    push(m, link);
    m->count++;
}

void sk_map_remove(sk_map *m, sk_map_link *link) {
    sk_map_link **at = slot_of(m, link->hash);
    while (*at != link) at = &(*at)->next;
    *at = link->next;
    link->next = NULL;
    m->count--;
}

static sk_map_link *with_hash(sk_map_link *l, uint64_t hash) {
    while (l && l->hash != hash) l = l->next;
    return l;
}

sk_map_link *sk_map_first(const sk_map *m, uint64_t hash) {
    return with_hash(*slot_of(m, hash), hash);
}

sk_map_link *sk_map_same(const sk_map_link *link) {
    return with_hash(link->next, link->hash);
}

sk_map_link *sk_map_pop(sk_map *m) {
    for (size_t i = 0; m->count && i < m->n_buckets; i++) {
        sk_map_link *l = m->bucket[i];
        if (!l) continue;
        m->bucket[i] = l->next;
        m->count--;
        return l;
    }
    return NULL;
}

size_t sk_map_bytes(const sk_map *m) {
    return m->n_buckets * sizeof(sk_map_link *);
}

uint64_t sk_map_hash_u64(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}
