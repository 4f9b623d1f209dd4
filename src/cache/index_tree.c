#include "cache/index_tree.h"

#include <string.h>

#include "cache/mem.h"

void *sk_tree_alloc(sk_tree_mem *m, size_t size) {
    void *block = sk_mem_alloc(&m->alloc, size);
    if (block) m->bytes += size;
    return block;
}

void sk_tree_release(sk_tree_mem *m, void *block, size_t size) {
    if (!block) return;
    m->bytes -= size;
    sk_mem_release(&m->alloc, block);
}

/* ---- walking ---- */

/* Position of the first child whose first token is >= token. */
static size_t branch_position(const sk_node *node, int32_t token) {
    size_t low = 0, high = node->n_child;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (node->child[mid].first < token)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* memcmp on blocks is several times faster than a token loop; the loop then finds the place inside the last block. */
static size_t common_tokens(const int32_t *a, const int32_t *b, size_t n) {
    enum { BLOCK = 64 };
    size_t i = 0;
    while (n - i >= BLOCK && memcmp(a + i, b + i, BLOCK * sizeof *a) == 0) i += BLOCK;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

sk_node *sk_node_step(const sk_node *node, const int32_t *tokens, size_t n_tokens, size_t *k) {
    if (n_tokens == 0) return NULL;
    size_t at = branch_position(node, tokens[0]);
    if (at == node->n_child || node->child[at].first != tokens[0]) return NULL;
    sk_node *to = node->child[at].to;
    *k = common_tokens(to->edge, tokens, to->edge_len < n_tokens ? to->edge_len : n_tokens);
    return to;
}

sk_cursor sk_tree_find(sk_tree *t, const int32_t *tokens, size_t n_tokens) {
    sk_cursor c = {&t->root, 0, 0};
    size_t k;
    for (sk_node *next; (next = sk_node_step(c.node, tokens + c.matched, n_tokens - c.matched, &k)) != NULL;) {
        c.node = next;
        c.in_edge = k;
        c.matched += k;
        if (k < next->edge_len) break;
    }
    return c;
}

const sk_node *sk_node_next(const sk_node *node) {
    if (node->n_child) return node->child[0].to;
    while (node->parent) {
        size_t sibling = branch_position(node->parent, node->edge[0]) + 1;
        if (sibling < node->parent->n_child) return node->parent->child[sibling].to;
        node = node->parent;
    }
    return NULL;
}

bool sk_node_has_records(const sk_node *node) {
    for (int t = 0; t < SKIPPY_TIER_COUNT; t++)
        if (node->state[t]) return true;
    return node->terminal != NULL;
}

/* ---- nodes and branches ---- */

static int32_t *edge_new(sk_tree_mem *m, size_t n) {
    int32_t *edge = sk_mem_alloc_raw(&m->alloc, n * sizeof *edge);
    if (edge) m->bytes += n * sizeof *edge;
    return edge;
}

static int32_t *edge_copy(sk_tree_mem *m, const int32_t *tokens, size_t n) {
    int32_t *edge = edge_new(m, n);
    if (edge) memcpy(edge, tokens, n * sizeof *edge);
    return edge;
}

static void branches_release(sk_tree_mem *m, sk_branch *child, size_t cap) {
    sk_tree_release(m, child, cap * sizeof *child);
}

static void node_release(sk_tree_mem *m, sk_node *node) {
    if (!node) return;
    if (node->edge) {
        m->edge_tokens -= node->edge_len;
        sk_tree_release(m, node->edge, node->edge_len * sizeof *node->edge);
    }
    branches_release(m, node->child, node->cap_child);
    m->nodes--;
    sk_tree_release(m, node, sizeof *node);
}

/* A node with a copy of the edge and room for cap_child branches; parent and depth are set when it is linked. */
static sk_node *node_new(sk_tree_mem *m, const int32_t *edge, size_t edge_len, size_t cap_child) {
    sk_node *node = sk_tree_alloc(m, sizeof *node);
    if (!node) return NULL;
    m->nodes++;
    node->edge = edge_copy(m, edge, edge_len);
    if (node->edge) {
        node->edge_len = edge_len;
        m->edge_tokens += edge_len;
    }
    if (cap_child) node->child = sk_tree_alloc(m, cap_child * sizeof *node->child);
    if (node->child) node->cap_child = cap_child;
    if (node->edge && (node->child || !cap_child)) return node;
    node_release(m, node);
    return NULL;
}

/* The node must have room. */
static void branch_add(sk_node *parent, sk_node *to) {
    size_t at = branch_position(parent, to->edge[0]);
    memmove(parent->child + at + 1, parent->child + at, (parent->n_child - at) * sizeof *parent->child);
    parent->child[at] = (sk_branch){to->edge[0], to};
    parent->n_child++;
    to->parent = parent;
    to->depth = parent->depth + to->edge_len;
}

/* Moves the branches to a larger or smaller array. */
static void branches_move(sk_tree_mem *m, sk_node *node, sk_branch *to, size_t cap) {
    if (node->n_child) memcpy(to, node->child, node->n_child * sizeof *to);
    branches_release(m, node->child, node->cap_child);
    node->child = to;
    node->cap_child = cap;
}

static void branch_remove(sk_tree_mem *m, sk_node *parent, const sk_node *to) {
    size_t at = branch_position(parent, to->edge[0]);
    parent->n_child--;
    memmove(parent->child + at, parent->child + at + 1, (parent->n_child - at) * sizeof *parent->child);
    if (parent->n_child == 0) {
        branches_release(m, parent->child, parent->cap_child);
        parent->child = NULL;
        parent->cap_child = 0;
    } else if (parent->n_child <= parent->cap_child / 4) {
        size_t cap = parent->cap_child / 2;
        sk_branch *smaller = sk_tree_alloc(m, cap * sizeof *smaller);
        if (smaller) branches_move(m, parent, smaller, cap);
    }
}

/* ---- representatives ---- */

static sk_rec **list_of(sk_node *node, const skippy_residency *r) {
    return r->kind == SKIPPY_KIND_TERMINAL ? &node->terminal : &node->state[r->tier];
}

static bool is_range(const skippy_residency *r) {
    return r->kind == SKIPPY_KIND_STATE && r->reach == SKIPPY_REACH_RANGE;
}

static void record_link(sk_node *node, sk_rec *rec) {
    sk_rec **head = list_of(node, &rec->r);
    rec->node = node;
    rec->prev = NULL;
    rec->next = *head;
    if (*head) (*head)->prev = rec;
    *head = rec;
    if (!is_range(&rec->r)) return;
    /* The newest record represents all its ancestors: old ones leave first, so repairs stay rare. */
    for (sk_node *n = node; n; n = n->parent) n->range[rec->r.tier] = rec;
}

static sk_rec *find_range(const sk_node *node, int tier) {
    for (sk_rec *r = node->state[tier]; r; r = r->next)
        if (is_range(&r->r)) return r;
    for (size_t i = 0; i < node->n_child; i++)
        if (node->child[i].to->range[tier]) return node->child[i].to->range[tier];
    return NULL;
}

static void record_unlink(sk_rec *rec) {
    sk_node *node = rec->node;
    if (rec->prev)
        rec->prev->next = rec->next;
    else
        *list_of(node, &rec->r) = rec->next;
    if (rec->next) rec->next->prev = rec->prev;
    rec->node = NULL;
    rec->prev = rec->next = NULL;
    int tier = rec->r.tier;
    for (sk_node *n = node; n && n->range[tier] == rec; n = n->parent) n->range[tier] = find_range(n, tier);
}

/* ---- attach ---- */

/* Everything that an attach needs, allocated before the first change, so that a failure changes nothing. */
typedef struct attach_plan {
    bool split, leaf_needed;
    sk_node *upper;      /* split: takes the matched part of the edge */
    int32_t *lower_edge; /* split: the rest of the edge */
    sk_node *leaf;       /* takes the tokens that no node has yet */
    sk_branch *wider;    /* room for the leaf where the node has none left */
    size_t wider_cap;
} attach_plan;

static bool plan_allocate(sk_tree_mem *m, attach_plan *p, sk_cursor at, const int32_t *tokens, size_t n_tokens) {
    const sk_node *node = at.node;
    p->split = at.in_edge < node->edge_len;
    p->leaf_needed = at.matched < n_tokens;
    if (p->split) {
        p->upper = node_new(m, node->edge, at.in_edge, p->leaf_needed ? 2 : 1);
        if (!p->upper) return false;
        p->lower_edge = edge_copy(m, node->edge + at.in_edge, node->edge_len - at.in_edge);
        if (!p->lower_edge) return false;
    }
    if (p->leaf_needed) {
        p->leaf = node_new(m, tokens + at.matched, n_tokens - at.matched, 0);
        if (!p->leaf) return false;
    }
    if (p->leaf_needed && !p->split && node->n_child == node->cap_child) {
        p->wider_cap = node->cap_child ? 2 * node->cap_child : 1;
        p->wider = sk_tree_alloc(m, p->wider_cap * sizeof *p->wider);
        if (!p->wider) return false;
    }
    return true;
}

static void plan_release(sk_tree_mem *m, attach_plan *p, sk_cursor at) {
    branches_release(m, p->wider, p->wider_cap);
    node_release(m, p->leaf);
    sk_tree_release(m, p->lower_edge, (at.node->edge_len - at.in_edge) * sizeof *p->lower_edge);
    node_release(m, p->upper);
}

/* parent -[edge]-> node  becomes  parent -[edge 0..k)]-> upper -[edge k..)]-> node. Returns upper. */
static sk_node *split_apply(sk_tree_mem *m, attach_plan *p, sk_node *node, size_t k) {
    sk_node *upper = p->upper, *parent = node->parent;
    upper->parent = parent;
    upper->depth = parent->depth + k;
    memcpy(upper->range, node->range, sizeof upper->range);
    parent->child[branch_position(parent, node->edge[0])].to = upper; /* same first token: the order stays */
    m->edge_tokens -= k;                                              /* counted again in upper */
    sk_tree_release(m, node->edge, node->edge_len * sizeof *node->edge);
    node->edge = p->lower_edge;
    node->edge_len -= k;
    branch_add(upper, node);
    return upper;
}

bool sk_tree_attach(sk_tree_mem *m, sk_cursor at, const int32_t *tokens, size_t n_tokens, sk_rec *rec) {
    attach_plan p = {0};
    if (!plan_allocate(m, &p, at, tokens, n_tokens)) {
        plan_release(m, &p, at);
        return false;
    }
    sk_node *node = at.node;
    if (p.split) node = split_apply(m, &p, node, at.in_edge);
    if (p.wider) branches_move(m, node, p.wider, p.wider_cap);
    if (p.leaf) {
        branch_add(node, p.leaf);
        node = p.leaf;
    }
    record_link(node, rec);
    return true;
}

/* ---- detach ---- */

/* Joins a node that only passes through to its one child; the child keeps its address, so its records and children
 * need no change. */
static void merge_into_child(sk_tree_mem *m, sk_node *node) {
    sk_node *child = node->child[0].to, *parent = node->parent;
    size_t joined_len = node->edge_len + child->edge_len;
    int32_t *joined = edge_new(m, joined_len);
    if (!joined) return;
    memcpy(joined, node->edge, node->edge_len * sizeof *joined);
    memcpy(joined + node->edge_len, child->edge, child->edge_len * sizeof *joined);
    sk_tree_release(m, child->edge, child->edge_len * sizeof *child->edge);
    child->edge = joined;
    child->edge_len = joined_len;
    m->edge_tokens += node->edge_len; /* node_release takes them off once */
    child->parent = parent;
    parent->child[branch_position(parent, joined[0])].to = child;
    node_release(m, node);
}

bool sk_tree_detach(sk_tree_mem *m, sk_rec *rec, sk_tree **t) {
    sk_node *node = rec->node;
    record_unlink(rec);
    /* More than one turn only where a merge was left out earlier for lack of memory. */
    while (node->parent && node->n_child == 0 && !sk_node_has_records(node)) {
        sk_node *parent = node->parent;
        branch_remove(m, parent, node);
        node_release(m, node);
        node = parent;
    }
    if (!node->parent) {
        *t = (sk_tree *)(void *)((char *)node - offsetof(sk_tree, root));
        return node->n_child == 0;
    }
    if (node->n_child == 1 && !sk_node_has_records(node)) merge_into_child(m, node);
    return false;
}

/* Bottom-up without recursion: a chat that grows turn by turn makes a chain as deep as it has turns. */
void sk_tree_clear(sk_tree_mem *m, sk_tree *t) {
    sk_node *node = &t->root;
    for (;;) {
        if (node->n_child) {
            node = node->child[--node->n_child].to;
            continue;
        }
        sk_node *parent = node->parent;
        if (!parent) break;
        node_release(m, node);
        node = parent;
    }
    branches_release(m, t->root.child, t->root.cap_child);
    t->root.child = NULL;
    t->root.cap_child = 0;
}
