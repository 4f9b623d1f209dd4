/* Checks every invariant of the RAM store by counting everything anew. */
#include "base/hash.h"
#include "cache/ram_store_internal.h"

typedef struct sums {
    uint64_t entries, leased, logical, refs, block_bytes, charged, dying, pinned;
    size_t listed_parts;
} sums;

/* Calls visit for each element of the table until one says no. */
static bool walk(const sk_map *m, bool (*visit)(void *ud, sk_map_link *l), void *ud) {
    size_t n = 0;
    for (size_t i = 0; i < m->n_buckets; i++)
        for (sk_map_link *l = m->bucket[i]; l; l = l->next, n++)
            if (!visit(ud, l)) return false;
    return n == m->count;
}

static bool reset_block(void *ud, sk_map_link *l) {
    (void)ud;
    sk_ram_block_of(l)->seen = 0;
    return sk_ram_block_of(l)->listed;
}

static bool reset_part(void *ud, sk_map_link *l) {
    (void)ud;
    sk_ram_part *p = sk_ram_part_of(l);
    p->seen = 0;
    return p->listed;
}

/* First visit of a part: its blocks are named once more for each place. Blocks outside the table were reset nowhere, so
 * only listed ones are counted. */
static bool count_part(const skippy_ram_store *s, sk_ram_part *p, sums *sum) {
    uint64_t bytes = 0;
    sum->charged += sk_ram_part_charge(s, p->n);
    sum->listed_parts += p->listed;
    for (size_t i = 0; i < p->n; i++) {
        sk_ram_block *b = p->block[i];
        if (b->ref.bytes != p->refs_of[i].bytes || !skippy_key_equal(&b->ref.digest, &p->refs_of[i].digest))
            return false;
        if (!b->listed && !p->bad) return false;
        b->seen++;
        bytes += b->ref.bytes;
    }
    return bytes == p->bytes;
}

static bool count_entry(const skippy_ram_store *s, const sk_ram_entry *e, sums *sum) {
    uint64_t refs = 0, logical = 0;
    sum->charged += sk_ram_charge(s, e->size);
    sum->leased += e->leases > 0;
    for (size_t i = 0; i < e->n_parts; i++) {
        sk_ram_part *p = e->part[i];
        if (p->mark != s->round) {
            p->mark = s->round;
            p->seen = 0;
            if (!count_part(s, p, sum)) return false;
        }
        p->seen++;
        refs += p->n;
        logical += p->bytes;
        if (e->m.parts[i].blocks != p->refs_of || e->m.parts[i].n_blocks != p->n) return false;
    }
    if (e->gone) return true;
    sum->entries++;
    sum->logical += logical;
    sum->refs += refs;
    return logical == e->logical && refs == e->refs_n && sk_ram_entry_twin(s, &e->m) == e;
}

static bool parts_agree(const skippy_ram_store *s) {
    for (size_t k = 0; k < s->n_entries; k++)
        for (size_t i = 0; i < s->entry[k]->n_parts; i++)
            if (s->entry[k]->part[i]->seen != s->entry[k]->part[i]->refs) return false;
    return true;
}

typedef struct block_walk {
    const skippy_ram_store *s;
    sums *sum;
    bool verify;
} block_walk;

static bool block_agrees(void *ud, sk_map_link *l) {
    block_walk *w = ud;
    const sk_ram_block *b = sk_ram_block_of(l);
    w->sum->block_bytes += b->ref.bytes;
    w->sum->charged += sk_ram_block_charge(w->s, b->ref.bytes);
    if (b->pins) w->sum->pinned += sk_ram_block_charge(w->s, b->ref.bytes);
    if (b->seen != b->refs || (b->refs == 0 && b->pins == 0)) return false;
    if (!w->verify) return true;
    skippy_key digest;
    sk_hash(b->data, b->ref.bytes, digest.bytes);
    return skippy_key_equal(&digest, &b->ref.digest);
}

static bool graveyard_agrees(const skippy_ram_store *s, sums *sum) {
    for (sk_map_link *l = s->graveyard ? &s->graveyard->link : NULL; l; l = l->next) {
        const sk_ram_block *b = sk_ram_block_of(l);
        if (b->listed || b->refs || b->pins) return false;
        sum->dying += sk_ram_block_charge(s, b->ref.bytes);
        sum->charged += sk_ram_block_charge(s, b->ref.bytes);
    }
    return true;
}

/* Sums that running puts and quarantined blocks take part in can only be compared from one side. */
static bool sums_agree(const skippy_ram_store *s, const sums *sum) {
    const skippy_store_stats *t = &s->stats;
    return sum->entries == t->entries && sum->entries == s->prefixes.count && sum->leased == t->leased &&
           s->ids.count == s->n_entries && sum->logical == t->logical_bytes && sum->refs == t->block_refs &&
           sum->block_bytes == t->block_bytes && sum->listed_parts == s->parts.count && sum->dying == s->dying &&
           sum->charged <= s->charged && sum->pinned <= s->pinned &&
           (sk_ram_physical(s) + s->pool.warm <= s->params.max_bytes || s->n_entries == 0);
}

static bool check_locked(skippy_ram_store *s, bool verify) {
    sums sum = {0};
    if (!walk(&s->blocks, reset_block, NULL) || !walk(&s->parts, reset_part, NULL)) return false;
    s->round++;
    for (size_t k = 0; k < s->n_entries; k++) {
        const sk_ram_entry *e = s->entry[k];
        if (e->at != k || sk_ram_entry_find(s, e->id) != e || !count_entry(s, e, &sum)) return false;
    }
    block_walk w = {s, &sum, verify};
    return parts_agree(s) && walk(&s->blocks, block_agrees, &w) && graveyard_agrees(s, &sum) && sums_agree(s, &sum);
}

int skippy_ram_check(skippy_ram_store *s, bool verify) {
    if (!s) return SKIPPY_E_INVALID;
    pthread_mutex_lock(&s->lock);
    bool good = check_locked(s, verify);
    pthread_mutex_unlock(&s->lock);
    return good ? SKIPPY_OK : SKIPPY_E_CORRUPT;
}
