/* The chain's life: opening, events, the end. */
#include "engine/split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/internal.h"

#define ERASE_NS UINT64_C(10000000000) /* the client of an erase waits no longer for stages */

/* ---- opening ---- */

static void wake(void *ud) {
    sk_engine *en = ud;
    pthread_mutex_lock(&en->lock);
    en->split->event = true;
    pthread_cond_signal(&en->wake);
    pthread_mutex_unlock(&en->lock);
}

static sk_stage_card own_card(const sk_engine *en) {
    const sk_stage_facts *s = &sk_model_get_info(en->model)->stage;
    sk_stage_card c = {.layer_start = s->layer_start,
                       .layer_end = s->layer_end,
                       .n_layer = s->n_layer,
                       .width = (uint32_t)s->width,
                       .n_ctx = en->setup.n_ctx,
                       .n_lanes = en->setup.n_lanes,
                       .n_batch = en->setup.n_batch,
                       .dtype = en->params.split->dtype};
    snprintf(c.abi, sizeof c.abi, "%s", en->setup.abi);
    snprintf(c.source, sizeof c.source, "%s", s->source);
    snprintf(c.name, sizeof c.name, "head");
    return c;
}

static sk_chain_facts own_facts(const sk_engine *en) {
    const sk_context_info *ci = sk_context_get_info(en->ctx);
    const sk_stage_facts *s = &sk_model_get_info(en->model)->stage;
    return (sk_chain_facts){.source = s->source,
                            .width = (uint32_t)s->width,
                            .n_ctx = en->setup.n_ctx,
                            .dtype = en->params.split->dtype,
                            .abi = en->setup.abi,
                            .type_k = ci->type_k,
                            .type_v = ci->type_v,
                            .flash_attn = ci->flash_attn,
                            .swa_full = en->setup.identity.swa_full,
                            .rope_freq_base = en->params.rope_freq_base,
                            .rope_freq_scale = en->params.rope_freq_scale};
}

static int check_model(const sk_engine *en, sk_err *e) {
    const sk_model_info *mi = sk_model_get_info(en->model);
    if (mi->stage.is_stage && mi->stage.first && !mi->stage.last) return SKIPPY_OK;
    return sk_err_set(
        e, SKIPPY_E_INVALID,
        "the head of a chain holds the first layers and not the last, but '%s' holds layers %d to %d of %d: "
        "choose --layers 0..N",
        mi->path, mi->stage.layer_start, mi->stage.layer_end - 1, mi->stage.n_layer);
}

static int alloc_rows(sk_engine *en, sk_err *e) {
    sk_split *s = en->split;
    s->width = (uint32_t)sk_model_get_info(en->model)->stage.width;
    size_t values = (size_t)en->setup.n_batch * s->width;
    s->hidden = malloc(values * sizeof *s->hidden);
    if (en->params.split->dtype == 1) s->half = malloc(values * sizeof *s->half);
    if (!s->hidden || (en->params.split->dtype == 1 && !s->half)) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    return SKIPPY_OK;
}

/* The shape of the split, as the stages' cards say it. */
static void name_topology(sk_engine *en) {
    sk_split *s = en->split;
    int32_t cuts[SK_CHAIN_MAX + 2] = {0};
    for (uint32_t i = 0; i < s->n_cards; i++) cuts[i + 1] = s->cards[i].layer_start;
    cuts[s->n_cards + 1] = sk_model_get_info(en->model)->stage.n_layer;
    sk_chain_topology(cuts, s->n_cards + 1, en->params.split->dtype, s->topology, sizeof s->topology);
    sk_setup_name_stage(&en->setup, s->topology, "0", 0);
}

static int check_last(const sk_engine *en, sk_err *e) {
    const sk_stage_card *last = &en->split->cards[en->split->n_cards - 1];
    int32_t n_vocab = sk_model_get_info(en->model)->n_vocab;
    if (last->n_vocab == (uint32_t)n_vocab) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                      "the last stage at %s gives rows of %u logits, but the head's vocabulary has %d tokens",
                      last->name, last->n_vocab, n_vocab);
}

int sk_split_open(sk_engine *en, sk_err *e) {
    const sk_split_params *p = en->params.split;
    if (!p) return SKIPPY_OK;
    int rc = check_model(en, e);
    if (rc) return rc;
    en->split = calloc(1, sizeof *en->split);
    if (!en->split) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    sk_split *s = en->split;
    rc = alloc_rows(en, e);
    if (rc) return rc;
    const sk_chain_params cp = {.addresses = p->addresses,
                                .n_addresses = p->n_addresses,
                                .head = own_card(en),
                                .facts = own_facts(en),
                                .link = p->link,
                                .connect_ms = p->connect_ms,
                                .wake = wake,
                                .ud = en};
    rc = sk_chain_open(&cp, &s->chain, e);
    if (rc == SKIPPY_OK) rc = sk_chain_wait_up(s->chain, p->wait_ms, p->progress, p->progress_ud, e);
    if (rc) return rc;
    s->n_cards = sk_chain_cards(s->chain, s->cards);
    if (s->n_cards == 0) return sk_err_set(e, SKIPPY_E_IO, "the stages went away while the server started");
    memcpy(s->cards_at_start, s->cards, sizeof s->cards);
    rc = check_last(en, e);
    if (rc == SKIPPY_OK) name_topology(en);
    return rc;
}

int sk_split_open_kept(sk_engine *en, sk_err *e) {
    if (!en->split || !en->hold.reuse.enabled || en->params.split->activation_bytes == 0) return SKIPPY_OK;
    return sk_kept_open("0", 0, en->split->width, en->params.split->activation_bytes, &en->split->kept, e);
}

void sk_split_close(sk_engine *en) {
    sk_split *s = en->split;
    if (!s) return;
    for (uint32_t i = 0; en->lanes && i < en->params.n_lanes; i++) sk_kept_writer_free(&en->lanes[i].split.writer);
    sk_chain_close(s->chain);
    sk_kept_close(s->kept);
    free(s->hidden);
    free(s->half);
    free(s);
    en->split = NULL;
}

/* ---- events ---- */

static void end_erase(sk_engine *en, size_t n, int rc) {
    if (!en->split->erasing) return;
    en->split->erasing = 0;
    sk_erase_report(en, n, rc);
}

void sk_split_erase(sk_engine *en, const skippy_erase_filter *f) {
    sk_split *s = en->split;
    if (!s) return;
    s->erasing = ++s->last_session;
    s->erase_since_ns = sk_now_ns();
    if (s->kept) sk_kept_clear(s->kept);
    sk_frame frame = {.kind = SK_FRAME_ERASE,
                      .session = s->erasing,
                      .u.erase = {.tenant = f->tenant,
                                  .cache_namespace = f->cache_namespace,
                                  .tokens = f->tokens,
                                  .n_tokens = (uint32_t)f->n_tokens}};
    if (sk_chain_send(s->chain, s->epoch, &frame) != SKIPPY_OK) end_erase(en, 0, SKIPPY_E_IO);
}

static void chain_up(sk_engine *en, const sk_chain_event *ev) {
    sk_split *s = en->split;
    s->epoch = ev->epoch;
    s->n_cards = sk_chain_cards(s->chain, s->cards);
    s->down_text[0] = '\0';
    s->guesses = false; /* a stage may have lost everything */
}

/* A request that never gets further than to the next break must end some time: it may be what breaks the stage. */
static void note_break(sk_job *j) {
    if (j->breaks && j->broken_at == j->n_tokens) {
        j->breaks++;
        return;
    }
    j->breaks = 1;
    j->broken_at = j->n_tokens;
    j->broken_ns = sk_now_ns();
}

/* The stages' lanes are gone. What the head computed is right, so it is recorded here; the requests go back into the
 * queue with the tokens that they have, and are replayed from them. */
static void chain_down(sk_engine *en, const sk_chain_event *ev) {
    sk_split *s = en->split;
    s->epoch = 0;
    if (!s->down_text[0]) s->down_since_ns = sk_now_ns();
    en->st.stage_breaks++;
    snprintf(s->down_text, sizeof s->down_text, "%.*s", (int)sizeof s->down_text - 1, ev->text);
    memcpy(s->last_break, s->down_text, sizeof s->last_break);
    end_erase(en, 0, SKIPPY_E_IO);
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        sk_lane *l = &en->lanes[i];
        if (!l->job) continue;
        sk_job *j = l->job;
        l->split.session = 0;
        note_break(j);
        if (sk_split_detach(en, l)) {
            sk_queue_push(en, j, true);
            continue;
        }
        if (sk_may_reuse(en, j)) sk_lane_record(en, l);
        sk_preempt(en, l);
    }
}

static sk_lane *lane_of(sk_engine *en, const sk_frame *f) {
    if (f->lane >= en->params.n_lanes) return NULL;
    sk_lane *l = &en->lanes[f->lane];
    return l->job && f->session != 0 && l->split.session == f->session ? l : NULL;
}

static void take_result(sk_engine *en, sk_lane *l, const sk_frame_result *r) {
    if (!l->split.awaits || r->pos != l->n) return;
    l->split.awaits = false;
    if (l->state == SK_LANE_DECODE) l->job->stats.stage_compute_ms += (double)r->compute_ns / 1e6;
    if (r->tokens) {
        sk_lane_sample_best(en, l, r->tokens, r->logits, r->n_logits, r->n_logits < SK_BEST_LOGITS);
        return;
    }
    if (r->n_logits != (uint32_t)sk_model_get_info(en->model)->n_vocab) {
        sk_lane_fail(en, l, SKIPPY_E_RUNTIME, "the last stage sent a row of logits of another length");
        return;
    }
    sk_lane_take_row(en, l, r->logits);
}

static void take_fault(sk_engine *en, sk_lane *l, const sk_frame_text *t) {
    l->split.awaits = false;
    if (t->status == SKIPPY_E_FULL && !l->job->needs_room) {
        /* What lanes share here they may hold twice there, after restores from stores. Alone it has all cells. */
        l->job->needs_room = true;
        sk_preempt(en, l);
        return;
    }
    sk_err err;
    sk_err_set(&err, t->status ? t->status : SKIPPY_E_RUNTIME, "%s",
               t->text[0] ? t->text : "a stage gave up without a reason");
    sk_lane_restart(en, l, &err);
}

static void take_frame(sk_engine *en, const sk_frame *f) {
    if (f->kind == SK_FRAME_ERASED) {
        if (f->session != en->split->erasing) return; /* too late */
        end_erase(en, (size_t)f->u.count.n, f->u.count.status);
        return;
    }
    sk_lane *l = lane_of(en, f);
    if (!l) return; /* of a session that is over */
    switch (f->kind) {
    case SK_FRAME_PROBED: sk_split_probed(en, l, &f->u.probed); break;
    case SK_FRAME_RESTORED: sk_split_restored(en, l, &f->u.restored); break;
    case SK_FRAME_RESULT: take_result(en, l, &f->u.result); break;
    case SK_FRAME_FAULT: take_fault(en, l, &f->u.text); break;
    default: break;
    }
}

void sk_split_take_events(sk_engine *en) {
    sk_split *s = en->split;
    if (!s) return;
    pthread_mutex_lock(&en->lock);
    if (s->event) s->heard_ns = sk_now_ns();
    s->event = false;
    pthread_mutex_unlock(&en->lock);
    if (s->erasing && sk_now_ns() - s->erase_since_ns > ERASE_NS) end_erase(en, 0, SKIPPY_E_TIMEOUT);
    for (sk_chain_event *ev = sk_chain_events(s->chain), *next; ev; ev = next) {
        next = ev->next;
        if (ev->type == SK_CHAIN_UP)
            chain_up(en, ev);
        else if (ev->type == SK_CHAIN_DOWN)
            chain_down(en, ev);
        else if (ev->epoch == s->epoch)
            take_frame(en, &ev->frame);
        sk_chain_event_free(ev);
    }
}

/* ---- patience ---- */

/* More breaks than these without a token in between are not bad luck. */
enum { MAX_BREAKS = 4, MAX_SILENCES = 10 };

static bool is_older(uint64_t since, uint64_t now, uint64_t age) {
    return since != 0 && now > since && now - since > age;
}

/* Does this lane wait for an answer? */
static bool waits(const sk_lane *l) {
    const sk_split_lane *s = &l->split;
    return s->awaits || s->phase == SK_SPLIT_PROBING || s->phase == SK_SPLIT_RESTORING;
}

int sk_split_must_end(const sk_engine *en, const sk_lane *l, const sk_job *j, uint64_t now, const char **text) {
    const sk_split *s = en->split;
    const uint64_t patience = (uint64_t)en->params.split->patience_ms * 1000000;
    if (j->breaks > MAX_BREAKS || (j->breaks && j->broken_at == j->n_tokens && is_older(j->broken_ns, now, patience))) {
        *text = s->last_break;
        return SKIPPY_E_BUSY;
    }
    if (!l) {
        if (s->epoch || !s->down_text[0] || now - s->down_since_ns < patience) return SKIPPY_OK;
        *text = s->down_text;
        return SKIPPY_E_BUSY;
    }
    *text = "the stages did not answer in time: one of them is stalled or overloaded";
    if (is_older(s->no_credit_ns, now, patience) && is_older(s->heard_ns, now, patience)) return SKIPPY_E_TIMEOUT;
    if (!waits(l) || !is_older(l->split.asked_ns, now, patience)) return SKIPPY_OK;
    /* a stage that computes a long chunk for others gives credits back meanwhile */
    bool silent = is_older(s->heard_ns, now, patience) || is_older(l->split.asked_ns, now, MAX_SILENCES * patience);
    return silent ? SKIPPY_E_TIMEOUT : SKIPPY_OK;
}
