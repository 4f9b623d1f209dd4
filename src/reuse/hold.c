/* Opening and closing the cache of a context, and what is done to all of it. */
#include "reuse/hold.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "reuse/hold_internal.h"

static const uint64_t STAGING = (uint64_t)64 << 20;

/* ---- opening ---- */

static void on_tier_event(void *ud) {
    sk_hold *h = ud;
    pthread_mutex_lock(&h->lock);
    h->event = true;
    pthread_cond_signal(&h->reported);
    pthread_mutex_unlock(&h->lock);
    if (h->params.wake) h->params.wake(h->params.ud);
}

static int start_stores(sk_hold *h, uint64_t ram, sk_err *e) {
    /* the limit on memory holds for what waits as well */
    uint64_t staging = ram == 0 || ram / 4 > STAGING ? STAGING : ram / 4;
    const sk_tiers_params p = {.ram_bytes = ram ? ram - staging : 0,
                               .disk_dir = h->params.disk_dir,
                               .disk_bytes = h->params.disk_bytes,
                               .store_name = h->params.store_name,
                               .staging_bytes = staging,
                               .throttle_bytes = h->params.disk_throttle,
                               .wake = on_tier_event,
                               .ud = h};
    int rc = sk_tiers_open(&p, &h->tiers, e);
    if (rc) return rc;
    h->reuse.before_evict = sk_hold_keep_entry;
    h->reuse.before_evict_row = sk_hold_keep_row;
    h->reuse.ud = h;
    h->ram_bytes = ram;
    return SKIPPY_OK;
}

/* Checks the codec on the live context and starts the stores. */
static int open_stores(sk_hold *h, sk_err *e) {
    uint64_t ram = sk_ram_cap(h->params.ram_bytes);
    if (!h->reuse.enabled || (ram == 0 && !h->params.disk_dir)) return SKIPPY_OK;
    uint32_t scratch = h->params.scratch;
    sk_err why = {0};
    int rc = sk_state_selfcheck(h->ctx, 0, scratch - 1, scratch, &h->caps, &why);
    if (rc == SKIPPY_E_UNSUPPORTED) {
        snprintf(h->caps.why, sizeof h->caps.why, "%.255s", why.text);
        h->state_reason = h->caps.why;
        sk_log(SK_LOG_WARN,
               "state of this model cannot be moved exactly, so nothing is stored outside of the runtime: %s",
               why.text);
        return SKIPPY_OK;
    }
    if (rc) return sk_err_set(e, rc, "the check of the state codec failed: %s", why.text);
    h->state_reason = h->caps.why;
    return start_stores(h, ram, e);
}

int sk_hold_open(sk_hold *h, const sk_reuse_params *reuse, const sk_hold_params *p, sk_err *e) {
    *h = (sk_hold){.params = *p, .ctx = reuse->ctx, .state_reason = ""};
    int rc = sk_reuse_init(&h->reuse, reuse, e);
    if (rc) {
        *h = (sk_hold){0};
        return rc;
    }
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->reported, NULL);
    rc = open_stores(h, e);
    h->params.store_name = NULL; /* was borrowed for the opening only */
    if (rc) sk_hold_close(h);
    return rc;
}

void sk_hold_close(sk_hold *h) {
    if (!h->ctx) return;
    sk_tiers_close(h->tiers);
    sk_reuse_free(&h->reuse);
    pthread_cond_destroy(&h->reported);
    pthread_mutex_destroy(&h->lock);
    *h = (sk_hold){0};
}

/* ---- all of it ---- */

size_t sk_hold_erase(sk_hold *h, const skippy_erase_filter *f) {
    const skippy_erase_filter all = {0};
    size_t n = sk_reuse_erase(&h->reuse, f);
    int rc = h->tiers ? sk_tiers_erase(h->tiers, f ? f : &all) : SKIPPY_OK;
    if (rc) sk_log(SK_LOG_ERROR, "out of memory: the stores could not be asked to erase anything");
    if ((!h->tiers || rc) && h->params.erased) h->params.erased(h->params.ud, 0, rc);
    return n;
}
