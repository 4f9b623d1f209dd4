/* Admission: which waiting request gets a lane, and from which stored state it starts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/start.h"
#include "skippy/policy.h"

static size_t common_prefix(const int32_t *a, size_t na, const int32_t *b, size_t nb) {
    size_t n = na < nb ? na : nb, i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

static bool same_ns(const skippy_key *a, const skippy_key *b) {
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

/* ---- lanes ---- */

void sk_lane_empty(sk_engine *en, sk_lane *l) {
    sk_context_seq_clear(en->ctx, l->id);
    free(l->kept);
    l->kept = NULL;
    sk_lineage_release(l->lineage);
    l->lineage = NULL;
    l->n = 0;
    l->n_splits = 0;
    l->out_row = -1;
    l->state = SK_LANE_IDLE;
}

void sk_lane_clear(sk_engine *en, sk_lane *l) {
    sk_split_end(en, l, false);
    sk_lane_empty(en, l);
}

void sk_lane_record(sk_engine *en, sk_lane *l) {
    const sk_prefix prefix = sk_job_prefix(l->job, l->n);
    if (en->hold.tiers && !l->lineage) l->lineage = sk_lineage_new(); /* without one, each export is a whole one */
    sk_reuse_record(&en->hold.reuse, &prefix, l->id, l->lineage, 0);
    sk_split_record(en, l);
}

void sk_lane_finish(sk_engine *en, sk_lane *l, bool keep) {
    sk_job *j = l->job;
    if (sk_split_detach(en, l)) {
        sk_job_free(j);
        return;
    }
    sk_recall_drop(&en->hold, &j->recall); /* a guess that was too long may have asked a store again */
    l->state = SK_LANE_IDLE;
    l->n_splits = 0;
    l->out_row = -1;
    l->last_use = ++en->clock;
    l->used_ms = en->hold.reuse.computed_ms;
    sk_hold_worked(&en->hold); /* also where no decode was needed */
    /* Where prompts are cut at absolute multiples, a prompt would compute generated text another way than generation
     * did. */
    keep = keep && sk_may_reuse(en, j) && l->n > 0 && en->hold.reuse.align == 1;
    if (keep) {
        sk_lane_record(en, l);
        sk_split_end(en, l, true);
        l->kept = j->tokens;
        l->kept_ns = j->ns;
        j->tokens = NULL;
    } else {
        sk_lane_clear(en, l);
    }
    l->job = NULL;
    sk_job_free(j);
}

/* ---- looking for a start ---- */

static size_t align_down(const sk_engine *en, size_t n) {
    return n - n % en->hold.reuse.align;
}

/* Usable tokens of a lane's sequence for a prompt. With exact boundaries only the very end of it counts, and where
 * prompts are cut at absolute multiples only while the lane is inside the part that any prompt computes the same way.
 */
static size_t usable(const sk_engine *en, const sk_lane *l, size_t common) {
    if (!en->hold.reuse.exact) return common;
    if (common != l->n || l->n % en->hold.reuse.align != 0) return 0;
    bool past_cuts = en->hold.reuse.align > 1 && l->job && l->n > align_down(en, l->job->n_prompt);
    return past_cuts ? 0 : l->n;
}

/* Without stored logits for the whole prompt at least one token has to be computed. */
static size_t cap_length(const sk_start *s, const sk_job *j, size_t length, bool exact) {
    if (length < j->n_tokens || s->terminal) return length;
    return exact ? 0 : j->n_tokens - 1;
}

size_t sk_start_common(const sk_lane *l, const sk_job *j) {
    const sk_job *owner = l->kept ? NULL : l->job; /* a staging lane still has its old content */
    const int32_t *tokens = owner ? owner->tokens : l->kept;
    if (!tokens || l->n == 0 || (owner && owner->no_cache)) return 0;
    if (!same_ns(owner ? &owner->ns : &l->kept_ns, &j->ns)) return 0;
    return common_prefix(tokens, l->n, j->tokens, j->n_tokens);
}

static void consider_lane(const sk_engine *en, const sk_job *j, sk_lane *l, sk_start *s) {
    size_t common = sk_start_common(l, j);
    if (common == 0) return;
    if (common > s->common) s->common = common;
    size_t length = cap_length(s, j, usable(en, l, common), en->hold.reuse.exact);
    /* An idle lane wins a tie: it is borrowed in place. A running one loses it: its copy is no better than an entry's.
     */
    if (length == 0 || length < s->length || (l->job && length == s->length)) return;
    s->source = l->job ? SK_SRC_ACTIVE_LANE : SK_SRC_HOT_LANE;
    s->length = length;
    s->lane = l;
}

static void find_start(sk_engine *en, sk_job *j, sk_start *s) {
    memset(s, 0, sizeof *s);
    sk_reuse_find(&en->hold.reuse, &j->ns, j->tokens, j->n_tokens, &s->hit);
    s->terminal = s->hit.tier[SKIPPY_TIER_RESIDENT].terminal;
    s->common = s->hit.common;
    s->length = s->hit.tier[SKIPPY_TIER_RESIDENT].length;
    s->entry = s->hit.tier[SKIPPY_TIER_RESIDENT].id;
    if (s->length) s->source = SK_SRC_RESIDENT;
    for (uint32_t i = 0; i < en->params.n_lanes; i++) consider_lane(en, j, &en->lanes[i], s);
    if (s->length < en->hold.reuse.min_tokens && s->length < j->n_tokens) {
        s->source = SK_SRC_NONE;
        s->length = 0;
    }
}

/* ---- waiting for a running request ---- */

static bool add_split(sk_lane *l, size_t at) {
    if (at == 0 || at > UINT32_MAX || at <= l->n) return false;
    uint32_t i = 0;
    while (i < l->n_splits && l->splits[i] < at) i++;
    if (i < l->n_splits && l->splits[i] == at) return true;
    if (l->n_splits == SK_MAX_SPLITS) return false;
    memmove(&l->splits[i + 1], &l->splits[i], (l->n_splits - i) * sizeof *l->splits);
    l->splits[i] = (uint32_t)at;
    l->n_splits++;
    return true;
}

/* Is another lane computing a beginning of this prompt that is worth waiting for? */
bool sk_start_worth_waiting(sk_engine *en, const sk_job *j, size_t have) {
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        sk_lane *l = &en->lanes[i];
        bool computes = l->state == SK_LANE_PREFILL || l->state == SK_LANE_STAGING;
        if (!computes || l->job->no_cache || !same_ns(&l->job->ns, &j->ns)) continue;
        size_t common = common_prefix(l->job->tokens, l->job->n_tokens, j->tokens, j->n_tokens);
        bool whole = common == j->n_tokens && common == l->job->n_tokens; /* its terminal logits will be stored */
        if (!whole && common == j->n_tokens) common--;
        if (!whole) common = align_down(en, common);
        size_t done = l->kept ? 0 : l->n;
        if (common <= done || common < have + SK_MIN_GAIN) continue;
        bool must_stop = en->hold.reuse.exact && !whole && l->state == SK_LANE_PREFILL;
        if (must_stop && !add_split(l, common)) continue;
        return true;
    }
    return false;
}

/* ---- restoring ---- */

sk_lane *sk_start_pick_lane(sk_engine *en) {
    sk_lane *best = NULL;
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        sk_lane *l = &en->lanes[i];
        if (l->job) continue;
        if (!best || (l->n == 0 && best->n != 0) || ((l->n == 0) == (best->n == 0) && l->last_use < best->last_use))
            best = l;
    }
    return best;
}

/* The hot lane goes on where it is; what lies beyond the common part is recorded as an entry of its own. */
int sk_start_borrow(sk_engine *en, sk_lane *l, size_t length, sk_err *e) {
    int rc = sk_context_seq_trim(en->ctx, l->id, (uint32_t)length, e);
    free(l->kept);
    l->kept = NULL;
    if (rc) return rc;
    if (length < l->n) { /* what follows is another content than the lineage's later windows */
        sk_lineage *cut = sk_lineage_cut(l->lineage, length);
        sk_lineage_release(l->lineage);
        l->lineage = cut;
    }
    l->n = (uint32_t)length;
    return SKIPPY_OK;
}

/* Fills the empty lane l from a state that lies elsewhere. */
static int copy_state(sk_engine *en, sk_lane *l, sk_job *j, const sk_start *s, sk_err *e) {
    switch (s->source) {
    case SK_SRC_RESIDENT: return sk_reuse_restore(&en->hold.reuse, s->entry, s->length, l->id, &l->lineage, e);
    case SK_SRC_ACTIVE_LANE:
        l->lineage = sk_lineage_cut(s->lane->lineage, s->length);
        return sk_context_seq_copy(en->ctx, s->lane->id, l->id, (uint32_t)s->length, e);
    case SK_SRC_RAM:
    case SK_SRC_DISK: {
        const sk_prefix prompt = sk_job_prefix(j, j->n_tokens);
        return sk_hold_import(&en->hold, &j->recall, &prompt, l->id, &l->lineage, e);
    }
    case SK_SRC_NONE:
    case SK_SRC_HOT_LANE: break;
    }
    return SKIPPY_OK;
}

/* Fills an idle lane from the chosen start. A restore is a transaction: after any failure the lane is empty and the
 * request goes on as a miss. */
static sk_lane *restore(sk_engine *en, sk_job *j, sk_start *s) {
    sk_err err = {0};
    int rc = SKIPPY_OK;
    if (s->source == SK_SRC_HOT_LANE) {
        sk_lane *hot = s->lane;
        rc = sk_start_borrow(en, hot, s->length, &err);
        if (rc == SKIPPY_OK) return hot;
        sk_lane_clear(en, hot);
    }
    sk_lane *l = sk_start_pick_lane(en);
    sk_lane_clear(en, l);
    if (rc == SKIPPY_OK) rc = copy_state(en, l, j, s, &err);
    if (rc == SKIPPY_OK) {
        l->n = (uint32_t)s->length;
        return l;
    }
    sk_log(SK_LOG_DEBUG, "restore of %zu tokens failed, computing instead: %s", s->length, err.text);
    en->st.restore_faults++;
    sk_lane_clear(en, l);
    s->source = SK_SRC_NONE;
    s->length = 0;
    s->failed = true;
    return l;
}

/* The sequence that a request starts from, UINT32_MAX when none that exists. */
static uint32_t start_sequence(const sk_engine *en, const sk_start *s) {
    if (s->source == SK_SRC_HOT_LANE || s->source == SK_SRC_ACTIVE_LANE) return s->lane->id;
    const sk_reuse_entry *x = s->source == SK_SRC_RESIDENT ? sk_reuse_entry_at(&en->hold.reuse, s->entry) : NULL;
    return x ? x->seq : UINT32_MAX;
}

static const char *miss_reason(const sk_engine *en, const sk_job *j, const sk_start *s) {
    if (en->params.cache_off) return "cache-off";
    if (!en->hold.reuse.enabled) return "family-disabled";
    if (j->no_cache) return "request-opt-out";
    if (sk_shadow_distrusts(&en->shadow, &j->ns)) return "shadow-disagreement";
    if (s->failed || j->recall.no_tiers) return "restore-failed";
    if (j->recall.gated) return "restore-slower";
    if (s->common == 0) return en->hold.reuse.n_entries ? "no-common-prefix" : "cold";
    if (s->common < en->hold.reuse.min_tokens) return "too-short";
    /* attention-only state serves every length, so only the logits of this beginning are left */
    return en->hold.reuse.exact ? "boundary-not-recorded" : "evicted";
}

static void count_lookup(sk_engine *en, sk_job *j, const sk_start *s) {
    sk_engine_stats *st = &en->st;
    st->lookups++;
    st->gated += j->recall.gated;
    if (s->source == SK_SRC_NONE) {
        st->misses++;
        snprintf(j->stats.cache.reason, sizeof j->stats.cache.reason, "%s", miss_reason(en, j, s));
        return;
    }
    st->hits++;
    st->tokens_restored += s->length;
    uint64_t *const by_source[] = {[SK_SRC_HOT_LANE] = &st->hits_hot_lane,
                                   [SK_SRC_RESIDENT] = &st->hits_resident,
                                   [SK_SRC_ACTIVE_LANE] = &st->hits_active_lane,
                                   [SK_SRC_RAM] = &st->hits_ram,
                                   [SK_SRC_DISK] = &st->hits_disk};
    ++*by_source[s->source];
    if (j->waited) st->coalesced++;
}

/* ---- boundaries where a later request will want to start ---- */

/* A stop costs a decode of its own, and the state of a hybrid is large: a boundary this close behind the state that is
 * restored would save a later request less than it costs this one. */
static bool is_worth_a_stop(const sk_start *s, size_t at) {
    return s->length == 0 || at > s->length + SK_MIN_GAIN;
}

/* A raw prompt says nothing about its parts: a sparse ladder from its end backwards. */
static void plan_ladder(const sk_engine *en, sk_lane *l, size_t n_prompt, size_t length) {
    const skippy_policy ladder = {.min_tokens = 64, .stride_tokens = 32, .record_limit = 4};
    size_t rung[8], n = 0;
    if (skippy_policy_record(&ladder, n_prompt, rung, 8, &n) != SKIPPY_OK) return;
    for (size_t i = 0; i < n; i++)
        if (rung[i] > length + SK_LADDER_GAIN) add_split(l, align_down(en, rung[i]));
}

static void plan_splits(sk_engine *en, sk_lane *l, const sk_job *j, const sk_start *s) {
    l->n_splits = 0;
    if (!en->hold.reuse.exact || !sk_may_reuse(en, j)) return;
    for (size_t i = 0; i < j->n_bounds; i++)
        if (j->bounds[i] >= en->hold.reuse.min_tokens && is_worth_a_stop(s, j->bounds[i]))
            add_split(l, align_down(en, j->bounds[i]));
    if (j->n_bounds == 0) plan_ladder(en, l, j->n_prompt, s->length);
    /* learned boundary: this prompt left a stored one here, so the next is likely to do so too */
    if (s->common > s->length + SK_MIN_GAIN && s->common < j->n_tokens) add_split(l, align_down(en, s->common));
    add_split(l, j->n_prompt); /* its terminal logits make an exact repeat of it a hit whatever the alignment */
}

/* cache_n is llama-server's count: there at least the last token is always evaluated. */
static void set_cached(sk_gen_stats *g, size_t length) {
    g->cache.tokens = length;
    g->cache_n = length < g->n_prompt ? length : g->n_prompt - 1;
    g->prompt_n = g->n_prompt - g->cache_n;
}

void sk_start_begin(sk_engine *en, sk_lane *l, sk_job *j, sk_start *s) {
    l->job = j;
    l->out_row = -1;
    l->started = ++en->clock;
    l->last_use = en->clock;
    l->state = SK_LANE_PREFILL;
    plan_splits(en, l, j, s);
    sk_gen_stats *g = &j->stats;
    if (j->is_shadow) return; /* nobody asked for it */
    if (j->started) {
        /* resumed after it had been put back: what has to be computed again was not cached after all */
        if (s->length < g->cache.tokens) set_cached(g, s->length);
        return;
    }
    j->t_admit = sk_now_ns();
    g->lane = l->id;
    g->queue_ms = (double)(j->t_admit - j->t_submit) / 1e6;
    g->cache.source = s->source;
    g->cache.waited = j->waited;
    g->cache.gated = j->recall.gated;
    g->cache.restore_ms = j->recall.estimate.restore_ms;
    g->cache.recompute_ms = j->recall.estimate.recompute_ms;
    set_cached(g, s->length);
    g->cache.terminal_logits = s->length == j->n_prompt;
    sk_hist_add(&en->st.queue_ms, g->queue_ms);
    count_lookup(en, j, s);
    sk_job_send_start(j);
}

/* Cells that running requests will still need for their prompts. */
bool sk_start_cells_allow(sk_engine *en, const sk_job *j, size_t shared) {
    uint64_t need = j->n_tokens + 1 - shared;
    bool any = false;
    uint32_t ids[256], n = 0;
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        const sk_lane *l = &en->lanes[i];
        if (!l->job) continue;
        any = true;
        ids[n++] = l->id;
        need += l->job->n_tokens + 1 - (l->kept ? 0 : l->n);
    }
    if (!any || !sk_context_get_info(en->ctx)->has_kv) return true;
    return need + sk_context_cells_union(en->ctx, ids, n) <= sk_context_get_info(en->ctx)->n_ctx;
}

/* Logits of the whole prompt: with the state that was fetched, or in memory. The pointer is valid until the next
 * record.
 */
static const float *whole_logits(sk_engine *en, const sk_job *j, const sk_start *s) {
    bool fetched = s->source == SK_SRC_RAM || s->source == SK_SRC_DISK;
    return fetched && j->recall.fetch->logits ? j->recall.fetch->logits : sk_reuse_logits(&en->hold.reuse, s->terminal);
}

static enum sk_verdict try_admit(sk_engine *en, sk_job *j) {
    if (en->split) return sk_split_admit(en, j);
    sk_start s = {0};
    if (sk_may_reuse(en, j) && !j->from_scratch) {
        find_start(en, j, &s);
        if (sk_start_worth_waiting(en, j, s.length)) {
            j->waited = true;
            return SK_WAITS;
        }
        const sk_prefix prompt = sk_job_prefix(j, j->n_tokens);
        enum sk_promotion p = sk_hold_promote(&en->hold, &j->recall, &prompt, &s.hit, s.length, true);
        if (p == SK_PROMOTE_WAIT) return SK_WAITS;
        if (p == SK_PROMOTE_READY) {
            s.source = j->recall.fetch->tier == SKIPPY_TIER_RAM ? SK_SRC_RAM : SK_SRC_DISK;
            s.length = j->recall.fetch->length;
        }
    }
    if (!sk_start_cells_allow(en, j, s.source == SK_SRC_ACTIVE_LANE ? s.length : 0)) return SK_NO_CELLS;
    sk_drop_idle(en, start_sequence(en, &s), j->n_tokens - s.length);
    sk_lane *l = restore(en, j, &s);
    const float *row = s.length == j->n_tokens ? whole_logits(en, j, &s) : NULL;
    /* the row may lie in the fetch, and the job may end with its first token */
    sk_fetch *fetch = sk_recall_take(&en->hold, &j->recall);
    sk_start_begin(en, l, j, &s);
    if (row) {
        /* exact repeat: the first token comes from the stored row, no decode */
        en->st.terminal_hits++;
        l->n_splits = 0;
        sk_shadow_consider(en, j, row);
        sk_lane_sample(en, l, row);
    }
    sk_fetch_free(fetch);
    return SK_ADMITTED;
}

static bool any_idle(const sk_engine *en) {
    for (uint32_t i = 0; i < en->params.n_lanes; i++)
        if (!en->lanes[i].job) return true;
    return false;
}

void sk_admit_jobs(sk_engine *en) {
    if (en->queue_head && !en->queue_head->is_shadow && !any_idle(en)) sk_shadow_yield(en);
    sk_job *previous = NULL;
    for (sk_job *j = en->queue_head; j && any_idle(en);) {
        sk_job *next = j->next;
        sk_queue_remove(en, j, previous);
        enum sk_verdict v = try_admit(en, j);
        if (v != SK_ADMITTED) {
            /* back to where it was */
            j->next = next;
            if (previous)
                previous->next = j;
            else
                en->queue_head = j;
            if (!next) en->queue_tail = j;
            previous = j;
            if (v == SK_NO_CELLS) return; /* later requests do not overtake one that waits for memory */
        }
        j = next;
    }
}
