/* Put: all or nothing, and the source is asked without the lock.
 *
 *   locked    resolve: pin the blocks that are there, sum what is missing; make room and reserve it
 *   unlocked  fetch: ask the source for each missing block, copy it, verify the copy
 *   locked    commit: blocks, parts and entry enter the tables
 *
 * Between the locked steps other threads may store the same blocks, parts, or the whole prefix: commit takes what is
 * in the tables then, and the surplus goes to the graveyard. */
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "cache/mem.h"
#include "cache/ram_store_internal.h"

/* One distinct block of the manifest. */
typedef struct want {
    sk_map_link link;
    const skippy_block_ref *ref;
    sk_ram_block *block; /* pinned */
    bool fresh;          /* fetched by this put and not in the table yet */
} want;

typedef struct put {
    skippy_ram_store *s;
    const skippy_manifest *m;
    uint64_t logical;
    sk_map by_digest; /* of wants */
    want *wants;
    size_t n_wants, n_missing;
    sk_ram_part **part; /* one for each part of the manifest; NULL: it was in the table when the put began */
    sk_ram_entry *entry;
    size_t entry_size;
    uint64_t left; /* of the reservation */
    bool pending;  /* its elements are counted in pending_* */
} put;

/* The tables changed under a put in a way that it cannot go on from: it starts again. Not a public code. */
enum { STALE = -1 };

/* ---- scratch: the distinct blocks ---- */

static want *want_of(sk_map_link *l) {
    return (want *)(void *)((char *)l - offsetof(want, link));
}

static want *find_want(const put *p, const skippy_block_ref *ref, uint64_t hash) {
    for (sk_map_link *l = sk_map_first(&p->by_digest, hash); l; l = sk_map_same(l)) {
        const skippy_block_ref *have = want_of(l)->ref;
        if (have->bytes == ref->bytes && skippy_key_equal(&have->digest, &ref->digest)) return want_of(l);
    }
    return NULL;
}

static void list_wants(put *p) {
    for (size_t i = 0; i < p->m->n_parts; i++) {
        for (size_t k = 0; k < p->m->parts[i].n_blocks; k++) {
            const skippy_block_ref *ref = &p->m->parts[i].blocks[k];
            uint64_t hash;
            memcpy(&hash, ref->digest.bytes, sizeof hash);
            if (find_want(p, ref, hash)) continue;
            want *w = &p->wants[p->n_wants++];
            *w = (want){.ref = ref};
            sk_map_add(&p->by_digest, &w->link, hash);
        }
    }
}

static int open_put(put *p) {
    size_t n_refs = 0;
    for (size_t i = 0; i < p->m->n_parts; i++) {
        if (p->m->parts[i].n_blocks > SIZE_MAX / sizeof(want) - n_refs) return SKIPPY_E_TOO_LARGE;
        n_refs += p->m->parts[i].n_blocks;
    }
    p->entry_size = sk_ram_entry_size(p->m);
    if (p->entry_size == 0) return SKIPPY_E_TOO_LARGE;
    if (!sk_map_init(&p->by_digest, &p->s->outer)) return SKIPPY_E_NOMEM;
    p->wants = sk_mem_alloc_raw(&p->s->outer, n_refs * sizeof *p->wants);
    p->part = sk_mem_alloc(&p->s->outer, p->m->n_parts * sizeof(sk_ram_part *));
    if (!p->wants || !p->part) return SKIPPY_E_NOMEM;
    list_wants(p);
    return SKIPPY_OK;
}

static void close_put(put *p) {
    if (p->by_digest.bucket) sk_map_free(&p->by_digest);
    sk_mem_release(&p->s->outer, p->wants);
    sk_mem_release(&p->s->outer, p->part);
}

/* ---- resolve (locked) ---- */

/* The entry and its parts as if none of them were shared. */
static uint64_t metadata_charge(const put *p) {
    uint64_t sum = sk_ram_charge(p->s, p->entry_size) + (p->s->pooled ? SK_POOL_SLACK : 0);
    for (size_t i = 0; i < p->m->n_parts; i++) sum += sk_ram_part_charge(p->s, p->m->parts[i].n_blocks);
    return sum;
}

static uint64_t growth(const put *p) {
    const skippy_ram_store *s = p->s;
    return sk_ram_table_growth(s, &s->blocks, s->pending_blocks) + sk_ram_table_growth(s, &s->parts, s->pending_parts) +
           sk_ram_table_growth(s, &s->ids, s->pending_entries) +
           sk_ram_table_growth(s, &s->prefixes, s->pending_entries) + sk_ram_array_growth(s, s->pending_entries);
}

static void set_pending(put *p, bool on) {
    if (p->pending == on) return;
    size_t sign = on ? 1 : SIZE_MAX; /* adding SIZE_MAX takes one off */
    p->s->pending_blocks += sign * p->n_missing;
    p->s->pending_parts += sign * p->m->n_parts;
    p->s->pending_entries += sign;
    p->pending = on;
}

/* Is there nothing that could make room by leaving: no entry, no other put, no block that only another thread holds?
 * A put that waits for the lock inside of its own sk_ram_make_room has pins, but no reservation yet. */
static bool alone_in_store(const skippy_ram_store *s, uint64_t own_pins) {
    return s->n_entries == 0 && s->pending_entries == 1 && s->reserved == 0 && s->pinned <= own_pins;
}

static int resolve(put *p) {
    skippy_ram_store *s = p->s;
    uint64_t alone = s->base + metadata_charge(p), need = metadata_charge(p), pins = 0;
    for (size_t i = 0; i < p->n_wants; i++) {
        want *w = &p->wants[i];
        alone += sk_ram_block_charge(s, w->ref->bytes);
        w->block = sk_ram_block_find(s, w->ref);
        if (w->block) {
            sk_ram_block_pin(s, w->block);
            pins += sk_ram_block_charge(s, w->ref->bytes);
            continue;
        }
        w->fresh = true;
        p->n_missing++;
        need += sk_ram_block_charge(s, w->ref->bytes);
    }
    if (alone > s->params.max_bytes) {
        s->stats.refused_too_large++;
        return SKIPPY_E_TOO_LARGE;
    }
    set_pending(p, true);
    need += growth(p);
    if (sk_ram_make_room(s, need) == SKIPPY_OK) {
        p->left = need;
        return SKIPPY_OK;
    }
    if (alone_in_store(s, pins)) { /* nothing is in its way but the tables that it needs */
        s->stats.refused_too_large++;
        return SKIPPY_E_TOO_LARGE;
    }
    s->stats.refused_full++;
    return SKIPPY_E_FULL;
}

/* ---- fetch (unlocked, but for allocation) ---- */

/* Turns a piece of the reservation into allocated memory. */
static void spend(put *p, uint64_t charge) {
    p->left -= charge;
    p->s->reserved -= charge;
}

static sk_ram_block *new_block(put *p, const skippy_block_ref *ref) {
    pthread_mutex_lock(&p->s->lock);
    sk_ram_block *b = sk_ram_block_new(p->s, ref);
    if (b) spend(p, sk_ram_block_charge(p->s, ref->bytes));
    pthread_mutex_unlock(&p->s->lock);
    return b;
}

/* The copy is verified, not the original: what changes under our hands is found, and it is warm in the CPU's cache. */
static int fetch(put *p, want *w, skippy_block_source source, void *ud, uint64_t *hash_ns) {
    const void *data = NULL;
    int status = source(ud, w->ref, &data);
    if (status != SKIPPY_OK) return status;
    w->block = new_block(p, w->ref);
    if (!w->block) return SKIPPY_E_NOMEM;
    if (!data) return SKIPPY_E_CORRUPT;
    if (p->s->pooled) sk_pool_prefault(w->block->data, w->ref->bytes);
    memcpy(w->block->data, data, w->ref->bytes);
    skippy_key digest;
    uint64_t start = sk_now_ns();
    sk_hash(w->block->data, w->ref->bytes, digest.bytes);
    *hash_ns += sk_now_ns() - start;
    return skippy_key_equal(&digest, &w->ref->digest) ? SKIPPY_OK : SKIPPY_E_CORRUPT;
}

static int fetch_all(put *p, skippy_block_source source, void *ud, uint64_t *hash_ns) {
    for (size_t i = 0; i < p->n_wants; i++) {
        if (!p->wants[i].fresh) continue;
        int status = fetch(p, &p->wants[i], source, ud, hash_ns);
        if (status != SKIPPY_OK) return status;
    }
    return SKIPPY_OK;
}

/* ---- commit (locked) ---- */

/* Allocates everything that the commit links, so that the commit itself cannot fail half way. */
static int prepare(put *p) {
    skippy_ram_store *s = p->s;
    for (size_t i = 0; i < p->m->n_parts; i++) {
        if (sk_ram_part_find(s, &p->m->parts[i])) continue;
        p->part[i] = sk_ram_part_new(s, &p->m->parts[i]);
        if (!p->part[i]) return SKIPPY_E_NOMEM;
    }
    p->entry = sk_ram_entry_new(s, p->m, p->entry_size);
    return p->entry && sk_ram_entries_reserve(s) ? SKIPPY_OK : SKIPPY_E_NOMEM;
}

/* A block that was quarantined since it was pinned cannot be used. */
static bool still_good(const put *p) {
    for (size_t i = 0; i < p->n_wants; i++)
        if (!p->wants[i].fresh && !p->wants[i].block->listed) return false;
    return true;
}

static void commit_blocks(put *p) {
    skippy_ram_store *s = p->s;
    for (size_t i = 0; i < p->n_wants; i++) {
        want *w = &p->wants[i];
        if (!w->fresh) continue;
        w->fresh = false;
        if (sk_ram_block_find(s, w->ref)) continue; /* another put was faster: ours is unpinned and thereby freed */
        sk_ram_block_list(s, w->block);
        s->stats.put_bytes += w->ref->bytes;
    }
}

static void commit_parts(put *p) {
    for (size_t i = 0; i < p->m->n_parts; i++) {
        sk_ram_part *known = sk_ram_part_find(p->s, &p->m->parts[i]);
        if (!known) {
            known = p->part[i];
            sk_ram_part_list(p->s, known);
            p->part[i] = NULL;
        }
        p->entry->part[i] = known;
    }
    p->entry->n_parts = p->m->n_parts;
}

static int commit(put *p, uint64_t *id) {
    skippy_ram_store *s = p->s;
    int status = still_good(p) ? prepare(p) : STALE;
    if (status != SKIPPY_OK) return status;
    commit_blocks(p);
    commit_parts(p);
    sk_ram_entry_list(s, p->entry, p->logical);
    s->stats.puts++;
    *id = p->entry->id;
    p->entry = NULL;
    return SKIPPY_OK;
}

/* Lets go of whatever the put still holds. */
static void settle(put *p) {
    skippy_ram_store *s = p->s;
    s->reserved -= p->left;
    set_pending(p, false);
    for (size_t i = 0; i < p->n_wants; i++)
        if (p->wants[i].block) sk_ram_block_unpin(s, p->wants[i].block);
    for (size_t i = 0; i < p->m->n_parts; i++) sk_ram_part_discard(s, p->part[i]);
    if (p->entry) sk_ram_free(s, p->entry, p->entry_size);
    sk_ram_bury(s);
}

static bool already_there(put *p, uint64_t *id) {
    sk_ram_entry *twin = sk_ram_entry_twin(p->s, p->m);
    if (!twin) return false;
    sk_ram_entry_touch(p->s, twin);
    *id = twin->id;
    return true;
}

static int run_locked(put *p, skippy_block_source source, void *ud, uint64_t *id) {
    skippy_ram_store *s = p->s;
    if (already_there(p, id)) return SKIPPY_E_EXISTS;
    int status = resolve(p);
    if (status != SKIPPY_OK) return status;
    uint64_t hash_ns = 0;
    pthread_mutex_unlock(&s->lock);
    status = fetch_all(p, source, ud, &hash_ns);
    pthread_mutex_lock(&s->lock);
    s->stats.hash_ns += hash_ns;
    if (status != SKIPPY_OK) return status;
    if (already_there(p, id)) return SKIPPY_E_EXISTS;
    return commit(p, id);
}

int skippy_ram_put(skippy_ram_store *s, const skippy_manifest *m, skippy_block_source source, void *ud, uint64_t *id) {
    uint64_t logical = 0;
    if (!s || !source || !id || skippy_manifest_check(m, &logical) != SKIPPY_OK) return SKIPPY_E_INVALID;
    *id = 0;
    int status;
    do {
        put p = {.s = s, .m = m, .logical = logical};
        status = open_put(&p);
        if (status == SKIPPY_OK) {
            pthread_mutex_lock(&s->lock);
            status = run_locked(&p, source, ud, id);
            settle(&p);
            pthread_mutex_unlock(&s->lock);
        }
        close_put(&p);
    } while (status == STALE);
    return status;
}
