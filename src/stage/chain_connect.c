/* One attempt to connect: link, HELLO, WELCOME, checks. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stage/chain_internal.h"

bool sk_chain_is_fatal(int status) {
    return status == SKIPPY_E_UNSUPPORTED || status == SKIPPY_E_INVALID;
}

int sk_chain_refused(const sk_chain *c, const sk_frame_text *t, sk_err *e) {
    int status = t->status > SKIPPY_OK && t->status <= SKIPPY_E_TOO_SMALL ? t->status : SKIPPY_E_IO;
    return sk_err_set(e, status, "refused by the stage at %s: %.380s", c->addresses[0], t->text);
}

/* ---- HELLO ---- */

/* learn: the stages shall say which layers they have. */
static int fill_hello(const sk_chain *c, bool learn, sk_frame_hello *h, sk_err *e) {
    h->protocol = SK_STAGE_PROTOCOL;
    h->head = c->head;
    h->index = 1;
    h->n_stages = c->n_addresses + 1;
    h->n_route = c->n_addresses - 1;
    for (uint32_t i = 0; i < h->n_route; i++) memcpy(h->route[i], c->addresses[i + 1], strlen(c->addresses[i + 1]) + 1);
    for (uint32_t i = 0; i < h->n_stages; i++) h->cuts[i] = learn ? -1 : c->cuts[i];
    if (learn) return SKIPPY_OK;
    int32_t all[SK_CHAIN_MAX + 1] = {0};
    memcpy(all + 1, c->cuts, h->n_stages * sizeof *all);
    sk_chain_facts facts = c->facts;
    facts.cuts = all;
    facts.n_stages = h->n_stages;
    if (sk_chain_key(&facts, &h->chain) == SKIPPY_OK) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_INVALID, "the split into %u stages cannot be named: its layers do not rise from 0",
                      h->n_stages);
}

static int say_hello(const sk_chain *c, sk_link *link, bool learn, uint64_t deadline_ns, sk_err *e) {
    sk_buf b = {0};
    sk_frame *f = calloc(1, sizeof *f); /* large: not on the stack */
    int rc = f ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a greeting");
    if (rc != SKIPPY_OK) goto out;
    f->kind = SK_FRAME_HELLO;
    rc = fill_hello(c, learn, &f->u.hello, e);
    if (rc != SKIPPY_OK) goto out;
    rc = sk_frame_encode(f, &b) ? sk_link_send(link, &b, false, deadline_ns, e)
                                : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a greeting");
out:
    sk_buf_free(&b);
    free(f);
    return rc;
}

/* ---- WELCOME ---- */

static int receive(sk_chain *c, sk_link *link, uint64_t deadline_ns, uint8_t **bytes, size_t *len, sk_err *e) {
    for (;;) {
        int rc = sk_link_receive(link, 0, bytes, len, e);
        if (rc != SKIPPY_E_NOT_FOUND) return rc;
        if (c->closing) return sk_err_set(e, SKIPPY_E_CANCELLED, "the chain is closed");
        uint64_t now = sk_now_ns();
        if (now >= deadline_ns)
            return sk_err_set(e, SKIPPY_E_TIMEOUT, "the stage at %s did not answer in time", c->addresses[0]);
        uint64_t ms = (deadline_ns - now) / 1000000u + 1;
        sk_waker_wait(&c->waker, ms < SK_CHAIN_WAIT_MS ? (uint32_t)ms : SK_CHAIN_WAIT_MS);
    }
}

static int read_welcome(const sk_chain *c, const sk_frame *f, sk_frame_welcome *w, sk_err *e) {
    if (f->kind == SK_FRAME_REFUSE) return sk_chain_refused(c, &f->u.text, e);
    if (f->kind != SK_FRAME_WELCOME)
        return sk_err_set(e, SKIPPY_E_CORRUPT, "the stage at %s answered a HELLO with a %s frame", c->addresses[0],
                          sk_frame_name(f->kind));
    *w = f->u.welcome;
    return SKIPPY_OK;
}

static int take_welcome(sk_chain *c, sk_link *link, uint64_t deadline_ns, sk_frame_welcome *w, sk_err *e) {
    uint8_t *bytes = NULL;
    size_t len = 0;
    sk_err why;
    sk_frame *f = calloc(1, sizeof *f);
    int rc = f ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for an answer");
    if (rc == SKIPPY_OK) rc = receive(c, link, deadline_ns, &bytes, &len, e);
    if (rc != SKIPPY_OK) goto out;
    if (sk_frame_decode(bytes, len, f, &why) == SKIPPY_OK)
        rc = read_welcome(c, f, w, e);
    else
        rc = sk_err_set(e, SKIPPY_E_CORRUPT, "the answer of the stage at %s cannot be read: %.300s", c->addresses[0],
                        why.text);
    sk_frame_free(f);
out:
    free(bytes);
    free(f);
    return rc;
}

/* ---- both ---- */

/* Before it answers, a stage opens its stores, proves its codec and waits for the stage behind it: the one that gives
 * up first should be the one that knows why. A stage that is gone is noticed by the link meanwhile. */
static int greet(sk_chain *c, bool learn, sk_link **out, sk_frame_welcome *w, sk_err *e) {
    sk_link *link = NULL;
    int rc = sk_link_connect(c->addresses[0], &c->link_options, c->connect_ms, &link, e);
    if (rc != SKIPPY_OK) return rc;
    uint64_t answer_ms = (uint64_t)c->connect_ms * SK_CHAIN_ANSWER_FACTOR * c->n_addresses;
    uint64_t deadline_ns = sk_now_ns() + answer_ms * 1000000u;
    rc = say_hello(c, link, learn, deadline_ns, e);
    if (rc == SKIPPY_OK) rc = take_welcome(c, link, deadline_ns, w, e);
    if (rc == SKIPPY_OK)
        rc = sk_chain_check_cards(&c->head, learn ? NULL : c->cuts, c->addresses, c->n_addresses, w, e);
    if (rc == SKIPPY_OK) {
        *out = link;
        return SKIPPY_OK;
    }
    sk_link_close(link, 0);
    return rc;
}

/* What the stages say holds for this attempt; once the chain was up with it, for good: the head's own cache is named
 * after it. */
static int learn_cuts(sk_chain *c, sk_frame_welcome *w, sk_err *e) {
    sk_link *link = NULL;
    int rc = greet(c, true, &link, w, e);
    if (rc != SKIPPY_OK) return rc;
    sk_link_close(link, 0);
    for (uint32_t i = 0; i < c->n_addresses; i++) c->cuts[i] = w->cards[i].layer_start;
    c->cuts[c->n_addresses] = c->head.n_layer;
    return SKIPPY_OK;
}

int sk_chain_connect(sk_chain *c, sk_link **out, sk_frame_welcome *w, sk_err *e) {
    int rc = c->cuts_known ? SKIPPY_OK : learn_cuts(c, w, e);
    if (rc == SKIPPY_OK) rc = greet(c, false, out, w, e);
    if (rc != SKIPPY_OK) return rc;
    c->cuts_known = true;
    /* The largest frames that come up are rows of logits. */
    sk_link_set_limit(*out, sk_frame_limit(0, c->head.width, w->cards[c->n_addresses - 1].n_vocab, 0));
    sk_link_add_credits(*out, w->credits);
    return SKIPPY_OK;
}
