/* Several clients send prompts with one common beginning at the same moment; nothing of it is in any cache. */
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench/conversation.h"
#include "bench/scenario.h"

/* Where the clients wait for the start. A barrier would not do: threads that wait in it cannot be sent home when a
 * later one cannot be made. */
typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    enum { GATE_SHUT, GATE_GO, GATE_HOME } state;
} gate;

typedef struct client {
    pthread_t thread;
    gate *start;
    sk_conversation prompt;
    sk_endpoint ep;
    size_t n_predict;
    sk_reply reply;
    uint64_t done_ns;
    int rc;
    sk_err err;
} client;

static bool wait_for_start(gate *g) {
    pthread_mutex_lock(&g->lock);
    while (g->state == GATE_SHUT) {
        pthread_cond_wait(&g->opened, &g->lock);
    }
    const bool go = g->state == GATE_GO;
    pthread_mutex_unlock(&g->lock);
    return go;
}

static void open_gate(gate *g, bool go) {
    pthread_mutex_lock(&g->lock);
    g->state = go ? GATE_GO : GATE_HOME;
    pthread_cond_broadcast(&g->opened);
    pthread_mutex_unlock(&g->lock);
}

static void *client_main(void *ud) {
    client *c = ud;
    if (!wait_for_start(c->start)) {
        return NULL;
    }
    c->rc = sk_conversation_send(&c->prompt, &c->ep, c->n_predict, &c->reply, &c->err);
    c->done_ns = sk_now_ns();
    return NULL;
}

/* Prompt of client i: the common text and its own tail. */
static int make_prompt(sk_run *r, size_t repetition, size_t i, const sk_buf *common, client *c, sk_err *e) {
    const uint64_t seed = sk_sizes_seed(r->sizes, SK_SCENARIO_CLIENTS, repetition, 1 + i);
    sk_buf text = {0};
    int rc = sk_conversation_init(&c->prompt, r->chat, e);
    if (rc == SKIPPY_OK) {
        rc = r->chat ? sk_prompts_text(&r->prompts, seed, r->sizes->tail_tokens, &text, e)
                     : sk_prompts_extend(&r->prompts, seed, common->data, r->sizes->tail_tokens, &text, e);
    }
    if (rc == SKIPPY_OK && r->chat) {
        rc = sk_conversation_add(&c->prompt, "system", common->data, e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_conversation_add(&c->prompt, "user", text.data, e);
    }
    if (rc == SKIPPY_OK && i == 0) {
        rc = sk_run_note_template(r, &c->prompt, e);
    }
    sk_buf_free(&text);
    return rc;
}

/* Starts all threads, lets them go at once, and returns the time from there until the last answer in *ms. */
static int race(client *clients, size_t n, double *ms, sk_err *e) {
    gate start = {.lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER, .state = GATE_SHUT};
    size_t started = 0;
    int rc = SKIPPY_OK;
    for (; started < n; started++) {
        clients[started].start = &start;
        if (pthread_create(&clients[started].thread, NULL, client_main, &clients[started]) != 0) {
            rc = sk_err_set(e, SKIPPY_E_NOMEM, "cannot start %zu client threads", n);
            break;
        }
    }
    const uint64_t begin = sk_now_ns();
    uint64_t end = begin;
    open_gate(&start, rc == SKIPPY_OK);
    for (size_t i = 0; i < started; i++) {
        pthread_join(clients[i].thread, NULL);
        end = clients[i].done_ns > end ? clients[i].done_ns : end;
        if (clients[i].rc != SKIPPY_OK && rc == SKIPPY_OK) {
            rc = sk_err_set(e, clients[i].rc, "%s", clients[i].err.text);
        }
    }
    *ms = (double)(end - begin) / 1e6;
    return rc;
}

/* Sums say how much of the common text was computed more than once. */
static int keep_results(sk_run *r, client *clients, double ms, sk_err *e) {
    size_t cache_n = 0;
    size_t prompt_n = 0;
    int rc = SKIPPY_OK;
    for (size_t i = 0; rc == SKIPPY_OK && i < r->sizes->clients; i++) {
        sk_reply *reply = &clients[i].reply;
        cache_n += reply->cache_n;
        prompt_n += reply->prompt_n;
        rc = sk_measurement_add(r->m, "each client", reply->ms, reply->cache_n, reply->prompt_n, e);
        if (rc == SKIPPY_OK) {
            rc = sk_measurement_answer(r->m,
                                       (sk_answer){.cold = true,
                                                   .first_token = reply->first_token,
                                                   .text = reply->text,
                                                   .prompt = sk_conversation_dump(&clients[i].prompt),
                                                   .chat = r->chat,
                                                   .n_predict = r->sizes->clients_predict},
                                       e);
            reply->text = NULL;
        }
    }
    return rc == SKIPPY_OK ? sk_measurement_add(r->m, "all done", ms, cache_n, prompt_n, e) : rc;
}

static int one_race(sk_run *r, size_t repetition, client *clients, sk_err *e) {
    const sk_sizes *s = r->sizes;
    sk_buf common = {0};
    double ms = 0.0;
    int rc = sk_prompts_text(&r->prompts, sk_sizes_seed(s, SK_SCENARIO_CLIENTS, repetition, 0), s->system_tokens,
                             &common, e);
    for (size_t i = 0; i < s->clients; i++) {
        clients[i] = (client){.n_predict = s->clients_predict};
        sk_endpoint_init(&clients[i].ep, r->ep->http.port, r->timeout_ms);
    }
    for (size_t i = 0; rc == SKIPPY_OK && i < s->clients; i++) {
        rc = make_prompt(r, repetition, i, &common, &clients[i], e);
        if (rc == SKIPPY_OK) {
            rc = sk_http_client_prepare(&clients[i].ep.http, e);
        }
    }
    if (rc == SKIPPY_OK) {
        rc = race(clients, s->clients, &ms, e);
    }
    if (rc == SKIPPY_OK) {
        rc = keep_results(r, clients, ms, e);
    }
    for (size_t i = 0; i < s->clients; i++) {
        sk_reply_free(&clients[i].reply);
        sk_conversation_free(&clients[i].prompt);
        sk_endpoint_close(&clients[i].ep);
    }
    sk_buf_free(&common);
    return rc;
}

int sk_scenario_clients(sk_run *r, sk_err *e) {
    client *clients = calloc(r->sizes->clients, sizeof *clients);
    int rc = clients ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the clients");
    for (size_t i = 0; rc == SKIPPY_OK && i < r->sizes->long_runs; i++) {
        rc = one_race(r, i, clients, e);
    }
    free(clients);
    return rc;
}
