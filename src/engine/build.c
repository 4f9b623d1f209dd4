/* Making an engine: parameters, context, identity, row class, cache. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "engine/internal.h"
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
    MAX_SEQS = 100   /* llama.cpp's limit is 256 ids: lanes, scratch and guards included */
};

static const uint64_t MIB = 1024 * 1024;

static void fill_defaults(sk_engine_params *p, const sk_model_info *mi) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (!p->n_lanes) p->n_lanes = DEFAULT_LANES;
    if (!p->n_ctx)
        p->n_ctx = mi->n_ctx_train > 0 && mi->n_ctx_train < DEFAULT_CTX ? (uint32_t)mi->n_ctx_train : DEFAULT_CTX;
    if (!p->n_batch) p->n_batch = DEFAULT_BATCH;
    if (!p->n_ubatch) p->n_ubatch = DEFAULT_BATCH;
    if (p->n_batch > p->n_ubatch) p->n_batch = p->n_ubatch; /* one piece per step: cancels act within it */
    if (p->n_threads <= 0) p->n_threads = cores > 0 ? (int32_t)cores : 1;
    if (p->n_threads_batch <= 0) p->n_threads_batch = p->n_threads;
    if (!p->logits_bytes) p->logits_bytes = 64 * MIB;
    if (!p->min_tokens) p->min_tokens = 16;
    if (!p->queue_max) p->queue_max = 256;
    if (!p->type_k[0]) snprintf(p->type_k, sizeof p->type_k, "f16");
    if (!p->type_v[0]) snprintf(p->type_v, sizeof p->type_v, "f16");
}

static int check_params(const sk_engine_params *p, sk_err *e) {
    if (p->n_lanes > 16)
        return sk_err_set(e, SKIPPY_E_INVALID, "%u lanes (-np); at most 16 can run at the same time", p->n_lanes);
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
static bool full_window_is_free(const sk_engine_params *p, int32_t n_swa) {
    return n_swa > 0 && (uint64_t)n_swa * (p->n_lanes + WINDOW_SEQS) + p->n_ubatch >= p->n_ctx;
}

/* Detached windows share one pool with the lanes' windows and the rows that are being computed. */
static uint32_t window_seqs(const sk_engine_params *p, int32_t n_swa) {
    uint64_t lanes = p->n_ubatch + (uint64_t)n_swa * p->n_lanes;
    uint64_t n = p->n_ctx > lanes ? (p->n_ctx - lanes) / (uint64_t)n_swa : 0;
    return n < 1 ? 1 : n > 64 ? 64 : (uint32_t)n;
}

/* How many snapshots the cache may hold: bookkeeping bounds attention state, memory bounds recurrent and window state.
 */
static uint32_t derive_seqs(const sk_engine_params *p, const sk_family_policy *policy, uint64_t state_bytes,
                            int32_t n_swa) {
    if (p->cache_off || policy->mode == SK_CACHE_DISABLED) return 0;
    if (p->cache_seqs) return p->cache_seqs;
    if (policy->mode == SK_CACHE_WINDOW_KV) return window_seqs(p, n_swa);
    if (!policy->exact_boundaries || state_bytes == 0)
        return n_swa > 0 ? DENSE_SEQS / 2 : DENSE_SEQS; /* guards double the ids */
    uint64_t budget = p->cache_bytes;
    if (!budget) {
        sk_host_memory memory;
        sk_host_memory_read("", &memory);
        budget = memory.available / 8;
        if (budget > 1024 * MIB) budget = 1024 * MIB;
    }
    uint64_t n = budget / state_bytes;
    if (n < MIN_STATE_SEQS) n = MIN_STATE_SEQS;
    return n > 64 ? 64 : (uint32_t)n;
}

static sk_context_params context_params(const sk_engine_params *p) {
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

static void decide_family(sk_engine *en, bool certified) {
    sk_family_facts facts = sk_model_get_info(en->model)->facts;
    facts.swa_full = en->params.swa_full;
    facts.certified = certified;
    sk_family_decide(&facts, &en->policy);
}

/* The receipt is looked up when the whole identity is known: an unknown family needs one, and one that failed overrules
 * the registry. */
static void ask_for_receipt(sk_engine *en) {
    en->facts.certified_text = en->certified_text;
    if (en->params.certified)
        en->facts.certified =
            en->params.certified(en->params.certified_ud, &en->identity, en->certified_text, sizeof en->certified_text);
    decide_family(en, en->facts.certified == SK_CERTIFIED_PASS);
    if (en->facts.certified == SK_CERTIFIED_FAIL) {
        en->policy.mode = SK_CACHE_DISABLED;
        snprintf(en->policy.reason, sizeof en->policy.reason, "%.*s", (int)sizeof en->policy.reason - 1,
                 en->certified_text);
    }
    if (en->policy.mode == SK_CACHE_DISABLED && !en->params.cache_off)
        sk_log(SK_LOG_WARN, "prefix reuse is off for this model: %s", en->policy.reason);
}

/* Refuses a context that cannot fit before llama.cpp allocates it: the kernel would grant the memory and end the
 * process later. */
static int check_memory(const sk_engine *en, uint32_t n_seqs, sk_err *e) {
    sk_host_memory memory;
    sk_host_memory_read("", &memory);
    if (memory.available == 0 || strcmp(en->device, "CPU") != 0)
        return SKIPPY_OK; /* unknown, or it may lie on a device */
    uint64_t cells = en->cost.cell * en->params.n_ctx,
             state = en->policy.exact_boundaries ? en->cost.state * n_seqs : 0;
    if (en->policy.mode == SK_CACHE_WINDOW_KV) state = 0; /* the window pool is part of the cells */
    if (cells + state <= memory.available) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_NOMEM,
                      "a context of %u cells needs %" PRIu64 " MiB of KV cache and %" PRIu64
                      " MiB of state for %u sequences, but %" PRIu64 " MiB are available. Choose a smaller -c%s",
                      en->params.n_ctx, cells / MIB, state / MIB, n_seqs, memory.available / MIB,
                      state ? " or --cache-seqs" : "");
}

/* Nobody chose the context: halve it until its KV cache takes at most a quarter of the free memory. */
static void fit_default_context(sk_engine *en) {
    sk_host_memory memory;
    sk_host_memory_read("", &memory);
    while (memory.available && en->params.n_ctx > SMALLEST_CTX &&
           en->cost.cell * en->params.n_ctx > memory.available / 4)
        en->params.n_ctx /= 2;
}

static int make_context(sk_engine *en, bool default_ctx, sk_err *e) {
    sk_engine_params *p = &en->params;
    sk_context_params cp = context_params(p);
    sk_runtime_devices(en->device, sizeof en->device);
    int rc = sk_context_probe_cost(en->model, &cp, &en->cost, e);
    if (rc) return rc;
    if (default_ctx) fit_default_context(en);
    cp.n_ctx = p->n_ctx;
    uint32_t cache_seqs = derive_seqs(p, &en->policy, en->cost.state, sk_model_get_info(en->model)->n_swa);
    en->first_scratch = p->n_lanes;
    en->n_scratch = sk_engine_bit(en) ? SK_ROW_CLASS_SCRATCH : 0;
    cp.n_seq_max = p->n_lanes + en->n_scratch + cache_seqs;
    bool stores = cache_seqs > 0 && (p->ram_bytes > 0 || p->disk_dir);
    en->tier_scratch = cp.n_seq_max; /* the one after the cache's */
    cp.n_seq_max += stores;
    cp.n_outputs = cp.n_seq_max;
    rc = check_memory(en, cp.n_seq_max, e);
    if (rc) return rc;
    rc = sk_context_create(en->model, &cp, &en->ctx, e);
    if (rc) return rc;
    en->facts.cache_seqs = cache_seqs;
    return SKIPPY_OK;
}

static bool digest_progress(void *ud, uint64_t done, uint64_t total) {
    (void)ud;
    (void)done;
    (void)total;
    return true;
}

/* The identity without tenant and caller namespace. */
static int make_identity(sk_engine *en, sk_err *e) {
    const sk_model_info *mi = sk_model_get_info(en->model);
    const sk_context_info *ci = sk_context_get_info(en->ctx);
    uname(&en->machine);
    skippy_identity *id = &en->identity;
    bool cached = false;
    int rc = skippy_file_digest(mi->path, en->digest_dir[0] ? en->digest_dir : NULL, digest_progress, NULL,
                                &id->weights_digest, &cached);
    if (rc) return sk_err_set(e, rc, "the weights of '%s' could not be digested: %s", mi->path, skippy_strerror(rc));
    if (en->params.n_lora) en->adapters = calloc(en->params.n_lora, sizeof *en->adapters);
    for (size_t i = 0; i < en->params.n_lora; i++) {
        if (!en->adapters) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
        rc = skippy_file_digest(en->params.lora[i].path, NULL, NULL, NULL, &en->adapters[i].digest, NULL);
        if (rc) return sk_err_set(e, rc, "adapter '%s' could not be read", en->params.lora[i].path);
        en->adapters[i].scale = en->params.lora[i].scale;
    }
    sk_runtime_abi(en->abi, sizeof en->abi);
    id->model_id = mi->id;
    id->topology_id = "1";
    id->stage_id = "0";
    id->layer_end = (uint32_t)mi->n_layer;
    id->runtime_abi = en->abi;
    id->kv_type_k = ci->type_k;
    id->kv_type_v = ci->type_v;
    id->flash_attn = ci->flash_attn;
    id->kv_unified = true;
    id->swa_full = en->params.swa_full && mi->n_swa > 0; /* says nothing about a model without a window */
    id->kv_layout = "llama.cpp-unified-1";
    id->n_ctx = ci->n_ctx;
    id->rope_freq_base = en->params.rope_freq_base;
    id->rope_freq_scale = en->params.rope_freq_scale;
    id->adapters = en->adapters;
    id->n_adapters = en->params.n_lora;
    id->backend_device = en->device;
    id->cpu_arch = en->machine.machine;
    id->big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    return SKIPPY_OK;
}

static int name_namespace(sk_engine *en, sk_err *e) {
    skippy_key ns;
    int rc = skippy_namespace_key(&en->identity, &ns);
    if (rc) return sk_err_set(e, rc, "the identity could not be formed");
    sk_hex(ns.bytes, sizeof ns.bytes, en->ns_hex);
    return SKIPPY_OK;
}

/* Bit mode: which batch shapes are allowed. */
static int probe_rows(sk_engine *en, sk_err *e) {
    if (!sk_engine_bit(en)) return SKIPPY_OK;
    if (sk_context_get_info(en->ctx)->flash_attn != 1 && sk_context_get_info(en->ctx)->has_kv)
        return sk_err_set(
            e, SKIPPY_E_UNSUPPORTED,
            "--exact bit needs flash attention (-fa on): without it other requests' cells take part in every sum");
    skippy_key ns;
    int rc = skippy_namespace_key(&en->identity, &ns); /* still without a batch schedule */
    if (rc) return sk_err_set(e, rc, "the identity could not be formed");
    uint8_t key[SK_HASH_BYTES];
    sk_row_class_key(ns.bytes, en->ctx, en->params.n_threads, en->params.n_threads_batch, key);
    sk_err why = {0};
    rc = sk_row_class_get(en->ctx, en->model, en->digest_dir, key, 0, en->first_scratch, en->n_scratch, &en->rows, NULL,
                          &why);
    if (rc == SKIPPY_E_UNSUPPORTED)
        return sk_err_set(e, rc, "--exact bit is not possible with this model on this machine: %s. Use --exact state",
                          why.text);
    if (rc) return sk_err_set(e, rc, "the row-class probe failed: %s", why.text);
    sk_context_clear(en->ctx);
    snprintf(en->schedule, sizeof en->schedule, "batches of at most %u rows, in multiples of %u%s", en->rows.max_rows,
             en->rows.multiple, en->rows.aligned ? ", prompts cut at absolute multiples" : "");
    en->identity.batch_schedule = en->schedule;
    return SKIPPY_OK;
}

static void fill_facts(sk_engine *en) {
    const sk_context_info *ci = sk_context_get_info(en->ctx);
    sk_engine_facts *f = &en->facts;
    f->n_ctx = ci->n_ctx;
    f->n_lanes = en->params.n_lanes;
    f->n_batch = en->params.n_batch;
    f->n_ubatch = en->params.n_ubatch;
    f->n_threads = en->params.n_threads;
    f->cache_mode = en->params.cache_off ? "off" : sk_cache_mode_name(en->policy.mode);
    f->cache_reason = en->params.cache_off ? "switched off by --cache off" : en->policy.reason;
    f->family = en->policy.family;
    f->exact = sk_engine_bit(en) ? "bit" : "state";
    f->schedule = en->schedule;
    f->namespace_hex = en->ns_hex;
    f->type_k = ci->type_k;
    f->type_v = ci->type_v;
    f->flash_attn = ci->flash_attn;
}

static int make_tables(sk_engine *en, sk_err *e) {
    en->lanes = calloc(en->params.n_lanes, sizeof *en->lanes);
    en->lanes_public = calloc(en->params.n_lanes, sizeof *en->lanes_public);
    en->batch = calloc(en->params.n_batch + 64, sizeof *en->batch);
    if (!en->lanes || !en->lanes_public || !en->batch) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        en->lanes[i].id = i;
        en->lanes[i].out_row = -1;
    }
    return SKIPPY_OK;
}

int sk_engine_build(const sk_model *m, const sk_engine_params *p, sk_engine **out, sk_err *e) {
    sk_engine *en = calloc(1, sizeof *en);
    if (!en) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    en->model = m;
    en->params = *p;
    en->params.disk_dir = p->disk_dir ? en->disk_dir : NULL;
    if (p->disk_dir && strlen(p->disk_dir) >= sizeof en->disk_dir) {
        free(en);
        return sk_err_set(e, SKIPPY_E_INVALID, "the path of the disk cache is longer than %zu bytes",
                          sizeof en->disk_dir - 1);
    }
    if (p->disk_dir) snprintf(en->disk_dir, sizeof en->disk_dir, "%s", p->disk_dir);
    if (p->digest_dir) snprintf(en->digest_dir, sizeof en->digest_dir, "%s", p->digest_dir);
    pthread_mutex_init(&en->lock, NULL);
    pthread_cond_init(&en->wake, NULL);
    pthread_cond_init(&en->erased, NULL);
    fill_defaults(&en->params, sk_model_get_info(m));
    /* bit mode needs window cells in position order, which a detached window cannot give */
    if (sk_engine_bit(en) || full_window_is_free(&en->params, sk_model_get_info(m)->n_swa)) en->params.swa_full = true;
    int rc = check_params(&en->params, e);
    if (rc == SKIPPY_OK) {
        decide_family(en, p->certified != NULL); /* for the sizes of the context; the receipt may take it back */
        rc = make_context(en, p->n_ctx == 0, e);
    }
    if (rc == SKIPPY_OK) rc = make_identity(en, e);
    if (rc == SKIPPY_OK) rc = probe_rows(en, e);
    if (rc == SKIPPY_OK) rc = name_namespace(en, e);
    if (rc == SKIPPY_OK) ask_for_receipt(en);
    if (rc == SKIPPY_OK) rc = make_tables(en, e);
    if (rc == SKIPPY_OK) {
        const sk_reuse_params rp = {.ctx = en->ctx,
                                    .policy = &en->policy,
                                    .off = en->params.cache_off,
                                    .first_seq = en->first_scratch + en->n_scratch,
                                    .n_seqs = en->facts.cache_seqs,
                                    .cost = en->cost,
                                    .logits_bytes = en->params.logits_bytes,
                                    .n_vocab = (size_t)sk_model_get_info(m)->n_vocab,
                                    .min_tokens = en->params.min_tokens,
                                    .align = sk_engine_bit(en) && en->rows.aligned ? en->rows.multiple : 1};
        rc = sk_reuse_init(&en->reuse, &rp, e);
    }
    if (rc == SKIPPY_OK) rc = sk_spill_open(en, e);
    sk_shadow_init(&en->shadow, en->params.shadow_share, (size_t)sk_model_get_info(m)->n_vocab);
    if (rc) {
        sk_engine_destroy(en);
        return rc;
    }
    fill_facts(en);
    *out = en;
    return SKIPPY_OK;
}

void sk_engine_destroy(sk_engine *en) {
    sk_job *lists[2] = {en->queue_head, en->inbox_head};
    for (int k = 0; k < 2; k++) {
        while (lists[k]) {
            sk_job *next = lists[k]->next;
            sk_job_free(lists[k]);
            lists[k] = next;
        }
    }
    for (uint32_t i = 0; en->lanes && i < en->params.n_lanes; i++) {
        sk_job_free(en->lanes[i].job);
        free(en->lanes[i].kept);
        sk_lineage_release(en->lanes[i].lineage);
    }
    sk_shadow_free(&en->shadow);
    sk_tiers_close(en->tiers); /* finishes what was handed over */
    if (en->reuse.ctx) sk_reuse_free(&en->reuse);
    sk_context_free(en->ctx);
    free(en->adapters);
    free(en->lanes);
    free(en->lanes_public);
    free(en->batch);
    free(en->cancels);
    pthread_cond_destroy(&en->erased);
    pthread_cond_destroy(&en->wake);
    pthread_mutex_destroy(&en->lock);
    free(en);
}
