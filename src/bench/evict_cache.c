#include "bench/evict_cache.h"

#include <stdlib.h>

#include "skippy/benefit.h"

/* The first n blocks of a prompt; path points into the trace. */
typedef struct entry {
    const uint32_t *path;
    size_t n;
    uint64_t hits, stored, last_use; /* both times in ticks of the cache's clock */
} entry;

struct sk_evict_cache {
    const sk_evict_trace *trace;
    const sk_evict_memory *memory;
    enum sk_evict_policy policy;
    uint64_t capacity;
    uint64_t clock;   /* one tick for each hit and each recorded prefix */
    uint32_t *owners; /* of each block: entries that hold it */
    entry *entries;   /* in no order */
    size_t n;
    sk_evict_totals totals;
};

const char *sk_evict_policy_name(enum sk_evict_policy p) {
    static const char *const names[SK_EVICT_POLICIES] = {"fifo", "lru", "benefit"};
    return p < SK_EVICT_POLICIES ? names[p] : "unknown";
}

double sk_evict_cost_ms(const sk_evict_memory *m, uint64_t n_tokens) {
    const double n = (double)n_tokens;
    return m->token_ms * (n + n * n / (2 * m->attention_equal));
}

sk_evict_cache *sk_evict_cache_create(const sk_evict_trace *t, const sk_evict_memory *m, enum sk_evict_policy p,
                                      uint64_t capacity) {
    sk_evict_cache *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    /* A request records two entries at most (its end and a learned boundary). */
    const size_t most = 2 * t->n_requests + 1;
    *c = (sk_evict_cache){.trace = t, .memory = m, .policy = p, .capacity = capacity};
    c->owners = calloc(t->n_blocks + 1, sizeof *c->owners);
    c->entries = calloc(most, sizeof *c->entries);
    if (c->owners && c->entries) return c;
    sk_evict_cache_destroy(c);
    return NULL;
}

void sk_evict_cache_destroy(sk_evict_cache *c) {
    if (!c) return;
    free(c->owners);
    free(c->entries);
    free(c);
}

/* ---- entries and blocks ---- */

/* Equal block numbers at the same depth mean equal prefixes, so one comparison tells whether an entry begins so. */
static bool begins_with(const entry *e, const uint32_t *path, size_t n) {
    return n > 0 && e->n >= n && e->path[n - 1] == path[n - 1];
}

static void hold(sk_evict_cache *c, const entry *e) {
    for (size_t i = 0; i < e->n; i++)
        if (c->owners[e->path[i]]++ == 0) c->totals.used_bytes += c->memory->block_bytes;
    c->totals.used_bytes += c->memory->tail_bytes;
}

static void drop(sk_evict_cache *c, size_t at) {
    const entry *e = &c->entries[at];
    for (size_t i = 0; i < e->n; i++)
        if (--c->owners[e->path[i]] == 0) c->totals.used_bytes -= c->memory->block_bytes;
    c->totals.used_bytes -= c->memory->tail_bytes;
    c->entries[at] = c->entries[--c->n];
}

/* Of a prefix that shares nothing. */
static uint64_t bytes_alone(const sk_evict_cache *c, size_t n_blocks) {
    return n_blocks * c->memory->block_bytes + c->memory->tail_bytes;
}

static size_t held_blocks(const sk_evict_cache *c, const uint32_t *path, size_t n) {
    size_t held = 0;
    while (held < n && c->owners[path[held]]) held++;
    return held;
}

/* The entry that is exactly this prefix; c->n when there is none. */
static size_t find(const sk_evict_cache *c, const uint32_t *path, size_t n) {
    size_t i = 0;
    while (i < c->n && !(c->entries[i].n == n && begins_with(&c->entries[i], path, n))) i++;
    return i;
}

/* ---- policies ---- */

/* Larger stays longer. */
static double worth(const sk_evict_cache *c, const entry *e) {
    if (c->policy == SK_EVICT_FIFO) return (double)e->stored;
    if (c->policy == SK_EVICT_LRU) return (double)e->last_use;
    const skippy_benefit_input in = {.cost_ms = sk_evict_cost_ms(c->memory, e->n * SK_EVICT_BLOCK_TOKENS),
                                     .total_bytes = (double)bytes_alone(c, e->n),
                                     .hits = e->hits,
                                     .age = c->clock - e->last_use};
    return skippy_benefit_score(&in);
}

/* Drops the least worthy entry but the newest one; ties: oldest use first. */
static void evict_one(sk_evict_cache *c) {
    size_t victim = c->n;
    double least = 0;
    for (size_t i = 0; i < c->n; i++) {
        const entry *e = &c->entries[i];
        if (e->last_use == c->clock) continue;
        const double w = worth(c, e);
        const bool tie = victim < c->n && !(w < least) && !(w > least);
        if (victim == c->n || w < least || (tie && e->last_use < c->entries[victim].last_use)) {
            victim = i;
            least = w;
        }
    }
    drop(c, victim);
    c->totals.evicted++;
}

/* ---- a request ---- */

/* Blocks of the path that the cache can serve; *at is the entry that serves them. */
static size_t look_up(const sk_evict_cache *c, const uint32_t *path, size_t n, size_t *at) {
    const size_t held = held_blocks(c, path, n);
    size_t best = 0;
    *at = c->n;
    for (size_t i = 0; i < c->n; i++) {
        const entry *e = &c->entries[i];
        const size_t usable = c->memory->any_prefix ? held : e->n;
        if (usable > held || usable == 0 || usable < best || !begins_with(e, path, usable)) continue;
        /* several entries hold it: the one that was used last, as the index does */
        if (usable == best && e->last_use < c->entries[*at].last_use) continue;
        best = usable;
        *at = i;
    }
    return best;
}

/* Drops the beginnings of a new prefix; returns the most hits that one of them had. */
static uint64_t supersede(sk_evict_cache *c, const uint32_t *path, size_t n) {
    uint64_t hits = 0;
    for (size_t i = c->n; i-- > 0;) {
        const entry *e = &c->entries[i];
        if (e->n >= n || e->path[e->n - 1] != path[e->n - 1]) continue;
        if (e->hits > hits) hits = e->hits;
        drop(c, i);
        c->totals.superseded++;
    }
    return hits;
}

static void record(sk_evict_cache *c, const uint32_t *path, size_t n) {
    if (n == 0) return;
    c->clock++;
    const size_t same = find(c, path, n);
    if (same < c->n) {
        c->entries[same].last_use = c->clock;
        return;
    }
    if (bytes_alone(c, n) > c->capacity) {
        c->totals.refused++;
        return;
    }
    entry e = {.path = path, .n = n, .stored = c->clock, .last_use = c->clock};
    hold(c, &e);
    if (c->memory->any_prefix) e.hits = supersede(c, path, n);
    c->entries[c->n++] = e;
    c->totals.stored++;
    while (c->totals.used_bytes > c->capacity) evict_one(c);
}

static void count(sk_evict_cache *c, const sk_evict_request *r, size_t saved) {
    sk_evict_totals *t = &c->totals;
    const uint64_t tokens = saved * SK_EVICT_BLOCK_TOKENS;
    t->requests++;
    t->hits += saved > 0;
    t->tokens += r->input_tokens;
    t->saved_tokens += tokens;
    t->cost_ms += sk_evict_cost_ms(c->memory, r->input_tokens);
    t->saved_ms += sk_evict_cost_ms(c->memory, tokens);
}

size_t sk_evict_cache_request(sk_evict_cache *c, const sk_evict_request *r) {
    const uint32_t *path = c->trace->path + r->first;
    const size_t held = held_blocks(c, path, r->n_blocks);
    size_t at = 0;
    const size_t saved = look_up(c, path, r->n_blocks, &at);
    if (saved) {
        c->entries[at].hits++;
        c->entries[at].last_use = ++c->clock;
    }
    if (!c->memory->any_prefix && held > saved && held < r->n_blocks) record(c, path, held);
    record(c, path, r->n_blocks);
    if (c->totals.used_bytes > c->totals.peak_bytes) c->totals.peak_bytes = c->totals.used_bytes;
    count(c, r, saved);
    return saved;
}

sk_evict_totals sk_evict_cache_totals(const sk_evict_cache *c) {
    return c->totals;
}

int sk_evict_simulate(const sk_evict_trace *t, const sk_evict_memory *m, enum sk_evict_policy p, uint64_t capacity,
                      sk_evict_totals *out) {
    sk_evict_cache *c = sk_evict_cache_create(t, m, p, capacity);
    if (!c) return SKIPPY_E_NOMEM;
    for (size_t i = 0; i < t->n_requests; i++) sk_evict_cache_request(c, &t->requests[i]);
    *out = sk_evict_cache_totals(c);
    sk_evict_cache_destroy(c);
    return SKIPPY_OK;
}
