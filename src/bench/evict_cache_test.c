/* The simulated cache against a naive model, and the behaviour of each policy and memory kind on small prompts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/evict_cache.h"
#include "cache/test_random.h"
#include "skippy/benefit.h"

enum { B = SK_EVICT_BLOCK_TOKENS };

static const sk_evict_memory ATTENTION = {"attention", true, 10, 0, 1, 1000};
static const sk_evict_memory HYBRID = {"hybrid", false, 10, 25, 1, 1000};

/* ---- the model: entries are lists of blocks, every number is counted anew from them ---- */

enum { MOST_ENTRIES = 400, MOST_DEPTH = 8 };

typedef struct model_entry {
    uint32_t block[MOST_DEPTH];
    size_t n;
    uint64_t stored, used, hits;
} model_entry;

typedef struct model {
    const sk_evict_memory *memory;
    enum sk_evict_policy policy;
    uint64_t capacity, clock;
    model_entry entry[MOST_ENTRIES];
    size_t n;
} model;

static size_t owners(const model *m, uint32_t block) {
    size_t k = 0;
    for (size_t i = 0; i < m->n; i++)
        for (size_t d = 0; d < m->entry[i].n; d++) k += m->entry[i].block[d] == block;
    return k;
}

static uint64_t used_bytes(const model *m) {
    double blocks = 0;
    for (size_t i = 0; i < m->n; i++)
        for (size_t d = 0; d < m->entry[i].n; d++) blocks += 1.0 / (double)owners(m, m->entry[i].block[d]);
    return (uint64_t)(blocks + 0.5) * m->memory->block_bytes + m->n * m->memory->tail_bytes;
}

/* Is a the beginning of b, or all of it? */
static bool is_beginning(const uint32_t *a, size_t n_a, const uint32_t *b, size_t n_b) {
    return n_a <= n_b && memcmp(a, b, n_a * sizeof *a) == 0;
}

static double model_worth(const model *m, const model_entry *e) {
    if (m->policy == SK_EVICT_FIFO) return (double)e->stored;
    if (m->policy == SK_EVICT_LRU) return (double)e->used;
    const double blocks = (double)e->n;
    const skippy_benefit_input in = {.cost_ms = sk_evict_cost_ms(m->memory, e->n * B),
                                     .total_bytes =
                                         blocks * (double)m->memory->block_bytes + (double)m->memory->tail_bytes,
                                     .hits = e->hits,
                                     .age = m->clock - e->used};
    return skippy_benefit_score(&in);
}

static void model_drop(model *m, size_t at) {
    m->entry[at] = m->entry[--m->n];
}

static void model_make_room(model *m) {
    while (used_bytes(m) > m->capacity) {
        size_t victim = SIZE_MAX;
        for (size_t i = 0; i < m->n; i++) {
            const model_entry *e = &m->entry[i];
            if (e->used == m->clock) continue;
            const double x = model_worth(m, e), y = victim == SIZE_MAX ? 0 : model_worth(m, &m->entry[victim]);
            if (victim == SIZE_MAX || x < y || (!(x > y) && e->used < m->entry[victim].used)) victim = i;
        }
        assert_true(victim < m->n);
        model_drop(m, victim);
    }
}

static void model_record(model *m, const uint32_t *path, size_t n) {
    if (n == 0) return;
    m->clock++;
    for (size_t i = 0; i < m->n; i++)
        if (m->entry[i].n == n && is_beginning(path, n, m->entry[i].block, n)) {
            m->entry[i].used = m->clock;
            return;
        }
    if (n * m->memory->block_bytes + m->memory->tail_bytes > m->capacity) return;
    model_entry e = {.n = n, .stored = m->clock, .used = m->clock};
    for (size_t i = m->n; m->memory->any_prefix && i-- > 0;)
        if (is_beginning(m->entry[i].block, m->entry[i].n, path, n)) {
            if (m->entry[i].hits > e.hits) e.hits = m->entry[i].hits;
            model_drop(m, i);
        }
    memcpy(e.block, path, n * sizeof *path);
    assert_true(m->n < MOST_ENTRIES);
    m->entry[m->n++] = e;
    model_make_room(m);
}

/* How much of path this entry can serve. */
static size_t usable(const model *m, const model_entry *e, const uint32_t *path, size_t n) {
    size_t k = 0;
    while (k < n && k < e->n && e->block[k] == path[k]) k++;
    return m->memory->any_prefix || k == e->n ? k : 0;
}

static size_t model_request(model *m, const uint32_t *path, size_t n) {
    size_t saved = 0, held = 0, best = 0;
    for (size_t i = 0; i < m->n; i++) {
        const size_t u = usable(m, &m->entry[i], path, n);
        if (u > saved || (u > 0 && u == saved && m->entry[i].used > m->entry[best].used)) {
            saved = u;
            best = i;
        }
    }
    while (held < n && owners(m, path[held])) held++;
    if (saved) {
        m->entry[best].hits++;
        m->entry[best].used = ++m->clock;
    }
    if (!m->memory->any_prefix && held > saved && held < n) model_record(m, path, held);
    model_record(m, path, n);
    return saved;
}

/* ---- tests ---- */

static void add(sk_evict_trace *t, size_t n, const uint64_t *ids) {
    sk_err e;
    assert_int_equal(sk_evict_trace_add(t, 0, n * B + 17, 1, ids, n, &e), SKIPPY_OK);
}

static void random_prompt(test_random *r, sk_evict_trace *t) {
    uint64_t ids[MOST_DEPTH], id = 1;
    const size_t n = random_below(r, MOST_DEPTH + 1);
    /* few choices near the root, many below: some prompts come back, most beginnings are shared */
    for (size_t i = 0; i < n; i++) ids[i] = id = id * 8 + random_below(r, i < 3 ? 2 : 3);
    add(t, n, ids);
}

static void the_simulation_agrees_with_a_naive_model(void **state) {
    (void)state;
    static model m; /* too large for the stack of a test */
    test_random r = random_start("evict_cache_test");
    for (int round = 0; round < 24; round++) {
        sk_evict_trace t = {0};
        for (int i = 0; i < 120; i++) random_prompt(&r, &t);
        m = (model){.memory = round % 2 ? &HYBRID : &ATTENTION,
                    .policy = (enum sk_evict_policy)(round / 2 % SK_EVICT_POLICIES),
                    .capacity = 40 + 10 * random_below(&r, 40)};
        sk_evict_cache *c = sk_evict_cache_create(&t, m.memory, m.policy, m.capacity);
        assert_non_null(c);
        for (size_t i = 0; i < t.n_requests; i++) {
            const sk_evict_request *q = &t.requests[i];
            assert_int_equal(sk_evict_cache_request(c, q), model_request(&m, t.path + q->first, q->n_blocks));
            assert_int_equal(sk_evict_cache_totals(c).used_bytes, used_bytes(&m));
            assert_true(used_bytes(&m) <= m.capacity);
        }
        sk_evict_cache_destroy(c);
        sk_evict_trace_free(&t);
    }
}

static sk_evict_totals run(const sk_evict_trace *t, const sk_evict_memory *m, enum sk_evict_policy p,
                           uint64_t capacity) {
    sk_evict_totals totals;
    assert_int_equal(sk_evict_simulate(t, m, p, capacity, &totals), SKIPPY_OK);
    return totals;
}

static void attention_state_serves_every_shorter_prefix(void **state) {
    (void)state;
    sk_evict_trace t = {0};
    add(&t, 3, (const uint64_t[]){1, 2, 3});
    add(&t, 3, (const uint64_t[]){1, 2, 9});
    const sk_evict_totals a = run(&t, &ATTENTION, SK_EVICT_LRU, UINT64_MAX);
    assert_int_equal(a.saved_tokens, 2 * B);
    assert_int_equal(a.hits, 1);
    assert_int_equal(a.tokens, 2 * (3 * B + 17));
    assert_int_equal(a.used_bytes, 40);
    const sk_evict_totals h = run(&t, &HYBRID, SK_EVICT_LRU, UINT64_MAX);
    assert_int_equal(h.saved_tokens, 0);
    sk_evict_trace_free(&t);
}

static void hybrids_learn_where_prompts_part(void **state) {
    (void)state;
    sk_evict_trace t = {0};
    add(&t, 3, (const uint64_t[]){1, 2, 3});
    add(&t, 3, (const uint64_t[]){1, 2, 9});
    add(&t, 3, (const uint64_t[]){1, 2, 8});
    const sk_evict_totals h = run(&t, &HYBRID, SK_EVICT_LRU, UINT64_MAX);
    assert_int_equal(h.saved_tokens, 2 * B); /* the third one starts at the boundary that the second one left */
    assert_int_equal(h.stored, 4);
    assert_int_equal(h.used_bytes, 5 * 10 + 4 * 25);
    sk_evict_trace_free(&t);
}

static void a_conversation_that_grew_replaces_its_beginning(void **state) {
    (void)state;
    sk_evict_trace t = {0};
    add(&t, 1, (const uint64_t[]){1});
    add(&t, 2, (const uint64_t[]){1, 2});
    const sk_evict_totals a = run(&t, &ATTENTION, SK_EVICT_LRU, UINT64_MAX);
    assert_int_equal(a.superseded, 1);
    assert_int_equal(a.used_bytes, 20);
    const sk_evict_totals h = run(&t, &HYBRID, SK_EVICT_LRU, UINT64_MAX);
    assert_int_equal(h.superseded, 0); /* the shorter boundary cannot be had from the longer one */
    assert_int_equal(h.used_bytes, 20 + 2 * 25);
    sk_evict_trace_free(&t);
}

/* Prompt 1 is used again before prompt 3 needs its room: LRU keeps it, FIFO does not. */
static void lru_keeps_what_was_used_and_fifo_what_came_last(void **state) {
    (void)state;
    sk_evict_trace t = {0};
    add(&t, 1, (const uint64_t[]){1});
    add(&t, 1, (const uint64_t[]){2});
    add(&t, 1, (const uint64_t[]){1});
    add(&t, 1, (const uint64_t[]){3});
    add(&t, 1, (const uint64_t[]){1});
    assert_int_equal(run(&t, &ATTENTION, SK_EVICT_LRU, 20).hits, 2);
    assert_int_equal(run(&t, &ATTENTION, SK_EVICT_FIFO, 20).hits, 1);
    sk_evict_trace_free(&t);
}

static void what_is_larger_than_the_cache_evicts_nothing(void **state) {
    (void)state;
    sk_evict_trace t = {0};
    add(&t, 1, (const uint64_t[]){1});
    add(&t, 3, (const uint64_t[]){7, 8, 9});
    add(&t, 1, (const uint64_t[]){1});
    const sk_evict_totals a = run(&t, &ATTENTION, SK_EVICT_BENEFIT, 20);
    assert_int_equal(a.refused, 1);
    assert_int_equal(a.evicted, 0);
    assert_int_equal(a.hits, 1);
    sk_evict_trace_free(&t);
}

static void attention_makes_the_end_of_a_prompt_dearer(void **state) {
    (void)state;
    assert_true(sk_evict_cost_ms(&ATTENTION, 0) < 1e-12);
    /* 1000 tokens: 1000 of their own, and 500 for attention to all earlier ones at an equal point of 1000 */
    assert_true(sk_evict_cost_ms(&ATTENTION, 1000) > 1499.999 && sk_evict_cost_ms(&ATTENTION, 1000) < 1500.001);
}

/* 1-2 was used once, 7-8 never. Both are older than 9, and the two of them do not fit beside the next prompt. */
static void benefit_keeps_what_came_back(void **state) {
    (void)state;
    sk_evict_trace t = {0};
    add(&t, 2, (const uint64_t[]){1, 2});
    add(&t, 2, (const uint64_t[]){1, 2});
    add(&t, 2, (const uint64_t[]){7, 8});
    add(&t, 2, (const uint64_t[]){9, 10});
    add(&t, 2, (const uint64_t[]){1, 2});
    assert_int_equal(run(&t, &ATTENTION, SK_EVICT_LRU, 40).hits, 1);
    assert_int_equal(run(&t, &ATTENTION, SK_EVICT_BENEFIT, 40).hits, 2);
    sk_evict_trace_free(&t);
}

/* The conversation 1-2-3 inherits the hit of 1-2 and outlives the newer 7-8-9. */
static void a_conversation_that_grew_keeps_its_hits(void **state) {
    (void)state;
    sk_evict_trace t = {0};
    add(&t, 2, (const uint64_t[]){1, 2});
    add(&t, 3, (const uint64_t[]){1, 2, 3});
    add(&t, 3, (const uint64_t[]){7, 8, 9});
    add(&t, 3, (const uint64_t[]){10, 11, 12});
    add(&t, 3, (const uint64_t[]){1, 2, 3});
    assert_int_equal(run(&t, &ATTENTION, SK_EVICT_BENEFIT, 60).saved_tokens, 5 * B);
    assert_int_equal(run(&t, &ATTENTION, SK_EVICT_LRU, 60).saved_tokens, 2 * B);
    sk_evict_trace_free(&t);
}

static void policies_have_names(void **state) {
    (void)state;
    assert_string_equal(sk_evict_policy_name(SK_EVICT_FIFO), "fifo");
    assert_string_equal(sk_evict_policy_name(SK_EVICT_LRU), "lru");
    assert_string_equal(sk_evict_policy_name(SK_EVICT_BENEFIT), "benefit");
    assert_string_equal(sk_evict_policy_name(SK_EVICT_POLICIES), "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_simulation_agrees_with_a_naive_model),
        cmocka_unit_test(attention_state_serves_every_shorter_prefix),
        cmocka_unit_test(hybrids_learn_where_prompts_part),
        cmocka_unit_test(a_conversation_that_grew_replaces_its_beginning),
        cmocka_unit_test(lru_keeps_what_was_used_and_fifo_what_came_last),
        cmocka_unit_test(what_is_larger_than_the_cache_evicts_nothing),
        cmocka_unit_test(attention_makes_the_end_of_a_prompt_dearer),
        cmocka_unit_test(benefit_keeps_what_came_back),
        cmocka_unit_test(a_conversation_that_grew_keeps_its_hits),
        cmocka_unit_test(policies_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
