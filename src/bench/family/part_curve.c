/* The part "curve": how first token and further tokens come when more and more clients ask at the same time. */
#include <stdlib.h>

#include "bench/conversation.h"
#include "bench/family/load.h"
#include "bench/family/part.h"

enum { WARM_UP_TOKENS = 16, WARM_UP_PREDICT = 2 };

#define TTFT_SERIES "ttft"
#define TPOT_SERIES "tpot"

/* Text 0 of a level is its shared prefix, 1.. are its requests. The texts of the preparation count as one level more.
 */
static uint64_t seed_of(const sk_part_host *h, size_t level, size_t text) {
    return sk_part_seed(h, "curve", level, text);
}

static size_t curve_rounds(const sk_part_host *h) {
    return h->task->sizes->n_concurrency;
}

static size_t prompt_tokens(const sk_part_task *t) {
    return (size_t)t->cell->prefix_tokens + t->sizes->suffix_tokens;
}

static size_t curve_lane_tokens(const sk_part_task *t) {
    const size_t generated = t->sizes->concurrent_output_tokens;
    return prompt_tokens(t) + (generated > SK_GATE_TOKENS ? generated : SK_GATE_TOKENS) + SK_PART_SPARE_TOKENS;
}

/* ---- before the first measured request ---- */

/* A prompt that is not measured. */
static int ask(sk_part_host *h, size_t text, size_t tokens, size_t n_predict, bool cold, sk_err *e) {
    sk_conversation c;
    int rc = sk_conversation_init(&c, false, e);
    if (rc == SKIPPY_OK) {
        rc = sk_prompts_text(&h->prompts, seed_of(h, SK_FAMILY_MAX_LEVELS, text), tokens, &c.text, e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_part_send(h, &c, n_predict, NULL, cold, NULL, e);
    }
    sk_conversation_free(&c);
    return rc;
}

/* First a prompt as long as those of the levels, alone: every server must give the same answer. Then warm-ups, so that
 * the first decode of each batch shape is not measured. */
static int curve_prepare(sk_part_host *h, sk_err *e) {
    if (json_object_set_new(h->extra, "levels", json_array()) != 0) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the part 'curve'");
    }
    int rc = ask(h, 0, prompt_tokens(h->task), SK_GATE_TOKENS, true, e);
    for (size_t i = 0; rc == SKIPPY_OK && i < SK_WARM_UPS; i++) {
        rc = ask(h, 1 + i, WARM_UP_TOKENS, WARM_UP_PREDICT, false, e);
    }
    return rc;
}

/* ---- one level ---- */

typedef struct level {
    size_t clients, n;
    sk_load_request *v; /* owned */
    char **bodies;      /* of the requests; owned */
    double wall_ms;
} level;

static void free_level(level *l) {
    for (size_t i = 0; l->bodies && i < l->n; i++) {
        free(l->bodies[i]);
    }
    free(l->bodies);
    free(l->v);
}

/* The prefix is new for each level, so that a level does not profit from the one before it. */
static int make_requests(sk_part_host *h, size_t number, level *l, sk_err *e) {
    const sk_family_sizes *s = h->task->sizes;
    sk_buf prefix = {0};
    sk_buf prompt = {0};
    int rc = sk_prompts_text(&h->prompts, seed_of(h, number, 0), h->task->cell->prefix_tokens, &prefix, e);
    for (size_t i = 0; rc == SKIPPY_OK && i < l->n; i++) {
        rc = sk_prompts_extend(&h->prompts, seed_of(h, number, 1 + i), prefix.data, s->suffix_tokens, &prompt, e);
        if (rc == SKIPPY_OK) {
            l->bodies[i] = sk_stream_body(prompt.data, s->concurrent_output_tokens);
            l->v[i].body = l->bodies[i];
            rc = l->bodies[i] ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the requests of a level");
        }
    }
    sk_buf_free(&prompt);
    sk_buf_free(&prefix);
    return rc;
}

static int make_level(sk_part_host *h, size_t number, level *l, sk_err *e) {
    const sk_family_sizes *s = h->task->sizes;
    l->clients = s->concurrency[number];
    l->n = s->concurrent_requests > l->clients ? s->concurrent_requests : l->clients;
    l->v = calloc(l->n ? l->n : 1, sizeof *l->v);
    l->bodies = calloc(l->n ? l->n : 1, sizeof *l->bodies);
    if (!l->v || !l->bodies) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu requests", l->n);
    }
    return make_requests(h, number, l, e);
}

static int keep_samples(sk_measurement *m, const level *l, sk_err *e) {
    int rc = SKIPPY_OK;
    for (size_t i = 0; rc == SKIPPY_OK && i < l->n; i++) {
        const sk_stream_times *t = &l->v[i].times;
        if (l->v[i].rc != SKIPPY_OK) {
            continue;
        }
        rc = sk_measurement_add(m, TTFT_SERIES, t->ttft_ms, t->cache_n, t->prompt_n, e);
        if (rc == SKIPPY_OK && t->has_tpot) {
            rc = sk_measurement_add(m, TPOT_SERIES, t->tpot_ms, t->cache_n, t->prompt_n, e);
        }
    }
    return rc;
}

/* ---- the record of a level ---- */

typedef enum which_time { TIME_TTFT, TIME_TPOT, TIME_ELAPSED } which_time;

static json_t *times_json(const level *l, which_time which) {
    json_t *list = json_array();
    for (size_t i = 0; i < l->n; i++) {
        const sk_stream_times *t = &l->v[i].times;
        if (l->v[i].rc == SKIPPY_OK && (which != TIME_TPOT || t->has_tpot)) {
            const double ms = which == TIME_TTFT ? t->ttft_ms : which == TIME_TPOT ? t->tpot_ms : t->elapsed_ms;
            json_array_append_new(list, json_real(ms));
        }
    }
    return list;
}

static int note_level(sk_part_host *h, const level *l, sk_err *e) {
    const sk_family_sizes *s = h->task->sizes;
    sk_load_summary sum;
    const int rc = sk_load_summarize(l->v, l->n, l->wall_ms, s->ttft_slo_ms, s->tpot_slo_ms, &sum, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    json_t *record =
        json_pack("{s:I, s:I, s:I, s:f, s:o, s:o, s:o, s:f, s:I, s:{s:f, s:f}, s:{s:f, s:f}, s:{s:f, s:f}}", "clients",
                  (json_int_t)l->clients, "requests", (json_int_t)sum.requests, "ok", (json_int_t)sum.ok, "wall_ms",
                  l->wall_ms, "ttft_ms", times_json(l, TIME_TTFT), "tpot_ms", times_json(l, TIME_TPOT), "elapsed_ms",
                  times_json(l, TIME_ELAPSED), "goodput_rps", sum.goodput_rps, "within_slo", (json_int_t)sum.within_slo,
                  "ttft", "p50", sum.ttft.p50, "p99", sum.ttft.p99, "tpot", "p50", sum.tpot.p50, "p99", sum.tpot.p99,
                  "elapsed", "p50", sum.elapsed.p50, "p99", sum.elapsed.p99);
    return record && json_array_append_new(json_object_get(h->extra, "levels"), record) == 0
               ? SKIPPY_OK
               : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the record of a level");
}

static int curve_round(sk_part_host *h, size_t i, sk_err *e) {
    level l = {0};
    int rc = make_level(h, i, &l, e);
    if (rc == SKIPPY_OK) {
        const sk_load load = {.port = h->host->port, .timeout_ms = h->host->timeout_ms, .clients = l.clients};
        sk_part_rest(h);
        rc = sk_load_run(&load, l.v, l.n, &l.wall_ms, e);
    }
    if (rc == SKIPPY_OK) {
        rc = keep_samples(h->m, &l, e);
    }
    if (rc == SKIPPY_OK) {
        rc = note_level(h, &l, e);
    }
    free_level(&l);
    return rc;
}

/* Nothing is kept between rounds. */
static void curve_finish(sk_part_host *h) {
    (void)h;
}

const sk_part sk_part_curve = {.name = "curve",
                               .title = "streams of several clients at once",
                               .rounds = curve_rounds,
                               .lane_tokens = curve_lane_tokens,
                               .prepare = curve_prepare,
                               .round = curve_round,
                               .finish = curve_finish};
