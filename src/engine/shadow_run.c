/* Shadow mode: a share of the hits is computed again without the cache, on a lane that is idle, and the two rows of
 * logits after the prompt are compared. A disagreement ends reuse for that namespace, loudly. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/internal.h"

void sk_shadow_consider(sk_engine *en, const sk_job *j, const float *row) {
    if (j->is_shadow || j->stats.cache.source == SK_SRC_NONE || !sk_shadow_due(&en->shadow)) return;
    if (!sk_shadow_take(&en->shadow, &j->ns, j->tokens, j->n_prompt, row)) en->shadow.skipped++;
}

static void no_event(void *ud, const sk_gen_event *ev) {
    (void)ud;
    (void)ev;
}

static bool has_idle_lane(const sk_engine *en) {
    for (uint32_t i = 0; i < en->params.n_lanes; i++)
        if (!en->lanes[i].job) return true;
    return false;
}

void sk_shadow_start(sk_engine *en) {
    sk_shadow *s = &en->shadow;
    if (!s->waiting || en->queue_head || !has_idle_lane(en)) return;
    sk_gen_request r = {
        .tokens = s->hit.tokens, .n_tokens = s->hit.n_tokens, .no_cache = true, .n_predict = 0, .on_event = no_event};
    sk_sampling_defaults(&r.sampling);
    sk_job *job = NULL;
    sk_err err = {0};
    s->waiting = false;
    if (sk_job_create(en->model, &r, 0, &job, &err) != SKIPPY_OK) {
        en->shadow.skipped++;
        sk_shadow_drop(s);
        return;
    }
    job->is_shadow = true;
    job->ns = s->hit.ns;
    job->t_submit = sk_now_ns();
    s->running = true;
    sk_queue_push(en, job, false);
}

void sk_shadow_yield(sk_engine *en) {
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        sk_lane *l = &en->lanes[i];
        if (!l->job || !l->job->is_shadow) continue;
        en->shadow.skipped++;
        sk_shadow_drop(&en->shadow);
        sk_lane_finish(en, l, false);
    }
}

/* Everything of the namespace goes: what is wrong once cannot be trusted a second time. */
static void distrust(sk_engine *en, const skippy_key *ns, double distance) {
    sk_log(
        SK_LOG_ERROR,
        "a reused prefix and its recomputation disagree (relative distance %.3g of the logits): reuse is OFF for this "
        "namespace until the server is started again, and what it stored is erased. Please report this",
        distance);
    en->st.shadow_disagreements++;
    sk_shadow_distrust(&en->shadow, ns);
    const skippy_erase_filter f = {.ns = ns};
    en->erase_unasked++;
    sk_hold_erase(&en->hold, &f);
    for (uint32_t i = 0; i < en->params.n_lanes; i++)
        if (!en->lanes[i].job) sk_lane_clear(en, &en->lanes[i]);
}

void sk_shadow_finish(sk_engine *en, const sk_job *job, const float *row) {
    sk_shadow *s = &en->shadow;
    if (!s->running || job->n_prompt != s->hit.n_tokens) return;
    s->hit.row[0] += en->params.shadow_noise;
    double distance = sk_shadow_distance(s->hit.row, row, s->n_vocab);
    en->st.shadows++;
    if (distance > en->st.shadow_max_drift) en->st.shadow_max_drift = distance;
    if (sk_shadow_disagree(distance, sk_engine_bit(en))) distrust(en, &s->hit.ns, distance);
    sk_shadow_drop(s);
}
