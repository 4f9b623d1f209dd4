/* Frames to bytes. See frame.h and docs/formats/stage-link.md. */
#include <string.h>

#include "base/record.h"
#include "stage/frame_codec.h"

/* ---- primitives: sk_buf remembers a failed allocation, so nothing is checked here ---- */

static void put_u8(sk_buf *b, unsigned v) {
    sk_buf_add(b, &(uint8_t){(uint8_t)v}, 1);
}

static void put_u16(sk_buf *b, unsigned v) {
    sk_buf_add(b, (uint8_t[]){(uint8_t)(v & 0xff), (uint8_t)(v >> 8 & 0xff)}, 2);
}

static void put_u32(sk_buf *b, uint32_t v) {
    uint8_t bytes[4];
    sk_put_u32(bytes, v);
    sk_buf_add(b, bytes, sizeof bytes);
}

static void put_i32(sk_buf *b, int32_t v) {
    put_u32(b, (uint32_t)v);
}

static void put_u64(sk_buf *b, uint64_t v) {
    uint8_t bytes[8];
    sk_put_u64(bytes, v);
    sk_buf_add(b, bytes, sizeof bytes);
}

static void put_key(sk_buf *b, const skippy_key *key) {
    sk_buf_add(b, key->bytes, sizeof key->bytes);
}

static void put_text(sk_buf *b, const char *s) {
    size_t n = strlen(s); /* bounded by sk_frame_fault */
    put_u16(b, (unsigned)n);
    sk_buf_add(b, s, n);
}

static unsigned optional_length(const char *s) {
    return s ? (unsigned)strlen(s) : SK_FRAME_ABSENT;
}

/* Values of four bytes, as they lie in memory. */
static void put_values(sk_buf *b, const void *values, uint32_t n) {
    sk_buf_add(b, values, 4 * (size_t)n);
}

/* ---- bodies ---- */

static void put_card(sk_buf *b, const sk_stage_card *c) {
    put_u64(b, c->life);
    put_u32(b, c->index);
    put_i32(b, c->layer_start);
    put_i32(b, c->layer_end);
    put_i32(b, c->n_layer);
    put_u32(b, c->width);
    put_u32(b, c->n_vocab);
    put_u32(b, c->n_ctx);
    put_u32(b, c->n_lanes);
    put_u32(b, c->n_batch);
    put_u8(b, c->dtype);
    put_u8(b, c->last);
    put_text(b, c->abi);
    put_text(b, c->source);
    put_text(b, c->name);
}

static void put_hello(sk_buf *b, const sk_frame *f) {
    const sk_frame_hello *h = &f->u.hello;
    put_u32(b, h->protocol);
    put_key(b, &h->chain);
    put_u32(b, h->index);
    put_u32(b, h->n_stages);
    for (uint32_t i = 0; i < h->n_stages; i++) put_i32(b, h->cuts[i]);
    put_u32(b, h->n_route);
    for (uint32_t i = 0; i < h->n_route; i++) put_text(b, h->route[i]);
    put_card(b, &h->head);
}

static void put_welcome(sk_buf *b, const sk_frame *f) {
    const sk_frame_welcome *w = &f->u.welcome;
    put_u32(b, w->credits);
    put_u32(b, w->n_cards);
    for (uint32_t i = 0; i < w->n_cards; i++) put_card(b, &w->cards[i]);
}

static void put_words(sk_buf *b, const sk_frame *f) {
    put_i32(b, f->u.text.status);
    put_text(b, f->u.text.text);
}

/* OPEN and ERASE: whose, and which tokens. The lengths stand first, so that the tokens lie at a multiple of four. */
static void put_prefix(sk_buf *b, const char *tenant, const char *cache_namespace, const int32_t *tokens, uint32_t n) {
    unsigned n_tenant = optional_length(tenant), n_namespace = optional_length(cache_namespace);
    put_u32(b, n);
    put_u16(b, n_tenant);
    put_u16(b, n_namespace);
    put_values(b, tokens, n);
    if (tenant) sk_buf_add(b, tenant, n_tenant);
    if (cache_namespace) sk_buf_add(b, cache_namespace, n_namespace);
}

static void put_open(sk_buf *b, const sk_frame *f) {
    put_prefix(b, f->u.open.tenant, f->u.open.cache_namespace, f->u.open.tokens, f->u.open.n_tokens);
}

static void put_erase(sk_buf *b, const sk_frame *f) {
    put_prefix(b, f->u.erase.tenant, f->u.erase.cache_namespace, f->u.erase.tokens, f->u.erase.n_tokens);
}

static void put_offer(sk_buf *b, const sk_stage_offer *o) {
    put_u32(b, o->range_max);
    put_u32(b, o->act_from);
    put_u32(b, o->act_to);
    put_u32(b, o->n_exact);
    put_values(b, o->exact, o->n_exact);
    put_u8(b, o->terminal);
}

static void put_probed(sk_buf *b, const sk_frame *f) {
    put_u32(b, f->u.probed.n_offers);
    for (uint32_t i = 0; i < f->u.probed.n_offers; i++) put_offer(b, &f->u.probed.offers[i]);
}

static void put_restore(sk_buf *b, const sk_frame *f) {
    put_u32(b, f->u.restore.n_lengths);
    put_values(b, f->u.restore.length, f->u.restore.n_lengths);
}

static void put_restored(sk_buf *b, const sk_frame *f) {
    const sk_frame_restored *r = &f->u.restored;
    put_i32(b, r->status);
    put_u32(b, r->n_logits);
    put_u64(b, r->replayed_bytes);
    put_values(b, r->logits, r->n_logits);
    put_u32(b, r->n_sources);
    sk_buf_add(b, r->source, r->n_sources);
    put_text(b, r->text);
}

static void put_span(sk_buf *b, const sk_span *s) {
    put_u64(b, s->session);
    put_u32(b, s->lane);
    put_u32(b, s->pos);
    put_u32(b, s->n);
    put_u32(b, s->flags);
    put_key(b, &s->before);
    put_key(b, &s->after);
}

static void put_chunk(sk_buf *b, const sk_frame *f) {
    const sk_frame_chunk *c = &f->u.chunk;
    put_u32(b, c->n_spans);
    put_u32(b, c->n_rows);
    put_u32(b, c->width);
    put_u32(b, c->dtype);
    for (uint32_t i = 0; i < c->n_spans; i++) put_span(b, &c->spans[i]);
    for (uint32_t i = 0; i < c->n_spans; i++) put_values(b, c->spans[i].tokens, c->spans[i].n);
    sk_buf_add(b, c->hidden, (size_t)c->hidden_bytes);
}

static void put_result(sk_buf *b, const sk_frame *f) {
    const sk_frame_result *r = &f->u.result;
    put_u32(b, r->pos);
    put_u32(b, r->n_logits);
    put_u64(b, r->compute_ns);
    if (r->tokens) put_values(b, r->tokens, r->n_logits);
    put_values(b, r->logits, r->n_logits);
}

static void put_count(sk_buf *b, const sk_frame *f) {
    put_u64(b, f->u.count.n);
}

static void put_erased(sk_buf *b, const sk_frame *f) {
    put_u64(b, f->u.count.n);
    put_i32(b, f->u.count.status);
}

static void put_nothing(sk_buf *b, const sk_frame *f) {
    (void)b;
    (void)f;
}

/* ---- frames ---- */

/* What the frame will need at least, for one allocation instead of many where it matters: an estimate. */
static size_t expected_bytes(const sk_frame *f) {
    size_t n = SK_FRAME_HEADER + 256;
    switch (f->kind) {
    case SK_FRAME_CHUNK: {
        const sk_frame_chunk *c = &f->u.chunk;
        return n + c->n_spans * (size_t)SK_FRAME_SPAN_BYTES + 4 * (size_t)c->n_rows + (size_t)c->hidden_bytes;
    }
    case SK_FRAME_OPEN: return n + 4 * (size_t)f->u.open.n_tokens;
    case SK_FRAME_RESULT: return n + 4 * (size_t)f->u.result.n_logits;
    case SK_FRAME_RESTORED: return n + 4 * (size_t)f->u.restored.n_logits;
    default: return n;
    }
}

static void put_body(sk_buf *b, const sk_frame *f) {
    static void (*const body[SK_FRAME_KINDS])(sk_buf * b, const sk_frame *f) = {
        [SK_FRAME_HELLO] = put_hello,     [SK_FRAME_WELCOME] = put_welcome,   [SK_FRAME_REFUSE] = put_words,
        [SK_FRAME_OPEN] = put_open,       [SK_FRAME_PROBE] = put_nothing,     [SK_FRAME_PROBED] = put_probed,
        [SK_FRAME_RESTORE] = put_restore, [SK_FRAME_RESTORED] = put_restored, [SK_FRAME_CHUNK] = put_chunk,
        [SK_FRAME_RESULT] = put_result,   [SK_FRAME_RECORD] = put_count,      [SK_FRAME_TRIM] = put_count,
        [SK_FRAME_STOP] = put_nothing,    [SK_FRAME_FAULT] = put_words,       [SK_FRAME_CREDIT] = put_count,
        [SK_FRAME_ERASE] = put_erase,     [SK_FRAME_ERASED] = put_erased,     [SK_FRAME_PING] = put_count,
        [SK_FRAME_PONG] = put_count,
    };
    put_u16(b, f->kind);
    put_u16(b, f->flags);
    put_u32(b, f->lane);
    put_u64(b, f->session);
    body[f->kind](b, f);
}

bool sk_frame_encode(const sk_frame *f, sk_buf *out) {
    if (sk_frame_fault(f)) return false;
    size_t start = out->len;
    if (!sk_buf_reserve(out, expected_bytes(f))) return false;
    put_u32(out, 0);
    put_body(out, f);
    if (out->failed) {
        out->len = start; /* half a frame is never left behind */
        out->data[start] = '\0';
        return false;
    }
    /* fits: every count is bounded, and the largest frame is the one with 2^29 bytes of hidden states */
    sk_put_u32((uint8_t *)out->data + start, (uint32_t)(out->len - start - SK_FRAME_PREFIX));
    return true;
}
