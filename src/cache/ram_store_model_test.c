/* The RAM store against a plain list: random puts (some without memory, some from a source that fails), leases, reads,
 * flipped bits, drops and erasures. After each operation every number that the store reports is held against the list,
 * and everything that left by itself against the benefit that the list computes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cache/ram_store_internal.h"
#include "cache/test_alloc.h"
#include "cache/test_payload.h"
#include "cache/test_random.h"
#include "skippy/benefit.h"

enum { BLOCKS = 30, PREFIXES = 40, ENTRIES = 400, MAX_BYTES = 120000, OPERATIONS = TEST_OPERATIONS / 10 };

typedef struct model_entry {
    uint64_t id;
    uint32_t prefix;
    uint8_t part[TEST_PARTS][TEST_PART_BLOCKS]; /* block numbers */
    size_t length[TEST_PARTS], n_parts;
    uint64_t leases, hits, last_use;
    double cost;
    bool gone;
    uint64_t spoilt; /* bit n: it holds a copy of block n that failed its digest */
    double score;
} model_entry;

typedef struct model {
    skippy_ram_store *s;
    test_library lib;
    test_heap heap;
    test_random rnd;
    model_entry list[ENTRIES];
    size_t n;
    uint64_t clock, corrupt, puts, dropped[SKIPPY_DROP_REASONS];
    struct {
        uint64_t id;
        enum skippy_drop_reason reason;
    } told[ENTRIES];
    size_t n_told;
} model;

static void note(void *ud, uint64_t id, enum skippy_drop_reason reason) {
    model *m = ud;
    assert_true(m->n_told < ENTRIES);
    m->told[m->n_told].id = id;
    m->told[m->n_told++].reason = reason;
}

static model_entry *by_id(model *m, uint64_t id) {
    for (size_t i = 0; i < m->n; i++)
        if (m->list[i].id == id) return &m->list[i];
    return NULL;
}

static model_entry *any(model *m) {
    return m->n ? &m->list[random_below(&m->rnd, m->n)] : NULL;
}

static model_entry *with_prefix(model *m, uint32_t prefix) {
    for (size_t i = 0; i < m->n; i++)
        if (!m->list[i].gone && m->list[i].prefix == prefix) return &m->list[i];
    return NULL;
}

static bool told_about(const model *m, uint64_t id, enum skippy_drop_reason reason) {
    size_t times = 0;
    for (size_t i = 0; i < m->n_told; i++) times += m->told[i].id == id && m->told[i].reason == reason;
    assert_true(times <= 1);
    return times == 1;
}

static void forget(model *m, model_entry *e) {
    *e = m->list[--m->n];
}

/* The entry left the look-ups; it leaves the list when its leases end. */
static void leaves(model *m, model_entry *e, enum skippy_drop_reason reason) {
    m->dropped[reason]++;
    e->gone = true;
    if (!e->leases) forget(m, e);
}

static uint64_t bytes_of(const model *m, const model_entry *e) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < e->n_parts; i++)
        for (size_t k = 0; k < e->length[i]; k++) bytes += m->lib.ref[e->part[i][k]].bytes;
    return bytes;
}

static void score_all(model *m) {
    for (size_t j = 0; j < m->n; j++) {
        model_entry *e = &m->list[j];
        const skippy_benefit_input in = {
            .cost_ms = e->cost, .total_bytes = (double)bytes_of(m, e), .hits = e->hits, .age = m->clock - e->last_use};
        e->score = skippy_benefit_score(&in);
    }
}

/* Whoever left was worth no more than anyone who could have left and stayed. */
static void check_victims(model *m) {
    for (size_t i = 0; i < m->n_told; i++) {
        assert_int_equal(m->told[i].reason, SKIPPY_DROP_EVICTED);
        const model_entry *victim = by_id(m, m->told[i].id);
        assert_non_null(victim);
        assert_true(!victim->gone && victim->leases == 0);
        for (size_t k = 0; k < m->n; k++) {
            const model_entry *e = &m->list[k];
            if (e->gone || e->leases || told_about(m, e->id, SKIPPY_DROP_EVICTED)) continue;
            assert_true(victim->score <= e->score);
            if (victim->score >= e->score) assert_true(victim->last_use < e->last_use);
        }
    }
}

static void apply_evictions(model *m) {
    for (size_t i = 0; i < m->n_told; i++) leaves(m, by_id(m, m->told[i].id), SKIPPY_DROP_EVICTED);
}

/* ---- operations ---- */

static void make_random(model *m, test_entry *e, model_entry *want) {
    *want = (model_entry){.prefix = 1 + (uint32_t)random_below(&m->rnd, PREFIXES),
                          .n_parts = 1 + random_below(&m->rnd, TEST_PARTS),
                          .cost = (double)random_below(&m->rnd, 20),
                          .hits = random_below(&m->rnd, 3)};
    test_entry_init(e, want->prefix);
    e->m.cost_ms = want->cost;
    e->m.hits = want->hits;
    e->m.tenant = want->prefix % 4 == 1 ? "one" : want->prefix % 4 == 2 ? "two" : NULL;
    for (size_t i = 0; i < want->n_parts; i++) {
        /* Half of the parts come from a small set, so that whole parts are shared. */
        size_t start = random_below(&m->rnd, 2) ? 3 * random_below(&m->rnd, 4) : random_below(&m->rnd, BLOCKS);
        want->length[i] = 1 + random_below(&m->rnd, start < 12 ? 3 : TEST_PART_BLOCKS);
        for (size_t k = 0; k < want->length[i]; k++)
            want->part[i][k] = (uint8_t)(start < 12 ? start + k : random_below(&m->rnd, BLOCKS));
        test_entry_part(e, &m->lib, want->part[i], want->length[i]);
    }
}

static void put(model *m) {
    test_entry e;
    model_entry want;
    make_random(m, &e, &want);
    size_t dice = random_below(&m->rnd, 10);
    m->lib.asked = 0;
    m->lib.fail_at = dice == 0 ? 1 + random_below(&m->rnd, 4) : 0;
    m->lib.fail_with = SKIPPY_E_IO;
    m->heap.fail_at = dice == 1 ? m->heap.calls + 1 + random_below(&m->rnd, 20) : 0;
    score_all(m);
    model_entry *twin = with_prefix(m, want.prefix);
    uint64_t twin_id = twin ? twin->id : 0;
    int status = skippy_ram_put(m->s, &e.m, test_library_source, &m->lib, &want.id);
    m->heap.fail_at = 0;
    check_victims(m);
    if (twin_id && status != SKIPPY_E_NOMEM) {
        assert_int_equal(status, SKIPPY_E_EXISTS);
        assert_int_equal(want.id, twin_id);
        twin->last_use = ++m->clock;
        return;
    }
    if (status == SKIPPY_E_FULL || status == SKIPPY_E_TOO_LARGE) assert_int_equal(m->n_told, 0);
    if (status == SKIPPY_E_IO) assert_true(m->lib.fail_at);
    if (status == SKIPPY_E_NOMEM) assert_int_equal(dice, 1);
    apply_evictions(m);
    if (status != SKIPPY_OK) return;
    assert_true(want.id != 0 && !by_id(m, want.id) && m->n < ENTRIES);
    want.last_use = ++m->clock;
    m->list[m->n++] = want;
    m->puts++;
}

static void lease(model *m) {
    model_entry *e = any(m);
    const skippy_manifest *view;
    if (!e) return;
    assert_int_equal(skippy_ram_lease(m->s, e->id, &view), e->gone ? SKIPPY_E_NOT_FOUND : SKIPPY_OK);
    if (e->gone) return;
    assert_int_equal(view->tokens[TEST_TOKENS - 1], e->prefix);
    assert_int_equal(view->n_parts, e->n_parts);
    e->leases++;
    e->hits++;
    e->last_use = ++m->clock;
}

static void release(model *m) {
    model_entry *e = any(m);
    if (!e) return;
    assert_int_equal(skippy_ram_release(m->s, e->id), e->leases ? SKIPPY_OK : SKIPPY_E_INVALID);
    if (!e->leases) return;
    if (--e->leases == 0 && e->gone) forget(m, e);
}

static void drop(model *m) {
    model_entry *e = any(m);
    if (!e) return;
    int expected = e->gone ? SKIPPY_E_NOT_FOUND : e->leases ? SKIPPY_E_BUSY : SKIPPY_OK;
    assert_int_equal(skippy_ram_drop(m->s, e->id, SKIPPY_DROP_SUPERSEDED), expected);
    if (expected == SKIPPY_OK) leaves(m, e, SKIPPY_DROP_SUPERSEDED);
}

static void erase(model *m) {
    bool tenant = random_below(&m->rnd, 2);
    const int32_t tokens[] = {1, 2};
    const skippy_erase_filter f = {
        .tenant = tenant ? "two" : NULL, .tokens = tokens, .n_tokens = random_below(&m->rnd, 3)};
    if (!tenant && random_below(&m->rnd, 10)) return; /* everything goes: seldom */
    size_t expected = 0;
    size_t n = skippy_ram_erase(m->s, &f);
    for (size_t i = m->n; i-- > 0;) {
        model_entry *e = &m->list[i];
        if (e->gone || (tenant && e->prefix % 4 != 2)) continue;
        assert_true(told_about(m, e->id, SKIPPY_DROP_ERASED));
        leaves(m, e, SKIPPY_DROP_ERASED);
        expected++;
    }
    assert_int_equal(n, expected);
    assert_int_equal(m->n_told, expected);
}

static bool names(const model_entry *e, uint8_t block) {
    for (size_t i = 0; i < e->n_parts; i++)
        if (memchr(e->part[i], block, e->length[i])) return true;
    return false;
}

static bool holds(const model_entry *e, uint8_t block) {
    return !(e->spoilt & 1ull << block) && names(e, block);
}

static bool held(const model *m, uint8_t block) {
    for (size_t i = 0; i < m->n; i++)
        if (holds(&m->list[i], block)) return true;
    return false;
}

static void quarantine(model *m, uint8_t block) {
    size_t expected = 0;
    m->corrupt++;
    for (size_t i = m->n; i-- > 0;) {
        model_entry *e = &m->list[i];
        if (!holds(e, block)) continue;
        e->spoilt |= 1ull << block;
        if (e->gone) continue;
        assert_true(told_about(m, e->id, SKIPPY_DROP_CORRUPT));
        leaves(m, e, SKIPPY_DROP_CORRUPT);
        expected++;
    }
    assert_int_equal(m->n_told, expected);
}

static void read(model *m) {
    static unsigned char buf[SKIPPY_BLOCK_MAX];
    uint8_t block = (uint8_t)random_below(&m->rnd, BLOCKS);
    const skippy_block_ref *ref = &m->lib.ref[block];
    bool there = held(m, block), flip = there && random_below(&m->rnd, 20) == 0;
    assert_int_equal(skippy_ram_has(m->s, ref), there);
    if (flip) sk_ram_block_find(m->s, ref)->data[random_below(&m->rnd, ref->bytes)] ^= 1;
    int expected = flip ? SKIPPY_E_CORRUPT : there ? SKIPPY_OK : SKIPPY_E_NOT_FOUND;
    assert_int_equal(skippy_ram_read(m->s, ref, buf), expected);
    if (expected == SKIPPY_OK) assert_memory_equal(buf, m->lib.data[block], ref->bytes);
    if (flip) quarantine(m, block);
}

/* ---- comparison ---- */

static void check(model *m, int op) {
    skippy_store_stats st;
    skippy_ram_get_stats(m->s, &st);
    uint64_t entries = 0, leased = 0, logical = 0, refs = 0, blocks = 0, block_bytes = 0;
    for (size_t j = 0; j < m->n; j++) {
        const model_entry *e = &m->list[j];
        leased += e->leases > 0;
        entries += !e->gone;
        for (size_t i = 0; i < e->n_parts && !e->gone; i++) refs += e->length[i];
        logical += e->gone ? 0 : bytes_of(m, e);
    }
    for (size_t b = 0; b < BLOCKS; b++) {
        blocks += held(m, (uint8_t)b);
        block_bytes += held(m, (uint8_t)b) ? m->lib.ref[b].bytes : 0;
    }
    assert_int_equal(st.entries, entries);
    assert_int_equal(st.leased, leased);
    assert_int_equal(st.logical_bytes, logical);
    assert_int_equal(st.block_refs, refs);
    assert_int_equal(st.blocks, blocks);
    assert_int_equal(st.block_bytes, block_bytes);
    assert_int_equal(st.puts, m->puts);
    assert_int_equal(st.corrupt_blocks, m->corrupt);
    assert_memory_equal(st.dropped, m->dropped, sizeof st.dropped);
    assert_true(st.physical_bytes <= MAX_BYTES);
    assert_true(m->s->reserved == 0 && m->s->pinned == 0 && m->s->dying == 0);
    assert_int_equal(skippy_ram_check(m->s, op % 50 == 0), SKIPPY_OK);
}

static void open_model(model *m) {
    uint32_t bytes[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) bytes[i] = 1 + (uint32_t)random_below(&m->rnd, i % 10 == 9 ? 20000 : 3000);
    test_library_open(&m->lib, bytes, BLOCKS);
    const skippy_allocator hooks = test_heap_hooks(&m->heap);
    const skippy_ram_params p = {.max_bytes = MAX_BYTES, .soft_bytes = 100000, .on_drop = note, .ud = m};
    assert_int_equal(skippy_ram_create(&hooks, &p, &m->s), SKIPPY_OK);
}

static void the_store_behaves_like_a_list(void **state) {
    (void)state;
    static model m;
    m = (model){.rnd = random_start("ram_store (a tenth of)")};
    open_model(&m);
    for (int op = 0; op < OPERATIONS; op++) {
        static void (*const operation[])(model *) = {put,     put,     put,  put,  lease, lease, release,
                                                     release, release, read, read, read,  read,  drop};
        size_t dice = random_below(&m.rnd, 15 * sizeof operation / sizeof *operation);
        m.n_told = 0;
        if (dice == 0)
            erase(&m);
        else
            operation[dice % (sizeof operation / sizeof *operation)](&m);
        check(&m, op);
    }
    assert_true(m.dropped[SKIPPY_DROP_EVICTED] > 0 && m.corrupt > 0 && m.dropped[SKIPPY_DROP_ERASED] > 0);
    skippy_ram_destroy(m.s);
    assert_int_equal(m.heap.live, 0);
    test_library_close(&m.lib);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_store_behaves_like_a_list),
    };
    return cmocka_run_group_tests_name("ram_store_model", tests, NULL, NULL);
}
