/* Computing in the head of a chain: own layers, then the hidden states go on. */
#include <string.h>

#include "base/clock.h"
#include "engine/internal.h"
#include "runtime/stage_context.h"

bool sk_split_send(sk_engine *en, const sk_lane *l, sk_frame *f) {
    f->lane = l->id;
    f->session = l->split.session;
    return sk_chain_send(en->split->chain, en->split->epoch, f) == SKIPPY_OK;
}

bool sk_split_may_send(sk_engine *en) {
    sk_split *s = en->split;
    if (sk_chain_has_credit(s->chain)) {
        s->no_credit_ns = 0;
        return true;
    }
    if (!s->no_credit_ns) s->no_credit_ns = sk_now_ns();
    return false;
}

bool sk_split_ready(const sk_engine *en, const sk_lane *l) {
    if (!en->split) return true;
    return l->split.phase == SK_SPLIT_RUNNING && !l->split.awaits;
}

/* The head included. */
static uint32_t n_stages(const sk_engine *en) {
    const uint32_t behind = en->split->n_cards;
    return behind < SK_CHAIN_MAX ? behind + 1 : SK_CHAIN_MAX;
}

uint32_t sk_split_lanes_per_chunk(const sk_engine *en) {
    if (!en->split) return en->params.n_lanes;
    if (sk_context_get_info(en->ctx)->recurrent) return 1;
    const uint32_t stages = n_stages(en);
    uint32_t running = 0;
    for (uint32_t i = 0; i < en->params.n_lanes; i++) running += en->lanes[i].state == SK_LANE_DECODE;
    return running <= stages ? 1 : (running + stages - 1) / stages;
}

/* A prompt of P rows in chunks of c takes (P/c + stages - 1) times what one stage needs for c rows: a chunk as large as
 * the batch would leave the other stages idle for most prompts. Below 64 rows a matrix product gets slow. */
uint32_t sk_split_rows_per_chunk(const sk_engine *en) {
    enum { LEAST = 64 };
    const uint32_t stages = n_stages(en), part = (en->params.n_batch + stages - 1) / stages;
    const uint32_t rows = (part + LEAST - 1) / LEAST * LEAST;
    return rows < en->params.n_batch ? rows : en->params.n_batch;
}

/* ---- spans ---- */

/* Digest of the lane's first n tokens, going on from where it was. */
static void hash_to(sk_lane *l, uint32_t n, skippy_key *out) {
    sk_split_lane *s = &l->split;
    if (s->hashed > n || s->hashed == 0) {
        sk_hash_init(&s->hash);
        s->hashed = 0;
    }
    sk_hash_update(&s->hash, l->job->tokens + s->hashed, (size_t)(n - s->hashed) * sizeof *l->job->tokens);
    s->hashed = n;
    sk_hash_final(&s->hash, out->bytes);
}

static void fill_span(sk_engine *en, sk_lane *l, uint32_t pos, uint32_t n, sk_span *out) {
    const sk_job *j = l->job;
    *out = (sk_span){.lane = l->id, .session = l->split.session, .pos = pos, .n = n, .tokens = j->tokens + pos};
    hash_to(l, pos, &out->before);
    hash_to(l, pos + n, &out->after);
    if (!sk_may_reuse(en, j)) return;
    out->flags |= SK_SPAN_PROMPT; /* generated tokens as well: they are the next turn's prompt */
    if (pos + n == j->n_prompt) out->flags |= SK_SPAN_TERMINAL;
}

static const void *as_sent(sk_engine *en, uint32_t n_rows, uint64_t *bytes) {
    sk_split *s = en->split;
    size_t values = (size_t)n_rows * s->width;
    *bytes = values * (s->half ? sizeof *s->half : sizeof *s->hidden);
    if (!s->half) return s->hidden;
    sk_stage_to_f16(s->hidden, s->half, values);
    return s->half;
}

static void finish_chunk(sk_engine *en, sk_frame *f, uint32_t n_rows) {
    sk_frame_chunk *c = &f->u.chunk;
    c->n_rows = n_rows;
    c->width = en->split->width;
    c->dtype = en->split->half ? 1 : 0;
    c->hidden = as_sent(en, n_rows, &c->hidden_bytes);
    en->st.hidden_bytes_sent += c->hidden_bytes;
}

void sk_split_send_rows(sk_engine *en, sk_lane *l, uint32_t pos, uint32_t n, uint16_t flags) {
    sk_frame f = {.kind = SK_FRAME_CHUNK, .flags = flags, .u.chunk.n_spans = 1};
    fill_span(en, l, pos, n, &f.u.chunk.spans[0]);
    finish_chunk(en, &f, n);
    sk_split_send(en, l, &f);
}

/* ---- a batch ---- */

/* Rows of one lane follow each other in a batch. */
static uint32_t rows_of_lane(const sk_engine *en, uint32_t from) {
    uint32_t n = 1;
    while (from + n < en->n_rows && en->batch[from + n].seq == en->batch[from].seq) n++;
    return n;
}

static void keep_rows(sk_engine *en, sk_lane *l, const sk_span *s, const float *rows) {
    if (!en->split->kept || !(s->flags & SK_SPAN_PROMPT)) return;
    const sk_job *j = l->job;
    sk_kept_add(en->split->kept, &l->split.writer, &j->ns, j->tokens, s->pos, s->n, rows, s->pos + s->n == j->n_prompt);
}

/* Does the lane need the whole row to sample from? */
static uint8_t how_much(const sk_job *j) {
    bool best = j->n_predict != 0 && !j->whole_rows && sk_sampler_takes_best(j->sampler);
    return best ? SK_SPAN_BEST : 0;
}

static void add_spans(sk_engine *en, sk_frame_chunk *c) {
    for (uint32_t at = 0; at < en->n_rows;) {
        sk_lane *l = &en->lanes[en->batch[at].seq];
        uint32_t n = rows_of_lane(en, at);
        sk_span *s = &c->spans[c->n_spans++];
        fill_span(en, l, l->n, n, s);
        if (en->batch[at + n - 1].output) s->flags |= SK_SPAN_OUTPUT | how_much(l->job);
        keep_rows(en, l, s, en->split->hidden + (size_t)at * en->split->width);
        at += n;
    }
}

/* The own compute time of a chunk belongs to the lanes that generate in it. */
static void count_compute(sk_engine *en, double ms) {
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        sk_lane *l = &en->lanes[i];
        if (l->job && l->out_row >= 0 && l->state == SK_LANE_DECODE) l->job->stats.stage_compute_ms += ms;
    }
}

int sk_split_decode(sk_engine *en, uint32_t *bad_seq, sk_err *e) {
    uint64_t start = sk_now_ns();
    int rc = sk_context_decode_stage(en->ctx, en->batch, en->n_rows, NULL, en->split->hidden, bad_seq, e);
    if (rc) return rc;
    count_compute(en, (double)(sk_now_ns() - start) / 1e6);
    sk_frame f = {.kind = SK_FRAME_CHUNK};
    add_spans(en, &f.u.chunk);
    finish_chunk(en, &f, en->n_rows);
    sk_chain_send(en->split->chain, en->split->epoch, &f); /* down: its event follows and puts the jobs back */
    return SKIPPY_OK;
}

/* ---- after it ---- */

void sk_split_expect(sk_engine *en, sk_lane *l) {
    (void)en;
    l->split.awaits = true;
    l->split.asked_ns = sk_now_ns();
}

void sk_split_record(sk_engine *en, sk_lane *l) {
    if (!en->split || !l->split.session) return;
    sk_frame f = {.kind = SK_FRAME_RECORD, .u.count.n = l->n};
    sk_split_send(en, l, &f);
}

void sk_split_end(sk_engine *en, sk_lane *l, bool keep) {
    if (!en->split) return;
    sk_kept_writer_free(&l->split.writer);
    if (l->split.session) {
        sk_frame f = {.kind = SK_FRAME_STOP, .flags = keep ? SK_FLAG_KEEP : 0};
        sk_split_send(en, l, &f);
    }
    l->split = (sk_split_lane){0};
}
