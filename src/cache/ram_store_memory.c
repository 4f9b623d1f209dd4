/* Memory of the RAM store: what it occupies, and how it is given back. */
#include <string.h>

#include "cache/mem.h"
#include "cache/ram_store_internal.h"

/* glibc serves at least 128 KiB with a mapping of its own as long as nothing of that size was freed; each piece has a
 * header of 8 bytes (16 in a mapping), the smallest one takes 32. Other allocators of the caller are taken to be no
 * more wasteful. */
static uint64_t hooked_charge(size_t size) {
    const uint64_t mapping_from = 128 << 10, page = 4096;
    if (size > SIZE_MAX / 2) return UINT64_MAX / 2;
    if (size >= mapping_from) return ((uint64_t)size + 16 + page - 1) / page * page;
    uint64_t piece = ((uint64_t)size + 8 + 15) / 16 * 16;
    return piece < 32 ? 32 : piece;
}

uint64_t sk_ram_charge(const skippy_ram_store *s, size_t size) {
    return s->pooled ? sk_pool_charge(size) : hooked_charge(size);
}

void *sk_ram_alloc(skippy_ram_store *s, size_t size) {
    void *memory = sk_mem_alloc_raw(&s->alloc, size);
    if (memory) s->charged += sk_ram_charge(s, size);
    return memory;
}

void sk_ram_free(skippy_ram_store *s, void *memory, size_t size) {
    if (!memory) return;
    s->charged -= sk_ram_charge(s, size);
    sk_mem_release(&s->alloc, memory);
}

static uint64_t array_bytes(const skippy_ram_store *s) {
    return s->cap_entries ? sk_ram_charge(s, s->cap_entries * sizeof(sk_ram_entry *)) : 0;
}

static uint64_t tables(const skippy_ram_store *s) {
    return sk_ram_charge(s, sk_map_bytes(&s->blocks)) + sk_ram_charge(s, sk_map_bytes(&s->parts)) +
           sk_ram_charge(s, sk_map_bytes(&s->ids)) + sk_ram_charge(s, sk_map_bytes(&s->prefixes)) + array_bytes(s);
}

uint64_t sk_ram_physical(const skippy_ram_store *s) {
    return sizeof *s + (s->pooled ? s->pool.resident - s->pool.warm : s->charged + tables(s));
}

uint64_t sk_ram_table_growth(const skippy_ram_store *s, const sk_map *m, size_t extra) {
    size_t buckets = m->n_buckets;
    if (extra > SIZE_MAX / 64 - m->count) return UINT64_MAX / 4;
    while (buckets < m->count + extra) buckets *= 2;
    if (buckets == m->n_buckets) return 0;
    /* The old array lives until the new one is filled, and growing twice has one in between. */
    uint64_t growth = sk_ram_charge(s, buckets * sizeof(sk_map_link *));
    return buckets == 2 * m->n_buckets ? growth : growth + sk_ram_charge(s, buckets / 2 * sizeof(sk_map_link *));
}

uint64_t sk_ram_array_growth(const skippy_ram_store *s, size_t extra) {
    if (s->n_entries + extra <= s->cap_entries) return 0;
    size_t cap = s->cap_entries ? s->cap_entries : 16;
    while (cap < s->n_entries + extra) cap *= 2;
    return sk_ram_charge(s, cap * sizeof(sk_ram_entry *));
}

static void block_free(skippy_ram_store *s, sk_ram_block *b) {
    if (b->wipe) explicit_bzero(b->data, b->ref.bytes);
    s->dying -= sk_ram_block_charge(s, b->ref.bytes);
    sk_ram_free(s, b->data, b->ref.bytes);
    sk_ram_free(s, b, sizeof *b);
}

void sk_ram_bury(skippy_ram_store *s) {
    while (s->graveyard) {
        sk_ram_block *b = s->graveyard;
        s->graveyard = b->link.next ? sk_ram_block_of(b->link.next) : NULL;
        block_free(s, b);
        if (!s->graveyard) break;
        pthread_mutex_unlock(&s->lock);
        pthread_mutex_lock(&s->lock);
    }
}
