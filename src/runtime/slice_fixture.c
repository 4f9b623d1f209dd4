#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <gguf.h>

#include "base/test_folder.h"
#include "runtime/slice_fixture.h"
#include "runtime/stage_context.h"
#include "runtime/synth.h"
#include "runtime/test_gguf.h"

static char folder[256];

int sx_setup(void **state) {
    (void)state;
    return gg_temp_dir(folder, sizeof folder) ? 0 : -1;
}

int sx_teardown(void **state) {
    (void)state;
    return test_remove_tree(folder);
}

const char *sx_dir(void) {
    return folder;
}

/* A model of the build's test models, without the words of test_model_path: this one can be made. */
static bool built(const char *family, char *path, size_t cap) {
    const char *dir = getenv("SKIPPY_TEST_MODELS"), *build = getenv("SKIPPY_BUILD_DIR");
    if (!dir && !build) return false;
    snprintf(path, cap, "%s%s/%s.gguf", dir ? dir : build, dir ? "" : "/tests/models", family);
    return access(path, R_OK) == 0;
}

bool sx_model(const char *family, char *path, size_t cap) {
    char name[64];
    sk_synth_params p = {.family = name, .out = path, .seed = 1};
    sk_err e = {0};
    if (built(family, path, cap)) return true;
    snprintf(path, cap, "%s/%s.gguf", folder, family);
    if (access(path, R_OK) == 0) return true;
    snprintf(name, sizeof name, "%s", family);
    char *quant = strchr(name, '+');
    if (quant) {
        *quant = '\0';
        assert_true(sk_synth_quant_parse(quant + 1, &p.quant));
    }
    if (sk_synth_write(&p, NULL, &e) == SKIPPY_OK) return true;
    print_message("skipped: %s\n", e.text);
    return false;
}

bool sx_source(const char *family, sk_tensor_source *s) {
    char path[1024];
    sk_err e = {0};
    if (!sx_model(family, path, sizeof path)) return false;
    if (sk_tensor_source_open_gguf(path, NULL, NULL, NULL, s, &e)) fail_msg("%s: %s", family, e.text);
    return true;
}

void sx_set(sk_tensor_source *s, const char *key, uint32_t value) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s", s->arch, key);
    gguf_set_val_u32(s->meta, full, value);
}

static void open_stage(sx_chain *ch, const char *path) {
    sk_context_params p = {.n_ctx = 512,
                           .n_batch = SX_BATCH,
                           .n_ubatch = SX_UBATCH,
                           .n_seq_max = SX_SEQS,
                           .n_outputs = SX_SEQS,
                           .n_threads = 1,
                           .n_threads_batch = 1,
                           .flash_attn = 1};
    sk_err e = {0};
    if (sk_model_load(&(sk_model_params){.path = path}, &ch->m[ch->n], &e)) fail_msg("%s", e.text);
    if (sk_context_create(ch->m[ch->n], &p, &ch->c[ch->n], &e)) fail_msg("%s", e.text);
    ch->n_vocab = sk_model_get_info(ch->m[ch->n])->n_vocab;
    ch->n++;
}

void sx_chain_whole(sx_chain *ch, const char *path) {
    *ch = (sx_chain){0};
    open_stage(ch, path);
}

void sx_chain_cut(sx_chain *ch, sk_tensor_source *s, const int32_t *cuts, size_t n_stages) {
    *ch = (sx_chain){0};
    for (size_t i = 0; i < n_stages; i++) {
        sk_layer_range r = {cuts[i], cuts[i + 1]};
        sk_err e = {0};
        snprintf(ch->path[i], sizeof ch->path[i], "%s/stage-%d-%d.gguf", folder, r.start, r.end);
        if (sk_slice_write(s, r, ch->path[i], NULL, NULL, &e)) fail_msg("%s", e.text);
        open_stage(ch, ch->path[i]);
    }
}

void sx_chain_check(sx_chain *ch) {
    sk_err e = {0};
    for (size_t i = 0; i < ch->n; i++)
        if (sk_state_selfcheck(ch->c[i], 0, 1, SX_SCRATCH, &ch->caps[i], &e)) fail_msg("stage %zu: %s", i, e.text);
}

void sx_chain_close(sx_chain *ch) {
    for (size_t i = 0; i < ch->n; i++) {
        sk_context_free(ch->c[i]);
        sk_model_free(ch->m[i]);
        if (ch->path[i][0]) unlink(ch->path[i]);
    }
    *ch = (sx_chain){0};
}

static void run_rows(sx_chain *ch, const sk_row *rows, size_t n) {
    size_t width = (size_t)sk_model_get_info(ch->m[0])->n_embd;
    float *states[2] = {calloc(n * width, sizeof(float)), calloc(n * width, sizeof(float))};
    sk_err e = {0};
    for (size_t i = 0; i < ch->n; i++) {
        const float *in = i ? states[(i + 1) % 2] : NULL;
        float *out = i + 1 < ch->n ? states[i % 2] : NULL;
        if (sk_context_decode_stage(ch->c[i], rows, n, in, out, NULL, &e)) fail_msg("stage %zu: %s", i, e.text);
    }
    free(states[0]);
    free(states[1]);
}

const float *sx_chain_feed(sx_chain *ch, uint32_t seq, uint32_t n) {
    sk_row rows[SX_BATCH];
    uint32_t k = 0;
    for (; n; n -= k) {
        uint32_t at = sk_context_seq_len(ch->c[0], seq);
        k = n < SX_BATCH ? n : SX_BATCH;
        for (uint32_t i = 0; i < k; i++)
            rows[i] = (sk_row){.token = (int32_t)((at + i) * 7 % 200 + 5), .seq = seq, .output = i == k - 1};
        run_rows(ch, rows, k);
    }
    const float *logits = sk_context_logits(ch->c[ch->n - 1], k - 1);
    assert_non_null(logits);
    return logits;
}

void sx_chain_copy(sx_chain *ch, uint32_t src, uint32_t dst) {
    sk_err e = {0};
    for (size_t i = 0; i < ch->n; i++)
        if (sk_context_seq_copy(ch->c[i], src, dst, sk_context_seq_len(ch->c[i], src), &e)) fail_msg("%s", e.text);
}

/* The parts that stores keep: KV and what a boundary needs beside it, or, where the layout could not be learned (a
 * stage whose layers all have a window), one whole export. */
static size_t export_parts(sk_context *c, const sk_state_caps *caps, uint32_t seq, sk_blob blob[2],
                           sk_state_part part[2]) {
    uint32_t len = sk_context_seq_len(c, seq);
    sk_err e = {0};
    size_t n = 0;
    if (!caps->windows) {
        if (sk_state_export_whole(c, caps, seq, &blob[n], &e)) fail_msg("%s", e.text);
        part[n++] = (sk_state_part){.kind = SKIPPY_PART_OPAQUE};
    }
    if (caps->windows && caps->has_kv) {
        if (sk_state_export_kv(c, caps, seq, SX_SCRATCH, 0, len, &blob[n], &e)) fail_msg("%s", e.text);
        part[n++] = (sk_state_part){.kind = SKIPPY_PART_KV};
    }
    if (caps->windows && caps->has_tail) {
        if (sk_state_export_tail(c, caps, seq, &blob[n], &e)) fail_msg("%s", e.text);
        part[n++] = (sk_state_part){.kind = SKIPPY_PART_STATE, .from = len};
    }
    for (size_t i = 0; i < n; i++) {
        part[i].to = len;
        part[i].data = blob[i].data;
        part[i].len = blob[i].len;
    }
    return n;
}

void sx_chain_move(sx_chain *ch, uint32_t src, uint32_t dst) {
    for (size_t i = 0; i < ch->n; i++) {
        sk_blob blob[2] = {0};
        sk_state_part part[2];
        sk_err e = {0};
        uint32_t len = sk_context_seq_len(ch->c[i], src);
        size_t n = export_parts(ch->c[i], &ch->caps[i], src, blob, part);
        if (sk_state_import(ch->c[i], &ch->caps[i], dst, SX_SCRATCH, part, n, len, &e))
            fail_msg("stage %zu: %s", i, e.text);
        sk_blob_free(&blob[0]);
        sk_blob_free(&blob[1]);
    }
}

static uint32_t bits(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

void sx_same(sx_chain *a, sx_chain *b, uint32_t seq, uint32_t n, const char *what) {
    assert_int_equal(a->n_vocab, b->n_vocab);
    const float *x = sx_chain_feed(a, seq, n), *y = sx_chain_feed(b, seq, n);
    for (int32_t i = 0; i < a->n_vocab; i++)
        if (bits(x[i]) != bits(y[i]))
            fail_msg("%s, %u tokens of sequence %u: logit %d is %g, not %g", what, n, seq, i, (double)y[i],
                     (double)x[i]);
}
