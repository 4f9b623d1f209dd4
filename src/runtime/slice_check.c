/* Which layers may be a stage: what the registry says about the architecture, and what only the file can tell. Every
 * rule stands for a stage that llama.cpp would abort on or compute wrongly without a word. */
#include <stdio.h>
#include <string.h>

#include "runtime/slice_internal.h"

static bool in_list(const int32_t *list, size_t n, int64_t value) {
    for (size_t i = 0; i < n; i++)
        if (list[i] == value) return true;
    return false;
}

/* A value > 0 as the second section makes the loader use M-RoPE, which takes hidden states as input. */
static bool has_mrope(const sk_tensor_source *s) {
    int64_t k = sk_slice_find(s, "rope.dimension_sections");
    if (k < 0 || gguf_get_kv_type(s->meta, k) != GGUF_TYPE_ARRAY || gguf_get_arr_n(s->meta, k) != 4) return false;
    enum gguf_type type = gguf_get_arr_type(s->meta, k);
    return (type == GGUF_TYPE_INT32 || type == GGUF_TYPE_UINT32) &&
           ((const int32_t *)gguf_get_arr_data(s->meta, k))[1] > 0;
}

static int64_t key_or_zero(const sk_slice_facts *f, const char *key) {
    int64_t v;
    return sk_tensor_source_int(f->s, key, &v) ? v : 0;
}

/* Reasons that no cut can avoid. NULL: the model can be cut somewhere. */
static const char *refuse_model(const sk_slice_facts *f) {
    const sk_split_rule *rule = f->family ? &f->family->split : NULL;
    if (f->is_stage) return "the file is a stage already; cut the whole model instead";
    if (!f->family || !f->family->has_split)
        return "stages of this architecture were never measured, so they might compute other numbers";
    if (rule->result == SK_FOUND_REFUSED || rule->result == SK_FOUND_INEXACT)
        return rule->reason ? rule->reason : "stages of this architecture do not compute the same numbers";
    if (rule->result != SK_FOUND_EXACT && rule->result != SK_FOUND_AFTER_CONVERSION)
        return "stages of this architecture are not known to compute the same numbers";
    if (in_list(rule->refused_layers, rule->n_refused_layers, f->layers))
        return "the loader scales attention of models with this number of layers in their own way, and no key can say so "
               "for a stage";
    if (key_or_zero(f, "embedding_length_per_layer_input") > 0)
        return "every layer needs the token ids for its own embeddings, which a stage does not get";
    if (key_or_zero(f, "attention.shared_kv_layers") > 0)
        return "its last layers read keys and values of earlier ones, so that no cut leaves both together";
    if (f->pattern == SK_PATTERN_KV_HEADS && f->window > 0)
        return "stages of this architecture with a sliding window were never measured";
    if (f->pattern == SK_PATTERN_WINDOWS) {
        int64_t k = sk_slice_find(f->s, "attention.sliding_window_pattern");
        if (k < 0 || gguf_get_kv_type(f->s->meta, k) != GGUF_TYPE_ARRAY ||
            gguf_get_arr_n(f->s->meta, k) < (size_t)f->layers)
            return "the file does not say for each layer whether it has a sliding window";
    }
    return NULL;
}

int64_t sk_slice_period(const sk_slice_facts *f, sk_layer_range r) {
    if (f->period == 0 || r.start % f->period == 0) return f->period;
    for (int64_t p = 0; p <= r.end - r.start; p++) {
        bool fits = true;
        for (int32_t i = r.start; i < r.end && fits; i++)
            fits = f->kind[i].window == (p == 0 || (i - r.start) % p < p - 1);
        if (fits) return p;
    }
    return -1;
}

static const char *refuse_kinds(const sk_slice_facts *f, sk_layer_range r) {
    sk_layer_kind any = {0};
    for (int32_t i = r.start; i < r.end; i++) {
        any.attention |= f->kind[i].attention;
        any.recurrent |= f->kind[i].recurrent;
        any.window |= f->kind[i].window;
    }
    if (f->family->state == SK_STATE_HYBRID && !(any.attention && any.recurrent))
        return "a stage needs an attention layer and a recurrent layer, or its first decode aborts";
    if (f->window > 0 && (f->pattern == SK_PATTERN_PERIOD || f->pattern == SK_PATTERN_WINDOWS) && !any.window)
        return "a stage needs a layer with a sliding window, or llama.cpp aborts";
    if (f->pattern == SK_PATTERN_PERIOD && f->window > 0 && sk_slice_period(f, r) < 0)
        return "no single period, which is all that the file can say, describes the sliding windows of these layers";
    return NULL;
}

/* Reasons that another cut may avoid. */
static const char *refuse_range(const sk_slice_facts *f, sk_layer_range r) {
    const sk_split_rule *rule = &f->family->split;
    int32_t n = r.end - r.start;
    if (rule->result == SK_FOUND_AFTER_CONVERSION && r.start > 0 && !has_mrope(f->s))
        return "later stages of this architecture abort on hidden states unless the file is converted first "
               "(rope.dimension_sections, and the rows of attn_q and attn_k reordered)";
    if (n < rule->min_layers) return "llama.cpp aborts on a stage of so few layers";
    if (rule->start_multiple > 1 && r.start % rule->start_multiple != 0)
        return "a stage must start where the pattern of the layers starts";
    /* the reviewed numbers come from the loader's sizes by layer count: a stage must not look like such a model */
    if (in_list(rule->refused_layers, rule->n_refused_layers, n))
        return "the loader would take a stage of so many layers for another model and scale attention its way";
    if (strcmp(f->s->arch, "deepseek2") == 0 && f->q_lora > 0 && sk_slice_taken_for_lite(n, sk_slice_vocab(f, r)))
        return "the loader would take a stage of so many layers for a lite model and look for other tensors";
    return refuse_kinds(f, r);
}

static bool works(const sk_slice_facts *f, int32_t start, int32_t end) {
    return start >= 0 && end <= f->layers && start < end && refuse_range(f, (sk_layer_range){start, end}) == NULL;
}

/* "; 4..8 or 5..9 would do": the nearest other start and the nearest other end. */
static void suggest(const sk_slice_facts *f, sk_layer_range r, char *out, size_t cap) {
    char start[48] = "", end[48] = "";
    for (int32_t d = 1; d < f->layers && !start[0]; d++) {
        int32_t s = works(f, r.start - d, r.end) ? r.start - d : r.start + d;
        if (works(f, s, r.end)) snprintf(start, sizeof start, "%d..%d", s, r.end - 1);
    }
    for (int32_t d = 1; d < f->layers && !end[0]; d++) {
        int32_t t = works(f, r.start, r.end + d) ? r.end + d : r.end - d;
        if (works(f, r.start, t)) snprintf(end, sizeof end, "%d..%d", r.start, t - 1);
    }
    const char *both = start[0] && end[0] ? " or " : "";
    out[0] = '\0';
    if (start[0] || end[0]) snprintf(out, cap, "; %s%s%s would do", start, both, end);
}

int sk_slice_check_facts(const sk_slice_facts *f, sk_layer_range r, sk_err *e) {
    char other[128];
    if (r.start < 0 || r.end <= r.start || r.end > f->layers)
        return sk_err_set(e, SKIPPY_E_INVALID, "layers %d..%d are not a range of '%.200s', which has layers 0..%d",
                          r.start, r.end - 1, f->s->name, f->layers - 1);
    if (sk_slice_is_whole(f, r) && !f->is_stage) return SKIPPY_OK;
    const char *why = refuse_model(f);
    if (why)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "'%.120s' (%s, %d layers) cannot be cut into stages: %s", f->s->name,
                          f->s->arch, f->layers, why);
    why = refuse_range(f, r);
    if (!why) return SKIPPY_OK;
    suggest(f, r, other, sizeof other);
    return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "layers %d..%d of '%.120s' (%s, %d layers) cannot be a stage: %s%s",
                      r.start, r.end - 1, f->s->name, f->s->arch, f->layers, why, other);
}

int sk_slice_check(const sk_tensor_source *s, sk_layer_range r, sk_err *e) {
    sk_slice_facts f;
    int rc = sk_slice_facts_read(s, &f, e);
    return rc ? rc : sk_slice_check_facts(&f, r, e);
}
