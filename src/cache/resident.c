#include "skippy/resident.h"

#include <math.h>
#include <string.h>

#include "cache/mem.h"

/* One slot per sequence id; an entry's id is serial * id_stride + slot, so it rises with time and finds its slot
 * without a search. */
typedef struct slot {
    skippy_resident_entry e; /* e.id 0: free */
    size_t victim;           /* rank among the victims of the open reservation, from 1; 0: not one of them */
} slot;

struct skippy_resident {
    skippy_allocator alloc;
    skippy_resident_limits limits;
    uint64_t serial; /* of the newest id */
    uint64_t clock;
    skippy_resident_stats stats; /* entries, tokens, cells, bytes and counters are kept; the rest is derived */
    skippy_resident_entry open;  /* the open reservation; id 0: none */
    size_t n_slots;
    size_t id_stride; /* n_slots, at least 1 */
    slot slots[];
};

int skippy_resident_create(const skippy_allocator *alloc, const skippy_resident_limits *limits, skippy_resident **out) {
    if (!limits || !out || !sk_mem_hooks_valid(alloc)) return SKIPPY_E_INVALID;
    *out = NULL;
    if (limits->n_seq_ids < 0 || limits->first_seq_id < 0) return SKIPPY_E_INVALID;
    if (limits->first_seq_id > INT32_MAX - limits->n_seq_ids) return SKIPPY_E_INVALID;
    skippy_allocator a = sk_mem_hooks(alloc);
    size_t n = (size_t)limits->n_seq_ids;
    skippy_resident *r = NULL;
    if (n > (SIZE_MAX - sizeof *r) / sizeof(slot)) return SKIPPY_E_INVALID;
    r = sk_mem_alloc(&a, sizeof *r + n * sizeof(slot));
    if (!r) return SKIPPY_E_NOMEM;
    r->alloc = a;
    r->limits = *limits;
    r->n_slots = n;
    r->id_stride = n ? n : 1;
    *out = r;
    return SKIPPY_OK;
}

void skippy_resident_destroy(skippy_resident *r) {
    if (!r) return;
    skippy_allocator a = r->alloc;
    sk_mem_release(&a, r);
}

static size_t slot_of(const skippy_resident *r, uint64_t id) {
    return (size_t)(id % r->id_stride);
}

static slot *find(skippy_resident *r, uint64_t id) {
    if (id == 0 || r->n_slots == 0) return NULL;
    slot *s = &r->slots[slot_of(r, id)];
    return s->e.id == id ? s : NULL;
}

/* ---- benefit and victims ---- */

double skippy_resident_benefit(const skippy_resident_entry *e, uint64_t clock) {
    double age = clock > e->last_use ? (double)(clock - e->last_use) : 0.0;
    double chance = (1.0 + (double)e->hits) / (1.0 + age);
    double space = (double)e->bytes + (double)e->cells;
    return e->cost * chance / (space > 1.0 ? space : 1.0);
}

/* True when a leaves before b. */
static bool leaves_before(const skippy_resident_entry *a, const skippy_resident_entry *b, uint64_t clock) {
    double x = skippy_resident_benefit(a, clock), y = skippy_resident_benefit(b, clock);
    if (x < y || y < x) return x < y;
    if (a->last_use != b->last_use) return a->last_use < b->last_use;
    return a->id < b->id;
}

/* What has to hold once the victims are gone and the new entry is there. */
typedef struct totals {
    size_t entries;
    uint64_t bytes, cells;
} totals;

/* The first limit that the totals break, SKIPPY_EVICT_REASONS when they keep all. */
static enum skippy_evict_reason broken_limit(const skippy_resident *r, const totals *t) {
    if (t->entries > r->limits.max_entries) return SKIPPY_EVICT_ENTRIES;
    if (t->entries > r->n_slots) return SKIPPY_EVICT_SEQ_IDS;
    if (r->limits.max_bytes && t->bytes > r->limits.max_bytes) return SKIPPY_EVICT_BYTES;
    if (r->limits.max_cells && t->cells > r->limits.max_cells) return SKIPPY_EVICT_CELLS;
    return SKIPPY_EVICT_REASONS;
}

/* An entry without bytes does not help against the byte limit. */
static bool helps(const skippy_resident_entry *e, enum skippy_evict_reason limit) {
    if (limit == SKIPPY_EVICT_BYTES) return e->bytes > 0;
    if (limit == SKIPPY_EVICT_CELLS) return e->cells > 0;
    return true;
}

static slot *next_victim(skippy_resident *r, enum skippy_evict_reason limit) {
    slot *best = NULL;
    for (size_t i = 0; i < r->n_slots; i++) {
        slot *s = &r->slots[i];
        if (!s->e.id || s->e.leases || s->victim || !helps(&s->e, limit)) continue;
        if (!best || leaves_before(&s->e, &best->e, r->clock)) best = s;
    }
    return best;
}

static void take_off(totals *t, const skippy_resident_entry *e) {
    t->entries--;
    t->bytes -= e->bytes;
    t->cells -= e->cells;
}

static void clear_marks(skippy_resident *r) {
    for (size_t i = 0; i < r->n_slots; i++) r->slots[i].victim = 0;
}

static slot *victim_of_rank(skippy_resident *r, size_t rank) {
    for (size_t i = 0; i < r->n_slots; i++)
        if (r->slots[i].victim == rank) return &r->slots[i];
    return NULL;
}

/* Ranks victims until everything fits; false when leases are in the way. A later victim can make an earlier one
 * unnecessary (an entry that leaves for its bytes frees a place, too), so superfluous ones are spared again, the most
 * valuable first. */
static bool mark_victims(skippy_resident *r, totals t, size_t *n_ranks) {
    size_t ranks = 0;
    for (enum skippy_evict_reason limit; (limit = broken_limit(r, &t)) != SKIPPY_EVICT_REASONS;) {
        slot *s = next_victim(r, limit);
        if (!s) return false;
        s->victim = ++ranks;
        take_off(&t, &s->e);
    }
    *n_ranks = ranks;
    for (; ranks > 0; ranks--) {
        slot *s = victim_of_rank(r, ranks);
        totals with = {t.entries + 1, t.bytes + s->e.bytes, t.cells + s->e.cells};
        if (broken_limit(r, &with) != SKIPPY_EVICT_REASONS) continue;
        t = with;
        s->victim = 0;
    }
    return true;
}

/* Writes the ids of the victims in the order of their ranks, at most cap; returns how many there are. */
static size_t list_victims(skippy_resident *r, size_t ranks, uint64_t *victims, size_t cap) {
    size_t n = 0;
    for (size_t rank = 1; rank <= ranks; rank++) {
        const slot *s = victim_of_rank(r, rank);
        if (!s) continue;
        if (n < cap) victims[n] = s->e.id;
        n++;
    }
    return n;
}

/* ---- record: reserve, commit, abort ---- */

static bool fits_alone(const skippy_resident *r, uint64_t cells, uint64_t bytes) {
    totals alone = {1, bytes, cells};
    return broken_limit(r, &alone) == SKIPPY_EVICT_REASONS;
}

static bool cost_valid(double cost) {
    return cost >= 0 && isfinite(cost);
}

static size_t free_slot(const skippy_resident *r, uint64_t first_victim) {
    for (size_t i = 0; i < r->n_slots; i++)
        if (!r->slots[i].e.id) return i;
    return slot_of(r, first_victim);
}

int skippy_resident_reserve(skippy_resident *r, size_t n_tokens, uint64_t cells, uint64_t bytes, double cost,
                            uint64_t *victims, size_t cap, size_t *n_victims, enum skippy_evict_reason *reason,
                            uint64_t *out_id, int32_t *out_seq) {
    if (!r || !n_victims || !reason || !out_id || !out_seq || (cap && !victims)) return SKIPPY_E_INVALID;
    *n_victims = 0;
    if (n_tokens == 0 || !cost_valid(cost)) return SKIPPY_E_INVALID;
    if (r->open.id) return SKIPPY_E_BUSY;
    if (!fits_alone(r, cells, bytes)) {
        r->stats.refused_too_large++;
        return SKIPPY_E_TOO_LARGE;
    }
    if (bytes > UINT64_MAX - r->stats.bytes || cells > UINT64_MAX - r->stats.cells) return SKIPPY_E_INVALID;
    totals t = {r->stats.entries + 1, r->stats.bytes + bytes, r->stats.cells + cells};
    enum skippy_evict_reason asked = broken_limit(r, &t);
    size_t ranks;
    if (!mark_victims(r, t, &ranks)) {
        clear_marks(r);
        r->stats.refused_full++;
        return SKIPPY_E_FULL;
    }
    *n_victims = list_victims(r, ranks, victims, cap);
    if (*n_victims > cap) {
        clear_marks(r);
        return SKIPPY_E_TOO_SMALL;
    }
    size_t at = free_slot(r, *n_victims ? victims[0] : 0);
    *reason = asked;
    r->open = (skippy_resident_entry){.id = ++r->serial * r->id_stride + at,
                                      .seq_id = r->limits.first_seq_id + (int32_t)at,
                                      .n_tokens = n_tokens,
                                      .cells = cells,
                                      .bytes = bytes,
                                      .cost = cost};
    *out_id = r->open.id;
    *out_seq = r->open.seq_id;
    return SKIPPY_OK;
}

int skippy_resident_commit(skippy_resident *r, uint64_t id) {
    if (!r || id == 0 || r->open.id != id) return SKIPPY_E_INVALID;
    for (size_t i = 0; i < r->n_slots; i++)
        if (r->slots[i].victim) return SKIPPY_E_BUSY;
    slot *s = &r->slots[slot_of(r, id)];
    s->e = r->open;
    s->e.last_use = ++r->clock;
    r->stats.entries++;
    r->stats.tokens += s->e.n_tokens;
    r->stats.bytes += s->e.bytes;
    r->stats.cells += s->e.cells;
    r->stats.commits++;
    r->open.id = 0;
    return SKIPPY_OK;
}

int skippy_resident_abort(skippy_resident *r, uint64_t id) {
    if (!r || id == 0 || r->open.id != id) return SKIPPY_E_INVALID;
    clear_marks(r);
    r->open.id = 0;
    r->stats.aborts++;
    return SKIPPY_OK;
}

/* ---- use ---- */

int skippy_resident_lease(skippy_resident *r, uint64_t id) {
    slot *s = r ? find(r, id) : NULL;
    if (!s) return r ? SKIPPY_E_NOT_FOUND : SKIPPY_E_INVALID;
    if (s->e.leases == UINT32_MAX) return SKIPPY_E_BUSY;
    s->e.leases++;
    s->e.hits++;
    s->e.last_use = ++r->clock;
    r->stats.hits++;
    return SKIPPY_OK;
}

int skippy_resident_release(skippy_resident *r, uint64_t id) {
    slot *s = r ? find(r, id) : NULL;
    if (!s) return r ? SKIPPY_E_NOT_FOUND : SKIPPY_E_INVALID;
    if (s->e.leases == 0) return SKIPPY_E_INVALID;
    s->e.leases--;
    s->e.last_use = ++r->clock; /* it was in use until now, however long ago the lease began */
    return SKIPPY_OK;
}

int skippy_resident_drop(skippy_resident *r, uint64_t id, enum skippy_evict_reason reason) {
    if (!r || (unsigned)reason >= SKIPPY_EVICT_REASONS) return SKIPPY_E_INVALID;
    slot *s = find(r, id);
    if (!s) return SKIPPY_E_NOT_FOUND;
    if (s->e.leases) return SKIPPY_E_BUSY;
    r->stats.entries--;
    r->stats.tokens -= s->e.n_tokens;
    r->stats.bytes -= s->e.bytes;
    r->stats.cells -= s->e.cells;
    r->stats.evictions[reason]++;
    *s = (slot){0};
    return SKIPPY_OK;
}

int skippy_resident_charge(skippy_resident *r, uint64_t id, size_t n_tokens, uint64_t cells, uint64_t bytes,
                           double cost) {
    if (!r || n_tokens == 0 || !cost_valid(cost)) return SKIPPY_E_INVALID;
    slot *s = find(r, id);
    if (!s) return SKIPPY_E_NOT_FOUND;
    uint64_t other_bytes = r->stats.bytes - s->e.bytes, other_cells = r->stats.cells - s->e.cells;
    if (bytes > UINT64_MAX - other_bytes || cells > UINT64_MAX - other_cells) return SKIPPY_E_INVALID;
    r->stats.bytes = other_bytes + bytes;
    r->stats.cells = other_cells + cells;
    r->stats.tokens += n_tokens - s->e.n_tokens;
    s->e.n_tokens = n_tokens;
    s->e.cells = cells;
    s->e.bytes = bytes;
    s->e.cost = cost;
    return SKIPPY_OK;
}

/* ---- look ---- */

int skippy_resident_get(const skippy_resident *r, uint64_t id, skippy_resident_entry *out) {
    if (!r || !out) return SKIPPY_E_INVALID;
    if (id == 0 || r->n_slots == 0 || r->slots[slot_of(r, id)].e.id != id) return SKIPPY_E_NOT_FOUND;
    *out = r->slots[slot_of(r, id)].e;
    return SKIPPY_OK;
}

static bool is_listed(const uint64_t *ids, size_t n, uint64_t id) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id) return true;
    return false;
}

size_t skippy_resident_victims(const skippy_resident *r, uint64_t *ids, size_t cap) {
    size_t n = 0;
    while (r && n < cap) {
        const skippy_resident_entry *best = NULL;
        for (size_t i = 0; i < r->n_slots; i++) {
            const skippy_resident_entry *e = &r->slots[i].e;
            if (!e->id || e->leases || is_listed(ids, n, e->id)) continue;
            if (!best || leaves_before(e, best, r->clock)) best = e;
        }
        if (!best) break;
        ids[n++] = best->id;
    }
    return n;
}

uint64_t skippy_resident_victim(const skippy_resident *r) {
    uint64_t id = 0;
    return skippy_resident_victims(r, &id, 1) ? id : 0;
}

size_t skippy_resident_list(const skippy_resident *r, uint64_t *ids, size_t cap) {
    size_t n = 0;
    for (size_t i = 0; i < r->n_slots; i++) {
        uint64_t id = r->slots[i].e.id;
        if (!id) continue;
        /* Insertion sort into the caller's array, which keeps the oldest `cap`. */
        size_t at = n < cap ? n : cap;
        while (at > 0 && ids[at - 1] > id) {
            if (at < cap) ids[at] = ids[at - 1];
            at--;
        }
        if (at < cap) ids[at] = id;
        n++;
    }
    return n;
}

void skippy_resident_get_stats(const skippy_resident *r, skippy_resident_stats *out) {
    *out = r->stats;
    out->leased = 0;
    for (size_t i = 0; i < r->n_slots; i++) out->leased += r->slots[i].e.leases > 0;
    /* The open reservation holds a sequence id of its own unless it waits for a victim's. */
    bool reserved = r->open.id && !r->slots[slot_of(r, r->open.id)].e.id;
    out->free_seq_ids = r->n_slots - r->stats.entries - reserved;
}
