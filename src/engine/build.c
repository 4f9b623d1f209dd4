/* Making an engine: parameters, context, identity, row class, stages, cache. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "engine/internal.h"

/* ---- parameters ---- */

static int copy_params(sk_engine *en, const sk_engine_params *p, sk_err *e) {
    if (p->disk_dir && strlen(p->disk_dir) >= sizeof en->disk_dir)
        return sk_err_set(e, SKIPPY_E_INVALID, "the path of the disk cache is longer than %zu bytes",
                          sizeof en->disk_dir - 1);
    en->params = *p;
    if (!en->params.logits_bytes) en->params.logits_bytes = 64 << 20;
    if (!en->params.min_tokens) en->params.min_tokens = 16;
    if (!en->params.queue_max) en->params.queue_max = 256;
    if (p->disk_dir) snprintf(en->disk_dir, sizeof en->disk_dir, "%s", p->disk_dir);
    en->params.disk_dir = p->disk_dir ? en->disk_dir : NULL;
    if (p->digest_dir) snprintf(en->digest_dir, sizeof en->digest_dir, "%s", p->digest_dir);
    return SKIPPY_OK;
}

/* What a model that is split cannot do. */
static int copy_split(sk_engine *en, sk_err *e) {
    if (!en->params.split) return SKIPPY_OK;
    if (sk_engine_bit(en))
        return sk_err_set(
            e, SKIPPY_E_UNSUPPORTED,
            "--exact bit holds for a whole model only: stages do not pad their batches. Use --exact state");
    if (en->params.shadow_share > 0)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "--shadow-recompute needs the whole model in one process");
    if (en->params.n_lora)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "adapters (--lora) need the whole model in one process");
    en->split_params = *en->params.split;
    en->params.split = &en->split_params;
    if (!en->split_params.wait_ms) en->split_params.wait_ms = 60000;
    if (!en->split_params.patience_ms) en->split_params.patience_ms = 60000;
    return SKIPPY_OK;
}

sk_setup_params sk_engine_setup_params(const sk_engine_params *p) {
    return (sk_setup_params){.n_ctx = p->n_ctx,
                             .n_lanes = p->n_lanes,
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
                             .cache_off = p->cache_off,
                             .certified = p->certified != NULL,
                             .cache_seqs = p->cache_seqs,
                             .cache_bytes = p->cache_bytes,
                             .stores = p->ram_bytes > 0 || p->disk_dir,
                             .lora = p->lora,
                             .n_lora = p->n_lora};
}

static int make_setup(sk_engine *en, sk_err *e) {
    sk_engine_params *p = &en->params;
    en->n_scratch = sk_engine_bit(en) ? SK_ROW_CLASS_SCRATCH : 0;
    sk_setup_params sp = sk_engine_setup_params(p);
    sp.sorted_cells = sk_engine_bit(en); /* a detached window cannot keep its cells in position order */
    sp.n_scratch = en->n_scratch;
    sp.digest_dir = en->digest_dir;
    int rc = sk_setup_open(en->model, &sp, &en->setup, e);
    if (rc) return rc;
    const sk_setup *s = &en->setup;
    en->ctx = s->ctx;
    en->first_scratch = p->n_lanes = s->n_lanes;
    p->n_ctx = s->n_ctx;
    p->n_batch = s->n_batch;
    p->n_ubatch = s->n_ubatch;
    p->n_threads = s->n_threads;
    p->n_threads_batch = s->n_threads_batch;
    p->swa_full = s->swa_full;
    en->facts.cache_seqs = s->cache_seqs;
    return SKIPPY_OK;
}

/* ---- identity ---- */

/* The receipt is looked up when the whole identity is known: an unknown family needs one, and one that failed overrules
 * the registry. */
static void ask_for_receipt(sk_engine *en) {
    en->facts.certified_text = en->certified_text;
    if (en->params.certified)
        en->facts.certified = en->params.certified(en->params.certified_ud, &en->setup.identity, en->certified_text,
                                                   sizeof en->certified_text);
    sk_family_policy *policy = &en->setup.policy;
    sk_setup_decide(&en->setup, en->model, en->facts.certified == SK_CERTIFIED_PASS);
    if (en->facts.certified == SK_CERTIFIED_FAIL) {
        policy->mode = SK_CACHE_DISABLED;
        snprintf(policy->reason, sizeof policy->reason, "%.*s", (int)sizeof policy->reason - 1, en->certified_text);
    }
    if (policy->mode == SK_CACHE_DISABLED && !en->params.cache_off)
        sk_log(SK_LOG_WARN, "prefix reuse is off for this model: %s", policy->reason);
}

static int name_namespace(sk_engine *en, sk_err *e) {
    skippy_key ns;
    int rc = skippy_namespace_key(&en->setup.identity, &ns);
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
    int rc = skippy_namespace_key(&en->setup.identity, &ns); /* still without a batch schedule */
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
    en->setup.identity.batch_schedule = en->schedule;
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
    f->cache_mode = en->params.cache_off ? "off" : sk_cache_mode_name(en->setup.policy.mode);
    f->cache_reason = en->params.cache_off ? "switched off by --cache off" : en->setup.policy.reason;
    f->family = en->setup.policy.family;
    f->exact = sk_engine_bit(en) ? "bit" : "state";
    f->schedule = en->schedule;
    f->namespace_hex = en->ns_hex;
    f->type_k = ci->type_k;
    f->type_v = ci->type_v;
    f->flash_attn = ci->flash_attn;
    f->topology = en->split ? en->split->topology : "";
    f->n_stages = en->split ? en->split->n_cards : 0;
    f->stages = en->split ? en->split->cards_at_start : NULL;
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

static int build(sk_engine *en, const sk_engine_params *p, sk_err *e) {
    int rc = copy_params(en, p, e);
    if (rc == SKIPPY_OK) rc = copy_split(en, e);
    if (rc == SKIPPY_OK) rc = make_setup(en, e);
    if (rc == SKIPPY_OK) rc = probe_rows(en, e);
    if (rc == SKIPPY_OK) rc = sk_split_open(en, e); /* the shape of the split is part of the identity */
    if (rc == SKIPPY_OK) rc = name_namespace(en, e);
    if (rc) return rc;
    ask_for_receipt(en);
    rc = make_tables(en, e);
    if (rc == SKIPPY_OK) rc = sk_keep_open(en, e);
    if (rc == SKIPPY_OK) rc = sk_split_open_kept(en, e);
    return rc;
}

int sk_engine_build(const sk_model *m, const sk_engine_params *p, sk_engine **out, sk_err *e) {
    sk_engine *en = calloc(1, sizeof *en);
    if (!en) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    en->model = m;
    pthread_mutex_init(&en->lock, NULL);
    pthread_cond_init(&en->wake, NULL);
    pthread_cond_init(&en->erased, NULL);
    int rc = build(en, p, e);
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
            sk_recall_drop(&en->hold, &lists[k]->recall);
            sk_job_free(lists[k]);
            lists[k] = next;
        }
    }
    sk_split_close(en);
    for (uint32_t i = 0; en->lanes && i < en->params.n_lanes; i++) {
        if (en->lanes[i].job) sk_recall_drop(&en->hold, &en->lanes[i].job->recall);
        sk_job_free(en->lanes[i].job);
        free(en->lanes[i].kept);
        sk_lineage_release(en->lanes[i].lineage);
    }
    sk_shadow_free(&en->shadow);
    sk_hold_close(&en->hold); /* finishes what was handed over */
    sk_setup_close(&en->setup);
    free(en->lanes);
    free(en->lanes_public);
    free(en->batch);
    free(en->cancels);
    pthread_cond_destroy(&en->erased);
    pthread_cond_destroy(&en->wake);
    pthread_mutex_destroy(&en->lock);
    free(en);
}
