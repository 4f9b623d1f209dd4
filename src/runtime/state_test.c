/* State out of and into the real llama.cpp: bytes that do not depend on where cells lie, and continuations that do not
 * know that the state was away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/state_fixture.h"

/* Family and settings of one run of a test. */
typedef struct variant {
    const char *family;
    fx_options o;
} variant;

#define OPEN(f, state)                                                                                                 \
    const variant *v = *(state);                                                                                       \
    if (!fx_open(&(f), v->family, v->o)) skip()

static void ok(int rc, const sk_err *e) {
    if (rc) fail_msg("%s", e->text);
}

/* Sequence 0 with n tokens in order, and free cells before and between others' cells. */
static void lane_and_holes(fx *f, uint32_t n) {
    fx_feed(f, 3, 40);
    fx_feed(f, 0, n);
    fx_feed(f, 4, 30);
    sk_context_seq_clear(f->c, 3);
    fx_feed(f, 2, 10);
}

/* ---- round trips ---- */

static void an_imported_state_continues_bit_for_bit(void **state) {
    fx f;
    OPEN(f, state);
    fx_state s;
    sk_err e = {0};
    lane_and_holes(&f, 200);
    fx_export(&f, 0, &s);
    ok(fx_import(&f, 1, &s, 200, &e), &e);
    fx_assert_empty(&f, FX_SCRATCH);
    assert_int_equal(sk_context_seq_len(f.c, 1), 200);
    fx_assert_mirror(&f, 1);
    fx_assert_same_state(&f, 0, &f, 1);
    float *source = fx_suffix(&f, 0), *restored = fx_suffix(&f, 1);
    /* Without flash attention other cells take part in the sums, and beside holes a small window pool puts the source's
     * new cells below its old ones (docs/exactness.md): bits can differ there, values that were moved cannot. */
    if (!v->o.fa_off && sk_context_get_info(f.c)->n_swa == 0) fx_assert_same_logits(&f, source, restored);
    fx_assert_mirror(&f, 1);
    free(source);
    free(restored);
    fx_state_free(&s);
    fx_close(&f);
}

static void a_fresh_context_continues_bit_for_bit(void **state) {
    fx f, g;
    OPEN(f, state);
    fx_state s;
    sk_err e = {0};
    fx_feed(&f, 0, 150);
    fx_export(&f, 0, &s);
    float *source = fx_suffix(&f, 0);
    fx_open_beside(&g, &f, v->o);
    assert_memory_equal(&g.caps.layout, &f.caps.layout, sizeof g.caps.layout);
    ok(fx_import(&g, 2, &s, 150, &e), &e);
    float *restored = fx_suffix(&g, 2);
    fx_assert_same_logits(&f, source, restored);
    fx_assert_same_state(&f, 0, &g, 2);
    free(source);
    free(restored);
    fx_state_free(&s);
    fx_close_context(&g);
    fx_close(&f);
}

static void a_whole_export_restores_the_state(void **state) {
    fx f;
    OPEN(f, state);
    sk_blob b;
    sk_err e = {0};
    lane_and_holes(&f, 50); /* opaque exports of a full-size window cache end at the window */
    ok(sk_state_export_whole(f.c, &f.caps, 0, &b, &e), &e);
    assert_int_equal(b.cuts[b.n_cuts - 1], b.len);
    sk_state_part part = {SKIPPY_PART_OPAQUE, 0, 50, b.data, b.len};
    ok(sk_state_import(f.c, &f.caps, 1, FX_SCRATCH, &part, 1, 50, &e), &e);
    fx_assert_mirror(&f, 1);
    float *source = fx_suffix(&f, 0), *restored = fx_suffix(&f, 1);
    fx_assert_same_logits(&f, source, restored);
    fx_assert_mirror(&f, 1);
    free(source);
    free(restored);
    sk_blob_free(&b);
    fx_close(&f);
}

/* ---- windows ---- */

static void full_windows_keep_their_bytes_when_a_conversation_grows(void **state) {
    fx f;
    OPEN(f, state);
    fx_state before, after, moved;
    sk_err e = {0};
    fx_feed(&f, 3, 20);
    fx_feed(&f, 0, 2 * FX_WINDOW + 10);
    fx_export(&f, 0, &before);
    sk_context_seq_clear(f.c, 3); /* the conversation goes on below its first cells */
    fx_feed(&f, 0, 130);
    fx_export(&f, 0, &after);
    ok(fx_import(&f, 1, &after, after.n_tokens, &e), &e);
    fx_export(&f, 1, &moved);
    for (size_t i = 0; i < after.n; i++) {
        assert_int_equal(after.blob[i].len, moved.blob[i].len);
        assert_memory_equal(after.blob[i].data, moved.blob[i].data, after.blob[i].len);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(before.blob[i].len, after.blob[i].len);
        assert_memory_equal(before.blob[i].data, after.blob[i].data, before.blob[i].len);
    }
    fx_state_free(&before);
    fx_state_free(&after);
    fx_state_free(&moved);
    fx_close(&f);
}

static void attention_state_restores_at_every_length(void **state) {
    fx f;
    OPEN(f, state);
    fx_state s;
    sk_err e = {0};
    fx_feed(&f, 3, 30);
    fx_feed(&f, 0, 2 * FX_WINDOW + 20);
    sk_context_seq_clear(f.c, 3);
    fx_export(&f, 0, &s);
    for (uint32_t n = 1; n <= s.n_tokens; n += n % FX_WINDOW >= 2 && n % FX_WINDOW < FX_WINDOW - 10 ? 9 : 1) {
        fx_state t = s;
        t.n = (n + FX_WINDOW - 1) / FX_WINDOW;
        ok(fx_import(&f, 1, &t, n, &e), &e);
        assert_int_equal(sk_context_seq_len(f.c, 1), n);
        fx_assert_mirror(&f, 1);
        ok(sk_context_seq_copy(f.c, 0, 2, n, &e), &e);
        fx_assert_same_state(&f, 1, &f, 2);
        sk_context_seq_clear(f.c, 1);
        sk_context_seq_clear(f.c, 2);
    }
    fx_state_free(&s);
    fx_close(&f);
}

static void a_full_size_window_keeps_every_length_after_an_import(void **state) {
    fx f;
    OPEN(f, state);
    fx_state s;
    sk_err e = {0};
    fx_feed(&f, 0, 250);
    fx_export(&f, 0, &s);
    sk_context_seq_clear(f.c, 0);
    ok(fx_import(&f, 1, &s, 250, &e), &e);
    fx_feed(&f, 2, 380); /* takes nearly every cell that is free, and would take masked ones */
    for (uint32_t n = 250; n > 0; n -= 50) {
        ok(sk_context_seq_copy(f.c, 1, 3, n, &e), &e);
        sk_context_seq_clear(f.c, 3);
    }
    sk_context_seq_clear(f.c, 2);
    ok(fx_import(&f, 3, &s, 250, &e), &e);
    fx_assert_same_state(&f, 1, &f, 3);
    fx_state_free(&s);
    fx_close(&f);
}

/* ---- boundaries ---- */

static void a_recorded_boundary_restores_after_the_lane_moved_on(void **state) {
    fx f;
    OPEN(f, state);
    fx_state s, longer;
    sk_err e = {0};
    fx_feed(&f, 0, 100);
    fx_export(&f, 0, &s);
    float *source = fx_suffix(&f, 0);
    fx_feed(&f, 0, 200);
    fx_export(&f, 0, &longer);
    ok(fx_import(&f, 1, &s, 100, &e), &e);
    float *restored = fx_suffix(&f, 1);
    fx_assert_same_logits(&f, source, restored);
    sk_context_seq_clear(f.c, 1);
    if (f.caps.has_kv) { /* windows of a longer entry reach beyond the boundary */
        fx_state mixed = longer;
        mixed.n = 2;
        mixed.part[mixed.n++] = s.part[s.n - 1];
        assert_int_equal(fx_import(&f, 1, &mixed, 100, &e), SKIPPY_E_CORRUPT);
        fx_assert_empty(&f, 1);
        mixed.part[1] = s.part[1]; /* shared full window, own last one */
        ok(fx_import(&f, 1, &mixed, 100, &e), &e);
    }
    free(source);
    free(restored);
    fx_state_free(&s);
    fx_state_free(&longer);
    fx_close(&f);
}

static void a_wrapped_window_pool_exports_the_window_in_order(void **state) {
    fx f, g;
    OPEN(f, state);
    fx_state s;
    sk_err e = {0};
    fx_feed(&f, 0, 1000); /* the pool has 512 window cells */
    fx_export(&f, 0, &s);
    fx_open_beside(&g, &f, v->o);
    ok(fx_import(&g, 1, &s, 1000, &e), &e);
    fx_assert_same_state(&f, 0, &g, 1);
    fx_feed(&g, 1, FX_SUFFIX);
    assert_int_equal(sk_context_seq_len(g.c, 1), 1000 + FX_SUFFIX);
    fx_state_free(&s);
    fx_close_context(&g);
    fx_close(&f);
}

/* ---- the mirror ---- */

static void the_mirror_follows_imports(void **state) {
    fx f;
    OPEN(f, state);
    const char *env = getenv("SKIPPY_TEST_SEED");
    uint32_t seed = env ? (uint32_t)strtoul(env, NULL, 10) : 7, x = seed;
    printf("seed %u\n", seed);
    bool cut = !f.caps.has_tail;
    fx_state s = {0};
    sk_err e = {0};
    for (int step = 0; step < 80; step++) {
        x = x * 1664525u + 1013904223u;
        uint32_t a = (x >> 8) % FX_SCRATCH, k = (x >> 20) % 60 + 2;
        if ((x >> 28) % 3 == 0) {
            sk_context_seq_clear(f.c, a);
        } else if ((x >> 28) % 3 == 1 && s.n) {
            sk_context_seq_clear(f.c, a);
            uint32_t n = cut ? s.part[s.n - 1].from + 1 + k % (s.n_tokens - s.part[s.n - 1].from) : s.n_tokens;
            int rc = fx_import(&f, a, &s, n, &e);
            if (rc != SKIPPY_E_FULL) ok(rc, &e);
            assert_int_equal(sk_context_seq_len(f.c, a), rc ? 0 : n);
        } else if (k + 2 < sk_context_cells_free(f.c)) {
            fx_feed(&f, a, k);
            if (k % 4 == 0) {
                fx_state_free(&s);
                fx_export(&f, a, &s);
            }
        }
        for (uint32_t q = 0; q < FX_SCRATCH; q++) fx_assert_mirror(&f, q);
    }
    fx_state_free(&s);
    fx_close(&f);
}

/* ---- whole exports only ---- */

static void without_a_layout_only_whole_exports_are_offered(void **state) {
    fx f;
    OPEN(f, state);
    sk_blob b;
    sk_err e = {0};
    fx_feed(&f, 0, 40);
    assert_true(f.caps.why[0] != 0);
    assert_int_equal(sk_state_export_kv(f.c, &f.caps, 0, FX_SCRATCH, 0, 10, &b, &e), SKIPPY_E_UNSUPPORTED);
    assert_null(b.data);
    assert_int_equal(sk_state_export_tail(f.c, &f.caps, 0, &b, &e), SKIPPY_E_UNSUPPORTED);
    ok(sk_state_export_whole(f.c, &f.caps, 0, &b, &e), &e);
    sk_state_part part = {SKIPPY_PART_KV, 0, 40, b.data, b.len};
    assert_int_equal(sk_state_import(f.c, &f.caps, 1, FX_SCRATCH, &part, 1, 40, &e), SKIPPY_E_CORRUPT);
    part.kind = SKIPPY_PART_OPAQUE;
    b.data[12] ^= 0xff; /* cell count: llama.cpp would not come back from a large one */
    b.data[15] ^= 0x7f;
    assert_int_equal(sk_state_import(f.c, &f.caps, 1, FX_SCRATCH, &part, 1, 40, &e), SKIPPY_E_CORRUPT);
    fx_assert_empty(&f, 1);
    sk_blob_free(&b);
    fx_close(&f);
}

static void an_unordered_sequence_is_not_exported_opaquely(void **state) {
    fx f;
    OPEN(f, state);
    sk_blob b;
    sk_err e = {0};
    fx_feed(&f, 3, 20);
    fx_feed(&f, 0, 30);
    sk_context_seq_clear(f.c, 3);
    fx_feed(&f, 0, 10);
    assert_int_equal(sk_state_export_whole(f.c, &f.caps, 0, &b, &e), SKIPPY_E_UNSUPPORTED);
    fx_close(&f);
}

/* ---- the self-check, wrong use ---- */

static void the_self_check_leaves_an_empty_context(void **state) {
    fx f;
    OPEN(f, state);
    sk_state_caps caps;
    sk_err e = {0};
    assert_int_equal(sk_context_cells_used(f.c), 0);
    for (uint32_t s = 0; s < FX_SEQS; s++) fx_assert_empty(&f, s);
    assert_int_equal(sk_state_selfcheck(f.c, 0, 0, 2, &caps, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_state_selfcheck(f.c, 0, 1, FX_SEQS, &caps, &e), SKIPPY_E_INVALID);
    fx_feed(&f, 1, 5);
    assert_int_equal(sk_state_selfcheck(f.c, 0, 1, 2, &caps, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_context_seq_len(f.c, 1), 5);
    fx_close(&f);
}

static void settings_that_change_the_bytes_change_the_layout(void **state) {
    fx f, g;
    OPEN(f, state);
    const fx_options others[] = {{.fa_off = true}, {.kv_type = "q8_0"}, {.opaque = true}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        fx_open_beside(&g, &f, others[i]);
        assert_memory_not_equal(&g.caps.layout, &f.caps.layout, sizeof g.caps.layout);
        fx_close_context(&g);
    }
    fx_close(&f);
}

static void wrong_ranges_and_sequences_are_refused(void **state) {
    fx f;
    OPEN(f, state);
    sk_blob b;
    sk_err e = {0};
    fx_feed(&f, 0, 40);
    fx_feed(&f, 1, 8);
    static const struct {
        uint32_t seq, scratch, from, to;
    } bad[] = {{0, FX_SCRATCH, 10, 10}, {0, FX_SCRATCH, 20, 10},      {0, FX_SCRATCH, 0, 41}, {2, FX_SCRATCH, 0, 1},
               {0, 0, 0, 10},           {FX_SEQS, FX_SCRATCH, 0, 10}, {0, FX_SEQS, 0, 10},    {0, 1, 0, 10}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int rc = sk_state_export_kv(f.c, &f.caps, bad[i].seq, bad[i].scratch, bad[i].from, bad[i].to, &b, &e);
        assert_int_equal(rc, SKIPPY_E_INVALID);
        assert_null(b.data);
    }
    assert_int_equal(sk_context_seq_len(f.c, 1), 8);
    if (!f.caps.has_tail)
        assert_int_equal(sk_state_export_tail(f.c, &f.caps, 0, &b, &e), SKIPPY_E_INVALID);
    else
        assert_int_equal(sk_state_export_tail(f.c, &f.caps, 3, &b, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_state_export_whole(f.c, &f.caps, 3, &b, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_state_export_whole(f.c, &f.caps, FX_SEQS, &b, &e), SKIPPY_E_INVALID);
    fx_close(&f);
}

static void a_lost_recurrent_state_shows_when_it_is_forced(void **state) {
    fx f;
    OPEN(f, state);
    fx_state s;
    sk_err e = {0};
    fx_feed(&f, 0, 100);
    fx_export(&f, 0, &s);
    s.n--; /* without the STATE part */
    assert_int_equal(fx_import(&f, 1, &s, 100, &e), SKIPPY_E_CORRUPT);
    fx_assert_empty(&f, 1);
    ok(sk_state_import_forced(f.c, &f.caps, 1, FX_SCRATCH, s.part, s.n, 100, &e), &e);
    assert_int_equal(sk_context_seq_len(f.c, 1), 100);
    float *source = fx_suffix(&f, 0), *wrong = fx_suffix(&f, 1);
    assert_memory_not_equal(source, wrong, (size_t)sk_model_get_info(f.m)->n_vocab * sizeof(float));
    free(source);
    free(wrong);
    s.n++;
    fx_state_free(&s);
    fx_close(&f);
}

static void a_missing_window_cannot_be_forced(void **state) {
    fx f;
    OPEN(f, state);
    fx_state s;
    sk_err e = {0};
    fx_feed(&f, 0, 100);
    fx_export(&f, 0, &s);
    int rc = sk_state_import_forced(f.c, &f.caps, 1, FX_SCRATCH, s.part, s.n - 1, 100, &e);
    assert_int_equal(rc, SKIPPY_E_CORRUPT);
    fx_assert_empty(&f, 1);
    ok(fx_import(&f, 1, &s, 100, &e), &e);
    fx_assert_same_state(&f, 0, &f, 1);
    fx_state_free(&s);
    fx_close(&f);
}

#define RUN(test, family_, ...)                                                                                        \
    {                                                                                                                  \
#test " " family_ " " #__VA_ARGS__, test, NULL, NULL, &(variant) {                                             \
            family_, {                                                                                                 \
                __VA_ARGS__                                                                                            \
            }                                                                                                          \
        }                                                                                                              \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        RUN(an_imported_state_continues_bit_for_bit, "llama", 0),
        RUN(an_imported_state_continues_bit_for_bit, "qwen3", .kv_type = "q8_0"),
        RUN(an_imported_state_continues_bit_for_bit, "llama", .fa_off = true),
        RUN(an_imported_state_continues_bit_for_bit, "gemma3", 0),
        RUN(an_imported_state_continues_bit_for_bit, "gemma3", .swa_full = true),
        RUN(an_imported_state_continues_bit_for_bit, "gemma3", .fa_off = true),
        RUN(an_imported_state_continues_bit_for_bit, "falcon-h1", 0),
        RUN(an_imported_state_continues_bit_for_bit, "falcon-h1", .fa_off = true),
        RUN(an_imported_state_continues_bit_for_bit, "qwen3next", 0),
        RUN(an_imported_state_continues_bit_for_bit, "lfm2", .kv_type = "q8_0"),
        RUN(an_imported_state_continues_bit_for_bit, "mamba2", 0),
        RUN(an_imported_state_continues_bit_for_bit, "rwkv7", 0),
        RUN(a_fresh_context_continues_bit_for_bit, "qwen3", 0),
        RUN(a_fresh_context_continues_bit_for_bit, "gemma3", 0),
        RUN(a_fresh_context_continues_bit_for_bit, "lfm2", 0),
        RUN(a_fresh_context_continues_bit_for_bit, "mamba2", 0),
        RUN(a_whole_export_restores_the_state, "llama", 0),
        RUN(a_whole_export_restores_the_state, "falcon-h1", 0),
        RUN(a_whole_export_restores_the_state, "gemma3", .swa_full = true),
        RUN(a_whole_export_restores_the_state, "llama", .opaque = true),
        RUN(a_whole_export_restores_the_state, "falcon-h1", .opaque = true),
        RUN(a_whole_export_restores_the_state, "gemma3", .opaque = true),
        RUN(a_whole_export_restores_the_state, "gemma3", .opaque = true, .swa_full = true),
        RUN(a_whole_export_restores_the_state, "rwkv7", .opaque = true),
        RUN(full_windows_keep_their_bytes_when_a_conversation_grows, "llama", 0),
        RUN(full_windows_keep_their_bytes_when_a_conversation_grows, "llama", .fa_off = true),
        RUN(full_windows_keep_their_bytes_when_a_conversation_grows, "gemma3", 0),
        RUN(full_windows_keep_their_bytes_when_a_conversation_grows, "gemma3", .swa_full = true),
        RUN(full_windows_keep_their_bytes_when_a_conversation_grows, "falcon-h1", 0),
        RUN(attention_state_restores_at_every_length, "llama", 0),
        RUN(attention_state_restores_at_every_length, "qwen3", .kv_type = "q8_0"),
        RUN(attention_state_restores_at_every_length, "gemma3", .swa_full = true),
        RUN(a_full_size_window_keeps_every_length_after_an_import, "gemma3", .swa_full = true),
        RUN(a_recorded_boundary_restores_after_the_lane_moved_on, "falcon-h1", 0),
        RUN(a_recorded_boundary_restores_after_the_lane_moved_on, "qwen3next", 0),
        RUN(a_recorded_boundary_restores_after_the_lane_moved_on, "gemma3", 0),
        RUN(a_recorded_boundary_restores_after_the_lane_moved_on, "mamba2", 0),
        RUN(a_wrapped_window_pool_exports_the_window_in_order, "gemma3", .n_ctx = 1280),
        RUN(the_mirror_follows_imports, "llama", 0),
        RUN(the_mirror_follows_imports, "falcon-h1", 0),
        RUN(the_mirror_follows_imports, "gemma3", .swa_full = true),
        RUN(the_mirror_follows_imports, "gemma3", 0),
        RUN(without_a_layout_only_whole_exports_are_offered, "llama", .opaque = true),
        RUN(an_unordered_sequence_is_not_exported_opaquely, "llama", .opaque = true),
        RUN(the_self_check_leaves_an_empty_context, "llama", 0),
        RUN(the_self_check_leaves_an_empty_context, "falcon-h1", .opaque = true),
        RUN(settings_that_change_the_bytes_change_the_layout, "llama", 0),
        RUN(wrong_ranges_and_sequences_are_refused, "llama", 0),
        RUN(wrong_ranges_and_sequences_are_refused, "falcon-h1", 0),
        RUN(a_lost_recurrent_state_shows_when_it_is_forced, "falcon-h1", 0),
        RUN(a_lost_recurrent_state_shows_when_it_is_forced, "lfm2", 0),
        RUN(a_missing_window_cannot_be_forced, "gemma3", 0),
    };
    return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}
