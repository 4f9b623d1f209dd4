/* The context against the real llama.cpp: state that is copied equals state that was computed, positions are checked,
 * and the cell mirror follows the real pool. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/context.h"
#include "runtime/test_models.h"

enum { N_CTX = 512, N_SEQ = 6, N_BATCH = 64 };

static sk_model *load(const char *family) {
    const char *path = test_model_path(family);
    if (!path) return NULL;
    sk_model *m = NULL;
    sk_err e = {0};
    if (sk_model_load(&(sk_model_params){.path = path}, &m, &e)) fail_msg("%s", e.text);
    return m;
}

static sk_context *open_context(const sk_model *m, bool swa_full) {
    sk_context_params p = {.n_ctx = N_CTX,
                           .n_batch = N_BATCH,
                           .n_ubatch = N_BATCH,
                           .n_seq_max = N_SEQ,
                           .n_threads = 2,
                           .n_threads_batch = 2,
                           .flash_attn = 1,
                           .swa_full = swa_full};
    sk_context *c = NULL;
    sk_err e = {0};
    if (sk_context_create(m, &p, &c, &e)) fail_msg("%s", e.text);
    return c;
}

static void feed(sk_context *c, uint32_t seq, uint32_t n) {
    sk_row rows[N_BATCH];
    sk_err e = {0};
    while (n) {
        uint32_t k = n < N_BATCH ? n : N_BATCH, at = sk_context_seq_len(c, seq);
        for (uint32_t i = 0; i < k; i++)
            rows[i] = (sk_row){.token = (int32_t)((at + i) * 7 % 200 + 5), .seq = seq, .output = i == k - 1};
        if (sk_context_decode(c, rows, k, NULL, &e)) fail_msg("%s", e.text);
        n -= k;
    }
}

/* Exports of two sequences, sequence ids zeroed (they are all that may differ), are the same bytes. */
static void assert_same_state(sk_context *c, uint32_t a, uint32_t b) {
    uint8_t *x = NULL, *y = NULL;
    size_t nx = 0, ny = 0;
    sk_err e = {0};
    assert_int_equal(sk_context_seq_export(c, a, &x, &nx, &e), SKIPPY_OK);
    assert_int_equal(sk_context_seq_export(c, b, &y, &ny, &e), SKIPPY_OK);
    assert_int_equal(nx, ny);
    size_t differ = 0;
    for (size_t i = 0; i < nx; i++) differ += x[i] != y[i];
    /* header id and one id per cell and cache; ids here are one byte large */
    assert_true(differ <= 1 + 2 * (size_t)sk_context_seq_len(c, a));
    free(x);
    free(y);
}

static void a_snapshot_equals_the_recorded_state(void **state) {
    sk_model *m = load(*state);
    if (!m) skip();
    sk_context *c = open_context(m, false);
    sk_err e = {0};
    feed(c, 0, 150);
    assert_int_equal(sk_context_seq_snapshot(c, 0, 1, &e), SKIPPY_OK);
    assert_int_equal(sk_context_seq_len(c, 1), 150);
    assert_same_state(c, 0, 1);
    feed(c, 0, 40); /* the lane goes on, the snapshot stays */
    assert_int_equal(sk_context_seq_len(c, 1), 150);
    sk_context_seq_clear(c, 2);
    feed(c, 2, 150); /* the same tokens, computed again beside the others */
    assert_int_equal(sk_context_seq_copy(c, 1, 3, 150, &e), SKIPPY_OK);
    assert_same_state(c, 1, 3);
    sk_context_free(c);
    sk_model_free(m);
}

static void recurrent_state_cannot_be_cut_back(void **state) {
    sk_model *m = load(*state);
    if (!m) skip();
    sk_context *c = open_context(m, false);
    sk_err e = {0};
    feed(c, 0, 50);
    assert_int_equal(sk_context_seq_copy(c, 0, 1, 30, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_context_seq_len(c, 1), 0);
    assert_int_equal(sk_context_seq_trim(c, 0, 30, &e), SKIPPY_E_UNSUPPORTED);
    assert_int_equal(sk_context_seq_len(c, 0), 50);
    sk_context_free(c);
    sk_model_free(m);
}

static void a_window_that_moved_on_cannot_be_cut_back(void **state) {
    sk_model *m = load(*state);
    if (!m) skip();
    sk_context *c = open_context(m, false);
    sk_err e = {0};
    feed(c, 0, 400);
    assert_int_equal(sk_context_seq_snapshot(c, 0, 1, &e), SKIPPY_OK);
    assert_int_equal(sk_context_seq_copy(c, 1, 2, 100, &e),
                     SKIPPY_E_CORRUPT); /* the detached window holds the end only */
    assert_int_equal(sk_context_seq_len(c, 2), 0);
    assert_int_equal(sk_context_seq_copy(c, 1, 2, 400, &e), SKIPPY_OK);
    sk_context_free(c);
    sk_model_free(m);
}

static void a_full_size_window_keeps_every_length(void **state) {
    sk_model *m = load(*state);
    if (!m) skip();
    sk_context *c = open_context(m, true);
    sk_err e = {0};
    feed(c, 0, 300);
    feed(c, 1, 190); /* the pool is nearly full: masked cells would be taken without guards */
    sk_context_seq_clear(c, 1);
    feed(c, 1, 200);
    for (uint32_t n = 300; n > 0; n -= 60) assert_int_equal(sk_context_seq_copy(c, 0, 2, n, &e), SKIPPY_OK);
    sk_context_free(c);
    sk_model_free(m);
}

static void a_batch_that_does_not_fit_changes_nothing(void **state) {
    sk_model *m = load(*state);
    if (!m) skip();
    sk_context *c = open_context(m, false);
    sk_err e = {0};
    sk_row rows[40];
    feed(c, 0, N_CTX - 20);
    for (uint32_t i = 0; i < 40; i++) rows[i] = (sk_row){.token = 7, .seq = 1, .output = i == 39};
    assert_int_equal(sk_context_decode(c, rows, 40, NULL, &e), SKIPPY_E_FULL);
    assert_int_equal(sk_context_seq_len(c, 0), N_CTX - 20);
    assert_int_equal(sk_context_seq_len(c, 1), 0);
    assert_int_equal(sk_context_decode(c, rows, 20, NULL, &e), SKIPPY_OK);
    sk_context_free(c);
    sk_model_free(m);
}

static void bad_rows_are_refused(void **state) {
    sk_model *m = load(*state);
    if (!m) skip();
    sk_context *c = open_context(m, false);
    sk_err e = {0};
    sk_row bad_seq = {.token = 1, .seq = N_SEQ, .output = true}, bad_token = {.token = -5, .seq = 0, .output = true};
    assert_int_equal(sk_context_decode(c, &bad_seq, 1, NULL, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_context_decode(c, &bad_token, 1, NULL, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_context_decode(c, &bad_token, 0, NULL, &e), SKIPPY_E_INVALID);
    sk_context_free(c);
    sk_model_free(m);
}

/* Positions in the order of an export's cells (docs: u32 magic, i32 id, u32 streams, u32 cells, then per cell i32
 * position, u32 ids, i32 id) must be the order that the mirror predicts. */
static void assert_mirror_follows(sk_context *c, uint32_t seq, uint32_t seed, int step) {
    uint8_t *blob = NULL;
    size_t len = 0;
    sk_err e = {0};
    uint32_t n = sk_context_seq_len(c, seq), cells = 0;
    if (n == 0) return;
    assert_int_equal(sk_context_seq_export(c, seq, &blob, &len, &e), SKIPPY_OK);
    memcpy(&cells, blob + 12, sizeof cells);
    assert_int_equal(cells, n);
    uint32_t last = 0;
    for (uint32_t i = 0; i < cells; i++) {
        int32_t pos;
        memcpy(&pos, blob + 16 + (size_t)i * 12, sizeof pos);
        uint32_t cell = sk_context_cell(c, seq, (uint32_t)pos);
        if (i && cell < last)
            fail_msg("seed %u step %d: the pool has position %d after cell %u, the mirror says %u", seed, step, pos,
                     last, cell);
        last = cell;
    }
    free(blob);
}

static void the_mirror_follows_the_pool(void **state) {
    sk_model *m = load(*state);
    if (!m) skip();
    sk_context *c = open_context(m, true);
    const char *env = getenv("SKIPPY_TEST_SEED");
    uint32_t seed = env ? (uint32_t)strtoul(env, NULL, 10) : 99, x = seed;
    bool recurrent = sk_context_get_info(c)->recurrent;
    sk_err e = {0};
    for (int step = 0; step < 120; step++) {
        x = x * 1664525u + 1013904223u;
        uint32_t s = (x >> 8) % N_SEQ, t = (x >> 16) % N_SEQ, k = (x >> 20) % 50 + 1, len = sk_context_seq_len(c, s);
        switch ((x >> 28) % 4) {
        case 0:
        case 1:
            if (k + 2 < sk_context_cells_free(c)) feed(c, s, k);
            break;
        case 2: sk_context_seq_clear(c, s); break;
        case 3:
            if (s != t && len) sk_context_seq_copy(c, s, t, recurrent ? len : len / 2 + 1, &e);
            break;
        }
        assert_mirror_follows(c, s, seed, step);
        if (sk_context_seq_relocate(c, t, 4, &e) == SKIPPY_OK && sk_context_seq_len(c, t))
            assert_true(sk_context_seq_sorted(c, t));
        assert_mirror_follows(c, t, seed, step);
    }
    sk_context_free(c);
    sk_model_free(m);
}

static void wrong_parameters_are_refused_in_words(void **state) {
    sk_model *m = load(*state);
    if (!m) skip();
    sk_context *c = NULL;
    sk_err e = {0};
    sk_context_params p = {.n_ctx = N_CTX,
                           .n_batch = 32,
                           .n_ubatch = 32,
                           .n_seq_max = 2,
                           .n_threads = 1,
                           .n_threads_batch = 1,
                           .type_k = "q99"};
    assert_int_equal(sk_context_create(m, &p, &c, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "q99"));
    p.type_k = "f16";
    p.n_ctx = 1u << 20;
    assert_int_equal(sk_context_create(m, &p, &c, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "larger than the model's"));
    p.n_ctx = N_CTX;
    sk_lora_spec lora = {.path = "/nonexistent/adapter.gguf", .scale = 1};
    p.lora = &lora;
    p.n_lora = 1;
    assert_int_equal(sk_context_create(m, &p, &c, &e), SKIPPY_E_MODEL);
    assert_non_null(strstr(e.text, "adapter"));
    sk_model_free(m);
}

#define MODEL_TEST(test, family)                                                                                       \
    { #test " " family, test, NULL, NULL, (void *)(family) }

int main(void) {
    const struct CMUnitTest tests[] = {
        MODEL_TEST(a_snapshot_equals_the_recorded_state, "llama"),
        MODEL_TEST(a_snapshot_equals_the_recorded_state, "gemma3"),
        MODEL_TEST(a_snapshot_equals_the_recorded_state, "falcon-h1"),
        MODEL_TEST(a_snapshot_equals_the_recorded_state, "mamba2"),
        MODEL_TEST(recurrent_state_cannot_be_cut_back, "falcon-h1"),
        MODEL_TEST(recurrent_state_cannot_be_cut_back, "mamba2"),
        MODEL_TEST(a_window_that_moved_on_cannot_be_cut_back, "gemma3"),
        MODEL_TEST(a_full_size_window_keeps_every_length, "gemma3"),
        MODEL_TEST(a_batch_that_does_not_fit_changes_nothing, "llama"),
        MODEL_TEST(a_batch_that_does_not_fit_changes_nothing, "falcon-h1"),
        MODEL_TEST(bad_rows_are_refused, "llama"),
        MODEL_TEST(the_mirror_follows_the_pool, "llama"),
        MODEL_TEST(the_mirror_follows_the_pool, "falcon-h1"),
        MODEL_TEST(wrong_parameters_are_refused_in_words, "llama"),
    };
    return cmocka_run_group_tests_name("context", tests, NULL, NULL);
}
