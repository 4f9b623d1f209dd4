/* Several clients send prompts with one common beginning at the same moment; nothing of it is in any cache. */
#include <stdlib.h>

#include "bench/conversation.h"
#include "bench/race.h"
#include "bench/scenario.h"

/* Prompt of client i: the common text and its own tail. */
static int make_prompt(sk_run *r, size_t repetition, size_t i, const sk_buf *common, sk_racer *c, sk_err *e) {
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

/* Sums say how much of the common text was computed more than once. */
static int keep_results(sk_run *r, sk_racer *clients, double ms, sk_err *e) {
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

static int one_race(sk_run *r, size_t repetition, sk_racer *clients, sk_err *e) {
    const sk_sizes *s = r->sizes;
    sk_buf common = {0};
    double ms = 0.0;
    int rc = sk_prompts_text(&r->prompts, sk_sizes_seed(s, SK_SCENARIO_CLIENTS, repetition, 0), s->system_tokens,
                             &common, e);
    for (size_t i = 0; i < s->clients; i++) {
        sk_racer_init(&clients[i], r->ep->http.port, r->timeout_ms, s->clients_predict);
    }
    for (size_t i = 0; rc == SKIPPY_OK && i < s->clients; i++) {
        rc = make_prompt(r, repetition, i, &common, &clients[i], e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_race_run(clients, s->clients, &ms, e);
    }
    if (rc == SKIPPY_OK) {
        rc = keep_results(r, clients, ms, e);
    }
    for (size_t i = 0; i < s->clients; i++) {
        sk_racer_free(&clients[i]);
    }
    sk_buf_free(&common);
    return rc;
}

int sk_scenario_clients(sk_run *r, sk_err *e) {
    sk_racer *clients = calloc(r->sizes->clients, sizeof *clients);
    int rc = clients ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the clients");
    for (size_t i = 0; rc == SKIPPY_OK && i < r->sizes->long_runs; i++) {
        rc = one_race(r, i, clients, e);
    }
    free(clients);
    return rc;
}
