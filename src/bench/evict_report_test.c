/* The comparison's tables: right numbers in the right columns, the same twice, and valid JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/evict_generate.h"
#include "bench/evict_report.h"

static const sk_evict_memory MEMORIES[SK_EVICT_MEMORIES] = {
    {"dense", true, 1 << 20, 0, 1, 1000},
    {"hybrid", false, 1 << 20, 3 << 20, 1, 1000},
};
static const double PERCENT[] = {10, 50};

static int make_trace(void **state) {
    static sk_evict_trace t;
    sk_err e;
    sk_evict_workload w = sk_evict_workload_default();
    w.requests = 400;
    w.agents = 8;
    *state = &t;
    return sk_evict_generate(&w, &t, &e);
}

static int free_trace(void **state) {
    sk_evict_trace_free(*state);
    return 0;
}

static sk_evict_report compare(const sk_evict_trace *t) {
    sk_evict_report r;
    sk_err e;
    assert_int_equal(sk_evict_compare(t, "test", MEMORIES, PERCENT, 2, &r, &e), SKIPPY_OK);
    return r;
}

static void lines_are_what_single_simulations_give(void **state) {
    const sk_evict_report r = compare(*state);
    for (size_t m = 0; m < SK_EVICT_MEMORIES; m++) {
        assert_int_equal(r.table[m].n_lines, 3);
        const sk_evict_line *half = &r.table[m].line[1], *all = &r.table[m].line[2];
        assert_int_equal(half->bytes, r.table[m].unlimited_bytes / 2);
        assert_int_equal(all->bytes, UINT64_MAX);
        assert_int_equal(all->of[SK_EVICT_LRU].evicted, 0);
        for (int p = 0; p < SK_EVICT_POLICIES; p++) {
            sk_evict_totals alone;
            assert_int_equal(sk_evict_simulate(*state, &MEMORIES[m], (enum sk_evict_policy)p, half->bytes, &alone),
                             SKIPPY_OK);
            assert_memory_equal(&alone, &half->of[p], sizeof alone);
            assert_true(half->of[p].saved_tokens <= half->bound_tokens);
            assert_int_equal(all->of[p].saved_tokens, all->of[0].saved_tokens);
        }
    }
    /* without a limit the attention cache reaches the bound: it has everything that it ever saw */
    assert_int_equal(r.table[0].line[2].of[SK_EVICT_LRU].saved_tokens, r.table[0].line[2].bound_tokens);
}

static void the_page_is_the_same_every_time(void **state) {
    const sk_evict_report a = compare(*state), b = compare(*state);
    sk_buf x = {0}, y = {0};
    sk_evict_markdown(&a, &x);
    sk_evict_markdown(&b, &y);
    assert_false(x.failed);
    assert_string_equal(x.data, y.data);
    assert_non_null(strstr(x.data, "## test\n\n400 requests"));
    assert_non_null(strstr(x.data, "### hybrid: 1 MiB a block, 3 MiB a boundary"));
    assert_non_null(strstr(x.data, "\n| 10 % ("));
    assert_non_null(strstr(x.data, "\n| unlimited |"));
    sk_buf_free(&x);
    sk_buf_free(&y);
}

static void json_holds_every_policy_at_every_capacity(void **state) {
    const sk_evict_report r = compare(*state);
    json_t *root = sk_evict_json(&r);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "trace")), "test");
    const json_t *memories = json_object_get(root, "memories");
    assert_int_equal(json_array_size(memories), SK_EVICT_MEMORIES);
    const json_t *lines = json_object_get(json_array_get(memories, 1), "capacities");
    assert_int_equal(json_array_size(lines), 3);
    const json_t *lru = json_object_get(json_array_get(lines, 0), "lru");
    assert_int_equal(json_integer_value(json_object_get(lru, "saved_tokens")),
                     r.table[1].line[0].of[SK_EVICT_LRU].saved_tokens);
    assert_true(json_is_null(json_object_get(json_array_get(lines, 2), "capacity_bytes")));
    assert_non_null(json_object_get(json_array_get(lines, 2), "benefit"));
    json_decref(root);
}

static void senseless_capacities_are_refused(void **state) {
    const double zero = 0, much = 101, many[SK_EVICT_MAX_CAPACITIES + 1] = {1};
    sk_evict_report r;
    sk_err e;
    assert_int_equal(sk_evict_compare(*state, "x", MEMORIES, &zero, 1, &r, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_evict_compare(*state, "x", MEMORIES, &much, 1, &r, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_evict_compare(*state, "x", MEMORIES, many, SK_EVICT_MAX_CAPACITIES + 1, &r, &e),
                     SKIPPY_E_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_what_single_simulations_give),
        cmocka_unit_test(the_page_is_the_same_every_time),
        cmocka_unit_test(json_holds_every_policy_at_every_capacity),
        cmocka_unit_test(senseless_capacities_are_refused),
    };
    return cmocka_run_group_tests(tests, make_trace, free_trace);
}
