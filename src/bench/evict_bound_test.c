/* The clairvoyant bound against every possible cache content, and against the policies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/evict_bound.h"
#include "bench/evict_cache.h"
#include "cache/test_random.h"

enum { B = SK_EVICT_BLOCK_TOKENS, MOST_BLOCKS = 10, LONGEST = 4 };

/* Random prompts over a tree with at most MOST_BLOCKS blocks: each prompt walks down from the root and branches in two.
 */
static void random_trace(test_random *r, sk_evict_trace *t, size_t requests) {
    sk_err e;
    while (t->n_requests < requests) {
        uint64_t ids[LONGEST], id = 1;
        const size_t n = 1 + random_below(r, LONGEST);
        for (size_t i = 0; i < n; i++) ids[i] = id = id * 2 + random_below(r, 2);
        if (t->n_blocks + n > MOST_BLOCKS) { /* room for new blocks is short: repeat an old prompt's beginning */
            if (t->n_requests == 0) continue;
            const sk_evict_request *old = &t->requests[random_below(r, t->n_requests)];
            const size_t m = old->n_blocks ? 1 + random_below(r, old->n_blocks) : 0;
            for (size_t i = 0; i < m; i++) ids[i] = t->id[t->path[old->first + i]];
            assert_int_equal(sk_evict_trace_add(t, 0, m * B, 1, ids, m, &e), SKIPPY_OK);
            continue;
        }
        assert_int_equal(sk_evict_trace_add(t, 0, n * B, 1, ids, n, &e), SKIPPY_OK);
    }
}

static unsigned count_bits(unsigned set) {
    unsigned n = 0;
    for (; set; set &= set - 1) n++;
    return n;
}

/* The best of all ways to fill the cache, by dynamic programming over every set of blocks. A prompt saves its leading
 * held blocks only. */
static uint64_t best_possible(const sk_evict_trace *t, size_t capacity) {
    enum { SETS = 1 << MOST_BLOCKS };
    static int best[SETS], next[SETS];
    for (unsigned s = 0; s < SETS; s++) best[s] = s ? -1 : 0;
    for (size_t i = 0; i < t->n_requests; i++) {
        const sk_evict_request *r = &t->requests[i];
        unsigned used = 0;
        for (size_t k = 0; k < r->n_blocks; k++) used |= 1u << t->path[r->first + k];
        for (unsigned s = 0; s < SETS; s++) next[s] = -1;
        for (unsigned s = 0; s < SETS; s++) {
            if (best[s] < 0) continue;
            int saved = 0;
            while ((size_t)saved < r->n_blocks && (s >> t->path[r->first + (size_t)saved] & 1)) saved++;
            const unsigned all = s | used;
            for (unsigned keep = all;; keep = (keep - 1) & all) {
                if (count_bits(keep) <= capacity && best[s] + saved > next[keep]) next[keep] = best[s] + saved;
                if (keep == 0) break;
            }
        }
        for (unsigned s = 0; s < SETS; s++) best[s] = next[s];
    }
    int most = 0;
    for (unsigned s = 0; s < SETS; s++) most = best[s] > most ? best[s] : most;
    return (uint64_t)most;
}

static void the_bound_is_the_best_of_all_cache_contents(void **state) {
    (void)state;
    test_random r = random_start("evict_bound_test");
    for (int round = 0; round < 25; round++) {
        sk_evict_trace t = {0};
        uint64_t bound = 0;
        const size_t capacity = random_below(&r, 6);
        random_trace(&r, &t, 8);
        assert_int_equal(sk_evict_bound(&t, capacity, &bound, NULL), SKIPPY_OK);
        assert_int_equal(bound, best_possible(&t, capacity));
        sk_evict_trace_free(&t);
    }
}

static void no_policy_exceeds_the_bound(void **state) {
    (void)state;
    static const sk_evict_memory memories[] = {
        {"attention", true, 10, 0, 1, 1000},
        {"hybrid", false, 10, 25, 1, 1000},
    };
    test_random r = random_start("evict_bound_test, policies");
    for (int round = 0; round < 200; round++) {
        sk_evict_trace t = {0};
        uint64_t bound = 0;
        const size_t capacity = 1 + random_below(&r, 8);
        random_trace(&r, &t, 40);
        assert_int_equal(sk_evict_bound(&t, capacity, &bound, NULL), SKIPPY_OK);
        for (size_t m = 0; m < 2; m++)
            for (int p = 0; p < SK_EVICT_POLICIES; p++) {
                sk_evict_totals totals;
                assert_int_equal(sk_evict_simulate(&t, &memories[m], (enum sk_evict_policy)p, capacity * 10, &totals),
                                 SKIPPY_OK);
                assert_true(totals.saved_tokens <= bound * B);
            }
        sk_evict_trace_free(&t);
    }
}

static void without_a_limit_every_repeat_is_saved(void **state) {
    (void)state;
    sk_evict_trace t = {0};
    sk_err e;
    uint64_t saved = 0, hits = 0;
    assert_int_equal(sk_evict_trace_add(&t, 0, 3 * B, 1, (const uint64_t[]){1, 2, 3}, 3, &e), SKIPPY_OK);
    assert_int_equal(sk_evict_trace_add(&t, 0, 2 * B, 1, (const uint64_t[]){8, 9}, 2, &e), SKIPPY_OK);
    assert_int_equal(sk_evict_trace_add(&t, 0, 3 * B, 1, (const uint64_t[]){1, 2, 4}, 3, &e), SKIPPY_OK);
    assert_int_equal(sk_evict_bound(&t, SIZE_MAX, &saved, &hits), SKIPPY_OK);
    assert_int_equal(saved, 2);
    assert_int_equal(hits, 1);
    assert_int_equal(sk_evict_bound(&t, 1, &saved, &hits), SKIPPY_OK);
    assert_int_equal(saved, 1); /* block 1 is kept, 2 is not */
    assert_int_equal(sk_evict_bound(&t, 0, &saved, &hits), SKIPPY_OK);
    assert_int_equal(saved, 0);
    sk_evict_trace_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bound_is_the_best_of_all_cache_contents),
        cmocka_unit_test(no_policy_exceeds_the_bound),
        cmocka_unit_test(without_a_limit_every_repeat_is_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
