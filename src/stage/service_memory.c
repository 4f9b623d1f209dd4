/* Buffers, the cache of the present split, and room for more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "stage/stage_internal.h"

static const uint64_t DEFAULT_LOGITS = (uint64_t)64 << 20;
enum { DEFAULT_MIN_TOKENS = 16 };

int sk_stage_make_buffers(sk_stage *s, sk_err *e) {
    const size_t rows = s->setup.n_batch, values = rows * (size_t)s->facts.width; /* both below 2^32 */
    s->lanes = calloc(s->setup.n_lanes, sizeof *s->lanes);
    s->timing = calloc(s->setup.n_lanes, sizeof *s->timing);
    s->rows = calloc(rows, sizeof *s->rows);
    s->in = calloc(values, sizeof *s->in);
    if (!s->facts.last) s->out = calloc(values, sizeof *s->out);
    if (s->params.dtype) s->half = calloc(values, sizeof *s->half);
    if (!s->lanes || !s->timing || !s->rows || !s->in || (!s->facts.last && !s->out) || (s->params.dtype && !s->half))
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for batches of %u rows of %d values", s->setup.n_batch,
                          s->facts.width);
    for (uint32_t i = 0; i < s->setup.n_lanes; i++) {
        s->lanes[i].id = i;
        sk_lane_reset(s, &s->lanes[i]);
    }
    return SKIPPY_OK;
}

/* ---- the cache ---- */

static void wake_service(void *ud) {
    sk_stage *s = ud;
    sk_waker_wake(&s->waker);
}

static int open_hold(sk_stage *s, const char *store_name, bool trial, sk_err *e) {
    const sk_reuse_params reuse = {.ctx = s->setup.ctx,
                                   .policy = &s->setup.policy,
                                   .off = s->params.setup.cache_off,
                                   .first_seq = s->setup.first_cache_seq,
                                   .n_seqs = s->setup.cache_seqs,
                                   .cost = s->setup.cost,
                                   .logits_bytes = s->params.logits_bytes ? s->params.logits_bytes : DEFAULT_LOGITS,
                                   .n_vocab = s->n_vocab,
                                   .min_tokens = s->params.min_tokens ? s->params.min_tokens : DEFAULT_MIN_TOKENS,
                                   .align = 1};
    const sk_hold_params hold = {.ram_bytes = s->params.ram_bytes,
                                 .disk_dir = trial ? NULL : s->params.disk_dir,
                                 .disk_bytes = s->params.disk_bytes,
                                 .store_name = store_name,
                                 .scratch = s->setup.tier_scratch,
                                 .mode = s->setup.policy.mode,
                                 .make_room = sk_stage_make_room,
                                 .evict_any = sk_stage_evict_any,
                                 .wake = wake_service,
                                 .erased = sk_stage_erased,
                                 .ud = s};
    return sk_hold_open(&s->hold, &reuse, &hold, e);
}

int sk_stage_try_hold(sk_stage *s, sk_err *e) {
    int rc = open_hold(s, "", true, e);
    sk_stage_close_hold(s);
    return rc;
}

void sk_stage_close_hold(sk_stage *s) {
    sk_hold_close(&s->hold);
    sk_kept_close(s->kept);
    s->kept = NULL;
    sk_context_clear(s->setup.ctx); /* sequences of entries that nobody knows any more */
}

/* The split's part of the identity. */
static void name_split(sk_stage *s, const sk_frame_hello *h) {
    int32_t cuts[SK_CHAIN_MAX + 1] = {0};
    memcpy(cuts + 1, h->cuts, h->n_stages * sizeof *cuts);
    sk_setup *u = &s->setup;
    sk_chain_topology(cuts, h->n_stages, s->card.dtype, u->topology, sizeof u->topology);
    snprintf(u->stage, sizeof u->stage, "%u", h->index);
    u->identity.topology_id = u->topology;
    u->identity.stage_id = u->stage;
    u->identity.stage_index = h->index;
}

int sk_stage_open_hold(sk_stage *s, const sk_frame_hello *h, sk_err *e) {
    char before[sizeof s->setup.topology];
    memcpy(before, s->setup.topology, sizeof before);
    uint32_t index = s->setup.identity.stage_index;
    name_split(s, h);
    if (s->hold.ctx && index == h->index && strcmp(before, s->setup.topology) == 0) return SKIPPY_OK;
    if (s->hold.ctx) {
        sk_log(SK_LOG_INFO, "the split is %s now, it was %s: what was cached for that one is let go", s->setup.topology,
               before);
        sk_hold_spill_flush(&s->hold);
    }
    sk_stage_close_hold(s);
    skippy_key ns;
    char name[2 * sizeof ns.bytes + 1];
    int rc = skippy_namespace_key(&s->setup.identity, &ns);
    if (rc) return sk_err_set(e, rc, "the identity could not be formed");
    sk_hex(ns.bytes, sizeof ns.bytes, name);
    rc = open_hold(s, name, false, e);
    if (rc || s->facts.last || s->params.activation_bytes == 0 || !s->hold.reuse.enabled) return rc;
    return sk_kept_open(s->setup.stage, (uint32_t)s->facts.layer_start, s->card.width, s->params.activation_bytes,
                        &s->kept, e);
}

/* ---- room ---- */

static sk_stage_lane *oldest_idle(sk_stage *s) {
    sk_stage_lane *oldest = NULL;
    for (uint32_t i = 0; i < s->setup.n_lanes; i++) {
        sk_stage_lane *l = &s->lanes[i];
        if (!l->claimed && l->n > 0 && (!oldest || l->last_use < oldest->last_use)) oldest = l;
    }
    return oldest;
}

bool sk_stage_evict_any(void *ud) {
    sk_stage *s = ud;
    /* What an idle lane holds is mostly recorded as an entry too, so the lane itself goes first. */
    sk_stage_lane *idle = oldest_idle(s);
    if (!idle) return sk_reuse_evict_one(&s->hold.reuse, SKIPPY_EVICT_CELLS);
    sk_lane_reset(s, idle);
    return true;
}

bool sk_stage_make_room(void *ud, uint32_t cells) {
    sk_stage *s = ud;
    while (sk_context_cells_free(s->setup.ctx) < cells)
        if (!sk_stage_evict_any(s)) return false;
    return true;
}
