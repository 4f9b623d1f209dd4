/* The report as JSON. */
#include "bench/store_report.h"

static const char *const CUTS[] = {
    [SK_STORE_BY_LAYOUT] = "layout", [SK_STORE_BY_TOKENS] = "tokens", [SK_STORE_FIXED] = "fixed_1_mib"};
static const char *const CONTENTS[SK_STORE_CONTENTS] = {
    [SK_STORE_KV] = "kv", [SK_STORE_TAIL] = "tail", [SK_STORE_WHOLE] = "whole"};

static json_t *sum_json(sk_store_sum sum) {
    return json_pack("{s:I, s:I, s:f}", "logical_bytes", (json_int_t)sum.logical, "unique_bytes", (json_int_t)sum.fresh,
                     "saved_percent", sk_store_saved(sum));
}

static json_t *use_json(const sk_store_use *use) {
    json_t *contents = json_object();
    for (size_t i = 0; i < SK_STORE_CONTENTS; i++)
        if (use->sum[i].logical) json_object_set_new(contents, CONTENTS[i], sum_json(use->sum[i]));
    return json_pack("{s:s, s:I, s:o, s:o, s:I, s:I, s:I, s:I}", "cut", CUTS[use->cut], "step", (json_int_t)use->step,
                     "total", sum_json(sk_store_use_total(use)), "contents", contents, "unique_blocks",
                     (json_int_t)use->stats.blocks, "block_references", (json_int_t)use->stats.block_refs,
                     "block_bytes", (json_int_t)use->stats.block_bytes, "store_bytes",
                     (json_int_t)use->stats.physical_bytes);
}

static json_t *savings_json(const sk_store_savings *s) {
    json_t *ways = json_array();
    for (size_t i = 0; i < s->n_ways; i++) json_array_append_new(ways, use_json(&s->way[i]));
    return json_pack("{s:s, s:i, s:I, s:o}", "scenario", s->name, "exports", (int)s->exports, "tokens",
                     (json_int_t)s->tokens, "cuts", ways);
}

static json_t *series_json(const sk_store_series *s) {
    sk_summary ms;
    if (sk_stats_summarize(s->ms, s->n, &ms) || ms.n == 0) return json_null();
    json_t *runs = json_array();
    for (size_t i = 0; i < s->n; i++) json_array_append_new(runs, json_real(s->ms[i]));
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "bytes", (json_int_t)s->bytes, "p50_ms", ms.p50,
                     "p25_ms", ms.p25, "p75_ms", ms.p75, "min_ms", ms.min, "max_ms", ms.max, "p50_gb_s",
                     sk_store_rate(s->bytes, ms.p50), "runs_ms", runs);
}

static json_t *speed_json(const sk_store_speed *s) {
    json_t *o = json_object();
    for (size_t i = 0; i < SK_STEPS; i++)
        json_object_set_new(o, sk_store_step_key((enum sk_store_step)i), series_json(&s->step[i]));
    return o;
}

static json_t *restore_json(const sk_store_restore *r) {
    json_t *paths = json_object(), *shares = json_object();
    for (size_t i = 0; i < SK_PATHS; i++) {
        const enum sk_store_path path = (enum sk_store_path)i;
        json_object_set_new(paths, sk_store_path_key(path), series_json(&r->path[i]));
        if (r->path[i].n) json_object_set_new(shares, sk_store_path_key(path), json_real(sk_store_share(r, path)));
    }
    return json_pack("{s:I, s:b, s:o, s:o}", "state_bytes", (json_int_t)r->payload_bytes, "cold_possible", r->cold,
                     "paths", paths, "share_of_recompute", shares);
}

static json_t *facts_json(const sk_bench_facts *f) {
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:b, s:s, s:I, s:I, s:s}", "model", f->model_path, "model_name",
                     f->model_name, "architecture", f->arch, "model_blake3", f->digest, "model_bytes",
                     (json_int_t)f->file_bytes, "synthetic_weights", f->synthetic, "cpu", f->cpu, "cores",
                     (json_int_t)f->cores, "memory_kib", (json_int_t)f->memory_kib, "date", f->date);
}

static json_t *sizes_json(const sk_store_sizes *s) {
    json_t *steps = json_array();
    for (size_t i = 0; i < SK_STORE_MAX_STEPS && s->steps[i]; i++)
        json_array_append_new(steps, json_integer((json_int_t)s->steps[i]));
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "turns", (json_int_t)s->turns, "turn_tokens",
                     (json_int_t)s->turn_tokens, "agents", (json_int_t)s->agents, "shared", (json_int_t)s->shared,
                     "own", (json_int_t)s->own, "prefix", (json_int_t)s->prefix, "runs", (json_int_t)s->runs, "steps",
                     steps);
}

static json_t *state_json(const sk_store_report *r) {
    return json_pack("{s:b, s:s, s:I, s:I, s:i}", "windows", r->caps.windows, "why_not", r->caps.why, "bytes_per_token",
                     (json_int_t)r->caps.cell_bytes, "bytes_per_boundary", (json_int_t)r->caps.tail_bytes,
                     "flash_attention", r->flash_attn);
}

json_t *sk_store_json(const sk_store_report *r) {
    json_t *savings = json_array();
    for (size_t i = 0; i < r->n_savings; i++) json_array_append_new(savings, savings_json(&r->savings[i]));
    return json_pack("{s:i, s:s, s:b, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "format", 1, "skippy_version", r->version,
                     "complete", r->complete, "threads", (int)r->n_threads, "facts", facts_json(&r->facts), "sizes",
                     sizes_json(&r->sizes), "state", state_json(r), "savings", savings, "speed", speed_json(&r->speed),
                     "restore", restore_json(&r->restore));
}
