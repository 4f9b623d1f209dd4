/* Hidden states that a stage keeps: what comes back is what was computed for exactly these tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/test_random.h"
#include "stage/kept.h"

enum { WIDTH = 3, MOST = 420, PIECE = SK_KEPT_PIECE, PIECE_BYTES = PIECE * WIDTH * 4 };

static const skippy_key ns_a = {{1}}, ns_b = {{2}};

/* ---- prompts and their rows ---- */

/* Prompts that share beginnings, as conversations do: each follows the one before it for a while. */
enum { PROMPTS = 4 };
static int32_t prompts[PROMPTS][MOST];
/* Rows depend on all tokens up to theirs, so that rows of other tokens are noticed. */
static float rows[PROMPTS][MOST][WIDTH];

static int fill_prompts(void **state) {
    (void)state;
    for (int p = 0; p < PROMPTS; p++) {
        uint32_t h = 17;
        for (int i = 0; i < MOST; i++) {
            prompts[p][i] = p && i < 90 + 60 * p ? prompts[p - 1][i] : p * 1000 + i;
            h = h * 31 + (uint32_t)prompts[p][i];
            for (int c = 0; c < WIDTH; c++) rows[p][i][c] = (float)(h % 65521) + (float)c / 4;
        }
    }
    return 0;
}

static void add(sk_kept *k, sk_kept_writer *w, int p, uint32_t pos, uint32_t n, bool end) {
    sk_kept_add(k, w, &ns_a, prompts[p], pos, n, rows[p][pos], end);
}

/* A whole prompt at once. */
static void keep(sk_kept *k, int p, uint32_t n) {
    sk_kept_writer w = {0};
    add(k, &w, p, 0, n, true);
    sk_kept_writer_free(&w);
}

static void expect_cover(sk_kept *k, int p, uint32_t n, uint32_t from, uint32_t to) {
    uint32_t f, t;
    sk_kept_cover(k, &ns_a, prompts[p], n, &f, &t);
    assert_int_equal(f, from);
    assert_int_equal(t, to);
}

/* Reads through a buffer of exactly this size, so that a sanitizer sees a row too many. */
static bool reads_right(sk_kept *k, int p, uint32_t n, uint32_t from, uint32_t to) {
    size_t bytes = (size_t)(to - from) * WIDTH * sizeof(float);
    float *out = malloc(bytes);
    assert_non_null(out);
    bool ok = sk_kept_read(k, &ns_a, prompts[p], n, from, to, out);
    if (ok) assert_memory_equal(out, rows[p][from], bytes);
    free(out);
    return ok;
}

static int open_large(void **state) {
    return sk_kept_open("1", 6, WIDTH, 1 << 20, (sk_kept **)state, NULL);
}

static int open_two_pieces(void **state) {
    return sk_kept_open("1", 6, WIDTH, 2 * PIECE_BYTES, (sk_kept **)state, NULL);
}

static int close_kept(void **state) {
    sk_kept_close(*state);
    return 0;
}

/* ---- examples ---- */

static void rows_of_a_prompt_come_back(void **state) {
    sk_kept *k = *state;
    keep(k, 0, 200);
    expect_cover(k, 0, 200, 0, 200);
    assert_true(reads_right(k, 0, 200, 0, 200));
    assert_true(reads_right(k, 0, 200, 199, 200));
    assert_true(reads_right(k, 0, 200, 63, 65));
    assert_true(reads_right(k, 0, 200, 64, 128));
    assert_true(reads_right(k, 0, 200, 70, 71));
}

static void chunks_of_any_size_make_the_same_pieces(void **state) {
    sk_kept *k = *state;
    sk_kept_writer w = {0};
    const uint32_t sizes[] = {1, 62, 2, 64, 70, 1};
    uint32_t pos = 0;
    for (size_t i = 0; i < 6; pos += sizes[i++]) add(k, &w, 0, pos, sizes[i], i == 5);
    sk_kept_writer_free(&w);
    assert_int_equal(pos, 200);
    expect_cover(k, 0, 200, 0, 200);
    assert_true(reads_right(k, 0, 200, 0, 200));
}

static void a_prompt_that_goes_on_keeps_whole_pieces_only(void **state) {
    sk_kept *k = *state;
    sk_kept_writer w = {0};
    add(k, &w, 0, 0, 100, false);
    expect_cover(k, 0, 100, 0, 64);
    assert_false(reads_right(k, 0, 100, 0, 65));
    sk_kept_writer_free(&w);
}

static void a_longer_prompt_finds_what_an_earlier_one_left(void **state) {
    sk_kept *k = *state;
    keep(k, 0, 100);
    expect_cover(k, 0, 300, 0, 100);
    assert_true(reads_right(k, 0, 300, 10, 100));
    assert_false(reads_right(k, 0, 300, 10, 101));
    expect_cover(k, 0, 99, 0, 64); /* a shorter one ends inside of the last piece, whose key it does not know */
}

static void other_tokens_and_other_namespaces_find_nothing(void **state) {
    sk_kept *k = *state;
    uint32_t from, to;
    float out[WIDTH];
    keep(k, 0, 400);
    expect_cover(k, 1, 400, 0, 128); /* shares 150 tokens */
    assert_true(reads_right(k, 1, 400, 0, 128));
    assert_false(reads_right(k, 1, 400, 0, 129));
    sk_kept_cover(k, &ns_b, prompts[0], 400, &from, &to);
    assert_int_equal(from, to);
    assert_false(sk_kept_read(k, &ns_b, prompts[0], 400, 0, 1, out));
}

static void after_a_restore_rows_are_kept_from_the_next_multiple(void **state) {
    sk_kept *k = *state;
    sk_kept_writer w = {0};
    add(k, &w, 0, 70, 10, false);
    add(k, &w, 0, 80, 50, false);
    add(k, &w, 0, 130, 70, true);
    sk_kept_writer_free(&w);
    expect_cover(k, 0, 200, 128, 200);
    assert_true(reads_right(k, 0, 200, 150, 200));
    assert_false(reads_right(k, 0, 200, 127, 200));
}

static void after_a_restore_a_held_part_is_gone_on_from(void **state) {
    sk_kept *k = *state;
    sk_kept_writer w = {0};
    keep(k, 0, 100);
    add(k, &w, 0, 100, 100, true);
    sk_kept_writer_free(&w);
    expect_cover(k, 0, 200, 0, 200);
    assert_true(reads_right(k, 0, 200, 0, 200));
    assert_true(reads_right(k, 0, 199, 90, 128)); /* the piece became whole */
}

static void a_writer_that_waits_for_a_multiple_looks_for_a_held_part_again(void **state) {
    sk_kept *k = *state;
    sk_kept_writer w = {0};
    keep(k, 0, 80);
    add(k, &w, 0, 70, 10, false); /* no prompt ended at 70 */
    add(k, &w, 0, 80, 20, true);
    sk_kept_writer_free(&w);
    expect_cover(k, 0, 100, 0, 100);
    assert_true(reads_right(k, 0, 100, 0, 100));
}

static void a_jump_within_a_prompt_mixes_no_rows(void **state) {
    sk_kept *k = *state;
    sk_kept_writer w = {0};
    add(k, &w, 0, 0, 90, false);
    add(k, &w, 0, 91, 100, true); /* row 90 is missing */
    sk_kept_writer_free(&w);
    expect_cover(k, 0, 191, 0, 64);
    assert_true(reads_right(k, 0, 191, 128, 191));
    assert_false(reads_right(k, 0, 191, 64, 65));
}

static void a_writer_starts_afresh_after_the_end(void **state) {
    sk_kept *k = *state;
    sk_kept_writer w = {0};
    add(k, &w, 3, 0, 300, true);
    add(k, &w, 0, 300, 100, true); /* another prompt that was restored to 300: rows 256 to 299 are the first one's */
    sk_kept_writer_free(&w);
    assert_false(reads_right(k, 0, 400, 256, 320));
    assert_true(reads_right(k, 0, 400, 320, 400));
}

static void of_two_runs_the_longer_one_counts(void **state) {
    sk_kept *k = *state;
    sk_kept_writer w = {0};
    keep(k, 0, 64);
    add(k, &w, 0, 128, 128, false);
    expect_cover(k, 0, 300, 128, 256);
    expect_cover(k, 0, 192, 0, 64); /* of equal ones the first */
    sk_kept_writer_free(&w);
}

static void a_look_is_no_use_and_a_read_is(void **state) {
    sk_kept *k = *state;
    skippy_activation_stats s;
    keep(k, 0, 64);
    sk_kept_writer w = {0};
    add(k, &w, 3, 128, 64, false);
    expect_cover(k, 0, 64, 0, 64);
    add(k, &w, 3, 192, 64, false);
    expect_cover(k, 0, 64, 0, 0); /* it was still the oldest */
    assert_true(reads_right(k, 3, 256, 128, 192));
    add(k, &w, 3, 256, 64, false);
    expect_cover(k, 3, 320, 128, 192);
    sk_kept_writer_free(&w);
    sk_kept_get_stats(k, &s);
    assert_int_equal(s.evictions, 2);
    assert_int_equal(s.bytes, 2 * PIECE_BYTES);
    assert_int_equal(s.hits, 1);
    assert_int_equal(s.misses, 0);
}

static void nothing_is_left_after_a_clear(void **state) {
    sk_kept *k = *state;
    skippy_activation_stats s;
    keep(k, 0, 200);
    sk_kept_clear(k);
    expect_cover(k, 0, 200, 0, 0);
    assert_false(reads_right(k, 0, 200, 0, 1));
    sk_kept_get_stats(k, &s);
    assert_int_equal(s.entries, 0);
    assert_int_equal(s.bytes, 0);
}

static void ranges_that_are_none_are_not_read(void **state) {
    sk_kept *k = *state;
    float out[WIDTH];
    keep(k, 0, 64);
    assert_false(sk_kept_read(k, &ns_a, prompts[0], 64, 5, 5, out));
    assert_false(sk_kept_read(k, &ns_a, prompts[0], 64, 6, 5, out));
    assert_false(sk_kept_read(k, &ns_a, prompts[0], 64, 63, 65, out));
    expect_cover(k, 0, 0, 0, 0);
    add(k, &(sk_kept_writer){0}, 0, 0, 0, true); /* no rows: nothing to keep, nothing to free */
}

static void without_bytes_nothing_is_kept(void **state) {
    (void)state;
    sk_kept *k;
    skippy_activation_stats s;
    sk_kept_writer w = {0};
    assert_int_equal(sk_kept_open("1", 0, WIDTH, 0, &k, NULL), SKIPPY_OK);
    add(k, &w, 0, 0, 200, true);
    assert_null(w.rows);
    expect_cover(k, 0, 200, 0, 0);
    assert_false(reads_right(k, 0, 200, 0, 1));
    sk_kept_clear(k);
    sk_kept_get_stats(k, &s);
    assert_int_equal(s.entries, 0);
    sk_kept_close(k);
    sk_kept_close(NULL);
}

static void names_that_do_not_fit_are_refused(void **state) {
    (void)state;
    sk_kept *k;
    sk_err e;
    char longest[65] = {0};
    memset(longest, '9', 64);
    assert_int_equal(sk_kept_open(longest, 0, WIDTH, 1, &k, &e), SKIPPY_E_INVALID);
    assert_null(k);
    assert_non_null(strstr(e.text, "9999"));
    assert_int_equal(sk_kept_open(NULL, 0, WIDTH, 1, &k, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_kept_open("1", 0, 0, 1, &k, &e), SKIPPY_E_INVALID);
    longest[63] = '\0';
    assert_int_equal(sk_kept_open(longest, UINT32_MAX, WIDTH, 1 << 20, &k, &e), SKIPPY_OK);
    keep(k, 0, 64);
    expect_cover(k, 0, 64, 0, 64);
    sk_kept_close(k);
}

/* ---- against a model ---- */

/* held[p][from / PIECE][length]: this piece of this prompt. */
typedef struct model {
    bool held[PROMPTS][MOST / PIECE + 1][PIECE + 1];
} model;

/* Tokens that prompt q has in common with prompt p. */
static uint32_t common(int p, int q) {
    uint32_t n = 0;
    while (n < MOST && prompts[p][n] == prompts[q][n]) n++;
    return n;
}

static void model_keep(model *m, int p, uint32_t from, uint32_t to) {
    for (int q = 0; q < PROMPTS; q++)
        if (common(p, q) >= to) m->held[q][from / PIECE][to - from] = true;
}

static bool model_has(const model *m, int p, uint32_t from, uint32_t to) {
    return m->held[p][from / PIECE][to - from];
}

/* Rows that the model's writer has seen without a gap: [from, to). */
typedef struct model_writer {
    uint32_t from, to;
} model_writer;

static void model_add(model *m, model_writer *w, int p, uint32_t pos, uint32_t n, bool end) {
    uint32_t part = pos % PIECE, to = pos + n;
    bool collects = (w->from + PIECE - 1) / PIECE * PIECE <= w->to; /* it waits for the next multiple otherwise */
    if (pos != w->to || !collects) w->from = part && model_has(m, p, pos - part, pos) ? pos - part : pos;
    uint32_t before = pos;
    w->to = to;
    for (uint32_t at = 0; at + PIECE <= to; at += PIECE)
        if (at >= w->from && at + PIECE > before) model_keep(m, p, at, at + PIECE);
    uint32_t last = to - to % PIECE;
    if (end && last >= w->from && last < to) model_keep(m, p, last, to);
    if (end) w->from = w->to = 0;
}

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static void model_cover(const model *m, int p, uint32_t n, uint32_t *from, uint32_t *to) {
    *from = *to = 0;
    for (uint32_t a = 0; a < n; a += PIECE) {
        uint32_t b = a;
        while (b < n && model_has(m, p, b, smaller(b + PIECE, n))) b = smaller(b + PIECE, n);
        if (b - a <= *to - *from) continue;
        *from = a;
        *to = b;
    }
    if (*to == n || *to % PIECE) return;
    uint32_t end = *to;
    for (uint32_t e = *to + 1; e <= smaller(*to + PIECE, n); e++)
        if (model_has(m, p, *to, e)) end = e;
    *to = end;
}

static bool model_reads(const model *m, int p, uint32_t n, uint32_t from, uint32_t to) {
    for (uint32_t at = from - from % PIECE; at < to; at += PIECE) {
        bool has = false;
        uint32_t least = smaller(at + PIECE, to);
        for (uint32_t e = least; e <= smaller(at + PIECE, n); e++) has = has || model_has(m, p, at, e);
        if (!has) return false;
    }
    return true;
}

/* A prompt computed from pos on, in chunks, sometimes left before its end. */
static void random_prompt(sk_kept *k, model *m, test_random *r) {
    sk_kept_writer w = {0};
    model_writer mw = {0};
    int p = (int)random_below(r, PROMPTS);
    uint32_t n = 1 + (uint32_t)random_below(r, MOST), pos = random_below(r, 2) ? 0 : (uint32_t)random_below(r, n);
    while (pos < n) {
        uint32_t chunk = smaller(n - pos, 1 + (uint32_t)random_below(r, 150));
        bool end = pos + chunk == n && random_below(r, 4) != 0;
        add(k, &w, p, pos, chunk, end);
        if (m) model_add(m, &mw, p, pos, chunk, end);
        pos += chunk + (random_below(r, 10) == 0 ? (uint32_t)random_below(r, 90) : 0);
    }
    sk_kept_writer_free(&w);
}

static void random_look(sk_kept *k, const model *m, test_random *r) {
    int p = (int)random_below(r, PROMPTS);
    uint32_t n = 1 + (uint32_t)random_below(r, MOST), from, to, want_from, want_to;
    model_cover(m, p, n, &want_from, &want_to);
    sk_kept_cover(k, &ns_a, prompts[p], n, &from, &to);
    assert_int_equal(from, want_from);
    assert_int_equal(to, want_to);
    from = (uint32_t)random_below(r, n);
    to = from + 1 + (uint32_t)random_below(r, n - from);
    assert_int_equal(reads_right(k, p, n, from, to), model_reads(m, p, n, from, to));
}

static void random_prompts_are_kept_as_the_model_says(void **state) {
    sk_kept *k = *state;
    model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    test_random r = random_start("kept");
    for (int i = 0; i < TEST_OPERATIONS / 500; i++) {
        if (random_below(&r, 40) == 0) {
            sk_kept_clear(k);
            memset(m, 0, sizeof *m);
        }
        if (random_below(&r, 3) == 0)
            random_prompt(k, m, &r);
        else
            random_look(k, m, &r);
    }
    free(m);
}

static void under_a_small_cap_what_is_covered_can_be_read(void **state) {
    (void)state;
    sk_kept *k;
    skippy_activation_stats s;
    assert_int_equal(sk_kept_open("1", 6, WIDTH, 7 * PIECE_BYTES + 100, &k, NULL), SKIPPY_OK);
    test_random r = random_start("kept under a cap");
    uint32_t covered = 0;
    for (int i = 0; i < TEST_OPERATIONS / 500; i++) {
        random_prompt(k, NULL, &r);
        int p = (int)random_below(&r, PROMPTS);
        uint32_t n = 1 + (uint32_t)random_below(&r, MOST), from, to;
        sk_kept_cover(k, &ns_a, prompts[p], n, &from, &to);
        if (to > from) {
            covered++;
            assert_true(reads_right(k, p, n, from, to));
        }
        sk_kept_get_stats(k, &s);
        assert_true(s.bytes <= 7 * PIECE_BYTES + 100);
        assert_int_equal(s.leased, 0);
    }
    assert_true(covered > 0);
    assert_true(s.evictions > 0);
    sk_kept_close(k);
}

#define KEPT(f) cmocka_unit_test_setup_teardown(f, open_large, close_kept)

int main(void) {
    const struct CMUnitTest tests[] = {
        KEPT(rows_of_a_prompt_come_back),
        KEPT(chunks_of_any_size_make_the_same_pieces),
        KEPT(a_prompt_that_goes_on_keeps_whole_pieces_only),
        KEPT(a_longer_prompt_finds_what_an_earlier_one_left),
        KEPT(other_tokens_and_other_namespaces_find_nothing),
        KEPT(after_a_restore_rows_are_kept_from_the_next_multiple),
        KEPT(after_a_restore_a_held_part_is_gone_on_from),
        KEPT(a_writer_that_waits_for_a_multiple_looks_for_a_held_part_again),
        KEPT(a_jump_within_a_prompt_mixes_no_rows),
        KEPT(a_writer_starts_afresh_after_the_end),
        KEPT(of_two_runs_the_longer_one_counts),
        cmocka_unit_test_setup_teardown(a_look_is_no_use_and_a_read_is, open_two_pieces, close_kept),
        KEPT(nothing_is_left_after_a_clear),
        KEPT(ranges_that_are_none_are_not_read),
        cmocka_unit_test(without_bytes_nothing_is_kept),
        cmocka_unit_test(names_that_do_not_fit_are_refused),
        KEPT(random_prompts_are_kept_as_the_model_says),
        cmocka_unit_test(under_a_small_cap_what_is_covered_can_be_read),
    };
    return cmocka_run_group_tests_name("kept", tests, fill_prompts, NULL);
}
