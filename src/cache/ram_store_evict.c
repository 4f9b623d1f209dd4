/* Eviction of the RAM store: which entries leave so that something fits.
 *
 * Cost of a round: O(n) over the entries to score them and make a heap of them, then O(log n) and its blocks for each
 * victim. Scores depend on time, so no order of them could be kept between rounds. A round frees down to soft_bytes:
 * the lower that is, the rarer are rounds. */
#include "cache/ram_store_internal.h"
#include "skippy/benefit.h"

/* ---- benefit ---- */

/* Judged by all bytes of its payload, shared or not: what an entry has for itself alone says little about what dropping
 * it will free once its neighbours are dropped, too (docs/eviction.md compares both). */
static double score_of(const skippy_ram_store *s, const sk_ram_entry *e) {
    const skippy_benefit_input in = {
        .cost_ms = e->m.cost_ms, .total_bytes = (double)e->logical, .hits = e->hits, .age = s->clock - e->last_use};
    return skippy_benefit_score(&in);
}

static bool leaves_before(const sk_ram_entry *a, const sk_ram_entry *b) {
    if (a->score < b->score || b->score < a->score) return a->score < b->score;
    if (a->last_use != b->last_use) return a->last_use < b->last_use;
    return a->id < b->id;
}

/* ---- a heap of candidates at the front of the store's array, whose order means nothing to anybody else ---- */

static void swap(skippy_ram_store *s, size_t i, size_t k) {
    sk_ram_entry *e = s->entry[i];
    s->entry[i] = s->entry[k];
    s->entry[k] = e;
    s->entry[i]->at = i;
    s->entry[k]->at = k;
}

static void sift_down(skippy_ram_store *s, size_t at, size_t n) {
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && leaves_before(s->entry[child + 1], s->entry[child])) child++;
        if (!leaves_before(s->entry[child], s->entry[at])) return;
        swap(s, at, child);
    }
}

static size_t rank_candidates(skippy_ram_store *s) {
    size_t n = 0;
    s->round++;
    for (size_t k = 0; k < s->n_entries; k++) {
        sk_ram_entry *e = s->entry[k];
        if (e->gone || e->leases) continue;
        e->score = score_of(s, e);
        swap(s, k, n++);
    }
    for (size_t at = n / 2; at-- > 0;) sift_down(s, at, n);
    return n;
}

/* ---- room ---- */

/* What the store will occupy once the graveyard is empty and running puts are done. */
static uint64_t committed(const skippy_ram_store *s) {
    uint64_t physical = sk_ram_physical(s);
    return (physical > s->dying ? physical - s->dying : 0) + s->reserved;
}

/* Charge of everything that leased entries hold, without pinned blocks. */
static uint64_t held(skippy_ram_store *s) {
    uint64_t sum = 0;
    s->round++;
    for (size_t k = 0; k < s->n_entries; k++) {
        const sk_ram_entry *e = s->entry[k];
        if (!e->leases) continue;
        sum += sk_ram_charge(s, e->size);
        for (size_t i = 0; i < e->n_parts; i++) {
            sk_ram_part *p = e->part[i];
            if (p->mark == s->round) continue;
            p->mark = s->round;
            sum += sk_ram_part_charge(s, p->n);
            for (size_t b = 0; b < p->n; b++) {
                if (p->block[b]->mark == s->round || p->block[b]->pins) continue;
                p->block[b]->mark = s->round;
                sum += sk_ram_block_charge(s, p->block[b]->ref.bytes);
            }
        }
    }
    return sum;
}

/* Could `need` fit if every entry left that may leave? An estimate from above of what can be freed: pages that small
 * objects share may stay. */
static bool possible(skippy_ram_store *s, uint64_t need) {
    uint64_t stays = held(s) + s->pinned + s->dying;
    uint64_t can_go = s->charged > stays ? s->charged - stays : 0, now = committed(s);
    return need <= s->params.max_bytes && (now > can_go ? now - can_go : 0) <= s->params.max_bytes - need;
}

static bool fits(uint64_t used, uint64_t need, uint64_t limit) {
    return need <= limit && used <= limit - need;
}

static sk_ram_entry *evict(skippy_ram_store *s, uint64_t need) {
    sk_ram_entry *chain = NULL;
    uint64_t leaving = 0; /* the entries' own memory, which is freed after they were told about */
    uint64_t target = need <= s->params.soft_bytes ? s->params.soft_bytes : s->params.max_bytes;
    for (size_t n = rank_candidates(s); n > 0; n--) {
        uint64_t used = committed(s);
        if (fits(used > leaving ? used - leaving : 0, need, target)) break;
        sk_ram_entry *victim = s->entry[0];
        swap(s, 0, n - 1);
        sift_down(s, 0, n - 1);
        leaving += sk_ram_charge(s, victim->size);
        sk_ram_entry_retire(s, victim, SKIPPY_DROP_EVICTED, &chain);
    }
    return chain;
}

int sk_ram_make_room(skippy_ram_store *s, uint64_t need) {
    bool checked = false;
    while (!fits(sk_ram_physical(s) + s->reserved, need, s->params.max_bytes)) {
        if (!checked && !possible(s, need)) return SKIPPY_E_FULL;
        checked = true;
        sk_ram_entry *chain = evict(s, need);
        if (!chain && !s->graveyard) return SKIPPY_E_FULL;
        sk_ram_tell(s, chain);
        sk_ram_bury(s);
    }
    s->reserved += need;
    return SKIPPY_OK;
}
