#include "skippy/index.h"

#include <string.h>

#include "cache/index_tree.h"
#include "cache/mem.h"

struct skippy_index {
    skippy_allocator alloc;
    sk_tree_mem mem;
    sk_map ids;   /* sk_rec by id */
    sk_map trees; /* sk_tree by namespace key */
};

static sk_rec *rec_of(sk_map_link *l) {
    return (sk_rec *)(void *)((char *)l - offsetof(sk_rec, link));
}

static sk_tree *tree_of(sk_map_link *l) {
    return (sk_tree *)(void *)((char *)l - offsetof(sk_tree, link));
}

/* A namespace key is a digest already: its first bytes are as good as any hash of it. */
static uint64_t key_hash(const skippy_key *ns) {
    uint64_t h;
    memcpy(&h, ns->bytes, sizeof h);
    return h;
}

static sk_rec *find_rec(const skippy_index *ix, uint64_t id) {
    for (sk_map_link *l = sk_map_first(&ix->ids, sk_map_hash_u64(id)); l; l = sk_map_same(l))
        if (rec_of(l)->r.id == id) return rec_of(l);
    return NULL;
}

static sk_tree *find_tree(const skippy_index *ix, const skippy_key *ns) {
    for (sk_map_link *l = sk_map_first(&ix->trees, key_hash(ns)); l; l = sk_map_same(l))
        if (memcmp(&tree_of(l)->ns, ns, sizeof *ns) == 0) return tree_of(l);
    return NULL;
}

int skippy_index_create(const skippy_allocator *alloc, skippy_index **out) {
    if (!out || !sk_mem_hooks_valid(alloc)) return SKIPPY_E_INVALID;
    *out = NULL;
    skippy_allocator a = sk_mem_hooks(alloc);
    skippy_index *ix = sk_mem_alloc(&a, sizeof *ix);
    if (!ix) return SKIPPY_E_NOMEM;
    ix->alloc = a;
    ix->mem.alloc = a;
    if (!sk_map_init(&ix->ids, &a) || !sk_map_init(&ix->trees, &a)) {
        skippy_index_destroy(ix);
        return SKIPPY_E_NOMEM;
    }
    *out = ix;
    return SKIPPY_OK;
}

void skippy_index_destroy(skippy_index *ix) {
    if (!ix) return;
    for (sk_map_link *l; (l = sk_map_pop(&ix->trees)) != NULL;) {
        sk_tree_clear(&ix->mem, tree_of(l));
        sk_tree_release(&ix->mem, tree_of(l), sizeof(sk_tree));
    }
    for (sk_map_link *l; (l = sk_map_pop(&ix->ids)) != NULL;) sk_tree_release(&ix->mem, rec_of(l), sizeof(sk_rec));
    sk_map_free(&ix->trees);
    sk_map_free(&ix->ids);
    skippy_allocator a = ix->alloc;
    sk_mem_release(&a, ix);
}

static bool residency_valid(const skippy_residency *r) {
    return r->id != 0 && r->kind <= SKIPPY_KIND_TERMINAL && r->tier < SKIPPY_TIER_COUNT &&
           r->reach <= SKIPPY_REACH_RANGE;
}

int skippy_index_insert(skippy_index *ix, const skippy_key *ns, const int32_t *tokens, size_t n_tokens,
                        const skippy_residency *r) {
    if (!ix || !ns || !tokens || n_tokens == 0 || !r || !residency_valid(r)) return SKIPPY_E_INVALID;
    if (n_tokens > SIZE_MAX / sizeof *tokens) return SKIPPY_E_INVALID;
    if (find_rec(ix, r->id)) return SKIPPY_E_EXISTS;

    sk_tree *known = find_tree(ix, ns), *tree = known;
    sk_rec *rec = sk_tree_alloc(&ix->mem, sizeof *rec);
    if (!tree) tree = sk_tree_alloc(&ix->mem, sizeof *tree);
    if (!rec || !tree) goto no_memory;
    rec->r = *r;
    if (!sk_tree_attach(&ix->mem, sk_tree_find(tree, tokens, n_tokens), tokens, n_tokens, rec)) goto no_memory;
    if (!known) {
        tree->ns = *ns;
        sk_map_add(&ix->trees, &tree->link, key_hash(ns));
    }
    sk_map_add(&ix->ids, &rec->link, sk_map_hash_u64(r->id));
    return SKIPPY_OK;

no_memory:
    if (!known) sk_tree_release(&ix->mem, tree, sizeof *tree);
    sk_tree_release(&ix->mem, rec, sizeof *rec);
    return SKIPPY_E_NOMEM;
}

int skippy_index_remove(skippy_index *ix, uint64_t id) {
    if (!ix) return SKIPPY_E_INVALID;
    sk_rec *rec = find_rec(ix, id);
    if (!rec) return SKIPPY_E_NOT_FOUND;
    sk_map_remove(&ix->ids, &rec->link);
    sk_tree *tree;
    if (sk_tree_detach(&ix->mem, rec, &tree)) {
        sk_map_remove(&ix->trees, &tree->link);
        sk_tree_release(&ix->mem, tree, sizeof *tree);
    }
    sk_tree_release(&ix->mem, rec, sizeof *rec);
    return SKIPPY_OK;
}

/* Takes what one node offers. `reached` tokens of its path match the query; `whole` says that all of them do.
 * Nodes come in order of depth, so a later offer is never shorter unless the limit cuts it. */
static void offer(skippy_match *m, const sk_node *node, size_t reached, bool whole, size_t limit) {
    size_t cut = reached < limit ? reached : limit;
    for (int t = 0; t < SKIPPY_TIER_COUNT; t++) {
        const sk_rec *best = NULL;
        size_t length = cut;
        if (whole && reached <= limit && node->state[t])
            best = node->state[t]; /* ends exactly here */
        else if (cut > m->state[t].length)
            best = node->range[t]; /* runs through here and can be cut */
        if (!best) continue;
        m->state[t].length = length;
        m->state[t].id = best->r.id;
        m->state[t].reach = best->r.reach;
    }
}

/* The list begins with the newest. */
static void offer_terminals(skippy_match *m, const sk_node *node) {
    if (node->terminal) m->terminal_id = node->terminal->r.id;
    for (const sk_rec *rec = node->terminal; rec; rec = rec->next)
        if (!m->terminal[rec->r.tier]) m->terminal[rec->r.tier] = rec->r.id;
}

int skippy_index_match(const skippy_index *ix, const skippy_key *ns, const int32_t *tokens, size_t n_tokens,
                       size_t limit, skippy_match *out) {
    if (!ix || !ns || !out || (n_tokens && !tokens)) return SKIPPY_E_INVALID;
    memset(out, 0, sizeof *out);
    const sk_tree *tree = find_tree(ix, ns);
    if (!tree) return SKIPPY_OK;
    const sk_node *node = &tree->root;
    size_t k;
    while ((node = sk_node_step(node, tokens + out->common, n_tokens - out->common, &k)) != NULL) {
        bool whole = k == node->edge_len;
        out->common += k;
        offer(out, node, out->common, whole, limit);
        if (!whole) break;
        if (out->common == n_tokens) offer_terminals(out, node);
    }
    return SKIPPY_OK;
}

size_t skippy_index_length(const skippy_index *ix, uint64_t id) {
    const sk_rec *rec = ix ? find_rec(ix, id) : NULL;
    return rec ? rec->node->depth : 0;
}

static int visit_node(const sk_node *node, skippy_index_visit visit, void *ud) {
    for (int t = 0; t < SKIPPY_TIER_COUNT; t++) {
        for (const sk_rec *rec = node->state[t]; rec; rec = rec->next) {
            int stop = visit(ud, &rec->r, node->depth);
            if (stop) return stop;
        }
    }
    return 0;
}

int skippy_index_walk(const skippy_index *ix, const skippy_key *ns, const int32_t *tokens, size_t n_tokens,
                      skippy_index_visit visit, void *ud) {
    if (!ix || !ns || !visit || (n_tokens && !tokens)) return SKIPPY_E_INVALID;
    const sk_tree *tree = find_tree(ix, ns);
    if (!tree) return SKIPPY_OK;
    const sk_node *node = &tree->root;
    size_t at = 0, k;
    while ((node = sk_node_step(node, tokens + at, n_tokens - at, &k)) != NULL && k == node->edge_len) {
        at += k;
        int stop = visit_node(node, visit, ud);
        if (stop) return stop;
    }
    return SKIPPY_OK;
}

void skippy_index_get_stats(const skippy_index *ix, skippy_index_stats *out) {
    out->namespaces = ix->trees.count;
    out->residencies = ix->ids.count;
    out->nodes = ix->mem.nodes;
    out->edge_tokens = ix->mem.edge_tokens;
    out->bytes = sizeof *ix + ix->mem.bytes + sk_map_bytes(&ix->trees) + sk_map_bytes(&ix->ids);
}

/* ---- self-check ---- */

typedef struct check_totals {
    size_t nodes, edge_tokens, records;
} check_totals;

/* Counts the records of one list; 0 where a link, an enum or the owner is wrong, hence *ok. */
static size_t check_list(const skippy_index *ix, const sk_node *node, const sk_rec *head, int kind, int tier,
                         bool *ok) {
    size_t n = 0;
    const sk_rec *prev = NULL;
    for (const sk_rec *r = head; r; prev = r, r = r->next, n++) {
        bool in_place = r->node == node && r->prev == prev && r->r.kind == kind && (tier < 0 || r->r.tier == tier);
        if (!in_place || find_rec(ix, r->r.id) != r) *ok = false;
    }
    return n;
}

static bool check_branches(const sk_node *node) {
    if (node->n_child > node->cap_child) return false;
    for (size_t i = 0; i < node->n_child; i++) {
        const sk_node *to = node->child[i].to;
        if (to->parent != node || to->edge_len == 0 || to->depth != node->depth + to->edge_len) return false;
        if (to->edge[0] != node->child[i].first) return false;
        if (i && node->child[i - 1].first >= node->child[i].first) return false;
    }
    return true;
}

/* range[t] is NULL exactly when there is no RANGE record of the tier here or below, else it is one of them, and the
 * child on the way to it names the same one. */
static bool check_range(const sk_node *node, int tier) {
    const sk_rec *rep = node->range[tier];
    bool seen = false, any = false;
    for (const sk_rec *r = node->state[tier]; r; r = r->next) {
        if (r->r.reach != SKIPPY_REACH_RANGE) continue;
        any = true;
        seen |= r == rep;
    }
    for (size_t i = 0; i < node->n_child; i++) {
        const sk_rec *below = node->child[i].to->range[tier];
        any |= below != NULL;
        seen |= below && below == rep;
    }
    return any ? seen : rep == NULL;
}

static bool check_tree(const skippy_index *ix, const sk_tree *t, check_totals *sum) {
    bool ok = t->root.parent == NULL && t->root.edge_len == 0 && t->root.depth == 0 && t->root.n_child > 0;
    ok = ok && !sk_node_has_records(&t->root);
    for (const sk_node *node = &t->root; ok && node; node = sk_node_next(node)) {
        ok = check_branches(node);
        for (int tier = 0; ok && tier < SKIPPY_TIER_COUNT; tier++) {
            sum->records += check_list(ix, node, node->state[tier], SKIPPY_KIND_STATE, tier, &ok);
            ok = ok && check_range(node, tier);
        }
        sum->records += check_list(ix, node, node->terminal, SKIPPY_KIND_TERMINAL, -1, &ok);
        ok = ok && (node->n_child > 0 || sk_node_has_records(node));
        sum->nodes += node != &t->root;
        sum->edge_tokens += node->edge_len;
    }
    return ok;
}

int skippy_index_check(const skippy_index *ix) {
    if (!ix) return SKIPPY_E_INVALID;
    check_totals sum = {0};
    for (size_t i = 0; i < ix->trees.n_buckets; i++) {
        for (sk_map_link *l = ix->trees.bucket[i]; l; l = l->next) {
            if (!check_tree(ix, tree_of(l), &sum)) return SKIPPY_E_CORRUPT;
            if (find_tree(ix, &tree_of(l)->ns) != tree_of(l)) return SKIPPY_E_CORRUPT;
        }
    }
    bool same = sum.nodes == ix->mem.nodes && sum.edge_tokens == ix->mem.edge_tokens && sum.records == ix->ids.count;
    return same ? SKIPPY_OK : SKIPPY_E_CORRUPT;
}
