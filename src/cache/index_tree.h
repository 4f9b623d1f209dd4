/* The compressed token tree behind the prefix index: nodes, edges, and which residency a match may use.
 *
 * Stored paths "1 2 3", "1 2 3 4 5" and "1 2 9 9" become
 *
 *   sk_tree
 *   +------+----------------------+
 *   | ns   | root: depth 0        |
 *   +------+---|------------------+
 *              v child[]  (sorted by first token, binary search)
 *            +-------+
 *            | 1 | *-|--> sk_node: edge -> [1 2]            depth 2
 *            +-------+        |
 *                             v child[]
 *                      +-------+-------+
 *                      | 3 | *-| 9 | *-|--> sk_node: edge -> [9 9]   depth 4
 *                      +-----|-+-------+
 *                            v
 *                   sk_node: edge -> [3]                    depth 3
 *                            |
 *                            v child[]
 *                          +-------+
 *                          | 4 | *-|--> sk_node: edge -> [4 5]       depth 5
 *                          +-------+
 *
 *   sk_node
 *   +--------+--------+----------+-------+---------+------------------+----------+------------------+
 *   | parent | edge * | edge_len | depth | child * | state[4] *       | terminal | range[4] *       |
 *   +--------+---|----+----------+-------+---|-----+---|--------------+----|-----+---|--------------+
 *                v                           v         v                   v         v
 *        int32_t[edge_len]     sk_branch[cap_child]   sk_rec <-> sk_rec   sk_rec    one RANGE sk_rec of that
 *        (own allocation,      (own allocation)       ending here, by     ending    tier in this subtree, or
 *         exact size)                                 tier, newest first  here      NULL when there is none
 *
 * `range` is what makes "is there any cuttable state at or below this point" one load per node on the way down instead
 * of a search of the subtree. Its rule: when range[t] of a node lies below one of its children, it is also range[t] of
 * that child. So a removed record is a representative of a contiguous run of ancestors, and the repair can stop at the
 * first one that names another record. */
#ifndef SKIPPY_CACHE_INDEX_TREE_H
#define SKIPPY_CACHE_INDEX_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/map.h"
#include "skippy/index.h"

struct sk_node;

/* One residency. */
typedef struct sk_rec {
    sk_map_link link; /* index: by id */
    skippy_residency r;
    struct sk_node *node;
    struct sk_rec *prev, *next; /* list of the node that r belongs to */
} sk_rec;

typedef struct sk_branch {
    int32_t first; /* == to->edge[0]; kept here so that the binary search stays inside one array */
    struct sk_node *to;
} sk_branch;

typedef struct sk_node {
    struct sk_node *parent; /* NULL only for a root */
    int32_t *edge;          /* tokens between parent and this node; never empty except for a root */
    size_t edge_len;
    size_t depth; /* tokens from the root to the end of the edge */
    sk_branch *child;
    size_t n_child, cap_child;
    sk_rec *state[SKIPPY_TIER_COUNT];
    sk_rec *terminal;
    sk_rec *range[SKIPPY_TIER_COUNT];
} sk_node;

typedef struct sk_tree {
    sk_map_link link; /* index: by namespace key */
    skippy_key ns;
    sk_node root;
} sk_tree;

/* Memory of all trees of an index, with the totals that the statistics report. */
typedef struct sk_tree_mem {
    skippy_allocator alloc;
    size_t bytes, nodes, edge_tokens;
} sk_tree_mem;

void *sk_tree_alloc(sk_tree_mem *m, size_t size);
void sk_tree_release(sk_tree_mem *m, void *block, size_t size);

/* Where a walk along tokens ends. */
typedef struct sk_cursor {
    sk_node *node;  /* last node whose edge matched at least one token; the root when none */
    size_t in_edge; /* tokens of node->edge that matched */
    size_t matched; /* tokens of the query that matched */
} sk_cursor;

/* Enters the child that continues with tokens[0]; *k receives how many tokens of its edge match. NULL when there is
 * none. */
sk_node *sk_node_step(const sk_node *node, const int32_t *tokens, size_t n_tokens, size_t *k);
sk_cursor sk_tree_find(sk_tree *t, const int32_t *tokens, size_t n_tokens);

/* Puts rec at the path `tokens`, for which `at` is the result of sk_tree_find. False when out of memory: the tree is as
 * before. */
bool sk_tree_attach(sk_tree_mem *m, sk_cursor at, const int32_t *tokens, size_t n_tokens, sk_rec *rec);
/* Takes rec out of its node, then removes or merges nodes that nothing needs any more. A merge that gets no memory is
 * left out: the tree is right without it. Returns true when the tree is empty now; *t is the tree then. */
bool sk_tree_detach(sk_tree_mem *m, sk_rec *rec, sk_tree **t);
/* Frees all nodes; records are the caller's. */
void sk_tree_clear(sk_tree_mem *m, sk_tree *t);
/* Pre-order successor; NULL at the end. Start with &t->root. */
const sk_node *sk_node_next(const sk_node *node);
/* True when some residency ends at the node. */
bool sk_node_has_records(const sk_node *node);

#endif
