#include "bench/evict_report.h"

#include <inttypes.h>
#include <stdbool.h>

#include "bench/evict_bound.h"

void sk_evict_memories(sk_evict_memory out[SK_EVICT_MEMORIES]) {
    const uint64_t kib = 1024, mib = 1024 * kib;
    out[0] = (sk_evict_memory){"dense", true, 128 * kib * SK_EVICT_BLOCK_TOKENS, 0, 0.1, 32768};
    out[1] = (sk_evict_memory){"hybrid", false, 24 * kib * SK_EVICT_BLOCK_TOKENS, 73 * mib, 0.1, 32768};
}

/* ---- running ---- */

static int run_line(const sk_evict_trace *t, const sk_evict_memory *m, sk_evict_line *line) {
    const bool unlimited = line->bytes == UINT64_MAX;
    const size_t blocks = unlimited ? SIZE_MAX : (size_t)(line->bytes / m->block_bytes);
    uint64_t saved = 0;
    int rc = sk_evict_bound(t, blocks, &saved, NULL);
    line->bound_tokens = saved * SK_EVICT_BLOCK_TOKENS;
    for (int p = 0; p < SK_EVICT_POLICIES && rc == SKIPPY_OK; p++)
        rc = sk_evict_simulate(t, m, (enum sk_evict_policy)p, line->bytes, &line->of[p]);
    return rc;
}

static int run_table(const sk_evict_trace *t, const double *percent, size_t n, sk_evict_table *table) {
    sk_evict_line *all = &table->line[n];
    *all = (sk_evict_line){.bytes = UINT64_MAX};
    table->n_lines = n + 1;
    int rc = run_line(t, &table->memory, all);
    table->unlimited_bytes = all->of[SK_EVICT_LRU].peak_bytes;
    for (size_t i = 0; i < n && rc == SKIPPY_OK; i++) {
        table->line[i].percent = percent[i];
        table->line[i].bytes = (uint64_t)((double)table->unlimited_bytes * percent[i] / 100);
        rc = run_line(t, &table->memory, &table->line[i]);
    }
    return rc;
}

int sk_evict_compare(const sk_evict_trace *t, const char *name, const sk_evict_memory memories[SK_EVICT_MEMORIES],
                     const double *percent, size_t n, sk_evict_report *out, sk_err *e) {
    int rc = SKIPPY_OK;
    if (n > SK_EVICT_MAX_CAPACITIES)
        return sk_err_set(e, SKIPPY_E_INVALID, "at most %d capacities", SK_EVICT_MAX_CAPACITIES);
    for (size_t i = 0; i < n; i++)
        if (!(percent[i] > 0 && percent[i] <= 100))
            return sk_err_set(e, SKIPPY_E_INVALID, "a capacity must be above 0 and at most 100 percent");
    *out = (sk_evict_report){.trace_name = name, .facts = sk_evict_trace_describe(t)};
    for (size_t i = 0; i < SK_EVICT_MEMORIES && rc == SKIPPY_OK; i++) {
        out->table[i].memory = memories[i];
        rc = run_table(t, percent, n, &out->table[i]);
    }
    return rc == SKIPPY_OK ? rc : sk_err_set(e, rc, "no memory for the simulation");
}

/* ---- numbers ---- */

static double share(double part, double whole) {
    return whole > 0 ? 100 * part / whole : 0;
}

static double saved_tokens(const sk_evict_totals *t) {
    return share((double)t->saved_tokens, (double)t->tokens);
}

static double saved_compute(const sk_evict_totals *t) {
    return share(t->saved_ms, t->cost_ms);
}

static double hit_rate(const sk_evict_totals *t) {
    return share((double)t->hits, (double)t->requests);
}

/* ---- Markdown ---- */

/* Policies in the order of the columns. */
static const enum sk_evict_policy COLUMNS[SK_EVICT_POLICIES] = {SK_EVICT_LRU, SK_EVICT_FIFO, SK_EVICT_BENEFIT};

static void print_capacity(sk_buf *out, const sk_evict_line *l) {
    if (l->bytes == UINT64_MAX)
        sk_buf_str(out, "| unlimited |");
    else
        sk_buf_printf(out, "| %g %% (%.1f GiB) |", l->percent, (double)l->bytes / (1 << 30));
}

static void print_line(sk_buf *out, const sk_evict_line *l, uint64_t tokens) {
    print_capacity(out, l);
    for (int i = 0; i < SK_EVICT_POLICIES; i++) sk_buf_printf(out, " %.2f |", saved_tokens(&l->of[COLUMNS[i]]));
    sk_buf_printf(out, " %.2f |", share((double)l->bound_tokens, (double)tokens));
    for (int i = 0; i < SK_EVICT_POLICIES; i++) sk_buf_printf(out, " %.2f |", saved_compute(&l->of[COLUMNS[i]]));
    for (int i = 0; i < SK_EVICT_POLICIES; i++) sk_buf_printf(out, " %.1f |", hit_rate(&l->of[COLUMNS[i]]));
    sk_buf_str(out, "\n");
}

static void print_head(sk_buf *out) {
    static const char *const groups[] = {"tokens", "compute", "hits"};
    sk_buf_str(out, "| capacity |");
    for (int g = 0; g < 3; g++) {
        for (int i = 0; i < SK_EVICT_POLICIES; i++)
            sk_buf_printf(out, " %s %s |", groups[g], sk_evict_policy_name(COLUMNS[i]));
        if (g == 0) sk_buf_str(out, " tokens bound |");
    }
    sk_buf_str(out, "\n|---|");
    for (int i = 0; i < 3 * SK_EVICT_POLICIES + 1; i++) sk_buf_str(out, "---:|");
    sk_buf_str(out, "\n");
}

static void print_memory(sk_buf *out, const sk_evict_table *t) {
    const sk_evict_memory *m = &t->memory;
    sk_buf_printf(out, "### %s: %.0f MiB a block", m->name, (double)m->block_bytes / (1 << 20));
    if (m->tail_bytes) sk_buf_printf(out, ", %.0f MiB a boundary", (double)m->tail_bytes / (1 << 20));
    sk_buf_printf(out, "; an unlimited cache holds %.1f GiB\n\n", (double)t->unlimited_bytes / (1 << 30));
}

void sk_evict_markdown(const sk_evict_report *r, sk_buf *out) {
    const sk_evict_trace_facts *f = &r->facts;
    sk_buf_printf(out,
                  "## %s\n\n%zu requests, %" PRIu64 " input tokens (longest %" PRIu64 "), %" PRIu64
                  " output tokens, %.1f minutes; %zu uses of %zu distinct blocks of %d tokens\n\n",
                  r->trace_name, f->requests, f->input_tokens, f->longest_input, f->output_tokens,
                  (double)f->span_ms / 60000, f->block_uses, f->unique_blocks, SK_EVICT_BLOCK_TOKENS);
    for (size_t i = 0; i < SK_EVICT_MEMORIES; i++) {
        print_memory(out, &r->table[i]);
        print_head(out);
        for (size_t k = 0; k < r->table[i].n_lines; k++) print_line(out, &r->table[i].line[k], f->input_tokens);
        sk_buf_str(out, "\n");
    }
}

/* ---- JSON ---- */

static json_t *json_policy(const sk_evict_totals *t) {
    return json_pack("{s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I}", "tokens_saved_percent", saved_tokens(t),
                     "compute_saved_percent", saved_compute(t), "hit_rate_percent", hit_rate(t), "saved_tokens",
                     (json_int_t)t->saved_tokens, "hits", (json_int_t)t->hits, "stored", (json_int_t)t->stored,
                     "superseded", (json_int_t)t->superseded, "evicted", (json_int_t)t->evicted, "refused",
                     (json_int_t)t->refused);
}

static json_t *json_line(const sk_evict_line *l, uint64_t tokens) {
    const bool unlimited = l->bytes == UINT64_MAX;
    json_t *o = json_pack("{s:o, s:o, s:f}", "capacity_percent", unlimited ? json_null() : json_real(l->percent),
                          "capacity_bytes", unlimited ? json_null() : json_integer((json_int_t)l->bytes),
                          "bound_tokens_saved_percent", share((double)l->bound_tokens, (double)tokens));
    bool ok = o != NULL;
    for (int p = 0; p < SK_EVICT_POLICIES && ok; p++)
        ok = json_object_set_new(o, sk_evict_policy_name((enum sk_evict_policy)p), json_policy(&l->of[p])) == 0;
    if (ok) return o;
    json_decref(o);
    return NULL;
}

static json_t *json_table(const sk_evict_table *t, uint64_t tokens) {
    json_t *lines = json_array();
    bool ok = lines != NULL;
    for (size_t i = 0; i < t->n_lines && ok; i++)
        ok = json_array_append_new(lines, json_line(&t->line[i], tokens)) == 0;
    if (!ok) {
        json_decref(lines);
        return NULL;
    }
    return json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:o}", "memory", t->memory.name, "block_bytes",
                     (json_int_t)t->memory.block_bytes, "tail_bytes", (json_int_t)t->memory.tail_bytes,
                     "unlimited_bytes", (json_int_t)t->unlimited_bytes, "token_ms", t->memory.token_ms,
                     "attention_equal_tokens", t->memory.attention_equal, "capacities", lines);
}

json_t *sk_evict_json(const sk_evict_report *r) {
    const sk_evict_trace_facts *f = &r->facts;
    json_t *tables = json_array();
    bool ok = tables != NULL;
    for (size_t i = 0; i < SK_EVICT_MEMORIES && ok; i++)
        ok = json_array_append_new(tables, json_table(&r->table[i], f->input_tokens)) == 0;
    if (!ok) {
        json_decref(tables);
        return NULL;
    }
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "trace", r->trace_name, "requests",
                     (json_int_t)f->requests, "input_tokens", (json_int_t)f->input_tokens, "output_tokens",
                     (json_int_t)f->output_tokens, "span_ms", (json_int_t)f->span_ms, "block_uses",
                     (json_int_t)f->block_uses, "unique_blocks", (json_int_t)f->unique_blocks, "memories", tables);
}
