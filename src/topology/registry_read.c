#include "topology/registry_read.h"

#include <stdio.h>
#include <string.h>

enum { MAX_LAYERS = SK_MAX_LAYERS, MAX_WIDTH = 1 << 20 };

static const char *const cache_words[] = {"disabled", "ResidentKv", "KvRecurrent", NULL};

static void read_ranges(sk_reader *r, const json_t *o, sk_reviewed *out) {
    const json_t *list = sk_read_opt_array(r, o, "recurrent", SK_MAX_RANGES);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i);
        const json_t *start = json_array_get(pair, 0), *end = json_array_get(pair, 1);
        if (json_array_size(pair) != 2 || !json_is_integer(start) || !json_is_integer(end) ||
            json_integer_value(start) < 0 || json_integer_value(end) > MAX_LAYERS) {
            sk_read_fail(r, "'recurrent' must hold pairs of layer numbers, [start, end)");
            return;
        }
        out->recurrent[out->n_recurrent++] =
            (sk_layer_range){(int32_t)json_integer_value(start), (int32_t)json_integer_value(end)};
    }
}

static void read_shared_kv(sk_reader *r, const json_t *o, sk_reviewed *out) {
    static const char *const keys[] = {"start", "end", "reject_inside", "forbidden", "reason", NULL};
    const json_t *list = sk_read_opt_array(r, o, "shared_kv", 1);
    if (!list) return;
    const json_t *s = json_array_get(list, 0);
    sk_shared_kv *kv = &out->shared_kv;
    sk_read_keys(r, s, keys);
    sk_read_i32(r, s, "start", 0, MAX_LAYERS, &kv->range.start);
    sk_read_i32(r, s, "end", 1, MAX_LAYERS, &kv->range.end);
    sk_read_opt_bool(r, s, "reject_inside", &kv->reject_inside);
    sk_read_opt_i32s(r, s, "forbidden", 1, MAX_LAYERS, kv->forbidden, SK_MAX_CUTS, &kv->n_forbidden);
    sk_read_text(r, s, "reason", &kv->reason);
    out->has_shared_kv = true;
}

static void read_sidebands(sk_reader *r, const json_t *o, sk_reviewed *out) {
    static const char *const keys[] = {"kind", "from_layer", "reason", NULL};
    const json_t *list = sk_read_opt_array(r, o, "sidebands", SK_MAX_SIDEBANDS);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *s = json_array_get(list, i);
        sk_sideband *band = &out->sidebands[out->n_sidebands++];
        int kind = 0;
        sk_read_keys(r, s, keys);
        sk_read_word(r, s, "kind", sk_sideband_names, &kind);
        sk_read_i32(r, s, "from_layer", 1, MAX_LAYERS, &band->from_layer);
        sk_read_text(r, s, "reason", &band->reason);
        band->kind = (enum sk_sideband_kind)kind;
    }
}

static void read_reviewed(sk_reader *r, const json_t *o, sk_reviewed *out) {
    static const char *const keys[] = {"model",     "file_arch",    "layers",   "width",     "shards",
                                       "wire",      "q8_wire",      "mobility", "recurrent", "shared_kv",
                                       "sidebands", "package_only", NULL};
    int wire = 0, q8 = 0, mobility = 0;
    sk_read_keys(r, o, keys);
    sk_read_text(r, o, "model", &out->model);
    sk_read_opt_text(r, o, "file_arch", &out->file_arch);
    sk_read_i32(r, o, "layers", 1, MAX_LAYERS, &out->layers);
    sk_read_i32(r, o, "width", 1, MAX_WIDTH, &out->width);
    out->shards = 1;
    sk_read_opt_i32(r, o, "shards", 1, MAX_LAYERS, &out->shards);
    sk_read_word(r, o, "wire", sk_wire_names, &wire);
    sk_read_word(r, o, "q8_wire", sk_validation_names, &q8);
    sk_read_word(r, o, "mobility", sk_mobility_names, &mobility);
    sk_read_opt_bool(r, o, "package_only", &out->package_only);
    out->wire = (enum sk_wire)wire;
    out->q8_wire = (enum sk_validation)q8;
    out->mobility = (enum sk_mobility)mobility;
    read_ranges(r, o, out);
    read_shared_kv(r, o, out);
    read_sidebands(r, o, out);
}

static void read_finding(sk_reader *r, const json_t *o, const char *key, enum sk_finding *out) {
    int value = 0;
    sk_read_word(r, o, key, sk_finding_names, &value);
    *out = (enum sk_finding)value;
}

static void read_split(sk_reader *r, const json_t *o, sk_split_rule *out) {
    static const char *const keys[] = {"result",           "min_layers",
                                       "start_multiple",   "attention_every",
                                       "attention_layers", "full_attention_every",
                                       "window_as",        "refused_stage_layers",
                                       "refused_layers",   "needs",
                                       "reason",           NULL};
    static const char *const window_words[] = {"array", "period", NULL};
    int window_as = 0;
    sk_read_keys(r, o, keys);
    read_finding(r, o, "result", &out->result);
    out->min_layers = out->start_multiple = 1;
    sk_read_opt_i32(r, o, "min_layers", 1, MAX_LAYERS, &out->min_layers);
    sk_read_opt_i32(r, o, "start_multiple", 1, MAX_LAYERS, &out->start_multiple);
    sk_read_opt_i32(r, o, "attention_every", 2, MAX_LAYERS, &out->attention_every);
    sk_read_opt_i32s(r, o, "attention_layers", 0, MAX_LAYERS, out->attention_layers, SK_MAX_LISTED_LAYERS,
                     &out->n_attention_layers);
    sk_read_opt_i32(r, o, "full_attention_every", 2, MAX_LAYERS, &out->full_attention_every);
    if (json_object_get(o, "window_as")) sk_read_word(r, o, "window_as", window_words, &window_as);
    out->window_as_period = window_as == 1;
    sk_read_opt_i32s(r, o, "refused_stage_layers", 1, MAX_LAYERS, out->refused_stage_layers, SK_MAX_CUTS,
                     &out->n_refused_stage_layers);
    sk_read_opt_i32s(r, o, "refused_layers", 1, MAX_LAYERS, out->refused_layers, SK_MAX_CUTS, &out->n_refused_layers);
    sk_read_opt_texts(r, o, "needs", out->needs, SK_MAX_NEEDS, &out->n_needs);
    sk_read_opt_text(r, o, "reason", &out->reason);
}

static void read_measured(sk_reader *r, const json_t *o, sk_measured *out) {
    static const char *const keys[] = {"model",
                                       "kv_bytes_per_token",
                                       "window_bytes_per_token",
                                       "window_tokens",
                                       "recurrent_bytes",
                                       "resident_restore",
                                       "truncated_reuse",
                                       "export_import",
                                       "kv_only",
                                       "page_wise",
                                       "stages",
                                       NULL};
    const int64_t max_bytes = INT64_C(1) << 40;
    sk_read_keys(r, o, keys);
    sk_read_text(r, o, "model", &out->model);
    sk_read_i64(r, o, "kv_bytes_per_token", 0, max_bytes, &out->kv_bytes_per_token);
    sk_read_i64(r, o, "window_bytes_per_token", 0, max_bytes, &out->window_bytes_per_token);
    sk_read_i32(r, o, "window_tokens", 0, MAX_WIDTH, &out->window_tokens);
    sk_read_i64(r, o, "recurrent_bytes", 0, max_bytes, &out->recurrent_bytes);
    read_finding(r, o, "resident_restore", &out->resident_restore);
    read_finding(r, o, "truncated_reuse", &out->truncated_reuse);
    read_finding(r, o, "export_import", &out->export_import);
    read_finding(r, o, "kv_only", &out->kv_only);
    read_finding(r, o, "page_wise", &out->page_wise);
    read_finding(r, o, "stages", &out->stages);
}

/* The mode follows from the state; the file says it again for its readers, so the two must agree. */
static enum sk_cache_mode mode_of(enum sk_state_kind state) {
    switch (state) {
    case SK_STATE_ATTENTION: return SK_CACHE_RESIDENT_KV;
    case SK_STATE_WINDOW: return SK_CACHE_WINDOW_KV;
    case SK_STATE_HYBRID:
    case SK_STATE_RECURRENT: return SK_CACHE_KV_RECURRENT;
    case SK_STATE_OTHER:
    case SK_STATE_NONE:
    case SK_STATE_COUNT: break;
    }
    return SK_CACHE_DISABLED;
}

static void read_policy(sk_reader *r, const json_t *o, sk_family_entry *out) {
    int state = 0, cache = 0, trait = -1;
    sk_read_word(r, o, "state", sk_state_names, &state);
    sk_read_word(r, o, "cache", cache_words, &cache);
    if (json_object_get(o, "disabled")) sk_read_word(r, o, "disabled", sk_trait_names + 1, &trait);
    trait++; /* "none" is said by leaving the key out */
    if (r->failed) return;
    out->state = (enum sk_state_kind)state;
    out->trait = (enum sk_family_trait)trait;
    out->record.mode = trait == SK_TRAIT_NONE ? mode_of(out->state) : SK_CACHE_DISABLED;
    if (strcmp(sk_cache_mode_name(out->record.mode), cache_words[cache]) != 0)
        sk_read_fail(r, "'cache' is '%s', but state '%s' and disabled '%s' mean '%s'", cache_words[cache],
                     sk_state_names[state], sk_trait_names[trait], sk_cache_mode_name(out->record.mode));
    else if (out->record.mode == SK_CACHE_DISABLED && trait == SK_TRAIT_NONE)
        sk_read_fail(r, "the cache is disabled, and 'disabled' does not say why");
}

void sk_registry_read_family(sk_reader *r, const json_t *o, sk_family_entry *out) {
    static const char *const keys[] = {"family", "arch",     "state", "cache",    "disabled",
                                       "note",   "reviewed", "split", "measured", NULL};
    sk_read_keys(r, o, keys);
    sk_read_text(r, o, "family", &out->record.family);
    if (r->failed) return;
    size_t n = strlen(r->where);
    snprintf(r->where + n, sizeof r->where - n, " (%.40s)", out->record.family);
    out->record.arch = out->record.example = "";
    if (!json_is_null(json_object_get(o, "arch"))) sk_read_text(r, o, "arch", &out->record.arch);
    read_policy(r, o, out);
    sk_read_opt_text(r, o, "note", &out->note);
    out->has_reviewed = json_object_get(o, "reviewed") != NULL;
    if (out->has_reviewed) read_reviewed(r, json_object_get(o, "reviewed"), &out->reviewed);
    if (out->has_reviewed && !r->failed) out->record.example = out->reviewed.model;
    out->has_split = json_object_get(o, "split") != NULL;
    if (out->has_split) read_split(r, json_object_get(o, "split"), &out->split);
    const json_t *list = sk_read_opt_array(r, o, "measured", SK_MAX_MEASURED);
    for (size_t i = 0; i < json_array_size(list); i++)
        read_measured(r, json_array_get(list, i), &out->measured[out->n_measured++]);
}

void sk_registry_read_rule(sk_reader *r, const json_t *o, const sk_registry *reg, sk_infer_rule *out) {
    static const char *const keys[] = {"arch", "name", "layers", "width", "family", "reason", NULL};
    const char *family = NULL;
    sk_read_keys(r, o, keys);
    sk_read_opt_text(r, o, "arch", &out->arch);
    sk_read_opt_texts(r, o, "name", out->name_parts, SK_MAX_NAME_PARTS, &out->n_name_parts);
    sk_read_opt_i32(r, o, "layers", 1, MAX_LAYERS, &out->layers);
    sk_read_opt_i32(r, o, "width", 1, MAX_WIDTH, &out->width);
    sk_read_opt_text(r, o, "reason", &out->reason);
    if (!json_is_null(json_object_get(o, "family"))) sk_read_text(r, o, "family", &family);
    if (r->failed) return;
    if (family && !(out->family = sk_registry_family(reg, family)))
        sk_read_fail(r, "there is no family '%.48s'", family);
    else if ((family == NULL) != (out->reason != NULL))
        sk_read_fail(r, "a rule names a family, or has the family null and a reason");
}
