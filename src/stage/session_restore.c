/* Restoring exactly so many tokens of a session's prompt, on this stage and on all behind it, or nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "stage/stage_internal.h"

void sk_session_restore_drop(sk_stage *s, sk_stage_lane *l) {
    sk_stage_restore *r = &l->restore;
    if (s->hold.ctx) sk_recall_drop(&s->hold, &r->recall);
    sk_stage_answer_free(r->below);
    *r = (sk_stage_restore){0};
}

/* ---- the answer ---- */

/* Logits of the whole prompt, NULL when they are not there or not asked for. Valid until the recall is dropped or the
 * next record. */
static const float *prompt_row(sk_stage *s, const sk_stage_lane *l) {
    const sk_stage_restore *r = &l->restore;
    if (!s->facts.last || r->length == 0 || r->length != l->prompt.n_tokens) return NULL;
    const sk_fetch *f = r->recall.fetch;
    if (f && f->logits && f->n_logits == s->n_vocab) return f->logits;
    sk_reuse_hit hit;
    sk_hold_find_at(&s->hold, &l->prompt.ns, l->prompt.tokens, l->prompt.n_tokens, &hit);
    uint64_t id = hit.tier[SKIPPY_TIER_RESIDENT].terminal;
    return id ? sk_reuse_logits(&s->hold.reuse, id) : NULL;
}

static void add_below(sk_frame_restored *a, const sk_stage_restore *r) {
    if (!r->below) return;
    const sk_frame_restored *b = &r->below->frame.u.restored;
    for (uint32_t i = 0; i < b->n_sources && a->n_sources < SK_CHAIN_MAX; i++) a->source[a->n_sources++] = b->source[i];
    a->replayed_bytes += b->replayed_bytes;
    a->logits = b->logits;
    a->n_logits = b->n_logits;
    if (a->status == SKIPPY_OK && b->status) {
        a->status = b->status;
        memcpy(a->text, b->text, sizeof a->text);
    }
}

/* Hidden states between what the stage behind restored and what this one did. */
static void replay(sk_stage *s, sk_stage_lane *l, sk_frame_restored *a) {
    const sk_stage_restore *r = &l->restore;
    if (s->n_behind == 0 || a->status || r->next >= r->length) return;
    sk_err err = {0};
    a->status = sk_session_replay(s, l, r->next, r->length, &err);
    if (a->status)
        snprintf(a->text, sizeof a->text, "stage %u: %.230s", s->card.index, sk_text_clean(err.text));
    else
        a->replayed_bytes += (uint64_t)(r->length - r->next) * s->card.width * (s->card.dtype ? 2 : 4);
}

static void count(sk_stage *s, const sk_stage_restore *r, const sk_frame_restored *a) {
    sk_stage_stats *st = &s->st;
    if (a->status) {
        st->restore_failures++;
        return;
    }
    st->by_source[r->source]++;
    if (r->length == 0) return;
    st->restores++;
    st->restored_tokens += r->length;
    st->terminal_hits += s->facts.last && a->logits;
}

/* Answers when this stage and all behind it are done. */
static void answer_when_done(sk_stage *s, sk_stage_lane *l) {
    sk_stage_restore *r = &l->restore;
    if (!r->active || !r->own_done || (s->n_behind && !r->below)) return;
    sk_frame answer = {.kind = SK_FRAME_RESTORED, .lane = l->id, .session = l->session};
    sk_frame_restored *a = &answer.u.restored;
    a->status = r->status;
    memcpy(a->text, r->text, sizeof a->text);
    a->n_sources = 1;
    a->source[0] = (uint8_t)r->source;
    add_below(a, r);
    replay(s, l, a);
    if (a->status == SKIPPY_OK && s->facts.last) {
        a->logits = prompt_row(s, l);
        a->n_logits = a->logits ? s->n_vocab : 0;
    }
    if (a->status) {
        /* all stages or none */
        sk_lane_reset(s, l);
        a->logits = NULL;
        a->n_logits = 0;
        a->replayed_bytes = 0;
        memset(a->source, SK_STAGE_FRESH, sizeof a->source);
    }
    count(s, r, a);
    sk_stage_send_up(s, &answer);
    sk_session_restore_drop(s, l);
}

/* ---- this stage's part ---- */

static void own_done(sk_stage *s, sk_stage_lane *l, int status, const char *why) {
    sk_stage_restore *r = &l->restore;
    r->own_done = true;
    r->status = status;
    if (status == SKIPPY_OK) return;
    sk_lane_reset(s, l);
    r->source = SK_STAGE_FRESH;
    snprintf(r->text, sizeof r->text, "stage %u could not restore %u tokens: %.200s", s->card.index, r->length, why);
    sk_text_clean(r->text);
    sk_log(SK_LOG_DEBUG, "%s", r->text);
}

/* The sequence holds the first `length` tokens of the prompt now. */
static void own_restored(sk_stage *s, sk_stage_lane *l, enum sk_stage_source source) {
    l->restore.source = source;
    int rc = sk_lane_adopt(l, l->prompt.tokens, l->restore.length, &l->prompt.ns);
    own_done(s, l, rc, "out of memory");
}

static bool lane_has(const sk_stage *s, const sk_stage_lane *l, const sk_stage_lane *session) {
    uint32_t length = session->restore.length, common = sk_lane_common(s, l, session);
    return s->hold.reuse.exact ? common == length && l->n == length : common >= length;
}

/* The lane goes on with what it holds. */
static bool from_own_lane(sk_stage *s, sk_stage_lane *l) {
    sk_err err = {0};
    if (!lane_has(s, l, l) || sk_lane_trim(s, l, l->restore.length, &err)) return false;
    own_restored(s, l, SK_STAGE_HOT_LANE);
    return true;
}

/* A copy of another lane's sequence; of an idle one when there is one. */
static bool from_other_lane(sk_stage *s, sk_stage_lane *l) {
    const sk_stage_lane *best = NULL;
    for (uint32_t i = 0; i < s->setup.n_lanes; i++) {
        const sk_stage_lane *x = &s->lanes[i];
        if (x != l && lane_has(s, x, l) && (!best || (best->claimed && !x->claimed))) best = x;
    }
    if (!best) return false;
    sk_err err = {0};
    sk_lane_reset(s, l);
    if (sk_context_seq_copy(s->setup.ctx, best->id, l->id, l->restore.length, &err)) return false;
    l->lineage = sk_lineage_cut(best->lineage, l->restore.length);
    own_restored(s, l, best->claimed ? SK_STAGE_ACTIVE_LANE : SK_STAGE_HOT_LANE);
    return true;
}

static bool from_resident(sk_stage *s, sk_stage_lane *l, const sk_reuse_hit *hit) {
    uint32_t length = l->restore.length;
    if (hit->tier[SKIPPY_TIER_RESIDENT].length != length) return false;
    uint64_t id = hit->tier[SKIPPY_TIER_RESIDENT].id;
    sk_lane_reset(s, l);
    sk_err err = {0};
    if (sk_reuse_restore(&s->hold.reuse, id, length, l->id, &l->lineage, &err)) {
        sk_lane_reset(s, l);
        return false;
    }
    own_restored(s, l, SK_STAGE_RESIDENT);
    return true;
}

/* Must the state come from a store, since only there are the logits of the whole prompt? */
static bool wants_row_of_store(const sk_stage *s, const sk_stage_lane *l, const sk_reuse_hit *hit) {
    return l->restore.length == l->prompt.n_tokens && !hit->tier[SKIPPY_TIER_RESIDENT].terminal &&
           sk_session_has_row(s, l);
}

static void import(sk_stage *s, sk_stage_lane *l) {
    sk_err err = {0};
    enum sk_stage_source source = l->restore.recall.fetch->tier == SKIPPY_TIER_RAM ? SK_STAGE_RAM : SK_STAGE_DISK;
    sk_lane_reset(s, l);
    int rc = sk_hold_import(&s->hold, &l->restore.recall, &l->prompt, l->id, &l->lineage, &err);
    if (rc)
        own_done(s, l, rc, err.text);
    else
        own_restored(s, l, source);
}

/* Asks the stores, or takes what they brought. Leaves the restore open while state is on its way. */
static void from_store(sk_stage *s, sk_stage_lane *l, sk_reuse_hit *hit) {
    sk_stage_restore *r = &l->restore;
    for (int t = SKIPPY_TIER_RAM; wants_row_of_store(s, l, hit) && t < SKIPPY_TIER_COUNT; t++)
        if (!hit->tier[t].terminal) hit->tier[t].length = 0;
    switch (sk_hold_promote(&s->hold, &r->recall, &l->prompt, hit, r->length - 1, false)) {
    case SK_PROMOTE_WAIT: break;
    case SK_PROMOTE_READY: import(s, l); break;
    case SK_PROMOTE_NONE: own_done(s, l, SKIPPY_E_NOT_FOUND, "their state is not stored any more"); break;
    }
}

static void find_own(sk_stage *s, sk_stage_lane *l, sk_reuse_hit *hit) {
    sk_hold_find_at(&s->hold, &l->prompt.ns, l->prompt.tokens, l->restore.length, hit);
}

static void restore_own(sk_stage *s, sk_stage_lane *l) {
    const sk_stage_restore *r = &l->restore;
    if (r->length == 0) {
        sk_lane_reset(s, l);
        l->ns = l->prompt.ns;
        own_done(s, l, SKIPPY_OK, "");
        return;
    }
    if (r->length > l->prompt.n_tokens || !sk_stage_may_reuse(s, l) || l->faulted) {
        own_done(s, l, SKIPPY_E_INVALID,
                 r->length > l->prompt.n_tokens ? "the prompt is shorter"
                 : l->faulted                   ? "the session failed before"
                                                : "this session may not use what is stored");
        return;
    }
    sk_reuse_hit hit;
    find_own(s, l, &hit);
    if (!wants_row_of_store(s, l, &hit) && (from_own_lane(s, l) || from_other_lane(s, l) || from_resident(s, l, &hit)))
        return;
    sk_lane_reset(s, l);
    from_store(s, l, &hit);
}

/* ---- frames ---- */

static bool lengths_fit(const sk_stage *s, const sk_frame_restore *q) {
    if (q->n_lengths != 1 + s->n_behind) return false;
    for (uint32_t i = 1; i < q->n_lengths; i++)
        if (q->length[i] > q->length[i - 1]) return false;
    return true;
}

static void pass_lengths_down(sk_stage *s, const sk_frame *f) {
    if (s->n_behind == 0) return;
    sk_frame down = {.kind = SK_FRAME_RESTORE, .lane = f->lane, .session = f->session};
    down.u.restore.n_lengths = f->u.restore.n_lengths - 1;
    memcpy(down.u.restore.length, f->u.restore.length + 1, down.u.restore.n_lengths * sizeof down.u.restore.length[0]);
    sk_stage_send_down(s, &down);
}

void sk_session_restore(sk_stage *s, sk_stage_lane *l, const sk_frame *f) {
    const sk_frame_restore *q = &f->u.restore;
    if (!lengths_fit(s, q)) {
        sk_session_fault(
            s, l, SKIPPY_E_INVALID,
            "stage %u was asked to restore %u lengths; it needs %u that do not rise, one for itself and for "
            "each stage behind it",
            s->card.index, q->n_lengths, 1 + s->n_behind);
        return;
    }
    if (l->restore.active) {
        sk_session_fault(s, l, SKIPPY_E_BUSY, "stage %u was asked to restore while it restores", s->card.index);
        return;
    }
    pass_lengths_down(s, f);
    if (q->length[0] == 0) l->faulted = false; /* a new beginning */
    l->restore = (sk_stage_restore){
        .active = true, .length = q->length[0], .next = q->n_lengths > 1 ? q->length[1] : q->length[0]};
    restore_own(s, l);
    l->claimed = true;
    answer_when_done(s, l);
}

void sk_session_restore_go_on(sk_stage *s) {
    for (uint32_t i = 0; i < s->setup.n_lanes; i++) {
        sk_stage_lane *l = &s->lanes[i];
        if (!l->restore.active || l->restore.own_done) continue;
        sk_reuse_hit hit;
        find_own(s, l, &hit);
        from_store(s, l, &hit);
        answer_when_done(s, l);
    }
}

void sk_session_restored_below(sk_stage *s, sk_stage_lane *l, sk_stage_answer *a) {
    if (!l->restore.active || l->restore.below) {
        sk_stage_answer_free(a);
        return;
    }
    l->restore.below = a;
    answer_when_done(s, l);
}
