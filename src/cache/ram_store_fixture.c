#include "cache/ram_store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Ten blocks: '0' .. '4' small ones, '5' .. '9' of 100,000 bytes. */
static const uint32_t sizes[] = {100, 200, 300, 4000, 5000, 100000, 100000, 100000, 100000, 100000};

static void note_drop(void *ud, uint64_t id, enum skippy_drop_reason reason) {
    fixture *f = ud;
    assert_true(f->n_dropped < 16);
    f->dropped[f->n_dropped].id = id;
    f->dropped[f->n_dropped++].reason = reason;
    skippy_store_stats st;
    skippy_ram_get_stats(f->s, &st); /* would never come back if the lock were held */
}

void reopen(fixture *f, uint64_t max_bytes, uint64_t soft_bytes) {
    skippy_ram_destroy(f->s);
    const skippy_ram_params p = {.max_bytes = max_bytes, .soft_bytes = soft_bytes, .on_drop = note_drop, .ud = f};
    f->hooks = test_heap_hooks(&f->heap);
    assert_int_equal(skippy_ram_create(&f->hooks, &p, &f->s), SKIPPY_OK);
}

int open_store(void **state) {
    fixture *f = calloc(1, sizeof *f);
    if (!f) return -1;
    test_library_open(&f->lib, sizes, sizeof sizes / sizeof *sizes);
    reopen(f, 450000, 0); /* four large blocks and some small ones */
    *state = f;
    return 0;
}

int close_store(void **state) {
    fixture *f = *state;
    int check = skippy_ram_check(f->s, true);
    skippy_ram_destroy(f->s);
    test_library_close(&f->lib);
    size_t live = f->heap.live;
    free(f);
    return check == SKIPPY_OK && live == 0 ? 0 : -1;
}

skippy_store_stats stats_of(const fixture *f) {
    skippy_store_stats s;
    skippy_ram_get_stats(f->s, &s);
    return s;
}

int put_entry(fixture *f, const test_entry *e, uint64_t *id) {
    int status = skippy_ram_put(f->s, &e->m, test_library_source, &f->lib, id);
    assert_int_equal(skippy_ram_check(f->s, true), SKIPPY_OK);
    return status;
}

int try_put(fixture *f, uint32_t prefix, const char *part0, const char *part1) {
    test_entry e;
    uint64_t id;
    test_entry_make(&e, &f->lib, prefix, part0, part1);
    return put_entry(f, &e, &id);
}

uint64_t put_costing(fixture *f, uint32_t prefix, const char *part0, const char *part1, double cost) {
    test_entry e;
    uint64_t id = 0;
    test_entry_make(&e, &f->lib, prefix, part0, part1);
    e.m.cost_ms = cost;
    assert_int_equal(put_entry(f, &e, &id), SKIPPY_OK);
    assert_true(id != 0);
    return id;
}

uint64_t put(fixture *f, uint32_t prefix, const char *part0, const char *part1) {
    return put_costing(f, prefix, part0, part1, 10);
}

int lease(fixture *f, uint64_t id) {
    const skippy_manifest *m;
    return skippy_ram_lease(f->s, id, &m);
}

int read_block(fixture *f, size_t n) {
    static unsigned char buf[100000];
    int status = skippy_ram_read(f->s, &f->lib.ref[n], buf);
    if (status == SKIPPY_OK) assert_memory_equal(buf, f->lib.data[n], sizes[n]);
    assert_int_equal(skippy_ram_check(f->s, false), SKIPPY_OK);
    return status;
}

void flip_a_bit(fixture *f, size_t n) {
    sk_ram_block *b = sk_ram_block_find(f->s, &f->lib.ref[n]);
    assert_non_null(b);
    b->data[sizes[n] / 2] ^= 4;
}

void assert_dropped(const fixture *f, uint64_t id, enum skippy_drop_reason reason) {
    for (size_t i = 0; i < f->n_dropped; i++)
        if (f->dropped[i].id == id && f->dropped[i].reason == reason) return;
    fail_msg("entry %llu was not dropped", (unsigned long long)id);
}
