#include "bench/race.h"

#include <stdbool.h>

#include "base/clock.h"

/* Where the clients wait for the start. A barrier would not do: threads that wait in it cannot be sent home when a
 * later one cannot be made. */
struct sk_race_gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    enum { GATE_SHUT, GATE_GO, GATE_HOME } state;
};

static bool wait_for_start(struct sk_race_gate *g) {
    pthread_mutex_lock(&g->lock);
    while (g->state == GATE_SHUT) {
        pthread_cond_wait(&g->opened, &g->lock);
    }
    const bool go = g->state == GATE_GO;
    pthread_mutex_unlock(&g->lock);
    return go;
}

static void open_gate(struct sk_race_gate *g, bool go) {
    pthread_mutex_lock(&g->lock);
    g->state = go ? GATE_GO : GATE_HOME;
    pthread_cond_broadcast(&g->opened);
    pthread_mutex_unlock(&g->lock);
}

static void *racer_main(void *ud) {
    sk_racer *r = ud;
    if (!wait_for_start(r->start)) {
        return NULL;
    }
    r->rc = sk_conversation_send(&r->prompt, &r->ep, r->n_predict, &r->reply, &r->err);
    r->done_ns = sk_now_ns();
    return NULL;
}

void sk_racer_init(sk_racer *r, uint16_t port, int timeout_ms, size_t n_predict) {
    *r = (sk_racer){.n_predict = n_predict};
    sk_endpoint_init(&r->ep, port, timeout_ms);
}

void sk_racer_free(sk_racer *r) {
    sk_reply_free(&r->reply);
    sk_conversation_free(&r->prompt);
    sk_endpoint_close(&r->ep);
}

/* Starts all threads and lets them go; the others go home when one of them cannot be made. */
static int race(sk_racer *racers, size_t n, double *ms, sk_err *e) {
    struct sk_race_gate start = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER, .state = GATE_SHUT};
    size_t started = 0;
    int rc = SKIPPY_OK;
    for (; started < n; started++) {
        racers[started].start = &start;
        if (pthread_create(&racers[started].thread, NULL, racer_main, &racers[started]) != 0) {
            rc = sk_err_set(e, SKIPPY_E_NOMEM, "cannot start %zu client threads", n);
            break;
        }
    }
    const uint64_t begin = sk_now_ns();
    uint64_t end = begin;
    open_gate(&start, rc == SKIPPY_OK);
    for (size_t i = 0; i < started; i++) {
        pthread_join(racers[i].thread, NULL);
        end = racers[i].done_ns > end ? racers[i].done_ns : end;
        if (racers[i].rc != SKIPPY_OK && rc == SKIPPY_OK) {
            rc = sk_err_set(e, racers[i].rc, "%s", racers[i].err.text);
        }
    }
    *ms = (double)(end - begin) / 1e6;
    return rc;
}

int sk_race_run(sk_racer *racers, size_t n, double *ms, sk_err *e) {
    int rc = SKIPPY_OK;
    for (size_t i = 0; rc == SKIPPY_OK && i < n; i++) {
        sk_reply_free(&racers[i].reply);
        rc = sk_http_client_prepare(&racers[i].ep.http, e);
    }
    return rc == SKIPPY_OK ? race(racers, n, ms, e) : rc;
}
