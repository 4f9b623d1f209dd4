/* Which frames are legal. See frame_codec.h. */
#include <string.h>

#include "stage/frame_codec.h"

uint64_t sk_frame_hidden_bytes(uint32_t n_rows, uint32_t width, uint8_t dtype) {
    static const uint8_t value_bytes[] = {4, 2}; /* f32, f16 */
    if (dtype >= sizeof value_bytes) return 0;
    uint64_t values = (uint64_t)n_rows * width;
    return values > SK_FRAME_ACTIVATIONS_MAX ? UINT64_MAX : values * value_bytes[dtype];
}

/* ---- strings ---- */

/* Ends inside its array, and cannot forge lines of a log. */
static bool is_text(const char *s, size_t cap) {
    if (!memchr(s, 0, cap)) return false;
    while (*s && (unsigned char)*s >= ' ' && *s != 0x7f) s++;
    return !*s;
}

static bool is_optional(const char *s) {
    return !s || strnlen(s, SK_FRAME_TEXT_MAX) < SK_FRAME_TEXT_MAX;
}

/* ---- kinds ---- */

static const char *card_fault(const sk_stage_card *c) {
    if (c->dtype > 1) return "a stage's hidden states are neither f32 nor f16";
    if (!is_text(c->abi, sizeof c->abi)) return "a stage's runtime name does not end, or has control characters";
    if (!is_text(c->source, sizeof c->source)) return "a stage's model digest does not end, or has control characters";
    if (!is_text(c->name, sizeof c->name)) return "a stage's name does not end, or has control characters";
    return NULL;
}

static const char *hello_fault(const sk_frame *f) {
    const sk_frame_hello *h = &f->u.hello;
    if (h->n_stages > SK_CHAIN_MAX) return "it names more stages than a chain may have";
    if (h->n_route > SK_CHAIN_MAX) return "its route is longer than a chain may be";
    for (uint32_t i = 0; i < h->n_route; i++)
        if (!is_text(h->route[i], sizeof h->route[i]))
            return "an address of its route does not end, or has control characters";
    return card_fault(&h->head);
}

static const char *welcome_fault(const sk_frame *f) {
    const sk_frame_welcome *w = &f->u.welcome;
    if (w->n_cards > SK_CHAIN_MAX) return "it has more cards than a chain may have stages";
    for (uint32_t i = 0; i < w->n_cards; i++) {
        const char *why = card_fault(&w->cards[i]);
        if (why) return why;
    }
    return NULL;
}

static const char *text_fault(const sk_frame *f) {
    return is_text(f->u.text.text, sizeof f->u.text.text) ? NULL : "its text does not end, or has control characters";
}

static const char *open_fault(const sk_frame *f) {
    const sk_frame_open *o = &f->u.open;
    if (o->n_tokens > SK_FRAME_TOKENS_MAX) return "its prompt is longer than any context";
    if (o->n_tokens && !o->tokens) return "its tokens are missing";
    if (!is_optional(o->tenant)) return "its tenant is too long";
    if (!is_optional(o->cache_namespace)) return "its cache namespace is too long";
    return NULL;
}

static const char *erase_fault(const sk_frame *f) {
    const sk_frame_erase *x = &f->u.erase;
    if (x->n_tokens > SK_FRAME_TOKENS_MAX) return "its tokens are more than any context has";
    if (x->n_tokens && !x->tokens) return "its tokens are missing";
    if (!is_optional(x->tenant)) return "its tenant is too long";
    if (!is_optional(x->cache_namespace)) return "its cache namespace is too long";
    return NULL;
}

static const char *offer_fault(const sk_stage_offer *o) {
    if (o->n_exact > SK_FRAME_LENGTHS_MAX) return "a stage offers more lengths than fit";
    if (o->range_max > SK_FRAME_TOKENS_MAX || o->act_to > SK_FRAME_TOKENS_MAX)
        return "a stage offers more tokens than any context has";
    if (o->act_from > o->act_to) return "a stage's hidden states end before they begin";
    for (uint32_t i = 0; i < o->n_exact; i++) {
        if (o->exact[i] > SK_FRAME_TOKENS_MAX) return "a stage offers more tokens than any context has";
        if (i && o->exact[i] >= o->exact[i - 1]) return "a stage's lengths do not descend";
    }
    return NULL;
}

static const char *probed_fault(const sk_frame *f) {
    const sk_frame_probed *p = &f->u.probed;
    if (p->n_offers > SK_CHAIN_MAX) return "it has more offers than a chain may have stages";
    for (uint32_t i = 0; i < p->n_offers; i++) {
        const char *why = offer_fault(&p->offers[i]);
        if (why) return why;
    }
    return NULL;
}

static const char *restore_fault(const sk_frame *f) {
    const sk_frame_restore *r = &f->u.restore;
    if (r->n_lengths > SK_CHAIN_MAX) return "it has more lengths than a chain may have stages";
    for (uint32_t i = 0; i < r->n_lengths; i++)
        if (r->length[i] > SK_FRAME_TOKENS_MAX) return "a length is longer than any context";
    return NULL;
}

static const char *restored_fault(const sk_frame *f) {
    const sk_frame_restored *r = &f->u.restored;
    if (r->n_sources > SK_CHAIN_MAX) return "it has more sources than a chain may have stages";
    for (uint32_t i = 0; i < r->n_sources; i++)
        if (r->source[i] > SK_STAGE_DISK) return "a source of state is unknown";
    if (r->n_logits > SK_FRAME_LOGITS_MAX) return "its row of logits is longer than any vocabulary";
    if ((r->n_logits != 0) != (r->logits != NULL)) return "its row of logits and the row's length disagree";
    return is_text(r->text, sizeof r->text) ? NULL : "its text does not end, or has control characters";
}

static const char *span_fault(const sk_span *s) {
    if (s->n == 0) return "a span has no tokens";
    if (s->n > SK_FRAME_TOKENS_MAX || s->pos > SK_FRAME_TOKENS_MAX - s->n) return "a span ends behind any context";
    if (s->flags & ~(SK_SPAN_OUTPUT | SK_SPAN_TERMINAL | SK_SPAN_PROMPT | SK_SPAN_BEST))
        return "a span has unknown flags";
    return s->tokens ? NULL : "a span's tokens are missing";
}

static const char *chunk_fault(const sk_frame *f) {
    const sk_frame_chunk *c = &f->u.chunk;
    if (c->n_spans == 0 || c->n_spans > SK_SPANS_MAX) return "its number of spans is out of range";
    if (c->dtype > 1) return "its hidden states are neither f32 nor f16";
    if (c->width == 0) return "its hidden states have no values";
    uint64_t rows = 0; /* of at most 64 spans of at most 2^22 tokens */
    for (uint32_t i = 0; i < c->n_spans; i++) {
        const char *why = span_fault(&c->spans[i]);
        if (why) return why;
        rows += c->spans[i].n;
    }
    if (rows != c->n_rows) return "its spans and its number of rows disagree";
    uint64_t bytes = sk_frame_hidden_bytes(c->n_rows, c->width, c->dtype);
    if (bytes > SK_FRAME_ACTIVATIONS_MAX) return "its hidden states are larger than a frame may carry";
    if (bytes != c->hidden_bytes) return "its hidden states are not as many bytes as its rows need";
    return c->hidden ? NULL : "its hidden states are missing";
}

static const char *result_fault(const sk_frame *f) {
    const sk_frame_result *r = &f->u.result;
    if (r->pos > SK_FRAME_TOKENS_MAX) return "its position is behind any context";
    const bool best = f->flags & SK_FLAG_BEST;
    const uint32_t most = best ? SK_BEST_LOGITS : SK_FRAME_LOGITS_MAX;
    if (r->n_logits == 0 || r->n_logits > most) return "the length of its row of logits is out of range";
    if (best != (r->tokens != NULL)) return "tokens go with the largest logits only";
    return r->logits ? NULL : "its row of logits is missing";
}

static const char *count_fault(const sk_frame *f) {
    const sk_frame_count *c = &f->u.count;
    if (c->status != 0 && f->kind != SK_FRAME_ERASED) return "it has no place for a status";
    if ((f->kind == SK_FRAME_RECORD || f->kind == SK_FRAME_TRIM) && c->n > SK_FRAME_TOKENS_MAX)
        return "its number of tokens is larger than any context";
    if (f->kind == SK_FRAME_CREDIT && (c->n == 0 || c->n > UINT32_MAX)) return "its number of chunks is out of range";
    return NULL;
}

static const char *no_fault(const sk_frame *f) {
    (void)f;
    return NULL;
}

const char *sk_frame_fault(const sk_frame *f) {
    static const struct {
        const char *(*fault)(const sk_frame *f);
        uint16_t flags; /* that the kind may have */
    } rules[SK_FRAME_KINDS] = {
        [SK_FRAME_HELLO] = {hello_fault, 0},
        [SK_FRAME_WELCOME] = {welcome_fault, 0},
        [SK_FRAME_REFUSE] = {text_fault, 0},
        [SK_FRAME_OPEN] = {open_fault, SK_FLAG_NO_CACHE},
        [SK_FRAME_PROBE] = {no_fault, 0},
        [SK_FRAME_PROBED] = {probed_fault, 0},
        [SK_FRAME_RESTORE] = {restore_fault, 0},
        [SK_FRAME_RESTORED] = {restored_fault, 0},
        [SK_FRAME_CHUNK] = {chunk_fault, SK_FLAG_REPLAY},
        [SK_FRAME_RESULT] = {result_fault, SK_FLAG_BEST},
        [SK_FRAME_RECORD] = {count_fault, 0},
        [SK_FRAME_TRIM] = {count_fault, 0},
        [SK_FRAME_STOP] = {no_fault, SK_FLAG_KEEP},
        [SK_FRAME_FAULT] = {text_fault, 0},
        [SK_FRAME_CREDIT] = {count_fault, 0},
        [SK_FRAME_ERASE] = {erase_fault, 0},
        [SK_FRAME_ERASED] = {count_fault, 0},
        [SK_FRAME_PING] = {count_fault, 0},
        [SK_FRAME_PONG] = {count_fault, 0},
    };
    if (f->kind >= SK_FRAME_KINDS || !rules[f->kind].fault) return "no frame has this kind";
    if (f->flags & ~rules[f->kind].flags) return "it has flags that its kind does not know";
    return rules[f->kind].fault(f);
}
