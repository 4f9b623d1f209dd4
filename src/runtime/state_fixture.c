#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/state_bytes.h"
#include "runtime/state_fixture.h"
#include "runtime/test_models.h"

static void open_context(fx *f, fx_options o) {
    sk_context_params p = {.n_ctx = o.n_ctx ? o.n_ctx : 640,
                           .n_batch = FX_BATCH,
                           .n_ubatch = FX_BATCH,
                           .n_seq_max = FX_SEQS,
                           .n_threads = 1,
                           .n_threads_batch = 1,
                           .flash_attn = !o.fa_off,
                           .type_k = o.kv_type,
                           .type_v = o.kv_type,
                           .swa_full = o.swa_full};
    sk_err e = {0};
    if (sk_context_create(f->m, &p, &f->c, &e)) fail_msg("%s", e.text);
    if (sk_state_selfcheck_as(f->c, 0, 1, FX_SCRATCH, o.opaque, &f->caps, &e)) fail_msg("%s", e.text);
    if (f->caps.windows == o.opaque) fail_msg("windows %d: %s", f->caps.windows, f->caps.why);
}

bool fx_open(fx *f, const char *family, fx_options o) {
    const char *path = test_model_path(family);
    *f = (fx){0};
    if (!path) return false;
    sk_err e = {0};
    if (sk_model_load(&(sk_model_params){.path = path}, &f->m, &e)) fail_msg("%s", e.text);
    open_context(f, o);
    return true;
}

void fx_open_beside(fx *f, const fx *other, fx_options o) {
    *f = (fx){.m = other->m};
    open_context(f, o);
}

void fx_close_context(fx *f) {
    sk_context_free(f->c);
    f->c = NULL;
}

void fx_close(fx *f) {
    fx_close_context(f);
    sk_model_free(f->m);
}

void fx_feed(fx *f, uint32_t seq, uint32_t n) {
    sk_row rows[FX_BATCH];
    sk_err e = {0};
    while (n) {
        uint32_t at = sk_context_seq_len(f->c, seq), k = n < FX_BATCH ? n : FX_BATCH;
        if (n == FX_BATCH + 1) k = FX_BATCH - 1; /* a single row would be of another class */
        for (uint32_t i = 0; i < k; i++)
            rows[i] = (sk_row){.token = (int32_t)((at + i) * 7 % 200 + 5), .seq = seq, .output = i == k - 1};
        if (sk_context_decode(f->c, rows, k, NULL, &e)) fail_msg("%s", e.text);
        n -= k;
    }
}

float *fx_suffix(fx *f, uint32_t seq) {
    size_t bytes = (size_t)sk_model_get_info(f->m)->n_vocab * sizeof(float);
    fx_feed(f, seq, FX_SUFFIX);
    const float *row = sk_context_logits(f->c, FX_SUFFIX - 1);
    float *copy = malloc(bytes);
    assert_non_null(row);
    assert_non_null(copy);
    memcpy(copy, row, bytes);
    return copy;
}

void fx_assert_same_logits(const fx *f, const float *a, const float *b) {
    assert_memory_equal(a, b, (size_t)sk_model_get_info(f->m)->n_vocab * sizeof(float));
}

void fx_export(fx *f, uint32_t seq, fx_state *s) {
    sk_err e = {0};
    *s = (fx_state){.n_tokens = sk_context_seq_len(f->c, seq)};
    for (uint32_t at = 0; f->caps.has_kv && at < s->n_tokens; at += FX_WINDOW, s->n++) {
        uint32_t to = at + FX_WINDOW < s->n_tokens ? at + FX_WINDOW : s->n_tokens;
        sk_blob *b = &s->blob[s->n];
        assert_true(s->n + 2 < FX_MAX_PARTS);
        if (sk_state_export_kv(f->c, &f->caps, seq, FX_SCRATCH, at, to, b, &e)) fail_msg("%s", e.text);
        s->part[s->n] = (sk_state_part){SKIPPY_PART_KV, at, to, b->data, b->len};
    }
    if (f->caps.has_tail) {
        sk_blob *b = &s->blob[s->n];
        if (sk_state_export_tail(f->c, &f->caps, seq, b, &e)) fail_msg("%s", e.text);
        s->part[s->n++] = (sk_state_part){SKIPPY_PART_STATE, 0, s->n_tokens, b->data, b->len};
    }
    fx_assert_empty(f, FX_SCRATCH);
}

int fx_import(fx *f, uint32_t dst, const fx_state *s, uint32_t n_tokens, sk_err *e) {
    return sk_state_import(f->c, &f->caps, dst, FX_SCRATCH, s->part, s->n, n_tokens, e);
}

void fx_state_free(fx_state *s) {
    for (size_t i = 0; i < s->n; i++) sk_blob_free(&s->blob[i]);
    s->n = 0;
}

void fx_assert_same_state(fx *a, uint32_t seq_a, fx *b, uint32_t seq_b) {
    sk_blob x, y;
    sk_err e = {0};
    if (sk_state_export_whole(a->c, &a->caps, seq_a, &x, &e)) fail_msg("%s", e.text);
    if (sk_state_export_whole(b->c, &b->caps, seq_b, &y, &e)) fail_msg("%s", e.text);
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    sk_blob_free(&x);
    sk_blob_free(&y);
}

void fx_assert_empty(const fx *f, uint32_t seq) {
    sk_err e = {0};
    if (sk_state_require_empty(f->c, seq, &e)) fail_msg("%s", e.text);
}

void fx_assert_mirror(fx *f, uint32_t seq) {
    uint8_t *blob = NULL;
    size_t len = 0;
    sk_err e = {0};
    sk_state_parse p;
    sk_state_shape shape = sk_state_shape_of(f->c, false);
    if (!f->caps.has_kv || sk_context_seq_len(f->c, seq) == 0) return;
    if (sk_context_seq_export(f->c, seq, &blob, &len, &e)) fail_msg("%s", e.text);
    if (sk_state_parse_blob(blob, len, &shape, &p, &e)) fail_msg("%s", e.text);
    uint32_t last = 0;
    for (uint32_t i = 0; i < p.section[0].n_cells; i++) {
        uint32_t position = (uint32_t)sk_state_position(blob, &p, 0, i), cell = sk_context_cell(f->c, seq, position);
        if (i && cell < last) fail_msg("position %u comes after cell %u, the mirror says %u", position, last, cell);
        last = cell;
    }
    sk_state_parse_free(&p);
    free(blob);
}
