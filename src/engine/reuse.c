#include "engine/reuse.h"

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
    free(x->tokens);
    free(x->tenant);
}

void sk_reuse_free(sk_reuse *r) {
    for (size_t i = 0; i < r->n_entries; i++) entry_free(&r->entries[i]);
    free(r->entries);
    if (r->index) skippy_index_destroy(r->index);
    if (r->resident) skippy_resident_destroy(r->resident);
    sk_terminal_free(&r->terminal);
    memset(r, 0, sizeof *r);
}

static sk_reuse_entry *find_entry(const sk_reuse *r, uint64_t id) {
    for (size_t i = 0; i < r->n_entries; i++)
        if (r->entries[i].id == id) return &r->entries[i];
    return NULL;
}

/* Index ids: entries even, terminal rows odd. */
static uint64_t index_id(uint64_t entry) {
    return entry * 2;
}

/* Takes an entry out of the index, the runtime and the books, in this order: nobody can find it before its state is
 * gone. */
static int drop_entry(sk_reuse *r, uint64_t id, enum skippy_evict_reason why) {
    sk_reuse_entry *x = find_entry(r, id);
    if (!x) return SKIPPY_E_NOT_FOUND;
    skippy_resident_entry info;
    if (skippy_resident_get(r->resident, id, &info) == SKIPPY_OK && info.leases > 0) return SKIPPY_E_BUSY;
    skippy_index_remove(r->index, index_id(id));
    sk_context_seq_clear(r->ctx, x->seq);
    skippy_resident_drop(r->resident, id, why);
    entry_free(x);
    sk_reuse_entry *last = &r->entries[--r->n_entries];
    *x = *last;
    *last = (sk_reuse_entry){0};
    return SKIPPY_OK;
}

typedef struct aligned {
    size_t align, limit, length;
    uint64_t id;
} aligned;

static int visit_aligned(void *ud, const skippy_residency *res, size_t length) {
    aligned *a = ud;
    if (length <= a->limit && length % a->align == 0) {
        a->length = length;
        a->id = res->id;
    }
    return 0;
}

/* Longest stored boundary below the whole prompt that may begin a longer one. */
static void find_aligned(const sk_reuse *r, const skippy_key *ns, const int32_t *tokens, size_t n, sk_reuse_hit *out) {
    aligned a = {.align = r->align, .limit = n - 1};
    skippy_index_walk(r->index, ns, tokens, n, visit_aligned, &a);
    out->length = a.length;
    out->entry = a.id / 2;
}

void sk_reuse_find(const sk_reuse *r, const skippy_key *ns, const int32_t *tokens, size_t n, sk_reuse_hit *out) {
    memset(out, 0, sizeof *out);
    skippy_match m;
    if (!r->enabled || skippy_index_match(r->index, ns, tokens, n, n, &m) != SKIPPY_OK) return;
    out->common = m.common;
    out->terminal = m.terminal_id;
    bool whole = m.terminal_id != 0 && m.state[SKIPPY_TIER_RESIDENT].length == n;
    if (!whole && r->align > 1) {
        find_aligned(r, ns, tokens, n, out);
        return;
    }
    /* Without stored logits the last token has to be decoded to get them. */
    if (!whole && m.state[SKIPPY_TIER_RESIDENT].length == n &&
        (n == 1 || skippy_index_match(r->index, ns, tokens, n, n - 1, &m) != SKIPPY_OK))
        return;
    out->length = m.state[SKIPPY_TIER_RESIDENT].length;
    out->entry = m.state[SKIPPY_TIER_RESIDENT].id / 2;
}

const float *sk_reuse_logits(sk_reuse *r, uint64_t terminal) {
    return sk_terminal_get(&r->terminal, terminal);
}

int sk_reuse_restore(sk_reuse *r, uint64_t entry, size_t length, uint32_t lane, sk_err *e) {
    sk_reuse_entry *x = find_entry(r, entry);
    if (!x) return sk_err_set(e, SKIPPY_E_NOT_FOUND, "the entry is gone");
    if (skippy_resident_lease(r->resident, entry)) return sk_err_set(e, SKIPPY_E_NOT_FOUND, "the entry is gone");
    int rc = sk_context_seq_copy(r->ctx, x->seq, lane, (uint32_t)length, e);
    skippy_resident_release(r->resident, entry);
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
    if (length >= s->n) return 0;
    if (length > s->nearest) s->nearest = length;
    if (!s->exact && s->n_superseded < sizeof s->superseded / sizeof *s->superseded)
        s->superseded[s->n_superseded++] = res->id / 2;
    return 0;
}

/* True when an equal or longer stored path makes a record of these tokens pointless. */
static bool covered(sk_reuse *r, const skippy_key *ns, const int32_t *tokens, size_t n) {
    skippy_match m;
    if (skippy_index_match(r->index, ns, tokens, n, n, &m) != SKIPPY_OK || m.state[SKIPPY_TIER_RESIDENT].length != n)
        return false;
    uint64_t id = m.state[SKIPPY_TIER_RESIDENT].id / 2;
    if (skippy_resident_lease(r->resident, id) == SKIPPY_OK)
        skippy_resident_release(r->resident, id); /* refresh its recency */
    return true;
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
    return SKIPPY_OK;
}

/* Native copy, books, index. On failure everything is as before. */
static int publish(sk_reuse *r, sk_reuse_entry *x, uint32_t lane, sk_err *e) {
    int rc = sk_context_seq_snapshot(r->ctx, lane, x->seq, e);
    if (rc) return rc;
    skippy_residency res = {.id = index_id(x->id),
                            .kind = SKIPPY_KIND_STATE,
                            .tier = SKIPPY_TIER_RESIDENT,
                            .reach = r->exact ? SKIPPY_REACH_EXACT : SKIPPY_REACH_RANGE};
    rc = skippy_resident_commit(r->resident, x->id);
    if (rc) goto fail_native;
    rc = skippy_index_insert(r->index, &x->ns, x->tokens, x->n_tokens, &res);
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

int sk_reuse_record(sk_reuse *r, const skippy_key *ns, const char *tenant, const int32_t *tokens, size_t n,
                    uint32_t lane) {
    if (!r->enabled || n < r->min_tokens) return SKIPPY_OK;
    if (covered(r, ns, tokens, n)) return SKIPPY_OK;
    shorter s = {.n = n, .exact = r->exact};
    skippy_index_walk(r->index, ns, tokens, n, visit_shorter, &s);
    /* A longer attention-only sequence serves every shorter length, so the entries it grew from go. */
    for (size_t i = 0; i < s.n_superseded; i++) drop_entry(r, s.superseded[i], SKIPPY_EVICT_SUPERSEDED);
    if (s.n_superseded) s.nearest = 0;
    sk_reuse_entry x = {.n_tokens = n, .ns = *ns};
    sk_err err;
    int rc = reserve(r, n, s.nearest, &x);
    if (rc) return rc;
    x.tokens = malloc(n * sizeof *tokens);
    x.tenant = tenant ? strdup(tenant) : NULL;
    if (!x.tokens || (tenant && !x.tenant)) {
        rc = SKIPPY_E_NOMEM;
    } else {
        memcpy(x.tokens, tokens, n * sizeof *tokens);
        rc = publish(r, &x, lane, &err);
        /* The window pool of a sliding-window model may be full: one older snapshot less, one more try. */
        if (rc == SKIPPY_E_FULL && sk_reuse_evict_one(r, SKIPPY_EVICT_BYTES)) rc = publish(r, &x, lane, &err);
    }
    if (rc) {
        sk_log(SK_LOG_DEBUG, "a prefix of %zu tokens was not recorded: %s", n,
               rc == SKIPPY_E_NOMEM ? "out of memory" : err.text);
        skippy_resident_abort(r->resident, x.id);
        entry_free(&x);
    }
    return rc;
}

static void drop_terminal(sk_reuse *r, uint64_t id) {
    skippy_index_remove(r->index, id);
    sk_terminal_drop(&r->terminal, id);
}

int sk_reuse_record_logits(sk_reuse *r, const skippy_key *ns, const char *tenant, const int32_t *tokens, size_t n,
                           const float *row) {
    if (!r->enabled || n < r->min_tokens || !sk_terminal_fits(&r->terminal)) return SKIPPY_OK;
    skippy_match m;
    if (skippy_index_match(r->index, ns, tokens, n, n, &m) == SKIPPY_OK && m.terminal_id) return SKIPPY_OK;
    for (uint64_t v = sk_terminal_victim(&r->terminal); v; v = sk_terminal_victim(&r->terminal)) drop_terminal(r, v);
    uint64_t id = r->next_terminal;
    int rc = sk_terminal_put(&r->terminal, id, row, tenant);
    if (rc) return rc;
    r->next_terminal += 2;
    skippy_residency res = {
        .id = id, .kind = SKIPPY_KIND_TERMINAL, .tier = SKIPPY_TIER_RAM, .reach = SKIPPY_REACH_EXACT};
    rc = skippy_index_insert(r->index, ns, tokens, n, &res);
    if (rc) sk_terminal_drop(&r->terminal, id);
    return rc;
}

bool sk_reuse_evict_one(sk_reuse *r, enum skippy_evict_reason why) {
    uint64_t id = skippy_resident_victim(r->resident);
    return id != 0 && drop_entry(r, id, why) == SKIPPY_OK;
}

static bool same_tenant(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

size_t sk_reuse_erase(sk_reuse *r, const char *tenant, bool all) {
    size_t dropped = 0;
    for (size_t i = r->n_entries; i-- > 0;)
        if ((all || same_tenant(r->entries[i].tenant, tenant)) &&
            drop_entry(r, r->entries[i].id, SKIPPY_EVICT_ERASED) == SKIPPY_OK)
            dropped++;
    for (size_t i = r->terminal.n; i-- > 0;)
        if (all || same_tenant(r->terminal.rows[i].tenant, tenant)) drop_terminal(r, r->terminal.rows[i].id);
    return dropped;
}
