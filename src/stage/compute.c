/* A chunk: which of its spans may be computed, computing them, and where the results go. */
#include <stdio.h>
#include <string.h>

#include "stage/stage_internal.h"

/* ---- which spans ---- */

/* A session that restored nothing begins with an empty lane. */
static void begin_if_first(sk_stage *s, sk_stage_lane *l, const sk_span *p) {
    if (p->pos == 0) sk_session_claim(s, l);
}

/* Do the tokens continue what the prompt said? Beyond it they are new. */
static bool continues_prompt(const sk_stage_lane *l, const sk_span *p) {
    if (p->pos >= l->prompt.n_tokens) return true;
    size_t known = l->prompt.n_tokens - p->pos < p->n ? l->prompt.n_tokens - p->pos : p->n;
    return memcmp(l->prompt.tokens + p->pos, p->tokens, known * sizeof *p->tokens) == 0;
}

static void fault_hash(sk_stage *s, sk_stage_lane *l, uint32_t n, const skippy_key *theirs, const skippy_key *ours) {
    char a[17], b[17];
    sk_hex(theirs->bytes, 8, a);
    sk_hex(ours->bytes, 8, b);
    sk_session_fault(s, l, SKIPPY_E_CORRUPT,
                     "stages disagree about the first %u tokens: the chunk's digest of them begins with %s, that of "
                     "stage %u with %s",
                     n, a, s->card.index, b);
}

/* False: the session was told why. */
static bool accept(sk_stage *s, sk_stage_lane *l, const sk_span *p) {
    /* An emptied lane is empty here whatever the stages behind say, and they empty theirs before they see the chunk. */
    bool emptied = l->restore.active && l->restore.own_done && l->restore.length == 0;
    if (l->restore.active && !emptied) {
        sk_session_fault(s, l, SKIPPY_E_BUSY, "a chunk came to stage %u before its restore was answered",
                         s->card.index);
        return false;
    }
    begin_if_first(s, l, p);
    if (!l->claimed || p->pos != l->n) {
        sk_session_fault(s, l, SKIPPY_E_INVALID, "a chunk begins at token %u, but stage %u holds %u", p->pos,
                         s->card.index, l->claimed ? l->n : 0);
        return false;
    }
    skippy_key before = sk_lane_hash_after(&l->hash, NULL, 0);
    if (!skippy_key_equal(&before, &p->before)) {
        fault_hash(s, l, p->pos, &p->before, &before);
        return false;
    }
    skippy_key after = sk_lane_hash_after(&l->hash, p->tokens, p->n);
    if (!skippy_key_equal(&after, &p->after)) {
        fault_hash(s, l, p->pos + p->n, &p->after, &after);
        return false;
    }
    if (!continues_prompt(l, p)) {
        sk_session_fault(s, l, SKIPPY_E_CORRUPT,
                         "tokens %u to %u of a chunk are not those that the session began with on stage %u", p->pos,
                         p->pos + p->n, s->card.index);
        return false;
    }
    return true;
}

static void fault_unknown(sk_stage *s, const sk_span *p) {
    char text[160];
    const uint64_t there = p->lane < s->setup.n_lanes ? s->lanes[p->lane].session : 0;
    snprintf(text, sizeof text, "a chunk is for session %llu on lane %u, where stage %u has %s%.0llu",
             (unsigned long long)p->session, p->lane, s->card.index, there ? "session " : "none",
             (unsigned long long)there);
    s->st.faults++;
    sk_stage_send_fault(s, p->lane, p->session, SKIPPY_E_NOT_FOUND, text);
}

static bool is_in_work(const sk_stage *s, const sk_stage_lane *l) {
    for (uint32_t i = 0; i < s->n_work; i++)
        if (s->work[i].lane == l) return true;
    return false;
}

/* One span: into the work with its hidden states, or to the session that it cannot be. */
static void take_span(sk_stage *s, const sk_frame_chunk *c, const sk_span *p, uint32_t *row, uint64_t at) {
    sk_stage_lane *l = sk_session_find(s, p->lane, p->session);
    if (!l) {
        fault_unknown(s, p);
        return;
    }
    if (l->faulted) return; /* it knows */
    if (is_in_work(s, l)) {
        sk_session_fault(s, l, SKIPPY_E_INVALID, "a chunk has two spans of one session");
        for (uint32_t i = 0; i < s->n_work; i++)
            if (s->work[i].lane == l) s->work[i].failed = true;
        return;
    }
    if (!accept(s, l, p)) return;
    const size_t values = (size_t)p->n * c->width;
    float *in = s->in + (size_t)*row * c->width;
    const uint8_t *from = c->hidden; /* maybe unaligned */
    if (c->dtype == 0) {
        memcpy(in, from + at * c->width * sizeof(float), values * sizeof(float));
    } else {
        memcpy(s->half, from + at * c->width * sizeof(uint16_t), values * sizeof(uint16_t));
        sk_stage_from_f16(s->half, in, values);
    }
    s->work[s->n_work++] = (sk_stage_work){.span = p, .lane = l, .row = *row};
    *row += p->n;
}

static bool shape_fits(const sk_stage *s, const sk_frame_chunk *c) {
    return c->width == s->card.width && c->dtype == s->card.dtype && c->n_rows <= s->setup.n_batch;
}

static void refuse_shape(sk_stage *s, const sk_frame_chunk *c) {
    for (uint32_t i = 0; i < c->n_spans; i++) {
        sk_stage_lane *l = sk_session_find(s, c->spans[i].lane, c->spans[i].session);
        if (!l)
            fault_unknown(s, &c->spans[i]);
        else if (!l->faulted)
            sk_session_fault(
                s, l, SKIPPY_E_INVALID,
                "a chunk has %u rows of %u values in form %u; stage %u takes at most %u rows of %u in form %u",
                c->n_rows, c->width, c->dtype, s->card.index, s->setup.n_batch, s->card.width, s->card.dtype);
    }
}

/* ---- where the results go ---- */

static void keep_hidden(sk_stage *s, const sk_stage_work *w) {
    const sk_span *p = w->span;
    if (!s->kept || !(p->flags & SK_SPAN_PROMPT) || !sk_stage_may_reuse(s, w->lane)) return;
    sk_kept_add(s->kept, &w->lane->writer, &w->lane->prompt.ns, w->lane->tokens, p->pos, p->n,
                s->out + (size_t)w->row * s->card.width, p->flags & SK_SPAN_TERMINAL);
}

/* The spans that were computed go on to the stage behind. */
static void forward(sk_stage *s, const sk_frame *f) {
    sk_frame down = {.kind = SK_FRAME_CHUNK, .flags = f->flags};
    sk_frame_chunk *c = &down.u.chunk;
    c->width = s->card.width;
    c->dtype = s->card.dtype;
    for (uint32_t i = 0; i < s->n_work; i++) {
        const sk_stage_work *w = &s->work[i];
        if (w->failed) continue;
        keep_hidden(s, w);
        if (w->span->flags & SK_SPAN_OUTPUT) sk_relay_note(s, w->lane, w->span->pos + w->span->n);
        if (c->n_rows != w->row) /* rows of a session that failed lie between */
            memmove(s->out + (size_t)c->n_rows * c->width, s->out + (size_t)w->row * c->width,
                    (size_t)w->span->n * c->width * sizeof *s->out);
        c->spans[c->n_spans++] = *w->span;
        c->n_rows += w->span->n;
    }
    if (c->n_spans) sk_stage_send_hidden(s, &down, s->out);
}

/* Recurrent memory takes rows of one sequence at a time, attention-only memory all together. */
static void decode_all(sk_stage *s) {
    s->compute_ns = 0;
    if (!sk_context_get_info(s->setup.ctx)->recurrent) {
        sk_stage_decode(s, 0, s->n_work);
        return;
    }
    for (uint32_t i = 0; i < s->n_work; i++) sk_stage_decode(s, i, i + 1);
}

void sk_stage_compute(sk_stage *s, const sk_frame *f) {
    const sk_frame_chunk *c = &f->u.chunk;
    s->n_work = 0;
    s->st.chunks++;
    s->st.hidden_bytes_in += c->hidden_bytes;
    if (!shape_fits(s, c)) {
        refuse_shape(s, c);
    } else {
        uint64_t at = 0;
        uint32_t row = 0;
        for (uint32_t i = 0; i < c->n_spans; i++) {
            take_span(s, c, &c->spans[i], &row, at);
            at += c->spans[i].n;
        }
        decode_all(s);
        if (!s->facts.last) forward(s, f);
    }
    const sk_frame credit = {.kind = SK_FRAME_CREDIT, .u.count = {.n = 1}};
    sk_stage_send_up(s, &credit);
}
