#include <string.h>

#include "topology/registry_read.h"

static void check_reviewed(sk_reader *r, const sk_family_entry *f) {
    const sk_reviewed *m = &f->reviewed;
    bool stateful = f->state == SK_STATE_HYBRID || f->state == SK_STATE_RECURRENT;
    if (stateful != (m->n_recurrent > 0))
        sk_read_fail(r, "'recurrent' must name layers for hybrid and recurrent families, and for these only");
    int32_t last = 0;
    for (size_t i = 0; i < m->n_recurrent; i++) {
        if (m->recurrent[i].start < last || m->recurrent[i].end <= m->recurrent[i].start ||
            m->recurrent[i].end > m->layers)
            sk_read_fail(r, "'recurrent' must ascend inside the %d layers", m->layers);
        last = m->recurrent[i].end;
    }
    const sk_shared_kv *kv = &m->shared_kv;
    if (m->has_shared_kv && (kv->range.start >= kv->range.end || kv->range.end > m->layers))
        sk_read_fail(r, "'shared_kv' must lie inside the %d layers", m->layers);
    for (size_t i = 0; i < kv->n_forbidden; i++)
        if (kv->forbidden[i] >= m->layers) sk_read_fail(r, "cut %d is not inside the model", kv->forbidden[i]);
    for (size_t i = 0; i < m->n_sidebands; i++)
        if (m->sidebands[i].from_layer >= m->layers)
            sk_read_fail(r, "a sideband starts at layer %d of %d", m->sidebands[i].from_layer, m->layers);
}

static void check_split(sk_reader *r, const sk_family_entry *f) {
    const sk_split_rule *s = &f->split;
    if (s->result != SK_FOUND_EXACT && s->result != SK_FOUND_AFTER_CONVERSION && s->result != SK_FOUND_INEXACT &&
        s->result != SK_FOUND_REFUSED)
        sk_read_fail(r, "a split cannot be '%s'", sk_finding_names[s->result]);
    if (s->result != SK_FOUND_EXACT && !s->reason) sk_read_fail(r, "a split that is not exact needs a reason");
    for (size_t i = 0; i < s->n_attention_layers; i++)
        if (s->attention_layers[i] >= f->reviewed.layers)
            sk_read_fail(r, "attention layer %d is not inside the model", s->attention_layers[i]);
    for (size_t i = 0; i < f->n_measured; i++)
        if (f->measured[i].stages != s->result)
            sk_read_fail(r, "'split' says '%s', but 'measured' says '%s'", sk_finding_names[s->result],
                         sk_finding_names[f->measured[i].stages]);
}

static void check_measured(sk_reader *r, const sk_family_entry *f, const sk_measured *m) {
    bool stateful = f->state == SK_STATE_HYBRID || f->state == SK_STATE_RECURRENT;
    if (stateful != (m->recurrent_bytes > 0)) sk_read_fail(r, "'recurrent_bytes' contradicts the state");
    if ((f->state == SK_STATE_WINDOW) != (m->window_tokens > 0))
        sk_read_fail(r, "'window_tokens' contradicts the state");
    if ((f->state == SK_STATE_RECURRENT) != (m->kv_bytes_per_token == 0))
        sk_read_fail(r, "'kv_bytes_per_token' contradicts the state");
}

void sk_registry_check_family(sk_reader *r, const sk_family_entry *f) {
    if (r->failed) return;
    if ((f->record.arch[0] == 0) != (f->trait == SK_TRAIT_UNSUPPORTED))
        sk_read_fail(r, "'arch' must be null for unsupported families, and for these only");
    if (strlen(f->record.family) >= sizeof((sk_family_policy *)NULL)->family)
        sk_read_fail(r, "the family's name is too long");
    if (f->has_reviewed) check_reviewed(r, f);
    if (f->has_split != (f->n_measured > 0) || (f->has_split && !f->has_reviewed))
        sk_read_fail(r, "'split' and 'measured' come together, for reviewed families");
    if (f->has_split) check_split(r, f);
    for (size_t i = 0; i < f->n_measured; i++) check_measured(r, f, &f->measured[i]);
}
