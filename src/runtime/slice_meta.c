/* The key-values of a stage file: the whole model's, except for those that speak of layers, of the vocabulary, or that
 * the loader would fill in differently for a model of another size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "runtime/gguf_check.h"
#include "runtime/slice_internal.h"

/* Arrays whose length has nothing to do with the number of layers, even where the two happen to agree. */
static const char *const not_per_layer[] = {"rope.dimension_sections", "classifier.output_labels"};

/* Keys that describe the file the model came in, not the model. */
static const char *const of_the_file[] = {"split.no", "split.count", "split.tensors.count", "general.alignment"};

static void key_name(const sk_slice_facts *f, const char *key, char *out, size_t cap) {
    snprintf(out, cap, "%s.%s", f->s->arch, key);
}

static void set_u32(struct gguf_context *g, const sk_slice_facts *f, const char *key, int64_t value) {
    char name[256];
    key_name(f, key, name, sizeof name);
    gguf_set_val_u32(g, name, (uint32_t)value);
}

static bool has(const struct gguf_context *g, const sk_slice_facts *f, const char *key) {
    char name[256];
    key_name(f, key, name, sizeof name);
    return gguf_find_key(g, name) >= 0;
}

static void drop(struct gguf_context *g, const sk_slice_facts *f, const char *key) {
    char name[256];
    key_name(f, key, name, sizeof name);
    gguf_remove_key(g, name);
}

/* Does key k of the source hold one value for each layer? */
static bool per_layer(const sk_slice_facts *f, int64_t k) {
    const struct gguf_context *src = f->s->meta;
    const char *key = gguf_get_key(src, k);
    size_t n_arch = strlen(f->s->arch);
    if (strncmp(key, f->s->arch, n_arch) != 0 || key[n_arch] != '.' || gguf_get_kv_type(src, k) != GGUF_TYPE_ARRAY ||
        gguf_get_arr_n(src, k) != (size_t)f->s->n_layer || sk_gguf_value_size(gguf_get_arr_type(src, k)) == 0)
        return false;
    for (size_t i = 0; i < sizeof not_per_layer / sizeof *not_per_layer; i++)
        if (strcmp(key + n_arch + 1, not_per_layer[i]) == 0) return false;
    return true;
}

static void slice_arrays(struct gguf_context *g, const sk_slice_facts *f, sk_layer_range r) {
    const struct gguf_context *src = f->s->meta;
    for (int64_t k = 0; k < gguf_get_n_kv(src); k++) {
        if (!per_layer(f, k)) continue;
        enum gguf_type type = gguf_get_arr_type(src, k);
        const uint8_t *data = gguf_get_arr_data(src, k);
        gguf_set_arr_data(g, gguf_get_key(src, k), type, data + (size_t)r.start * sk_gguf_value_size(type),
                          (size_t)(r.end - r.start));
    }
}

/* The tokenizer stays with the stage that takes tokens; the others get as many nameless tokens as their head has rows.
 */
static void drop_tokenizer(struct gguf_context *g, const sk_slice_facts *f, sk_layer_range r) {
    const struct gguf_context *src = f->s->meta;
    for (int64_t k = 0; k < gguf_get_n_kv(src); k++) {
        const char *key = gguf_get_key(src, k);
        if (strncmp(key, "tokenizer.", 10) == 0) gguf_remove_key(g, key);
    }
    gguf_set_val_str(g, "tokenizer.ggml.model", "none");
    set_u32(g, f, "vocab_size", sk_slice_vocab(f, r));
}

/* What says which layers are of which kind, where it is not an array. */
static void set_pattern(struct gguf_context *g, const sk_slice_facts *f, sk_layer_range r) {
    char name[256];
    if (f->pattern == SK_PATTERN_INTERVAL && !has(g, f, "attention.recurrent_layers") && r.start % f->interval != 0) {
        int8_t recurrent[SK_MAX_LAYERS];
        for (int32_t i = r.start; i < r.end; i++) recurrent[i - r.start] = f->kind[i].recurrent;
        key_name(f, "attention.recurrent_layers", name, sizeof name);
        gguf_set_arr_data(g, name, GGUF_TYPE_BOOL, recurrent, (size_t)(r.end - r.start));
        drop(g, f, "full_attention_interval");
    }
    if (f->pattern == SK_PATTERN_PERIOD && f->window > 0)
        set_u32(g, f, "attention.sliding_window_pattern", sk_slice_period(f, r));
}

/* Defaults of the deepseek2 loader that depend on the number of layers or on the vocabulary. */
static void spell_out(struct gguf_context *g, const sk_slice_facts *f) {
    if (strcmp(f->s->arch, "deepseek2") != 0) return;
    set_u32(g, f, "expert_gating_func", f->gating);
    set_u32(g, f, "attention.q_lora_rank", f->q_lora);
}

static void set_range(struct gguf_context *g, const sk_slice_facts *f, sk_layer_range r) {
    slice_arrays(g, f, r);
    set_u32(g, f, "block_count", r.end - r.start);
    if (has(g, f, "nextn_predict_layers")) set_u32(g, f, "nextn_predict_layers", 0);
    if (sk_slice_is_whole(f, r)) return;
    if (has(g, f, "leading_dense_block_count"))
        set_u32(g, f, "leading_dense_block_count", f->dense_lead > r.start ? f->dense_lead - r.start : 0);
    if (r.start > 0) {
        drop(g, f, "embedding_scale"); /* the graph would scale hidden states, too */
        drop_tokenizer(g, f, r);
    }
    set_pattern(g, f, r);
    spell_out(g, f);
}

static void set_stage_keys(struct gguf_context *g, const sk_slice_facts *f, sk_layer_range r) {
    char hex[65];
    sk_hex(f->s->digest.bytes, sizeof f->s->digest.bytes, hex);
    gguf_set_val_u32(g, SK_SLICE_KEY "version", SK_SLICE_VERSION);
    gguf_set_val_u32(g, SK_SLICE_KEY "layer_start", (uint32_t)r.start);
    gguf_set_val_u32(g, SK_SLICE_KEY "layer_end", (uint32_t)r.end);
    gguf_set_val_u32(g, SK_SLICE_KEY "layer_count", (uint32_t)f->layers);
    gguf_set_val_str(g, SK_SLICE_KEY "source", hex);
    gguf_set_val_str(g, SK_SLICE_KEY "source_name", f->s->name);
    gguf_set_val_u32(g, SK_SLICE_KEY "width", (uint32_t)f->width);
}

struct gguf_context *sk_slice_meta(const sk_slice_facts *f, sk_layer_range r) {
    struct gguf_context *g = gguf_init_empty();
    if (!g) return NULL;
    gguf_set_kv(g, f->s->meta);
    for (size_t i = 0; i < sizeof of_the_file / sizeof *of_the_file; i++) gguf_remove_key(g, of_the_file[i]);
    set_range(g, f, r);
    set_stage_keys(g, f, r);
    return g;
}
