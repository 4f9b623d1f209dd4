#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cache/test_alloc.h"
#include "skippy/resident.h"

static skippy_resident *open_with(skippy_resident_limits limits) {
    skippy_resident *r;
    assert_int_equal(skippy_resident_create(NULL, &limits, &r), SKIPPY_OK);
    return r;
}

/* What one reserve call returned. */
typedef struct reservation {
    int status;
    uint64_t victims[8];
    size_t n_victims;
    enum skippy_evict_reason reason;
    uint64_t id;
    int32_t seq;
} reservation;

static reservation reserve(skippy_resident *r, uint64_t cells, uint64_t bytes, double cost) {
    reservation v = {0};
    v.status =
        skippy_resident_reserve(r, 100, cells, bytes, cost, v.victims, 8, &v.n_victims, &v.reason, &v.id, &v.seq);
    return v;
}

/* Records an entry that needs no eviction. */
static uint64_t record(skippy_resident *r, uint64_t cells, uint64_t bytes, double cost) {
    reservation v = reserve(r, cells, bytes, cost);
    assert_int_equal(v.status, SKIPPY_OK);
    assert_int_equal(v.n_victims, 0);
    assert_int_equal(skippy_resident_commit(r, v.id), SKIPPY_OK);
    return v.id;
}

static skippy_resident_stats stats_of(const skippy_resident *r) {
    skippy_resident_stats s;
    skippy_resident_get_stats(r, &s);
    return s;
}

static const skippy_resident_limits three = {.max_entries = 3, .first_seq_id = 10, .n_seq_ids = 4};

static void a_committed_entry_keeps_what_was_reserved(void **state) {
    (void)state;
    skippy_resident *r = open_with(three);
    reservation v = reserve(r, 100, 5000, 7.5);
    assert_int_equal(v.status, SKIPPY_OK);
    assert_int_equal(v.seq, 10);
    skippy_resident_entry e;
    assert_int_equal(skippy_resident_get(r, v.id, &e), SKIPPY_E_NOT_FOUND); /* not before the commit */
    assert_int_equal(skippy_resident_commit(r, v.id), SKIPPY_OK);
    assert_int_equal(skippy_resident_get(r, v.id, &e), SKIPPY_OK);
    assert_int_equal(e.seq_id, 10);
    assert_int_equal(e.n_tokens, 100);
    assert_int_equal(e.cells, 100);
    assert_int_equal(e.bytes, 5000);
    assert_true(e.cost == 7.5);
    skippy_resident_stats s = stats_of(r);
    assert_int_equal(s.entries, 1);
    assert_int_equal(s.tokens, 100);
    assert_int_equal(s.cells, 100);
    assert_int_equal(s.bytes, 5000);
    assert_int_equal(s.commits, 1);
    assert_int_equal(s.free_seq_ids, 3);
    skippy_resident_destroy(r);
}

static void an_aborted_reservation_leaves_no_trace(void **state) {
    (void)state;
    skippy_resident *r = open_with(three);
    reservation v = reserve(r, 1, 1, 1);
    assert_int_equal(reserve(r, 1, 1, 1).status, SKIPPY_E_BUSY); /* one at a time */
    assert_int_equal(stats_of(r).free_seq_ids, 3);
    assert_int_equal(skippy_resident_abort(r, v.id + 1), SKIPPY_E_INVALID);
    assert_int_equal(skippy_resident_abort(r, v.id), SKIPPY_OK);
    assert_int_equal(skippy_resident_abort(r, v.id), SKIPPY_E_INVALID);
    assert_int_equal(skippy_resident_commit(r, v.id), SKIPPY_E_INVALID);
    assert_int_equal(stats_of(r).free_seq_ids, 4);
    assert_int_equal(stats_of(r).aborts, 1);
    assert_int_equal(stats_of(r).entries, 0);
    skippy_resident_destroy(r);
}

static void benefit_is_cost_times_chance_per_space(void **state) {
    (void)state;
    skippy_resident_entry e = {.cost = 100, .bytes = 6, .cells = 4, .hits = 3, .last_use = 7};
    assert_true(fabs(skippy_resident_benefit(&e, 8) - 100.0 * (4.0 / 2.0) / 10.0) < 1e-12);
    assert_true(fabs(skippy_resident_benefit(&e, 3) - 100.0 * 4.0 / 10.0) < 1e-12); /* a clock behind means age 0 */
    e.bytes = e.cells = 0;
    assert_true(fabs(skippy_resident_benefit(&e, 7) - 400.0) < 1e-12); /* space is at least 1 */
}

static void the_least_beneficial_entry_leaves_first(void **state) {
    (void)state;
    skippy_resident *r = open_with(three);
    uint64_t dear = record(r, 10, 0, 1000);
    uint64_t cheap = record(r, 10, 0, 1);
    uint64_t middle = record(r, 10, 0, 100);
    assert_int_equal(skippy_resident_victim(r), cheap);
    uint64_t next[4] = {0};
    assert_int_equal(skippy_resident_victims(r, next, 2), 2);
    assert_true(next[0] == cheap && next[1] == middle && next[2] == 0);
    assert_int_equal(skippy_resident_lease(r, middle), SKIPPY_OK);
    assert_int_equal(skippy_resident_victims(r, next, 4), 2);
    assert_true(next[0] == cheap && next[1] == dear);
    assert_int_equal(skippy_resident_release(r, middle), SKIPPY_OK);
    reservation v = reserve(r, 10, 0, 5);
    assert_int_equal(v.status, SKIPPY_OK);
    assert_int_equal(v.n_victims, 1);
    assert_int_equal(v.victims[0], cheap);
    assert_int_equal(v.reason, SKIPPY_EVICT_ENTRIES);
    assert_int_equal(skippy_resident_drop(r, cheap, v.reason), SKIPPY_OK);
    assert_int_equal(skippy_resident_commit(r, v.id), SKIPPY_OK);
    assert_int_equal(stats_of(r).evictions[SKIPPY_EVICT_ENTRIES], 1);
    uint64_t ids[4];
    assert_int_equal(skippy_resident_list(r, ids, 4), 3);
    assert_int_equal(ids[0], dear);
    assert_int_equal(ids[1], middle);
    assert_int_equal(ids[2], v.id);
    skippy_resident_destroy(r);
}

static void equal_benefit_goes_by_age(void **state) {
    (void)state;
    skippy_resident *r = open_with(three);
    uint64_t a = record(r, 10, 0, 0), b = record(r, 10, 0, 0);
    assert_int_equal(skippy_resident_victim(r), a);
    assert_int_equal(skippy_resident_lease(r, a), SKIPPY_OK);
    assert_int_equal(skippy_resident_release(r, a), SKIPPY_OK);
    assert_int_equal(skippy_resident_victim(r), b);
    skippy_resident_destroy(r);
}

static void a_commit_waits_for_the_victims(void **state) {
    (void)state;
    skippy_resident *r = open_with((skippy_resident_limits){.max_entries = 9, .n_seq_ids = 1});
    uint64_t a = record(r, 1, 1, 1);
    reservation v = reserve(r, 1, 1, 1);
    assert_int_equal(v.reason, SKIPPY_EVICT_SEQ_IDS);
    assert_int_equal(v.seq, 0); /* the victim's own sequence id */
    assert_int_equal(skippy_resident_commit(r, v.id), SKIPPY_E_BUSY);
    assert_int_equal(skippy_resident_drop(r, a, v.reason), SKIPPY_OK);
    assert_int_equal(skippy_resident_commit(r, v.id), SKIPPY_OK);
    skippy_resident_entry e;
    assert_int_equal(skippy_resident_get(r, a, &e), SKIPPY_E_NOT_FOUND);
    assert_int_equal(skippy_resident_get(r, v.id, &e), SKIPPY_OK);
    skippy_resident_destroy(r);
}

static void a_leased_entry_is_a_hit_again_and_never_leaves(void **state) {
    (void)state;
    skippy_resident *r = open_with((skippy_resident_limits){.max_entries = 1, .n_seq_ids = 2});
    uint64_t a = record(r, 1, 1, 0);
    assert_int_equal(skippy_resident_lease(r, a), SKIPPY_OK);
    assert_int_equal(skippy_resident_lease(r, a), SKIPPY_OK);
    assert_int_equal(stats_of(r).hits, 2);
    assert_int_equal(stats_of(r).leased, 1);
    assert_int_equal(skippy_resident_victim(r), 0);
    assert_int_equal(reserve(r, 1, 1, 1e9).status, SKIPPY_E_FULL);
    assert_int_equal(stats_of(r).refused_full, 1);
    assert_int_equal(skippy_resident_drop(r, a, SKIPPY_EVICT_ERASED), SKIPPY_E_BUSY);
    assert_int_equal(skippy_resident_release(r, a), SKIPPY_OK);
    assert_int_equal(skippy_resident_drop(r, a, SKIPPY_EVICT_ERASED), SKIPPY_E_BUSY); /* one lease is left */
    assert_int_equal(skippy_resident_release(r, a), SKIPPY_OK);
    assert_int_equal(skippy_resident_release(r, a), SKIPPY_E_INVALID);
    assert_int_equal(skippy_resident_drop(r, a, SKIPPY_EVICT_ERASED), SKIPPY_OK);
    assert_int_equal(skippy_resident_lease(r, a), SKIPPY_E_NOT_FOUND);
    assert_int_equal(skippy_resident_release(r, a), SKIPPY_E_NOT_FOUND);
    assert_int_equal(skippy_resident_drop(r, a, SKIPPY_EVICT_ERASED), SKIPPY_E_NOT_FOUND);
    assert_int_equal(stats_of(r).evictions[SKIPPY_EVICT_ERASED], 1);
    skippy_resident_destroy(r);
}

static void a_victim_that_is_leased_meanwhile_stops_the_commit(void **state) {
    (void)state;
    skippy_resident *r = open_with((skippy_resident_limits){.max_entries = 1, .n_seq_ids = 2});
    uint64_t a = record(r, 1, 1, 0);
    reservation v = reserve(r, 1, 1, 1);
    assert_int_equal(v.victims[0], a);
    assert_int_equal(skippy_resident_lease(r, a), SKIPPY_OK);
    assert_int_equal(skippy_resident_drop(r, a, v.reason), SKIPPY_E_BUSY);
    assert_int_equal(skippy_resident_commit(r, v.id), SKIPPY_E_BUSY);
    assert_int_equal(skippy_resident_abort(r, v.id), SKIPPY_OK);
    assert_int_equal(stats_of(r).entries, 1);
    skippy_resident_destroy(r);
}

static void what_is_too_large_alone_evicts_nothing(void **state) {
    (void)state;
    skippy_resident *r =
        open_with((skippy_resident_limits){.max_entries = 4, .max_bytes = 100, .max_cells = 10, .n_seq_ids = 4});
    record(r, 10, 100, 1);
    reservation bytes = reserve(r, 1, 101, 1), cells = reserve(r, 11, 1, 1);
    assert_int_equal(bytes.status, SKIPPY_E_TOO_LARGE);
    assert_int_equal(bytes.n_victims, 0);
    assert_int_equal(cells.status, SKIPPY_E_TOO_LARGE);
    assert_int_equal(stats_of(r).refused_too_large, 2);
    assert_int_equal(stats_of(r).entries, 1);
    skippy_resident_destroy(r);
    r = open_with((skippy_resident_limits){.max_entries = 0, .n_seq_ids = 4});
    assert_int_equal(reserve(r, 1, 1, 1).status, SKIPPY_E_TOO_LARGE); /* cache off */
    skippy_resident_destroy(r);
    r = open_with((skippy_resident_limits){.max_entries = 4, .n_seq_ids = 0});
    assert_int_equal(reserve(r, 1, 1, 1).status, SKIPPY_E_TOO_LARGE);
    assert_int_equal(skippy_resident_lease(r, 1), SKIPPY_E_NOT_FOUND);
    skippy_resident_destroy(r);
}

static void entries_that_do_not_help_are_spared(void **state) {
    (void)state;
    skippy_resident *r = open_with((skippy_resident_limits){.max_entries = 8, .max_cells = 10, .n_seq_ids = 8});
    uint64_t shared = record(r, 0, 50, 0); /* no cells of its own, no benefit */
    uint64_t large = record(r, 10, 0, 100);
    reservation v = reserve(r, 4, 0, 1);
    assert_int_equal(v.reason, SKIPPY_EVICT_CELLS);
    assert_int_equal(v.n_victims, 1);
    assert_int_equal(v.victims[0], large);
    assert_int_equal(skippy_resident_victim(r), shared);
    skippy_resident_destroy(r);
}

static void victims_that_a_later_one_makes_unnecessary_are_spared(void **state) {
    (void)state;
    skippy_resident *r = open_with((skippy_resident_limits){.max_entries = 8, .max_bytes = 100, .n_seq_ids = 8});
    record(r, 0, 1, 0);
    uint64_t large = record(r, 0, 99, 1000);
    reservation v = reserve(r, 0, 60, 1);
    assert_int_equal(v.n_victims, 1);
    assert_int_equal(v.victims[0], large);
    skippy_resident_destroy(r);
}

static void too_many_victims_for_the_buffer_are_counted(void **state) {
    (void)state;
    skippy_resident *r = open_with((skippy_resident_limits){.max_entries = 8, .max_bytes = 40, .n_seq_ids = 8});
    for (int i = 0; i < 4; i++) record(r, 0, 10, 1);
    uint64_t one[1], id = 0;
    size_t n = 0;
    int32_t seq;
    enum skippy_evict_reason reason;
    assert_int_equal(skippy_resident_reserve(r, 1, 0, 30, 1, one, 1, &n, &reason, &id, &seq), SKIPPY_E_TOO_SMALL);
    assert_int_equal(n, 3);
    assert_int_equal(skippy_resident_reserve(r, 1, 0, 10, 1, one, 1, &n, &reason, &id, &seq), SKIPPY_OK);
    assert_int_equal(n, 1);
    assert_int_equal(skippy_resident_drop(r, one[0], reason), SKIPPY_OK);
    assert_int_equal(skippy_resident_commit(r, id), SKIPPY_OK);
    skippy_resident_destroy(r);
}

static void a_charge_moves_the_totals(void **state) {
    (void)state;
    skippy_resident *r = open_with(three);
    uint64_t a = record(r, 10, 100, 1);
    record(r, 5, 50, 1);
    assert_int_equal(skippy_resident_charge(r, a, 50, 3, 30, 2), SKIPPY_OK);
    skippy_resident_stats s = stats_of(r);
    assert_int_equal(s.tokens, 150);
    assert_int_equal(s.cells, 8);
    assert_int_equal(s.bytes, 80);
    assert_int_equal(skippy_resident_charge(r, a, 1, 1, UINT64_MAX, 1), SKIPPY_E_INVALID); /* the sum overflows */
    assert_int_equal(skippy_resident_charge(r, a, 0, 1, 1, 1), SKIPPY_E_INVALID);
    assert_int_equal(skippy_resident_charge(r, a, 1, 1, 1, NAN), SKIPPY_E_INVALID);
    assert_int_equal(skippy_resident_charge(r, a + 1, 1, 1, 1, 1), SKIPPY_E_NOT_FOUND);
    assert_int_equal(stats_of(r).bytes, 80);
    skippy_resident_destroy(r);
}

static void invalid_arguments_are_refused(void **state) {
    (void)state;
    skippy_resident *r;
    skippy_resident_limits negative = {.n_seq_ids = -1}, beyond = {.first_seq_id = INT32_MAX, .n_seq_ids = 1};
    assert_int_equal(skippy_resident_create(NULL, &negative, &r), SKIPPY_E_INVALID);
    assert_int_equal(skippy_resident_create(NULL, &beyond, &r), SKIPPY_E_INVALID);
    assert_int_equal(skippy_resident_create(NULL, NULL, &r), SKIPPY_E_INVALID);
    test_heap heap = {.fail_at = 1};
    skippy_allocator hooks = test_heap_hooks(&heap);
    assert_int_equal(skippy_resident_create(&hooks, &three, &r), SKIPPY_E_NOMEM);
    assert_null(r);
    r = open_with(three);
    assert_int_equal(reserve(r, 1, 1, -1).status, SKIPPY_E_INVALID);
    assert_int_equal(reserve(r, 1, 1, NAN).status, SKIPPY_E_INVALID);
    assert_int_equal(reserve(r, 1, 1, INFINITY).status, SKIPPY_E_INVALID);
    uint64_t a = record(r, 1, 1, 1);
    assert_int_equal(reserve(r, UINT64_MAX, 1, 1).status, SKIPPY_E_INVALID); /* the sum overflows */
    assert_int_equal(skippy_resident_drop(r, a, SKIPPY_EVICT_REASONS), SKIPPY_E_INVALID);
    assert_int_equal(skippy_resident_commit(r, 0), SKIPPY_E_INVALID);
    assert_int_equal(skippy_resident_get(r, a, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_resident_lease(NULL, a), SKIPPY_E_INVALID);
    skippy_resident_destroy(r);
    skippy_resident_destroy(NULL);
}

static void nothing_after_creation_allocates(void **state) {
    (void)state;
    test_heap heap = {0};
    skippy_allocator hooks = test_heap_hooks(&heap);
    skippy_resident *r;
    assert_int_equal(skippy_resident_create(&hooks, &three, &r), SKIPPY_OK);
    uint64_t a = record(r, 1, 1, 1);
    assert_int_equal(skippy_resident_lease(r, a), SKIPPY_OK);
    assert_int_equal(skippy_resident_release(r, a), SKIPPY_OK);
    assert_int_equal(skippy_resident_drop(r, a, SKIPPY_EVICT_SUPERSEDED), SKIPPY_OK);
    assert_int_equal(heap.calls, 1);
    skippy_resident_destroy(r);
    assert_int_equal(heap.live, 0);
}

static void a_short_list_holds_the_oldest(void **state) {
    (void)state;
    skippy_resident *r = open_with(three);
    uint64_t a = record(r, 1, 1, 1), b = record(r, 1, 1, 1);
    assert_int_equal(skippy_resident_drop(r, a, SKIPPY_EVICT_ERASED), SKIPPY_OK);
    uint64_t c = record(r, 1, 1, 1), ids[1] = {0}; /* takes a's place, and is younger than b all the same */
    assert_true(c > b);
    assert_int_equal(skippy_resident_list(r, ids, 1), 2);
    assert_int_equal(ids[0], b);
    assert_int_equal(skippy_resident_list(r, NULL, 0), 2);
    skippy_resident_destroy(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_committed_entry_keeps_what_was_reserved),
        cmocka_unit_test(an_aborted_reservation_leaves_no_trace),
        cmocka_unit_test(benefit_is_cost_times_chance_per_space),
        cmocka_unit_test(the_least_beneficial_entry_leaves_first),
        cmocka_unit_test(equal_benefit_goes_by_age),
        cmocka_unit_test(a_commit_waits_for_the_victims),
        cmocka_unit_test(a_leased_entry_is_a_hit_again_and_never_leaves),
        cmocka_unit_test(a_victim_that_is_leased_meanwhile_stops_the_commit),
        cmocka_unit_test(what_is_too_large_alone_evicts_nothing),
        cmocka_unit_test(entries_that_do_not_help_are_spared),
        cmocka_unit_test(victims_that_a_later_one_makes_unnecessary_are_spared),
        cmocka_unit_test(too_many_victims_for_the_buffer_are_counted),
        cmocka_unit_test(a_charge_moves_the_totals),
        cmocka_unit_test(invalid_arguments_are_refused),
        cmocka_unit_test(nothing_after_creation_allocates),
        cmocka_unit_test(a_short_list_holds_the_oldest),
    };
    return cmocka_run_group_tests_name("resident", tests, NULL, NULL);
}
