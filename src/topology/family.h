/* Family cache policy: which kind of state a model continues from, and so which reuse is exact.
 * Data and pure functions; no llama.cpp. */
#ifndef SKIPPY_TOPOLOGY_FAMILY_H
#define SKIPPY_TOPOLOGY_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the loaded model and its file say about its memory. */
typedef struct sk_family_facts {
    const char *arch;             /* general.architecture */
    bool is_hybrid, is_recurrent; /* what llama.cpp answers for the loaded model: asked first */
    bool is_diffusion, has_encoder, has_decoder;
    int32_t n_swa;           /* sliding window in tokens, 0 = none */
    bool swa_full;           /* the sliding-window cache keeps every cell */
    size_t n_tensors;        /* tensor names scanned; 0 = the file's tensor list could not be read */
    bool certified;          /* this very file passed certification: an unknown architecture is judged by its memory */
    size_t stateful_tensors; /* names that contain .ssm, ssm_, time_mix, recurrent or rwkv: asked second */
} sk_family_facts;

enum sk_cache_mode {
    SK_CACHE_DISABLED = 0,    /* no reuse; `reason` says why */
    SK_CACHE_RESIDENT_KV = 1, /* attention only: any shorter length of a stored prefix is exact */
    SK_CACHE_WINDOW_KV = 2,   /* sliding window: recorded boundaries only, window detached from the lane */
    SK_CACHE_KV_RECURRENT = 3 /* hybrid or recurrent: KV and recurrent state together, recorded boundaries only */
};

typedef struct sk_family_policy {
    enum sk_cache_mode mode;
    bool exact_boundaries; /* only recorded boundaries are usable */
    bool detach_window;    /* snapshots must own their window cells */
    char family[48];       /* registry name, or the architecture */
    char reason[160];      /* one sentence for people */
} sk_family_policy;

/* Decides. Unknown architecture, contradictory facts (the file has stateful tensors but the model says dense),
 * unreadable tensor list, encoder or diffusion models: SK_CACHE_DISABLED with the reason. Never fails. */
void sk_family_decide(const sk_family_facts *f, sk_family_policy *out);

/* Payload name for people: "ResidentKv", "KvRecurrent", "disabled". */
const char *sk_cache_mode_name(enum sk_cache_mode mode);

/* True when a tensor name belongs to recurrent state (case-insensitive substring match of the five patterns). */
bool sk_family_stateful_tensor(const char *name);

/* A known family: one row of the registry (registry.h has the rest). */
typedef struct sk_family_record {
    const char *family, *arch; /* arch: "" where llama.cpp has none */
    enum sk_cache_mode mode;
    const char *example; /* a model of the family, "" where none was reviewed */
} sk_family_record;

/* Row i of the registry, NULL past the end. */
const sk_family_record *sk_family_at(size_t i);

#endif
