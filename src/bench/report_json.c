#include <stdio.h>
#include <string.h>

#include "bench/report.h"
#include "bench/row.h"

static json_t *memory_json(const sk_process_memory *m) {
    return json_pack("{s:I, s:I, s:I, s:I}", "peak_rss_kib", (json_int_t)m->peak_rss, "rss_kib", (json_int_t)m->rss,
                     "anon_kib", (json_int_t)m->anon, "file_kib", (json_int_t)m->file);
}

static json_t *series_json(const sk_series *s) {
    json_t *ms = json_array();
    json_t *cache_n = json_array();
    json_t *prompt_n = json_array();
    for (size_t i = 0; i < s->n; i++) {
        json_array_append_new(ms, json_real(s->v[i].ms));
        json_array_append_new(cache_n, json_integer((json_int_t)s->v[i].cache_n));
        json_array_append_new(prompt_n, json_integer((json_int_t)s->v[i].prompt_n));
    }
    return json_pack("{s:s, s:o, s:o, s:o}", "series", s->name, "ms", ms, "cache_n", cache_n, "prompt_n", prompt_n);
}

static json_t *answers_json(const sk_measurement *m) {
    json_t *list = json_array();
    for (size_t i = 0; i < m->n_answers; i++) {
        const sk_answer *a = &m->answers[i];
        json_array_append_new(list,
                              json_pack("{s:b, s:i, s:s, s:o*}", "cold", a->cold, "first_token", (int)a->first_token,
                                        "text", a->text, "tie_gap", a->tie ? json_real(a->tie_gap) : NULL));
    }
    return list;
}

static json_t *measurement_json(const sk_variant *v, const sk_measurement *m) {
    char hex[2 * SK_HASH_BYTES + 1];
    json_t *series = json_array();
    sk_hex(m->prompts_digest, SK_HASH_BYTES, hex);
    for (size_t i = 0; i < m->n_series; i++) {
        json_array_append_new(series, series_json(&m->series[i]));
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:b, s:o, s:o, s:o, s:s*}", "server", v->name, "version",
                     m->version, "command", m->command, "flags", v->flags, "prompts", (json_int_t)m->n_prompts,
                     "prompts_digest", hex, "killed", m->forced_end, "memory", memory_json(&m->memory), "series",
                     series, "answers", answers_json(m), "error", m->error.code == SKIPPY_OK ? NULL : m->error.text);
}

static json_t *cell_json(const sk_report *r, const sk_row_cell *c) {
    if (!c->measured) {
        return json_null();
    }
    return json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:I, s:I}", "server", r->variants[c->variant].name, "runs",
                     (json_int_t)c->ms.n, "p50_ms", c->ms.p50, "p95_ms", c->ms.p95, "min_ms", c->ms.min, "max_ms",
                     c->ms.max, "spread", c->ms.spread, "cache_n", (json_int_t)c->cache_n, "prompt_n",
                     (json_int_t)c->prompt_n);
}

static json_t *gate_json(const sk_gate *g) {
    return json_pack("{s:b, s:b, s:I, s:I, s:I, s:I, s:I}", "comparable", g->comparable, "same_prompts",
                     g->same_prompts, "cold_answers", (json_int_t)g->cold, "cold_equal", (json_int_t)g->cold_equal,
                     "cold_ties", (json_int_t)g->cold_ties, "answers", (json_int_t)g->answers, "first_token_equal",
                     (json_int_t)g->first_equal);
}

static json_t *ratio_json(const sk_row_cell *theirs, const sk_row_cell *ours) {
    return theirs->measured && ours->measured && ours->ms.p50 > 0.0 ? json_real(theirs->ms.p50 / ours->ms.p50)
                                                                    : json_null();
}

static json_t *rows_json(const sk_report *r, const sk_result *res) {
    json_t *list = json_array();
    for (size_t i = 0; i < sk_row_count(r, res); i++) {
        sk_row_view row;
        if (sk_row_make(r, res, i, &row) != SKIPPY_OK) {
            json_decref(list);
            return NULL;
        }
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "series", row.series, "baseline",
                                        cell_json(r, &row.base), "baseline_best", cell_json(r, &row.best), "skippy",
                                        cell_json(r, &row.ours), "ratio", ratio_json(&row.base, &row.ours),
                                        "ratio_best", ratio_json(&row.best, &row.ours), "gate",
                                        gate_json(&row.base_gate), "gate_best", gate_json(&row.best_gate)));
    }
    return list;
}

static json_t *result_json(const sk_report *r, const sk_result *res) {
    json_t *servers = json_array();
    for (size_t i = 0; i < r->n_variants; i++) {
        if (res->ran[i]) {
            json_array_append_new(servers, measurement_json(&r->variants[i], &res->m[i]));
        }
    }
    return json_pack("{s:s, s:s, s:I, s:I, s:b, s:o, s:o}", "scenario", res->scenario->name, "title",
                     res->scenario->title, "lanes", (json_int_t)res->lanes, "n_ctx", (json_int_t)res->n_ctx,
                     "synthetic_weights", r->facts.synthetic, "rows", rows_json(r, res), "servers", servers);
}

static json_t *facts_json(const sk_bench_facts *f) {
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:b, s:s, s:I, s:I, s:s}", "model", f->model_path, "model_name",
                     f->model_name, "architecture", f->arch, "model_blake3", f->digest, "model_bytes",
                     (json_int_t)f->file_bytes, "synthetic_weights", f->synthetic, "cpu", f->cpu, "cores",
                     (json_int_t)f->cores, "memory_kib", (json_int_t)f->memory_kib, "date", f->date);
}

static json_t *sizes_json(const sk_sizes *s) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
                     "seed", (json_int_t)s->seed, "runs", (json_int_t)s->runs, "long_runs", (json_int_t)s->long_runs,
                     "prefix_tokens", (json_int_t)s->prefix_tokens, "new_tokens", (json_int_t)s->new_tokens,
                     "chat_tokens", (json_int_t)s->chat_tokens, "turns", (json_int_t)s->turns, "turn_tokens",
                     (json_int_t)s->turn_tokens, "turn_predict", (json_int_t)s->turn_predict, "clients",
                     (json_int_t)s->clients, "system_tokens", (json_int_t)s->system_tokens, "tail_tokens",
                     (json_int_t)s->tail_tokens, "clients_predict", (json_int_t)s->clients_predict, "history_tokens",
                     (json_int_t)s->history_tokens, "edit_tokens", (json_int_t)s->edit_tokens, "edits",
                     (json_int_t)s->edits, "cost_tokens", (json_int_t)s->cost_tokens, "cost_predict",
                     (json_int_t)s->cost_predict, "cost_lanes", (json_int_t)s->cost_lanes);
}

static json_t *soak_json(const sk_report *r) {
    json_t *list = json_array();
    for (size_t i = 0; i < r->n_soak; i++) {
        json_array_append_new(list, json_pack("{s:I, s:o}", "requests", (json_int_t)r->soak[i].requests, "memory",
                                              memory_json(&r->soak[i].memory)));
    }
    return list;
}

json_t *sk_report_json(const sk_report *r) {
    json_t *results = json_array();
    for (size_t i = 0; i < r->n_results; i++) {
        json_array_append_new(results, result_json(r, &r->results[i]));
    }
    return json_pack("{s:i, s:s, s:b, s:i, s:o, s:o, s:o, s:O*, s:O*, s:o}", "format", 2, "skippy_version",
                     r->skippy_version, "interrupted", r->interrupted, "threads", r->threads, "facts",
                     facts_json(&r->facts), "sizes", sizes_json(r->sizes), "results", results, "floor", r->floor,
                     "bit_cost", r->bit_cost, "soak", soak_json(r));
}
