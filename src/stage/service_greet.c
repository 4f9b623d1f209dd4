/* The beginning of a link: HELLO from the stage before, the link onward, WELCOME back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stage/stage_internal.h"

enum {
    HELLO_MS = 10000,
    DEFAULT_CONNECT_MS = 10000,
    WELCOME_MS = 120000, /* a stage behind may check a store and a codec first */
    SLICE_MS = 50
};

static void wake_relay(void *ud) {
    sk_stage *s = ud;
    sk_waker_wake(&s->relay_waker);
}

/* ---- one frame, waited for ---- */

typedef struct letter {
    sk_frame frame;
    uint8_t *bytes;
} letter;

static void letter_free(letter *l) {
    sk_frame_free(&l->frame);
    free(l->bytes);
    *l = (letter){0};
}

/* The next frame, which must be of this kind; a REFUSE becomes an error with the peer's words. */
static int await(sk_stage *s, sk_link *link, uint16_t kind, uint32_t ms, letter *out, sk_err *e) {
    const uint64_t deadline = sk_now_ns() + (uint64_t)ms * 1000000;
    size_t len = 0;
    int rc;
    *out = (letter){0};
    while ((rc = sk_link_receive(link, SLICE_MS, &out->bytes, &len, e)) == SKIPPY_E_NOT_FOUND) {
        if (atomic_load(&s->stop)) return sk_err_set(e, SKIPPY_E_CANCELLED, "this stage is being stopped");
        if (sk_link_is_down(s->up)) return sk_err_set(e, SKIPPY_E_IO, "the stage before went away");
        if (sk_stage_why_broken(s, e)) return e->code;
        if (sk_now_ns() > deadline)
            return sk_err_set(e, SKIPPY_E_TIMEOUT, "no %s from %s for %u s", sk_frame_name(kind), sk_link_peer(link),
                              ms / 1000);
    }
    if (rc) return rc;
    rc = sk_frame_decode(out->bytes, len, &out->frame, e);
    if (rc == SKIPPY_OK && out->frame.kind == SK_FRAME_REFUSE)
        rc = sk_err_set(e, out->frame.u.text.status ? out->frame.u.text.status : SKIPPY_E_IO, "%s",
                        out->frame.u.text.text);
    else if (rc == SKIPPY_OK && out->frame.kind != kind)
        rc = sk_err_set(e, SKIPPY_E_INVALID, "%s sent %s instead of %s", sk_link_peer(link),
                        sk_frame_name(out->frame.kind), sk_frame_name(kind));
    if (rc) letter_free(out);
    return rc;
}

/* ---- onward ---- */

static int send_hello(sk_stage *s, const sk_frame_hello *h, sk_err *e) {
    sk_frame f = {.kind = SK_FRAME_HELLO, .u.hello = *h};
    sk_frame_hello *next = &f.u.hello;
    next->cuts[h->index - 1] = s->facts.layer_start; /* the same, unless the head asked for it */
    next->index = h->index + 1;
    next->n_route = h->n_route - 1;
    memmove(next->route[0], next->route[1], next->n_route * sizeof next->route[0]);
    sk_buf b = {0};
    int rc = sk_frame_encode(&f, &b) ? sk_link_send(s->down, &b, false, sk_now_ns() + (uint64_t)HELLO_MS * 1000000, e)
                                     : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    sk_buf_free(&b);
    return rc;
}

/* Do the stages behind follow this one without a gap, up to the last layer? */
static int check_cards(const sk_stage *s, const sk_frame_hello *h, const sk_frame_welcome *w, sk_err *e) {
    if (w->n_cards != h->n_stages - 1 - h->index)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "%u stages answered behind stage %u, expected were %u", w->n_cards,
                          h->index, h->n_stages - 1 - h->index);
    int32_t end = s->facts.layer_end;
    for (uint32_t i = 0; i < w->n_cards; i++) {
        const sk_stage_card *c = &w->cards[i];
        if (c->layer_start != end)
            return sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                              "stage %u (%s) begins with layer %d, but the stage before it ends at %d: give the stages "
                              "cuts that follow each other",
                              h->index + 1 + i, c->name, c->layer_start, end);
        end = c->layer_end;
    }
    if (end != s->facts.n_layer || !w->cards[w->n_cards - 1].last)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "the last stage ends at layer %d of %d", end, s->facts.n_layer);
    return SKIPPY_OK;
}

/* Connects to the stage behind and takes its WELCOME. */
static int go_onward(sk_stage *s, const sk_frame_hello *h, sk_frame_welcome *all, sk_err *e) {
    s->n_behind = h->n_route;
    if (h->n_route == 0) return SKIPPY_OK;
    sk_link_options o = s->params.link;
    o.wake = wake_relay;
    o.ud = s;
    sk_err why = {0};
    letter answer = {0};
    uint32_t connect_ms = s->params.connect_ms ? s->params.connect_ms : DEFAULT_CONNECT_MS;
    int rc = sk_link_connect(h->route[0], &o, connect_ms, &s->down, &why);
    if (rc == SKIPPY_OK) rc = send_hello(s, h, &why);
    if (rc == SKIPPY_OK) rc = await(s, s->down, SK_FRAME_WELCOME, WELCOME_MS, &answer, &why);
    if (rc) return sk_err_set(e, rc, "stage %u (%s): %.400s", h->index + 1, h->route[0], why.text);
    const sk_frame_welcome *w = &answer.frame.u.welcome;
    rc = check_cards(s, h, w, e);
    if (rc == SKIPPY_OK) {
        for (uint32_t i = 0; i < w->n_cards && all->n_cards < SK_CHAIN_MAX; i++)
            all->cards[all->n_cards++] = w->cards[i];
        sk_link_set_limit(
            s->down, sk_frame_limit(s->card.n_batch, s->card.width, w->cards[w->n_cards - 1].n_vocab, s->card.n_ctx));
        sk_link_add_credits(s->down, w->credits);
    }
    letter_free(&answer);
    return rc;
}

/* ---- the whole of it ---- */

static int answer_hello(sk_stage *s, const sk_frame_hello *h, bool *fatal, sk_err *e) {
    int rc = sk_stage_check_hello(s, h, e);
    if (rc) return rc;
    s->split_known = !sk_stage_is_inquiry(h);
    s->card.index = h->index;
    if (s->split_known) {
        rc = sk_stage_open_hold(s, h, e);
        *fatal = rc != SKIPPY_OK;
        if (rc) return rc;
    }
    sk_frame f = {.kind = SK_FRAME_WELCOME, .u.welcome = {.credits = SK_STAGE_CREDITS, .n_cards = 1}};
    f.u.welcome.cards[0] = s->card;
    rc = go_onward(s, h, &f.u.welcome, e);
    if (rc) return rc;
    sk_link_set_limit(s->up, sk_frame_limit(s->card.n_batch, s->card.width, 0, s->card.n_ctx));
    sk_stage_send_up(s, &f);
    return sk_stage_is_broken(s) ? sk_err_set(e, SKIPPY_E_IO, "the link broke during the greeting") : SKIPPY_OK;
}

int sk_stage_greet(sk_stage *s, bool *fatal, sk_err *e) {
    letter hello = {0};
    *fatal = false;
    int rc = await(s, s->up, SK_FRAME_HELLO, HELLO_MS, &hello, e);
    if (rc) return rc;
    pthread_mutex_lock(&s->lock);
    s->hello_by_ns = 0;
    pthread_mutex_unlock(&s->lock);
    rc = answer_hello(s, &hello.frame.u.hello, fatal, e);
    letter_free(&hello);
    return rc;
}
