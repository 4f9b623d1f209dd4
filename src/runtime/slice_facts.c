/* Reads what the rules of slicing look at. Where the loader has a default, so has this file: a stage must compute with
 * what the whole model computes with, not with what its metadata happens to spell out. */
#include <stdio.h>
#include <string.h>

#include "runtime/slice_internal.h"

static const struct {
    const char *arch;
    enum sk_slice_pattern pattern;
    bool output_required;
} known[] = {
    {"qwen3next", SK_PATTERN_INTERVAL, false}, {"qwen35", SK_PATTERN_INTERVAL, false},
    {"lfm2", SK_PATTERN_KV_HEADS, false},      {"granitehybrid", SK_PATTERN_KV_HEADS, false},
    {"gemma3", SK_PATTERN_PERIOD, false},      {"gemma4", SK_PATTERN_WINDOWS, false},
    {"minimax-m2", SK_PATTERN_NONE, true},
};

/* GLM-4.7 Flash files do not spell out their gating; the loader knows them by shape. */
enum { GLM_FLASH_VOCAB = 154880, LITE_VOCAB = 128256, GATING_SOFTMAX = 1, GATING_SIGMOID = 2 };

int64_t sk_slice_find(const sk_tensor_source *s, const char *key) {
    char full[256];
    snprintf(full, sizeof full, "%s.%s", s->arch, key);
    return gguf_find_key(s->meta, full);
}

static int64_t int_or(const sk_tensor_source *s, const char *key, int64_t otherwise) {
    int64_t v;
    return sk_slice_find(s, key) >= 0 && sk_tensor_source_int(s, key, &v) ? v : otherwise;
}

/* Value i of an array key; false when the key is no array of integers or too short. */
static bool array_value(const sk_tensor_source *s, const char *key, int32_t i, int64_t *out) {
    int64_t k = sk_slice_find(s, key);
    if (k < 0 || gguf_get_kv_type(s->meta, k) != GGUF_TYPE_ARRAY || (size_t)i >= gguf_get_arr_n(s->meta, k))
        return false;
    enum gguf_type type = gguf_get_arr_type(s->meta, k);
    if (type == GGUF_TYPE_STRING || type == GGUF_TYPE_ARRAY) return false;
    const void *data = gguf_get_arr_data(s->meta, k);
    switch (type) {
    case GGUF_TYPE_BOOL: *out = ((const uint8_t *)data)[i] != 0; return true;
    case GGUF_TYPE_UINT8: *out = ((const uint8_t *)data)[i]; return true;
    case GGUF_TYPE_INT32: *out = ((const int32_t *)data)[i]; return true;
    case GGUF_TYPE_UINT32: *out = ((const uint32_t *)data)[i]; return true;
    default: return false;
    }
}

static size_t find_tensor(const sk_tensor_source *s, const char *name) {
    for (size_t i = 0; i < s->n_tensors; i++)
        if (strcmp(s->tensors[i].name, name) == 0) return i;
    return SIZE_MAX;
}

/* An architecture can have several families. The file's metadata tells them apart (sk_slice_check), so the entry with
 * the best result speaks for the architecture. */
static const sk_family_entry *find_family(const char *arch) {
    const sk_registry *reg = sk_registry_get();
    const sk_family_entry *best = NULL;
    for (size_t i = 0; i < reg->n_families; i++) {
        const sk_family_entry *f = &reg->families[i];
        if (strcmp(f->record.arch, arch) != 0) continue;
        if (f->has_split && f->split.result == SK_FOUND_EXACT) return f;
        if (!best || (f->has_split && !best->has_split)) best = f;
    }
    return best;
}

bool sk_slice_taken_for_lite(int64_t layers, int64_t vocab) {
    return layers == 26 || layers == 27 || (layers == 48 && vocab == LITE_VOCAB);
}

static void read_deepseek(sk_slice_facts *f) {
    f->q_lora = sk_slice_taken_for_lite(f->layers, f->vocab) ? 0 : int_or(f->s, "attention.q_lora_rank", 0);
    f->gating = int_or(f->s, "expert_gating_func", 0);
    if (f->gating == 0)
        f->gating =
            (f->layers == 47 || f->layers == 48) && f->vocab == GLM_FLASH_VOCAB ? GATING_SIGMOID : GATING_SOFTMAX;
}

static sk_layer_kind kind_of(const sk_slice_facts *f, int32_t i) {
    bool hybrid = f->family && f->family->state == SK_STATE_HYBRID;
    bool recurrent = f->family && f->family->state == SK_STATE_RECURRENT;
    sk_layer_kind k = {.attention = !recurrent, .recurrent = hybrid || recurrent};
    int64_t v;
    switch (f->pattern) {
    case SK_PATTERN_NONE: break;
    case SK_PATTERN_INTERVAL:
        if (!array_value(f->s, "attention.recurrent_layers", i, &v)) v = (i + 1) % f->interval != 0;
        k.recurrent = v != 0;
        k.attention = !k.recurrent;
        break;
    case SK_PATTERN_KV_HEADS:
        if (!array_value(f->s, "attention.head_count_kv", i, &v)) v = int_or(f->s, "attention.head_count_kv", 1);
        k.recurrent = v == 0;
        k.attention = !k.recurrent;
        break;
    case SK_PATTERN_PERIOD: k.window = f->window > 0 && (f->period == 0 || i % f->period < f->period - 1); break;
    case SK_PATTERN_WINDOWS: k.window = array_value(f->s, "attention.sliding_window_pattern", i, &v) && v != 0; break;
    }
    return k;
}

static void read_pattern(sk_slice_facts *f) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].arch, f->s->arch) != 0) continue;
        f->pattern = known[i].pattern;
        f->output_required = known[i].output_required;
    }
    f->interval = int_or(f->s, "full_attention_interval", 4);
    f->period = int_or(f->s, "attention.sliding_window_pattern", 6);
    f->window = int_or(f->s, "attention.sliding_window", 0);
    f->dense_lead = int_or(f->s, "leading_dense_block_count", 0);
}

int sk_slice_facts_read(const sk_tensor_source *s, sk_slice_facts *f, sk_err *e) {
    int64_t version;
    memset(f, 0, sizeof *f);
    f->s = s;
    f->family = find_family(s->arch);
    f->is_stage = sk_tensor_source_int(s, SK_SLICE_KEY "version", &version);
    f->layers = sk_slice_layers(s);
    f->width = int_or(s, "embedding_length", 0);
    f->embd = find_tensor(s, "token_embd.weight");
    f->output = find_tensor(s, "output.weight");
    if (f->embd == SIZE_MAX || f->width <= 0 || s->tensors[f->embd].ne[0] != f->width)
        return sk_err_set(e, SKIPPY_E_MODEL, "'%.200s' has no token_embd.weight of embedding_length values a row",
                          s->name);
    if (f->layers <= 0 || f->layers > SK_MAX_LAYERS)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "'%.200s' has %d layers that can be cut; 1 to %d are possible",
                          s->name, f->layers, (int)SK_MAX_LAYERS);
    f->vocab = s->tensors[f->embd].ne[1];
    read_pattern(f);
    if (f->interval <= 0 || f->period < 0)
        return sk_err_set(e, SKIPPY_E_MODEL, "'%.200s' has a layer pattern that repeats every %lld layers", s->name,
                          (long long)(f->interval <= 0 ? f->interval : f->period));
    read_deepseek(f);
    for (int32_t i = 0; i < f->layers; i++) f->kind[i] = kind_of(f, i);
    return SKIPPY_OK;
}

int64_t sk_slice_vocab(const sk_slice_facts *f, sk_layer_range r) {
    return sk_slice_is_first(r) || sk_slice_is_last(f, r) ? f->vocab : 1;
}

int32_t sk_slice_layers(const sk_tensor_source *s) {
    int64_t mtp = int_or(s, "nextn_predict_layers", 0);
    return mtp > 0 && mtp < s->n_layer ? s->n_layer - (int32_t)mtp : s->n_layer;
}
