/* The engine as the owner of what is kept: how its hold is opened, and what the hold may ask of it. */
#include <stdio.h>

#include "engine/internal.h"

/* ---- what the hold asks of its owner ---- */

static bool make_room(void *ud, uint32_t cells) {
    return sk_make_room(ud, cells);
}

static bool evict_any(void *ud) {
    return sk_evict_any(ud);
}

/* From a thread of the stores. */
static void wake(void *ud) {
    sk_engine *en = ud;
    pthread_mutex_lock(&en->lock);
    pthread_cond_signal(&en->wake);
    pthread_mutex_unlock(&en->lock);
}

/* Answers that nobody waits for are taken to come first, whichever was asked for first: whoever waits then goes on
 * after all of them, never before the own one. */
static void erased(void *ud, size_t count, int rc) {
    sk_engine *en = ud;
    if (en->erase_unasked)
        en->erase_unasked--;
    else
        sk_erase_report(en, count, rc);
}

/* ---- opening ---- */

static sk_reuse_params reuse_params(const sk_engine *en) {
    return (sk_reuse_params){.ctx = en->ctx,
                             .policy = &en->setup.policy,
                             .off = en->params.cache_off,
                             .first_seq = en->setup.first_cache_seq,
                             .n_seqs = en->facts.cache_seqs,
                             .cost = en->setup.cost,
                             .logits_bytes = en->params.logits_bytes,
                             .n_vocab = (size_t)sk_model_get_info(en->model)->n_vocab,
                             .min_tokens = en->params.min_tokens,
                             .align = sk_engine_bit(en) && en->rows.aligned ? en->rows.multiple : 1};
}

int sk_keep_open(sk_engine *en, sk_err *e) {
    char name[17]; /* of the folder: enough of the namespace to be its own */
    snprintf(name, sizeof name, "%.16s", en->ns_hex);
    const sk_reuse_params reuse = reuse_params(en);
    /* bit mode wants a sequence's cells in an order of its own, and stages would each have to forget the same */
    const bool leaves = en->params.idle_to_ram && !sk_engine_bit(en) && !en->split;
    const sk_hold_params p = {.ram_bytes = en->params.ram_bytes,
                              .disk_dir = en->params.disk_dir,
                              .disk_bytes = en->params.disk_bytes,
                              .disk_throttle = en->params.disk_throttle,
                              .store_name = name,
                              .scratch = en->setup.tier_scratch,
                              .mode = en->setup.policy.mode,
                              .weight_bytes = leaves ? sk_model_get_info(en->model)->size_bytes : 0,
                              .make_room = make_room,
                              .evict_any = evict_any,
                              .wake = wake,
                              .erased = erased,
                              .ud = en};
    int rc = sk_hold_open(&en->hold, &reuse, &p, e);
    if (rc) return rc;
    const sk_hold *h = &en->hold;
    en->facts.state_reason = h->state_reason;
    en->facts.state_windows = h->tiers && h->caps.windows;
    en->facts.ram_store = h->ram_bytes > 0;
    en->facts.ram_bytes = h->ram_bytes;
    en->facts.disk_store = h->tiers && en->params.disk_dir;
    return SKIPPY_OK;
}
