/* From settings to a context with an identity: what the engine and each stage of a split model do alike before they
 * serve. Sizes of the context and of the cache, the check that they fit the machine's memory, the family's policy, and
 * everything of the identity but tenant and caller's namespace. */
#ifndef SKIPPY_REUSE_SETUP_H
#define SKIPPY_REUSE_SETUP_H

#include <sys/utsname.h>

#include "base/err.h"
#include "runtime/context.h"
#include "skippy/identity.h"
#include "topology/family.h"

typedef struct sk_setup_params {
    uint32_t n_ctx; /* 0 = min(model's, 16384), halved until its KV cache takes at most a quarter of the free memory */
    uint32_t n_lanes;                   /* 0 = 4 */
    uint32_t n_batch, n_ubatch;         /* 0 = 512 */
    int32_t n_threads, n_threads_batch; /* 0 = cores */
    int flash_attn;                     /* -1 auto, 0 off, 1 on */
    const char *type_k, *type_v;        /* ggml names; NULL or "" = f16 */
    bool swa_full;
    float rope_freq_base, rope_freq_scale; /* 0 = model's */
    bool cache_off, certified;
    bool sorted_cells;      /* window cells must stay in position order (bit mode) */
    uint32_t n_scratch;     /* sequences between the lanes' and the cache's (bit mode) */
    uint32_t cache_seqs;    /* 0 = derived from the model and cache_bytes */
    uint64_t cache_bytes;   /* 0 = derived from the machine */
    bool stores;            /* state will be moved: one more sequence id is needed */
    const char *digest_dir; /* where weight digests are remembered; NULL or "" = not */
    const sk_lora_spec *lora;
    size_t n_lora;
    const char *topology_id, *stage_id; /* NULL = "1" and "0": the whole model */
    uint32_t stage_index;
} sk_setup_params;

typedef struct sk_setup {
    sk_context *ctx;
    sk_family_policy policy;
    sk_memory_cost cost;
    uint32_t n_ctx, n_lanes, n_batch, n_ubatch; /* resolved */
    int32_t n_threads, n_threads_batch;
    bool swa_full; /* asked for, needed, or free */
    uint32_t first_cache_seq, cache_seqs, tier_scratch;
    skippy_identity identity; /* borrows from this struct and from the model: the setup must not move */
    char abi[512], device[128];
    struct utsname machine;
    skippy_adapter *adapters;
    char topology[512], stage[16];
} sk_setup;

/* Errors in words: context larger than the model's or than memory, KV type unknown, weights that cannot be read ...
 * After an error nothing needs to be closed. */
int sk_setup_open(const sk_model *m, const sk_setup_params *p, sk_setup *out, sk_err *e);
/* Frees the context. A zeroed setup is fine. */
void sk_setup_close(sk_setup *s);
/* Asks the family's policy again, now that it is known whether a receipt exists. */
void sk_setup_decide(sk_setup *s, const sk_model *m, bool certified);
/* Names the split and the stage in the identity, where they were not known before. Strings are copied. */
void sk_setup_name_stage(sk_setup *s, const char *topology_id, const char *stage_id, uint32_t stage_index);

#endif
