#include <string.h>

#include "engine/internal.h"

const double sk_hist_bounds[SK_HIST_BUCKETS] = {0.5, 1,   2.5,  5,    10,   25,    50,    100,
                                                250, 500, 1000, 2500, 5000, 15000, 60000, __builtin_inf()};

void sk_hist_add(sk_histogram *h, double ms) {
    int i = 0;
    while (i < SK_HIST_BUCKETS - 1 && ms > sk_hist_bounds[i]) i++;
    h->count[i]++;
    h->sum += ms;
    h->total++;
}

static void lane_view(const sk_lane *l, sk_lane_view *v) {
    int state = l->state == SK_LANE_STAGING ? SK_LANE_PREFILL : (int)l->state;
    *v = (sk_lane_view){.id = l->id, .state = state, .n_kept = l->kept ? l->n : 0};
    if (!l->job) return;
    v->job = l->job->id;
    v->n_prompt = l->job->n_prompt;
    v->n_processed = l->kept ? 0 : l->n < l->job->n_prompt ? l->n : l->job->n_prompt;
    v->n_decoded = l->job->n_generated;
}

static void take_hold_stats(sk_engine_stats *s, const sk_hold_stats *h) {
    s->exports = h->exports;
    s->export_bytes = h->export_bytes;
    s->exports_skipped = h->exports_skipped;
    s->exports_lost = h->exports_lost;
    s->imports = h->imports;
    s->import_bytes = h->import_bytes;
}

void sk_stats_publish(sk_engine *en) {
    skippy_resident_stats rs;
    skippy_resident_get_stats(en->hold.reuse.resident, &rs);
    sk_engine_stats *s = &en->st;
    s->entries = rs.entries;
    s->entry_tokens = rs.tokens;
    s->cells_used = sk_context_cells_used(en->ctx);
    s->cells_span = sk_context_cells_span(en->ctx);
    s->cells_total = sk_context_get_info(en->ctx)->n_ctx;
    s->recurrent_bytes = en->hold.reuse.exact ? rs.entries * en->setup.cost.state : 0;
    s->kv_bytes = s->cells_used * en->setup.cost.cell;
    s->logits_bytes = en->hold.reuse.terminal.bytes;
    s->logits_rows = en->hold.reuse.terminal.n;
    s->seqs_used = rs.entries;
    s->seqs_total = en->facts.cache_seqs;
    memcpy(s->evictions, rs.evictions, sizeof s->evictions);
    take_hold_stats(s, &en->hold.st);
    s->shadow_skipped = en->shadow.skipped;
    s->stages = en->split ? en->split->n_cards : 0;
    s->stages_up = en->split && en->split->epoch ? s->stages : 0;
    s->n_lanes = en->params.n_lanes;
    s->running = s->queued = 0;
    for (uint32_t i = 0; i < en->params.n_lanes; i++) s->running += en->lanes[i].job != NULL;
    for (const sk_job *j = en->queue_head; j; j = j->next) s->queued++;
    pthread_mutex_lock(&en->lock);
    en->st_public = *s;
    for (uint32_t i = 0; i < en->params.n_lanes; i++) lane_view(&en->lanes[i], &en->lanes_public[i]);
    pthread_mutex_unlock(&en->lock);
}

void sk_engine_get_stats(sk_engine *en, sk_engine_stats *out) {
    pthread_mutex_lock(&en->lock);
    *out = en->st_public;
    pthread_mutex_unlock(&en->lock);
    /* the stores have locks of their own, so a step need not pay for their numbers */
    if (en->hold.tiers) sk_tiers_get_stats(en->hold.tiers, &out->tiers);
}

size_t sk_engine_get_lanes(sk_engine *en, sk_lane_view *out, size_t cap) {
    pthread_mutex_lock(&en->lock);
    size_t n = en->params.n_lanes;
    for (size_t i = 0; i < n && i < cap; i++) out[i] = en->lanes_public[i];
    pthread_mutex_unlock(&en->lock);
    return n;
}
