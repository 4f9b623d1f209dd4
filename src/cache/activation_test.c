#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cache/test_alloc.h"
#include "cache/test_random.h"
#include "skippy/activation.h"

static const skippy_key key_a = {{1}}, key_b = {{2}};
static float values[64];

/* A frame of n f32 values: 4 n bytes. */
static skippy_activation_frame frame(uint32_t n) {
    return (skippy_activation_frame){.data = values, .bytes = 4 * (size_t)n, .n_tokens = 1, .width = n};
}

static int put(skippy_activation_cache *c, const char *id, uint32_t n) {
    skippy_activation_frame f = frame(n);
    return skippy_activation_put(c, id, &key_a, &f);
}

static int lease(skippy_activation_cache *c, const char *id) {
    skippy_activation_frame f;
    return skippy_activation_lease(c, id, &key_a, &f);
}

static skippy_activation_stats stats_of(const skippy_activation_cache *c) {
    skippy_activation_stats s;
    skippy_activation_get_stats(c, &s);
    return s;
}

static int open_100(void **state) {
    return skippy_activation_create(NULL, 100, (skippy_activation_cache **)state);
}

static int close_cache(void **state) {
    skippy_activation_destroy(*state);
    return 0;
}

static void a_frame_comes_back_as_a_copy(void **state) {
    skippy_activation_cache *c = *state;
    float data[6] = {1, 2, 3, 4, 5, 6};
    skippy_activation_frame in = {.data = data, .bytes = sizeof data, .n_tokens = 2, .width = 3}, out;
    assert_int_equal(skippy_activation_put(c, "act:p:w3", &key_a, &in), SKIPPY_OK);
    data[0] = 99;
    assert_int_equal(skippy_activation_lease(c, "act:p:w3", &key_a, &out), SKIPPY_OK);
    assert_int_equal(out.n_tokens, 2);
    assert_int_equal(out.width, 3);
    assert_int_equal(out.bytes, sizeof data);
    assert_int_equal((uintptr_t)out.data % 16, 0);
    const float want[6] = {1, 2, 3, 4, 5, 6};
    assert_memory_equal(out.data, want, sizeof want);
    assert_int_equal(skippy_activation_release(c, "act:p:w3"), SKIPPY_OK);
}

static void an_id_with_another_key_is_a_miss(void **state) {
    skippy_activation_cache *c = *state;
    skippy_activation_frame out;
    assert_int_equal(put(c, "a", 1), SKIPPY_OK);
    assert_int_equal(skippy_activation_lease(c, "a", &key_b, &out), SKIPPY_E_NOT_FOUND);
    assert_int_equal(skippy_activation_lease(c, "b", &key_a, &out), SKIPPY_E_NOT_FOUND);
    assert_int_equal(stats_of(c).misses, 2);
    assert_int_equal(stats_of(c).hits, 0);
}

static void the_least_recently_used_frames_leave_first(void **state) {
    skippy_activation_cache *c = *state;
    assert_int_equal(put(c, "a", 10), SKIPPY_OK);
    assert_int_equal(put(c, "b", 10), SKIPPY_OK);
    assert_int_equal(lease(c, "a"), SKIPPY_OK);
    assert_int_equal(skippy_activation_release(c, "a"), SKIPPY_OK);
    assert_int_equal(put(c, "c", 10), SKIPPY_OK);
    assert_int_equal(lease(c, "b"), SKIPPY_E_NOT_FOUND);
    assert_int_equal(lease(c, "a"), SKIPPY_OK);
    assert_int_equal(stats_of(c).evictions, 1);
    assert_int_equal(stats_of(c).bytes, 80);
    assert_int_equal(stats_of(c).entries, 2);
}

static void leased_frames_stay(void **state) {
    skippy_activation_cache *c = *state;
    assert_int_equal(put(c, "a", 15), SKIPPY_OK);
    assert_int_equal(put(c, "b", 10), SKIPPY_OK);
    assert_int_equal(lease(c, "a"), SKIPPY_OK);
    assert_int_equal(lease(c, "a"), SKIPPY_OK);
    assert_int_equal(stats_of(c).leased, 1);
    assert_int_equal(put(c, "c", 11), SKIPPY_E_FULL);
    assert_int_equal(stats_of(c).entries, 2); /* nothing was evicted for it */
    assert_int_equal(stats_of(c).refused, 1);
    assert_int_equal(put(c, "a", 1), SKIPPY_E_BUSY);
    assert_int_equal(skippy_activation_drop(c, "a"), SKIPPY_E_BUSY);
    assert_int_equal(skippy_activation_release(c, "a"), SKIPPY_OK);
    assert_int_equal(put(c, "c", 11), SKIPPY_E_FULL); /* one lease is left */
    assert_int_equal(put(c, "c", 10), SKIPPY_OK);
    assert_int_equal(lease(c, "b"), SKIPPY_E_NOT_FOUND);
    assert_int_equal(skippy_activation_release(c, "a"), SKIPPY_OK);
    assert_int_equal(skippy_activation_release(c, "a"), SKIPPY_E_INVALID);
    assert_int_equal(skippy_activation_release(c, "b"), SKIPPY_E_NOT_FOUND);
    assert_int_equal(stats_of(c).leased, 0);
}

static void a_frame_replaces_the_one_with_its_id(void **state) {
    skippy_activation_cache *c = *state;
    skippy_activation_frame out;
    assert_int_equal(put(c, "b", 5), SKIPPY_OK);
    assert_int_equal(put(c, "a", 10), SKIPPY_OK);
    assert_int_equal(put(c, "a", 20), SKIPPY_OK); /* 20 + 80 bytes: fits because the old frame leaves */
    assert_int_equal(stats_of(c).entries, 2);
    assert_int_equal(stats_of(c).evictions, 0);
    assert_int_equal(skippy_activation_lease(c, "a", &key_a, &out), SKIPPY_OK);
    assert_int_equal(out.width, 20);
}

static void a_frame_larger_than_the_cache_is_refused(void **state) {
    skippy_activation_cache *c = *state;
    assert_int_equal(put(c, "a", 10), SKIPPY_OK);
    assert_int_equal(put(c, "b", 26), SKIPPY_E_TOO_LARGE);
    assert_int_equal(put(c, "b", 25), SKIPPY_OK);
    assert_int_equal(stats_of(c).entries, 1);
}

static void a_dropped_frame_is_gone(void **state) {
    skippy_activation_cache *c = *state;
    assert_int_equal(put(c, "a", 10), SKIPPY_OK);
    assert_int_equal(skippy_activation_drop(c, "a"), SKIPPY_OK);
    assert_int_equal(skippy_activation_drop(c, "a"), SKIPPY_E_NOT_FOUND);
    assert_int_equal(stats_of(c).bytes, 0);
}

static void asking_whether_a_frame_is_there_is_no_use_of_it(void **state) {
    skippy_activation_cache *c = *state;
    assert_int_equal(put(c, "a", 10), SKIPPY_OK);
    assert_int_equal(put(c, "b", 10), SKIPPY_OK);
    assert_true(skippy_activation_has(c, "a", &key_a));
    assert_false(skippy_activation_has(c, "a", &key_b));
    assert_false(skippy_activation_has(c, "c", &key_a));
    assert_int_equal(stats_of(c).hits, 0);
    assert_int_equal(stats_of(c).misses, 0);
    assert_int_equal(put(c, "c", 10), SKIPPY_OK);
    assert_false(skippy_activation_has(c, "a", &key_a)); /* it was still the oldest */
    assert_true(skippy_activation_has(c, "b", &key_a));
    assert_false(skippy_activation_has(NULL, "b", &key_a));
    assert_false(skippy_activation_has(c, NULL, &key_a));
    assert_false(skippy_activation_has(c, "b", NULL));
}

static void a_cleared_cache_has_leased_frames_only(void **state) {
    skippy_activation_cache *c = *state;
    assert_int_equal(put(c, "a", 5), SKIPPY_OK);
    assert_int_equal(put(c, "b", 5), SKIPPY_OK);
    assert_int_equal(put(c, "c", 5), SKIPPY_OK);
    assert_int_equal(lease(c, "b"), SKIPPY_OK);
    assert_int_equal(skippy_activation_clear(c), 2);
    assert_false(skippy_activation_has(c, "a", &key_a));
    assert_true(skippy_activation_has(c, "b", &key_a));
    assert_int_equal(stats_of(c).bytes, 20);
    assert_int_equal(stats_of(c).hits, 1); /* statistics go on */
    assert_int_equal(skippy_activation_release(c, "b"), SKIPPY_OK);
    assert_int_equal(skippy_activation_clear(c), 1);
    assert_int_equal(skippy_activation_clear(c), 0);
    assert_int_equal(skippy_activation_clear(NULL), 0);
}

static void a_cache_without_limit_evicts_nothing(void **state) {
    (void)state;
    skippy_activation_cache *c;
    assert_int_equal(skippy_activation_create(NULL, 0, &c), SKIPPY_OK);
    for (int i = 0; i < 100; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        assert_int_equal(put(c, id, 64), SKIPPY_OK);
    }
    assert_int_equal(stats_of(c).entries, 100);
    skippy_activation_destroy(c);
}

static void sizes_that_do_not_fit_the_shape_are_refused(void **state) {
    skippy_activation_cache *c = *state;
    skippy_activation_frame good = frame(4), bad[7];
    for (size_t i = 0; i < 7; i++) bad[i] = good;
    bad[0].bytes++;
    bad[1].n_tokens = 0;
    bad[2].width = 0;
    bad[3].dtype = 2;
    bad[4].data = NULL;
    bad[5].dtype = 1; /* f16: half the bytes */
    bad[6].n_tokens = bad[6].width = UINT32_MAX;
    for (size_t i = 0; i < 7; i++) assert_int_equal(skippy_activation_put(c, "a", &key_a, &bad[i]), SKIPPY_E_INVALID);
    assert_int_equal(skippy_activation_put(NULL, "a", &key_a, &good), SKIPPY_E_INVALID);
    assert_int_equal(skippy_activation_put(c, NULL, &key_a, &good), SKIPPY_E_INVALID);
    assert_int_equal(skippy_activation_put(c, "a", NULL, &good), SKIPPY_E_INVALID);
    assert_int_equal(skippy_activation_put(c, "a", &key_a, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_activation_lease(c, "a", &key_a, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_activation_release(c, NULL), SKIPPY_E_INVALID);
    assert_int_equal(skippy_activation_drop(NULL, "a"), SKIPPY_E_INVALID);
    assert_int_equal(skippy_activation_create(NULL, 1, NULL), SKIPPY_E_INVALID);
    good.dtype = 1;
    good.bytes /= 2;
    assert_int_equal(skippy_activation_put(c, "a", &key_a, &good), SKIPPY_OK);
}

static void a_put_without_memory_changes_nothing(void **state) {
    (void)state;
    test_heap heap = {0};
    skippy_allocator hooks = test_heap_hooks(&heap);
    skippy_activation_cache *c;
    for (size_t i = 1; i <= 2; i++) {
        heap = (test_heap){.fail_at = i};
        assert_int_equal(skippy_activation_create(&hooks, 100, &c), SKIPPY_E_NOMEM);
        assert_int_equal(heap.live, 0);
    }
    heap = (test_heap){0};
    assert_int_equal(skippy_activation_create(&hooks, 100, &c), SKIPPY_OK);
    assert_int_equal(put(c, "a", 20), SKIPPY_OK);
    heap.fail_all = true;
    assert_int_equal(put(c, "a", 10), SKIPPY_E_NOMEM);
    assert_int_equal(put(c, "b", 10), SKIPPY_E_NOMEM);
    assert_int_equal(stats_of(c).bytes, 80);
    assert_int_equal(lease(c, "a"), SKIPPY_OK);
    skippy_activation_destroy(c);
    assert_int_equal(heap.live, 0);
}

/* ---- against a model ---- */

enum { IDS = 12, CAP = 100 };

typedef struct model_frame {
    bool present;
    uint32_t width, leases;
    uint64_t used; /* clock of the last put or lease */
} model_frame;

typedef struct model {
    model_frame f[IDS];
    uint64_t clock;
} model;

static uint64_t model_bytes(const model *m, bool leased_only) {
    uint64_t sum = 0;
    for (int i = 0; i < IDS; i++)
        if (m->f[i].present && (!leased_only || m->f[i].leases)) sum += 4 * (uint64_t)m->f[i].width;
    return sum;
}

static int model_put(model *m, int id, uint32_t width) {
    if (m->f[id].present && m->f[id].leases) return SKIPPY_E_BUSY;
    if (4 * width > CAP) return SKIPPY_E_TOO_LARGE;
    if (model_bytes(m, true) + 4 * width > CAP) return SKIPPY_E_FULL;
    m->f[id].present = false;
    while (model_bytes(m, false) + 4 * width > CAP) {
        model_frame *oldest = NULL;
        for (int i = 0; i < IDS; i++)
            if (m->f[i].present && !m->f[i].leases && (!oldest || m->f[i].used < oldest->used)) oldest = &m->f[i];
        assert_non_null(oldest);
        oldest->present = false;
    }
    m->f[id] = (model_frame){.present = true, .width = width, .used = ++m->clock};
    return SKIPPY_OK;
}

static void random_op(skippy_activation_cache *c, model *m, test_random *rnd) {
    int i = (int)random_below(rnd, IDS);
    model_frame *f = &m->f[i];
    char id[2] = {(char)('a' + i), '\0'};
    int expected;
    assert_int_equal(skippy_activation_has(c, id, &key_a), f->present);
    switch (random_below(rnd, 8)) {
    case 0:
    case 1:
    case 2: {
        uint32_t width = 1 + (uint32_t)random_below(rnd, 28);
        assert_int_equal(put(c, id, width), model_put(m, i, width));
        break;
    }
    case 3:
    case 4:
        assert_int_equal(lease(c, id), f->present ? SKIPPY_OK : SKIPPY_E_NOT_FOUND);
        if (!f->present) break;
        f->leases++;
        f->used = ++m->clock;
        break;
    case 5:
    case 6:
        expected = !f->present ? SKIPPY_E_NOT_FOUND : f->leases ? SKIPPY_OK : SKIPPY_E_INVALID;
        assert_int_equal(skippy_activation_release(c, id), expected);
        if (expected == SKIPPY_OK) f->leases--;
        break;
    default:
        expected = !f->present ? SKIPPY_E_NOT_FOUND : f->leases ? SKIPPY_E_BUSY : SKIPPY_OK;
        assert_int_equal(skippy_activation_drop(c, id), expected);
        if (expected == SKIPPY_OK) f->present = false;
    }
    size_t entries = 0, leased = 0;
    for (int k = 0; k < IDS; k++) {
        entries += m->f[k].present;
        leased += m->f[k].present && m->f[k].leases;
    }
    skippy_activation_stats s = stats_of(c);
    assert_int_equal(s.entries, entries);
    assert_int_equal(s.leased, leased);
    assert_int_equal(s.bytes, model_bytes(m, false));
}

static void the_cache_behaves_like_a_list(void **state) {
    test_random rnd = random_start("activation");
    model m = {0};
    for (int op = 0; op < TEST_OPERATIONS; op++) random_op(*state, &m, &rnd);
}

#define WITH_CACHE(f) cmocka_unit_test_setup_teardown(f, open_100, close_cache)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_CACHE(a_frame_comes_back_as_a_copy),
        WITH_CACHE(an_id_with_another_key_is_a_miss),
        WITH_CACHE(the_least_recently_used_frames_leave_first),
        WITH_CACHE(leased_frames_stay),
        WITH_CACHE(a_frame_replaces_the_one_with_its_id),
        WITH_CACHE(a_frame_larger_than_the_cache_is_refused),
        WITH_CACHE(a_dropped_frame_is_gone),
        WITH_CACHE(asking_whether_a_frame_is_there_is_no_use_of_it),
        WITH_CACHE(a_cleared_cache_has_leased_frames_only),
        cmocka_unit_test(a_cache_without_limit_evicts_nothing),
        WITH_CACHE(sizes_that_do_not_fit_the_shape_are_refused),
        cmocka_unit_test(a_put_without_memory_changes_nothing),
        WITH_CACHE(the_cache_behaves_like_a_list),
    };
    return cmocka_run_group_tests_name("activation", tests, NULL, NULL);
}
