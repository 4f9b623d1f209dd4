#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cache/map.h"
#include "cache/test_alloc.h"

enum { N = 500 };

static size_t count_same(const sk_map *m, uint64_t hash) {
    size_t n = 0;
    for (sk_map_link *l = sk_map_first(m, hash); l; l = sk_map_same(l)) n++;
    return n;
}

static void elements_with_one_hash_are_all_found(void **state) {
    (void)state;
    test_heap heap = {0};
    skippy_allocator hooks = test_heap_hooks(&heap);
    static sk_map_link link[N];
    sk_map m;
    assert_true(sk_map_init(&m, &hooks));
    for (size_t i = 0; i < N; i++) sk_map_add(&m, &link[i], i % 7);
    assert_int_equal(count_same(&m, 0), (N + 6) / 7);
    assert_int_equal(count_same(&m, 7), 0);
    sk_map_remove(&m, &link[0]);
    assert_int_equal(count_same(&m, 0), (N + 6) / 7 - 1);
    assert_int_equal(m.count, N - 1);
    size_t popped = 0;
    while (sk_map_pop(&m)) popped++;
    assert_int_equal(popped, N - 1);
    sk_map_free(&m);
    assert_int_equal(heap.live, 0);
}

static void a_map_that_cannot_grow_still_finds_everything(void **state) {
    (void)state;
    test_heap heap = {0};
    skippy_allocator hooks = test_heap_hooks(&heap);
    static sk_map_link link[N];
    sk_map m;
    assert_true(sk_map_init(&m, &hooks));
    size_t bytes = sk_map_bytes(&m);
    heap.fail_all = true;
    for (size_t i = 0; i < N; i++) sk_map_add(&m, &link[i], sk_map_hash_u64(i));
    assert_int_equal(sk_map_bytes(&m), bytes);
    for (size_t i = 0; i < N; i++) assert_ptr_equal(sk_map_first(&m, sk_map_hash_u64(i)), &link[i]);
    heap.fail_all = false;
    sk_map_remove(&m, &link[1]);
    sk_map_add(&m, &link[1], sk_map_hash_u64(1)); /* memory is back: now it grows */
    assert_true(sk_map_bytes(&m) > bytes);
    for (size_t i = 0; i < N; i++) assert_ptr_equal(sk_map_first(&m, sk_map_hash_u64(i)), &link[i]);
    sk_map_free(&m);
    assert_int_equal(heap.live, 0);
}

static void init_without_memory_fails(void **state) {
    (void)state;
    test_heap heap = {.fail_all = true};
    skippy_allocator hooks = test_heap_hooks(&heap);
    sk_map m;
    assert_false(sk_map_init(&m, &hooks));
    sk_map_free(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_with_one_hash_are_all_found),
        cmocka_unit_test(a_map_that_cannot_grow_still_finds_everything),
        cmocka_unit_test(init_without_memory_fails),
    };
    return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
