/* Dropping what is stored, on this stage and on all behind it. Erases are answered in the order in which they came: the
 * stores and the stage behind answer in that order, too. */
#include <string.h>

#include "stage/stage_internal.h"

static void answer(sk_stage *s, uint32_t lane, uint64_t session, uint64_t n, int status) {
    const sk_frame f = {
        .kind = SK_FRAME_ERASED, .lane = lane, .session = session, .u.count = {.n = n, .status = status}};
    sk_stage_send_up(s, &f);
}

void sk_stage_answer_erases(sk_stage *s) {
    while (s->n_erases && s->erases[0].own_done && s->erases[0].below_done) {
        const sk_stage_erase x = s->erases[0];
        memmove(s->erases, s->erases + 1, --s->n_erases * sizeof *s->erases);
        answer(s, x.lane, x.session, x.n, x.status);
    }
}

void sk_stage_erased(void *ud, size_t count, int rc) {
    sk_stage *s = ud;
    if (s->n_stale_erases) {
        s->n_stale_erases--;
        return;
    }
    for (uint32_t i = 0; i < s->n_erases; i++) {
        sk_stage_erase *x = &s->erases[i];
        if (x->own_done) continue;
        x->own_done = true;
        x->n += count;
        if (x->status == SKIPPY_OK) x->status = rc;
        return; /* answered later: this may be called out of the erase itself */
    }
}

void sk_stage_erased_below(sk_stage *s, const sk_frame *f) {
    for (uint32_t i = 0; i < s->n_erases; i++) {
        sk_stage_erase *x = &s->erases[i];
        if (x->below_done) continue;
        x->below_done = true;
        x->n += f->u.count.n;
        if (x->status == SKIPPY_OK) x->status = f->u.count.status;
        break;
    }
    sk_stage_answer_erases(s);
}

void sk_stage_begin_erase(sk_stage *s, const sk_frame *f, const uint8_t *bytes, size_t len) {
    if (s->n_erases == SK_STAGE_ERASES_MAX) {
        answer(s, f->lane, f->session, 0, SKIPPY_E_BUSY);
        return;
    }
    sk_stage_pass_down(s, bytes, len);
    s->erases[s->n_erases] = (sk_stage_erase){.lane = f->lane, .session = f->session, .below_done = s->n_behind == 0};
    const uint32_t at = s->n_erases++;
    /* Idle lanes and hidden states have no owner's name beside them: they go whatever the filter says. */
    for (uint32_t i = 0; i < s->setup.n_lanes; i++)
        if (!s->lanes[i].claimed) sk_lane_reset(s, &s->lanes[i]);
    if (s->kept) sk_kept_clear(s->kept);
    const sk_frame_erase *q = &f->u.erase;
    const skippy_erase_filter filter = {.tenant = q->tenant,
                                        .cache_namespace = q->cache_namespace,
                                        .tokens = q->n_tokens ? q->tokens : NULL,
                                        .n_tokens = q->n_tokens};
    s->erases[at].n += sk_hold_erase(&s->hold, &filter);
    sk_stage_answer_erases(s);
}

void sk_stage_forget_erases(sk_stage *s) {
    for (uint32_t i = 0; i < s->n_erases; i++) s->n_stale_erases += !s->erases[i].own_done;
    s->n_erases = 0;
}
