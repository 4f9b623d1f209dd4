/* The prefix index against a list that is searched from end to end: every answer of a million random operations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cache/test_random.h"
#include "skippy/index.h"

/* Few symbols and short paths make splits and merges frequent. */
enum { MAX_PATH = 10, ALPHABET = 3, NAMESPACES = 3, MAX_ENTRIES = 64 };

typedef struct entry {
    skippy_residency r;
    int ns;
    size_t n;
    int32_t path[MAX_PATH];
} entry;

typedef struct model {
    entry list[MAX_ENTRIES];
    size_t n;
    uint64_t next_id;
    skippy_index *index;
    test_random rnd;
} model;

static skippy_key namespace_of(int ns) {
    skippy_key k = {{0}};
    k.bytes[31] = (uint8_t)ns; /* the same hash for all: the map must compare keys */
    return k;
}

static size_t random_path(model *m, int32_t *path) {
    size_t n = 1 + random_below(&m->rnd, MAX_PATH);
    for (size_t i = 0; i < n; i++) path[i] = (int32_t)random_below(&m->rnd, ALPHABET) - 1;
    return n;
}

static size_t common(const entry *e, const int32_t *path, size_t n) {
    size_t i = 0;
    while (i < e->n && i < n && e->path[i] == path[i]) i++;
    return i;
}

/* Usable length of an entry for a query, 0 when there is none. */
static size_t usable(const entry *e, const int32_t *path, size_t n, size_t limit) {
    size_t k = common(e, path, n);
    if (e->r.reach == SKIPPY_REACH_RANGE) return k < limit ? k : limit;
    return k == e->n && k <= limit ? k : 0;
}

static void insert(model *m) {
    if (m->n == MAX_ENTRIES) return;
    entry *e = &m->list[m->n];
    e->r = (skippy_residency){.id = m->next_id++,
                              .kind = random_below(&m->rnd, 4) == 0,
                              .tier = (uint8_t)random_below(&m->rnd, SKIPPY_TIER_COUNT),
                              .reach = (uint8_t)random_below(&m->rnd, 2)};
    e->ns = (int)random_below(&m->rnd, NAMESPACES);
    e->n = random_path(m, e->path);
    skippy_key k = namespace_of(e->ns);
    assert_int_equal(skippy_index_insert(m->index, &k, e->path, e->n, &e->r), SKIPPY_OK);
    m->n++;
}

static void remove_any(model *m) {
    if (m->n == 0) return;
    size_t at = random_below(&m->rnd, m->n);
    uint64_t id = m->list[at].r.id;
    assert_int_equal(skippy_index_length(m->index, id), m->list[at].n);
    assert_int_equal(skippy_index_remove(m->index, id), SKIPPY_OK);
    assert_int_equal(skippy_index_remove(m->index, id), SKIPPY_E_NOT_FOUND);
    m->list[at] = m->list[--m->n];
}

static const entry *by_id(const model *m, uint64_t id) {
    for (size_t i = 0; i < m->n; i++)
        if (m->list[i].r.id == id) return &m->list[i];
    return NULL;
}

static void check_tier(const model *m, int ns, int tier, const int32_t *path, size_t n, size_t limit,
                       const skippy_match *got) {
    size_t best = 0;
    bool ends_there = false;
    for (size_t i = 0; i < m->n; i++) {
        const entry *e = &m->list[i];
        if (e->ns != ns || e->r.kind != SKIPPY_KIND_STATE || e->r.tier != tier) continue;
        size_t k = usable(e, path, n, limit);
        if (k > best) {
            best = k;
            ends_there = false;
        }
        if (k && k == best) ends_there |= e->n == k;
    }
    assert_int_equal(got->state[tier].length, best);
    if (best == 0) {
        assert_int_equal(got->state[tier].id, 0);
        return;
    }
    const entry *e = by_id(m, got->state[tier].id);
    assert_non_null(e);
    assert_true(e->ns == ns && e->r.kind == SKIPPY_KIND_STATE && e->r.tier == tier);
    assert_int_equal(e->r.reach, got->state[tier].reach);
    assert_int_equal(usable(e, path, n, limit), best);
    if (ends_there) assert_int_equal(e->n, best);
}

static void match_any(model *m) {
    int32_t path[MAX_PATH];
    size_t n = random_path(m, path);
    size_t limit = random_below(&m->rnd, 2) ? n : random_below(&m->rnd, MAX_PATH + 1);
    int ns = (int)random_below(&m->rnd, NAMESPACES);
    skippy_key k = namespace_of(ns);
    skippy_match got;
    assert_int_equal(skippy_index_match(m->index, &k, path, n, limit, &got), SKIPPY_OK);

    size_t longest = 0;
    bool terminal = false;
    for (size_t i = 0; i < m->n; i++) {
        const entry *e = &m->list[i];
        if (e->ns != ns) continue;
        size_t c = common(e, path, n);
        if (c > longest) longest = c;
        terminal |= e->r.kind == SKIPPY_KIND_TERMINAL && c == n && e->n == n;
    }
    assert_int_equal(got.common, longest);
    assert_int_equal(got.terminal_id != 0, terminal);
    if (terminal) {
        const entry *e = by_id(m, got.terminal_id);
        assert_non_null(e);
        assert_true(e->ns == ns && e->r.kind == SKIPPY_KIND_TERMINAL && e->n == n && common(e, path, n) == n);
    }
    for (int t = 0; t < SKIPPY_TIER_COUNT; t++) check_tier(m, ns, t, path, n, limit, &got);
}

typedef struct walk_log {
    const model *m;
    int ns;
    const int32_t *path;
    size_t n, visits, last_length;
} walk_log;

static int on_visit(void *ud, const skippy_residency *r, size_t length) {
    walk_log *w = ud;
    const entry *e = by_id(w->m, r->id);
    assert_non_null(e);
    assert_true(e->ns == w->ns && e->n == length && common(e, w->path, w->n) == length);
    assert_true(length >= w->last_length);
    w->last_length = length;
    w->visits++;
    return 0;
}

static void walk_any(model *m) {
    int32_t path[MAX_PATH];
    size_t n = random_path(m, path), expected = 0;
    walk_log w = {.m = m, .ns = (int)random_below(&m->rnd, NAMESPACES), .path = path, .n = n};
    skippy_key k = namespace_of(w.ns);
    assert_int_equal(skippy_index_walk(m->index, &k, path, n, on_visit, &w), 0);
    for (size_t i = 0; i < m->n; i++) {
        const entry *e = &m->list[i];
        expected += e->ns == w.ns && e->r.kind == SKIPPY_KIND_STATE && common(e, path, n) == e->n;
    }
    assert_int_equal(w.visits, expected);
}

/* A place of an entry's path needs a node when a path ends there or two paths part there. Counted once: at the first
 * entry that goes through it. */
static bool needs_node(const model *m, size_t at, size_t depth) {
    const entry *e = &m->list[at];
    bool end = false, parts = false, seen = false;
    int32_t next = 0;
    for (size_t i = 0; i < m->n; i++) {
        const entry *o = &m->list[i];
        if (o->ns != e->ns || common(o, e->path, depth) < depth) continue;
        if (i < at) return false;
        if (o->n == depth) {
            end = true;
        } else {
            parts |= seen && next != o->path[depth];
            next = o->path[depth];
            seen = true;
        }
    }
    return end || parts;
}

/* The tree is right, and no larger than the paths require. */
static void check_structure(const model *m) {
    assert_int_equal(skippy_index_check(m->index), SKIPPY_OK);
    size_t nodes = 0;
    bool used[NAMESPACES] = {false};
    for (size_t i = 0; i < m->n; i++) {
        used[m->list[i].ns] = true;
        for (size_t depth = 1; depth <= m->list[i].n; depth++) nodes += needs_node(m, i, depth);
    }
    skippy_index_stats s;
    skippy_index_get_stats(m->index, &s);
    assert_int_equal(s.residencies, m->n);
    assert_int_equal(s.nodes, nodes);
    assert_int_equal(s.namespaces, (size_t)used[0] + used[1] + used[2]);
}

static void the_index_answers_like_a_list(void **state) {
    (void)state;
    static model m;
    m = (model){.next_id = 1, .rnd = random_start("index")};
    assert_int_equal(skippy_index_create(NULL, &m.index), SKIPPY_OK);
    for (int op = 0; op < TEST_OPERATIONS; op++) {
        /* Waves of growing and shrinking: both a full and an empty index are visited. */
        bool growing = op / 2000 % 2 == 0;
        size_t dice = random_below(&m.rnd, 10);
        if (dice < 4)
            match_any(&m);
        else if (dice < 5)
            walk_any(&m);
        else if (dice < (growing ? 8 : 6))
            insert(&m);
        else
            remove_any(&m);
        if (op % 1000 == 0) check_structure(&m);
    }
    check_structure(&m);
    skippy_index_destroy(m.index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_index_answers_like_a_list),
    };
    return cmocka_run_group_tests_name("index_model", tests, NULL, NULL);
}
