#include "bench/family/load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench/interrupt.h"
#include "bench/stats.h"

/* What all clients share. A request belongs to the client that drew its number; the rest is read only. */
typedef struct shared {
    const sk_load *load;
    sk_load_request *v;
    size_t n;
    atomic_size_t next; /* number of the request that the next free client sends */
} shared;

typedef struct client {
    shared *s;
    pthread_t thread;
    uint64_t done_ns;    /* when its last answer was read */
    size_t first_failed; /* number of its first request that failed; n = none */
    sk_err err;          /* of that request */
} client;

static void send_one(client *c, sk_http_client *http, size_t i) {
    sk_load_request *r = &c->s->v[i];
    sk_err err;
    r->rc = sk_stream_request(http, r->body, &r->times, &err);
    c->done_ns = sk_now_ns();
    if (r->rc != SKIPPY_OK && c->first_failed == c->s->n) {
        c->first_failed = i;
        c->err = err;
    }
}

static void *client_main(void *ud) {
    client *c = ud;
    sk_http_client http;
    sk_http_client_init(&http, c->s->load->port, c->s->load->timeout_ms);
    while (!sk_interrupted()) {
        const size_t i = atomic_fetch_add(&c->s->next, 1);
        if (i >= c->s->n) {
            break;
        }
        send_one(c, &http, i);
    }
    sk_http_client_close(&http);
    return NULL;
}

/* Starts up to n clients; returns how many there are. */
static size_t start_clients(shared *s, client *clients, size_t n) {
    for (size_t i = 0; i < n; i++) {
        clients[i] = (client){.s = s, .first_failed = s->n};
        if (pthread_create(&clients[i].thread, NULL, client_main, &clients[i]) != 0) {
            return i;
        }
    }
    return n;
}

/* Waits for all; *end_ns is when the last answer was read, the result is the client whose failure came first in the
 * order of the requests. */
static const client *join_clients(client *clients, size_t n, uint64_t *end_ns) {
    const client *first = &clients[0];
    for (size_t i = 0; i < n; i++) {
        pthread_join(clients[i].thread, NULL);
        *end_ns = clients[i].done_ns > *end_ns ? clients[i].done_ns : *end_ns;
        first = clients[i].first_failed < first->first_failed ? &clients[i] : first;
    }
    return first;
}

static size_t count_ok(const sk_load_request *v, size_t n) {
    size_t ok = 0;
    for (size_t i = 0; i < n; i++) {
        ok += v[i].rc == SKIPPY_OK;
    }
    return ok;
}

static int run_clients(shared *s, client *clients, size_t n_clients, double *wall_ms, sk_err *e) {
    const uint64_t begin = sk_now_ns();
    uint64_t end = begin;
    const size_t started = start_clients(s, clients, n_clients);
    if (started < n_clients) {
        atomic_store(&s->next, s->n); /* those that run go home after the request that they have */
    }
    const client *first = started ? join_clients(clients, started, &end) : NULL;
    *wall_ms = (double)(end - begin) / 1e6;
    if (started < n_clients) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "cannot start %zu client threads", n_clients);
    }
    if (sk_interrupted()) {
        return sk_err_set(e, SKIPPY_E_CANCELLED, "interrupted");
    }
    if (count_ok(s->v, s->n) == 0) {
        return sk_err_set(e, first->err.code, "all %zu requests failed, the first one: %s", s->n, first->err.text);
    }
    return SKIPPY_OK;
}

int sk_load_run(const sk_load *l, sk_load_request *v, size_t n, double *wall_ms, sk_err *e) {
    shared s = {.load = l, .v = v, .n = n};
    *wall_ms = 0.0;
    if (l->clients == 0 || l->clients > SK_LOAD_MAX_CLIENTS || n == 0) {
        return sk_err_set(e, SKIPPY_E_INVALID, "a load needs 1 to %d clients and a request, not %zu and %zu",
                          SK_LOAD_MAX_CLIENTS, l->clients, n);
    }
    for (size_t i = 0; i < n; i++) {
        v[i].rc = SKIPPY_E_CANCELLED; /* until it was sent */
    }
    const size_t n_clients = l->clients < n ? l->clients : n;
    client *clients = calloc(n_clients, sizeof *clients);
    if (!clients) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu clients", n_clients);
    }
    const int rc = run_clients(&s, clients, n_clients, wall_ms, e);
    free(clients);
    return rc;
}

/* ---- summary ---- */

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static sk_load_percentiles percentiles(double *values, size_t n) {
    qsort(values, n, sizeof *values, compare_doubles);
    return (sk_load_percentiles){.p50 = sk_stats_rank(values, n, 50), .p99 = sk_stats_rank(values, n, 99)};
}

int sk_load_summarize(const sk_load_request *v, size_t n, double wall_ms, double ttft_slo_ms, double tpot_slo_ms,
                      sk_load_summary *out, sk_err *e) {
    *out = (sk_load_summary){.requests = n};
    double *values = n <= SIZE_MAX / 3 / sizeof *values ? malloc((n ? n : 1) * 3 * sizeof *values) : NULL;
    if (!values) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the times of %zu requests", n);
    }
    double *ttft = values;
    double *tpot = values + n;
    double *elapsed = values + 2 * n;
    size_t n_tpot = 0;
    for (size_t i = 0; i < n; i++) {
        const sk_stream_times *t = &v[i].times;
        if (v[i].rc != SKIPPY_OK) {
            continue;
        }
        ttft[out->ok] = t->ttft_ms;
        elapsed[out->ok++] = t->elapsed_ms;
        if (t->has_tpot) {
            tpot[n_tpot++] = t->tpot_ms;
        }
        out->within_slo += t->ttft_ms <= ttft_slo_ms && (!t->has_tpot || t->tpot_ms <= tpot_slo_ms);
    }
    out->ttft = percentiles(ttft, out->ok);
    out->tpot = percentiles(tpot, n_tpot);
    out->elapsed = percentiles(elapsed, out->ok);
    out->goodput_rps = wall_ms > 0.0 ? (double)out->within_slo * 1000.0 / wall_ms : 0.0;
    free(values);
    return SKIPPY_OK;
}
