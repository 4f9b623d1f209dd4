/* The RAM store under threads: two put overlapping entries (eviction included), two lease and read, one erases. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cache/test_payload.h"
#include "cache/test_random.h"
#include "skippy/ram_store.h"

enum { BLOCKS = 40, PREFIXES = 30, ROUNDS = 4000, MAX_BYTES = 550000 };

typedef struct stage {
    skippy_ram_store *s;
    test_library lib; /* read only once it is open: each putter has a copy for its counters */
    atomic_uint_least64_t newest[PREFIXES];
    atomic_size_t dropped, leased, failures, putting;
    atomic_int failed_line; /* of the first failure */
} stage;

/* A thread must not call cmocka's asserts: they jump out of it. */
static void expect_at(stage *st, bool holds, int line) {
    if (!holds && atomic_fetch_add(&st->failures, 1) == 0) atomic_store(&st->failed_line, line);
}

#define expect(st, holds) expect_at((st), (holds), __LINE__)

static void count_drop(void *ud, uint64_t id, enum skippy_drop_reason reason) {
    stage *st = ud;
    expect(st, id != 0 && (reason == SKIPPY_DROP_EVICTED || reason == SKIPPY_DROP_ERASED));
    atomic_fetch_add(&st->dropped, 1);
}

/* Entry `prefix` always has the same blocks, and shares each with others. */
static void make_entry(const test_library *lib, test_entry *e, uint32_t prefix) {
    test_entry_init(e, prefix);
    e->m.tenant = prefix % 3 ? "ann" : "bob";
    for (uint8_t i = 0; i < 3; i++) {
        uint8_t blocks[4];
        for (uint8_t k = 0; k < 4; k++) blocks[k] = (uint8_t)((prefix * i * 5 + k * (1 + prefix % 3)) % BLOCKS);
        test_entry_part(e, lib, blocks, 4);
    }
}

typedef struct actor {
    stage *st;
    test_random rnd;
    pthread_t thread;
} actor;

static void *run_putter(void *arg) {
    actor *a = arg;
    stage *st = a->st;
    test_library lib = st->lib;
    for (int i = 0; i < ROUNDS; i++) {
        test_entry e;
        uint64_t id = 0;
        uint32_t prefix = (uint32_t)random_below(&a->rnd, PREFIXES);
        make_entry(&lib, &e, prefix);
        int status = skippy_ram_put(st->s, &e.m, test_library_source, &lib, &id);
        expect(st, status == SKIPPY_OK || status == SKIPPY_E_EXISTS || status == SKIPPY_E_FULL);
        if (id) atomic_store(&st->newest[prefix], id);
    }
    atomic_fetch_sub(&st->putting, 1);
    return NULL;
}

static void read_entry(stage *st, const skippy_manifest *m) {
    static _Thread_local unsigned char buf[SKIPPY_BLOCK_MAX];
    for (size_t i = 0; i < m->n_parts; i++)
        for (size_t k = 0; k < m->parts[i].n_blocks; k++)
            expect(st, skippy_ram_read(st->s, &m->parts[i].blocks[k], buf) == SKIPPY_OK);
}

static void *run_reader(void *arg) {
    actor *a = arg;
    stage *st = a->st;
    while (atomic_load(&st->putting)) {
        uint32_t prefix = (uint32_t)random_below(&a->rnd, PREFIXES);
        uint64_t id = atomic_load(&st->newest[prefix]);
        const skippy_manifest *m;
        if (skippy_ram_lease(st->s, id, &m) != SKIPPY_OK) continue;
        expect(st, m->tokens[TEST_TOKENS - 1] == (int32_t)prefix);
        read_entry(st, m);
        atomic_fetch_add(&st->leased, 1);
        expect(st, skippy_ram_release(st->s, id) == SKIPPY_OK);
    }
    return NULL;
}

static void *run_eraser(void *arg) {
    actor *a = arg;
    stage *st = a->st;
    const skippy_erase_filter f = {.tenant = "bob"};
    while (atomic_load(&st->putting)) {
        skippy_store_stats stats;
        skippy_ram_erase(st->s, &f);
        skippy_ram_get_stats(st->s, &stats);
        expect(st, stats.physical_bytes <= MAX_BYTES);
        expect(st, skippy_ram_check(st->s, random_below(&a->rnd, 20) == 0) == SKIPPY_OK);
    }
    return NULL;
}

static void threads_see_whole_entries_only(void **state) {
    (void)state;
    static stage st;
    uint32_t bytes[BLOCKS];
    test_random rnd = random_start("ram_store threads");
    for (size_t i = 0; i < BLOCKS; i++) bytes[i] = 20000 + (uint32_t)random_below(&rnd, 10000);
    test_library_open(&st.lib, bytes, BLOCKS);
    const skippy_ram_params p = {.max_bytes = MAX_BYTES, .soft_bytes = 500000, .on_drop = count_drop, .ud = &st};
    assert_int_equal(skippy_ram_create(NULL, &p, &st.s), SKIPPY_OK);

    static void *(*const run[])(void *) = {run_putter, run_putter, run_reader, run_reader, run_eraser};
    actor actors[5];
    atomic_store(&st.putting, 2);
    for (size_t i = 0; i < 5; i++) {
        actors[i].st = &st;
        actors[i].rnd.state = random_u64(&rnd) | 1;
        assert_int_equal(pthread_create(&actors[i].thread, NULL, run[i], &actors[i]), 0);
    }
    for (size_t i = 0; i < 5; i++) assert_int_equal(pthread_join(actors[i].thread, NULL), 0);

    skippy_store_stats stats;
    skippy_ram_get_stats(st.s, &stats);
    if (atomic_load(&st.failures))
        fail_msg("%zu failures, the first at line %d", atomic_load(&st.failures), atomic_load(&st.failed_line));
    assert_int_equal(skippy_ram_check(st.s, true), SKIPPY_OK);
    assert_int_equal(stats.leased, 0);
    assert_int_equal(stats.puts, stats.entries + atomic_load(&st.dropped));
    assert_true(stats.dropped[SKIPPY_DROP_EVICTED] > 0);
    skippy_ram_destroy(st.s);
    test_library_close(&st.lib);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_see_whole_entries_only),
    };
    return cmocka_run_group_tests_name("ram_store_thread", tests, NULL, NULL);
}
