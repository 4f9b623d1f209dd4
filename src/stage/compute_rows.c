/* Decoding the rows of a chunk: in one piece where memory allows it, in smaller ones where not. */
#include "base/clock.h"
#include "base/log.h"
#include <math.h>

#include "runtime/logits.h"
#include "stage/stage_internal.h"

/* ---- pieces ---- */

/* Rows that follow each other in the buffers. */
typedef struct piece {
    uint32_t first, end; /* of the work */
    uint32_t row, n;
} piece;

static bool is_open(const sk_stage_work *w) {
    return !w->failed && w->done < w->span->n;
}

/* Logits are wanted after the last row of a span. */
static bool wants_row(const sk_stage *s, const sk_stage_work *w) {
    return s->facts.last && w->span->flags & (SK_SPAN_OUTPUT | SK_SPAN_TERMINAL);
}

static uint32_t add_rows(sk_stage *s, const sk_stage_work *w, uint32_t at, uint32_t budget) {
    uint32_t n = w->span->n - w->done < budget ? w->span->n - w->done : budget;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = w->done + k;
        s->rows[at + k] =
            (sk_row){.token = w->span->tokens[i], .seq = w->lane->id, .output = i + 1 == w->span->n && wants_row(s, w)};
    }
    return n;
}

/* The next rows, at most budget. n is 0 when all are done. */
static piece next_piece(sk_stage *s, uint32_t first, uint32_t end, uint32_t budget) {
    while (first < end && !is_open(&s->work[first])) first++;
    piece p = {.first = first, .end = first};
    if (first == end) return p;
    p.row = s->work[first].row + s->work[first].done;
    for (; p.end < end && is_open(&s->work[p.end]) && p.n < budget; p.end++)
        p.n += add_rows(s, &s->work[p.end], p.n, budget - p.n);
    return p;
}

/* ---- after a failed decode ---- */

static void fail_work(sk_stage *s, sk_stage_work *w, int status, const char *text) {
    w->failed = true;
    sk_session_fault(s, w->lane, status, "stage %u could not compute tokens %u to %u: %s", s->card.index, w->span->pos,
                     w->span->pos + w->span->n, text);
}

static void fail_piece(sk_stage *s, const piece *p, int status, const char *text) {
    for (uint32_t i = p->first; i < p->end; i++) fail_work(s, &s->work[i], status, text);
}

static void fail_lane(sk_stage *s, const piece *p, uint32_t seq, const sk_err *err) {
    for (uint32_t i = p->first; i < p->end; i++) {
        if (s->work[i].lane->id != seq) continue;
        fail_work(s, &s->work[i], SKIPPY_E_CORRUPT, err->text);
        return;
    }
    fail_piece(s, p, SKIPPY_E_CORRUPT, err->text); /* nobody is named: none can be trusted */
}

/* The session that began last gives way, so that the others can go on. */
static void fail_youngest(sk_stage *s, uint32_t first, uint32_t end, const sk_err *err) {
    sk_stage_work *youngest = NULL;
    for (uint32_t i = first; i < end; i++) {
        sk_stage_work *w = &s->work[i];
        if (is_open(w) && (!youngest || w->lane->session > youngest->lane->session)) youngest = w;
    }
    if (youngest) fail_work(s, youngest, SKIPPY_E_FULL, err->text);
}

/* No cells for the piece: evict first, then compute fewer rows at once. False: neither is possible. */
static bool relieve(sk_stage *s, const piece *p, uint32_t *budget) {
    if (sk_context_cells_free(s->setup.ctx) >= p->n) {
        /* the window pool is short, not the cells: any entry may be the one that holds it */
        if (sk_stage_evict_any(s)) return true;
    } else if (sk_stage_make_room(s, p->n)) {
        return true;
    }
    if (p->n == 1) return false;
    *budget = p->n / 2;
    return true;
}

/* ---- after a good decode ---- */

/* Fills the answer with the largest logits. Minus infinity is no candidate. */
static void take_best(sk_frame *f, const float *row, uint32_t n_vocab, int32_t *tokens, float *logits) {
    sk_token_prob top[SK_BEST_LOGITS];
    size_t found = sk_logits_top(row, (int32_t)n_vocab, 0, top, SK_BEST_LOGITS), n = 0;
    for (; n < found && top[n].logprob > -INFINITY; n++) {
        tokens[n] = top[n].token;
        logits[n] = row[top[n].token];
    }
    if (n == 0) return; /* the whole row says what is wrong with it */
    f->flags = SK_FLAG_BEST;
    f->u.result.tokens = tokens;
    f->u.result.logits = logits;
    f->u.result.n_logits = (uint32_t)n;
}

static void send_row(sk_stage *s, const sk_stage_work *w, const float *row) {
    const sk_stage_lane *l = w->lane;
    int32_t tokens[SK_BEST_LOGITS];
    float logits[SK_BEST_LOGITS];
    sk_frame f = {.kind = SK_FRAME_RESULT,
                  .lane = l->id,
                  .session = l->session,
                  .u.result = {.pos = l->n, .compute_ns = s->compute_ns, .logits = row, .n_logits = s->n_vocab}};
    if (w->span->flags & SK_SPAN_BEST) take_best(&f, row, s->n_vocab, tokens, logits);
    s->st.results++;
    sk_stage_send_up(s, &f);
}

/* The last row of the prompt, or of generated text: its logits go to the head, and into the cache. */
static void finish_row(sk_stage *s, sk_stage_work *w, uint32_t row) {
    sk_stage_lane *l = w->lane;
    const float *logits = sk_context_logits(s->setup.ctx, row);
    if (!logits) {
        fail_work(s, w, SKIPPY_E_RUNTIME, "llama.cpp returned no logits");
        return;
    }
    if (w->span->flags & SK_SPAN_TERMINAL && sk_stage_may_reuse(s, l)) {
        const sk_prefix prompt = sk_session_prefix(l, l->n);
        sk_reuse_record_logits(&s->hold.reuse, &prompt, logits, 0);
    }
    if (!(w->span->flags & SK_SPAN_OUTPUT)) return;
    send_row(s, w, logits);
}

static void advance(sk_stage *s, const piece *p) {
    uint32_t row = 0; /* of the piece */
    for (uint32_t i = p->first; i < p->end; i++) {
        sk_stage_work *w = &s->work[i];
        uint32_t left = w->span->n - w->done, n = left < p->n - row ? left : p->n - row;
        row += n;
        if (sk_lane_append(w->lane, w->span->tokens + w->done, n)) {
            fail_work(s, w, SKIPPY_E_NOMEM, "out of memory");
            continue;
        }
        w->done += n;
        if (w->done == w->span->n && wants_row(s, w)) finish_row(s, w, row - 1);
    }
}

static int decode_piece(sk_stage *s, const piece *p, uint32_t *bad, sk_err *err) {
    if (!sk_stage_make_room(s, p->n))
        return sk_err_set(err, SKIPPY_E_FULL, "the context of %u cells is full", s->setup.n_ctx);
    const size_t at = (size_t)p->row * s->card.width;
    uint64_t start = sk_now_ns();
    int rc = sk_context_decode_stage(s->setup.ctx, s->rows, p->n, s->in + at, s->out ? s->out + at : NULL, bad, err);
    uint64_t ns = sk_now_ns() - start;
    s->compute_ns += ns;
    s->st.compute_ns += ns;
    return rc;
}

void sk_stage_decode(sk_stage *s, uint32_t first, uint32_t end) {
    uint32_t budget = s->setup.n_batch;
    for (;;) {
        piece p = next_piece(s, first, end, budget);
        if (p.n == 0) return;
        sk_err err = {0};
        uint32_t bad = UINT32_MAX;
        int rc = decode_piece(s, &p, &bad, &err);
        if (rc == SKIPPY_OK) {
            s->st.rows += p.n;
            advance(s, &p);
        } else if (rc == SKIPPY_E_FULL) {
            if (!relieve(s, &p, &budget)) fail_youngest(s, first, end, &err);
        } else if (rc == SKIPPY_E_CORRUPT) {
            fail_lane(s, &p, bad, &err);
        } else {
            fail_piece(s, &p, rc, err.text);
        }
    }
}
