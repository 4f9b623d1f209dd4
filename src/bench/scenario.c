#include "bench/scenario.h"

#include <stdlib.h>
#include <string.h>

#include "bench/conversation.h"
#include "bench/interrupt.h"

static size_t one_lane(const sk_sizes *s) {
    (void)s;
    return 1;
}

static size_t client_lanes(const sk_sizes *s) {
    return s->clients;
}

static size_t repeat_tokens(const sk_sizes *s) {
    return s->prefix_tokens + s->new_tokens + SK_GATE_TOKENS + 1;
}

static size_t alternation_tokens(const sk_sizes *s) {
    return s->chat_tokens + SK_GATE_TOKENS + 1;
}

/* Answers are read as text and tokenized again, which may make a few more tokens of them: twice the number is kept
 * free. */
static size_t agent_tokens(const sk_sizes *s) {
    return s->turns * (s->turn_tokens + 2 * s->turn_predict) + s->turn_tokens + 1;
}

static size_t clients_tokens(const sk_sizes *s) {
    return s->system_tokens + s->tail_tokens + s->clients_predict + 1;
}

static size_t edit_tokens(const sk_sizes *s) {
    return s->history_tokens + s->edit_tokens + SK_GATE_TOKENS + 1;
}

static const sk_scenario scenarios[] = {
    {"exact", "exact repeat", SK_SCENARIO_EXACT, false, false, false, one_lane, repeat_tokens, sk_scenario_exact},
    {"prefix", "shared prefix and new tokens", SK_SCENARIO_PREFIX, false, false, false, one_lane, repeat_tokens,
     sk_scenario_prefix},
    {"alternation", "two long chats in turn on one lane", SK_SCENARIO_ALTERNATION, false, false, false, one_lane,
     alternation_tokens, sk_scenario_alternation},
    {"agent", "agent loop of growing turns", SK_SCENARIO_AGENT, false, false, true, one_lane, agent_tokens,
     sk_scenario_agent},
    {"agent-chat", "agent loop as chat messages", SK_SCENARIO_AGENT, true, true, true, one_lane, agent_tokens,
     sk_scenario_agent},
    {"clients", "clients with one system prompt, all cold at once", SK_SCENARIO_CLIENTS, false, false, true,
     client_lanes, clients_tokens, sk_scenario_clients},
    {"clients-chat", "clients with one system message, all cold at once", SK_SCENARIO_CLIENTS, true, true, true,
     client_lanes, clients_tokens, sk_scenario_clients},
    {"edit", "last message edited, as raw text", SK_SCENARIO_EDIT, false, false, false, one_lane, edit_tokens,
     sk_scenario_edit},
    {"edit-chat", "last message edited, as chat messages", SK_SCENARIO_EDIT, true, false, false, one_lane, edit_tokens,
     sk_scenario_edit},
};

void sk_sizes_default(sk_sizes *s) {
    *s = (sk_sizes){.seed = 1,
                    .runs = 20,
                    .long_runs = 3,
                    .prefix_tokens = 128,
                    .new_tokens = 16,
                    .chat_tokens = 1000,
                    .turns = 12,
                    .turn_tokens = 60,
                    .turn_predict = 16,
                    .clients = 8,
                    .system_tokens = 2000,
                    .tail_tokens = 32,
                    .clients_predict = 1,
                    .history_tokens = 600,
                    .edit_tokens = 20,
                    .edits = 5,
                    .cost_tokens = 512,
                    .cost_predict = 32,
                    .cost_lanes = 4};
}

void sk_sizes_quick_check(sk_sizes *s) {
    const uint64_t seed = s->seed;
    sk_sizes_default(s);
    s->seed = seed;
    s->runs = 2;
    s->long_runs = 1;
    s->prefix_tokens = 48;
    s->chat_tokens = 96;
    s->turns = 3;
    s->turn_tokens = 24;
    s->turn_predict = 4;
    s->clients = 3;
    s->system_tokens = 96;
    s->tail_tokens = 16;
    s->history_tokens = 100;
    s->edit_tokens = 12;
    s->edits = 2;
    s->cost_tokens = 64;
    s->cost_predict = 8;
    s->cost_lanes = 2;
}

uint64_t sk_sizes_seed(const sk_sizes *s, unsigned scenario, size_t repetition, size_t part) {
    return s->seed * UINT64_C(1000000007) + scenario * UINT64_C(100000000) + (uint64_t)repetition * 1000u +
           (uint64_t)part;
}

const sk_scenario *sk_scenario_at(size_t i) {
    return i < sizeof scenarios / sizeof scenarios[0] ? &scenarios[i] : NULL;
}

const sk_scenario *sk_scenario_find(const char *name, size_t len) {
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        if (strlen(scenarios[i].name) == len && memcmp(scenarios[i].name, name, len) == 0) {
            return &scenarios[i];
        }
    }
    return NULL;
}

int sk_measured_send(sk_endpoint *ep, sk_measurement *m, const sk_conversation *c, size_t n_predict, const char *series,
                     bool cold, const char **answer, sk_err *e) {
    sk_reply reply = {0};
    if (sk_interrupted()) {
        return sk_err_set(e, SKIPPY_E_CANCELLED, "interrupted");
    }
    int rc = sk_conversation_send(c, ep, n_predict, &reply, e);
    if (rc == SKIPPY_OK && series) {
        rc = sk_measurement_add(m, series, reply.ms, reply.cache_n, reply.prompt_n, e);
    }
    if (rc != SKIPPY_OK) {
        sk_reply_free(&reply);
        return rc;
    }
    rc = sk_measurement_answer(m,
                               (sk_answer){.cold = cold,
                                           .first_token = reply.first_token,
                                           .text = reply.text,
                                           .prompt = cold ? sk_conversation_dump(c) : NULL,
                                           .chat = c->chat,
                                           .n_predict = n_predict},
                               e);
    if (rc == SKIPPY_OK && answer) {
        *answer = m->answers[m->n_answers - 1].text;
    }
    return rc;
}

int sk_run_send(sk_run *r, const sk_conversation *c, size_t n_predict, const char *series, bool cold,
                const char **answer, sk_err *e) {
    return sk_measured_send(r->ep, r->m, c, n_predict, series, cold, answer, e);
}

int sk_prompts_note_template(sk_prompts *p, sk_endpoint *ep, const sk_conversation *c, sk_err *e) {
    char *prompt = NULL;
    if (!c->chat) {
        return SKIPPY_OK;
    }
    const int rc = sk_endpoint_apply_template(ep, c->messages, &prompt, e);
    if (rc == SKIPPY_OK) {
        sk_prompts_note(p, prompt, strlen(prompt));
    }
    free(prompt);
    return rc;
}

int sk_run_note_template(sk_run *r, const sk_conversation *c, sk_err *e) {
    return sk_prompts_note_template(&r->prompts, r->ep, c, e);
}
