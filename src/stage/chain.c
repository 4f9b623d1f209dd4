#include "stage/chain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stage/chain_internal.h"

/* ---- life ---- */

static void wake_thread(void *chain) {
    sk_chain *c = chain;
    sk_waker_wake(&c->waker);
}

/* Everything but the thread. */
static void destroy(sk_chain *c) {
    for (sk_chain_event *e = c->first, *next; e; e = next) {
        next = e->next;
        sk_chain_event_free(e);
    }
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    if (c->waker_open) sk_waker_close(&c->waker);
    sk_chain_free_params(c);
    free(c);
}

static int make(sk_chain *c, const sk_chain_params *p, sk_err *e) {
    int rc = sk_chain_copy_params(c, p, e);
    if (rc == SKIPPY_OK) rc = sk_waker_open(&c->waker, e);
    if (rc != SKIPPY_OK) return rc;
    c->waker_open = true;
    c->link_options.wake = wake_thread;
    c->link_options.ud = c;
    /* Credits bound the chunks that wait, and nothing else is large: the owner must not be refused a STOP. */
    c->link_options.queue_max = UINT64_MAX;
    if (pthread_create(&c->thread, NULL, sk_chain_main, c) == 0) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_NOMEM, "cannot start a thread for the chain of stages");
}

int sk_chain_open(const sk_chain_params *p, sk_chain **out, sk_err *e) {
    *out = NULL;
    sk_chain *c = calloc(1, sizeof *c);
    if (!c) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a chain");
    c->last = &c->first;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    int rc = make(c, p, e);
    if (rc == SKIPPY_OK)
        *out = c;
    else
        destroy(c);
    return rc;
}

void sk_chain_close(sk_chain *c) {
    if (!c) return;
    c->closing = true;
    sk_waker_wake(&c->waker);
    pthread_join(c->thread, NULL);
    destroy(c);
}

/* ---- events ---- */

void sk_chain_event_free(sk_chain_event *e) {
    if (!e) return;
    sk_frame_free(&e->frame);
    free(e->bytes);
    free(e);
}

sk_chain_event *sk_chain_events(sk_chain *c) {
    pthread_mutex_lock(&c->lock);
    sk_chain_event *first = c->first;
    c->first = NULL;
    c->last = &c->first;
    pthread_mutex_unlock(&c->lock);
    return first;
}

/* ---- waiting for the start ---- */

/* Up, or refused for good. */
static bool is_decided(const sk_chain *c) {
    return c->epoch != 0 || c->fatal;
}

/* Caller holds the lock. */
static int verdict(const sk_chain *c, uint32_t timeout_ms, sk_err *e) {
    if (c->epoch != 0) return SKIPPY_OK;
    if (c->fatal) return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "%s", c->failure);
    return sk_err_set(e, SKIPPY_E_TIMEOUT, "the stages are not all there after %u s: %.400s", timeout_ms / 1000,
                      c->failure[0] ? c->failure : "no answer yet");
}

static bool report(const sk_chain *c, const char *failure, bool (*progress)(void *ud, const char *text), void *ud) {
    char text[1024];
    if (!progress) return true;
    if (failure[0])
        snprintf(text, sizeof text, "waiting for the stages: %s", failure);
    else
        snprintf(text, sizeof text, "waiting for the %u stages behind %s", c->n_addresses, c->addresses[0]);
    return progress(ud, text);
}

int sk_chain_wait_up(sk_chain *c, uint32_t timeout_ms, bool (*progress)(void *ud, const char *text), void *ud,
                     sk_err *e) {
    enum { STEP_MS = 1000 };
    uint64_t deadline_ns = sk_now_ns() + (uint64_t)timeout_ms * 1000000u, now;
    char failure[sizeof c->failure];
    int rc = SKIPPY_OK;
    pthread_mutex_lock(&c->lock);
    while (rc == SKIPPY_OK && !is_decided(c) && (now = sk_now_ns()) < deadline_ns) {
        uint64_t left_ms = (deadline_ns - now) / 1000000u + 1;
        struct timespec until = sk_wall_after_ms(left_ms < STEP_MS ? (uint32_t)left_ms : STEP_MS);
        pthread_cond_timedwait(&c->changed, &c->lock, &until);
        if (is_decided(c)) break;
        memcpy(failure, c->failure, sizeof failure);
        pthread_mutex_unlock(&c->lock);
        if (!report(c, failure, progress, ud))
            rc = sk_err_set(e, SKIPPY_E_CANCELLED, "stopped while waiting for the stages");
        pthread_mutex_lock(&c->lock);
    }
    if (rc == SKIPPY_OK) rc = verdict(c, timeout_ms, e);
    pthread_mutex_unlock(&c->lock);
    return rc;
}

/* ---- the present link ---- */

/* What const promises is the chain's content; taking the lock does not change that. */
static pthread_mutex_t *lock_of(const sk_chain *c) {
    return &((sk_chain *)c)->lock;
}

uint32_t sk_chain_epoch(const sk_chain *c) {
    return c->epoch;
}

uint32_t sk_chain_cards(sk_chain *c, sk_stage_card out[SK_CHAIN_MAX]) {
    pthread_mutex_lock(&c->lock);
    uint32_t n = c->n_cards;
    memcpy(out, c->cards, n * sizeof *out);
    pthread_mutex_unlock(&c->lock);
    return n;
}

bool sk_chain_has_credit(const sk_chain *c) {
    pthread_mutex_lock(lock_of(c));
    bool has = c->link && sk_link_credits(c->link) > 0;
    pthread_mutex_unlock(lock_of(c));
    return has;
}

void sk_chain_get_link_stats(sk_chain *c, sk_link_stats *out) {
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&c->lock);
    if (c->link) sk_link_get_stats(c->link, out);
    pthread_mutex_unlock(&c->lock);
}

int sk_chain_send(sk_chain *c, uint32_t epoch, const sk_frame *f) {
    bool chunk = f->kind == SK_FRAME_CHUNK;
    if (epoch == 0 || c->epoch != epoch) return SKIPPY_E_IO;
    if (chunk && !sk_chain_has_credit(c)) return c->epoch == epoch ? SKIPPY_E_BUSY : SKIPPY_E_IO;
    sk_buf b = {0};
    bool encoded = sk_frame_encode(f, &b); /* megabytes: without the lock */
    pthread_mutex_lock(&c->lock);
    int rc = c->epoch != epoch ? SKIPPY_E_IO
             : encoded         ? sk_link_try_send(c->link, &b, chunk, NULL)
             : b.failed        ? SKIPPY_E_NOMEM
                               : SKIPPY_E_INVALID;
    pthread_mutex_unlock(&c->lock);
    sk_buf_free(&b);
    return rc;
}
