/* Bytes to frames. The bytes come from a peer: nothing in them is believed before it was compared with what is left.
 * See frame.h and docs/formats/stage-link.md. */
#include <stdlib.h>
#include <string.h>

#include "base/record.h"
#include "stage/frame_codec.h"

/* `why` is set once, by the first thing that is wrong; from then on every read gives 0 and moves nothing, so that a
 * body reads straight down and is checked once. A count is compared before anything is written for it. */
typedef struct reader {
    const uint8_t *at;
    size_t left;
    const char *why;
    bool nomem;
} reader;

/* ---- primitives ---- */

static const uint8_t *take(reader *r, size_t n) {
    if (!r->why && n > r->left) r->why = "it ends early";
    if (r->why) return NULL;
    const uint8_t *at = r->at;
    r->at += n;
    r->left -= n;
    return at;
}

static uint8_t get_u8(reader *r) {
    const uint8_t *p = take(r, 1);
    return p ? *p : 0;
}

static uint16_t get_u16(reader *r) {
    const uint8_t *p = take(r, 2);
    return (uint16_t)(p ? p[0] | p[1] << 8 : 0);
}

static uint32_t get_u32(reader *r) {
    const uint8_t *p = take(r, 4);
    return p ? sk_get_u32(p) : 0;
}

static int32_t get_i32(reader *r) {
    return (int32_t)get_u32(r);
}

static uint64_t get_u64(reader *r) {
    uint64_t low = get_u32(r);
    return low | (uint64_t)get_u32(r) << 32;
}

static bool get_bool(reader *r) {
    uint8_t v = get_u8(r);
    if (v > 1 && !r->why) r->why = "a yes or no is neither";
    return v == 1;
}

/* A field of four bytes whose value fits in one. */
static uint8_t get_small(reader *r, const char *why) {
    uint32_t v = get_u32(r);
    if (v > UINT8_MAX && !r->why) r->why = why;
    return (uint8_t)v;
}

/* A count of things that the frame has room for. 0 when it lies. */
static uint32_t get_count(reader *r, uint32_t max, const char *why) {
    uint32_t n = get_u32(r);
    if (n > max && !r->why) r->why = why;
    return r->why ? 0 : n;
}

static void get_key(reader *r, skippy_key *out) {
    const uint8_t *p = take(r, sizeof out->bytes);
    if (p) memcpy(out->bytes, p, sizeof out->bytes);
}

/* n bytes of text without NUL; NULL when it has one. */
static const uint8_t *take_text(reader *r, size_t n) {
    const uint8_t *p = take(r, n);
    if (p && n && memchr(p, 0, n)) {
        r->why = "a text has a NUL inside";
        return NULL;
    }
    return p;
}

/* out is zeroed. */
static void get_text(reader *r, char *out, size_t cap) {
    size_t n = get_u16(r);
    if (n >= cap && !r->why) r->why = "a text is too long";
    const uint8_t *p = take_text(r, n);
    if (p) memcpy(out, p, n);
}

/* Small arrays of the frame itself. */
static void get_u32s(reader *r, uint32_t *out, uint32_t n) {
    const uint8_t *p = take(r, 4 * (size_t)n);
    if (p) memcpy(out, p, 4 * (size_t)n);
}

static void *allocate(reader *r, size_t n) {
    void *p = malloc(n);
    if (!p) {
        r->nomem = true;
        r->why = "out of memory";
    }
    return p;
}

static bool is_aligned(const void *p) {
    return (uintptr_t)p % _Alignof(uint32_t) == 0;
}

/* n values of four bytes: where they lie, or copied into *owned when they lie unaligned. NULL for none. */
static const void *take_values(reader *r, uint32_t n, void **owned) {
    const uint8_t *p = take(r, 4 * (size_t)n);
    if (!p || n == 0) return NULL;
    if (is_aligned(p)) return p;
    *owned = allocate(r, 4 * (size_t)n);
    return *owned ? memcpy(*owned, p, 4 * (size_t)n) : NULL;
}

/* ---- bodies ---- */

static void get_card(reader *r, sk_stage_card *c) {
    c->life = get_u64(r);
    c->index = get_u32(r);
    c->layer_start = get_i32(r);
    c->layer_end = get_i32(r);
    c->n_layer = get_i32(r);
    c->width = get_u32(r);
    c->n_vocab = get_u32(r);
    c->n_ctx = get_u32(r);
    c->n_lanes = get_u32(r);
    c->n_batch = get_u32(r);
    c->dtype = get_u8(r);
    c->last = get_bool(r);
    get_text(r, c->abi, sizeof c->abi);
    get_text(r, c->source, sizeof c->source);
    get_text(r, c->name, sizeof c->name);
}

static void get_hello(reader *r, sk_frame *f) {
    sk_frame_hello *h = &f->u.hello;
    h->protocol = get_u32(r);
    /* what follows may lie otherwise in another version, so nothing of it is read */
    if (!r->why && h->protocol != SK_STAGE_PROTOCOL) r->why = "it is of another version of the protocol";
    get_key(r, &h->chain);
    h->index = get_u32(r);
    h->n_stages = get_count(r, SK_CHAIN_MAX, "it names more stages than a chain may have");
    for (uint32_t i = 0; i < h->n_stages; i++) h->cuts[i] = get_i32(r);
    h->n_route = get_count(r, SK_CHAIN_MAX, "its route is longer than a chain may be");
    for (uint32_t i = 0; i < h->n_route; i++) get_text(r, h->route[i], sizeof h->route[i]);
    get_card(r, &h->head);
}

static void get_welcome(reader *r, sk_frame *f) {
    sk_frame_welcome *w = &f->u.welcome;
    w->credits = get_u32(r);
    w->n_cards = get_count(r, SK_CHAIN_MAX, "it has more cards than a chain may have stages");
    for (uint32_t i = 0; i < w->n_cards; i++) get_card(r, &w->cards[i]);
}

static void get_words(reader *r, sk_frame *f) {
    f->u.text.status = get_i32(r);
    get_text(r, f->u.text.text, sizeof f->u.text.text);
}

/* A string of OPEN or ERASE, and where its copy goes. */
static const uint8_t *take_optional(reader *r, uint16_t n) {
    if (n == SK_FRAME_ABSENT) return NULL;
    if (n >= SK_FRAME_TEXT_MAX && !r->why) r->why = "a text is too long";
    return take_text(r, n);
}

static const char *copy_optional(char **to, const uint8_t *text, uint16_t n) {
    if (!text) return NULL;
    char *copy = *to;
    memcpy(copy, text, n);
    copy[n] = '\0';
    *to = copy + n + 1;
    return copy;
}

/* OPEN and ERASE. One allocation: the tokens, should they need a copy, then the strings. */
static void get_prefix(reader *r, sk_frame *f, const char **tenant, const char **cache_namespace,
                       const int32_t **tokens, uint32_t *n) {
    *n = get_count(r, SK_FRAME_TOKENS_MAX, "its tokens are more than any context has");
    uint16_t n_tenant = get_u16(r), n_namespace = get_u16(r);
    size_t bytes = 4 * (size_t)*n;
    const uint8_t *t = take(r, bytes);
    const uint8_t *who = take_optional(r, n_tenant), *where = take_optional(r, n_namespace);
    if (r->why) return;
    size_t copied = is_aligned(t) ? 0 : bytes;
    size_t room = copied + (who ? n_tenant + 1u : 0) + (where ? n_namespace + 1u : 0);
    char *to = room ? f->owned = allocate(r, room) : NULL;
    if (!to && (copied || who || where)) return; /* out of memory */
    if (copied) memcpy(to, t, copied);
    const void *aligned = copied ? (const void *)to : t;
    *tokens = *n ? aligned : NULL;
    to = to ? to + copied : NULL;
    *tenant = copy_optional(&to, who, n_tenant);
    *cache_namespace = copy_optional(&to, where, n_namespace);
}

static void get_open(reader *r, sk_frame *f) {
    sk_frame_open *o = &f->u.open;
    get_prefix(r, f, &o->tenant, &o->cache_namespace, &o->tokens, &o->n_tokens);
}

static void get_erase(reader *r, sk_frame *f) {
    sk_frame_erase *x = &f->u.erase;
    get_prefix(r, f, &x->tenant, &x->cache_namespace, &x->tokens, &x->n_tokens);
}

static void get_offer(reader *r, sk_stage_offer *o) {
    o->range_max = get_u32(r);
    o->act_from = get_u32(r);
    o->act_to = get_u32(r);
    o->n_exact = get_count(r, SK_FRAME_LENGTHS_MAX, "a stage offers more lengths than fit");
    get_u32s(r, o->exact, o->n_exact);
    o->terminal = get_bool(r);
}

static void get_probed(reader *r, sk_frame *f) {
    sk_frame_probed *p = &f->u.probed;
    p->n_offers = get_count(r, SK_CHAIN_MAX, "it has more offers than a chain may have stages");
    for (uint32_t i = 0; i < p->n_offers; i++) get_offer(r, &p->offers[i]);
}

static void get_restore(reader *r, sk_frame *f) {
    sk_frame_restore *x = &f->u.restore;
    x->n_lengths = get_count(r, SK_CHAIN_MAX, "it has more lengths than a chain may have stages");
    get_u32s(r, x->length, x->n_lengths);
}

static void get_restored(reader *r, sk_frame *f) {
    sk_frame_restored *x = &f->u.restored;
    x->status = get_i32(r);
    x->n_logits = get_count(r, SK_FRAME_LOGITS_MAX, "its row of logits is longer than any vocabulary");
    x->replayed_bytes = get_u64(r);
    x->logits = take_values(r, x->n_logits, &f->owned);
    x->n_sources = get_count(r, SK_CHAIN_MAX, "it has more sources than a chain may have stages");
    const uint8_t *sources = take(r, x->n_sources);
    if (sources) memcpy(x->source, sources, x->n_sources);
    get_text(r, x->text, sizeof x->text);
}

static void get_span(reader *r, sk_span *s) {
    s->session = get_u64(r);
    s->lane = get_u32(r);
    s->pos = get_u32(r);
    s->n = get_count(r, SK_FRAME_TOKENS_MAX, "a span has more tokens than any context");
    s->flags = get_small(r, "a span has unknown flags");
    get_key(r, &s->before);
    get_key(r, &s->after);
}

/* The spans share one array of tokens, in their order. */
static void get_chunk(reader *r, sk_frame *f) {
    sk_frame_chunk *c = &f->u.chunk;
    c->n_spans = get_count(r, SK_SPANS_MAX, "its number of spans is out of range");
    c->n_rows = get_count(r, SK_SPANS_MAX * (uint32_t)SK_FRAME_TOKENS_MAX, "its number of rows is out of range");
    c->width = get_u32(r);
    c->dtype = get_small(r, "its hidden states are neither f32 nor f16");
    uint64_t rows = 0;
    for (uint32_t i = 0; i < c->n_spans; i++) {
        get_span(r, &c->spans[i]);
        rows += c->spans[i].n;
    }
    if (rows != c->n_rows && !r->why) r->why = "its spans and its number of rows disagree";
    const int32_t *tokens = take_values(r, c->n_rows, &f->owned);
    for (uint32_t i = 0; tokens && i < c->n_spans; tokens += c->spans[i++].n) c->spans[i].tokens = tokens;
    c->hidden = r->at;
    c->hidden_bytes = r->left; /* compared with rows and width by sk_frame_fault */
    take(r, r->left);
}

static void get_result(reader *r, sk_frame *f) {
    sk_frame_result *x = &f->u.result;
    x->pos = get_u32(r);
    x->n_logits = get_count(r, SK_FRAME_LOGITS_MAX, "its row of logits is longer than any vocabulary");
    x->compute_ns = get_u64(r);
    if (!(f->flags & SK_FLAG_BEST)) {
        x->logits = take_values(r, x->n_logits, &f->owned);
        return;
    }
    if (x->n_logits > SK_BEST_LOGITS) {
        if (!r->why) r->why = "it has more of the largest logits than there are";
        return;
    }
    const uint8_t *both = take_values(r, 2 * x->n_logits, &f->owned); /* tokens, then their logits; aligned */
    if (!both) return;
    x->tokens = (const void *)both;
    x->logits = (const void *)(both + x->n_logits * sizeof *x->tokens);
}

static void get_number(reader *r, sk_frame *f) {
    f->u.count.n = get_u64(r);
}

static void get_erased(reader *r, sk_frame *f) {
    f->u.count.n = get_u64(r);
    f->u.count.status = get_i32(r);
}

static void get_nothing(reader *r, sk_frame *f) {
    (void)r;
    (void)f;
}

/* ---- frames ---- */

static void get_body(reader *r, sk_frame *f) {
    static void (*const body[SK_FRAME_KINDS])(reader * r, sk_frame * f) = {
        [SK_FRAME_HELLO] = get_hello,     [SK_FRAME_WELCOME] = get_welcome,   [SK_FRAME_REFUSE] = get_words,
        [SK_FRAME_OPEN] = get_open,       [SK_FRAME_PROBE] = get_nothing,     [SK_FRAME_PROBED] = get_probed,
        [SK_FRAME_RESTORE] = get_restore, [SK_FRAME_RESTORED] = get_restored, [SK_FRAME_CHUNK] = get_chunk,
        [SK_FRAME_RESULT] = get_result,   [SK_FRAME_RECORD] = get_number,     [SK_FRAME_TRIM] = get_number,
        [SK_FRAME_STOP] = get_nothing,    [SK_FRAME_FAULT] = get_words,       [SK_FRAME_CREDIT] = get_number,
        [SK_FRAME_ERASE] = get_erase,     [SK_FRAME_ERASED] = get_erased,     [SK_FRAME_PING] = get_number,
        [SK_FRAME_PONG] = get_number,
    };
    f->kind = get_u16(r);
    f->flags = get_u16(r);
    f->lane = get_u32(r);
    f->session = get_u64(r);
    if (r->why) return;
    if (f->kind < SK_FRAME_KINDS && body[f->kind]) body[f->kind](r, f);
    if (!r->why) r->why = sk_frame_fault(f); /* refuses unknown kinds, too */
    if (!r->why && r->left > 0) r->why = "bytes are left over behind its end";
}

static int refuse(const reader *r, sk_frame *f, size_t len, sk_err *e) {
    unsigned kind = f->kind, version = kind == SK_FRAME_HELLO ? f->u.hello.protocol : SK_STAGE_PROTOCOL;
    sk_frame_free(f);
    if (r->nomem) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a %s frame", sk_frame_name(kind));
    if (version != SK_STAGE_PROTOCOL && version != 0)
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "the peer speaks version %u of the stage protocol, this program version %u: run the same "
                          "version of skippy on all stages",
                          version, SK_STAGE_PROTOCOL);
    return sk_err_set(e, SKIPPY_E_INVALID, "a frame of %zu bytes and kind %u (%s) is not valid: %s", len, kind,
                      sk_frame_name(kind), r->why);
}

int sk_frame_decode(const uint8_t *bytes, size_t len, sk_frame *out, sk_err *e) {
    memset(out, 0, sizeof *out);
    reader r = {.at = bytes, .left = len};
    get_body(&r, out);
    return r.why ? refuse(&r, out, len, e) : SKIPPY_OK;
}
