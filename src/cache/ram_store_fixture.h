/* A RAM store under test, its blocks, and what on_drop was told. Functions end the test when something is wrong. */
#ifndef SKIPPY_CACHE_RAM_STORE_FIXTURE_H
#define SKIPPY_CACHE_RAM_STORE_FIXTURE_H

#include "cache/ram_store_internal.h"
#include "cache/test_alloc.h"
#include "cache/test_payload.h"

/* Ten blocks: '0' .. '4' of 100 to 5,000 bytes, '5' .. '9' of 100,000 bytes. The store has room for four large ones. */
typedef struct fixture {
    skippy_ram_store *s;
    test_library lib;
    test_heap heap;
    skippy_allocator hooks;
    struct {
        uint64_t id;
        enum skippy_drop_reason reason;
    } dropped[16];
    size_t n_dropped;
} fixture;

/* Replaces the store by an empty one with these limits. */
void reopen(fixture *f, uint64_t max_bytes, uint64_t soft_bytes);
/* Set-up and tear-down for cmocka; the tear-down checks the store and that nothing leaks. */
int open_store(void **state);
int close_store(void **state);
skippy_store_stats stats_of(const fixture *f);
/* Puts and checks the store. */
int put_entry(fixture *f, const test_entry *e, uint64_t *id);
/* Puts entry `prefix` with parts of these blocks (test_entry_make). */
int try_put(fixture *f, uint32_t prefix, const char *part0, const char *part1);
/* The same, and it must succeed: returns the id. */
uint64_t put_costing(fixture *f, uint32_t prefix, const char *part0, const char *part1, double cost);
uint64_t put(fixture *f, uint32_t prefix, const char *part0, const char *part1);
int lease(fixture *f, uint64_t id);
/* Reads block n; its bytes must be right when the store says so. */
int read_block(fixture *f, size_t n);
/* Spoils the stored copy of block n. */
void flip_a_bit(fixture *f, size_t n);
/* on_drop was told that the entry left for this reason. */
void assert_dropped(const fixture *f, uint64_t id, enum skippy_drop_reason reason);

#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, open_store, close_store)

#endif
