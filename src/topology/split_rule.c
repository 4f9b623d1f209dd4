#include "topology/split_rule.h"

#include <stdio.h>

static bool in_list(const int32_t *list, size_t n, int32_t value) {
    for (size_t i = 0; i < n; i++)
        if (list[i] == value) return true;
    return false;
}

sk_layer_kind sk_split_layer_kind(const sk_family_entry *f, int32_t layers, int32_t layer) {
    const sk_split_rule *s = &f->split;
    sk_layer_kind k = {0};
    if (f->state == SK_STATE_HYBRID || f->state == SK_STATE_RECURRENT) k.recurrent = true;
    k.attention = f->state != SK_STATE_RECURRENT && f->state != SK_STATE_NONE;
    k.window = f->state == SK_STATE_WINDOW;
    if (s->attention_every > 0)
        k.attention = (layer + 1) % s->attention_every == 0;
    else if (s->n_attention_layers > 0)
        k.attention = in_list(s->attention_layers, s->n_attention_layers, layer);
    if (s->attention_every > 0 || s->n_attention_layers > 0) k.recurrent = !k.attention;
    if (s->full_attention_every > 0) k.window = (layer + 1) % s->full_attention_every != 0;
    /* Several ranges are a list of the recurrent layers; one range over everything says only that there are some. */
    if (f->state == SK_STATE_HYBRID && f->reviewed.n_recurrent > 1 && layers == f->reviewed.layers) {
        k.recurrent = sk_reviewed_layer_recurrent(&f->reviewed, layer);
        k.attention = !k.recurrent;
    }
    return k;
}

bool sk_split_cut_allowed(const sk_family_entry *f, int32_t cut, const char **reason) {
    const sk_shared_kv *kv = &f->reviewed.shared_kv;
    if (!f->reviewed.has_shared_kv) return true;
    bool inside = kv->reject_inside && cut > kv->range.start && cut < kv->range.end;
    if (!inside && !in_list(kv->forbidden, kv->n_forbidden, cut)) return true;
    *reason = kv->reason;
    return false;
}

/* A stage file of such a family states its windows as one period counted from the stage's first layer: every layer but
 * the last of each period has a window, and period 0 means that all have. True when some period says what the layers
 * are. Only one can: the first layer without a window ends the first period. */
static bool one_period_fits(const sk_family_entry *f, int32_t layers, sk_layer_range s) {
    int32_t period = 0;
    for (int32_t i = s.start; i < s.end; i++) {
        bool window = sk_split_layer_kind(f, layers, i).window;
        if (period == 0 && !window) period = i - s.start + 1;
        if (period > 0 && window == ((i - s.start) % period == period - 1)) return false;
    }
    return true;
}

/* NULL when the layers go together in one stage. */
static const char *refuse_kinds(const sk_family_entry *f, int32_t layers, sk_layer_range s) {
    const sk_split_rule *rule = &f->split;
    sk_layer_kind any = {0};
    for (int32_t i = s.start; i < s.end; i++) {
        sk_layer_kind k = sk_split_layer_kind(f, layers, i);
        any.attention |= k.attention;
        any.recurrent |= k.recurrent;
        any.window |= k.window;
    }
    if (f->state == SK_STATE_HYBRID && !(any.attention && any.recurrent))
        return "a stage needs an attention layer and a recurrent layer";
    if (rule->full_attention_every > 0 && !any.window) return "a stage needs a layer with a sliding window";
    if (rule->window_as_period && !one_period_fits(f, layers, s))
        return "no single period describes the windows of these layers";
    return NULL;
}

static const char *refuse_shape(const sk_family_entry *f, int32_t layers, sk_layer_range s) {
    const sk_split_rule *rule = &f->split;
    if (rule->result == SK_FOUND_REFUSED) return rule->reason;
    if (in_list(rule->refused_layers, rule->n_refused_layers, layers))
        return "the loader treats models with this number of layers in their own way, which a stage cannot repeat";
    if (rule->n_attention_layers > 0 && layers != f->reviewed.layers)
        return "which layers have attention is known for the reviewed model only";
    if (s.end - s.start < rule->min_layers) return "a stage of so few layers aborts";
    if (s.start % rule->start_multiple != 0) return "a stage must start where the layers' pattern starts";
    if (in_list(rule->refused_stage_layers, rule->n_refused_stage_layers, s.end - s.start))
        return "the loader takes a stage of so many layers for another model";
    return NULL;
}

bool sk_split_stage_allowed(const sk_family_entry *f, int32_t layers, sk_layer_range s, char *why, size_t cap) {
    if (!f->has_split || (s.start == 0 && s.end == layers)) return true;
    const char *reason = refuse_shape(f, layers, s);
    if (!reason) reason = refuse_kinds(f, layers, s);
    if (!reason) return true;
    snprintf(why, cap, "%s", reason);
    return false;
}
