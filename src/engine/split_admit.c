/* Admission in the head of a chain: which lengths the stages agree on, and the restore transaction over all of them. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/start.h"

/* ---- frames about a lane ---- */

static bool send_open(sk_engine *en, sk_lane *l) {
    const sk_job *j = l->job;
    sk_frame f = {.kind = SK_FRAME_OPEN,
                  .flags = sk_may_reuse(en, j) ? 0 : SK_FLAG_NO_CACHE,
                  .u.open = {.tenant = j->tenant,
                             .cache_namespace = j->cache_namespace,
                             .tokens = j->tokens,
                             .n_tokens = (uint32_t)j->n_tokens}};
    return sk_split_send(en, l, &f);
}

static bool send_probe(sk_engine *en, sk_lane *l) {
    sk_frame f = {.kind = SK_FRAME_PROBE};
    l->split.phase = SK_SPLIT_PROBING;
    l->split.asked_ns = sk_now_ns();
    return sk_split_send(en, l, &f);
}

/* lengths NULL: all zero. */
static bool send_restore(sk_engine *en, sk_lane *l, const sk_agreement *a) {
    sk_frame f = {.kind = SK_FRAME_RESTORE, .u.restore.n_lengths = en->split->n_cards};
    for (uint32_t i = 0; a && i < en->split->n_cards; i++) f.u.restore.length[i] = a->length[i + 1];
    l->split.asked = true;
    l->split.asked_ns = sk_now_ns();
    return sk_split_send(en, l, &f);
}

/* ---- the own offer ---- */

/* Adds what lanes hold: the own one still has its old content. */
static void add_lanes(const sk_engine *en, const sk_job *j, sk_restorable *r, size_t *common) {
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        const sk_lane *l = &en->lanes[i];
        size_t same = sk_start_common(l, j);
        if (same > *common) *common = same;
        if (!en->hold.reuse.exact)
            sk_restorable_add(r, same, true);
        else if (same == l->n)
            sk_restorable_add(r, same, false);
    }
}

static void own_offer(sk_engine *en, sk_lane *l, sk_stage_offer *o) {
    const sk_job *j = l->job;
    sk_restorable r = {0};
    add_lanes(en, j, &r, &l->split.common);
    sk_hold_restorable(&en->hold, &j->ns, j->tokens, j->n_tokens, &r);
    memset(o, 0, sizeof *o);
    o->range_max = (uint32_t)r.range_max;
    o->n_exact = (uint32_t)r.n_exact;
    memcpy(o->exact, r.exact, r.n_exact * sizeof *r.exact);
    if (en->split->kept)
        sk_kept_cover(en->split->kept, &j->ns, j->tokens, (uint32_t)j->n_tokens, &o->act_from, &o->act_to);
}

static size_t longest(const sk_stage_offer *o) {
    size_t exact = o->n_exact ? o->exact[0] : 0;
    return exact > o->range_max ? exact : o->range_max;
}

/* ---- restoring exactly n tokens here ---- */

static bool holds_exactly(const sk_engine *en, const sk_lane *l, const sk_job *j, size_t n) {
    size_t same = sk_start_common(l, j);
    return en->hold.reuse.exact ? same == n && l->n == n : same >= n;
}

/* A running lane that holds these tokens; the own one is not running yet. */
static sk_lane *running_holder(sk_engine *en, const sk_lane *own, size_t n) {
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        sk_lane *l = &en->lanes[i];
        if (l != own && l->job && l->split.phase == SK_SPLIT_RUNNING && holds_exactly(en, l, own->job, n)) return l;
    }
    return NULL;
}

static enum sk_hit_source source_of(const sk_fetch *f) {
    return f->tier == SKIPPY_TIER_RAM ? SK_SRC_RAM : SK_SRC_DISK;
}

/* From the stores. SKIPPY_E_BUSY: on its way. */
static int recall(sk_engine *en, sk_lane *l, const sk_reuse_hit *hit, sk_err *e) {
    sk_job *j = l->job;
    const sk_prefix prompt = sk_job_prefix(j, j->n_tokens);
    enum sk_promotion p = sk_hold_promote(&en->hold, &j->recall, &prompt, hit, 0, false);
    if (p == SK_PROMOTE_WAIT) return SKIPPY_E_BUSY;
    if (p == SK_PROMOTE_NONE) return sk_err_set(e, SKIPPY_E_NOT_FOUND, "the state is gone");
    sk_lane_empty(en, l);
    l->split.source = source_of(j->recall.fetch);
    int rc = sk_hold_import(&en->hold, &j->recall, &prompt, l->id, &l->lineage, e);
    sk_recall_drop(&en->hold, &j->recall);
    return rc;
}

/* Fills the lane with exactly n tokens. SKIPPY_E_BUSY: they are on their way; ask again after an event. After another
 * error the lane is empty. */
static int restore_here(sk_engine *en, sk_lane *l, size_t n, sk_err *e) {
    sk_split_lane *s = &l->split;
    if (holds_exactly(en, l, l->job, n)) { /* from before, or from a guess that was too long */
        if (l->kept) s->source = SK_SRC_HOT_LANE;
        return sk_start_borrow(en, l, n, e);
    }
    sk_lane *from = running_holder(en, l, n);
    sk_reuse_hit hit;
    sk_hold_find_at(&en->hold, &l->job->ns, l->job->tokens, n, &hit);
    if (from) {
        sk_lane_empty(en, l);
        s->source = SK_SRC_ACTIVE_LANE;
        l->lineage = sk_lineage_cut(from->lineage, n);
        return sk_context_seq_copy(en->ctx, from->id, l->id, (uint32_t)n, e);
    }
    if (hit.tier[SKIPPY_TIER_RESIDENT].length != n) return recall(en, l, &hit, e);
    sk_lane_empty(en, l);
    s->source = SK_SRC_RESIDENT;
    return sk_reuse_restore(&en->hold.reuse, hit.tier[SKIPPY_TIER_RESIDENT].id, n, l->id, &l->lineage, e);
}

/* ---- the transaction ---- */

static void describe_stages(sk_engine *en, const sk_lane *l, const sk_frame_restored *r) {
    if (l->job->started) return; /* put back and resumed: what was told stays true */
    sk_cache_result *c = &l->job->stats.cache;
    const sk_agreement *a = &l->split.agreed;
    c->n_stages = en->split->n_cards;
    for (uint32_t i = 0; i < en->split->n_cards; i++) {
        c->stage_source[i] = r && i < r->n_sources ? r->source[i] : SK_STAGE_FRESH;
        c->stage_tokens[i] = a->length[i + 1];
        c->hidden_bytes_avoided += (uint64_t)a->length[i + 1] * en->split->width * (en->split->half ? 2 : 4);
    }
    en->st.hidden_bytes_avoided += c->hidden_bytes_avoided;
}

/* The lane holds the agreed tokens, and so do the stages. */
static void run(sk_engine *en, sk_lane *l, bool failed, const sk_frame_restored *r) {
    sk_start s = {
        .source = l->split.source, .length = l->split.agreed.length[0], .common = l->split.common, .failed = failed};
    if (s.length == 0) s.source = SK_SRC_NONE;
    l->split.phase = SK_SPLIT_RUNNING;
    l->split.hashed = 0;
    describe_stages(en, l, r);
    sk_start_begin(en, l, l->job, &s);
}

/* From nothing, here and on all stages. A stage that was not asked to restore begins with an empty lane by itself. The
 * answer of the others is not waited for: emptying a lane always works, and frames are processed in order. */
static void run_from_nothing(sk_engine *en, sk_lane *l, bool failed) {
    sk_recall_drop(&en->hold, &l->job->recall);
    sk_lane_empty(en, l);
    memset(&l->split.agreed, 0, sizeof l->split.agreed);
    if (!l->split.asked || send_restore(en, l, NULL)) run(en, l, failed, NULL);
}

/* The own part of the restore, then that of the stages. */
static void restore(sk_engine *en, sk_lane *l) {
    sk_err err = {0};
    size_t n = l->split.agreed.length[0];
    int rc = restore_here(en, l, n, &err);
    if (rc == SKIPPY_E_BUSY) {
        l->split.phase = SK_SPLIT_RECALLING;
        return;
    }
    if (rc) {
        sk_log(SK_LOG_DEBUG, "restore of %zu tokens failed, computing instead: %s", n, err.text);
        en->st.restore_faults++;
        run_from_nothing(en, l, true);
        return;
    }
    l->n = (uint32_t)n;
    l->state = SK_LANE_PREFILL;
    l->split.phase = SK_SPLIT_RESTORING;
    send_restore(en, l, &l->split.agreed);
}

/* All stages restore what the head restores. */
static void agree_on(sk_engine *en, sk_lane *l, uint32_t n, bool terminal) {
    sk_agreement *a = &l->split.agreed;
    *a = (sk_agreement){.n_stages = en->split->n_cards + 1, .terminal = terminal};
    for (uint32_t i = 0; i < a->n_stages; i++) a->length[i] = n;
}

/* Stages that saw the same requests hold the same. Asking them first costs a round trip more than being refused costs
 * now and then. */
static void guess(sk_engine *en, sk_lane *l, size_t length) {
    bool whole = length >= l->job->n_tokens;
    l->split.guessed = true;
    agree_on(en, l, (uint32_t)length, whole);
    restore(en, l);
}

static bool is_uniform(const sk_agreement *a) {
    return a->length[a->n_stages - 1] == a->length[0];
}

void sk_split_probed(sk_engine *en, sk_lane *l, const sk_frame_probed *p) {
    if (l->split.phase != SK_SPLIT_PROBING) return;
    sk_stage_offer offers[SK_CHAIN_MAX];
    uint32_t n = en->split->n_cards;
    if (p->n_offers != n) {
        run_from_nothing(en, l, true);
        return;
    }
    own_offer(en, l, &offers[0]);
    memcpy(&offers[1], p->offers, n * sizeof *offers);
    sk_agreement *a = &l->split.agreed;
    sk_agree(offers, n + 1, (uint32_t)l->job->n_tokens, (uint32_t)en->hold.reuse.min_tokens, a);
    size_t most = longest(&offers[0]), last = l->job->n_tokens - 1;
    en->split->guesses = is_uniform(a) && (a->length[0] == most || a->length[0] == last);
    if (a->length[0] == 0)
        run_from_nothing(en, l, false);
    else
        restore(en, l);
}

/* The guess was wrong: true when another length was asked for, or the stages are asked what they hold. */
static bool mend_guess(sk_engine *en, sk_lane *l, const sk_frame_restored *r) {
    sk_split_lane *s = &l->split;
    if (!s->guessed) return false;
    s->guessed = false;
    if (r->status == SKIPPY_OK && !en->hold.reuse.exact) { /* all but the logits: the last token is computed */
        agree_on(en, l, (uint32_t)l->job->n_tokens - 1, false);
        restore(en, l);
        return true;
    }
    en->split->guesses = false;
    return send_probe(en, l);
}

void sk_split_restored(sk_engine *en, sk_lane *l, const sk_frame_restored *r) {
    if (l->split.phase != SK_SPLIT_RESTORING) return; /* of an emptied lane: not waited for */
    sk_split_lane *s = &l->split;
    bool no_row = s->agreed.terminal && r->n_logits != (uint32_t)sk_model_get_info(en->model)->n_vocab;
    if (r->status != SKIPPY_OK || no_row) {
        if (mend_guess(en, l, r)) return;
        sk_log(SK_LOG_DEBUG, "restore of %u tokens failed on a stage, computing instead: %s", s->agreed.length[0],
               r->status ? r->text : "the last stage has no logits any more");
        en->st.restore_faults++;
        run_from_nothing(en, l, true);
        return;
    }
    s->replay_at = s->agreed.length[1];
    run(en, l, false, r);
    if (s->agreed.terminal) {
        /* exact repeat: the first token comes from the stored row, no decode on any stage */
        en->st.terminal_hits++;
        l->n_splits = 0;
        sk_lane_sample(en, l, r->logits);
    } else if (s->replay_at < s->agreed.length[0]) {
        s->phase = SK_SPLIT_REPLAYING;
    }
}

/* ---- replays of kept hidden states ---- */

static bool send_replay(sk_engine *en, sk_lane *l, uint32_t n) {
    sk_split_lane *s = &l->split;
    const sk_job *j = l->job;
    if (!sk_kept_read(en->split->kept, &j->ns, j->tokens, (uint32_t)j->n_tokens, s->replay_at, s->replay_at + n,
                      en->split->hidden))
        return false;
    sk_split_send_rows(en, l, s->replay_at, n, SK_FLAG_REPLAY);
    s->replay_at += n;
    return true;
}

static bool replay(sk_engine *en, sk_lane *l) {
    sk_split_lane *s = &l->split;
    if (!sk_split_may_send(en)) return false;
    uint32_t left = s->agreed.length[0] - s->replay_at, n = left < en->params.n_batch ? left : en->params.n_batch;
    if (!send_replay(en, l, n)) { /* dropped since the agreement */
        sk_err err;
        sk_err_set(&err, SKIPPY_E_NOT_FOUND, "kept hidden states were dropped while they were needed");
        sk_lane_restart(en, l, &err);
        return true;
    }
    if (s->replay_at == s->agreed.length[0]) s->phase = SK_SPLIT_RUNNING;
    return true;
}

bool sk_split_advance(sk_engine *en) {
    bool any = false;
    for (uint32_t i = 0; en->split && i < en->params.n_lanes; i++) {
        sk_lane *l = &en->lanes[i];
        if (!l->job || !l->split.session) continue;
        if (l->split.phase == SK_SPLIT_REPLAYING) any |= replay(en, l);
        if (l->job && l->split.phase == SK_SPLIT_RECALLING) restore(en, l);
    }
    return any;
}

/* ---- admission ---- */

/* The idle lane that holds most of this prompt in a usable way, else the one whose content is cheapest to lose. */
static sk_lane *choose_lane(sk_engine *en, const sk_job *j) {
    sk_lane *best = NULL;
    size_t most = 0;
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        sk_lane *l = &en->lanes[i];
        size_t same = l->job ? 0 : sk_start_common(l, j);
        if (en->hold.reuse.exact && same != l->n) same = 0;
        if (same > most && same >= en->hold.reuse.min_tokens) {
            most = same;
            best = l;
        }
    }
    return best ? best : sk_start_pick_lane(en);
}

static void take_lane(sk_engine *en, sk_lane *l, sk_job *j) {
    sk_split_lane *s = &l->split;
    l->job = j;
    l->state = SK_LANE_STAGING;
    l->started = ++en->clock;
    s->session = ++en->split->last_session;
    s->awaits = s->guessed = s->asked = false;
    s->source = SK_SRC_NONE;
    s->common = 0;
    memset(&s->agreed, 0, sizeof s->agreed);
}

enum sk_verdict sk_split_admit(sk_engine *en, sk_job *j) {
    if (!en->split->epoch) return SK_WAITS;
    if (j->needs_room && sk_any_running(en)) return SK_NO_CELLS;
    bool reuse = sk_may_reuse(en, j) && !j->from_scratch;
    if (reuse && sk_start_worth_waiting(en, j, 0)) {
        j->waited = true;
        return SK_WAITS;
    }
    if (!sk_start_cells_allow(en, j, 0)) return SK_NO_CELLS;
    sk_lane *l = choose_lane(en, j);
    take_lane(en, l, j);
    sk_stage_offer offer = {0};
    if (reuse) own_offer(en, l, &offer);
    if (!send_open(en, l)) return SK_ADMITTED; /* the chain's end is on its way as an event, and puts the job back */
    size_t most = longest(&offer);
    if (most < en->hold.reuse.min_tokens)
        run_from_nothing(en, l, false);
    else if (en->split->guesses)
        guess(en, l, most);
    else
        send_probe(en, l);
    return SK_ADMITTED;
}

bool sk_split_detach(sk_engine *en, sk_lane *l) {
    bool before = l->split.phase == SK_SPLIT_PROBING || l->split.phase == SK_SPLIT_RECALLING || !l->split.phase;
    if (!en->split || l->state != SK_LANE_STAGING || !before) return false;
    sk_recall_drop(&en->hold, &l->job->recall);
    sk_split_end(en, l, true);
    l->job = NULL;
    l->state = SK_LANE_IDLE;
    return true;
}
