#include "bench/evict_generate.h"

#include <stdbool.h>
#include <stdlib.h>

enum { MARKS = 3, TOKEN_MS = 20 /* a generated token takes this long */ };

/* A prompt under construction: tokens are only counted, whole blocks have ids. */
typedef struct prompt {
    uint64_t *ids; /* of the whole blocks; room for the longest prompt */
    uint64_t tokens;
} prompt;

typedef struct agent {
    prompt talk;
    uint64_t project_tokens, project_ids; /* ids of the project's blocks begin here */
    uint64_t next_ms;
    uint64_t mark[MARKS]; /* tokens before the newest messages, newest first; 0 = none */
    uint32_t kind;
    bool person; /* the next message comes from a person */
} agent;

typedef struct maker {
    const sk_evict_workload *w;
    uint64_t random, next_id;
    uint64_t *system_tokens; /* of each kind */
    agent *agents;
    prompt side; /* of one-off calls */
    size_t room; /* ids of a prompt */
} maker;

sk_evict_workload sk_evict_workload_default(void) {
    return (sk_evict_workload){
        .seed = 1,
        .requests = 10000,
        .agents = 200,
        .kinds = 4,
        .system_tokens = {3000, 12000},
        .project_tokens = {500, 6000},
        .message_tokens = {30, 600},
        .tool_tokens = {100, 3000},
        .output_tokens = {30, 900},
        .context_tokens = 65536,
        .summary_tokens = {800, 3000},
        .person_share = 25,
        .edit_share = 5,
        .retry_share = 2,
        .side_share = 12,
        .fork_share = 3,
        .end_share = 5,
        .pause_share = 6,
        .think_ms = {8000, 120000},
        .tool_ms = {300, 12000},
        .pause_ms = {300000, 3600000},
    };
}

/* ---- chance ---- */

/* splitmix64: one multiplication chain, the same on every machine. */
static uint64_t draw(maker *m) {
    uint64_t x = m->random += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t between(maker *m, sk_evict_range r) {
    return r.from + draw(m) % ((uint64_t)r.to - r.from + 1);
}

/* Short ones are commoner than long ones, as in real conversations: the smaller of two draws. */
static uint64_t rather_short(maker *m, sk_evict_range r) {
    const uint64_t a = between(m, r), b = between(m, r);
    return a < b ? a : b;
}

/* ---- prompts ---- */

static uint64_t whole_blocks(uint64_t tokens) {
    return tokens / SK_EVICT_BLOCK_TOKENS;
}

/* Text that nobody else has. */
static void append(maker *m, prompt *p, uint64_t tokens) {
    for (uint64_t i = whole_blocks(p->tokens); i < whole_blocks(p->tokens + tokens); i++) p->ids[i] = m->next_id++;
    p->tokens += tokens;
}

/* The kind's system prompt. Its ids lie below all others: kind k has the numbers from k x (largest prompt). */
static void open_with_system(const maker *m, prompt *p, uint32_t kind, uint64_t tokens) {
    p->tokens = tokens;
    for (uint64_t i = 0; i < whole_blocks(tokens); i++) p->ids[i] = kind * (uint64_t)m->room + i;
}

static void open_conversation(maker *m, agent *a, uint64_t summary_tokens) {
    open_with_system(m, &a->talk, a->kind, m->system_tokens[a->kind]);
    const uint64_t from = whole_blocks(a->talk.tokens);
    a->talk.tokens += a->project_tokens;
    for (uint64_t i = from; i < whole_blocks(a->talk.tokens); i++) a->talk.ids[i] = a->project_ids + i;
    append(m, &a->talk, summary_tokens);
    for (int i = 0; i < MARKS; i++) a->mark[i] = 0;
    a->person = true;
}

static void mark_turn(agent *a) {
    for (int i = MARKS - 1; i > 0; i--) a->mark[i] = a->mark[i - 1];
    a->mark[0] = a->talk.tokens;
}

static void take_back_turns(maker *m, agent *a) {
    const uint64_t turns = 1 + draw(m) % MARKS;
    for (uint64_t i = 0; i < turns && a->mark[0]; i++) {
        a->talk.tokens = a->mark[0];
        for (int k = 0; k + 1 < MARKS; k++) a->mark[k] = a->mark[k + 1];
        a->mark[MARKS - 1] = 0;
    }
    a->person = true;
}

/* ---- requests ---- */

static int ask(sk_evict_trace *t, const agent *a, const prompt *p, uint64_t output, sk_err *e) {
    return sk_evict_trace_add(t, a->next_ms, p->tokens, output, p->ids, (size_t)whole_blocks(p->tokens), e);
}

/* A small prompt with a system prompt of its own, the same for all agents, and text that never comes back. */
static int side_call(maker *m, sk_evict_trace *t, agent *a, sk_err *e) {
    static const sk_evict_range OUTPUT = {5, 60};
    open_with_system(m, &m->side, m->w->kinds, m->system_tokens[m->w->kinds]);
    append(m, &m->side, rather_short(m, m->w->tool_tokens));
    return ask(t, a, &m->side, between(m, OUTPUT), e);
}

/* The conversation with another ending; the conversation itself goes on without it. */
static int fork_call(maker *m, sk_evict_trace *t, agent *a, sk_err *e) {
    const uint64_t whole = whole_blocks(a->talk.tokens);
    for (uint64_t i = 0; i < whole; i++) m->side.ids[i] = a->talk.ids[i];
    m->side.tokens = a->talk.tokens;
    append(m, &m->side, rather_short(m, m->w->message_tokens));
    return ask(t, a, &m->side, rather_short(m, m->w->output_tokens), e);
}

static int turn(maker *m, sk_evict_trace *t, agent *a, sk_err *e) {
    const sk_evict_workload *w = m->w;
    const uint64_t message = rather_short(m, a->person ? w->message_tokens : w->tool_tokens);
    const uint64_t output = rather_short(m, w->output_tokens);
    if (a->talk.tokens + message + output > w->context_tokens)
        open_conversation(m, a, rather_short(m, w->summary_tokens));
    mark_turn(a);
    append(m, &a->talk, message);
    int rc = ask(t, a, &a->talk, output, e);
    append(m, &a->talk, output);
    a->next_ms += output * TOKEN_MS;
    return rc;
}

static void wait_for_next(maker *m, agent *a) {
    a->person = draw(m) % 100 < m->w->person_share;
    if (draw(m) % 100 < m->w->pause_share)
        a->next_ms += between(m, m->w->pause_ms);
    else
        a->next_ms += between(m, a->person ? m->w->think_ms : m->w->tool_ms);
}

static int step(maker *m, sk_evict_trace *t, agent *a, sk_err *e) {
    const sk_evict_workload *w = m->w;
    uint64_t chance = draw(m) % 100;
    if (chance < w->side_share) return side_call(m, t, a, e);
    chance -= w->side_share;
    if (chance < w->fork_share) return fork_call(m, t, a, e);
    chance -= w->fork_share;
    int rc = SKIPPY_OK;
    if (chance < w->end_share)
        open_conversation(m, a, 0);
    else if (chance < w->end_share + w->edit_share)
        take_back_turns(m, a);
    else if (chance < w->end_share + w->edit_share + w->retry_share && a->mark[0])
        rc = ask(t, a, &a->talk, rather_short(m, w->output_tokens), e);
    else
        rc = turn(m, t, a, e);
    wait_for_next(m, a);
    return rc;
}

static agent *next_agent(const maker *m) {
    agent *first = &m->agents[0];
    for (uint32_t i = 1; i < m->w->agents; i++)
        if (m->agents[i].next_ms < first->next_ms) first = &m->agents[i];
    return first;
}

/* ---- life ---- */

static bool range_ok(sk_evict_range r) {
    return r.from <= r.to;
}

static bool workload_ok(const sk_evict_workload *w) {
    const uint64_t shares = (uint64_t)w->edit_share + w->retry_share + w->side_share + w->fork_share + w->end_share;
    return w->agents && w->kinds && w->requests && range_ok(w->system_tokens) && range_ok(w->project_tokens) &&
           range_ok(w->message_tokens) && range_ok(w->tool_tokens) && range_ok(w->output_tokens) &&
           range_ok(w->summary_tokens) && range_ok(w->think_ms) && range_ok(w->tool_ms) && range_ok(w->pause_ms) &&
           shares < 100 && w->person_share <= 100 && w->pause_share <= 100;
}

/* Blocks of the longest prompt that can arise: what one turn or call adds to a full conversation, or to a fresh one. */
static size_t longest_prompt(const sk_evict_workload *w) {
    const uint64_t fresh = (uint64_t)w->system_tokens.to + w->project_tokens.to + w->summary_tokens.to;
    const uint64_t added = (uint64_t)w->message_tokens.to + w->tool_tokens.to + w->output_tokens.to;
    return (size_t)whole_blocks(fresh + w->context_tokens + added) + 1;
}

static bool start_agents(maker *m) {
    for (uint32_t i = 0; i < m->w->agents; i++) {
        agent *a = &m->agents[i];
        a->talk.ids = calloc(m->room, sizeof *a->talk.ids);
        if (!a->talk.ids) return false;
        a->kind = (uint32_t)(draw(m) % m->w->kinds);
        a->project_tokens = between(m, m->w->project_tokens);
        a->project_ids = m->next_id;
        m->next_id += m->room;
        a->next_ms = between(m, m->w->think_ms);
        open_conversation(m, a, 0);
    }
    return true;
}

static bool start(maker *m) {
    const size_t kinds = (size_t)m->w->kinds + 1; /* one more for the side calls */
    m->room = longest_prompt(m->w);
    m->next_id = kinds * m->room;
    m->system_tokens = calloc(kinds, sizeof *m->system_tokens);
    m->agents = calloc(m->w->agents, sizeof *m->agents);
    m->side.ids = calloc(m->room, sizeof *m->side.ids);
    if (!m->system_tokens || !m->agents || !m->side.ids) return false;
    for (size_t i = 0; i < kinds; i++) m->system_tokens[i] = between(m, m->w->system_tokens);
    m->system_tokens[kinds - 1] = m->w->system_tokens.from / 2; /* side calls are small */
    return start_agents(m);
}

static void finish(maker *m) {
    for (uint32_t i = 0; m->agents && i < m->w->agents; i++) free(m->agents[i].talk.ids);
    free(m->agents);
    free(m->system_tokens);
    free(m->side.ids);
}

int sk_evict_generate(const sk_evict_workload *w, sk_evict_trace *t, sk_err *e) {
    if (!workload_ok(w))
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "the workload needs agents, kinds, requests, ranges that run forwards, "
                          "and shares that leave room for turns");
    maker m = {.w = w, .random = w->seed};
    int rc = start(&m) ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the agents");
    while (rc == SKIPPY_OK && t->n_requests < w->requests) rc = step(&m, t, next_agent(&m), e);
    finish(&m);
    if (rc != SKIPPY_OK) sk_evict_trace_free(t);
    return rc;
}
