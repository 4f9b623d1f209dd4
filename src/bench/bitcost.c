#include "bench/bitcost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/interrupt.h"
#include "bench/race.h"
#include "bench/stats.h"

enum { STOP_GRACE_MS = 10000, LANE_PROMPT_TOKENS = 32 };

/* Parts of the seeds: the new prompt of a round, and the prompt of each lane. */
enum { PART_PROMPT = 0, PART_LANE = 1 };

static const char *const MODES[SK_COST_SIDES] = {"state", "bit"};

/* ---- the two servers ---- */

typedef struct side {
    sk_process process;
    uint16_t port;
    sk_endpoint ep;
    sk_racer *racers; /* sizes.cost_lanes */
} side;

typedef struct contest {
    const sk_bitcost_options *o;
    const sk_sizes *s;
    side sides[SK_COST_SIDES];
    sk_prompts prompts;
    char cache_home[1024];
} contest;

/* Starts one side and waits until it is ready; *ms: how long that took. */
static int start_side(contest *c, int mode, double *ms, sk_err *e) {
    side *x = &c->sides[mode];
    char exact[32], log_path[1100];
    sk_buf command = {0};
    sk_launch l = c->o->server;
    snprintf(exact, sizeof exact, "--exact %s", MODES[mode]);
    snprintf(log_path, sizeof log_path, "%s/skippy-bitcost-%s.log", c->o->out_dir, MODES[mode]);
    l.flags[2] = exact;
    l.cache_home = c->cache_home;
    const uint64_t start = sk_now_ns();
    const int rc = sk_launch_server(&l, log_path, &x->process, &x->port, &command, e);
    *ms = (double)(sk_now_ns() - start) / 1e6;
    sk_buf_free(&command);
    return rc;
}

static void stop_sides(contest *c) {
    for (int mode = 0; mode < SK_COST_SIDES; mode++) {
        sk_process_stop(&c->sides[mode].process, STOP_GRACE_MS);
    }
}

static int start_both(contest *c, sk_cost_startup startup[SK_COST_SIDES], sk_err *e) {
    int rc = SKIPPY_OK;
    for (int mode = 0; rc == SKIPPY_OK && mode < SK_COST_SIDES; mode++) {
        rc = start_side(c, mode, &startup[mode].first_ms, e);
        stop_sides(c);
    }
    for (int mode = 0; rc == SKIPPY_OK && mode < SK_COST_SIDES; mode++) {
        rc = start_side(c, mode, &startup[mode].again_ms, e);
    }
    return rc;
}

/* ---- rounds ---- */

static int complete(side *x, const char *prompt, size_t n_predict, sk_reply *reply, sk_err *e) {
    if (sk_interrupted()) {
        return sk_err_set(e, SKIPPY_E_CANCELLED, "interrupted");
    }
    sk_reply_free(reply);
    return sk_endpoint_complete(&x->ep, prompt, n_predict, reply, e);
}

/* A prompt that nobody knows yet; then the same again, which leaves only the generated tokens to compute: the
 * difference between many and one is what they cost. */
static int alone(const contest *c, side *x, const char *prompt, sk_cost_sample *out, sk_err *e) {
    sk_reply reply = {0};
    int rc = complete(x, prompt, 1, &reply, e);
    out->prompt_ms = reply.ms;
    out->prompt_computed = reply.prompt_n;
    if (rc == SKIPPY_OK) {
        rc = complete(x, prompt, 1, &reply, e);
    }
    const double one = reply.ms;
    if (rc == SKIPPY_OK) {
        rc = complete(x, prompt, 1 + c->s->cost_predict, &reply, e);
    }
    out->lone_ms = (reply.ms - one) / (double)c->s->cost_predict;
    sk_reply_free(&reply);
    return rc;
}

/* All lanes with prompts that they know, first for one token, then for many. */
static int together(const contest *c, side *x, sk_cost_sample *out, sk_err *e) {
    double one = 0.0, many = 0.0;
    int rc = SKIPPY_OK;
    for (int pass = 0; rc == SKIPPY_OK && pass < 2; pass++) {
        for (size_t i = 0; i < c->s->cost_lanes; i++) {
            x->racers[i].n_predict = pass ? 1 + c->s->cost_predict : 1;
        }
        rc = sk_race_run(x->racers, c->s->cost_lanes, pass ? &many : &one, e);
    }
    out->together_ms = (many - one) / (double)c->s->cost_predict;
    return rc;
}

static int play_round(contest *c, size_t round, sk_cost_sample out[SK_COST_SIDES], sk_err *e) {
    sk_buf prompt = {0};
    int rc = sk_prompts_text(&c->prompts, sk_sizes_seed(c->s, SK_SCENARIO_BIT_COST, round, PART_PROMPT),
                             c->s->cost_tokens, &prompt, e);
    for (size_t k = 0; rc == SKIPPY_OK && k < SK_COST_SIDES; k++) {
        const size_t mode = (round + k) % SK_COST_SIDES;
        rc = alone(c, &c->sides[mode], prompt.data, &out[mode], e);
        if (rc == SKIPPY_OK) {
            rc = together(c, &c->sides[mode], &out[mode], e);
        }
    }
    sk_buf_free(&prompt);
    return rc;
}

/* Prompts of the lanes, the same on both sides, each sent once so that it is known. */
static int open_side(contest *c, side *x, sk_err *e) {
    int rc = SKIPPY_OK;
    x->racers = calloc(c->s->cost_lanes, sizeof *x->racers);
    if (!x->racers) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu clients", c->s->cost_lanes);
    }
    for (size_t i = 0; i < c->s->cost_lanes; i++) {
        sk_racer_init(&x->racers[i], x->port, c->o->timeout_ms, 1);
    }
    for (size_t i = 0; rc == SKIPPY_OK && i < c->s->cost_lanes; i++) {
        sk_reply reply = {0};
        rc = sk_prompts_text(&c->prompts, sk_sizes_seed(c->s, SK_SCENARIO_BIT_COST, 0, PART_LANE + i),
                             LANE_PROMPT_TOKENS, &x->racers[i].prompt.text, e);
        if (rc == SKIPPY_OK) {
            rc = complete(x, x->racers[i].prompt.text.data, 1, &reply, e);
        }
        sk_reply_free(&reply);
    }
    return rc;
}

static void close_side(const contest *c, side *x) {
    for (size_t i = 0; x->racers && i < c->s->cost_lanes; i++) {
        sk_racer_free(&x->racers[i]);
    }
    free(x->racers);
    sk_endpoint_close(&x->ep);
}

/* The first round is not measured: in it each side decodes its batch shapes for the first time. */
static int play(contest *c, sk_cost_sample (*rounds)[SK_COST_SIDES], sk_err *e) {
    sk_cost_sample unmeasured[SK_COST_SIDES] = {{0}};
    int rc = SKIPPY_OK;
    for (int mode = 0; mode < SK_COST_SIDES; mode++) {
        sk_endpoint_init(&c->sides[mode].ep, c->sides[mode].port, c->o->timeout_ms);
    }
    sk_prompts_init(&c->prompts, sk_endpoint_tokenize, &c->sides[SK_COST_STATE].ep);
    for (int mode = 0; rc == SKIPPY_OK && mode < SK_COST_SIDES; mode++) {
        rc = open_side(c, &c->sides[mode], e);
    }
    for (size_t i = 0; rc == SKIPPY_OK && i <= c->s->long_runs; i++) {
        rc = play_round(c, i, i ? rounds[i - 1] : unmeasured, e);
    }
    for (int mode = 0; mode < SK_COST_SIDES; mode++) {
        close_side(c, &c->sides[mode]);
    }
    return rc;
}

int sk_bitcost_run(const sk_bitcost_options *o, const sk_sizes *s, json_t **out, sk_err *e) {
    contest c = {.o = o, .s = s};
    sk_cost_startup startup[SK_COST_SIDES] = {{0}};
    *out = NULL;
    if ((size_t)snprintf(c.cache_home, sizeof c.cache_home, "%s/bitcost-cache-%llu", o->out_dir,
                         (unsigned long long)sk_now_ns()) >= sizeof c.cache_home) {
        return sk_err_set(e, SKIPPY_E_INVALID, "the path '%s' is too long", o->out_dir);
    }
    sk_cost_sample(*rounds)[SK_COST_SIDES] = calloc(s->long_runs, sizeof *rounds);
    int rc = rounds ? start_both(&c, startup, e) : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the rounds");
    if (rc == SKIPPY_OK) {
        rc = play(&c, rounds, e);
    }
    stop_sides(&c);
    if (rc == SKIPPY_OK) {
        *out = sk_bitcost_json(startup, (const sk_cost_sample(*)[SK_COST_SIDES])rounds, s->long_runs);
        rc = *out ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the result");
    }
    free(rounds);
    return rc;
}

/* ---- the record ---- */

static double prompt_ms(const sk_cost_sample *x) {
    return x->prompt_ms;
}

static double lone_ms(const sk_cost_sample *x) {
    return x->lone_ms;
}

static double together_ms(const sk_cost_sample *x) {
    return x->together_ms;
}

static const struct {
    const char *name;
    double (*value)(const sk_cost_sample *);
} SERIES[] = {{"prompt", prompt_ms}, {"one lane", lone_ms}, {"lanes together", together_ms}};

static json_t *array_of(const double *v, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list, json_real(v[i]));
    }
    return list;
}

/* room: 3 * n doubles. NULL when out of memory. */
static json_t *series_json(size_t k, const sk_cost_sample (*rounds)[SK_COST_SIDES], size_t n, double *room) {
    double *state = room, *bit = room + n, *ratio = room + 2 * n;
    sk_summary sum[3];
    for (size_t i = 0; i < n; i++) {
        state[i] = SERIES[k].value(&rounds[i][SK_COST_STATE]);
        bit[i] = SERIES[k].value(&rounds[i][SK_COST_BIT]);
        ratio[i] = state[i] > 0.0 ? bit[i] / state[i] : 0.0;
    }
    for (size_t i = 0; i < 3; i++) {
        if (sk_stats_summarize(room + i * n, n, &sum[i]) != SKIPPY_OK) {
            return NULL;
        }
    }
    json_t *spread = json_pack("{s:f, s:f, s:f}", "p50", sum[2].p50, "min", sum[2].min, "max", sum[2].max);
    return json_pack("{s:s, s:f, s:f, s:f, s:o, s:o, s:o}", "name", SERIES[k].name, "state_p50", sum[0].p50, "bit_p50",
                     sum[1].p50, "ratio", sum[0].p50 > 0.0 ? sum[1].p50 / sum[0].p50 : 0.0, "round_ratio", spread,
                     "state", array_of(state, n), "bit", array_of(bit, n));
}

static json_t *startup_json(const sk_cost_startup *x) {
    return json_pack("{s:f, s:f}", "first_ms", x->first_ms, "again_ms", x->again_ms);
}

json_t *sk_bitcost_json(const sk_cost_startup startup[SK_COST_SIDES], const sk_cost_sample (*rounds)[SK_COST_SIDES],
                        size_t n) {
    double *room = n ? calloc(n, 3 * sizeof *room) : NULL;
    json_t *series = room ? json_array() : NULL;
    bool ok = series != NULL;
    for (size_t k = 0; ok && k < sizeof SERIES / sizeof *SERIES; k++) {
        ok = json_array_append_new(series, series_json(k, rounds, n, room)) == 0;
    }
    free(room);
    if (!ok) {
        json_decref(series);
        return NULL;
    }
    return json_pack("{s:{s:o, s:o}, s:I, s:I, s:o}", "startup", "state", startup_json(&startup[SK_COST_STATE]), "bit",
                     startup_json(&startup[SK_COST_BIT]), "prompt_computed_state",
                     (json_int_t)rounds[0][SK_COST_STATE].prompt_computed, "prompt_computed_bit",
                     (json_int_t)rounds[0][SK_COST_BIT].prompt_computed, "series", series);
}

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

/* tokens: how many one measured time stands for. */
static void add_line(const json_t *series, const char *what, double tokens, sk_buf *out) {
    const double state = number(series, "state_p50"), bit = number(series, "bit_p50");
    const json_t *spread = json_object_get(series, "round_ratio");
    if (!(state > 0.0) || !(bit > 0.0)) {
        sk_buf_printf(out, "- %s: too short to be measured.\n", what);
        return;
    }
    sk_buf_printf(
        out,
        "- %s: state %.1f tokens/s, bit %.1f tokens/s: bit takes **%.2f times as long** (round by round %.2f, "
        "%.2f to %.2f, %zu rounds).\n",
        what, tokens * 1000.0 / state, tokens * 1000.0 / bit, number(series, "ratio"), number(spread, "p50"),
        number(spread, "min"), number(spread, "max"), json_array_size(json_object_get(series, "state")));
}

void sk_bitcost_lines(const json_t *record, const sk_sizes *s, sk_buf *out) {
    const json_t *series = json_object_get(record, "series"), *startup = json_object_get(record, "startup");
    const json_t *state = json_object_get(startup, "state"), *bit = json_object_get(startup, "bit");
    char what[96];
    snprintf(what, sizeof what, "A new prompt of %zu tokens", s->cost_tokens);
    add_line(json_array_get(series, 0), what, (double)s->cost_tokens, out);
    add_line(json_array_get(series, 1), "Generation, one lane", 1.0, out);
    snprintf(what, sizeof what, "Generation, %zu lanes together", s->cost_lanes);
    add_line(json_array_get(series, 2), what, (double)s->cost_lanes, out);
    sk_buf_printf(
        out,
        "- From the start until ready: state %.2f s; bit %.2f s the first time, with the row-class probe, and "
        "%.2f s when the class is remembered.\n",
        number(state, "again_ms") / 1000.0, number(bit, "first_ms") / 1000.0, number(bit, "again_ms") / 1000.0);
}
