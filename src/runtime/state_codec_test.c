/* The reader of sequence blobs against blobs that are built here, byte by byte, as docs/formats/state.md draws them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/state_blob_maker.h"
#include "runtime/state_codec.h"
#include "runtime/state_join.h"

static const sk_state_shape DENSE = {0}, WINDOWED = {.window = true}, HYBRID = {.hybrid = true},
                            RECURRENT = {.recurrent = true};

/* ---- helpers ---- */

static void parse_ok(const sk_made_blob *b, const sk_state_shape *shape, sk_state_parse *p) {
    sk_err e = {0};
    if (sk_state_parse_blob(b->bytes, b->len, shape, p, &e)) fail_msg("%s", e.text);
}

static void parse_refused(const uint8_t *bytes, size_t len, const sk_state_shape *shape) {
    sk_state_parse p;
    sk_err e = {0};
    assert_int_equal(sk_state_parse_blob(bytes, len, shape, &p, &e), SKIPPY_E_CORRUPT);
    assert_true(e.text[0] != 0);
    assert_null(p.runs);
}

/* Every memory kind, with cells in and out of order. */
typedef struct kind {
    const char *name;
    sk_state_shape shape;
    sk_made made;
} kind;

static const kind KINDS[] = {
    {"dense", {0}, {.id = 3, .n_kv = 1, .cells = {5}, .has_v = true}},
    {"transposed", {0}, {.id = 3, .n_kv = 1, .cells = {5}, .has_v = true, .transposed = true}},
    {"mla", {0}, {.id = 0, .n_kv = 1, .cells = {4}}},
    {"m-rope hybrid",
     {.hybrid = true},
     {.id = 1, .n_kv = 1, .cells = {4}, .has_v = true, .ext = true, .rs = true, .rs_cells = 1}},
    {"window", {.window = true}, {.id = 2, .n_kv = 2, .cells = {6, 3}, .has_v = true}},
    {"window left out", {.window = true}, {.id = 0, .n_kv = 2, .cells = {6, 0}, .has_v = true}},
    {"hybrid", {.hybrid = true}, {.id = 7, .n_kv = 1, .cells = {3}, .has_v = true, .rs = true, .rs_cells = 1}},
    {"hybrid without state", {.hybrid = true}, {.id = 7, .n_kv = 1, .cells = {3}, .has_v = true, .rs = true}},
    {"lfm2",
     {.hybrid = true},
     {.id = 0, .n_kv = 1, .cells = {3}, .has_v = true, .rs = true, .rs_cells = 1, .no_s = true}},
    {"recurrent", {.recurrent = true}, {.id = 1, .rs = true, .rs_cells = 1}},
    {"partial hybrid", {.hybrid = true, .partial = true}, {.id = 1, .rs = true, .rs_cells = 1}},
    {"partial window", {.window = true, .partial = true}, {.id = 1, .n_kv = 1, .cells = {4}, .has_v = true}},
    {"hybrid with window",
     {.hybrid = true, .window = true, .partial = true},
     {.id = 1, .n_kv = 2, .cells = {4, 2}, .has_v = true, .rs = true, .rs_cells = 1}},
    {"mla, transposed", {0}, {.id = 0, .n_kv = 1, .cells = {4}, .transposed = true}},
    {"empty dense", {0}, {.id = 1, .n_kv = 1}},
};
enum { N_KINDS = sizeof KINDS / sizeof *KINDS };

/* ---- reading ---- */

static void every_memory_kind_is_read_completely(void **state) {
    (void)state;
    for (size_t i = 0; i < N_KINDS; i++) {
        const sk_made *m = &KINDS[i].made;
        sk_made_blob b = sk_make_blob(m);
        sk_state_parse p;
        parse_ok(&b, &KINDS[i].shape, &p);
        assert_int_equal(p.seq_id, m->id);
        assert_int_equal(p.n_sections, m->n_kv + m->rs);
        size_t end = SK_STATE_HEADER_BYTES;
        for (size_t s = 0; s < p.n_sections; s++) {
            assert_int_equal(p.section[s].kind, s < m->n_kv ? SK_SECTION_KV : SK_SECTION_RS);
            assert_int_equal(p.section[s].offset, end);
            end += p.section[s].bytes;
            assert_int_equal(p.section[s].n_cells, s < m->n_kv ? m->cells[s] : m->rs_cells);
            if (s < m->n_kv && m->cells[s]) {
                assert_int_equal(p.section[s].ext, m->ext);
                assert_int_equal(p.section[s].n_runs, m->has_v ? 2 * SK_MADE_LAYERS : SK_MADE_LAYERS);
            }
        }
        assert_int_equal(end, b.len);
        sk_state_parse_free(&p);
        sk_made_free(&b);
    }
}

static void runs_say_what_and_where_they_are(void **state) {
    (void)state;
    sk_made_blob b =
        sk_make_blob(&(sk_made){.n_kv = 1, .cells = {3}, .has_v = true, .transposed = true, .rs = true, .rs_cells = 1});
    sk_state_parse p;
    parse_ok(&b, &HYBRID, &p);
    assert_int_equal(p.n_runs, 2 * SK_MADE_LAYERS + 2 * SK_MADE_RS_LAYERS);
    const sk_state_run *k = &p.runs[0], *v = &p.runs[SK_MADE_LAYERS], *r = &p.runs[2 * SK_MADE_LAYERS],
                       *s = &p.runs[2 * SK_MADE_LAYERS + SK_MADE_RS_LAYERS];
    assert_int_equal(k->what, 'K');
    assert_int_equal(k->row_bytes, SK_MADE_ROW);
    assert_int_equal(k->bytes, 3 * SK_MADE_ROW);
    assert_int_equal(v->what, 'V');
    assert_true(v->transposed && !k->transposed);
    assert_int_equal(v->element_bytes * v->n_embd_v, SK_MADE_ROW);
    assert_int_equal(v->bytes, 3 * SK_MADE_ROW);
    assert_int_equal(r->what, 'R');
    assert_int_equal(s->what, 'S');
    assert_int_equal(s->offset + s->bytes + SK_STATE_RUN_HEADER_BYTES + s->bytes, b.len);
    sk_state_parse_free(&p);
    sk_made_free(&b);
}

static skippy_key digest(const sk_state_parse *p) {
    skippy_key key;
    sk_state_layout_digest(p, &key);
    return key;
}

/* Cut between two tensors a blob can look like one of a smaller model: then its layout says so. */
static void refused_or_other_layout(const uint8_t *bytes, size_t len, const kind *k, const skippy_key *layout) {
    sk_state_parse p;
    sk_err e = {0};
    int rc = sk_state_parse_blob(bytes, len, &k->shape, &p, &e);
    if (rc == SKIPPY_OK) {
        skippy_key other = digest(&p);
        if (memcmp(&other, layout, sizeof other) == 0) fail_msg("%s: %zu bytes were taken", k->name, len);
        sk_state_parse_free(&p);
    } else {
        assert_int_equal(rc, SKIPPY_E_CORRUPT);
        assert_true(e.text[0] != 0);
    }
}

static void no_truncation_or_extension_goes_unseen(void **state) {
    (void)state;
    for (size_t i = 0; i < N_KINDS; i++) {
        sk_made_blob b = sk_make_blob(&KINDS[i].made);
        sk_state_parse p;
        parse_ok(&b, &KINDS[i].shape, &p);
        skippy_key layout = digest(&p);
        sk_state_parse_free(&p);
        for (size_t n = 0; n < b.len; n++) {
            uint8_t *exact = malloc(n ? n : 1); /* so that a sanitizer sees a read beyond the end */
            assert_non_null(exact);
            memcpy(exact, b.bytes, n);
            refused_or_other_layout(exact, n, &KINDS[i], &layout);
            free(exact);
        }
        uint8_t *longer = calloc(1, b.len + 24);
        assert_non_null(longer);
        memcpy(longer, b.bytes, b.len);
        for (size_t more = 1; more <= 24; more++) refused_or_other_layout(longer, b.len + more, &KINDS[i], &layout);
        free(longer);
        sk_made_free(&b);
    }
}

static void huge_counts_are_refused_before_anything_is_allocated(void **state) {
    (void)state;
    static const uint32_t huge[] = {6, 0x7fffffff, 0x80000000, 0xffffffff, 0x15555556, 0x0aaaaaab};
    sk_made_blob b = sk_make_blob(&(sk_made){.n_kv = 1, .cells = {5}, .has_v = true});
    sk_state_parse p;
    parse_ok(&b, &DENSE, &p);
    size_t layers_at = p.section[0].cells_offset + p.section[0].n_cells * p.section[0].cell_bytes + 4;
    sk_state_parse_free(&p);
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        for (int field = 0; field < 2; field++) {
            size_t at = field ? layers_at : 12;
            uint32_t old = sk_made_get32(&b, at);
            sk_made_put32(&b, at, huge[i]);
            parse_refused(b.bytes, b.len, &DENSE);
            sk_made_put32(&b, at, old);
        }
    }
    sk_made_free(&b);
}

/* A damaged bit either cannot be read, or is in a field that the caller compares: the id, a position, the layout. Only
 * payload and extension bytes can change unseen; they are for the digest. */
static void a_flipped_bit_of_the_structure_does_not_go_unseen(void **state) {
    (void)state;
    for (size_t i = 0; i < N_KINDS; i++) {
        sk_made_blob b = sk_make_blob(&KINDS[i].made);
        sk_state_parse good;
        skippy_key layout;
        parse_ok(&b, &KINDS[i].shape, &good);
        sk_state_layout_digest(&good, &layout);
        bool *free_byte = sk_made_unchecked(&b, &good);
        for (size_t bit = 0; bit < 8 * b.len; bit++) {
            if (free_byte[bit / 8]) continue;
            sk_state_parse p;
            skippy_key other;
            b.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            if (sk_state_parse_blob(b.bytes, b.len, &KINDS[i].shape, &p, NULL) == SKIPPY_OK) {
                sk_state_layout_digest(&p, &other);
                bool seen = p.seq_id != good.seq_id || memcmp(&other, &layout, sizeof other) != 0 ||
                            !sk_made_same_positions(&b, &p, &KINDS[i].made);
                if (!seen) fail_msg("%s: bit %zu changed and nobody noticed", KINDS[i].name, bit);
                sk_state_parse_free(&p);
            }
            b.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        free(free_byte);
        sk_state_parse_free(&good);
        sk_made_free(&b);
    }
}

/* V rows that spell a recurrent section: with V it is [K][V] and the recurrent section behind it, without V it is [K]
 * and a recurrent section that begins at the V header. */
static void bytes_that_can_be_read_in_two_ways_are_refused(void **state) {
    (void)state;
    sk_made_blob b = sk_make_ambiguous_blob();
    sk_state_parse p;
    sk_err e = {0};
    assert_int_equal(sk_state_parse_blob(b.bytes, b.len, &HYBRID, &p, &e), SKIPPY_E_CORRUPT);
    assert_non_null(strstr(e.text, "2 ways"));
    sk_made_free(&b);
}

static void a_blob_of_another_kind_is_refused(void **state) {
    (void)state;
    const sk_state_shape *shapes[] = {&DENSE, &WINDOWED, &HYBRID, &RECURRENT};
    static const size_t of_kind[] = {0, 4, 6, 9}; /* rows of KINDS */
    for (size_t i = 0; i < 4; i++) {
        sk_made_blob b = sk_make_blob(&KINDS[of_kind[i]].made);
        for (size_t k = 0; k < 4; k++)
            if (k != i) parse_refused(b.bytes, b.len, shapes[k]);
        sk_made_free(&b);
    }
}

/* ---- canonical form ---- */

static void the_order_and_the_owner_of_cells_do_not_show(void **state) {
    (void)state;
    for (size_t i = 0; i < N_KINDS; i++) {
        sk_made plain = KINDS[i].made, mixed = plain;
        plain.id = 0;
        mixed.id = 5;
        mixed.shuffle = 11;
        sk_made_blob a = sk_make_blob(&plain), b = sk_make_blob(&mixed);
        sk_state_parse p;
        sk_err e = {0};
        assert_int_equal(a.len, b.len);
        if (plain.cells[0] > 1) assert_memory_not_equal(a.bytes + 8, b.bytes + 8, a.len - 8);
        parse_ok(&b, &KINDS[i].shape, &p);
        assert_int_equal(sk_state_canonicalise(b.bytes, b.len, &p, &e), SKIPPY_OK);
        assert_memory_equal(a.bytes, b.bytes, a.len);
        assert_int_equal(sk_state_canonicalise(b.bytes, b.len, &p, &e), SKIPPY_OK); /* again changes nothing */
        assert_memory_equal(a.bytes, b.bytes, a.len);
        sk_state_parse_free(&p);
        sk_made_free(&a);
        sk_made_free(&b);
    }
}

static void impossible_positions_have_no_canonical_form(void **state) {
    (void)state;
    static const uint32_t bad[][2] = {{1, 0}, {1, 4}, {3, 0xffffffff}, {0, 0x80000000}}; /* cell, its position */
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sk_made_blob b = sk_make_blob(&(sk_made){.n_kv = 1, .cells = {5}, .has_v = true});
        sk_state_parse p;
        sk_err e = {0};
        sk_made_put32(&b, 16 + 12 * (size_t)bad[i][0], bad[i][1]);
        parse_ok(&b, &DENSE, &p);
        assert_int_equal(sk_state_canonicalise(b.bytes, b.len, &p, &e), SKIPPY_E_CORRUPT);
        assert_true(e.text[0] != 0);
        sk_state_parse_free(&p);
        sk_made_free(&b);
    }
}

static void positions_are_compared_exactly(void **state) {
    (void)state;
    sk_made_blob b =
        sk_make_blob(&(sk_made){.n_kv = 1, .cells = {4}, .has_v = true, .first = 10, .rs = true, .rs_cells = 1});
    sk_state_parse p;
    parse_ok(&b, &HYBRID, &p);
    assert_true(sk_state_positions_are(b.bytes, &p, 0, 10, 14));
    assert_false(sk_state_positions_are(b.bytes, &p, 0, 10, 13));
    assert_false(sk_state_positions_are(b.bytes, &p, 0, 10, 15));
    assert_false(sk_state_positions_are(b.bytes, &p, 0, 9, 13));
    assert_false(sk_state_positions_are(b.bytes, &p, 0, 14, 10));
    assert_false(sk_state_positions_are(b.bytes, &p, 1, 13, 14)); /* not KV */
    assert_false(sk_state_positions_are(b.bytes, &p, 2, 0, 0));
    assert_int_equal(sk_state_position(b.bytes, &p, 0, 2), 12);
    assert_int_equal(sk_state_position(b.bytes, &p, 1, 0), 13);
    sk_state_parse_free(&p);
    sk_made_free(&b);
}

/* ---- layout ---- */

static skippy_key layout_of(const sk_made *m, const sk_state_shape *shape) {
    sk_made_blob b = sk_make_blob(m);
    sk_state_parse p;
    skippy_key key;
    parse_ok(&b, shape, &p);
    sk_state_layout_digest(&p, &key);
    sk_state_parse_free(&p);
    sk_made_free(&b);
    return key;
}

static void the_layout_digest_is_about_layout_only(void **state) {
    (void)state;
    const sk_made base = {.n_kv = 1, .cells = {4}, .has_v = true};
    skippy_key key = layout_of(&base, &DENSE);
    sk_made same = base;
    same.cells[0] = 9, same.id = 4, same.first = 100;
    skippy_key k = layout_of(&same, &DENSE);
    assert_memory_equal(&k, &key, sizeof k);
    sk_made other[5];
    for (size_t i = 0; i < 5; i++) other[i] = base;
    other[0].has_v = false;
    other[1].ext = true;
    other[2].transposed = true;
    other[3].type = 8;
    other[4].extra_row = 2;
    for (size_t i = 0; i < 5; i++) {
        k = layout_of(&other[i], &DENSE);
        if (memcmp(&k, &key, sizeof k) == 0) fail_msg("layout %zu has the digest of the first", i);
    }
    /* a recurrent section shows its layout also without a state */
    const sk_made with = {.rs = true, .rs_cells = 1}, without = {.rs = true};
    k = layout_of(&with, &RECURRENT), key = layout_of(&without, &RECURRENT);
    assert_memory_equal(&k, &key, sizeof k);
}

/* ---- cuts ---- */

static void cuts_ascend_and_separate_large_runs(void **state) {
    (void)state;
    sk_made_blob b = sk_make_blob(&(sk_made){.n_kv = 1, .cells = {300}, .has_v = true, .rs = true});
    sk_state_parse p;
    parse_ok(&b, &HYBRID, &p);
    size_t n = sk_state_cuts(b.bytes, b.len, &p, SK_STATE_CUT_ROWS, NULL, 0), cuts[128], last = 0;
    assert_true(n >= 3 && n <= 128); /* frame and K, V ... */
    assert_int_equal(sk_state_cuts(b.bytes, b.len, &p, SK_STATE_CUT_ROWS, cuts, 128), n);
    for (size_t i = 0; i < n; i++) {
        assert_true(cuts[i] - last >= SK_STATE_MIN_SPAN);
        last = cuts[i];
    }
    assert_int_equal(last, b.len);
    for (size_t i = 0; i < n; i++) { /* never inside a header or a row */
        for (size_t r = 0; r < p.n_runs; r++) {
            const sk_state_run *run = &p.runs[r];
            size_t from = run->offset - SK_STATE_RUN_HEADER_BYTES, to = run->offset + run->bytes;
            if (cuts[i] <= from || cuts[i] >= to) continue;
            assert_true(cuts[i] > run->offset);
            assert_int_equal((cuts[i] - run->offset) % (SK_STATE_CUT_ROWS * run->row_bytes), 0);
        }
    }
    sk_state_parse_free(&p);
    sk_made_free(&b);
    b = sk_make_blob(&(sk_made){.n_kv = 1, .cells = {2}, .has_v = true});
    parse_ok(&b, &DENSE, &p);
    assert_int_equal(sk_state_cuts(b.bytes, b.len, &p, SK_STATE_CUT_ROWS, cuts, 32),
                     1); /* too small for more than one block */
    assert_int_equal(cuts[0], b.len);
    sk_state_parse_free(&p);
    sk_made_free(&b);
}

/* ---- joining ---- */

static void joined_ranges_are_the_whole(void **state) {
    (void)state;
    for (int transposed = 0; transposed < 2; transposed++) {
        sk_made whole = {
            .n_kv = 2, .cells = {9, 9}, .has_v = true, .transposed = transposed, .rs = true, .rs_cells = 1};
        const sk_state_shape shape = {.window = true, .hybrid = true};
        static const uint32_t from[] = {0, 4, 5}, to[] = {4, 5, 9};
        sk_made_blob w = sk_make_blob(&whole), b[3];
        sk_state_parse p[3];
        sk_state_piece pieces[3];
        for (size_t i = 0; i < 3; i++) {
            sk_made m = whole;
            m.first = from[i];
            m.cells[0] = m.cells[1] = to[i] - from[i];
            b[i] = sk_make_blob(&m);
            parse_ok(&b[i], &shape, &p[i]);
            pieces[i] = (sk_state_piece){b[i].bytes, b[i].len, &p[i]};
        }
        uint8_t *out = NULL;
        size_t len = 0;
        sk_err e = {0};
        assert_int_equal(sk_state_join(pieces, 3, &out, &len, &e), SKIPPY_OK);
        assert_int_equal(len, w.len);
        assert_memory_equal(out, w.bytes, len);
        free(out);
        assert_int_equal(sk_state_join(pieces, 0, &out, &len, &e), SKIPPY_E_INVALID);
        sk_state_parse other;
        sk_made m = whole;
        m.type = 8;
        sk_made_blob o = sk_make_blob(&m);
        parse_ok(&o, &shape, &other);
        pieces[1] = (sk_state_piece){o.bytes, o.len, &other};
        assert_int_equal(sk_state_join(pieces, 3, &out, &len, &e), SKIPPY_E_CORRUPT);
        sk_state_parse_free(&other);
        sk_made_free(&o);
        for (size_t i = 0; i < 3; i++) {
            sk_state_parse_free(&p[i]);
            sk_made_free(&b[i]);
        }
        sk_made_free(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_memory_kind_is_read_completely),
        cmocka_unit_test(runs_say_what_and_where_they_are),
        cmocka_unit_test(no_truncation_or_extension_goes_unseen),
        cmocka_unit_test(huge_counts_are_refused_before_anything_is_allocated),
        cmocka_unit_test(a_flipped_bit_of_the_structure_does_not_go_unseen),
        cmocka_unit_test(bytes_that_can_be_read_in_two_ways_are_refused),
        cmocka_unit_test(a_blob_of_another_kind_is_refused),
        cmocka_unit_test(the_order_and_the_owner_of_cells_do_not_show),
        cmocka_unit_test(impossible_positions_have_no_canonical_form),
        cmocka_unit_test(positions_are_compared_exactly),
        cmocka_unit_test(the_layout_digest_is_about_layout_only),
        cmocka_unit_test(cuts_ascend_and_separate_large_runs),
        cmocka_unit_test(joined_ranges_are_the_whole),
    };
    return cmocka_run_group_tests_name("state codec", tests, NULL, NULL);
}
