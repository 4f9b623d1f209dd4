#include "reuse/reuse.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum { MAX_VICTIMS = 256 };

int sk_reuse_init(sk_reuse *r, const sk_reuse_params *p, sk_err *e) {
    memset(r, 0, sizeof *r);
    r->ctx = p->ctx;
    r->enabled = !p->off && p->policy->mode != SK_CACHE_DISABLED && p->n_seqs > 0;
    r->exact = p->policy->exact_boundaries;
    r->cost = p->cost;
    r->min_tokens = p->min_tokens;
    r->align = p->align;
    r->next_terminal = 1;
    sk_terminal_init(&r->terminal, p->n_vocab, p->logits_bytes);
    skippy_resident_limits limits = {
        .max_entries = r->enabled ? p->n_seqs : 0,
        .first_seq_id = (int32_t)p->first_seq,
        .n_seq_ids = (int32_t)p->n_seqs,
    };
    if (skippy_index_create(NULL, &r->index) || skippy_resident_create(NULL, &limits, &r->resident)) {
        sk_reuse_free(r);
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the cache index");
    }
    return SKIPPY_OK;
}

static void entry_free(sk_reuse_entry *x) {
    sk_prefix_free(&x->prefix);
    sk_lineage_release(x->lineage);
}

void sk_reuse_free(sk_reuse *r) {
    for (size_t i = 0; i < r->n_entries; i++) entry_free(&r->entries[i]);
    free(r->entries);
    if (r->index) skippy_index_destroy(r->index);
    if (r->resident) skippy_resident_destroy(r->resident);
    sk_terminal_free(&r->terminal);
    memset(r, 0, sizeof *r);
}

sk_reuse_entry *sk_reuse_entry_at(const sk_reuse *r, uint64_t id) {
    for (size_t i = 0; i < r->n_entries; i++)
        if (r->entries[i].id == id) return &r->entries[i];
    return NULL;
}

/* Takes an entry out of the index, the runtime and the books, in this order: nobody can find it before its state is
 * gone. */
static int drop_entry(sk_reuse *r, uint64_t id, enum skippy_evict_reason why) {
    sk_reuse_entry *x = sk_reuse_entry_at(r, id);
    if (!x) return SKIPPY_E_NOT_FOUND;
    skippy_resident_entry info;
    if (skippy_resident_get(r->resident, id, &info) == SKIPPY_OK && info.leases > 0) return SKIPPY_E_BUSY;
    bool for_room = why == SKIPPY_EVICT_ENTRIES || why == SKIPPY_EVICT_BYTES || why == SKIPPY_EVICT_CELLS ||
                    why == SKIPPY_EVICT_SEQ_IDS;
    if (for_room && r->before_evict) r->before_evict(r->ud, x);
    skippy_index_remove(r->index, sk_index_id(id, SK_TAG_ENTRY));
    sk_context_seq_clear(r->ctx, x->seq);
    skippy_resident_drop(r->resident, id, why);
    entry_free(x);
    sk_reuse_entry *last = &r->entries[--r->n_entries];
    *x = *last;
    *last = (sk_reuse_entry){0};
    return SKIPPY_OK;
}

typedef struct aligned {
    size_t align, limit;
    sk_reuse_hit *hit;
} aligned;

static int visit_aligned(void *ud, const skippy_residency *res, size_t length) {
    aligned *a = ud;
    if (length <= a->limit && length % a->align == 0) {
        a->hit->tier[res->tier].length = length;
        a->hit->tier[res->tier].id = sk_index_native(res->id);
    }
    return 0;
}

/* Longest stored boundaries below the whole prompt that may begin a longer one. */
static void find_aligned(const sk_reuse *r, const skippy_key *ns, const int32_t *tokens, size_t n, sk_reuse_hit *hit) {
    aligned a = {.align = r->align, .limit = n - 1, .hit = hit};
    skippy_index_walk(r->index, ns, tokens, n, visit_aligned, &a);
}

void sk_reuse_find(const sk_reuse *r, const skippy_key *ns, const int32_t *tokens, size_t n, sk_reuse_hit *out) {
    memset(out, 0, sizeof *out);
    skippy_match m, below = {0};
    if (!r->enabled || skippy_index_match(r->index, ns, tokens, n, n, &m) != SKIPPY_OK) return;
    out->common = m.common;
    bool whole[SKIPPY_TIER_COUNT], cut = false;
    for (int t = 0; t < SKIPPY_TIER_COUNT; t++) {
        out->tier[t].terminal = sk_index_native(m.terminal[t]);
        whole[t] = m.state[t].length == n && (m.terminal[t] || m.terminal[SKIPPY_TIER_RESIDENT]);
        cut = cut || (m.state[t].length == n && !whole[t]);
    }
    /* Without its logits the last token has to be computed, so only shorter states count. */
    if (r->align > 1)
        find_aligned(r, ns, tokens, n, out);
    else if (cut && n > 1)
        skippy_index_match(r->index, ns, tokens, n, n - 1, &below);
    for (int t = 0; t < SKIPPY_TIER_COUNT; t++) {
        if (!whole[t] && r->align > 1) continue;
        const skippy_match *from = m.state[t].length < n || whole[t] ? &m : &below;
        out->tier[t].length = from->state[t].length;
        out->tier[t].id = sk_index_native(from->state[t].id);
    }
}

const float *sk_reuse_logits(sk_reuse *r, uint64_t terminal) {
    return sk_terminal_get(&r->terminal, terminal);
}

int sk_reuse_restore(sk_reuse *r, uint64_t entry, size_t length, uint32_t lane, sk_lineage **lineage, sk_err *e) {
    sk_reuse_entry *x = sk_reuse_entry_at(r, entry);
    if (!x) return sk_err_set(e, SKIPPY_E_NOT_FOUND, "the entry is gone");
    if (skippy_resident_lease(r->resident, entry)) return sk_err_set(e, SKIPPY_E_NOT_FOUND, "the entry is gone");
    int rc = sk_context_seq_copy(r->ctx, x->seq, lane, (uint32_t)length, e);
    skippy_resident_release(r->resident, entry);
    x->used_ms = r->computed_ms;
    if (rc == SKIPPY_OK) *lineage = sk_lineage_cut(x->lineage, length);
    if (rc == SKIPPY_E_CORRUPT || rc == SKIPPY_E_INVALID) {
        sk_log(SK_LOG_WARN, "a stored prefix of %zu tokens could not be restored and was dropped: %s", length, e->text);
        drop_entry(r, entry, SKIPPY_EVICT_FAULT);
    }
    return rc;
}

typedef struct shorter {
    size_t nearest;          /* longest stored boundary below the new one */
    uint64_t superseded[16]; /* entries that the new one covers */
    size_t n_superseded;
    size_t n;
    bool exact;
} shorter;

static int visit_shorter(void *ud, const skippy_residency *res, size_t length) {
    shorter *s = ud;
    if (length >= s->n || res->tier != SKIPPY_TIER_RESIDENT) return 0;
    if (length > s->nearest) s->nearest = length;
    if (!s->exact && s->n_superseded < sizeof s->superseded / sizeof *s->superseded)
        s->superseded[s->n_superseded++] = sk_index_native(res->id);
    return 0;
}

/* True when an equal or longer stored path makes a record of these tokens pointless. */
static bool covered(sk_reuse *r, const sk_prefix *p) {
    skippy_match m;
    if (skippy_index_match(r->index, &p->ns, p->tokens, p->n_tokens, p->n_tokens, &m) != SKIPPY_OK ||
        m.state[SKIPPY_TIER_RESIDENT].length != p->n_tokens)
        return false;
    uint64_t id = sk_index_native(m.state[SKIPPY_TIER_RESIDENT].id);
    if (skippy_resident_lease(r->resident, id) == SKIPPY_OK)
        skippy_resident_release(r->resident, id); /* refresh its recency */
    sk_reuse_entry *x = sk_reuse_entry_at(r, id);
    if (x) x->used_ms = r->computed_ms;
    return true;
}

/* The newest entry stands behind those that it begins with, and before those that begin with it. */
static void count_deeper(sk_reuse *r) {
    sk_reuse_entry *x = &r->entries[r->n_entries - 1];
    for (size_t i = 0; i + 1 < r->n_entries; i++) {
        sk_reuse_entry *y = &r->entries[i];
        sk_reuse_entry *shorter_one = x->prefix.n_tokens < y->prefix.n_tokens ? x : y;
        size_t n = shorter_one->prefix.n_tokens;
        if (x->prefix.n_tokens != y->prefix.n_tokens && skippy_key_equal(&x->prefix.ns, &y->prefix.ns) &&
            memcmp(x->prefix.tokens, y->prefix.tokens, n * sizeof *x->prefix.tokens) == 0)
            shorter_one->deeper++;
    }
}

static int add_entry(sk_reuse *r, const sk_reuse_entry *x) {
    if (r->n_entries == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 16;
        sk_reuse_entry *grown = realloc(r->entries, cap * sizeof *grown);
        if (!grown) return SKIPPY_E_NOMEM;
        r->entries = grown;
        r->cap = cap;
    }
    r->entries[r->n_entries++] = *x;
    if (r->exact && r->before_evict) count_deeper(r); /* only the choice of what to store asks */
    return SKIPPY_OK;
}

/* Native copy, books, index. On failure everything is as before. */
static int publish(sk_reuse *r, sk_reuse_entry *x, uint32_t lane, sk_err *e) {
    int rc = sk_context_seq_snapshot(r->ctx, lane, x->seq, e);
    if (rc) return rc;
    skippy_residency res = {.id = sk_index_id(x->id, SK_TAG_ENTRY),
                            .kind = SKIPPY_KIND_STATE,
                            .tier = SKIPPY_TIER_RESIDENT,
                            .reach = r->exact ? SKIPPY_REACH_EXACT : SKIPPY_REACH_RANGE};
    rc = skippy_resident_commit(r->resident, x->id);
    if (rc) goto fail_native;
    rc = skippy_index_insert(r->index, &x->prefix.ns, x->prefix.tokens, x->prefix.n_tokens, &res);
    if (rc) goto fail_resident;
    rc = add_entry(r, x);
    if (rc == SKIPPY_OK) return SKIPPY_OK;
    skippy_index_remove(r->index, res.id);
fail_resident:
    skippy_resident_drop(r->resident, x->id, SKIPPY_EVICT_FAULT);
fail_native:
    sk_context_seq_clear(r->ctx, x->seq);
    sk_err_set(e, rc, "not recorded: %s", skippy_strerror(rc));
    return rc;
}

static int reserve(sk_reuse *r, size_t n, size_t nearest, sk_reuse_entry *x) {
    uint64_t victims[MAX_VICTIMS];
    size_t n_victims = 0;
    enum skippy_evict_reason why = SKIPPY_EVICT_ENTRIES;
    int32_t seq = -1;
    /* real bytes: the cells that this entry adds, and its recurrent or window state */
    uint64_t bytes = (n - nearest) * r->cost.cell + (r->exact ? r->cost.state : 0);
    int rc = skippy_resident_reserve(r->resident, n, n - nearest, bytes, (double)(n - nearest), victims, MAX_VICTIMS,
                                     &n_victims, &why, &x->id, &seq);
    if (rc) return rc;
    for (size_t i = 0; i < n_victims; i++) drop_entry(r, victims[i], why);
    x->seq = (uint32_t)seq;
    return SKIPPY_OK;
}

/* A longer attention-only sequence serves every shorter length, so the entries it grew from go. Returns the longest
 * stored boundary below n that stays. */
static size_t supersede(sk_reuse *r, const sk_prefix *p) {
    shorter s = {.n = p->n_tokens, .exact = r->exact};
    skippy_index_walk(r->index, &p->ns, p->tokens, p->n_tokens, visit_shorter, &s);
    for (size_t i = 0; i < s.n_superseded; i++) drop_entry(r, s.superseded[i], SKIPPY_EVICT_SUPERSEDED);
    return s.n_superseded ? 0 : s.nearest;
}

int sk_reuse_record(sk_reuse *r, const sk_prefix *prefix, uint32_t lane, sk_lineage *lineage, unsigned stored) {
    size_t n = prefix->n_tokens;
    if (!r->enabled || n < r->min_tokens) return SKIPPY_OK;
    if (covered(r, prefix)) return SKIPPY_OK;
    size_t nearest = supersede(r, prefix);
    sk_reuse_entry x = {.copies = {.stored = stored, .since = ++r->clock}, .used_ms = r->computed_ms};
    sk_err err;
    int rc = reserve(r, n, nearest, &x);
    if (rc) return rc;
    x.lineage = sk_lineage_retain(lineage);
    rc = sk_prefix_copy(&x.prefix, prefix);
    if (rc) sk_err_set(&err, rc, "out of memory");
    if (rc == SKIPPY_OK) rc = publish(r, &x, lane, &err);
    /* The window pool of a sliding-window model may be full: one older snapshot less, one more try. */
    if (rc == SKIPPY_E_FULL && sk_reuse_evict_one(r, SKIPPY_EVICT_BYTES)) rc = publish(r, &x, lane, &err);
    if (rc) {
        sk_log(SK_LOG_DEBUG, "a prefix of %zu tokens was not recorded: %s", n, err.text);
        skippy_resident_abort(r->resident, x.id);
        entry_free(&x);
    }
    return rc;
}

static void drop_row(sk_reuse *r, uint64_t id) {
    skippy_index_remove(r->index, sk_index_id(id, SK_TAG_ROW));
    sk_terminal_drop(&r->terminal, id);
}

static void make_row_room(sk_reuse *r, size_t n_tokens) {
    for (uint64_t v; (v = sk_terminal_victim(&r->terminal, n_tokens)) != 0; drop_row(r, v))
        if (r->before_evict_row) r->before_evict_row(r->ud, sk_terminal_find(&r->terminal, v));
}

int sk_reuse_record_logits(sk_reuse *r, const sk_prefix *prompt, const float *row, unsigned stored) {
    size_t n = prompt->n_tokens;
    if (!r->enabled || n < r->min_tokens || !sk_terminal_fits(&r->terminal, n)) return SKIPPY_OK;
    skippy_match m;
    if (skippy_index_match(r->index, &prompt->ns, prompt->tokens, n, n, &m) == SKIPPY_OK &&
        m.terminal[SKIPPY_TIER_RESIDENT])
        return SKIPPY_OK;
    make_row_room(r, n);
    uint64_t id = r->next_terminal;
    const sk_copies copies = {.stored = stored, .since = ++r->clock};
    int rc = sk_terminal_put(&r->terminal, id, prompt, &copies, row);
    if (rc) return rc;
    r->next_terminal++;
    skippy_residency res = {.id = sk_index_id(id, SK_TAG_ROW),
                            .kind = SKIPPY_KIND_TERMINAL,
                            .tier = SKIPPY_TIER_RESIDENT,
                            .reach = SKIPPY_REACH_EXACT};
    rc = skippy_index_insert(r->index, &prompt->ns, prompt->tokens, n, &res);
    if (rc) sk_terminal_drop(&r->terminal, id);
    return rc;
}

bool sk_reuse_evict_one(sk_reuse *r, enum skippy_evict_reason why) {
    uint64_t id = skippy_resident_victim(r->resident);
    return id != 0 && drop_entry(r, id, why) == SKIPPY_OK;
}

int sk_reuse_drop_idle(sk_reuse *r, uint64_t id) {
    return drop_entry(r, id, SKIPPY_EVICT_IDLE);
}

static bool means(const skippy_erase_filter *f, const sk_prefix *p) {
    const skippy_manifest m = sk_prefix_manifest(p);
    return !f || skippy_erase_matches(f, &m);
}

size_t sk_reuse_erase(sk_reuse *r, const skippy_erase_filter *f) {
    size_t dropped = 0;
    for (size_t i = r->n_entries; i-- > 0;)
        if (means(f, &r->entries[i].prefix) && drop_entry(r, r->entries[i].id, SKIPPY_EVICT_ERASED) == SKIPPY_OK)
            dropped++;
    for (size_t i = r->terminal.n; i-- > 0;)
        if (means(f, &r->terminal.rows[i].prompt)) drop_row(r, r->terminal.rows[i].id);
    return dropped;
}
