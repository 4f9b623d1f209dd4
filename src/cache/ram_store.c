#include "skippy/ram_store.h"

#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "cache/mem.h"
#include "cache/ram_store_internal.h"

/* ---- life ---- */

static bool init_tables(skippy_ram_store *s) {
    return sk_map_init(&s->blocks, &s->alloc) && sk_map_init(&s->parts, &s->alloc) && sk_map_init(&s->ids, &s->alloc) &&
           sk_map_init(&s->prefixes, &s->alloc);
}

static void free_tables(skippy_ram_store *s) {
    sk_map_free(&s->blocks);
    sk_map_free(&s->parts);
    sk_map_free(&s->ids);
    sk_map_free(&s->prefixes);
    sk_mem_release(&s->alloc, s->entry);
}

/* Enough for the blocks of a put or two; an idle store holds no more than this beyond what is stored. */
static uint64_t warm_limit(uint64_t max_bytes) {
    const uint64_t most = 64 << 20;
    return max_bytes / 8 < most ? max_bytes / 8 : most;
}

int skippy_ram_create(const skippy_allocator *alloc, const skippy_ram_params *p, skippy_ram_store **out) {
    if (!p || !out || !sk_mem_hooks_valid(alloc) || p->soft_bytes > p->max_bytes) return SKIPPY_E_INVALID;
    *out = NULL;
    skippy_allocator outer = sk_mem_hooks(alloc);
    skippy_ram_store *s = sk_mem_alloc(&outer, sizeof *s);
    if (!s) return SKIPPY_E_NOMEM;
    s->outer = outer;
    s->pooled = !alloc;
    sk_pool_init(&s->pool, p->max_bytes > sizeof *s ? p->max_bytes - sizeof *s : 0, warm_limit(p->max_bytes));
    s->alloc = s->pooled ? sk_pool_hooks(&s->pool) : outer;
    s->params = *p;
    if (!s->params.soft_bytes) s->params.soft_bytes = p->max_bytes;
    if (!init_tables(s) || pthread_mutex_init(&s->lock, NULL) != 0) {
        free_tables(s);
        sk_mem_release(&outer, s);
        return SKIPPY_E_NOMEM;
    }
    s->base = sk_ram_physical(s);
    *out = s;
    return SKIPPY_OK;
}

void skippy_ram_destroy(skippy_ram_store *s) {
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    while (s->n_entries) {
        sk_ram_entry *e = s->entry[s->n_entries - 1], *chain = NULL;
        if (!e->gone) sk_ram_entry_retire(s, e, SKIPPY_DROP_SUPERSEDED, &chain);
        e->pins = 0;
        e->leases = 0;
        sk_ram_entry_settle(s, e);
    }
    sk_ram_bury(s);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_destroy(&s->lock);
    free_tables(s);
    while (s->pool.n_warm) sk_pool_cool(&s->pool, UINT64_MAX);
    skippy_allocator outer = s->outer;
    sk_mem_release(&outer, s);
}

/* ---- lease ---- */

int skippy_ram_lease(skippy_ram_store *s, uint64_t id, const skippy_manifest **m) {
    if (!s || !m) return SKIPPY_E_INVALID;
    *m = NULL;
    pthread_mutex_lock(&s->lock);
    sk_ram_entry *e = sk_ram_entry_find(s, id);
    if (e && !e->gone) {
        e->hits++;
        sk_ram_entry_touch(s, e);
        if (e->leases++ == 0) s->stats.leased++;
        *m = &e->m;
    }
    pthread_mutex_unlock(&s->lock);
    return *m ? SKIPPY_OK : SKIPPY_E_NOT_FOUND;
}

int skippy_ram_release(skippy_ram_store *s, uint64_t id) {
    if (!s) return SKIPPY_E_INVALID;
    pthread_mutex_lock(&s->lock);
    sk_ram_entry *e = sk_ram_entry_find(s, id);
    int status = !e ? SKIPPY_E_NOT_FOUND : e->leases == 0 ? SKIPPY_E_INVALID : SKIPPY_OK;
    if (status == SKIPPY_OK) {
        if (--e->leases == 0) s->stats.leased--;
        sk_ram_entry_settle(s, e);
        sk_ram_bury(s);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* ---- read ---- */

/* Searches the entry's parts for the block, each part once in a round. */
static bool entry_has(const skippy_ram_store *s, const sk_ram_entry *e, const sk_ram_block *bad) {
    bool found = false;
    for (size_t i = 0; i < e->n_parts; i++) {
        sk_ram_part *p = e->part[i];
        if (p->mark != s->round && sk_ram_part_has(p, bad)) p->bad = true;
        p->mark = s->round;
        found |= p->bad;
    }
    return found;
}

/* Takes the block and the parts that name it out of the tables, so that the same state can be stored anew, and retires
 * the entries that hold them. Rare, so it searches all entries instead of keeping links back. */
static sk_ram_entry *quarantine(skippy_ram_store *s, sk_ram_block *bad) {
    sk_ram_entry *chain = NULL;
    if (!bad->listed) return NULL; /* another reader was faster */
    s->stats.corrupt_blocks++;
    sk_ram_block_unlist(s, bad);
    s->round++;
    for (size_t k = 0; k < s->n_entries; k++) {
        sk_ram_entry *e = s->entry[k];
        if (!entry_has(s, e, bad)) continue;
        for (size_t i = 0; i < e->n_parts; i++)
            if (e->part[i]->bad) sk_ram_part_unlist(s, e->part[i]);
        if (!e->gone) sk_ram_entry_retire(s, e, SKIPPY_DROP_CORRUPT, &chain);
    }
    return chain;
}

int skippy_ram_read(skippy_ram_store *s, const skippy_block_ref *block, void *buf) {
    if (!s || !block || !buf) return SKIPPY_E_INVALID;
    pthread_mutex_lock(&s->lock);
    sk_ram_block *b = sk_ram_block_find(s, block);
    if (b) sk_ram_block_pin(s, b);
    pthread_mutex_unlock(&s->lock);
    if (!b) return SKIPPY_E_NOT_FOUND;

    memcpy(buf, b->data, block->bytes);
    skippy_key digest;
    uint64_t start = sk_now_ns();
    sk_hash(buf, block->bytes, digest.bytes);
    uint64_t hashed = sk_now_ns() - start;
    bool good = skippy_key_equal(&digest, &block->digest);

    pthread_mutex_lock(&s->lock);
    s->stats.hash_ns += hashed;
    s->stats.reads += good;
    s->stats.read_bytes += good ? block->bytes : 0;
    sk_ram_entry *chain = good ? NULL : quarantine(s, b);
    sk_ram_block_unpin(s, b);
    sk_ram_tell(s, chain);
    sk_ram_bury(s);
    pthread_mutex_unlock(&s->lock);
    return good ? SKIPPY_OK : SKIPPY_E_CORRUPT;
}

bool skippy_ram_has(skippy_ram_store *s, const skippy_block_ref *block) {
    if (!s || !block) return false;
    pthread_mutex_lock(&s->lock);
    bool held = sk_ram_block_find(s, block) != NULL;
    pthread_mutex_unlock(&s->lock);
    return held;
}

/* ---- drop and erase ---- */

int skippy_ram_drop(skippy_ram_store *s, uint64_t id, enum skippy_drop_reason reason) {
    if (!s || (unsigned)reason >= SKIPPY_DROP_REASONS) return SKIPPY_E_INVALID;
    pthread_mutex_lock(&s->lock);
    sk_ram_entry *e = sk_ram_entry_find(s, id);
    int status = !e || e->gone ? SKIPPY_E_NOT_FOUND : e->leases ? SKIPPY_E_BUSY : SKIPPY_OK;
    if (status == SKIPPY_OK) {
        sk_ram_entry *chain = NULL;
        sk_ram_entry_retire(s, e, reason, &chain);
        e->pins--; /* the caller knows */
        sk_ram_entry_settle(s, e);
        sk_ram_bury(s);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

size_t skippy_ram_erase(skippy_ram_store *s, const skippy_erase_filter *f) {
    if (!s || !f) return 0;
    size_t n = 0;
    sk_ram_entry *chain = NULL;
    pthread_mutex_lock(&s->lock);
    for (size_t k = 0; k < s->n_entries; k++) {
        sk_ram_entry *e = s->entry[k];
        if (!skippy_erase_matches(f, &e->m)) continue;
        if (e->gone) { /* quarantined or erased while leased: nothing to tell, but its bytes are meant, too */
            sk_ram_entry_wipe(e);
            continue;
        }
        sk_ram_entry_retire(s, e, SKIPPY_DROP_ERASED, &chain);
        n++;
    }
    sk_ram_tell(s, chain);
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* ---- look ---- */

void skippy_ram_get_stats(skippy_ram_store *s, skippy_store_stats *out) {
    pthread_mutex_lock(&s->lock);
    *out = s->stats;
    out->physical_bytes = sk_ram_physical(s) + s->pool.warm;
    out->max_bytes = s->params.max_bytes;
    out->blocks = s->blocks.count;
    pthread_mutex_unlock(&s->lock);
}
