#include "engine/split_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/test_folder.h"
#include "runtime/test_models.h"

static sk_model *load(const char *path) {
    const sk_model_params p = {.path = path};
    sk_model *m = NULL;
    sk_err e = {0};
    if (sk_model_load(&p, &m, &e)) fail_msg("%s: %s", path, e.text);
    return m;
}

static sk_model *load_stage(split_model *s, sk_tensor_source *src, size_t i, sk_layer_range r) {
    char path[320];
    sk_err e = {0};
    snprintf(path, sizeof path, "%s/stage%zu.gguf", s->folder, i);
    if (sk_slice_write(src, r, path, NULL, NULL, &e)) fail_msg("stage %zu: %s", i, e.text);
    return load(path);
}

/* The next cut at or behind `at` that leaves a stage on either side. */
static int32_t allowed_cut(const sk_tensor_source *src, int32_t start, int32_t at, int32_t layers) {
    sk_err e;
    for (; at < layers; at++)
        if (sk_slice_check(src, (sk_layer_range){start, at}, &e) == SKIPPY_OK &&
            sk_slice_check(src, (sk_layer_range){at, layers}, &e) == SKIPPY_OK)
            return at;
    return -1;
}

static void cut(split_model *s, sk_tensor_source *src, size_t n_stages) {
    int32_t layers = sk_slice_layers(src), start = 0;
    for (size_t i = 0; i < n_stages; i++) {
        int32_t want = start + (layers - start) / (int32_t)(n_stages - i);
        int32_t end = i + 1 == n_stages ? layers : allowed_cut(src, start, want, layers);
        if (end < 0) fail_msg("no cut behind layer %d", start);
        sk_model *m = load_stage(s, src, i, (sk_layer_range){start, end});
        if (i == 0)
            s->head = m;
        else
            s->behind[s->n_behind++].model = m;
        start = end;
    }
}

bool split_open(split_model *s, const char *family, size_t n_stages) {
    memset(s, 0, sizeof *s);
    const char *path = test_model_path(family);
    if (!path) return false;
    snprintf(s->folder, sizeof s->folder, "%s/skippy-split-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(s->folder));
    sk_tensor_source src = {0};
    sk_err e = {0};
    if (sk_tensor_source_open_gguf(path, NULL, NULL, NULL, &src, &e)) fail_msg("%s: %s", path, e.text);
    cut(s, &src, n_stages);
    sk_tensor_source_close(&src);
    s->whole = load(path);
    s->params =
        (sk_engine_params){.n_ctx = 1024, .n_lanes = 2, .n_batch = 64, .n_ubatch = 64, .n_threads = 1, .flash_attn = 1};
    return true;
}

static void *run_stage(void *arg) {
    sk_err e = {0};
    if (sk_stage_run(arg, &e)) fprintf(stderr, "stage: %s\n", e.text);
    return NULL;
}

static void fill_stage_params(split_model *s, size_t i) {
    split_stage *b = &s->behind[i];
    const sk_engine_params *p = &s->params;
    b->params = (sk_stage_params){.setup = {.n_ctx = p->n_ctx,
                                            .n_lanes = p->n_lanes,
                                            .n_batch = p->n_batch,
                                            .n_ubatch = p->n_ubatch,
                                            .n_threads = p->n_threads,
                                            .flash_attn = p->flash_attn,
                                            .cache_seqs = p->cache_seqs,
                                            .stores = s->stage_ram > 0 || s->stage_disk},
                                  .ram_bytes = s->stage_ram,
                                  .activation_bytes = s->activations,
                                  .dtype = s->split.dtype,
                                  .listen = b->address};
}

void split_start_stage(split_model *s, size_t i) {
    split_stage *b = &s->behind[i];
    static char disk[SPLIT_MAX][320];
    char folder[sizeof s->folder];
    memcpy(folder, s->folder, sizeof folder);
    snprintf(b->address, sizeof b->address, "unix:%s/s%zu", folder, i + 1);
    snprintf(disk[i], sizeof disk[i], "%s/disk%zu", folder, i + 1);
    fill_stage_params(s, i);
    if (s->stage_disk) b->params.disk_dir = disk[i];
    sk_err e = {0};
    if (sk_stage_open(b->model, &b->params, &b->stage, &e)) fail_msg("stage %zu: %s", i + 1, e.text);
    assert_int_equal(pthread_create(&b->thread, NULL, run_stage, b->stage), 0);
    b->runs = true;
}

void split_stop_stage(split_model *s, size_t i) {
    split_stage *b = &s->behind[i];
    if (!b->runs) return;
    sk_stage_stop(b->stage);
    pthread_join(b->thread, NULL);
    sk_stage_close(b->stage);
    b->stage = NULL;
    b->runs = false;
}

void split_start(split_model *s) {
    for (size_t i = 0; i < s->n_behind; i++) {
        if (!s->behind[i].runs) split_start_stage(s, i);
        s->addresses[i] = s->behind[i].address;
    }
    s->split.addresses = s->addresses;
    s->split.n_addresses = (uint32_t)s->n_behind;
    s->split.activation_bytes = s->activations;
    sk_engine_params p = s->params;
    p.split = &s->split;
    s->engine = fixture_engine(s->head, p);
}

void split_stop(split_model *s) {
    sk_engine_stop(s->engine);
    s->engine = NULL;
    for (size_t i = 0; i < s->n_behind; i++) split_stop_stage(s, i);
}

void split_close(split_model *s) {
    split_stop(s);
    for (size_t i = 0; i < s->n_behind; i++) sk_model_free(s->behind[i].model);
    sk_model_free(s->head);
    sk_model_free(s->whole);
    if (s->folder[0]) test_remove_tree(s->folder);
}
