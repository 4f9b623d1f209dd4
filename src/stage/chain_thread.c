/* The chain's thread: connects, takes what the stages send, and connects again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "stage/chain_internal.h"

void sk_chain_wake_owner(const sk_chain *c) {
    if (c->wake) c->wake(c->ud);
}

/* ---- events ---- */

static sk_chain_event *new_event(enum sk_chain_event_type type, uint32_t epoch) {
    sk_chain_event *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    e->type = type;
    e->epoch = epoch;
    return e;
}

/* Caller holds the lock. */
static void push_locked(sk_chain *c, sk_chain_event *e) {
    *c->last = e;
    c->last = &e->next;
}

static void push(sk_chain *c, sk_chain_event *e) {
    pthread_mutex_lock(&c->lock);
    push_locked(c, e);
    pthread_mutex_unlock(&c->lock);
    sk_chain_wake_owner(c);
}

/* ---- up ---- */

static void note_restarts(sk_chain *c, const sk_frame_welcome *w) {
    for (uint32_t i = 0; i < c->n_addresses; i++) {
        if (c->lives[i] && c->lives[i] != w->cards[i].life)
            sk_log(SK_LOG_INFO, "stage %u at %s restarted", i + 1, c->addresses[i]);
        c->lives[i] = w->cards[i].life;
    }
}

static int come_up(sk_chain *c, sk_link *link, const sk_frame_welcome *w, sk_err *e) {
    uint32_t epoch = ++c->last_epoch;
    sk_chain_event *up = new_event(SK_CHAIN_UP, epoch);
    c->down = new_event(SK_CHAIN_DOWN, epoch);
    if (!up || !c->down) {
        sk_chain_event_free(up);
        sk_chain_event_free(c->down);
        c->down = NULL;
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the events of a chain");
    }
    note_restarts(c, w);
    pthread_mutex_lock(&c->lock);
    c->link = link;
    memcpy(c->cards, w->cards, w->n_cards * sizeof *c->cards);
    c->n_cards = w->n_cards;
    c->failure[0] = '\0';
    c->fatal = false;
    c->epoch = epoch;
    push_locked(c, up);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    sk_log(SK_LOG_INFO, "connected to the chain of stages: %u behind this one, through %s", c->n_addresses,
           c->addresses[0]);
    sk_chain_wake_owner(c);
    return SKIPPY_OK;
}

/* ---- down ---- */

/* Takes the link away from the owner. Caller holds the lock. */
static void detach_locked(sk_chain *c) {
    c->link = NULL;
    c->epoch = 0;
    c->n_cards = 0;
}

/* Why the chain is down, for the owner and for those who wait. event may be NULL (out of memory). */
static void tell_failure(sk_chain *c, const sk_err *why, sk_chain_event *event) {
    if (event) {
        memcpy(event->text, why->text, sizeof event->text);
        event->fatal = sk_chain_is_fatal(why->code);
    }
    pthread_mutex_lock(&c->lock);
    detach_locked(c);
    memcpy(c->failure, why->text, sizeof c->failure);
    c->fatal = sk_chain_is_fatal(why->code);
    if (event) push_locked(c, event);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    sk_log(SK_LOG_WARN, "the chain of stages is down: %s", why->text);
    if (event) sk_chain_wake_owner(c);
}

/* An attempt failed. The same words are told once, however often it is tried. */
static void attempt_failed(sk_chain *c, const sk_err *why) {
    pthread_mutex_lock(&c->lock);
    bool told = strcmp(c->failure, why->text) == 0;
    pthread_mutex_unlock(&c->lock);
    if (!told) tell_failure(c, why, new_event(SK_CHAIN_DOWN, c->last_epoch));
}

/* Tells the stage what it did wrong, as far as that is possible. */
static void say_why(sk_link *link, const sk_err *why) {
    sk_buf b = {0};
    sk_frame *f = calloc(1, sizeof *f);
    if (!f) return;
    f->kind = SK_FRAME_REFUSE;
    f->u.text.status = why->code;
    snprintf(f->u.text.text, sizeof f->u.text.text, "%s", why->text);
    sk_text_clean(f->u.text.text);
    if (sk_frame_encode(f, &b)) sk_link_try_send(link, &b, false, NULL);
    sk_buf_free(&b);
    free(f);
}

static void go_down(sk_chain *c, sk_link *link, const sk_err *why) {
    sk_chain_event *down = c->down;
    c->down = NULL;
    if (why->code == SKIPPY_E_CANCELLED) {
        pthread_mutex_lock(&c->lock);
        detach_locked(c);
        pthread_mutex_unlock(&c->lock);
        sk_chain_event_free(down);
    } else {
        if (why->code == SKIPPY_E_CORRUPT) say_why(link, why);
        tell_failure(c, why, down);
    }
    sk_link_close(link, SK_CHAIN_LINGER_MS);
}

/* ---- while it is up ---- */

/* Takes the event (decoded, with its bytes) or frees it. */
static int take_frame(sk_chain *c, sk_link *link, sk_chain_event *event, sk_err *e) {
    const sk_frame *f = &event->frame;
    int rc = SKIPPY_OK;
    switch (f->kind) {
    case SK_FRAME_PROBED:
    case SK_FRAME_RESTORED:
    case SK_FRAME_RESULT:
    case SK_FRAME_FAULT:
    case SK_FRAME_ERASED: push(c, event); return SKIPPY_OK;
    case SK_FRAME_CREDIT:
        sk_link_add_credits(link, (uint32_t)f->u.count.n); /* the decoder has bounded it */
        sk_chain_wake_owner(c);
        break;
    case SK_FRAME_REFUSE: rc = sk_chain_refused(c, &f->u.text, e); break;
    default:
        rc = sk_err_set(e, SKIPPY_E_CORRUPT, "the stage at %s sent a %s frame, which only goes the other way",
                        c->addresses[0], sk_frame_name(f->kind));
    }
    sk_chain_event_free(event);
    return rc;
}

static int take_bytes(sk_chain *c, sk_link *link, uint8_t *bytes, size_t len, sk_err *e) {
    sk_err why;
    sk_chain_event *event = new_event(SK_CHAIN_FRAME, c->last_epoch);
    if (!event) {
        free(bytes);
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a frame of the stage at %s", c->addresses[0]);
    }
    event->bytes = bytes;
    int rc = sk_frame_decode(bytes, len, &event->frame, &why);
    if (rc == SKIPPY_OK) return take_frame(c, link, event, e);
    sk_chain_event_free(event);
    return sk_err_set(e, rc == SKIPPY_E_NOMEM ? rc : SKIPPY_E_CORRUPT,
                      "the stage at %s sent a frame that cannot be read: %.300s", c->addresses[0], why.text);
}

/* Until the link ends; e says why. */
static void serve(sk_chain *c, sk_link *link, sk_err *e) {
    int rc = SKIPPY_OK;
    while (rc == SKIPPY_OK) {
        uint8_t *bytes;
        size_t len;
        if (c->closing)
            rc = sk_err_set(e, SKIPPY_E_CANCELLED, "the chain is closed");
        else if ((rc = sk_link_receive(link, 0, &bytes, &len, e)) == SKIPPY_OK)
            rc = take_bytes(c, link, bytes, len, e);
        else if (rc == SKIPPY_E_NOT_FOUND) {
            sk_waker_wait(&c->waker, SK_CHAIN_WAIT_MS);
            rc = SKIPPY_OK;
        }
    }
}

/* ---- thread ---- */

/* One attempt, and all that follows when it succeeds. True when the chain was up. */
static bool run_once(sk_chain *c, sk_err *e) {
    sk_link *link = NULL;
    sk_frame_welcome w;
    int rc = sk_chain_connect(c, &link, &w, e);
    if (rc == SKIPPY_OK) rc = come_up(c, link, &w, e);
    if (rc != SKIPPY_OK) {
        sk_link_close(link, 0);
        if (rc != SKIPPY_E_CANCELLED) attempt_failed(c, e);
        return false;
    }
    serve(c, link, e);
    go_down(c, link, e);
    return true;
}

static void pause_for(sk_chain *c, uint32_t ms) {
    uint64_t until = sk_now_ns() + (uint64_t)ms * 1000000u;
    for (uint64_t now; !c->closing && (now = sk_now_ns()) < until;)
        sk_waker_wait(&c->waker, (uint32_t)((until - now) / 1000000u) + 1);
}

void *sk_chain_main(void *chain) {
    sk_chain *c = chain;
    uint32_t pause_ms = SK_CHAIN_FIRST_PAUSE_MS;
    while (!c->closing) {
        sk_err e = {0};
        if (run_once(c, &e)) pause_ms = SK_CHAIN_FIRST_PAUSE_MS;
        pause_for(c, sk_chain_is_fatal(e.code) ? SK_CHAIN_LAST_PAUSE_MS : pause_ms);
        pause_ms = pause_ms < SK_CHAIN_LAST_PAUSE_MS / 2 ? pause_ms * 2 : SK_CHAIN_LAST_PAUSE_MS;
    }
    return NULL;
}
