#include "runtime/synth_tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"
#include "runtime/synth_meta.h"
#include "runtime/synth_values.h"

typedef struct collector {
    const sk_synth_family *family;
    const struct gguf_context *meta;
    int64_t experts; /* the real number; 0 when the model is built with all of them */
    sk_synth_tensors *out;
    bool failed;
} collector;

uint64_t sk_synth_tensor_elements(const sk_synth_tensor *t) {
    return (uint64_t)t->ne[0] * (uint64_t)t->ne[1] * (uint64_t)t->ne[2] * (uint64_t)t->ne[3];
}

void sk_synth_tensors_free(sk_synth_tensors *t) {
    free(t->v);
    *t = (sk_synth_tensors){0};
}

static bool ends_with(const char *s, const char *tail) {
    size_t n = strlen(s), t = strlen(tail);
    return n >= t && strcmp(s + n - t, tail) == 0;
}

static bool is_one_of(const char *s, const char *const *list) {
    for (; *list; list++)
        if (strcmp(s, *list) == 0) return true;
    return false;
}

/* gemma4 uses K as V in full-attention layers that have experts: layers whose sliding-window flag is 0. */
static bool is_gemma4_shared_value(const collector *c, const char *name, const char *base) {
    if (strcmp(c->family->name, "gemma4a4b") != 0 || strcmp(base, "attn_v.weight") != 0) return false;
    int64_t id = gguf_find_key(c->meta, "gemma4.attention.sliding_window_pattern");
    unsigned long layer = strtoul(name + 4, NULL, 10);
    if (id < 0 || layer >= gguf_get_arr_n(c->meta, id)) return false;
    return ((const int8_t *)gguf_get_arr_data(c->meta, id))[layer] == 0;
}

/* llama.cpp creates every optional tensor of an architecture when it has no file to look into. Whole names are
 * compared: "output.weight" is also the end of "attn_output.weight". */
static bool is_left_out(const collector *c, const char *name) {
    static const char *const optional_biases[] = {"attn_q.bias",   "attn_k.bias", "attn_v.bias",   "attn_output.bias",
                                                  "ffn_gate.bias", "ffn_up.bias", "ffn_down.bias", NULL};
    static const char *const gemma4_scales[] = {"ffn_gate_inp.scale", "ffn_down_exps.scale", NULL};
    const char *base = sk_synth_base_name(name);
    bool gemma4 = strcmp(c->family->arch, "gemma4") == 0;
    if (ends_with(base, ".input_scale") || strncmp(base, "nextn.", 6) == 0) return true;
    if (ends_with(base, ".scale") && !(gemma4 && is_one_of(base, gemma4_scales))) return true;
    if (is_one_of(base, optional_biases) || is_one_of(base, c->family->leave_out)) return true;
    if (c->family->tied && strcmp(name, "output.weight") == 0) return true;
    return is_gemma4_shared_value(c, name, base);
}

/* Files keep vectors, convolutions, routers and the small low-rank mixes of RWKV in F32: the kernels that read them
 * take nothing else, or they cost nothing. */
static bool is_matrix(const char *base, const int64_t ne[4]) {
    static const char *const big_rwkv[] = {"time_mix_key.weight", "time_mix_value.weight", "time_mix_receptance.weight",
                                           "time_mix_output.weight", NULL};
    if (ne[0] <= 1 || ne[1] <= 1 || !ends_with(base, ".weight") || ends_with(base, "norm.weight")) return false;
    if (strstr(base, "conv") || strstr(base, "ffn_gate_inp") || strstr(base, "_mix_lerp")) return false;
    return strncmp(base, "time_mix_", 9) != 0 || is_one_of(base, big_rwkv);
}

static void append(collector *c, const char *name, const int64_t ne[4], int n_dims) {
    sk_synth_tensors *t = c->out;
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->v[i].name, name) == 0) return; /* tied output and per-layer rope factors come twice */
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 256;
        sk_synth_tensor *v = realloc(t->v, cap * sizeof *v);
        if (!v) {
            c->failed = true;
            return;
        }
        t->v = v;
        t->cap = cap;
    }
    sk_synth_tensor *e = &t->v[t->n++];
    snprintf(e->name, sizeof e->name, "%s", name);
    memcpy(e->ne, ne, sizeof e->ne);
    e->n_dims = n_dims;
    e->matrix = is_matrix(sk_synth_base_name(name), ne);
    t->elements += sk_synth_tensor_elements(e);
}

/* Files hold gate and up experts apart, but llama.cpp offers the fused tensor (gate rows first) and skips the two.
 * gemma4 files keep it fused. */
static bool append_split_experts(collector *c, const char *name, const int64_t ne[4], int n_dims) {
    static const char fused[] = "ffn_gate_up_exps.weight";
    char part[64];
    if (strcmp(sk_synth_base_name(name), fused) != 0 || strcmp(c->family->arch, "gemma4") == 0) return false;
    int prefix = (int)(strlen(name) - strlen(fused));
    int64_t half[4] = {ne[0], ne[1] / 2, ne[2], ne[3]};
    snprintf(part, sizeof part, "%.*sffn_gate_exps.weight", prefix, name);
    append(c, part, half, n_dims);
    snprintf(part, sizeof part, "%.*sffn_up_exps.weight", prefix, name);
    append(c, part, half, n_dims);
    return true;
}

/* Gives a tensor the real number of experts. */
static void restore_experts(const collector *c, const char *base, int64_t ne[4]) {
    if (c->experts == 0) return;
    if (strstr(base, "_exps.weight"))
        ne[2] = c->experts;
    else if (strcmp(base, "ffn_gate_inp.weight") == 0)
        ne[1] = c->experts;
    else if (strcmp(base, "exp_probs_b.bias") == 0 || strcmp(base, "ffn_down_exps.scale") == 0)
        ne[0] = c->experts;
}

/* Called by llama.cpp for every tensor. The tensor's memory stays untouched, so it never becomes resident. */
static void on_tensor(struct ggml_tensor *tensor, void *ud) {
    collector *c = ud;
    const char *name = ggml_get_name(tensor);
    if (c->failed || is_left_out(c, name)) return;
    int n_dims = ggml_n_dims(tensor);
    int64_t ne[4];
    memcpy(ne, tensor->ne, sizeof ne);
    restore_experts(c, sk_synth_base_name(name), ne);
    if (!append_split_experts(c, name, ne, n_dims)) append(c, name, ne, n_dims);
}

/* The metadata to build from: a copy with fewer experts, or NULL when there are few already. */
static struct gguf_context *probe_metadata(const struct gguf_context *meta, const char *arch, int64_t *experts) {
    char key[64];
    *experts = sk_synth_meta_u32(meta, arch, "expert_count", 0);
    if (*experts <= SK_SYNTH_LISTED_EXPERTS) {
        *experts = 0;
        return NULL;
    }
    struct gguf_context *copy = gguf_init_empty();
    if (!copy) return NULL;
    gguf_set_kv(copy, meta);
    snprintf(key, sizeof key, "%s.expert_count", arch);
    gguf_set_val_u32(copy, key, SK_SYNTH_LISTED_EXPERTS);
    return copy;
}

int sk_synth_tensors_list(struct gguf_context *meta, const sk_synth_family *family, sk_synth_tensors *out,
                          sk_err *err) {
    collector c = {.family = family, .meta = meta, .out = out};
    ggml_backend_dev_t no_device = NULL;
    struct llama_model_params params = llama_model_default_params();
    params.devices = &no_device;
    params.n_gpu_layers = 0;
    struct gguf_context *probe = probe_metadata(meta, family->arch, &c.experts);
    if (c.experts && !probe) return sk_err_set(err, SKIPPY_E_NOMEM, "out of memory while listing tensors");
    struct llama_model *model = llama_model_init_from_user(probe ? probe : meta, on_tensor, &c, params);
    if (model) llama_model_free(model);
    if (probe) gguf_free(probe);
    if (!model) return sk_err_set(err, SKIPPY_E_RUNTIME, "llama.cpp could not build a model from the metadata");
    if (c.failed) return sk_err_set(err, SKIPPY_E_NOMEM, "out of memory while listing tensors");
    if (out->n == 0) return sk_err_set(err, SKIPPY_E_RUNTIME, "llama.cpp asked for no tensor at all");
    return SKIPPY_OK;
}
