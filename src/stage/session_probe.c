/* What this stage could restore of a session's prompt. */
#include <string.h>

#include "stage/stage_internal.h"

bool sk_session_has_row(const sk_stage *s, const sk_stage_lane *l) {
    if (!s->facts.last || !sk_stage_may_reuse(s, l) || l->prompt.n_tokens == 0) return false;
    sk_reuse_hit hit;
    sk_hold_find_at(&s->hold, &l->prompt.ns, l->prompt.tokens, l->prompt.n_tokens, &hit);
    if (hit.tier[SKIPPY_TIER_RESIDENT].terminal) return true;
    /* a store gives a row only together with the state that it belongs to */
    for (int t = SKIPPY_TIER_RAM; t < SKIPPY_TIER_COUNT; t++)
        if (hit.tier[t].terminal && hit.tier[t].length) return true;
    return false;
}

static void add_lanes(const sk_stage *s, const sk_stage_lane *session, sk_restorable *r) {
    for (uint32_t i = 0; i < s->setup.n_lanes; i++) {
        const sk_stage_lane *l = &s->lanes[i];
        uint32_t common = sk_lane_common(s, l, session);
        if (!s->hold.reuse.exact)
            sk_restorable_add(r, common, true);
        else if (common && common == l->n)
            sk_restorable_add(r, common, false);
    }
}

static void fill_offer(const sk_stage *s, const sk_stage_lane *l, sk_stage_offer *o) {
    *o = (sk_stage_offer){0};
    if (!sk_stage_may_reuse(s, l) || l->prompt.n_tokens == 0) return;
    const sk_prefix *p = &l->prompt;
    sk_restorable r = {0};
    add_lanes(s, l, &r);
    sk_hold_restorable(&s->hold, &p->ns, p->tokens, p->n_tokens, &r);
    o->range_max = (uint32_t)r.range_max;
    for (size_t i = 0; i < r.n_exact && o->n_exact < SK_FRAME_LENGTHS_MAX; i++) o->exact[o->n_exact++] = r.exact[i];
    if (s->kept) sk_kept_cover(s->kept, &p->ns, p->tokens, (uint32_t)p->n_tokens, &o->act_from, &o->act_to);
    o->terminal = sk_session_has_row(s, l);
}

static void send_offers(sk_stage *s, sk_stage_lane *l, const sk_frame_probed *below) {
    sk_frame answer = {.kind = SK_FRAME_PROBED, .lane = l->id, .session = l->session};
    sk_frame_probed *p = &answer.u.probed;
    p->n_offers = 1;
    p->offers[0] = l->offer;
    for (uint32_t i = 0; below && i < below->n_offers && p->n_offers < SK_CHAIN_MAX; i++)
        p->offers[p->n_offers++] = below->offers[i];
    l->probed = false;
    sk_stage_send_up(s, &answer);
}

void sk_session_probe(sk_stage *s, sk_stage_lane *l) {
    fill_offer(s, l, &l->offer);
    l->probed = true;
    if (s->n_behind == 0) send_offers(s, l, NULL);
}

void sk_session_probed_below(sk_stage *s, sk_stage_lane *l, const sk_frame *f) {
    if (l->probed) send_offers(s, l, &f->u.probed);
}
