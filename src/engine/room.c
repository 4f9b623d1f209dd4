/* Making room: cells are freed in the order in which their loss costs least. */
#include "engine/internal.h"

/* The idle lane that was used longest ago and still holds cells. */
static sk_lane *oldest_idle(sk_engine *en) {
    sk_lane *oldest = NULL;
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        sk_lane *l = &en->lanes[i];
        if (!l->job && l->n > 0 && (!oldest || l->last_use < oldest->last_use)) oldest = l;
    }
    return oldest;
}

bool sk_evict_any(sk_engine *en) {
    /* What an idle lane holds is recorded as an entry too, so the lane itself goes first. */
    sk_lane *idle = oldest_idle(en);
    if (!idle) return sk_reuse_evict_one(&en->hold.reuse, SKIPPY_EVICT_CELLS);
    sk_lane_clear(en, idle);
    return true;
}

bool sk_make_room(sk_engine *en, uint32_t n) {
    while (sk_context_cells_free(en->ctx) < n)
        if (!sk_evict_any(en)) return false;
    return true;
}

void sk_drop_idle(sk_engine *en, uint32_t keep, size_t rows) {
    double coming_ms = (double)rows * en->hold.rates.prefill_ms;
    uint32_t ids[257], n = 0; /* lanes and keep */
    if (keep != UINT32_MAX) ids[n++] = keep;
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        sk_lane *l = &en->lanes[i];
        if (l->job) ids[n++] = l->id;
        if (l->job || l->id == keep || l->n == 0 || !sk_hold_is_idle(&en->hold, l->used_ms, coming_ms)) continue;
        const sk_prefix held = {.ns = l->kept_ns, .tokens = l->kept, .n_tokens = l->n};
        if (l->kept && sk_hold_has(&en->hold, &held)) sk_lane_clear(en, l);
    }
    sk_hold_drop_idle(&en->hold, ids, n, coming_ms);
}

void sk_preempt(sk_engine *en, sk_lane *l) {
    sk_job *j = l->job;
    sk_recall_drop(&en->hold, &j->recall);
    l->job = NULL;
    sk_lane_clear(en, l);
    sk_queue_push(en, j, true);
    en->st.preemptions++;
}

bool sk_preempt_youngest(sk_engine *en, const sk_lane *keep) {
    sk_lane *youngest = NULL;
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        sk_lane *l = &en->lanes[i];
        if (l->job && l != keep && (!youngest || l->started > youngest->started)) youngest = l;
    }
    if (!youngest) return false;
    sk_preempt(en, youngest);
    return true;
}
