/* The self-check: learns the layout from a short live sequence and proves that state survives the way out and in. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/state_internal.h"
#include "runtime/state_join.h"
#include "skippy/payload.h"

/* Two full windows and a part of a third. The first cells of the pool are held by another sequence for a while, so that
 * the last tokens land below the first ones and the export is out of order. */
enum { WINDOW = 16, MAX_WINDOWS = 3, TOKENS = 36, TENANT = 8, BEFORE_HOLE = 20 };

typedef struct check {
    sk_context *c;
    uint32_t a, b, scratch, n; /* n tokens in a */
    sk_state_caps *caps;
    sk_blob window[MAX_WINDOWS], tail;
    size_t n_windows;
    uint8_t *whole; /* canonical export of a */
    size_t whole_len;
    sk_err *e;
} check;

static int differs(check *k, const char *what) {
    return sk_err_set(k->e, SKIPPY_E_CORRUPT, "%s", what);
}

/* ---- a sequence to look at ---- */

static int32_t token_at(const sk_model *m, uint32_t i) {
    int32_t n_vocab = sk_model_get_info(m)->n_vocab;
    for (uint32_t t = i * 7 + 3;; t++) {
        int32_t token = (int32_t)(t % (uint32_t)n_vocab);
        if (sk_model_valid_token(m, token)) return token;
    }
}

static int feed(check *k, uint32_t seq, uint32_t n) {
    sk_row rows[TOKENS];
    uint32_t max = k->c->info.n_batch < TOKENS ? k->c->info.n_batch : TOKENS;
    while (n > 0) {
        uint32_t at = sk_context_seq_len(k->c, seq), m = n < max ? n : max;
        for (uint32_t i = 0; i < m; i++)
            rows[i] = (sk_row){.token = token_at(k->c->model, at + i), .seq = seq, .output = i + 1 == m};
        int rc = sk_context_decode(k->c, rows, m, NULL, k->e);
        if (rc) return rc;
        n -= m;
    }
    return SKIPPY_OK;
}

static int make_disordered(check *k) {
    int rc = feed(k, k->b, TENANT);
    if (rc == SKIPPY_OK) rc = feed(k, k->a, BEFORE_HOLE < k->n ? BEFORE_HOLE : k->n);
    sk_context_seq_clear(k->c, k->b);
    if (rc == SKIPPY_OK && k->n > BEFORE_HOLE) rc = feed(k, k->a, k->n - BEFORE_HOLE);
    return rc;
}

static void release(check *k) {
    for (size_t i = 0; i < k->n_windows; i++) sk_blob_free(&k->window[i]);
    k->n_windows = 0;
    sk_blob_free(&k->tail);
    free(k->whole);
    k->whole = NULL;
    sk_context_seq_clear(k->c, k->a);
    sk_context_seq_clear(k->c, k->b);
    sk_context_seq_clear(k->c, k->scratch);
}

/* ---- windows and tail ---- */

static uint64_t part_bytes_per_token(const sk_state_parse *p) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < p->n_sections; i++) {
        const sk_state_section *s = &p->section[i];
        if (s->kind != SK_SECTION_KV || s->n_cells == 0) continue;
        bytes += s->cell_bytes;
        for (size_t r = 0; r < s->n_runs; r++) bytes += p->runs[s->first_run + r].row_bytes;
    }
    return bytes;
}

/* The whole canonical export, from llama.cpp directly. */
static int canonical(check *k, uint32_t seq, uint8_t **data, size_t *len, sk_state_parse *p) {
    sk_state_shape shape = sk_state_shape_of(k->c, false);
    *p = (sk_state_parse){0};
    int rc = sk_state_export_raw(k->c, seq, false, data, len, k->e);
    if (rc == SKIPPY_OK) rc = sk_state_parse_blob(*data, *len, &shape, p, k->e);
    if (rc == SKIPPY_OK) rc = sk_state_canonicalise(*data, *len, p, k->e);
    return rc;
}

static int learn_whole(check *k) {
    sk_state_parse p;
    int rc = canonical(k, k->a, &k->whole, &k->whole_len, &p);
    if (rc == SKIPPY_OK) sk_state_layout_of(k->c, &p, &k->caps->layout);
    sk_state_parse_free(&p);
    return rc;
}

static int learn_kv(check *k) {
    uint8_t *data = NULL;
    size_t len;
    sk_state_parse p;
    int rc = sk_state_cut_window(k->c, k->a, k->scratch, 0, k->n < WINDOW ? k->n : WINDOW, &data, &len, &p, k->e);
    if (rc) return rc;
    sk_state_layout_digest(&p, &k->caps->kv_part);
    k->caps->cell_bytes = part_bytes_per_token(&p);
    sk_state_parse_free(&p);
    free(data);
    return SKIPPY_OK;
}

static int learn_tail(check *k) {
    uint8_t *data = NULL;
    size_t len;
    sk_state_parse p;
    int rc = sk_state_cut_tail(k->c, k->a, &data, &len, &p, k->e);
    if (rc) return rc;
    if (p.n_sections != 1) rc = differs(k, "window and recurrent state cannot be told apart");
    sk_state_layout_digest(&p, &k->caps->state_part);
    k->caps->tail_bytes = len;
    if (p.section[0].kind == SK_SECTION_KV) { /* a window grows to its full width */
        uint64_t cell = part_bytes_per_token(&p);
        k->caps->tail_bytes += cell * (uint64_t)k->c->info.n_swa - cell * p.section[0].n_cells;
    }
    sk_state_parse_free(&p);
    free(data);
    return rc;
}

static int export_parts(check *k) {
    int rc = SKIPPY_OK;
    for (uint32_t at = 0; k->caps->has_kv && at < k->n && rc == SKIPPY_OK; at += WINDOW) {
        uint32_t to = at + WINDOW < k->n ? at + WINDOW : k->n;
        rc = sk_state_export_kv(k->c, k->caps, k->a, k->scratch, at, to, &k->window[k->n_windows], k->e);
        if (rc == SKIPPY_OK) k->n_windows++;
    }
    if (rc == SKIPPY_OK && k->caps->has_tail) rc = sk_state_export_tail(k->c, k->caps, k->a, &k->tail, k->e);
    return rc;
}

/* ---- joined, the parts are the whole ---- */

static int join_windows(check *k, uint8_t **out, size_t *len, size_t *base_end) {
    sk_state_shape shape = sk_state_shape_of(k->c, false);
    sk_state_parse parse[MAX_WINDOWS] = {{0}}, joined = {0};
    sk_state_piece piece[MAX_WINDOWS];
    int rc = SKIPPY_OK;
    for (size_t i = 0; i < k->n_windows && rc == SKIPPY_OK; i++) {
        rc = sk_state_parse_blob(k->window[i].data, k->window[i].len, &shape, &parse[i], k->e);
        piece[i] = (sk_state_piece){k->window[i].data, k->window[i].len, &parse[i]};
    }
    if (rc == SKIPPY_OK) rc = sk_state_join(piece, k->n_windows, out, len, k->e);
    if (rc == SKIPPY_OK) rc = sk_state_parse_blob(*out, *len, &shape, &joined, k->e);
    if (rc == SKIPPY_OK) *base_end = k->caps->has_tail ? joined.section[0].offset + joined.section[0].bytes : *len;
    sk_state_parse_free(&joined);
    for (size_t i = 0; i < MAX_WINDOWS; i++) sk_state_parse_free(&parse[i]);
    return rc;
}

static int compare_join(check *k) {
    uint8_t *joined = NULL;
    size_t len = 0, base = SK_STATE_HEADER_BYTES;
    int rc = k->n_windows ? join_windows(k, &joined, &len, &base) : SKIPPY_OK;
    if (rc) goto out;
    const uint8_t *front = joined ? joined : k->tail.data;
    size_t tail = k->caps->has_tail ? k->tail.len - SK_STATE_HEADER_BYTES : 0;
    if (base + tail != k->whole_len || memcmp(front, k->whole, base) != 0 ||
        (tail && memcmp(k->tail.data + SK_STATE_HEADER_BYTES, k->whole + base, tail) != 0))
        rc = differs(k, "the parts of an export, joined, are not the whole export");
out:
    free(joined);
    return rc;
}

/* ---- in and out again ---- */

static int compare_import(check *k) {
    sk_state_part parts[MAX_WINDOWS + 1];
    size_t n = 0;
    for (; n < k->n_windows; n++) {
        uint32_t from = (uint32_t)n * WINDOW, to = from + WINDOW < k->n ? from + WINDOW : k->n;
        parts[n] = (sk_state_part){SKIPPY_PART_KV, from, to, k->window[n].data, k->window[n].len};
    }
    if (k->caps->has_tail) parts[n++] = (sk_state_part){SKIPPY_PART_STATE, 0, k->n, k->tail.data, k->tail.len};
    uint8_t *again = NULL;
    size_t len = 0;
    sk_state_parse p = {0};
    int rc = sk_state_import(k->c, k->caps, k->b, k->scratch, parts, n, k->n, k->e);
    if (rc == SKIPPY_OK) rc = canonical(k, k->b, &again, &len, &p);
    if (rc == SKIPPY_OK && (len != k->whole_len || memcmp(again, k->whole, len) != 0))
        rc = differs(k, "an imported state does not export to the bytes that it came from");
    sk_state_parse_free(&p);
    free(again);
    return rc;
}

static int check_windows(check *k) {
    int rc = make_disordered(k);
    if (rc) return rc;
    rc = learn_whole(k);
    if (rc == SKIPPY_OK && k->caps->has_kv) rc = learn_kv(k);
    if (rc == SKIPPY_OK && k->caps->has_tail) rc = learn_tail(k);
    k->caps->windows = rc == SKIPPY_OK;
    if (rc == SKIPPY_OK) rc = export_parts(k);
    if (rc == SKIPPY_OK) rc = compare_join(k);
    if (rc == SKIPPY_OK) rc = compare_import(k);
    k->caps->windows = rc == SKIPPY_OK;
    return rc;
}

/* ---- whole exports of an unknown layout ---- */

static int measure_opaque(check *k, size_t whole) {
    uint8_t *data = NULL;
    size_t len = 0;
    int rc = k->caps->has_tail ? sk_state_export_raw(k->c, k->a, true, &data, &len, k->e) : SKIPPY_OK;
    free(data);
    k->caps->tail_bytes = len;
    k->caps->cell_bytes = k->caps->has_kv && whole > len ? (whole - len) / k->n : 0;
    sk_state_layout_opaque(k->c, k->caps, &k->caps->layout);
    return rc;
}

/* Out of a, into b, shared with a again: then the ids in the bytes are the same, and so must be all others. */
static int check_opaque(check *k) {
    sk_blob out = {0};
    uint8_t *again = NULL;
    size_t len = 0;
    k->caps->windows = false;
    int rc = feed(k, k->a, k->n);
    if (rc == SKIPPY_OK) rc = sk_state_export_whole(k->c, k->caps, k->a, &out, k->e);
    if (rc == SKIPPY_OK) rc = measure_opaque(k, out.len);
    if (rc) goto done;
    sk_context_seq_clear(k->c, k->a);
    sk_state_part part = {SKIPPY_PART_OPAQUE, 0, k->n, out.data, out.len};
    rc = sk_state_import(k->c, k->caps, k->b, k->scratch, &part, 1, k->n, k->e);
    if (rc == SKIPPY_OK) rc = sk_context_seq_copy(k->c, k->b, k->a, k->n, k->e);
    sk_context_seq_clear(k->c, k->b);
    if (rc == SKIPPY_OK) rc = sk_state_export_raw(k->c, k->a, false, &again, &len, k->e);
    if (rc == SKIPPY_OK && (len != out.len || memcmp(again + SK_STATE_HEADER_BYTES, out.data + SK_STATE_HEADER_BYTES,
                                                     len - SK_STATE_HEADER_BYTES) != 0))
        rc = differs(k, "an imported state does not export to the bytes that it came from");
done:
    free(again);
    sk_blob_free(&out);
    return rc;
}

/* ---- the self-check ---- */

/* Failures that say something about the layout; the others are about the machine. */
static bool about_layout(int rc) {
    return rc == SKIPPY_E_CORRUPT || rc == SKIPPY_E_RUNTIME || rc == SKIPPY_E_UNSUPPORTED || rc == SKIPPY_E_INVALID;
}

static int fall_back(check *k, const char *why) {
    snprintf(k->caps->why, sizeof k->caps->why, "%.250s", why);
    release(k);
    int rc = check_opaque(k);
    if (!about_layout(rc)) return rc;
    sk_err inner = *k->e;
    return sk_err_set(k->e, SKIPPY_E_UNSUPPORTED, "state cannot be moved: %.200s; and as a whole: %.200s", k->caps->why,
                      inner.text);
}

int sk_state_selfcheck_as(sk_context *c, uint32_t seq_a, uint32_t seq_b, uint32_t scratch, bool opaque,
                          sk_state_caps *caps, sk_err *e) {
    *caps = (sk_state_caps){0};
    sk_err local = {0};
    check k = {.c = c, .a = seq_a, .b = seq_b, .scratch = scratch, .n = TOKENS, .caps = caps, .e = e ? e : &local};
    if (seq_a == seq_b || seq_a == scratch || seq_b == scratch)
        return sk_err_set(e, SKIPPY_E_INVALID, "the self-check needs three different sequences");
    int rc = sk_state_require_empty(c, seq_a, e);
    if (rc == SKIPPY_OK) rc = sk_state_require_empty(c, seq_b, e);
    if (rc == SKIPPY_OK) rc = sk_state_require_empty(c, scratch, e);
    if (rc) return rc;
    int32_t n_swa = sk_model_get_info(c->model)->n_swa;
    /* a whole export of a full-size window cache is complete only up to the window */
    if (sk_state_full_window(c) && (uint32_t)n_swa < k.n) k.n = (uint32_t)n_swa;
    caps->has_kv = c->info.has_kv;
    caps->has_tail = c->info.recurrent || c->info.n_swa > 0;
    rc = opaque ? SKIPPY_E_CORRUPT : check_windows(&k);
    if (about_layout(rc)) rc = fall_back(&k, opaque ? "whole exports were asked for" : k.e->text);
    release(&k);
    return rc;
}

int sk_state_selfcheck(sk_context *c, uint32_t seq_a, uint32_t seq_b, uint32_t scratch, sk_state_caps *caps,
                       sk_err *e) {
    return sk_state_selfcheck_as(c, seq_a, seq_b, scratch, false, caps, e);
}
