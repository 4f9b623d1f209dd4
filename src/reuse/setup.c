#include "reuse/setup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/host_memory.h"

enum {
    DEFAULT_LANES = 4,
    DEFAULT_CTX =
        16384, /* a coding agent's prompt; less when its KV cache would take over a quarter of the free memory */
    SMALLEST_CTX = 2048,
    DEFAULT_BATCH = 512,
    DENSE_SEQS =
        32, /* snapshots of attention state cost only bookkeeping, but every id costs a row of logits in llama.cpp */
    MIN_STATE_SEQS = 4,
    WINDOW_SEQS = 8, /* fewer detached windows than this are not worth their restrictions */
    MAX_LANES = 16,
    MAX_SEQS = 100 /* llama.cpp's limit is 256 ids: lanes, scratch and guards included */
};

static const uint64_t MIB = 1024 * 1024;

/* ---- sizes ---- */

static void fill_defaults(sk_setup_params *p, const sk_model_info *mi) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (!p->n_lanes) p->n_lanes = DEFAULT_LANES;
    if (!p->n_ctx)
        p->n_ctx = mi->n_ctx_train > 0 && mi->n_ctx_train < DEFAULT_CTX ? (uint32_t)mi->n_ctx_train : DEFAULT_CTX;
    if (!p->n_batch) p->n_batch = DEFAULT_BATCH;
    if (!p->n_ubatch) p->n_ubatch = DEFAULT_BATCH;
    if (p->n_batch > p->n_ubatch) p->n_batch = p->n_ubatch; /* one piece per step: cancels act within it */
    if (p->n_threads <= 0) p->n_threads = cores > 0 ? (int32_t)cores : 1;
    if (p->n_threads_batch <= 0) p->n_threads_batch = p->n_threads;
}

static int check_params(const sk_setup_params *p, sk_err *e) {
    if (p->n_lanes > MAX_LANES)
        return sk_err_set(e, SKIPPY_E_INVALID, "%u lanes (-np); at most %d can run at the same time", p->n_lanes,
                          MAX_LANES);
    if (p->n_batch < p->n_lanes)
        return sk_err_set(e, SKIPPY_E_INVALID, "a batch of %u rows (-b, -ub) is smaller than the %u lanes (-np)",
                          p->n_batch, p->n_lanes);
    if (p->cache_seqs > MAX_SEQS)
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "%u cache sequences; llama.cpp allows 256 with lanes and guards, so at most %d here",
                          p->cache_seqs, MAX_SEQS);
    return SKIPPY_OK;
}

/* llama.cpp gives a window cache n_swa cells per sequence, but never more cells than the context. Where that limit is
 * reached, the full-size cache costs no more memory, and then any stored length can be reused, not only recorded
 * boundaries. */
static bool full_window_is_free(const sk_setup_params *p, int32_t n_swa) {
    return n_swa > 0 && (uint64_t)n_swa * (p->n_lanes + WINDOW_SEQS) + p->n_ubatch >= p->n_ctx;
}

/* Detached windows share one pool with the lanes' windows and the rows that are being computed. */
static uint32_t window_seqs(const sk_setup_params *p, int32_t n_swa) {
    uint64_t lanes = p->n_ubatch + (uint64_t)n_swa * p->n_lanes;
    uint64_t n = p->n_ctx > lanes ? (p->n_ctx - lanes) / (uint64_t)n_swa : 0;
    return n < 1 ? 1 : n > 64 ? 64 : (uint32_t)n;
}

static uint64_t state_budget(uint64_t asked) {
    if (asked) return asked;
    sk_host_memory memory;
    sk_host_memory_read("", &memory);
    uint64_t eighth = memory.available / 8;
    return eighth < 1024 * MIB ? eighth : 1024 * MIB;
}

/* How many snapshots the cache may hold: bookkeeping bounds attention state, memory bounds recurrent and window state.
 */
static uint32_t derive_seqs(const sk_setup_params *p, const sk_setup *s, int32_t n_swa) {
    if (p->cache_off || s->policy.mode == SK_CACHE_DISABLED) return 0;
    if (p->cache_seqs) return p->cache_seqs;
    if (s->policy.mode == SK_CACHE_WINDOW_KV) return window_seqs(p, n_swa);
    if (!s->policy.exact_boundaries || s->cost.state == 0)
        return n_swa > 0 ? DENSE_SEQS / 2 : DENSE_SEQS; /* guards double the ids */
    uint64_t n = state_budget(p->cache_bytes) / s->cost.state;
    if (n < MIN_STATE_SEQS) n = MIN_STATE_SEQS;
    return n > 64 ? 64 : (uint32_t)n;
}

/* Nobody chose the context: halve it until its KV cache takes at most a quarter of the free memory. */
static void fit_default_context(sk_setup_params *p, uint64_t cell) {
    sk_host_memory memory;
    sk_host_memory_read("", &memory);
    while (memory.available && p->n_ctx > SMALLEST_CTX && cell * p->n_ctx > memory.available / 4) p->n_ctx /= 2;
}

/* Refuses a context that cannot fit before llama.cpp allocates it: the kernel would grant the memory and end the
 * process later. */
static int check_memory(const sk_setup *s, uint32_t n_ctx, uint32_t n_seqs, sk_err *e) {
    sk_host_memory memory;
    sk_host_memory_read("", &memory);
    if (memory.available == 0 || strcmp(s->device, "CPU") != 0)
        return SKIPPY_OK; /* unknown, or it may lie on a device */
    uint64_t cells = s->cost.cell * n_ctx, state = s->policy.exact_boundaries ? s->cost.state * n_seqs : 0;
    if (s->policy.mode == SK_CACHE_WINDOW_KV) state = 0; /* the window pool is part of the cells */
    if (cells + state <= memory.available) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_NOMEM,
                      "a context of %u cells needs %" PRIu64 " MiB of KV cache and %" PRIu64
                      " MiB of state for %u sequences, but %" PRIu64 " MiB are available. Choose a smaller -c%s",
                      n_ctx, cells / MIB, state / MIB, n_seqs, memory.available / MIB, state ? " or --cache-seqs" : "");
}

/* ---- the context ---- */

static sk_context_params context_params(const sk_setup_params *p) {
    return (sk_context_params){
        .n_ctx = p->n_ctx,
        .n_batch = p->n_batch,
        .n_ubatch = p->n_ubatch,
        .n_threads = p->n_threads,
        .n_threads_batch = p->n_threads_batch,
        .flash_attn = p->flash_attn,
        .type_k = p->type_k,
        .type_v = p->type_v,
        .swa_full = p->swa_full,
        .rope_freq_base = p->rope_freq_base,
        .rope_freq_scale = p->rope_freq_scale,
        .lora = p->lora,
        .n_lora = p->n_lora,
    };
}

static int make_context(sk_setup *s, const sk_model *m, sk_setup_params *p, sk_err *e) {
    const bool default_ctx = p->n_ctx == 0;
    const int32_t n_swa = sk_model_get_info(m)->n_swa;
    fill_defaults(p, sk_model_get_info(m));
    p->swa_full = p->swa_full || p->sorted_cells || full_window_is_free(p, n_swa);
    s->swa_full = p->swa_full;
    int rc = check_params(p, e);
    if (rc) return rc;
    sk_setup_decide(s, m, p->certified); /* for the sizes of the context; a receipt may take it back */
    sk_context_params cp = context_params(p);
    sk_runtime_devices(s->device, sizeof s->device);
    rc = sk_context_probe_cost(m, &cp, &s->cost, e);
    if (rc) return rc;
    if (default_ctx) fit_default_context(p, s->cost.cell);
    cp.n_ctx = p->n_ctx;
    s->cache_seqs = derive_seqs(p, s, n_swa);
    s->first_cache_seq = p->n_lanes + p->n_scratch;
    s->tier_scratch = s->first_cache_seq + s->cache_seqs; /* the one after the cache's */
    cp.n_seq_max = s->tier_scratch + (s->cache_seqs > 0 && p->stores);
    cp.n_outputs = cp.n_seq_max;
    rc = check_memory(s, cp.n_ctx, cp.n_seq_max, e);
    return rc ? rc : sk_context_create(m, &cp, &s->ctx, e);
}

/* ---- the identity ---- */

static int digest_adapters(sk_setup *s, const sk_setup_params *p, sk_err *e) {
    if (p->n_lora == 0) return SKIPPY_OK;
    s->adapters = calloc(p->n_lora, sizeof *s->adapters);
    if (!s->adapters) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    for (size_t i = 0; i < p->n_lora; i++) {
        int rc = skippy_file_digest(p->lora[i].path, NULL, NULL, NULL, &s->adapters[i].digest, NULL);
        if (rc) return sk_err_set(e, rc, "adapter '%s' could not be read", p->lora[i].path);
        s->adapters[i].scale = p->lora[i].scale;
    }
    return SKIPPY_OK;
}

static int make_identity(sk_setup *s, const sk_model *m, const sk_setup_params *p, sk_err *e) {
    const sk_model_info *mi = sk_model_get_info(m);
    const sk_context_info *ci = sk_context_get_info(s->ctx);
    skippy_identity *id = &s->identity;
    const char *remembered = p->digest_dir && *p->digest_dir ? p->digest_dir : NULL;
    int rc = skippy_file_digest(mi->path, remembered, NULL, NULL, &id->weights_digest, NULL);
    if (rc) return sk_err_set(e, rc, "the weights of '%s' could not be digested: %s", mi->path, skippy_strerror(rc));
    rc = digest_adapters(s, p, e);
    if (rc) return rc;
    uname(&s->machine);
    sk_runtime_abi(s->abi, sizeof s->abi);
    sk_setup_name_stage(s, p->topology_id ? p->topology_id : "1", p->stage_id ? p->stage_id : "0", p->stage_index);
    id->model_id = mi->id;
    id->layer_start = (uint32_t)mi->stage.layer_start;
    id->layer_end = (uint32_t)mi->stage.layer_end;
    id->runtime_abi = s->abi;
    id->kv_type_k = ci->type_k;
    id->kv_type_v = ci->type_v;
    id->flash_attn = ci->flash_attn;
    id->kv_unified = true;
    id->swa_full = s->swa_full && mi->n_swa > 0; /* says nothing about a model without a window */
    id->kv_layout = "llama.cpp-unified-1";
    id->n_ctx = ci->n_ctx;
    id->rope_freq_base = p->rope_freq_base;
    id->rope_freq_scale = p->rope_freq_scale;
    id->adapters = s->adapters;
    id->n_adapters = p->n_lora;
    id->backend_device = s->device;
    id->cpu_arch = s->machine.machine;
    id->big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    return SKIPPY_OK;
}

void sk_setup_name_stage(sk_setup *s, const char *topology_id, const char *stage_id, uint32_t stage_index) {
    snprintf(s->topology, sizeof s->topology, "%s", topology_id);
    snprintf(s->stage, sizeof s->stage, "%s", stage_id);
    s->identity.topology_id = s->topology;
    s->identity.stage_id = s->stage;
    s->identity.stage_index = stage_index;
}

void sk_setup_decide(sk_setup *s, const sk_model *m, bool certified) {
    sk_family_facts facts = sk_model_get_info(m)->facts;
    facts.swa_full = s->swa_full;
    facts.certified = certified;
    sk_family_decide(&facts, &s->policy);
}

/* ---- life ---- */

static void note_sizes(sk_setup *s, const sk_setup_params *p) {
    const sk_context_info *ci = sk_context_get_info(s->ctx);
    s->n_ctx = ci->n_ctx;
    s->n_lanes = p->n_lanes;
    s->n_batch = p->n_batch;
    s->n_ubatch = p->n_ubatch;
    s->n_threads = p->n_threads;
    s->n_threads_batch = p->n_threads_batch;
}

int sk_setup_open(const sk_model *m, const sk_setup_params *params, sk_setup *out, sk_err *e) {
    memset(out, 0, sizeof *out);
    sk_setup_params p = *params;
    int rc = make_context(out, m, &p, e);
    if (rc == SKIPPY_OK) rc = make_identity(out, m, &p, e);
    if (rc) {
        sk_setup_close(out);
        return rc;
    }
    note_sizes(out, &p);
    return SKIPPY_OK;
}

void sk_setup_close(sk_setup *s) {
    sk_context_free(s->ctx);
    free(s->adapters);
    memset(s, 0, sizeof *s);
}
