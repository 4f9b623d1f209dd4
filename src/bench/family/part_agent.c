/* The part "agent": whole conversations of an agent, replayed message by message over /v1/chat/completions. */
#include <stdlib.h>
#include <string.h>

#include "bench/conversation.h"
#include "bench/family/part.h"
#include "bench/family/replay.h"
#include "bench/family/token_bound.h"

/* MESSAGE_TOKENS: what a chat template puts around each message, generously. */
enum { MESSAGE_TOKENS = 16, WARM_UP_TOKENS = 16, WARM_UP_PREDICT = 2 };

#define TOTAL_SERIES "all conversations"

/* What one server has done so far. */
typedef struct agent_state {
    sk_sample total; /* sum of all measured requests */
} agent_state;

static size_t agent_rounds(const sk_part_host *h) {
    return h->task->replay ? h->task->replay->n : 0;
}

/* ---- context ---- */

static size_t request_tokens(const sk_replay_request *r) {
    size_t tokens = SK_PART_TEMPLATE_TOKENS + SK_PART_SPARE_TOKENS;
    size_t i = 0;
    const json_t *message = NULL;
    json_array_foreach(r->messages, i, message) {
        const char *text = json_string_value(json_object_get(message, "content"));
        tokens += MESSAGE_TOKENS + sk_token_bound(text ? text : "");
    }
    return tokens + r->max_tokens;
}

/* Answers come back as text and are tokenized again, which may make a few more tokens of them: the stand-in counts as
 * twice the number. */
static char *stand_in_answer(uint32_t max_tokens) {
    const size_t n = (size_t)max_tokens * 2;
    char *text = malloc(n + 1);
    if (text) {
        memset(text, '#', n);
        text[n] = '\0';
    }
    return text;
}

/* The most tokens that any request of the conversation may have together with its answer. A conversation that cannot be
 * played is reported by the round that plays it. */
static size_t conversation_tokens(const sk_replay_conversation *c) {
    sk_replay_state s;
    size_t most = 0;
    int rc = sk_replay_begin(&s, c, NULL);
    while (rc == SKIPPY_OK) {
        sk_replay_request r;
        rc = sk_replay_next(&s, &r, NULL);
        if (rc != SKIPPY_OK || !r.messages) {
            break;
        }
        const size_t tokens = request_tokens(&r);
        most = tokens > most ? tokens : most;
        char *answer = stand_in_answer(r.max_tokens);
        rc = answer ? sk_replay_answer(&s, answer, NULL) : SKIPPY_E_NOMEM;
        free(answer);
        sk_replay_request_free(&r);
    }
    sk_replay_end(&s);
    return most;
}

static size_t agent_lane_tokens(const sk_part_task *t) {
    size_t most = 0;
    for (size_t i = 0; t->replay && i < t->replay->n; i++) {
        const size_t tokens = conversation_tokens(&t->replay->v[i]);
        most = tokens > most ? tokens : most;
    }
    return most;
}

/* ---- before the first measured request ---- */

/* The texts of the steps are the same for every server, whatever the servers answer in between. */
static void note_steps(sk_prompts *p, const sk_replay_conversation *c) {
    for (size_t i = 0; i < c->n_steps; i++) {
        const sk_replay_step *step = &c->step[i];
        const uint32_t numbers[] = {(uint32_t)step->kind, step->max_tokens, step->strip_percent, step->drop};
        sk_prompts_note(p, (const char *)numbers, sizeof numbers);
        sk_prompts_note(p, step->text ? step->text : "", step->text ? strlen(step->text) : 0);
    }
}

/* So that the first decode of each batch shape is not measured. */
static int warm_up(sk_part_host *h, size_t i, sk_err *e) {
    sk_conversation c;
    sk_buf text = {0};
    int rc = sk_conversation_init(&c, true, e);
    if (rc == SKIPPY_OK) {
        rc = sk_prompts_text(&h->prompts, sk_part_seed(h, "agent", 0, i), WARM_UP_TOKENS, &text, e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_conversation_add(&c, "user", text.data, e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_part_send(h, &c, WARM_UP_PREDICT, NULL, false, NULL, e);
    }
    sk_buf_free(&text);
    sk_conversation_free(&c);
    return rc;
}

static int agent_prepare(sk_part_host *h, sk_err *e) {
    const sk_replay_corpus *corpus = h->task->replay;
    if (!corpus || corpus->n == 0) {
        return sk_err_set(e, SKIPPY_E_INVALID, "the part 'agent' needs a corpus of conversations");
    }
    h->state = calloc(1, sizeof(agent_state));
    if (!h->state || json_object_set_new(h->extra, "steps", json_object()) != 0) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the part 'agent'");
    }
    for (size_t i = 0; i < corpus->n; i++) {
        note_steps(&h->prompts, &corpus->v[i]);
    }
    int rc = SKIPPY_OK;
    for (size_t i = 0; rc == SKIPPY_OK && i < SK_WARM_UPS; i++) {
        rc = warm_up(h, i, e);
    }
    return rc;
}

static void agent_finish(sk_part_host *h) {
    free(h->state);
    h->state = NULL;
}

/* ---- one conversation ---- */

/* Adds the newest sample of the series to the sum. */
static void add_to_total(sk_part_host *h, const char *series) {
    agent_state *state = h->state;
    const sk_series *s = sk_measurement_find(h->m, series);
    if (s && s->n) {
        const sk_sample *newest = &s->v[s->n - 1];
        state->total.ms += newest->ms;
        state->total.cache_n += newest->cache_n;
        state->total.prompt_n += newest->prompt_n;
    }
}

static int note_kind(json_t *list, const sk_replay_request *r, sk_err *e) {
    json_t *kind = json_pack("{s:s, s:s}", "do", sk_replay_kind_name(r->kind), "after", r->after);
    return kind && json_array_append_new(list, kind) == 0
               ? SKIPPY_OK
               : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the kinds of the requests");
}

/* Sends one request, measured. The first one contains no answer yet, so that every server renders the same prompt of it
 * and must give the same answer; later ones contain the server's own answers, which may differ after a near tie. */
static int send_request(sk_part_host *h, const sk_replay_conversation *c, const sk_replay_request *r, char **answer,
                        sk_err *e) {
    const sk_conversation messages = {.chat = true, .messages = r->messages};
    const bool first = r->number == 1;
    int rc = first ? sk_prompts_note_template(&h->prompts, &h->host->ep, &messages, e) : SKIPPY_OK;
    if (rc == SKIPPY_OK) {
        rc = sk_part_send(h, &messages, r->max_tokens, c->key, first, answer, e);
    }
    if (rc == SKIPPY_OK) {
        add_to_total(h, c->key);
    }
    return rc;
}

static int play(sk_part_host *h, const sk_replay_conversation *c, json_t *kinds, sk_err *e) {
    sk_replay_state s;
    bool ended = false;
    int rc = sk_replay_begin(&s, c, e);
    while (rc == SKIPPY_OK && !ended) {
        sk_replay_request r;
        char *answer = NULL;
        rc = sk_replay_next(&s, &r, e);
        ended = !r.messages;
        if (rc == SKIPPY_OK && !ended) {
            rc = send_request(h, c, &r, &answer, e);
            if (rc == SKIPPY_OK) {
                rc = note_kind(kinds, &r, e);
            }
            if (rc == SKIPPY_OK) {
                rc = sk_replay_answer(&s, answer, e);
            }
        }
        free(answer);
        sk_replay_request_free(&r);
    }
    sk_replay_end(&s);
    return rc;
}

/* The series' name is the conversation's key: the corpus lives longer than the measurement. */
static int agent_round(sk_part_host *h, size_t i, sk_err *e) {
    const sk_replay_corpus *corpus = h->task->replay;
    const sk_replay_conversation *c = &corpus->v[i];
    const agent_state *state = h->state;
    json_t *kinds = json_array();
    if (json_object_set_new(json_object_get(h->extra, "steps"), c->key, kinds) != 0) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the kinds of the requests");
    }
    const int rc = play(h, c, kinds, e);
    if (rc == SKIPPY_OK && i + 1 == corpus->n) {
        return sk_measurement_add(h->m, TOTAL_SERIES, state->total.ms, state->total.cache_n, state->total.prompt_n, e);
    }
    return rc;
}

const sk_part sk_part_agent = {.name = "agent",
                               .title = "whole conversations of an agent",
                               .rounds = agent_rounds,
                               .lane_tokens = agent_lane_tokens,
                               .prepare = agent_prepare,
                               .round = agent_round,
                               .finish = agent_finish};
