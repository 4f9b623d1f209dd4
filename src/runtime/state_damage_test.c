/* Parts that are damaged, foreign, missing or out of order must not reach llama.cpp: an error in words, an empty
 * target, and a good import afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/state_bytes.h"
#include "runtime/state_fixture.h"

enum { N = 2 * FX_WINDOW + 8 };

typedef struct variant {
    const char *family;
    fx_options o;
} variant;

#define OPEN(f, state)                                                                                                 \
    const variant *v = *(state);                                                                                       \
    if (!fx_open(&(f), v->family, v->o)) skip()

static void expect_refused(fx *f, const fx_state *s, uint32_t n_tokens, int code) {
    sk_err e = {0};
    int rc = fx_import(f, 1, s, n_tokens, &e);
    if (rc != code) fail_msg("status %d (%s) instead of %d", rc, e.text, code);
    assert_true(e.text[0] != 0);
    fx_assert_empty(f, 1);
    fx_assert_empty(f, FX_SCRATCH);
}

static void expect_good(fx *f, const fx_state *s) {
    sk_err e = {0};
    if (fx_import(f, 1, s, s->n_tokens, &e)) fail_msg("%s", e.text);
    fx_assert_same_state(f, 0, f, 1);
    sk_context_seq_clear(f->c, 1);
}

/* Bytes of a part that are not payload (K, V, R, S) and not the 12-byte extension: what structure can vouch for. */
static bool *metadata_of(fx *f, const fx_state *s, size_t part) {
    sk_state_parse p;
    sk_err e = {0};
    const sk_state_part *t = &s->part[part];
    sk_state_shape shape = sk_state_shape_of(f->c, t->kind == SKIPPY_PART_STATE);
    bool *meta = malloc(t->len);
    assert_non_null(meta);
    memset(meta, true, t->len);
    if (sk_state_parse_blob(t->data, t->len, &shape, &p, &e)) fail_msg("%s", e.text);
    for (size_t i = 0; i < p.n_runs; i++)
        if (p.runs[i].bytes) memset(meta + p.runs[i].offset, false, p.runs[i].bytes);
    sk_state_parse_free(&p);
    return meta;
}

static void every_flipped_bit_of_the_structure_is_refused(void **state) {
    fx f;
    OPEN(f, state);
    fx_state s;
    fx_feed(&f, 0, N);
    fx_export(&f, 0, &s);
    for (size_t part = 0; part < s.n; part++) {
        if (part == 1) continue; /* like part 0 */
        bool *meta = metadata_of(&f, &s, part);
        uint8_t *data = s.blob[part].data;
        for (size_t i = 0; i < s.part[part].len; i++) {
            for (int bit = 0; meta[i] && bit < 8; bit++) {
                data[i] ^= (uint8_t)(1 << bit);
                expect_refused(&f, &s, N, SKIPPY_E_CORRUPT);
                data[i] ^= (uint8_t)(1 << bit);
            }
        }
        free(meta);
    }
    expect_good(&f, &s);
    fx_state_free(&s);
    fx_close(&f);
}

static void every_truncation_is_refused(void **state) {
    fx f;
    OPEN(f, state);
    fx_state s;
    fx_feed(&f, 0, N);
    fx_export(&f, 0, &s);
    for (size_t part = 0; part < s.n; part++) {
        size_t len = s.part[part].len, step = len / 1500 + 1;
        for (size_t n = 0; n < len; n += n < 200 || n + 200 > len ? 1 : step) {
            s.part[part].len = n;
            expect_refused(&f, &s, N, SKIPPY_E_CORRUPT);
        }
        s.part[part].len = len;
    }
    uint8_t *longer = calloc(1, s.part[0].len + 1); /* trailing bytes */
    assert_non_null(longer);
    memcpy(longer, s.part[0].data, s.part[0].len);
    s.part[0].data = longer;
    s.part[0].len++;
    expect_refused(&f, &s, N, SKIPPY_E_CORRUPT);
    s.part[0].data = s.blob[0].data;
    s.part[0].len--;
    free(longer);
    expect_good(&f, &s);
    fx_state_free(&s);
    fx_close(&f);
}

static void wrong_lists_of_parts_are_refused(void **state) {
    fx f;
    OPEN(f, state);
    fx_state s, t;
    fx_feed(&f, 0, N);
    fx_export(&f, 0, &s);
    bool tail = f.caps.has_tail;
    t = s, t.n = 0; /* nothing */
    expect_refused(&f, &t, N, SKIPPY_E_CORRUPT);
    expect_refused(&f, &s, 0, SKIPPY_E_CORRUPT);
    expect_refused(&f, &s, N + 1, SKIPPY_E_CORRUPT); /* shorter than asked for */
    t = s, t.part[s.n] = s.part[s.n - 1], t.n++;     /* one twice */
    expect_refused(&f, &t, N, SKIPPY_E_CORRUPT);
    t = s, t.part[0].kind = SKIPPY_PART_LOGITS;
    expect_refused(&f, &t, N, SKIPPY_E_CORRUPT);
    t = s, t.part[0].data = NULL;
    expect_refused(&f, &t, N, SKIPPY_E_CORRUPT);
    if (f.caps.has_kv) { /* (the STATE part of a recurrent model is its whole export) */
        t = s, t.part[s.n - 1].kind = SKIPPY_PART_OPAQUE;
        expect_refused(&f, &t, N, SKIPPY_E_CORRUPT);
        t = s, t.n = 1, t.part[0].kind = SKIPPY_PART_OPAQUE, t.part[0].to = N;
        expect_refused(&f, &t, N, SKIPPY_E_CORRUPT);
        t = s, t.part[0] = s.part[1], t.part[1] = s.part[0]; /* order */
        expect_refused(&f, &t, N, SKIPPY_E_CORRUPT);
        t = s, t.part[0].data = s.part[1].data, t.part[0].len = s.part[1].len; /* bytes of another range */
        expect_refused(&f, &t, N, SKIPPY_E_CORRUPT);
        t = s, memmove(t.part, t.part + 1, (s.n - 1) * sizeof *t.part), t.n--; /* the first one missing */
        expect_refused(&f, &t, N, SKIPPY_E_CORRUPT);
        t = s, memmove(t.part + 1, t.part + 2, (s.n - 2) * sizeof *t.part), t.n--; /* a gap */
        expect_refused(&f, &t, N, SKIPPY_E_CORRUPT);
        expect_refused(&f, &s, FX_WINDOW, SKIPPY_E_CORRUPT); /* surplus windows, or a tail of another position */
    }
    if (tail) {
        t = s, t.n--; /* STATE missing */
        expect_refused(&f, &t, N, SKIPPY_E_CORRUPT);
        t = s, t.part[0] = s.part[s.n - 1], t.part[s.n - 1] = s.part[0]; /* STATE first */
        if (f.caps.has_kv) expect_refused(&f, &t, N, SKIPPY_E_CORRUPT);
    }
    expect_good(&f, &s);
    fx_state_free(&s);
    fx_close(&f);
}

static void a_tail_of_another_position_is_refused(void **state) {
    fx f;
    OPEN(f, state);
    fx_state s, later;
    fx_feed(&f, 0, N);
    fx_export(&f, 0, &s);
    fx_feed(&f, 0, 20);
    fx_export(&f, 0, &later);
    fx_state t = s;
    t.part[s.n - 1].data = later.part[later.n - 1].data;
    t.part[s.n - 1].len = later.part[later.n - 1].len;
    expect_refused(&f, &t, N, SKIPPY_E_CORRUPT);
    expect_good(&f, &later);
    fx_state_free(&s);
    fx_state_free(&later);
    fx_close(&f);
}

/* The state of f where g's layout is expected. */
static void expect_foreign(fx *f, fx *g) {
    fx_state s, own;
    fx_feed(f, 0, N);
    fx_export(f, 0, &s);
    expect_refused(g, &s, N, SKIPPY_E_CORRUPT);
    fx_feed(g, 0, N);
    fx_export(g, 0, &own);
    expect_good(g, &own);
    fx_state_free(&s);
    fx_state_free(&own);
    sk_context_seq_clear(f->c, 0);
}

static void state_of_another_model_is_refused(void **state) {
    static const char *const pairs[][2] = {{"llama", "qwen3"},
                                           {"llama", "gemma3"},
                                           {"falcon-h1", "qwen3next"},
                                           {"mamba2", "rwkv7"},
                                           {"llama", "falcon-h1"}};
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        fx f, g;
        if (!fx_open(&f, pairs[i][0], (fx_options){0})) skip();
        if (!fx_open(&g, pairs[i][1], (fx_options){0})) skip();
        expect_foreign(&f, &g);
        sk_context_seq_clear(g.c, 0);
        expect_foreign(&g, &f);
        fx_close(&f);
        fx_close(&g);
    }
}

static void state_of_other_settings_is_refused(void **state) {
    fx f, g;
    OPEN(f, state);
    const fx_options others[] = {{.fa_off = true}, {.kv_type = "q8_0"}, {.kv_type = "bf16"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        fx_open_beside(&g, &f, others[i]);
        expect_foreign(&f, &g);
        sk_context_seq_clear(g.c, 0);
        expect_foreign(&g, &f);
        fx_close_context(&g);
    }
    fx_close(&f);
}

static void a_window_layout_is_not_a_full_size_one(void **state) {
    fx f, g;
    OPEN(f, state);
    fx_open_beside(&g, &f, (fx_options){.swa_full = !v->o.swa_full});
    expect_foreign(&f, &g);
    sk_context_seq_clear(g.c, 0);
    expect_foreign(&g, &f);
    fx_close_context(&g);
    fx_close(&f);
}

static void a_full_pool_refuses_and_takes_the_state_later(void **state) {
    fx f;
    OPEN(f, state);
    fx_state s;
    fx_feed(&f, 0, N);
    fx_export(&f, 0, &s);
    fx_feed(&f, 2, sk_context_cells_free(f.c) - N / 2);
    expect_refused(&f, &s, N, SKIPPY_E_FULL);
    sk_context_seq_clear(f.c, 2);
    expect_good(&f, &s);
    fx_assert_mirror(&f, 0);
    fx_state_free(&s);
    fx_close(&f);
}

static void a_window_pool_without_room_refuses_and_takes_the_state_later(void **state) {
    fx f;
    OPEN(f, state);
    fx_state s;
    sk_err e = {0};
    fx_feed(&f, 0, N);
    fx_export(&f, 0, &s);
    fx_feed(&f, 2, 440); /* a copy pins every cell of the pool, in and out of the window */
    if (sk_context_seq_copy(f.c, 2, 3, 440, &e)) fail_msg("%s", e.text);
    expect_refused(&f, &s, N, SKIPPY_E_FULL);
    sk_context_seq_clear(f.c, 2);
    sk_context_seq_clear(f.c, 3);
    expect_good(&f, &s);
    fx_feed(&f, 4, 50);
    fx_assert_mirror(&f, 4);
    fx_state_free(&s);
    fx_close(&f);
}

static void wrong_targets_are_refused_and_left_alone(void **state) {
    fx f;
    OPEN(f, state);
    fx_state s;
    sk_err e = {0};
    fx_feed(&f, 0, N);
    fx_export(&f, 0, &s);
    fx_feed(&f, 2, 10);
    assert_int_equal(fx_import(&f, 2, &s, N, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_context_seq_len(f.c, 2), 10);
    assert_int_equal(sk_state_import(f.c, &f.caps, 1, 2, s.part, s.n, N, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_context_seq_len(f.c, 2), 10);
    assert_int_equal(sk_state_import(f.c, &f.caps, 1, 1, s.part, s.n, N, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_state_import(f.c, &f.caps, FX_SEQS, FX_SCRATCH, s.part, s.n, N, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_state_import(f.c, &f.caps, 1, FX_SEQS, s.part, s.n, N, &e), SKIPPY_E_INVALID);
    expect_good(&f, &s);
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
        RUN(every_flipped_bit_of_the_structure_is_refused, "llama", 0),
        RUN(every_flipped_bit_of_the_structure_is_refused, "llama", .fa_off = true),
        RUN(every_flipped_bit_of_the_structure_is_refused, "gemma3", 0),
        RUN(every_flipped_bit_of_the_structure_is_refused, "falcon-h1", 0),
        RUN(every_flipped_bit_of_the_structure_is_refused, "mamba2", 0),
        RUN(every_truncation_is_refused, "llama", 0),
        RUN(every_truncation_is_refused, "gemma3", 0),
        RUN(every_truncation_is_refused, "gemma3", .swa_full = true),
        RUN(every_truncation_is_refused, "falcon-h1", 0),
        RUN(every_truncation_is_refused, "mamba2", 0),
        RUN(wrong_lists_of_parts_are_refused, "llama", 0),
        RUN(wrong_lists_of_parts_are_refused, "gemma3", 0),
        RUN(wrong_lists_of_parts_are_refused, "falcon-h1", 0),
        RUN(wrong_lists_of_parts_are_refused, "mamba2", 0),
        RUN(a_tail_of_another_position_is_refused, "gemma3", 0),
        RUN(a_tail_of_another_position_is_refused, "falcon-h1", 0),
        RUN(a_tail_of_another_position_is_refused, "rwkv7", 0),
        cmocka_unit_test(state_of_another_model_is_refused),
        RUN(state_of_other_settings_is_refused, "llama", 0),
        RUN(state_of_other_settings_is_refused, "falcon-h1", 0),
        RUN(a_window_layout_is_not_a_full_size_one, "gemma3", 0),
        RUN(a_full_pool_refuses_and_takes_the_state_later, "llama", 0),
        RUN(a_full_pool_refuses_and_takes_the_state_later, "falcon-h1", 0),
        RUN(a_full_pool_refuses_and_takes_the_state_later, "gemma3", .swa_full = true),
        RUN(a_window_pool_without_room_refuses_and_takes_the_state_later, "gemma3", 0),
        RUN(wrong_targets_are_refused_and_left_alone, "llama", 0),
        RUN(wrong_targets_are_refused_and_left_alone, "falcon-h1", 0),
    };
    return cmocka_run_group_tests_name("state damage", tests, NULL, NULL);
}
