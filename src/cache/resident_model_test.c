/* The resident cache against a plain list, with leases that come and go: a million random operations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cache/test_random.h"
#include "skippy/resident.h"

enum { MAX_ENTRIES = 6, SEQ_IDS = 8, FIRST_SEQ = 3, MAX_BYTES = 120, MAX_CELLS = 60 };

typedef struct model {
    skippy_resident_entry list[SEQ_IDS];
    size_t n;
    uint64_t clock, hits;
    skippy_resident *cache;
    test_random rnd;
} model;

static skippy_resident_entry *by_id(model *m, uint64_t id) {
    for (size_t i = 0; i < m->n; i++)
        if (m->list[i].id == id) return &m->list[i];
    return NULL;
}

static skippy_resident_entry *any(model *m) {
    return m->n ? &m->list[random_below(&m->rnd, m->n)] : NULL;
}

static bool fits(size_t entries, uint64_t cells, uint64_t bytes) {
    return entries <= MAX_ENTRIES && cells <= MAX_CELLS && bytes <= MAX_BYTES;
}

/* Do the entries that `keep` selects leave room for one more with these cells and bytes? */
static bool fits_with(const model *m, const bool *keep, uint64_t cells, uint64_t bytes) {
    size_t entries = 1;
    for (size_t i = 0; i < m->n; i++) {
        if (!keep[i]) continue;
        entries++;
        cells += m->list[i].cells;
        bytes += m->list[i].bytes;
    }
    return fits(entries, cells, bytes);
}

static void drop(model *m, uint64_t id, enum skippy_evict_reason reason) {
    skippy_resident_entry *e = by_id(m, id);
    assert_non_null(e);
    assert_int_equal(skippy_resident_drop(m->cache, id, reason), e->leases ? SKIPPY_E_BUSY : SKIPPY_OK);
    if (!e->leases) *e = m->list[--m->n];
}

/* Victims are unleased and distinct, their going makes room, and none of them could stay. */
static void check_victims(model *m, const uint64_t *victims, size_t n, uint64_t cells, uint64_t bytes) {
    bool keep[SEQ_IDS] = {false};
    for (size_t i = 0; i < m->n; i++) keep[i] = true;
    for (size_t i = 0; i < n; i++) {
        skippy_resident_entry *e = by_id(m, victims[i]);
        assert_non_null(e);
        assert_int_equal(e->leases, 0);
        assert_true(keep[e - m->list]);
        keep[e - m->list] = false;
    }
    assert_true(fits_with(m, keep, cells, bytes));
    for (size_t i = 0; i < n; i++) {
        bool *spared = &keep[by_id(m, victims[i]) - m->list];
        *spared = true;
        assert_false(fits_with(m, keep, cells, bytes));
        *spared = false;
    }
}

static void check_refusal(const model *m, int status, uint64_t cells, uint64_t bytes) {
    bool leased[SEQ_IDS] = {false};
    for (size_t i = 0; i < m->n; i++) leased[i] = m->list[i].leases > 0;
    int expected = SKIPPY_OK;
    if (!fits(1, cells, bytes))
        expected = SKIPPY_E_TOO_LARGE;
    else if (!fits_with(m, leased, cells, bytes))
        expected = SKIPPY_E_FULL;
    assert_int_equal(status, expected);
}

static void commit(model *m, skippy_resident_entry e) {
    assert_int_equal(skippy_resident_commit(m->cache, e.id), SKIPPY_OK);
    for (size_t i = 0; i < m->n; i++) {
        assert_int_not_equal(m->list[i].id, e.id);
        assert_int_not_equal(m->list[i].seq_id, e.seq_id);
    }
    assert_in_range(e.seq_id, FIRST_SEQ, FIRST_SEQ + SEQ_IDS - 1);
    e.last_use = ++m->clock;
    m->list[m->n++] = e;
}

static void record(model *m) {
    skippy_resident_entry e = {.n_tokens = 1 + random_below(&m->rnd, 20),
                               .cells = random_below(&m->rnd, MAX_CELLS / 2 + (random_below(&m->rnd, 50) ? 0 : 60)),
                               .bytes = random_below(&m->rnd, MAX_BYTES / 2 + (random_below(&m->rnd, 50) ? 0 : 90)),
                               .cost = (double)random_below(&m->rnd, 50)};
    uint64_t victims[SEQ_IDS];
    size_t n = 99;
    enum skippy_evict_reason reason;
    int status = skippy_resident_reserve(m->cache, e.n_tokens, e.cells, e.bytes, e.cost, victims, SEQ_IDS, &n, &reason,
                                         &e.id, &e.seq_id);
    check_refusal(m, status, e.cells, e.bytes);
    if (status != SKIPPY_OK) {
        assert_int_equal(n, 0);
        return;
    }
    check_victims(m, victims, n, e.cells, e.bytes);
    if (random_below(&m->rnd, 10) == 0) {
        assert_int_equal(skippy_resident_abort(m->cache, e.id), SKIPPY_OK);
        return;
    }
    if (n) assert_int_equal(skippy_resident_commit(m->cache, e.id), SKIPPY_E_BUSY);
    for (size_t i = 0; i < n; i++) drop(m, victims[i], reason);
    commit(m, e);
}

static void lease(model *m) {
    skippy_resident_entry *e = any(m);
    if (!e) return;
    assert_int_equal(skippy_resident_lease(m->cache, e->id), SKIPPY_OK);
    e->leases++;
    e->hits++;
    m->hits++;
    e->last_use = ++m->clock;
}

static void release(model *m) {
    skippy_resident_entry *e = any(m);
    if (!e) return;
    assert_int_equal(skippy_resident_release(m->cache, e->id), e->leases ? SKIPPY_OK : SKIPPY_E_INVALID);
    if (!e->leases) return;
    e->leases--;
    e->last_use = ++m->clock;
}

/* Shrinks an entry or grows it where there is room: the charge is the caller's to keep within the limits. */
static void charge(model *m) {
    skippy_resident_entry *e = any(m);
    if (!e) return;
    e->n_tokens = 1 + random_below(&m->rnd, 30);
    e->cells = random_below(&m->rnd, e->cells + 1);
    e->bytes = random_below(&m->rnd, e->bytes + 1);
    e->cost = (double)random_below(&m->rnd, 50);
    assert_int_equal(skippy_resident_charge(m->cache, e->id, e->n_tokens, e->cells, e->bytes, e->cost), SKIPPY_OK);
}

static uint64_t expected_victim(const model *m) {
    const skippy_resident_entry *best = NULL;
    for (size_t i = 0; i < m->n; i++) {
        const skippy_resident_entry *e = &m->list[i];
        if (e->leases) continue;
        double gain = best ? skippy_resident_benefit(e, m->clock) - skippy_resident_benefit(best, m->clock) : -1;
        if (gain < 0 || (!(gain > 0) && best && e->last_use < best->last_use)) best = e;
    }
    return best ? best->id : 0;
}

static void assert_same_entry(const skippy_resident_entry *a, const skippy_resident_entry *b) {
    assert_true(a->id == b->id && a->seq_id == b->seq_id && a->n_tokens == b->n_tokens);
    assert_true(a->cells == b->cells && a->bytes == b->bytes && a->cost >= b->cost && a->cost <= b->cost);
    assert_true(a->leases == b->leases && a->hits == b->hits && a->last_use == b->last_use);
}

static void check(model *m) {
    skippy_resident_stats s;
    skippy_resident_get_stats(m->cache, &s);
    uint64_t tokens = 0, cells = 0, bytes = 0, ids[SEQ_IDS];
    size_t leased = 0;
    for (size_t i = 0; i < m->n; i++) {
        skippy_resident_entry e;
        assert_int_equal(skippy_resident_get(m->cache, m->list[i].id, &e), SKIPPY_OK);
        assert_same_entry(&e, &m->list[i]);
        tokens += e.n_tokens;
        cells += e.cells;
        bytes += e.bytes;
        leased += e.leases > 0;
    }
    assert_true(fits(m->n, cells, bytes));
    assert_int_equal(s.entries, m->n);
    assert_int_equal(s.tokens, tokens);
    assert_int_equal(s.cells, cells);
    assert_int_equal(s.bytes, bytes);
    assert_int_equal(s.leased, leased);
    assert_int_equal(s.hits, m->hits);
    assert_int_equal(s.free_seq_ids, SEQ_IDS - m->n);
    assert_int_equal(skippy_resident_list(m->cache, ids, SEQ_IDS), m->n);
    for (size_t i = 0; i < m->n; i++) {
        assert_non_null(by_id(m, ids[i]));
        if (i) assert_true(ids[i - 1] < ids[i]);
    }
    assert_int_equal(skippy_resident_victim(m->cache), expected_victim(m));
}

static void the_cache_behaves_like_a_list(void **state) {
    (void)state;
    static model m;
    m = (model){.rnd = random_start("resident")};
    const skippy_resident_limits limits = {MAX_ENTRIES, MAX_BYTES, MAX_CELLS, FIRST_SEQ, SEQ_IDS};
    assert_int_equal(skippy_resident_create(NULL, &limits, &m.cache), SKIPPY_OK);
    for (int op = 0; op < TEST_OPERATIONS; op++) {
        size_t dice = random_below(&m.rnd, 16);
        if (dice < 5)
            record(&m);
        else if (dice < 8)
            lease(&m);
        else if (dice < 13)
            release(&m);
        else if (dice < 15)
            charge(&m);
        else if (m.n)
            drop(&m, any(&m)->id, SKIPPY_EVICT_SUPERSEDED);
        check(&m);
    }
    skippy_resident_destroy(m.cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cache_behaves_like_a_list),
    };
    return cmocka_run_group_tests_name("resident_model", tests, NULL, NULL);
}
