#include "stage/frame_samples.h"

#include <math.h>
#include <string.h>

static const int32_t tokens[] = {1, -2, INT32_MAX, INT32_MIN, 0x01020304, 6, 7};
static const float logits[] = {1.0f, -0.0f, INFINITY, 1e-45f, -3.5f};
static const uint8_t hidden[] = {0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b};
static char longest[SK_FRAME_TEXT_MAX];
static int32_t many[SK_SPANS_MAX];
static uint16_t halves[SK_SPANS_MAX];

static void fill(char *text, size_t cap) {
    memset(text, 'x', cap - 1);
    text[cap - 1] = '\0';
}

static void fill_key(skippy_key *key, uint8_t first) {
    for (size_t i = 0; i < sizeof key->bytes; i++) key->bytes[i] = (uint8_t)(first + i);
}

static void small_card(sk_stage_card *c) {
    c->life = 0x1122334455667788;
    c->index = 1;
    c->layer_start = 2;
    c->layer_end = 4;
    c->n_layer = 6;
    c->width = 8;
    c->n_vocab = 9;
    c->n_ctx = 10;
    c->n_lanes = 11;
    c->n_batch = 12;
    c->dtype = 1;
    c->last = true;
    memcpy(c->abi, "abi", 4);
    memcpy(c->source, "0f", 3);
    memcpy(c->name, "a:1", 4);
}

static void extreme_card(sk_stage_card *c) {
    c->life = UINT64_MAX;
    c->index = c->width = c->n_vocab = c->n_ctx = c->n_lanes = c->n_batch = UINT32_MAX;
    c->layer_start = INT32_MIN;
    c->layer_end = INT32_MAX;
    c->n_layer = -1;
    fill(c->abi, sizeof c->abi);
    fill(c->source, sizeof c->source);
    fill(c->name, sizeof c->name);
}

static void make_card(sk_stage_card *c, enum sample_size size) {
    if (size == SAMPLE_SMALL) small_card(c);
    if (size == SAMPLE_EXTREME) extreme_card(c);
}

static void make_hello(sk_frame_hello *h, enum sample_size size) {
    h->protocol = SK_STAGE_PROTOCOL;
    make_card(&h->head, size);
    if (size == SAMPLE_EMPTY) return;
    bool small = size == SAMPLE_SMALL;
    fill_key(&h->chain, 0x40);
    h->index = small ? 1 : UINT32_MAX;
    h->n_stages = small ? 3 : SK_CHAIN_MAX;
    h->n_route = small ? 1 : SK_CHAIN_MAX;
    for (uint32_t i = 0; i < h->n_stages; i++) h->cuts[i] = small ? (int32_t)(2 * (i + 1)) : INT32_MAX;
    for (uint32_t i = 0; i < h->n_route; i++) {
        if (small)
            memcpy(h->route[i], "b:2", 4);
        else
            fill(h->route[i], sizeof h->route[i]);
    }
}

static void make_welcome(sk_frame_welcome *w, enum sample_size size) {
    if (size == SAMPLE_EMPTY) return;
    w->credits = size == SAMPLE_SMALL ? 4 : UINT32_MAX;
    w->n_cards = size == SAMPLE_SMALL ? 1 : SK_CHAIN_MAX;
    for (uint32_t i = 0; i < w->n_cards; i++) make_card(&w->cards[i], size);
}

static void make_text(sk_frame_text *t, enum sample_size size) {
    t->status = size == SAMPLE_SMALL ? SKIPPY_E_BUSY : size == SAMPLE_EXTREME ? INT32_MIN : 0;
    if (size == SAMPLE_SMALL) memcpy(t->text, "why", 4);
    if (size == SAMPLE_EXTREME) fill(t->text, sizeof t->text);
}

static void make_open(sk_frame_open *o, enum sample_size size) {
    if (size == SAMPLE_EMPTY) return;
    o->tenant = size == SAMPLE_SMALL ? "t" : longest;
    o->cache_namespace = size == SAMPLE_SMALL ? "" : longest;
    o->tokens = tokens;
    o->n_tokens = size == SAMPLE_SMALL ? 2 : sizeof tokens / sizeof *tokens;
}

static void make_erase(sk_frame_erase *x, enum sample_size size) {
    if (size == SAMPLE_EMPTY) return;
    x->cache_namespace = size == SAMPLE_SMALL ? "ns" : longest;
    x->tokens = tokens;
    x->n_tokens = size == SAMPLE_SMALL ? 1 : sizeof tokens / sizeof *tokens;
}

static void make_probed(sk_frame_probed *p, enum sample_size size) {
    if (size == SAMPLE_EMPTY) return;
    p->n_offers = size == SAMPLE_SMALL ? 1 : SK_CHAIN_MAX;
    for (uint32_t i = 0; i < p->n_offers; i++) {
        sk_stage_offer *o = &p->offers[i];
        o->n_exact = size == SAMPLE_SMALL ? 2 : SK_FRAME_LENGTHS_MAX;
        o->range_max = size == SAMPLE_SMALL ? 5 : SK_FRAME_TOKENS_MAX;
        o->act_from = size == SAMPLE_SMALL ? 64 : SK_FRAME_TOKENS_MAX;
        o->act_to = size == SAMPLE_SMALL ? 128 : SK_FRAME_TOKENS_MAX;
        o->terminal = true;
        uint32_t top = size == SAMPLE_SMALL ? 7 : SK_FRAME_TOKENS_MAX;
        for (uint32_t k = 0; k < o->n_exact; k++) o->exact[k] = top - k;
    }
}

static void make_restore(sk_frame_restore *r, enum sample_size size) {
    if (size == SAMPLE_EMPTY) return;
    r->n_lengths = size == SAMPLE_SMALL ? 2 : SK_CHAIN_MAX;
    for (uint32_t i = 0; i < r->n_lengths; i++) r->length[i] = size == SAMPLE_SMALL ? 9 - i : SK_FRAME_TOKENS_MAX;
}

static void make_restored(sk_frame_restored *r, enum sample_size size) {
    if (size == SAMPLE_EMPTY) return;
    r->status = size == SAMPLE_SMALL ? SKIPPY_E_NOT_FOUND : INT32_MIN;
    r->n_sources = size == SAMPLE_SMALL ? 2 : SK_CHAIN_MAX;
    for (uint32_t i = 0; i < r->n_sources; i++) r->source[i] = size == SAMPLE_SMALL ? (uint8_t)(i + 1) : SK_STAGE_DISK;
    r->replayed_bytes = size == SAMPLE_SMALL ? 0x0102030405060708 : UINT64_MAX;
    r->logits = logits;
    r->n_logits = size == SAMPLE_SMALL ? 2 : sizeof logits / sizeof *logits;
    if (size == SAMPLE_SMALL)
        memcpy(r->text, "no", 3);
    else
        fill(r->text, sizeof r->text);
}

/* Two spans, three rows of one f32 value. */
static void small_chunk(sk_frame_chunk *c) {
    c->n_spans = 2;
    c->n_rows = 3;
    c->width = 1;
    c->hidden = hidden;
    c->hidden_bytes = 12;
    c->spans[0] = (sk_span){.lane = 1, .session = 0x2122232425262728, .pos = 5, .n = 2, .flags = SK_SPAN_PROMPT};
    c->spans[1] = (sk_span){.lane = 2, .session = 3, .pos = 0, .n = 1, .flags = SK_SPAN_OUTPUT | SK_SPAN_TERMINAL};
    c->spans[0].tokens = tokens;
    c->spans[1].tokens = tokens + 2;
    fill_key(&c->spans[0].before, 0x40);
    fill_key(&c->spans[0].after, 0x60);
    fill_key(&c->spans[1].before, 0x80);
    fill_key(&c->spans[1].after, 0xa0);
}

static void extreme_chunk(sk_frame_chunk *c) {
    c->n_spans = c->n_rows = SK_SPANS_MAX;
    c->width = 1;
    c->dtype = 1;
    c->hidden = halves;
    c->hidden_bytes = sizeof halves;
    for (uint32_t i = 0; i < SK_SPANS_MAX; i++) {
        halves[i] = (uint16_t)(i * 1021);
        many[i] = (int32_t)(i * 0x01234567u);
        c->spans[i] = (sk_span){.lane = UINT32_MAX, .session = UINT64_MAX, .pos = SK_FRAME_TOKENS_MAX - 1, .n = 1};
        c->spans[i].flags = SK_SPAN_OUTPUT | SK_SPAN_TERMINAL | SK_SPAN_PROMPT;
        c->spans[i].tokens = &many[i];
        memset(&c->spans[i].after, 0xff, sizeof c->spans[i].after);
    }
}

/* The least that a chunk may be: one row of one f16 value. */
static void empty_chunk(sk_frame_chunk *c) {
    c->n_spans = c->n_rows = c->width = 1;
    c->dtype = 1;
    c->hidden = hidden;
    c->hidden_bytes = 2;
    c->spans[0].n = 1;
    c->spans[0].tokens = tokens;
}

static void make_chunk(sk_frame_chunk *c, enum sample_size size) {
    if (size == SAMPLE_SMALL) small_chunk(c);
    if (size == SAMPLE_EMPTY) empty_chunk(c);
    if (size == SAMPLE_EXTREME) extreme_chunk(c);
}

static void make_result(sk_frame_result *r, enum sample_size size) {
    r->logits = logits;
    r->n_logits = size == SAMPLE_EMPTY ? 1 : size == SAMPLE_SMALL ? 2 : sizeof logits / sizeof *logits;
    if (size == SAMPLE_EMPTY) return;
    r->pos = size == SAMPLE_SMALL ? 77 : SK_FRAME_TOKENS_MAX;
    r->compute_ns = size == SAMPLE_SMALL ? 0x0102030405060708 : UINT64_MAX;
}

static uint64_t largest_count(unsigned kind) {
    switch (kind) {
    case SK_FRAME_RECORD:
    case SK_FRAME_TRIM: return SK_FRAME_TOKENS_MAX;
    case SK_FRAME_CREDIT: return UINT32_MAX;
    default: return UINT64_MAX;
    }
}

static void make_count(sk_frame *f, enum sample_size size) {
    uint64_t least = f->kind == SK_FRAME_CREDIT ? 1 : 0;
    f->u.count.n = size == SAMPLE_SMALL ? 0x1234 : size == SAMPLE_EMPTY ? least : largest_count(f->kind);
    if (f->kind == SK_FRAME_ERASED && size != SAMPLE_EMPTY)
        f->u.count.status = size == SAMPLE_SMALL ? SKIPPY_E_IO : INT32_MIN;
}

static uint16_t flags_of(unsigned kind) {
    switch (kind) {
    case SK_FRAME_OPEN: return SK_FLAG_NO_CACHE;
    case SK_FRAME_STOP: return SK_FLAG_KEEP;
    case SK_FRAME_CHUNK: return SK_FLAG_REPLAY;
    default: return 0;
    }
}

void frame_sample(sk_frame *f, unsigned kind, enum sample_size size) {
    memset(f, 0, sizeof *f);
    fill(longest, sizeof longest);
    f->kind = (uint16_t)kind;
    if (size != SAMPLE_EMPTY) {
        f->flags = flags_of(kind);
        f->lane = size == SAMPLE_SMALL ? 0x31323334 : UINT32_MAX;
        f->session = size == SAMPLE_SMALL ? 0x4142434445464748 : UINT64_MAX;
    }
    switch (kind) {
    case SK_FRAME_HELLO: make_hello(&f->u.hello, size); break;
    case SK_FRAME_WELCOME: make_welcome(&f->u.welcome, size); break;
    case SK_FRAME_REFUSE:
    case SK_FRAME_FAULT: make_text(&f->u.text, size); break;
    case SK_FRAME_OPEN: make_open(&f->u.open, size); break;
    case SK_FRAME_PROBED: make_probed(&f->u.probed, size); break;
    case SK_FRAME_RESTORE: make_restore(&f->u.restore, size); break;
    case SK_FRAME_RESTORED: make_restored(&f->u.restored, size); break;
    case SK_FRAME_CHUNK: make_chunk(&f->u.chunk, size); break;
    case SK_FRAME_RESULT: make_result(&f->u.result, size); break;
    case SK_FRAME_ERASE: make_erase(&f->u.erase, size); break;
    case SK_FRAME_PROBE:
    case SK_FRAME_STOP: break;
    default: make_count(f, size); break;
    }
}

/* ---- comparison ---- */

static bool same_string(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_values(const void *a, const void *b, size_t n, size_t bytes) {
    return n == 0 ? a == b : memcmp(a, b, n * bytes) == 0;
}

static bool same_chunk(const sk_frame_chunk *a, const sk_frame_chunk *b) {
    if (a->n_spans != b->n_spans || a->n_rows != b->n_rows || a->width != b->width || a->dtype != b->dtype)
        return false;
    for (uint32_t i = 0; i < a->n_spans; i++) {
        const sk_span *x = &a->spans[i], *y = &b->spans[i];
        if (x->lane != y->lane || x->session != y->session || x->pos != y->pos || x->n != y->n) return false;
        if (x->flags != y->flags || !skippy_key_equal(&x->before, &y->before)) return false;
        if (!skippy_key_equal(&x->after, &y->after) || !same_values(x->tokens, y->tokens, x->n, 4)) return false;
    }
    return a->hidden_bytes == b->hidden_bytes && same_values(a->hidden, b->hidden, a->hidden_bytes, 1);
}

static bool same_restored(const sk_frame_restored *a, const sk_frame_restored *b) {
    return a->status == b->status && a->n_sources == b->n_sources && a->replayed_bytes == b->replayed_bytes &&
           a->n_logits == b->n_logits && same_values(a->logits, b->logits, a->n_logits, 4) &&
           memcmp(a->source, b->source, sizeof a->source) == 0 && same_string(a->text, b->text);
}

static bool same_card(const sk_stage_card *a, const sk_stage_card *b) {
    return a->life == b->life && a->index == b->index && a->layer_start == b->layer_start &&
           a->layer_end == b->layer_end && a->n_layer == b->n_layer && a->width == b->width &&
           a->n_vocab == b->n_vocab && a->n_ctx == b->n_ctx && a->n_lanes == b->n_lanes && a->n_batch == b->n_batch &&
           a->dtype == b->dtype && a->last == b->last && strcmp(a->abi, b->abi) == 0 &&
           strcmp(a->source, b->source) == 0 && strcmp(a->name, b->name) == 0;
}

static bool same_hello(const sk_frame_hello *a, const sk_frame_hello *b) {
    if (a->protocol != b->protocol || !skippy_key_equal(&a->chain, &b->chain) || a->index != b->index) return false;
    if (a->n_stages != b->n_stages || memcmp(a->cuts, b->cuts, sizeof a->cuts) != 0) return false;
    for (uint32_t i = 0; i < a->n_route; i++)
        if (strcmp(a->route[i], b->route[i]) != 0) return false;
    return a->n_route == b->n_route && same_card(&a->head, &b->head);
}

static bool same_welcome(const sk_frame_welcome *a, const sk_frame_welcome *b) {
    for (uint32_t i = 0; i < a->n_cards; i++)
        if (!same_card(&a->cards[i], &b->cards[i])) return false;
    return a->credits == b->credits && a->n_cards == b->n_cards;
}

static bool same_probed(const sk_frame_probed *a, const sk_frame_probed *b) {
    for (uint32_t i = 0; i < a->n_offers; i++) {
        const sk_stage_offer *x = &a->offers[i], *y = &b->offers[i];
        if (x->range_max != y->range_max || x->n_exact != y->n_exact || x->terminal != y->terminal) return false;
        if (memcmp(x->exact, y->exact, sizeof x->exact) != 0) return false;
        if (x->act_from != y->act_from || x->act_to != y->act_to) return false;
    }
    return a->n_offers == b->n_offers;
}

bool frame_equal(const sk_frame *a, const sk_frame *b) {
    if (a->kind != b->kind || a->flags != b->flags || a->lane != b->lane || a->session != b->session) return false;
    switch (a->kind) {
    case SK_FRAME_OPEN:
        return same_string(a->u.open.tenant, b->u.open.tenant) && a->u.open.n_tokens == b->u.open.n_tokens &&
               same_string(a->u.open.cache_namespace, b->u.open.cache_namespace) &&
               same_values(a->u.open.tokens, b->u.open.tokens, a->u.open.n_tokens, 4);
    case SK_FRAME_ERASE:
        return same_string(a->u.erase.tenant, b->u.erase.tenant) && a->u.erase.n_tokens == b->u.erase.n_tokens &&
               same_string(a->u.erase.cache_namespace, b->u.erase.cache_namespace) &&
               same_values(a->u.erase.tokens, b->u.erase.tokens, a->u.erase.n_tokens, 4);
    case SK_FRAME_CHUNK: return same_chunk(&a->u.chunk, &b->u.chunk);
    case SK_FRAME_RESTORED: return same_restored(&a->u.restored, &b->u.restored);
    case SK_FRAME_RESULT:
        return a->u.result.pos == b->u.result.pos && a->u.result.compute_ns == b->u.result.compute_ns &&
               a->u.result.n_logits == b->u.result.n_logits && !a->u.result.tokens == !b->u.result.tokens &&
               (!a->u.result.tokens || same_values(a->u.result.tokens, b->u.result.tokens, a->u.result.n_logits, 4)) &&
               same_values(a->u.result.logits, b->u.result.logits, a->u.result.n_logits, 4);
    case SK_FRAME_HELLO: return same_hello(&a->u.hello, &b->u.hello);
    case SK_FRAME_WELCOME: return same_welcome(&a->u.welcome, &b->u.welcome);
    case SK_FRAME_PROBED: return same_probed(&a->u.probed, &b->u.probed);
    case SK_FRAME_REFUSE:
    case SK_FRAME_FAULT: return a->u.text.status == b->u.text.status && same_string(a->u.text.text, b->u.text.text);
    case SK_FRAME_RESTORE:
        return a->u.restore.n_lengths == b->u.restore.n_lengths &&
               memcmp(a->u.restore.length, b->u.restore.length, sizeof a->u.restore.length) == 0;
    case SK_FRAME_PROBE:
    case SK_FRAME_STOP: return true;
    default: return a->u.count.n == b->u.count.n && a->u.count.status == b->u.count.status;
    }
}
