/* Random operations on a disk store against a plain list, with and without a limit, with system calls that fail, and
 * with the store closed and opened again in between. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/disk_fixture.h"
#include "cache/disk_internal.h"
#include "cache/test_random.h"

enum { BLOCK = 600, SEGMENT = 6000, CHATS = 24, MAX_LIVE = 2048, STEPS = TEST_OPERATIONS / 100 };

typedef struct item {
    uint64_t id;
    unsigned chat, turns, leases;
} item;

typedef struct model {
    scratch t;
    skippy_disk_store *s;
    item live[MAX_LIVE];
    size_t n;
    uint64_t max_bytes;
    bool with_faults;
    faults f;
    test_random rnd;
    size_t done[SKIPPY_DROP_REASONS], failures;
} model;

static found_list found;

static item *by_id(model *m, uint64_t id) {
    for (size_t i = 0; i < m->n; i++)
        if (m->live[i].id == id) return &m->live[i];
    return NULL;
}

static item *by_content(model *m, unsigned chat, unsigned turns) {
    for (size_t i = 0; i < m->n; i++)
        if (m->live[i].chat == chat && m->live[i].turns == turns) return &m->live[i];
    return NULL;
}

static void forget(model *m, item *it) {
    *it = m->live[--m->n];
}

static void dropped(void *ud, uint64_t id, enum skippy_drop_reason reason) {
    model *m = ud;
    item *it = by_id(m, id);
    assert_non_null(it);
    if (reason == SKIPPY_DROP_EVICTED) assert_int_equal(it->leases, 0);
    m->done[reason]++;
    /* A leased entry that was erased is released by the model later; it is not found from now on. */
    forget(m, it);
}

static void open_model(model *m) {
    skippy_disk_params p = {
        .dir = m->t.dir, .name = "s", .max_bytes = m->max_bytes, .segment_bytes = SEGMENT, .on_drop = dropped, .ud = m};
    sk_io io = faults_io(&m->f);
    skippy_disk_detail detail = {{0}};
    found.n = 0;
    int status = sk_disk_open(NULL, &io, &p, note_found, NULL, &found, &m->s, &detail);
    if (status != SKIPPY_OK) print_error("%s\n", detail.text);
    assert_int_equal(status, SKIPPY_OK);
}

/* ---- the operations ---- */

static void do_put(model *m) {
    unsigned chat = (unsigned)random_below(&m->rnd, CHATS), turns = 1 + (unsigned)random_below(&m->rnd, TEST_TURNS);
    uint64_t id = 0;
    const item *same = by_content(m, chat, turns);
    uint64_t same_id = same ? same->id : 0;
    int status = test_put_chat(m->s, chat, turns, BLOCK, &id);
    if (same_id) {
        assert_int_equal(status, SKIPPY_E_EXISTS);
        assert_int_equal(id, same_id);
        return;
    }
    if (status == SKIPPY_OK) {
        assert_true(m->n < MAX_LIVE);
        assert_null(by_id(m, id));
        m->live[m->n++] = (item){id, chat, turns, 0};
        return;
    }
    m->failures++;
    if (status == SKIPPY_E_IO)
        assert_true(m->with_faults);
    else if (status == SKIPPY_E_FULL || status == SKIPPY_E_TOO_LARGE)
        assert_true(m->max_bytes > 0);
    else
        assert_int_equal(status, SKIPPY_E_CORRUPT); /* a read failed while a shared block was moved */
}

static void do_check(model *m) {
    if (!m->n) return;
    item it = m->live[random_below(&m->rnd, m->n)];
    int status = test_check(m->s, it.id, it.chat, it.turns, BLOCK);
    if (m->with_faults && status == SKIPPY_E_IO) return;
    assert_int_equal(status, SKIPPY_OK);
}

static void do_lease(model *m) {
    const skippy_manifest *manifest;
    if (!m->n) return;
    item *it = &m->live[random_below(&m->rnd, m->n)];
    if (it->leases == 0 || random_below(&m->rnd, 2)) {
        assert_int_equal(skippy_disk_lease(m->s, it->id, &manifest), SKIPPY_OK);
        it->leases++;
    } else {
        assert_int_equal(skippy_disk_release(m->s, it->id), SKIPPY_OK);
        it->leases--;
    }
}

static void release_all(model *m) {
    for (size_t i = 0; i < m->n; i++)
        for (; m->live[i].leases; m->live[i].leases--)
            assert_int_equal(skippy_disk_release(m->s, m->live[i].id), SKIPPY_OK);
}

static void do_drop(model *m) {
    if (!m->n) return;
    item *it = &m->live[random_below(&m->rnd, m->n)];
    int status = skippy_disk_drop(m->s, it->id, SKIPPY_DROP_SUPERSEDED);
    assert_int_equal(status, it->leases ? SKIPPY_E_BUSY : SKIPPY_OK);
    if (status == SKIPPY_OK) forget(m, it);
}

static void do_erase(model *m) {
    test_entry e;
    size_t n_erased, expected = 0;
    skippy_disk_detail detail;
    test_entry_make(&e, (unsigned)random_below(&m->rnd, CHATS), 2, BLOCK);
    skippy_erase_filter f = {.tokens = e.tokens, .n_tokens = e.m.n_tokens};
    release_all(m);
    for (size_t i = 0; i < m->n; i++)
        expected += m->live[i].chat == (unsigned)e.tokens[0] / 1000 && m->live[i].turns > 1;
    int status = skippy_disk_erase(m->s, &f, &n_erased, &detail);
    assert_true(status == SKIPPY_OK || (m->with_faults && status == SKIPPY_E_IO));
    assert_int_equal(n_erased, expected);
    test_entry_free(&e);
}

static void do_compact(model *m) {
    bool more = true;
    for (size_t i = 0; more; i++) {
        int status = skippy_disk_compact(m->s, &more, NULL);
        assert_true(i < 10000); /* it comes to an end */
        if (status == SKIPPY_OK) continue;
        assert_true(m->with_faults || status == SKIPPY_E_FULL);
        assert_false(more);
    }
}

static void do_reopen(model *m) {
    release_all(m);
    skippy_disk_close(m->s);
    open_model(m);
    /* Nothing is invented; what is missing can only have been evicted by the open, which reports what it found after.
     */
    for (size_t i = 0; i < found.n; i++) {
        const item *it = by_id(m, found.id[i]);
        assert_non_null(it);
        assert_int_equal(it->chat, found.chat[i]);
        assert_int_equal(it->turns, found.turns[i]);
    }
    assert_int_equal(found.n, m->n);
}

/* ---- what holds after every operation ---- */

static void check_totals(model *m) {
    skippy_store_stats stats;
    uint64_t leased = 0;
    skippy_disk_get_stats(m->s, &stats);
    for (size_t i = 0; i < m->n; i++) leased += m->live[i].leases > 0;
    assert_int_equal(stats.entries, m->n);
    assert_int_equal(stats.leased, leased);
    assert_true(stats.block_bytes <= stats.logical_bytes && stats.blocks <= stats.block_refs);
    assert_true(stats.block_bytes <= stats.physical_bytes);
    if (m->max_bytes && !m->with_faults) assert_true(stats.physical_bytes <= m->max_bytes);
    if (!m->with_faults) check_accounts(&m->t, m->s);
}

/* Sums that are recomputed from the list. */
static void check_sums(model *m) {
    skippy_store_stats stats;
    static uint64_t seen[MAX_LIVE * TEST_TURNS * TEST_BLOCKS];
    uint64_t logical = 0, unique = 0;
    size_t n_seen = 0;
    for (size_t i = 0; i < m->n; i++) {
        test_entry e;
        test_entry_make(&e, m->live[i].chat, m->live[i].turns, BLOCK);
        for (size_t j = 0; j < m->live[i].turns * TEST_BLOCKS; j++) {
            size_t k = 0;
            logical += e.refs[j].bytes;
            while (k < n_seen && seen[k] != e.seeds[j]) k++;
            if (k < n_seen) continue;
            seen[n_seen++] = e.seeds[j];
            unique += e.refs[j].bytes;
        }
        test_entry_free(&e);
    }
    skippy_disk_get_stats(m->s, &stats);
    assert_int_equal(stats.logical_bytes, logical);
    assert_int_equal(stats.block_bytes, unique);
    assert_int_equal(stats.blocks, n_seen);
}

static void arm(model *m) {
    static const int errors[] = {ENOSPC, EIO, EROFS, EDQUOT};
    faults_clear(&m->f);
    m->f.mono_ns += 3600u * (uint64_t)1000000000; /* the pause after a failure is over */
    if (!m->with_faults || random_below(&m->rnd, 3)) return;
    size_t op = random_below(&m->rnd, 2) ? SK_IO_WRITE : random_below(&m->rnd, SK_IO_OPS);
    m->f.error[op] = errors[random_below(&m->rnd, sizeof errors / sizeof *errors)];
    /* Reads that fail while a block is moved cost entries by design: not in this test, which counts them. */
    if (op == SK_IO_READ || op == SK_IO_OPEN) m->f.error[op] = 0;
    m->f.skip[op] = (int)random_below(&m->rnd, 12);
    m->f.times[op] = (int)random_below(&m->rnd, 3);
}

static void step(model *m) {
    size_t dice = random_below(&m->rnd, 100);
    arm(m);
    if (dice < 50)
        do_put(m);
    else if (dice < 70)
        do_check(m);
    else if (dice < 78)
        do_lease(m);
    else if (dice < 90)
        do_drop(m);
    else if (dice < 93)
        do_compact(m);
    else if (dice < 95)
        do_erase(m);
    else if (dice < 97) {
        faults_clear(&m->f);
        do_reopen(m);
    }
    check_totals(m);
}

static void run(model *m, const char *name) {
    m->rnd = disk_random_start(name, STEPS);
    m->f.use_clocks = true;
    m->f.wall_ms = 1000000;
    scratch_make(&m->t);
    open_model(m);
    for (size_t i = 0; i < STEPS; i++) {
        m->f.wall_ms += random_below(&m->rnd, 100);
        if (random_below(&m->rnd, 200) == 0) m->f.wall_ms = random_below(&m->rnd, 2000000); /* the clock jumps */
        step(m);
        if (i % 500 == 0) check_sums(m);
    }
    faults_clear(&m->f);
    m->f.mono_ns += 3600u * (uint64_t)1000000000;
    do_reopen(m);
    check_sums(m);
    check_accounts(&m->t, m->s);
    for (size_t i = 0; i < m->n; i++)
        assert_int_equal(test_check(m->s, m->live[i].id, m->live[i].chat, m->live[i].turns, BLOCK), SKIPPY_OK);
    printf("%s: %zu entries at the end, %zu refused, %zu evicted, %zu erased\n", name, m->n, m->failures,
           m->done[SKIPPY_DROP_EVICTED], m->done[SKIPPY_DROP_ERASED]);
    assert_int_equal(m->done[SKIPPY_DROP_CORRUPT], 0);
    release_all(m);
    skippy_disk_close(m->s);
    scratch_remove(&m->t);
}

static void a_store_without_a_limit_keeps_everything(void **state) {
    static model m;
    (void)state;
    run(&m, "no limit");
    assert_int_equal(m.failures, 0);
    assert_int_equal(m.done[SKIPPY_DROP_EVICTED], 0);
}

static void a_store_never_exceeds_its_limit(void **state) {
    static model m = {.max_bytes = 120000};
    (void)state;
    run(&m, "limit");
    assert_true(m.done[SKIPPY_DROP_EVICTED] > 0);
}

static void calls_that_fail_lose_nothing_that_was_stored(void **state) {
    static model m = {.with_faults = true};
    (void)state;
    run(&m, "faults");
    assert_true(m.failures > 0);
}

static void calls_that_fail_under_a_limit(void **state) {
    static model m = {.max_bytes = 120000, .with_faults = true};
    (void)state;
    run(&m, "faults and limit");
    assert_true(m.failures > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_without_a_limit_keeps_everything),
        cmocka_unit_test(a_store_never_exceeds_its_limit),
        cmocka_unit_test(calls_that_fail_lose_nothing_that_was_stored),
        cmocka_unit_test(calls_that_fail_under_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
