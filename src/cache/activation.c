#include "skippy/activation.h"

#include <string.h>

#include "cache/map.h"
#include "cache/mem.h"

/* One frame, in one allocation:
 *
 *   +-------+------------------+-----------------+
 *   | entry | frame bytes      | id and its NUL  |
 *   +-------+------------------+-----------------+ */
typedef struct entry {
    sk_map_link link;
    struct entry *older, *newer;
    skippy_key prefix_key;
    skippy_activation_frame frame; /* data points into bytes */
    uint32_t leases;
    char *id;
    _Alignas(16) unsigned char bytes[]; /* aligned for vector loads of the frame */
} entry;

struct skippy_activation_cache {
    skippy_allocator alloc;
    uint64_t max_bytes; /* 0 = no limit */
    uint64_t leased_bytes;
    sk_map ids;
    entry *oldest, *newest;
    skippy_activation_stats stats; /* leased counts entries with at least one lease */
};

static entry *entry_of(sk_map_link *l) {
    return (entry *)(void *)((char *)l - offsetof(entry, link));
}

/* FNV-1a: ids are short and hold a digest, so a simple hash spreads them well. */
static uint64_t id_hash(const char *id) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *id; id++) h = (h ^ (unsigned char)*id) * 0x100000001b3u;
    return h;
}

static entry *find(const skippy_activation_cache *c, const char *id) {
    for (sk_map_link *l = sk_map_first(&c->ids, id_hash(id)); l; l = sk_map_same(l))
        if (strcmp(entry_of(l)->id, id) == 0) return entry_of(l);
    return NULL;
}

/* ---- recency list ---- */

static void list_add_newest(skippy_activation_cache *c, entry *e) {
    e->older = c->newest;
    e->newer = NULL;
    if (c->newest)
        c->newest->newer = e;
    else
        c->oldest = e;
    c->newest = e;
}

static void list_remove(skippy_activation_cache *c, entry *e) {
    if (e->older)
        e->older->newer = e->newer;
    else
        c->oldest = e->newer;
    if (e->newer)
        e->newer->older = e->older;
    else
        c->newest = e->older;
}

static void forget(skippy_activation_cache *c, entry *e) {
    sk_map_remove(&c->ids, &e->link);
    list_remove(c, e);
    c->stats.entries--;
    c->stats.bytes -= e->frame.bytes;
    sk_mem_release(&c->alloc, e);
}

/* ---- life ---- */

int skippy_activation_create(const skippy_allocator *alloc, uint64_t max_bytes, skippy_activation_cache **out) {
    if (!out || !sk_mem_hooks_valid(alloc)) return SKIPPY_E_INVALID;
    *out = NULL;
    skippy_allocator a = sk_mem_hooks(alloc);
    skippy_activation_cache *c = sk_mem_alloc(&a, sizeof *c);
    if (!c) return SKIPPY_E_NOMEM;
    c->alloc = a;
    c->max_bytes = max_bytes;
    if (!sk_map_init(&c->ids, &a)) {
        sk_mem_release(&a, c);
        return SKIPPY_E_NOMEM;
    }
    *out = c;
    return SKIPPY_OK;
}

void skippy_activation_destroy(skippy_activation_cache *c) {
    if (!c) return;
    while (c->oldest) forget(c, c->oldest);
    sk_map_free(&c->ids);
    skippy_allocator a = c->alloc;
    sk_mem_release(&a, c);
}

/* ---- put ---- */

/* True when the frame's bytes are exactly n_tokens x width values of its type. */
static bool frame_valid(const skippy_activation_frame *f) {
    if (!f->data || f->n_tokens == 0 || f->width == 0 || f->dtype > 1) return false;
    uint64_t values = (uint64_t)f->n_tokens * f->width;
    uint64_t value_bytes = f->dtype == 0 ? 4 : 2;
    return values <= UINT64_MAX / value_bytes && f->bytes == values * value_bytes;
}

static entry *entry_new(skippy_activation_cache *c, const char *id, const skippy_key *key,
                        const skippy_activation_frame *frame) {
    size_t id_size = strlen(id) + 1;
    if (frame->bytes > SIZE_MAX - sizeof(entry) - id_size) return NULL;
    entry *e = sk_mem_alloc_raw(&c->alloc, sizeof *e + frame->bytes + id_size);
    if (!e) return NULL;
    memset(e, 0, sizeof *e);
    e->prefix_key = *key;
    e->frame = *frame;
    e->frame.data = e->bytes;
    e->id = (char *)e->bytes + frame->bytes;
    memcpy(e->bytes, frame->data, frame->bytes);
    memcpy(e->id, id, id_size);
    return e;
}

/* Evicts unleased frames, the least recently used first, until `bytes` more fit. The caller has made sure that they
 * can. */
static void make_room(skippy_activation_cache *c, uint64_t bytes) {
    for (entry *e = c->oldest, *newer; e && c->stats.bytes > c->max_bytes - bytes; e = newer) {
        newer = e->newer;
        if (e->leases) continue;
        forget(c, e);
        c->stats.evictions++;
    }
}

int skippy_activation_put(skippy_activation_cache *c, const char *activation_id, const skippy_key *prefix_key,
                          const skippy_activation_frame *frame) {
    if (!c || !activation_id || !prefix_key || !frame || !frame_valid(frame)) return SKIPPY_E_INVALID;
    entry *old = find(c, activation_id);
    if (old && old->leases) return SKIPPY_E_BUSY;
    if (c->max_bytes && frame->bytes > c->max_bytes) {
        c->stats.refused++;
        return SKIPPY_E_TOO_LARGE;
    }
    if (c->max_bytes && c->leased_bytes > c->max_bytes - frame->bytes) {
        c->stats.refused++;
        return SKIPPY_E_FULL;
    }
    entry *e = entry_new(c, activation_id, prefix_key, frame);
    if (!e) return SKIPPY_E_NOMEM;
    if (old) forget(c, old);
    if (c->max_bytes) make_room(c, frame->bytes);
    sk_map_add(&c->ids, &e->link, id_hash(e->id));
    list_add_newest(c, e);
    c->stats.entries++;
    c->stats.bytes += frame->bytes;
    return SKIPPY_OK;
}

/* ---- use ---- */

/* The entry of this id, if it has this key as well. */
static entry *find_exact(const skippy_activation_cache *c, const char *id, const skippy_key *prefix_key) {
    entry *e = find(c, id);
    return e && skippy_key_equal(&e->prefix_key, prefix_key) ? e : NULL;
}

bool skippy_activation_has(const skippy_activation_cache *c, const char *activation_id, const skippy_key *prefix_key) {
    return c && activation_id && prefix_key && find_exact(c, activation_id, prefix_key);
}

int skippy_activation_lease(skippy_activation_cache *c, const char *activation_id, const skippy_key *prefix_key,
                            skippy_activation_frame *out) {
    if (!c || !activation_id || !prefix_key || !out) return SKIPPY_E_INVALID;
    entry *e = find_exact(c, activation_id, prefix_key);
    if (!e) {
        c->stats.misses++;
        return SKIPPY_E_NOT_FOUND;
    }
    if (e->leases == UINT32_MAX) return SKIPPY_E_BUSY;
    if (e->leases++ == 0) {
        c->stats.leased++;
        c->leased_bytes += e->frame.bytes;
    }
    list_remove(c, e);
    list_add_newest(c, e);
    c->stats.hits++;
    *out = e->frame;
    return SKIPPY_OK;
}

int skippy_activation_release(skippy_activation_cache *c, const char *activation_id) {
    if (!c || !activation_id) return SKIPPY_E_INVALID;
    entry *e = find(c, activation_id);
    if (!e) return SKIPPY_E_NOT_FOUND;
    if (e->leases == 0) return SKIPPY_E_INVALID;
    if (--e->leases == 0) {
        c->stats.leased--;
        c->leased_bytes -= e->frame.bytes;
    }
    return SKIPPY_OK;
}

int skippy_activation_drop(skippy_activation_cache *c, const char *activation_id) {
    if (!c || !activation_id) return SKIPPY_E_INVALID;
    entry *e = find(c, activation_id);
    if (!e) return SKIPPY_E_NOT_FOUND;
    if (e->leases) return SKIPPY_E_BUSY;
    forget(c, e);
    return SKIPPY_OK;
}

size_t skippy_activation_clear(skippy_activation_cache *c) {
    if (!c) return 0;
    size_t before = c->stats.entries;
    for (entry *e = c->oldest, *newer; e; e = newer) {
        newer = e->newer;
        if (!e->leases) forget(c, e);
    }
    return before - c->stats.entries;
}

void skippy_activation_get_stats(const skippy_activation_cache *c, skippy_activation_stats *out) {
    *out = c->stats;
}
