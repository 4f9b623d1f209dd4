/* The byte limit: what of this store leaves so that something new fits, and what of the directory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/disk_internal.h"
#include "cache/disk_sibling.h"
#include "cache/mem.h"
#include "skippy/benefit.h"

/* Evicting leaves dead bytes inside of segments, and compacting frees them at the price of copying what lives beside
 * them. So more is evicted than what is needed, by this share of the limit: then the segment that is compacted has many
 * dead bytes to give for few copied ones. */
enum { SLACK_SHARE = 16 };

/* ---- the directory ---- */

typedef struct directory {
    const char *own;
    uint64_t used;     /* by the other stores */
    uint64_t reserved; /* that and what those of them that are in use may still claim */
    size_t owned;
    uint64_t share; /* set before the second walk */
    char idle[65];  /* the store without an owner that was used longest ago; "" = none */
    uint64_t idle_ns;
} directory;

static int note_store(void *ud, const sk_sibling *store) {
    directory *d = ud;
    if (strcmp(store->name, d->own) == 0) return 0;
    d->used += store->bytes;
    d->reserved += store->owned && store->bytes < d->share ? d->share : store->bytes;
    if (store->owned) {
        d->owned++;
    } else if (!d->idle[0] || store->used_ns < d->idle_ns) {
        size_t len = strlen(store->name);
        memcpy(d->idle, store->name, len + 1); /* a valid name: at most 64 characters */
        d->idle_ns = store->used_ns;
    }
    return 0;
}

/* Looks at the directory. Every store in use is left at least half of an equal share, so that one that came first
 * cannot keep those that come later from storing anything. */
static int survey(const skippy_disk_store *s, directory *d) {
    int result;
    uint64_t share = 0;
    for (int pass = 0; pass < 2; pass++) {
        memset(d, 0, sizeof *d);
        d->own = s->name;
        d->share = share;
        int err = sk_sibling_walk(&s->io, s->root_fd, note_store, d, &result);
        if (err) return err;
        share = s->max_bytes / (2 * (d->owned + 1));
    }
    return 0;
}

/* What this store may occupy. */
static uint64_t allowance(const skippy_disk_store *s, const directory *d) {
    return d->reserved < s->max_bytes ? s->max_bytes - d->reserved : 0;
}

/* ---- own entries ---- */

typedef struct candidate {
    double score;
    uint64_t tick, id;
} candidate;

/* Worth least first; then used longest ago, then oldest. */
static int by_worth(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? -1 : 1;
    if (x->tick != y->tick) return x->tick < y->tick ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static double score_of(const skippy_disk_store *s, const sk_disk_entry *e) {
    const skippy_benefit_input in = {
        .cost_ms = e->m.cost_ms, .total_bytes = (double)e->logical_bytes, .hits = e->hits, .age = s->tick - e->tick};
    return skippy_benefit_score(&in);
}

/* The entries that may leave, in the order in which they should. NULL when out of memory. Under mu. */
static candidate *candidates(skippy_disk_store *s, size_t *n) {
    candidate *list = sk_mem_alloc(&s->alloc, ((size_t)s->ix.n_entries + 1) * sizeof *list);
    *n = 0;
    if (!list) return NULL;
    for (const sk_disk_entry *e = s->ix.first; e; e = e->next)
        if (!e->leases) list[(*n)++] = (candidate){score_of(s, e), e->tick, e->id};
    qsort(list, *n, sizeof *list, by_worth);
    return list;
}

/* Bytes that would be gone after everything dead is compacted away. Under mu. */
static uint64_t reclaimable(const skippy_disk_store *s) {
    uint64_t bytes = 0, live = sk_log_live_bytes(s);
    for (const sk_segment *g = s->ix.segments; g; g = g->next) bytes += g->live ? sk_segment_dead(g) : g->size;
    return bytes + (s->journal_bytes > live ? s->journal_bytes - live : 0);
}

/* Evicts until `want` bytes can be reclaimed, or nothing more can leave. *n says how many left. */
static int evict(skippy_disk_store *s, uint64_t want, size_t *n, sk_err *err) {
    size_t n_candidates;
    *n = 0;
    pthread_mutex_lock(&s->mu);
    candidate *list = candidates(s, &n_candidates);
    for (size_t i = 0; list && i < n_candidates && reclaimable(s) < want; i++, ++*n)
        sk_disk_entry_leave(s, sk_index_entry_find(&s->ix, list[i].id), SKIPPY_DROP_EVICTED, &s->left);
    pthread_mutex_unlock(&s->mu);
    if (!list) return sk_err_set(err, SKIPPY_E_NOMEM, "no memory to choose what to evict");
    sk_mem_release(&s->alloc, list);
    return SKIPPY_OK;
}

/* ---- freeing ---- */

/* Compacts what has most to give: the journal or a segment. SKIPPY_E_FULL when neither has anything. */
static int reclaim_most(skippy_disk_store *s, sk_err *err) {
    pthread_mutex_lock(&s->mu);
    sk_segment *victim = sk_compact_victim(s);
    uint64_t live = sk_log_live_bytes(s), dead = victim ? sk_segment_dead(victim) : 0;
    uint64_t journal_dead = s->journal_bytes > live ? s->journal_bytes - live : 0;
    pthread_mutex_unlock(&s->mu);
    if (!dead && !journal_dead) return SKIPPY_E_FULL;
    return journal_dead > dead ? sk_log_checkpoint(s, err) : sk_compact_segment(s, victim, err);
}

static uint64_t own_bytes(skippy_disk_store *s, uint64_t *can_reclaim) {
    pthread_mutex_lock(&s->mu);
    uint64_t bytes = sk_disk_physical(s);
    *can_reclaim = reclaimable(s);
    pthread_mutex_unlock(&s->mu);
    return bytes;
}

static int refuse(const skippy_disk_store *s, uint64_t need, sk_err *err) {
    return sk_err_set(err, SKIPPY_E_FULL,
                      "%s/%s: %llu bytes do not fit: what is there is in use, or belongs to other stores in use",
                      s->dir, s->name, (unsigned long long)need);
}

/* A request for room that is being fulfilled. */
typedef struct request {
    uint64_t need;
    uint64_t last_own; /* before the last compaction; UINT64_MAX = the last step was another one */
} request;

/* Lets entries leave, the files of segments that die with it at once, and tells the journal. */
static int evict_some(skippy_disk_store *s, uint64_t want, const request *r, sk_err *err) {
    size_t n;
    int status = evict(s, want, &n, err);
    if (status != SKIPPY_OK) return status;
    if (n == 0) return refuse(s, r->need, err);
    status = sk_segment_remove_dead(s, err);
    return status == SKIPPY_OK ? sk_log_drops(s, false, err) : status;
}

/* One step towards `over` fewer bytes. Moving a few bytes can cost as much as it gives (headers of new segments): after
 * a step that gave nothing an entry has to go. */
static int shrink(skippy_disk_store *s, uint64_t over, request *r, sk_err *err) {
    uint64_t can_reclaim, own = own_bytes(s, &can_reclaim);
    bool stuck = own >= r->last_own;
    if (can_reclaim < over || stuck) {
        uint64_t want = over + s->max_bytes / SLACK_SHARE;
        r->last_own = UINT64_MAX;
        return evict_some(s, want > can_reclaim ? want : can_reclaim + 1, r, err);
    }
    r->last_own = own;
    int status = reclaim_most(s, err);
    return status == SKIPPY_E_FULL ? refuse(s, r->need, err) : status;
}

static int remove_idle(skippy_disk_store *s, const char *name, sk_err *err) {
    int errnum = sk_sibling_remove(&s->io, s->root_fd, name);
    /* Somebody opened it or removed it meanwhile: the next look at the directory tells. */
    if (errnum == 0 || errnum == EAGAIN || errnum == ENOENT || errnum == ESTALE) return SKIPPY_OK;
    return sk_disk_write_failed(s, err, "remove a store that nobody uses from beside", name, errnum);
}

int sk_evict_for(skippy_disk_store *s, uint64_t need, sk_err *err) {
    request r = {need, UINT64_MAX};
    int status = SKIPPY_OK;
    while (s->max_bytes && status == SKIPPY_OK) {
        directory d;
        uint64_t can_reclaim, own = own_bytes(s, &can_reclaim);
        int errnum = survey(s, &d);
        if (errnum) return sk_disk_write_failed(s, err, "look at the stores beside", NULL, errnum);
        if (d.reserved + own + need <= s->max_bytes) return SKIPPY_OK;
        status = d.idle[0] ? remove_idle(s, d.idle, err) : shrink(s, own + need - allowance(s, &d), &r, err);
    }
    return status;
}

bool sk_evict_due(skippy_disk_store *s) {
    directory d;
    uint64_t can_reclaim;
    if (s->max_bytes == 0 || survey(s, &d) != 0) return false;
    uint64_t own = own_bytes(s, &can_reclaim);
    if (d.reserved + own <= s->max_bytes) return false;
    pthread_mutex_lock(&s->mu);
    bool can = d.idle[0] || can_reclaim || s->ix.n_entries > s->ix.n_leased;
    pthread_mutex_unlock(&s->mu);
    return can;
}
