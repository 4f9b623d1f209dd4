/* One writer and several readers of one store, without and under ThreadSanitizer. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/disk_fixture.h"
#include "cache/disk_internal.h"
#include "cache/test_random.h"

enum { BLOCK = 500, SEGMENT = 5000, CHATS = 16, READERS = 3, ROUNDS = TEST_OPERATIONS / 500, SLOTS = 64 };

typedef struct shared {
    skippy_disk_store *s;
    _Atomic uint64_t ids[SLOTS]; /* of entries that were stored lately: id << 16 | chat << 8 | turns */
    atomic_bool stop;
    atomic_size_t good, gone, wrong;
    atomic_bool blocked;     /* the writer waits in a sync */
    atomic_size_t meanwhile; /* reads that ended while it did */
} shared;

static bool block_right(skippy_disk_store *s, const skippy_block_ref *ref, uint8_t *buf, shared *sh) {
    skippy_block_ref found;
    int status = skippy_disk_read(s, ref, buf);
    if (status == SKIPPY_E_NOT_FOUND) { /* erased meanwhile */
        atomic_fetch_add(&sh->gone, 1);
        return false;
    }
    if (status != SKIPPY_OK || skippy_block_digest(buf, ref->bytes, &found) != SKIPPY_OK ||
        memcmp(&found, ref, sizeof found) != 0) {
        atomic_fetch_add(&sh->wrong, 1);
        return false;
    }
    return true;
}

static void read_entry(shared *sh, uint64_t packed, uint8_t *buf) {
    const skippy_manifest *m;
    if (skippy_disk_lease(sh->s, packed >> 16, &m) != SKIPPY_OK) return;
    unsigned chat, turns;
    test_entry_which(m, &chat, &turns);
    if (chat != (packed >> 8 & 0xff) || turns != (packed & 0xff)) atomic_fetch_add(&sh->wrong, 1);
    bool right = true;
    for (size_t i = 0; right && i < m->n_parts; i++)
        for (size_t j = 0; right && j < m->parts[i].n_blocks; j++)
            right = block_right(sh->s, &m->parts[i].blocks[j], buf, sh);
    if (right) atomic_fetch_add(&sh->good, 1);
    if (right && atomic_load(&sh->blocked)) atomic_fetch_add(&sh->meanwhile, 1);
    if (skippy_disk_release(sh->s, packed >> 16) != SKIPPY_OK) atomic_fetch_add(&sh->wrong, 1);
}

static void *reader(void *ud) {
    shared *sh = ud;
    uint8_t buf[BLOCK];
    skippy_store_stats stats;
    for (size_t i = 0; !atomic_load(&sh->stop); i++) {
        uint64_t packed = atomic_load(&sh->ids[i * 7 % SLOTS]);
        if (packed) read_entry(sh, packed, buf);
        if (i % 64 == 0) skippy_disk_get_stats(sh->s, &stats);
    }
    return NULL;
}

static void write_one(shared *sh, test_random *rnd, size_t slot) {
    unsigned chat = (unsigned)random_below(rnd, CHATS), turns = 1 + (unsigned)random_below(rnd, TEST_TURNS);
    uint64_t id;
    size_t n, dice = random_below(rnd, 20);
    bool more;
    if (dice < 15) {
        int status = test_put_chat(sh->s, chat, turns, BLOCK, &id);
        assert_true(status == SKIPPY_OK || status == SKIPPY_E_EXISTS || status == SKIPPY_E_FULL);
        if (status != SKIPPY_E_FULL) atomic_store(&sh->ids[slot % SLOTS], id << 16 | (uint64_t)chat << 8 | turns);
    } else if (dice < 17) {
        uint64_t packed = atomic_load(&sh->ids[random_below(rnd, SLOTS)]);
        if (packed) (void)skippy_disk_drop(sh->s, packed >> 16, SKIPPY_DROP_SUPERSEDED);
    } else if (dice < 19) {
        (void)skippy_disk_compact(sh->s, &more, NULL);
    } else {
        test_entry e;
        test_entry_make(&e, chat, 1, BLOCK);
        skippy_erase_filter f = {.tokens = e.tokens, .n_tokens = e.m.n_tokens};
        assert_int_equal(skippy_disk_erase(sh->s, &f, &n, NULL), SKIPPY_OK);
        test_entry_free(&e);
    }
}

static void start(shared *sh, pthread_t *threads) {
    for (size_t i = 0; i < READERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, reader, sh), 0);
}

static void finish(shared *sh, pthread_t *threads) {
    atomic_store(&sh->stop, true);
    for (size_t i = 0; i < READERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&sh->wrong), 0);
}

static void readers_get_right_bytes_while_everything_changes(void **state) {
    scratch *t = *state;
    static shared sh;
    pthread_t threads[READERS];
    test_random rnd = disk_random_start("threads", ROUNDS);
    assert_int_equal(scratch_open(t, NULL, 100000, SEGMENT, NULL, NULL, &sh.s, NULL), SKIPPY_OK);
    start(&sh, threads);
    for (size_t i = 0; i < ROUNDS; i++) write_one(&sh, &rnd, i);
    finish(&sh, threads);
    printf("threads: %zu entries read, %zu left while they were read\n", atomic_load(&sh.good), atomic_load(&sh.gone));
    assert_true(atomic_load(&sh.good) > 0);
    check_accounts(t, sh.s);
    skippy_disk_close(sh.s);
}

/* ---- a device on which a sync takes as long as it takes for some reads to end ---- */

static int slow_sync(void *ud, sk_io_call *call) {
    shared *sh = ud;
    enum { READS = 20 };
    if (call->op != SK_IO_SYNC || !atomic_load(&sh->ids[0])) return 0;
    atomic_store(&sh->meanwhile, 0);
    atomic_store(&sh->blocked, true);
    /* If a reader waited for this sync, this would never end, and the test's time limit says so. */
    while (atomic_load(&sh->meanwhile) < READS) sched_yield();
    atomic_store(&sh->blocked, false);
    return 0;
}

static void no_reader_waits_for_a_sync_of_the_writer(void **state) {
    scratch *t = *state;
    static shared sh;
    pthread_t threads[READERS];
    sk_io io = {.before = slow_sync, .ud = &sh};
    uint64_t id;
    size_t n;
    skippy_erase_filter odd = {.tenant = "odd"};
    assert_int_equal(scratch_open(t, &io, 0, SEGMENT, NULL, NULL, &sh.s, NULL), SKIPPY_OK);
    assert_int_equal(test_put_chat(sh.s, 2, 3, BLOCK, &id), SKIPPY_OK);
    assert_int_equal(test_put_chat(sh.s, 3, 3, BLOCK, &id), SKIPPY_OK);
    start(&sh, threads);
    for (size_t i = 0; i < SLOTS; i++) atomic_store(&sh.ids[i], (id - 1) << 16 | 2 << 8 | 3);
    assert_int_equal(test_put_chat(sh.s, 4, 8, BLOCK, &id), SKIPPY_OK);
    assert_int_equal(skippy_disk_erase(sh.s, &odd, &n, NULL), SKIPPY_OK);
    assert_int_equal(n, 1);
    for (size_t i = 0; i < SLOTS; i++) atomic_store(&sh.ids[i], 0);
    finish(&sh, threads);
    skippy_disk_close(sh.s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        scratch_test(readers_get_right_bytes_while_everything_changes),
        scratch_test(no_reader_waits_for_a_sync_of_the_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
