/* Full models against llama-server: the rows that are evidence. */
#include <inttypes.h>
#include <string.h>

#include "bench/family/table_cell.h"

static bool shown(const sk_family_row *r) {
    return sk_row_is(r, "full") && sk_family_row_evidence(r, NULL);
}

static bool any_full(const sk_family_row *r) {
    return sk_row_is(r, "full");
}

static void add_line(const sk_family_row *r, sk_buf *out) {
    const sk_row_series *s = sk_family_row_series(r, "exact", "exact");
    sk_column_family(r, out);
    sk_column_code(r->model_id, out);
    sk_column_code(r->payload, out);
    sk_column_text(r->skippy_status, out);
    sk_column_number(r->prefix_tokens, out);
    sk_column_number(r->prompt_tokens, out);
    sk_column_p50(s, r, sk_row_host(r, "llama-server"), out);
    sk_column_best(s, r, false, out);
    sk_column_p50(s, r, r->ours, out);
    sk_column_ratio(r, "exact", "exact", out);
    sk_column_storage(r, out);
    sk_column_text(r->read, out);
    sk_buf_str(out, "\n");
}

/* "random, 8 of 24 layers, width 2048, Q4_K_M" */
static void add_weights(const sk_family_row *r, sk_buf *out) {
    const char *quant = json_string_value(json_object_get(r->json, "quant"));
    sk_buf_printf(out, " %s", r->synthetic ? "random" : "real");
    if (r->layers) sk_buf_printf(out, ", %" PRId64 " of %" PRId64 " layers", r->layers, r->layers_real);
    if (r->width) sk_buf_printf(out, ", width %" PRId64, r->width);
    if (quant && *quant) {
        sk_buf_str(out, ", ");
        sk_table_text(quant, out);
    }
    sk_buf_str(out, " |");
}

static void add_memory(const sk_family_row *r, size_t host, sk_buf *out) {
    const json_t *h = json_array_get(json_object_get(r->json, "hosts"), host);
    const double kib = json_number_value(json_object_get(h, "peak_rss_kib"));
    if (kib > 0.0)
        sk_buf_printf(out, "%.0f", kib / 1024.0);
    else
        sk_buf_str(out, "n/a");
}

static void add_detail(const sk_family_row *r, sk_buf *out) {
    const sk_row_series *s = sk_family_row_series(r, "exact", "exact");
    const size_t base = sk_row_host(r, "llama-server");
    const size_t best = sk_family_row_best(r, s);
    sk_column_family(r, out);
    add_weights(r, out);
    sk_column_runs(s, r, out);
    sk_column_times(s, r, base, out);
    sk_column_best(s, r, true, out);
    sk_column_times(s, r, r->ours, out);
    sk_column_tokens(s, r, out);
    sk_column_gate(r, "exact", best, out);
    const size_t hosts[] = {base, best, r->ours};
    for (size_t i = 0; i < 3; i++) {
        sk_buf_str(out, i ? ", " : " ");
        add_memory(r, hosts[i], out);
    }
    sk_buf_str(out, " |\n");
}

static void add_lines(const sk_row_set *s, sk_weights w, sk_buf *out) {
    sk_table_head("Family | Model | Payload | Correctness | Prefix | Prompt tokens | llama-server, ms | "
                  "llama-server best, ms | skippy, ms | Speedup | Cache bytes | Read",
                  out);
    for (size_t i = 0; i < s->n; i++)
        if (sk_weights_of(&s->v[i], w) && shown(&s->v[i])) add_line(&s->v[i], out);
}

static void add_weights_group(const sk_row_set *s, sk_weights w, sk_buf *out) {
    if (sk_table_count(s, w, any_full) == 0) return;
    sk_table_heading(w == SK_WEIGHTS_REAL ? "Promoted: exact repeat, full models against llama-server"
                                          : "Exact repeat, full models against llama-server",
                     w, out);
    sk_table_explain(w, out);
    if (sk_table_count(s, w, shown) == 0) {
        sk_buf_str(out, "No row passed every test; the reasons are below.\n");
        return;
    }
    add_lines(s, w, out);
    sk_table_rows(
        s, w, "Exact repeat: details of the same rows",
        "Family | Weights | Runs | llama-server, p50 / p95 ms | llama-server best, p50 / p95 ms | skippy, p50 / "
        "p95 ms | Cached + computed tokens: llama-server, best, skippy | Cold answers | Peak memory, MiB: "
        "llama-server, best, skippy",
        shown, add_detail, out);
}

void sk_table_full(const sk_row_set *s, sk_buf *out) {
    for (sk_weights w = SK_WEIGHTS_REAL; w < SK_WEIGHTS_KINDS; w++) add_weights_group(s, w, out);
}
