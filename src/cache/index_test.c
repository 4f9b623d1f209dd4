#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/test_alloc.h"
#include "skippy/index.h"

static const skippy_key ns_a = {{1}}, ns_b = {{2}};

static skippy_residency state_of(uint64_t id, int tier, int reach) {
    return (skippy_residency){.id = id, .kind = SKIPPY_KIND_STATE, .tier = (uint8_t)tier, .reach = (uint8_t)reach};
}

static skippy_residency resident(uint64_t id, int reach) {
    return state_of(id, SKIPPY_TIER_RESIDENT, reach);
}

/* tokens: one digit per token. */
static size_t digits(const char *text, int32_t *out) {
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++) out[i] = text[i] - '0';
    return n;
}

static int add(skippy_index *ix, const char *path, skippy_residency r) {
    int32_t tokens[64];
    size_t n = digits(path, tokens);
    return skippy_index_insert(ix, &ns_a, tokens, n, &r);
}

static skippy_match look(const skippy_index *ix, const char *query, size_t limit) {
    int32_t tokens[64];
    skippy_match m;
    size_t n = digits(query, tokens);
    assert_int_equal(skippy_index_match(ix, &ns_a, tokens, n, limit, &m), SKIPPY_OK);
    return m;
}

static void assert_state(skippy_match m, size_t length, uint64_t id) {
    assert_int_equal(m.state[SKIPPY_TIER_RESIDENT].length, length);
    assert_int_equal(m.state[SKIPPY_TIER_RESIDENT].id, id);
}

static skippy_index_stats stats_of(const skippy_index *ix) {
    skippy_index_stats s;
    skippy_index_get_stats(ix, &s);
    return s;
}

static int open_index(void **state) {
    return skippy_index_create(NULL, (skippy_index **)state);
}

static int close_index(void **state) {
    skippy_index_destroy(*state);
    return 0;
}

static void range_state_serves_every_shorter_length(void **state) {
    skippy_index *ix = *state;
    assert_int_equal(add(ix, "123456", resident(7, SKIPPY_REACH_RANGE)), SKIPPY_OK);
    assert_state(look(ix, "1234", 4), 4, 7);
    assert_state(look(ix, "1299", 4), 2, 7);
    assert_state(look(ix, "12345678", 8), 6, 7);
    assert_state(look(ix, "9", 1), 0, 0);
}

static void exact_state_serves_only_its_own_length(void **state) {
    skippy_index *ix = *state;
    assert_int_equal(add(ix, "1234", resident(1, SKIPPY_REACH_EXACT)), SKIPPY_OK);
    assert_int_equal(add(ix, "12", resident(2, SKIPPY_REACH_EXACT)), SKIPPY_OK);
    assert_state(look(ix, "12345", 5), 4, 1);
    assert_state(look(ix, "1239", 4), 2, 2);
    assert_state(look(ix, "1", 1), 0, 0);
    assert_int_equal(look(ix, "1239", 4).common, 3);
}

static void the_limit_cuts_range_state_and_hides_exact_state(void **state) {
    skippy_index *ix = *state;
    assert_int_equal(add(ix, "1234", resident(1, SKIPPY_REACH_EXACT)), SKIPPY_OK);
    assert_state(look(ix, "1234", 3), 0, 0);
    assert_int_equal(add(ix, "123456", resident(2, SKIPPY_REACH_RANGE)), SKIPPY_OK);
    assert_state(look(ix, "1234", 3), 3, 2);
    assert_state(look(ix, "1234", 0), 0, 0);
    assert_state(look(ix, "1234", 4), 4, 1);
}

static void state_that_ends_at_the_length_is_preferred(void **state) {
    skippy_index *ix = *state;
    assert_int_equal(add(ix, "1234", resident(1, SKIPPY_REACH_RANGE)), SKIPPY_OK);
    assert_int_equal(add(ix, "123456", resident(2, SKIPPY_REACH_RANGE)), SKIPPY_OK);
    assert_state(look(ix, "1234", 4), 4, 1);
    assert_state(look(ix, "123499", 6), 4, 1);
    assert_int_equal(add(ix, "1234", resident(3, SKIPPY_REACH_EXACT)), SKIPPY_OK);
    assert_state(look(ix, "1234", 4), 4, 3); /* the newest of those that end there */
}

static void tiers_are_reported_apart(void **state) {
    skippy_index *ix = *state;
    assert_int_equal(add(ix, "12", state_of(1, SKIPPY_TIER_RESIDENT, SKIPPY_REACH_EXACT)), SKIPPY_OK);
    assert_int_equal(add(ix, "1234", state_of(2, SKIPPY_TIER_DISK, SKIPPY_REACH_RANGE)), SKIPPY_OK);
    skippy_match m = look(ix, "1239", 4);
    assert_int_equal(m.state[SKIPPY_TIER_RESIDENT].length, 2);
    assert_int_equal(m.state[SKIPPY_TIER_DISK].length, 3);
    assert_int_equal(m.state[SKIPPY_TIER_DISK].id, 2);
    assert_int_equal(m.state[SKIPPY_TIER_DISK].reach, SKIPPY_REACH_RANGE);
    assert_int_equal(m.state[SKIPPY_TIER_RAM].id, 0);
}

static void terminal_logits_match_only_the_whole_query(void **state) {
    skippy_index *ix = *state;
    skippy_residency logits = {.id = 9, .kind = SKIPPY_KIND_TERMINAL, .tier = SKIPPY_TIER_RAM};
    assert_int_equal(add(ix, "123", logits), SKIPPY_OK);
    assert_int_equal(look(ix, "123", 3).terminal_id, 9);
    assert_int_equal(look(ix, "123", 0).terminal_id, 9); /* logits need no usable state */
    assert_int_equal(look(ix, "1234", 4).terminal_id, 0);
    assert_int_equal(look(ix, "12", 2).terminal_id, 0);
    assert_int_equal(look(ix, "123", 3).state[SKIPPY_TIER_RAM].id, 0);
}

static void terminals_are_reported_by_tier_the_newest_of_each(void **state) {
    skippy_index *ix = *state;
    for (uint64_t id = 1; id <= 4; id++) {
        skippy_residency r = {
            .id = id, .kind = SKIPPY_KIND_TERMINAL, .tier = id == 4 ? SKIPPY_TIER_DISK : SKIPPY_TIER_RAM};
        assert_int_equal(add(ix, "123", r), SKIPPY_OK);
    }
    skippy_match m = look(ix, "123", 3);
    assert_int_equal(m.terminal_id, 4);
    assert_int_equal(m.terminal[SKIPPY_TIER_RESIDENT], 0);
    assert_int_equal(m.terminal[SKIPPY_TIER_RAM], 3);
    assert_int_equal(m.terminal[SKIPPY_TIER_DISK], 4);
}

static void namespaces_do_not_see_each_other(void **state) {
    skippy_index *ix = *state;
    const int32_t path[] = {1, 2, 3};
    skippy_residency r = resident(1, SKIPPY_REACH_RANGE);
    skippy_match m;
    assert_int_equal(skippy_index_insert(ix, &ns_a, path, 3, &r), SKIPPY_OK);
    assert_int_equal(skippy_index_match(ix, &ns_b, path, 3, 3, &m), SKIPPY_OK);
    assert_int_equal(m.common, 0);
    assert_state(m, 0, 0);
    assert_int_equal(skippy_index_remove(ix, 1), SKIPPY_OK);
    assert_int_equal(stats_of(ix).namespaces, 0);
}

static void an_id_is_known_once(void **state) {
    skippy_index *ix = *state;
    assert_int_equal(add(ix, "12", resident(5, SKIPPY_REACH_RANGE)), SKIPPY_OK);
    assert_int_equal(add(ix, "34", resident(5, SKIPPY_REACH_RANGE)), SKIPPY_E_EXISTS);
    assert_int_equal(skippy_index_length(ix, 5), 2);
    assert_int_equal(skippy_index_length(ix, 6), 0);
    assert_int_equal(skippy_index_remove(ix, 6), SKIPPY_E_NOT_FOUND);
}

static void removing_merges_what_inserting_split(void **state) {
    skippy_index *ix = *state;
    assert_int_equal(add(ix, "123456", resident(1, SKIPPY_REACH_EXACT)), SKIPPY_OK);
    skippy_index_stats before = stats_of(ix);
    assert_int_equal(before.nodes, 1);
    assert_int_equal(add(ix, "1234", resident(2, SKIPPY_REACH_EXACT)), SKIPPY_OK);
    assert_int_equal(add(ix, "1299", resident(3, SKIPPY_REACH_EXACT)), SKIPPY_OK);
    assert_int_equal(stats_of(ix).nodes, 4);
    assert_int_equal(skippy_index_check(ix), SKIPPY_OK);
    assert_int_equal(skippy_index_remove(ix, 2), SKIPPY_OK);
    assert_int_equal(skippy_index_remove(ix, 3), SKIPPY_OK);
    assert_int_equal(skippy_index_check(ix), SKIPPY_OK);
    skippy_index_stats after = stats_of(ix);
    assert_int_equal(after.nodes, before.nodes);
    assert_int_equal(after.edge_tokens, before.edge_tokens);
    assert_state(look(ix, "123456", 6), 6, 1);
}

static void range_state_is_found_again_after_its_neighbour_left(void **state) {
    skippy_index *ix = *state;
    assert_int_equal(add(ix, "1200", resident(1, SKIPPY_REACH_RANGE)), SKIPPY_OK);
    assert_int_equal(add(ix, "1211", resident(2, SKIPPY_REACH_RANGE)), SKIPPY_OK);
    assert_int_equal(add(ix, "1222", resident(3, SKIPPY_REACH_RANGE)), SKIPPY_OK);
    assert_int_equal(skippy_index_remove(ix, 3), SKIPPY_OK);
    assert_int_equal(look(ix, "129", 3).state[SKIPPY_TIER_RESIDENT].length, 2);
    assert_int_equal(skippy_index_remove(ix, 1), SKIPPY_OK);
    assert_state(look(ix, "129", 3), 2, 2);
    assert_int_equal(skippy_index_remove(ix, 2), SKIPPY_OK);
    assert_state(look(ix, "129", 3), 0, 0);
}

static int stop_at_second(void *ud, const skippy_residency *r, size_t length) {
    uint64_t *seen = ud;
    *seen = *seen * 100 + r->id * 10 + length;
    return *seen > 100 ? 42 : 0;
}

static void a_walk_goes_from_short_to_long_and_can_stop(void **state) {
    skippy_index *ix = *state;
    const int32_t query[] = {1, 2, 3, 4, 5, 6};
    uint64_t seen = 0;
    assert_int_equal(add(ix, "12345", resident(3, SKIPPY_REACH_EXACT)), SKIPPY_OK);
    assert_int_equal(add(ix, "1", resident(1, SKIPPY_REACH_EXACT)), SKIPPY_OK);
    assert_int_equal(add(ix, "123", resident(2, SKIPPY_REACH_EXACT)), SKIPPY_OK);
    assert_int_equal(skippy_index_walk(ix, &ns_a, query, 6, stop_at_second, &seen), 42);
    assert_int_equal(seen, 1123);
    assert_int_equal(skippy_index_walk(ix, &ns_b, query, 6, stop_at_second, &seen), SKIPPY_OK);
}

static void invalid_arguments_are_refused(void **state) {
    skippy_index *ix = *state;
    const int32_t path[] = {1};
    skippy_match m;
    skippy_residency r = resident(1, SKIPPY_REACH_RANGE);
    skippy_residency no_id = r, bad_kind = r, bad_tier = r, bad_reach = r;
    no_id.id = 0;
    bad_kind.kind = 2;
    bad_tier.tier = SKIPPY_TIER_COUNT;
    bad_reach.reach = 2;
    assert_int_equal(skippy_index_insert(ix, &ns_a, path, 0, &r), SKIPPY_E_INVALID);
    assert_int_equal(skippy_index_insert(ix, &ns_a, NULL, 1, &r), SKIPPY_E_INVALID);
    assert_int_equal(skippy_index_insert(ix, NULL, path, 1, &r), SKIPPY_E_INVALID);
    assert_int_equal(skippy_index_insert(NULL, &ns_a, path, 1, &r), SKIPPY_E_INVALID);
    assert_int_equal(skippy_index_insert(ix, &ns_a, path, SIZE_MAX, &r), SKIPPY_E_INVALID);
    assert_int_equal(skippy_index_insert(ix, &ns_a, path, 1, &no_id), SKIPPY_E_INVALID);
    assert_int_equal(skippy_index_insert(ix, &ns_a, path, 1, &bad_kind), SKIPPY_E_INVALID);
    assert_int_equal(skippy_index_insert(ix, &ns_a, path, 1, &bad_tier), SKIPPY_E_INVALID);
    assert_int_equal(skippy_index_insert(ix, &ns_a, path, 1, &bad_reach), SKIPPY_E_INVALID);
    assert_int_equal(skippy_index_match(ix, &ns_a, NULL, 1, 1, &m), SKIPPY_E_INVALID);
    assert_int_equal(skippy_index_match(ix, &ns_a, path, 1, 1, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_index_match(ix, &ns_a, NULL, 0, 0, &m), SKIPPY_OK);
    assert_int_equal(skippy_index_walk(ix, &ns_a, path, 1, NULL, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_index_remove(NULL, 1), SKIPPY_E_INVALID);
    assert_int_equal(skippy_index_check(NULL), SKIPPY_E_INVALID);
    skippy_allocator half = {NULL, NULL, NULL};
    skippy_index *none;
    assert_int_equal(skippy_index_create(&half, &none), SKIPPY_E_INVALID);
    assert_int_equal(skippy_index_create(NULL, NULL), SKIPPY_E_INVALID);
    skippy_index_destroy(NULL);
}

/* ---- memory ---- */

static skippy_index *index_on(test_heap *heap) {
    skippy_index *ix;
    skippy_allocator hooks = test_heap_hooks(heap);
    assert_int_equal(skippy_index_create(&hooks, &ix), SKIPPY_OK);
    return ix;
}

static void a_match_allocates_nothing(void **state) {
    (void)state;
    test_heap heap = {0};
    skippy_index *ix = index_on(&heap);
    for (int i = 0; i < 8; i++) {
        char path[] = "123x56";
        path[3] = (char)('0' + i);
        assert_int_equal(add(ix, path, resident((uint64_t)i + 1, SKIPPY_REACH_RANGE)), SKIPPY_OK);
    }
    size_t calls = heap.calls;
    assert_int_equal(look(ix, "123756", 6).common, 6);
    assert_int_equal(look(ix, "12", 2).common, 2);
    assert_int_equal(heap.calls, calls);
    skippy_index_destroy(ix);
    assert_int_equal(heap.live, 0);
}

static void creation_without_memory_leaks_nothing(void **state) {
    (void)state;
    skippy_index *ix;
    for (size_t fail_at = 1; fail_at <= 3; fail_at++) {
        test_heap heap = {.fail_at = fail_at};
        skippy_allocator hooks = test_heap_hooks(&heap);
        assert_int_equal(skippy_index_create(&hooks, &ix), SKIPPY_E_NOMEM);
        assert_null(ix);
        assert_int_equal(heap.live, 0);
    }
}

/* Inserts `path` into an index that holds "123456" and "12", with every allocation failing in turn. */
static void assert_insert_is_atomic(const char *path) {
    for (size_t nth = 1;; nth++) {
        test_heap heap = {0};
        skippy_index *ix = index_on(&heap);
        assert_int_equal(add(ix, "123456", resident(1, SKIPPY_REACH_RANGE)), SKIPPY_OK);
        assert_int_equal(add(ix, "12", resident(2, SKIPPY_REACH_EXACT)), SKIPPY_OK);
        skippy_index_stats before = stats_of(ix);
        size_t live = heap.live;
        heap.fail_at = heap.calls + nth;
        int status = add(ix, path, resident(3, SKIPPY_REACH_RANGE));
        bool failed = heap.calls >= heap.fail_at;
        heap.fail_at = 0;
        assert_int_equal(status, failed ? SKIPPY_E_NOMEM : SKIPPY_OK);
        assert_int_equal(skippy_index_check(ix), SKIPPY_OK);
        if (failed) {
            skippy_index_stats after = stats_of(ix);
            assert_memory_equal(&before, &after, sizeof before);
            assert_int_equal(heap.live, live);
            assert_state(look(ix, "12345", 5), 5, 1);
            assert_state(look(ix, "1299", 4), 2, 2);
        }
        skippy_index_destroy(ix);
        assert_int_equal(heap.live, 0);
        if (!failed) {
            assert_true(nth > 1);
            return;
        }
    }
}

static void an_insert_without_memory_changes_nothing(void **state) {
    (void)state;
    assert_insert_is_atomic("12");       /* at a node */
    assert_insert_is_atomic("1299");     /* a branch at a node */
    assert_insert_is_atomic("1234");     /* inside an edge */
    assert_insert_is_atomic("123499");   /* a branch inside an edge */
    assert_insert_is_atomic("12345678"); /* below a leaf */
    assert_insert_is_atomic("9");        /* a branch at the root */
}

static void a_new_namespace_without_memory_leaves_no_trace(void **state) {
    (void)state;
    test_heap heap = {0};
    skippy_index *ix = index_on(&heap);
    size_t live = heap.live;
    for (size_t nth = 1; nth <= 5; nth++) { /* record, tree, node, edge, branches of the root */
        heap.fail_at = heap.calls + nth;
        assert_int_equal(add(ix, "12", resident(1, SKIPPY_REACH_RANGE)), SKIPPY_E_NOMEM);
        assert_int_equal(stats_of(ix).namespaces, 0);
        assert_int_equal(heap.live, live);
    }
    assert_int_equal(add(ix, "12", resident(1, SKIPPY_REACH_RANGE)), SKIPPY_OK);
    skippy_index_destroy(ix);
    assert_int_equal(heap.live, 0);
}

static void removing_works_without_memory(void **state) {
    (void)state;
    test_heap heap = {0};
    skippy_index *ix = index_on(&heap);
    assert_int_equal(add(ix, "1234", resident(1, SKIPPY_REACH_RANGE)), SKIPPY_OK);
    assert_int_equal(add(ix, "12", resident(2, SKIPPY_REACH_RANGE)), SKIPPY_OK);
    heap.fail_all = true;
    assert_int_equal(skippy_index_remove(ix, 2), SKIPPY_OK);
    assert_int_equal(skippy_index_check(ix), SKIPPY_OK);
    assert_int_equal(stats_of(ix).nodes, 2); /* not merged, and right all the same */
    assert_state(look(ix, "1234", 4), 4, 1);
    assert_state(look(ix, "129", 3), 2, 1);
    assert_int_equal(skippy_index_remove(ix, 1), SKIPPY_OK);
    assert_int_equal(stats_of(ix).nodes, 0); /* the left-over node goes with its last child */
    assert_int_equal(stats_of(ix).namespaces, 0);
    skippy_index_destroy(ix);
    assert_int_equal(heap.live, 0);
}

static void inserting_works_when_the_id_map_cannot_grow(void **state) {
    (void)state;
    enum { IDS = 200 };
    test_heap heap = {0};
    skippy_index *ix = index_on(&heap);
    assert_int_equal(add(ix, "12", resident(1, SKIPPY_REACH_EXACT)), SKIPPY_OK);
    size_t calls = heap.calls;
    for (uint64_t id = 2; id <= IDS; id++) {
        heap.fail_at = heap.calls + 2; /* the record gets memory, a larger map does not */
        assert_int_equal(add(ix, "12", resident(id, SKIPPY_REACH_EXACT)), SKIPPY_OK);
    }
    assert_true(heap.calls - calls > IDS - 1); /* growing was tried, and refused */
    for (uint64_t id = 1; id <= IDS; id++) assert_int_equal(skippy_index_length(ix, id), 2);
    skippy_index_destroy(ix);
    assert_int_equal(heap.live, 0);
}

static void removing_everything_returns_all_memory(void **state) {
    (void)state;
    test_heap heap = {0};
    skippy_index *ix = index_on(&heap);
    size_t empty = stats_of(ix).bytes, live = heap.live;
    for (int i = 0; i < 10; i++) {
        char path[] = "12x4y";
        path[2] = (char)('0' + i % 5);
        path[4] = (char)('0' + i);
        assert_int_equal(add(ix, path, resident((uint64_t)i + 1, i % 2)), SKIPPY_OK);
    }
    for (uint64_t id = 1; id <= 10; id++) assert_int_equal(skippy_index_remove(ix, id), SKIPPY_OK);
    assert_int_equal(stats_of(ix).bytes, empty);
    assert_int_equal(stats_of(ix).nodes, 0);
    assert_int_equal(stats_of(ix).edge_tokens, 0);
    assert_int_equal(heap.live, live);
    skippy_index_destroy(ix);
}

static void *work_on_a_deep_chain(void *arg) {
    enum { DEPTH = 10000 };
    test_heap *heap = arg;
    skippy_index *ix = index_on(heap);
    int32_t *path = calloc(DEPTH, sizeof *path);
    assert_non_null(path);
    for (size_t n = DEPTH; n > 0; n--) { /* longest first: one split each, instead of a walk along the whole chain */
        skippy_residency r = resident(n, SKIPPY_REACH_EXACT);
        assert_int_equal(skippy_index_insert(ix, &ns_a, path, n, &r), SKIPPY_OK);
    }
    skippy_match m;
    assert_int_equal(skippy_index_match(ix, &ns_a, path, DEPTH, DEPTH, &m), SKIPPY_OK);
    assert_state(m, DEPTH, DEPTH);
    assert_int_equal(stats_of(ix).nodes, DEPTH);
    assert_int_equal(skippy_index_check(ix), SKIPPY_OK);
    skippy_index_destroy(ix);
    free(path);
    return NULL;
}

/* A chat of many turns is a chain of nodes. Nothing may recurse along it: on this stack, 10,000 frames do not fit. */
static void a_very_deep_chain_needs_little_stack(void **state) {
    (void)state;
    test_heap heap = {0};
    pthread_t thread;
    pthread_attr_t small;
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, 256 << 10), 0);
    assert_int_equal(pthread_create(&thread, &small, work_on_a_deep_chain, &heap), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&small);
    assert_int_equal(heap.live, 0);
}

#define WITH_INDEX(f) cmocka_unit_test_setup_teardown(f, open_index, close_index)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_INDEX(range_state_serves_every_shorter_length),
        WITH_INDEX(exact_state_serves_only_its_own_length),
        WITH_INDEX(the_limit_cuts_range_state_and_hides_exact_state),
        WITH_INDEX(state_that_ends_at_the_length_is_preferred),
        WITH_INDEX(tiers_are_reported_apart),
        WITH_INDEX(terminal_logits_match_only_the_whole_query),
        WITH_INDEX(terminals_are_reported_by_tier_the_newest_of_each),
        WITH_INDEX(namespaces_do_not_see_each_other),
        WITH_INDEX(an_id_is_known_once),
        WITH_INDEX(removing_merges_what_inserting_split),
        WITH_INDEX(range_state_is_found_again_after_its_neighbour_left),
        WITH_INDEX(a_walk_goes_from_short_to_long_and_can_stop),
        WITH_INDEX(invalid_arguments_are_refused),
        cmocka_unit_test(a_match_allocates_nothing),
        cmocka_unit_test(creation_without_memory_leaks_nothing),
        cmocka_unit_test(an_insert_without_memory_changes_nothing),
        cmocka_unit_test(a_new_namespace_without_memory_leaves_no_trace),
        cmocka_unit_test(removing_works_without_memory),
        cmocka_unit_test(inserting_works_when_the_id_map_cannot_grow),
        cmocka_unit_test(removing_everything_returns_all_memory),
        cmocka_unit_test(a_very_deep_chain_needs_little_stack),
    };
    return cmocka_run_group_tests_name("index", tests, NULL, NULL);
}
