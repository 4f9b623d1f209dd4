/* The report as JSON. */
#include "bench/stages_columns.h"

static json_t *summary_json(sk_summary s) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:I}", "p50", s.p50, "p25", s.p25, "p75", s.p75, "min", s.min, "max",
                     s.max, "n", (json_int_t)s.n);
}

static json_t *visits_json(const sk_stages_visit *v, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:f, s:f, s:f, s:f, s:f, s:I}", "cold_ms", v[i].cold_ms, "warm_ms",
                                              v[i].warm_ms, "long_ms", v[i].long_ms, "warm_compute_ms",
                                              v[i].warm_compute_ms, "long_compute_ms", v[i].long_compute_ms,
                                              "warm_cached", (json_int_t)v[i].warm_cached));
    return list;
}

static json_t *overhead_json(const sk_stages_report *r) {
    const sk_stages_visit *v = r->overhead;
    const size_t n = r->n_overhead;
    return json_pack("{s:o, s:o, s:o, s:o}", "token_ms",
                     summary_json(sk_stages_column(v, n, SK_COLUMN_TOKEN, r->predict)), "token_compute_ms",
                     summary_json(sk_stages_column(v, n, SK_COLUMN_TOKEN_COMPUTE, r->predict)), "overhead",
                     summary_json(sk_stages_column(v, n, SK_COLUMN_OVERHEAD, r->predict)), "rounds", visits_json(v, n));
}

static json_t *lanes_json(const sk_stages_report *r) {
    json_t *list = json_array();
    for (size_t i = 0; i < r->n_lanes; i++)
        json_array_append_new(list, json_pack("{s:f, s:f, s:f}", "first_ms", r->lanes[i].first_ms, "second_ms",
                                              r->lanes[i].second_ms, "together_ms", r->lanes[i].together_ms));
    return json_pack("{s:o, s:o}", "gain", summary_json(sk_stages_gains(r)), "rounds", list);
}

static json_t *server_json(const sk_stages_rivals *r, size_t s, size_t predict) {
    const sk_stages_visit *v = r->visits[s];
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "command", r->command[s], "cold_ms",
                     summary_json(sk_stages_column(v, r->n, SK_COLUMN_COLD, predict)), "warm_ms",
                     summary_json(sk_stages_column(v, r->n, SK_COLUMN_WARM, predict)), "token_ms",
                     summary_json(sk_stages_column(v, r->n, SK_COLUMN_TOKEN, predict)), "warm_gain",
                     summary_json(sk_stages_column(v, r->n, SK_COLUMN_WARM_GAIN, predict)), "rounds",
                     visits_json(v, r->n));
}

static json_t *rivals_json(const sk_stages_report *r) {
    json_t *list = json_array();
    for (size_t i = 0; i < SK_STAGES_LINKS; i++) {
        const sk_stages_rivals *v = &r->rivals[i];
        if (v->n == 0) continue;
        json_array_append_new(
            list, json_pack("{s:f, s:I, s:o, s:o, s:o, s:o, s:o}", "delay_ms", v->delay_ms, "same_text",
                            (json_int_t)v->same_text, "skippy", server_json(v, SK_STAGES_SKIPPY, r->predict), "rpc",
                            server_json(v, SK_STAGES_RPC, r->predict), "cold_ratio",
                            summary_json(sk_stages_ratio(v, SK_COLUMN_COLD, r->predict)), "warm_ratio",
                            summary_json(sk_stages_ratio(v, SK_COLUMN_WARM, r->predict)), "token_ratio",
                            summary_json(sk_stages_ratio(v, SK_COLUMN_TOKEN, r->predict))));
    }
    return list;
}

static json_t *memory_json(const sk_stages_report *r) {
    json_t *list = json_array();
    for (size_t i = 0; i < r->n_processes; i++) {
        const sk_stages_process *p = &r->processes[i];
        json_array_append_new(list, json_pack("{s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "from", p->from, "to",
                                              p->to, "weights", (json_int_t)p->weights, "model_weights",
                                              (json_int_t)p->model_weights, "disk", (json_int_t)p->disk, "rss_kib",
                                              (json_int_t)p->memory.rss, "peak_rss_kib", (json_int_t)p->memory.peak_rss,
                                              "anon_kib", (json_int_t)p->memory.anon, "file_kib",
                                              (json_int_t)p->memory.file));
    }
    return list;
}

json_t *sk_stages_json(const sk_stages_report *r) {
    const sk_bench_facts *f = &r->facts;
    json_t *errors = json_object();
    for (size_t i = 0; i < SK_STAGES_PARTS; i++)
        if (r->error[i][0]) json_object_set_new(errors, sk_stages_part_names[i], json_string(r->error[i]));
    json_t *root = json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:s, s:s, s:s, s:s, s:b, s:i, s:i, s:b, s:I, s:I, s:o}", "skippy", r->version,
        "date", f->date, "cpu", f->cpu, "cores", (json_int_t)f->cores, "memory_kib", (json_int_t)f->memory_kib, "model",
        f->model_path, "model_name", f->model_name, "arch", f->arch, "model_blake3", f->digest, "synthetic_weights",
        f->synthetic, "layers", (int)r->n_layers, "threads_per_process", r->threads, "tls", r->tls, "prompt_tokens",
        (json_int_t)r->prompt_tokens, "predict", (json_int_t)r->predict, "errors", errors);
    if (!root) return NULL;
    if (r->n_overhead) json_object_set_new(root, "overhead", overhead_json(r));
    if (r->n_lanes) json_object_set_new(root, "lanes", lanes_json(r));
    if (r->rivals[0].n) json_object_set_new(root, "rivals", rivals_json(r));
    if (r->n_processes) json_object_set_new(root, "memory", memory_json(r));
    return root;
}
