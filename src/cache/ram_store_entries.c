/* Entries of the RAM store: their memory, their look-ups, and how they leave. */
#include <string.h>

#include "base/clock.h"
#include "cache/ram_store_internal.h"

/* ---- look-up ---- */

static sk_ram_entry *by_id(sk_map_link *l) {
    return (sk_ram_entry *)(void *)((char *)l - offsetof(sk_ram_entry, by_id));
}

static sk_ram_entry *by_prefix(sk_map_link *l) {
    return (sk_ram_entry *)(void *)((char *)l - offsetof(sk_ram_entry, by_prefix));
}

static uint64_t prefix_hash(const skippy_manifest *m) {
    uint64_t h;
    memcpy(&h, m->prefix_key.bytes, sizeof h);
    return h;
}

sk_ram_entry *sk_ram_entry_find(const skippy_ram_store *s, uint64_t id) {
    for (sk_map_link *l = sk_map_first(&s->ids, sk_map_hash_u64(id)); l; l = sk_map_same(l))
        if (by_id(l)->id == id) return by_id(l);
    return NULL;
}

sk_ram_entry *sk_ram_entry_twin(const skippy_ram_store *s, const skippy_manifest *m) {
    for (sk_map_link *l = sk_map_first(&s->prefixes, prefix_hash(m)); l; l = sk_map_same(l)) {
        sk_ram_entry *e = by_prefix(l);
        if (e->m.payload_kind == m->payload_kind && skippy_key_equal(&e->m.prefix_key, &m->prefix_key) &&
            skippy_key_equal(&e->m.ns, &m->ns))
            return e;
    }
    return NULL;
}

/* ---- memory ---- */

/* One allocation:
 *
 *   +-------+---------------------+--------------------+--------+------------------+
 *   | entry | pointers to parts   | views of the parts | tokens | names and NULs   |
 *   +-------+---------------------+--------------------+--------+------------------+ */
static bool add(size_t *sum, size_t n, size_t each) {
    if (n > (SIZE_MAX - *sum) / each) return false;
    *sum += n * each;
    return true;
}

static size_t name_size(const char *name) {
    return name ? strlen(name) + 1 : 0;
}

size_t sk_ram_entry_size(const skippy_manifest *m) {
    size_t size = sizeof(sk_ram_entry);
    bool fits = add(&size, m->n_parts, sizeof(sk_ram_part *) + sizeof(skippy_part)) &&
                add(&size, m->n_tokens, sizeof *m->tokens) && add(&size, name_size(m->tenant), 1) &&
                add(&size, name_size(m->cache_namespace), 1);
    return fits ? size : 0;
}

static const char *copy_name(char **to, const char *name) {
    if (!name) return NULL;
    size_t size = strlen(name) + 1;
    const char *copy = memcpy(*to, name, size);
    *to += size;
    return copy;
}

sk_ram_entry *sk_ram_entry_new(skippy_ram_store *s, const skippy_manifest *m, size_t size) {
    sk_ram_entry *e = sk_ram_alloc(s, size);
    if (!e) return NULL;
    *e = (sk_ram_entry){.size = size, .m = *m, .hits = m->hits};
    e->part = (sk_ram_part **)(void *)(e + 1);
    skippy_part *views = (skippy_part *)(void *)(e->part + m->n_parts);
    int32_t *tokens = (int32_t *)(void *)(views + m->n_parts);
    char *names = (char *)(tokens + m->n_tokens);
    memcpy(tokens, m->tokens, m->n_tokens * sizeof *tokens);
    e->m.parts = views;
    e->m.tokens = tokens;
    e->m.tenant = copy_name(&names, m->tenant);
    e->m.cache_namespace = copy_name(&names, m->cache_namespace);
    for (size_t i = 0; i < m->n_parts; i++) views[i] = m->parts[i];
    return e;
}

bool sk_ram_entries_reserve(skippy_ram_store *s) {
    size_t needed = s->n_entries + s->pending_entries;
    if (needed <= s->cap_entries) return true;
    size_t cap = s->cap_entries ? s->cap_entries : 16;
    while (cap < needed) cap *= 2;
    /* Not by sk_ram_alloc: the array is counted with the tables. */
    sk_ram_entry **wider = s->alloc.alloc(s->alloc.ud, cap * sizeof(sk_ram_entry *));
    if (!wider) return false;
    if (s->n_entries) memcpy(wider, s->entry, s->n_entries * sizeof(sk_ram_entry *));
    if (s->entry) s->alloc.release(s->alloc.ud, s->entry);
    s->entry = wider;
    s->cap_entries = cap;
    return true;
}

/* ---- coming and going ---- */

void sk_ram_entry_touch(skippy_ram_store *s, sk_ram_entry *e) {
    e->last_use = ++s->clock;
    /* Whoever holds a lease reads the manifest without the lock. */
    if (e->leases) return;
    e->m.hits = e->hits;
    e->m.used_ms = sk_unix_ms();
}

static void count(skippy_ram_store *s, const sk_ram_entry *e, bool comes) {
    uint64_t sign = comes ? 1 : UINT64_MAX; /* adding UINT64_MAX takes one off */
    s->stats.entries += sign;
    s->stats.logical_bytes += sign * e->logical;
    s->stats.block_refs += sign * e->refs_n;
}

void sk_ram_entry_list(skippy_ram_store *s, sk_ram_entry *e, uint64_t logical) {
    e->id = ++s->last_id;
    e->logical = logical;
    skippy_part *views = (skippy_part *)(void *)(e->part + e->m.n_parts);
    for (size_t i = 0; i < e->n_parts; i++) {
        e->part[i]->refs++;
        e->refs_n += e->part[i]->n;
        views[i].blocks = e->part[i]->refs_of;
    }
    sk_map_add(&s->ids, &e->by_id, sk_map_hash_u64(e->id));
    sk_map_add(&s->prefixes, &e->by_prefix, prefix_hash(&e->m));
    e->at = s->n_entries;
    s->entry[s->n_entries++] = e;
    e->last_use = ++s->clock;
    count(s, e, true);
}

static void release_parts(skippy_ram_store *s, sk_ram_entry *e) {
    for (size_t i = 0; i < e->n_parts; i++) sk_ram_part_release(s, e->part[i]);
    e->n_parts = 0;
}

void sk_ram_entry_wipe(sk_ram_entry *e) {
    for (size_t i = 0; i < e->n_parts; i++)
        for (size_t k = 0; k < e->part[i]->n; k++) e->part[i]->block[k]->wipe = true;
}

void sk_ram_entry_retire(skippy_ram_store *s, sk_ram_entry *e, enum skippy_drop_reason reason, sk_ram_entry **chain) {
    e->gone = true;
    e->reason = reason;
    sk_map_remove(&s->prefixes, &e->by_prefix);
    count(s, e, false);
    s->stats.dropped[reason]++;
    if (reason == SKIPPY_DROP_ERASED) sk_ram_entry_wipe(e);
    if (e->leases == 0) release_parts(s, e);
    e->pins++;
    e->next = *chain;
    *chain = e;
}

void sk_ram_entry_settle(skippy_ram_store *s, sk_ram_entry *e) {
    if (!e->gone || e->leases || e->pins) return;
    release_parts(s, e);
    sk_map_remove(&s->ids, &e->by_id);
    s->entry[e->at] = s->entry[--s->n_entries];
    s->entry[e->at]->at = e->at;
    size_t size = e->size;
    explicit_bzero(e, size); /* tokens and names are somebody's words, and small pieces of memory stay in the process */
    sk_ram_free(s, e, size);
}

void sk_ram_tell(skippy_ram_store *s, sk_ram_entry *chain) {
    if (!chain) return;
    pthread_mutex_unlock(&s->lock);
    if (s->params.on_drop)
        for (const sk_ram_entry *e = chain; e; e = e->next) s->params.on_drop(s->params.ud, e->id, e->reason);
    pthread_mutex_lock(&s->lock);
    for (sk_ram_entry *e = chain, *next; e; e = next) {
        next = e->next;
        e->pins--;
        sk_ram_entry_settle(s, e);
    }
    sk_ram_bury(s);
}
