/* Scenarios on one lane that repeat known prompts: exact repeat, shared prefix, alternation. */
#include "bench/conversation.h"
#include "bench/scenario.h"

/* Makes a text of n tokens and sends it once, cold, for the comparison of answers. */
static int open_with(sk_run *r, unsigned scenario, size_t part, size_t n, sk_conversation *c, sk_err *e) {
    int rc = sk_conversation_init(c, false, e);
    if (rc == SKIPPY_OK) {
        rc = sk_prompts_text(&r->prompts, sk_sizes_seed(r->sizes, scenario, 0, part), n, &c->text, e);
    }
    return rc == SKIPPY_OK ? sk_run_send(r, c, SK_GATE_TOKENS, NULL, true, NULL, e) : rc;
}

/* /health is asked between the repeats, so that both see the same machine: the difference is what the model side costs.
 */
static int repeat_and_health(sk_run *r, const sk_conversation *c, sk_err *e) {
    double ms = 0.0;
    int rc = sk_run_send(r, c, 1, "exact repeat", false, NULL, e);
    if (rc == SKIPPY_OK) {
        rc = sk_endpoint_health(r->ep, &ms, e);
    }
    return rc == SKIPPY_OK ? sk_measurement_add(r->m, "health", ms, 0, 0, e) : rc;
}

int sk_scenario_exact(sk_run *r, sk_err *e) {
    sk_conversation c;
    int rc = open_with(r, SK_SCENARIO_EXACT, 0, r->sizes->prefix_tokens, &c, e);
    for (size_t i = 0; rc == SKIPPY_OK && i < SK_WARM_UPS; i++) {
        rc = sk_run_send(r, &c, 1, NULL, false, NULL, e);
    }
    for (size_t i = 0; rc == SKIPPY_OK && i < r->sizes->runs; i++) {
        rc = repeat_and_health(r, &c, e);
    }
    sk_conversation_free(&c);
    return rc;
}

int sk_scenario_prefix(sk_run *r, sk_err *e) {
    sk_conversation base;
    sk_conversation c = {0};
    int rc = open_with(r, SK_SCENARIO_PREFIX, 0, r->sizes->prefix_tokens, &base, e);
    for (size_t i = 0; rc == SKIPPY_OK && i < SK_WARM_UPS + r->sizes->runs; i++) {
        rc = sk_prompts_extend(&r->prompts, sk_sizes_seed(r->sizes, SK_SCENARIO_PREFIX, i, 1), base.text.data,
                               r->sizes->new_tokens, &c.text, e);
        if (rc == SKIPPY_OK) {
            rc = sk_run_send(r, &c, 1, i < SK_WARM_UPS ? NULL : "prefix + new tokens", false, NULL, e);
        }
    }
    sk_conversation_free(&c);
    sk_conversation_free(&base);
    return rc;
}

/* One chat after the other, each repeated: the first request of each pays for the switch and is not measured. */
static int without_alternation(sk_run *r, const sk_conversation *chats, size_t each, sk_err *e) {
    int rc = SKIPPY_OK;
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; rc == SKIPPY_OK && i < 1 + each; i++) {
            rc = sk_run_send(r, &chats[k], 1, i == 0 ? NULL : "same chat again", false, NULL, e);
        }
    }
    return rc;
}

int sk_scenario_alternation(sk_run *r, sk_err *e) {
    sk_conversation chats[2] = {{0}, {0}};
    const size_t each = (r->sizes->runs + 1) / 2;
    int rc = SKIPPY_OK;
    for (size_t k = 0; rc == SKIPPY_OK && k < 2; k++) {
        rc = open_with(r, SK_SCENARIO_ALTERNATION, k, r->sizes->chat_tokens, &chats[k], e);
    }
    for (size_t i = 0; rc == SKIPPY_OK && i < 2 * (SK_WARM_UPS + each); i++) {
        rc = sk_run_send(r, &chats[i % 2], 1, i < 2 * SK_WARM_UPS ? NULL : "A, B, A, B", false, NULL, e);
    }
    if (rc == SKIPPY_OK) {
        rc = without_alternation(r, chats, each, e);
    }
    sk_conversation_free(&chats[0]);
    sk_conversation_free(&chats[1]);
    return rc;
}
