#include "topology/family.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "topology/registry.h"

const char *sk_cache_mode_name(enum sk_cache_mode mode) {
    switch (mode) {
    case SK_CACHE_RESIDENT_KV:
    case SK_CACHE_WINDOW_KV: return "ResidentKv";
    case SK_CACHE_KV_RECURRENT: return "KvRecurrent";
    case SK_CACHE_DISABLED: break;
    }
    return "disabled";
}

static bool contains_nocase(const char *text, const char *part) {
    size_t n = strlen(part);
    for (; *text; text++) {
        if (strncasecmp(text, part, n) == 0) return true;
    }
    return false;
}

bool sk_family_stateful_tensor(const char *name) {
    static const char *const patterns[] = {".ssm", "ssm_", "time_mix", "recurrent", "rwkv"};
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        if (contains_nocase(name, patterns[i])) return true;
    }
    return false;
}

const sk_family_record *sk_family_at(size_t i) {
    const sk_registry *reg = sk_registry_get();
    return i < reg->n_families ? &reg->families[i].record : NULL;
}

static void decide(sk_family_policy *out, enum sk_cache_mode mode, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void decide(sk_family_policy *out, enum sk_cache_mode mode, const char *fmt, ...) {
    out->mode = mode;
    out->exact_boundaries = mode == SK_CACHE_WINDOW_KV || mode == SK_CACHE_KV_RECURRENT;
    out->detach_window = mode == SK_CACHE_WINDOW_KV;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(out->reason, sizeof out->reason, fmt, ap);
    va_end(ap);
}

/* What llama.cpp says about the kind of model: asked before anything that is only a name. */
static bool refuse_by_kind(const sk_family_facts *f, sk_family_policy *out) {
    if (f->is_diffusion)
        decide(out, SK_CACHE_DISABLED, "A diffusion model rewrites earlier tokens, so no prefix of it stays valid.");
    else if (f->has_encoder)
        decide(out, SK_CACHE_DISABLED, "The model has an encoder, whose state is not part of the decoder's memory.");
    else if (!f->has_decoder)
        decide(out, SK_CACHE_DISABLED, "The model has no decoder, so there is no state to continue from.");
    else
        return false;
    return true;
}

/* What the registry says about the architecture. */
static bool refuse_by_trait(const sk_family_facts *f, enum sk_family_trait trait, sk_family_policy *out) {
    switch (trait) {
    case SK_TRAIT_INDEXER:
        decide(out, SK_CACHE_DISABLED,
               "Its memory holds indexer or compressed state whose reuse has not been shown to be exact.");
        return true;
    case SK_TRAIT_DRAFT:
        decide(out, SK_CACHE_DISABLED, "A draft model reads another model's memory and cannot continue alone.");
        return true;
    case SK_TRAIT_ENCODER:
        decide(out, SK_CACHE_DISABLED,
               "An embedding or encoder model generates no tokens, so there is no state to reuse.");
        return true;
    case SK_TRAIT_DIFFUSION:
        decide(out, SK_CACHE_DISABLED, "A diffusion model rewrites earlier tokens, so no prefix of it stays valid.");
        return true;
    case SK_TRAIT_SPEECH:
        decide(out, SK_CACHE_DISABLED,
               "A speech model's prompt is more than its tokens, so tokens alone cannot identify its state.");
        return true;
    case SK_TRAIT_ROUTED:
        decide(out, SK_CACHE_DISABLED,
               "Control tokens switch adapters inside a prompt; its reuse has not been shown to be exact.");
        return true;
    case SK_TRAIT_CHUNKED:
        if (f->n_swa <= 0 || f->swa_full) return false; /* every cell stays: like any attention-only model */
        decide(out, SK_CACHE_DISABLED,
               "Chunked attention drops cells by other rules than a window; use the full window cache.");
        return true;
    case SK_TRAIT_UNSUPPORTED:
        decide(out, SK_CACHE_DISABLED, "This build of llama.cpp has no such architecture.");
        return true;
    case SK_TRAIT_NONE:
    case SK_TRAIT_COUNT: break;
    }
    return false;
}

static void decide_recurrent(const sk_family_facts *f, sk_family_policy *out) {
    if (f->n_swa > 0) { /* the partial state then mixes window cells and recurrent state: never measured */
        decide(out, SK_CACHE_DISABLED,
               "Recurrent layers beside a sliding window: reuse has not been shown to be exact.");
        return;
    }
    decide(out, SK_CACHE_KV_RECURRENT,
           "%s layers: keys, values and recurrent state are reused together at recorded boundaries.",
           f->is_recurrent ? "Recurrent" : "Attention and recurrent");
}

static void decide_attention(const sk_family_facts *f, const sk_family_entry *row, sk_family_policy *out) {
    if (row && row->record.mode == SK_CACHE_KV_RECURRENT)
        decide(out, SK_CACHE_DISABLED, "The architecture is recurrent, but the loaded model says it is not.");
    else if (f->n_tensors == 0)
        decide(out, SK_CACHE_DISABLED,
               "The file's tensor list could not be read, so hidden state cannot be ruled out.");
    else if (f->stateful_tensors > 0)
        decide(out, SK_CACHE_DISABLED,
               "The file has %zu recurrent tensors, but the loaded model says it has attention only.",
               f->stateful_tensors);
    else if (f->n_swa > 0 && !f->swa_full)
        decide(out, SK_CACHE_WINDOW_KV, "Sliding window of %d tokens: only recorded boundaries are reused.", f->n_swa);
    else if (f->n_swa > 0)
        decide(out, SK_CACHE_RESIDENT_KV,
               "Attention only, the sliding window keeps every cell: any shorter prefix is exact.");
    else
        decide(out, SK_CACHE_RESIDENT_KV, "Attention only: any shorter length of a stored prefix is exact.");
}

void sk_family_decide(const sk_family_facts *f, sk_family_policy *out) {
    memset(out, 0, sizeof *out);
    const char *arch = f->arch ? f->arch : "";
    const sk_family_entry *row = sk_registry_arch(sk_registry_get(), arch);
    snprintf(out->family, sizeof out->family, "%s", row ? row->record.family : arch);
    if (refuse_by_kind(f, out)) return;
    if (!row && !f->certified) {
        decide(out, SK_CACHE_DISABLED, "The architecture '%.60s' is unknown, so nothing is known about its state.",
               arch);
        return;
    }
    if (row && refuse_by_trait(f, row->trait, out)) return;
    if (f->is_hybrid || f->is_recurrent)
        decide_recurrent(f, out);
    else
        decide_attention(f, row, out);
}
