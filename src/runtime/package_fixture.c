#include "runtime/package_fixture.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ggml.h>
#include <gguf.h>

#include "runtime/test_gguf.h"

enum { VOCAB = 10, MOST_TENSORS = 32 };

/* Tensors of a file that is being written. */
typedef struct model_file {
    struct ggml_context *ctx;
    struct gguf_context *gguf;
} model_file;

static model_file begin_file(void) {
    const struct ggml_init_params params = {.mem_size = (size_t)1 << 20};
    const model_file f = {.ctx = ggml_init(params), .gguf = gguf_init_empty()};
    assert_non_null(f.ctx);
    assert_non_null(f.gguf);
    return f;
}

static void end_file(const model_file *f, const char *path) {
    assert_true(gguf_write_to_file(f->gguf, path, false));
    gguf_free(f->gguf);
    ggml_free(f->ctx);
}

static unsigned seed_of(const char *name, unsigned seed) {
    for (const char *p = name; *p; p++) seed = seed * 31 + (unsigned char)*p;
    return seed;
}

static void add(const model_file *f, const char *name, enum ggml_type type, int64_t columns, int64_t rows,
                unsigned seed) {
    struct ggml_tensor *t =
        rows > 1 ? ggml_new_tensor_2d(f->ctx, type, columns, rows) : ggml_new_tensor_1d(f->ctx, type, columns);
    uint8_t *data = t->data;
    seed = seed_of(name, seed);
    for (size_t i = 0; i < ggml_nbytes(t); i++) data[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
    ggml_set_name(t, name);
    gguf_add_tensor(f->gguf, t);
}

static void add_metadata(const model_file *f, const model_spec *spec) {
    static const char *tokens[VOCAB] = {"<unk>", "<s>", "</s>", "a", "b", "c", "d", "e", "f", "g"};
    const float scores[VOCAB] = {0};
    gguf_set_val_str(f->gguf, "general.architecture", "llama");
    if (spec->name) gguf_set_val_str(f->gguf, "general.name", spec->name);
    gguf_set_val_u32(f->gguf, "llama.block_count", MODEL_LAYERS);
    gguf_set_val_u32(f->gguf, "llama.embedding_length", MODEL_WIDTH);
    gguf_set_val_u32(f->gguf, "llama.context_length", 128);
    gguf_set_val_u32(f->gguf, "llama.feed_forward_length", 5);
    gguf_set_val_u32(f->gguf, "llama.attention.head_count", 2);
    gguf_set_val_f32(f->gguf, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_set_val_str(f->gguf, "tokenizer.ggml.model", "llama");
    gguf_set_arr_str(f->gguf, "tokenizer.ggml.tokens", tokens, VOCAB);
    gguf_set_arr_data(f->gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores, VOCAB);
}

static void add_globals(const model_file *f, const model_spec *spec) {
    const enum ggml_type matrix = spec->half ? GGML_TYPE_F16 : GGML_TYPE_F32;
    add(f, "token_embd.weight", matrix, MODEL_WIDTH, VOCAB, spec->seed);
    add(f, "output_norm.weight", GGML_TYPE_F32, MODEL_WIDTH, 1, spec->seed);
    if (!spec->tied) add(f, "output.weight", matrix, MODEL_WIDTH, VOCAB, spec->seed);
    add(f, "rope_freqs.weight", GGML_TYPE_F32, 7, 1, spec->seed); /* 28 bytes: needs padding */
}

static void add_layer(const model_file *f, const model_spec *spec, int layer) {
    const enum ggml_type matrix = spec->half ? GGML_TYPE_F16 : GGML_TYPE_F32;
    const unsigned seed = spec->seed + (layer == spec->changed_layer ? 77u : 0u);
    static const struct {
        const char *name;
        int64_t rows;
    } tensors[] = {{"attn_norm", 1}, {"attn_q", MODEL_WIDTH}, {"ffn_up", 5}};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.%s.weight", layer, tensors[i].name);
        add(f, name, tensors[i].rows > 1 ? matrix : GGML_TYPE_F32, MODEL_WIDTH, tensors[i].rows, seed);
    }
}

void fixture_model(const char *path, const model_spec *spec) {
    const model_file f = begin_file();
    add_metadata(&f, spec);
    add_globals(&f, spec);
    for (int i = 0; i < MODEL_LAYERS; i++) add_layer(&f, spec, i);
    end_file(&f, path);
}

void fixture_shards(const char *dir, const model_spec *spec, char *first, size_t cap) {
    char second[1024];
    const model_file a = begin_file(), b = begin_file();
    add_metadata(&a, spec);
    for (uint16_t i = 0; i < 2; i++) {
        gguf_set_val_u16(i ? b.gguf : a.gguf, "split.no", i);
        gguf_set_val_u16(i ? b.gguf : a.gguf, "split.count", 2);
        gguf_set_val_i32(i ? b.gguf : a.gguf, "split.tensors.count", 3 * MODEL_LAYERS + (spec->tied ? 3 : 4));
    }
    add_globals(&a, spec);
    for (int i = 0; i < MODEL_LAYERS; i++) add_layer(i < 1 ? &a : &b, spec, i);
    snprintf(first, cap, "%s/model-00001-of-00002.gguf", dir);
    snprintf(second, sizeof second, "%s/model-00002-of-00002.gguf", dir);
    end_file(&a, first);
    end_file(&b, second);
}

void fixture_package(const char *model, const char *dir) {
    sk_tensor_source s;
    sk_err e = {0};
    if (sk_tensor_source_open_gguf(model, NULL, NULL, NULL, &s, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    if (sk_package_write(&s, dir, NULL, NULL, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    sk_tensor_source_close(&s);
}

/* ---- comparisons ---- */

static size_t type_size(enum gguf_type type) {
    switch (type) {
    case GGUF_TYPE_UINT8:
    case GGUF_TYPE_INT8:
    case GGUF_TYPE_BOOL: return 1;
    case GGUF_TYPE_UINT16:
    case GGUF_TYPE_INT16: return 2;
    case GGUF_TYPE_UINT64:
    case GGUF_TYPE_INT64:
    case GGUF_TYPE_FLOAT64: return 8;
    default: return 4;
    }
}

static void assert_same_array(const struct gguf_context *a, int64_t ka, const struct gguf_context *b, int64_t kb) {
    const size_t n = gguf_get_arr_n(a, ka);
    const enum gguf_type type = gguf_get_arr_type(a, ka);
    assert_int_equal(type, gguf_get_arr_type(b, kb));
    assert_int_equal(n, gguf_get_arr_n(b, kb));
    if (type != GGUF_TYPE_STRING) {
        assert_memory_equal(gguf_get_arr_data(a, ka), gguf_get_arr_data(b, kb), n * type_size(type));
        return;
    }
    for (size_t i = 0; i < n; i++) assert_string_equal(gguf_get_arr_str(a, ka, i), gguf_get_arr_str(b, kb, i));
}

static size_t assert_values_in(const struct gguf_context *a, const struct gguf_context *b) {
    size_t n = 0;
    for (int64_t k = 0; k < gguf_get_n_kv(a); k++) {
        const char *key = gguf_get_key(a, k);
        if (strncmp(key, "split.", 6) == 0) continue;
        const int64_t other = gguf_find_key(b, key);
        if (other < 0) fail_msg("the key '%s' is missing", key);
        const enum gguf_type type = gguf_get_kv_type(a, k);
        assert_int_equal(type, gguf_get_kv_type(b, other));
        if (type == GGUF_TYPE_ARRAY)
            assert_same_array(a, k, b, other);
        else if (type == GGUF_TYPE_STRING)
            assert_string_equal(gguf_get_val_str(a, k), gguf_get_val_str(b, other));
        else
            assert_memory_equal(gguf_get_val_data(a, k), gguf_get_val_data(b, other), type_size(type));
        n++;
    }
    return n;
}

static void read_whole(sk_tensor_source *s, size_t i, uint8_t *out) {
    sk_err e = {0};
    const size_t n = (size_t)s->tensors[i].bytes, half = n / 2 + 1; /* in two pieces: offsets count */
    if (s->prepare && s->prepare(s->ud, s->tensors[i].layer, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    if (s->read(s->ud, i, 0, out, half < n ? half : n, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    if (half < n && s->read(s->ud, i, half, out + half, n - half, &e) != SKIPPY_OK) fail_msg("%s", e.text);
}

void assert_same_source(sk_tensor_source *a, sk_tensor_source *b) {
    assert_string_equal(a->arch, b->arch);
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->n_layer, b->n_layer);
    assert_int_equal(assert_values_in(a->meta, b->meta), assert_values_in(b->meta, a->meta));
    assert_int_equal(a->n_tensors, b->n_tensors);
    assert_true(a->n_tensors > 0);
    for (size_t i = 0; i < a->n_tensors; i++) {
        const sk_tensor_desc *x = &a->tensors[i], *y = &b->tensors[i];
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->type, y->type);
        assert_int_equal(x->n_dims, y->n_dims);
        assert_memory_equal(x->ne, y->ne, sizeof x->ne);
        assert_int_equal(x->bytes, y->bytes);
        assert_int_equal(x->layer, y->layer);
        uint8_t *left = malloc(x->bytes), *right = malloc(x->bytes);
        assert_non_null(left);
        assert_non_null(right);
        read_whole(a, i, left);
        read_whole(b, i, right);
        assert_memory_equal(left, right, x->bytes);
        free(left);
        free(right);
    }
}

/* ---- packages ---- */

void fixture_manifest(const char *dir, sk_package *out) {
    const sk_package_access a = {.location = dir};
    sk_err e = {0};
    if (sk_package_load(&a, out, &e) != SKIPPY_OK) fail_msg("%s", e.text);
}

const sk_package_part *fixture_part(const sk_package *p, enum sk_part_role role, int32_t layer) {
    for (size_t i = 0; i < p->n_parts; i++)
        if (p->parts[i].role == role && p->parts[i].layer == layer) return &p->parts[i];
    fail_msg("there is no part %s %d", sk_part_role_names[role], (int)layer);
    return NULL;
}

size_t fixture_count_parts(const char *dir) {
    char path[1024];
    size_t n = 0;
    snprintf(path, sizeof path, "%s/parts", dir);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (const struct dirent *entry; (entry = readdir(d));) n += entry->d_name[0] != '.';
    closedir(d);
    return n;
}
