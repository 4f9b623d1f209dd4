/* An agent loop: every turn sends everything so far, the answer included, and some new text. */
#include "bench/conversation.h"
#include "bench/scenario.h"

static int add_text(sk_run *r, sk_conversation *c, const char *role, uint64_t seed, size_t n, sk_err *e) {
    sk_buf text = {0};
    int rc = sk_prompts_text(&r->prompts, seed, n, &text, e);
    if (rc == SKIPPY_OK) {
        rc = sk_conversation_add(c, role, text.data, e);
    }
    sk_buf_free(&text);
    return rc;
}

static const sk_sample *last_sample(const sk_measurement *m, const char *series) {
    const sk_series *s = sk_measurement_find(m, series);
    return s && s->n ? &s->v[s->n - 1] : NULL;
}

static void add_to_total(sk_sample *total, const sk_sample *turn) {
    if (turn) {
        total->ms += turn->ms;
        total->cache_n += turn->cache_n;
        total->prompt_n += turn->prompt_n;
    }
}

/* One whole loop. Only requests are summed: making the next text is not the servers' time. */
static int one_loop(sk_run *r, size_t repetition, sk_err *e) {
    const sk_sizes *s = r->sizes;
    sk_conversation c;
    sk_sample total = {0};
    int rc = sk_conversation_init(&c, r->chat, e);
    if (rc == SKIPPY_OK) {
        rc = add_text(r, &c, "system", sk_sizes_seed(s, SK_SCENARIO_AGENT, repetition, 0), s->turn_tokens, e);
    }
    for (size_t turn = 0; rc == SKIPPY_OK && turn < s->turns; turn++) {
        const char *answer = NULL;
        rc = add_text(r, &c, "user", sk_sizes_seed(s, SK_SCENARIO_AGENT, repetition, 1 + turn), s->turn_tokens, e);
        if (rc == SKIPPY_OK && turn == 0) {
            rc = sk_run_note_template(r, &c, e);
        }
        if (rc == SKIPPY_OK) {
            rc = sk_run_send(r, &c, s->turn_predict, "one turn", turn == 0, &answer, e);
        }
        if (rc == SKIPPY_OK) {
            add_to_total(&total, last_sample(r->m, "one turn"));
            rc = sk_conversation_add(&c, "assistant", answer, e);
        }
    }
    if (rc == SKIPPY_OK) {
        rc = sk_measurement_add(r->m, "all turns", total.ms, total.cache_n, total.prompt_n, e);
    }
    sk_conversation_free(&c);
    return rc;
}

int sk_scenario_agent(sk_run *r, sk_err *e) {
    int rc = SKIPPY_OK;
    for (size_t i = 0; rc == SKIPPY_OK && i < r->sizes->long_runs; i++) {
        rc = one_loop(r, i, e);
    }
    return rc;
}
