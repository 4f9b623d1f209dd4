/* Every scenario: first the ratios side by side, then the times behind them. */
#include "bench/family/goal.h"
#include "bench/family/table_cell.h"

static bool measured(const sk_family_row *r) {
    return sk_row_full_passed(r) && r->n_series > 0;
}

static void add_ratios(const sk_family_row *r, sk_buf *out) {
    sk_column_family(r, out);
    for (size_t i = 0; sk_goal_at(i); i++) sk_column_ratio(r, sk_goal_at(i)->part, sk_goal_at(i)->series, out);
    sk_buf_str(out, "\n");
}

static void add_times(const sk_family_row *r, const sk_goal *g, sk_buf *out) {
    const sk_row_series *s = sk_family_row_series(r, g->part, g->series);
    if (!s) return;
    sk_column_family(r, out);
    sk_column_text(g->title, out);
    sk_column_runs(s, r, out);
    sk_column_times(s, r, sk_row_host(r, "llama-server"), out);
    sk_column_best(s, r, true, out);
    sk_column_times(s, r, r->ours, out);
    sk_column_ratio(r, g->part, g->series, out);
    sk_column_tokens(s, r, out);
    sk_column_gate(r, g->part, sk_family_row_best(r, s), out);
    sk_buf_str(out, "\n");
}

/* How long a restart took before the first request: no scenario of its own, but a reader wants to know. */
static const sk_goal START = {.part = "restart", .series = "ready", .title = "Start until ready"};

static void add_all_times(const sk_family_row *r, sk_buf *out) {
    for (size_t i = 0; sk_goal_at(i); i++) add_times(r, sk_goal_at(i), out);
    add_times(r, &START, out);
}

static void add_titles(sk_buf *titles) {
    sk_buf_str(titles, "Family");
    for (size_t i = 0; sk_goal_at(i); i++) sk_buf_printf(titles, " | %s", sk_goal_at(i)->title);
}

void sk_table_scenarios(const sk_row_set *s, sk_buf *out) {
    sk_buf titles = {0};
    add_titles(&titles);
    for (sk_weights w = SK_WEIGHTS_REAL; w < SK_WEIGHTS_KINDS && !titles.failed; w++) {
        sk_table_rows(s, w, "Scenarios", titles.data, measured, add_ratios, out);
        sk_table_rows(
            s, w, "Scenarios in numbers",
            "Family | Scenario | Runs | llama-server, p50 / p95 ms | llama-server best, p50 / p95 ms | skippy, "
            "p50 / p95 ms | Ratio | Cached + computed tokens: llama-server, best, skippy | Cold answers",
            measured, add_all_times, out);
    }
    out->failed |= titles.failed;
    sk_buf_free(&titles);
}

static bool swept(const sk_family_row *r) {
    return sk_row_is(r, "sweep") && sk_family_row_series(r, "exact", "exact") && sk_row_passed(r);
}

static void add_sweep(const sk_family_row *r, sk_buf *out) {
    const sk_row_series *s = sk_family_row_series(r, "exact", "exact");
    sk_column_family(r, out);
    sk_column_number(r->prefix_tokens, out);
    sk_column_number(r->prompt_tokens, out);
    sk_column_runs(s, r, out);
    sk_column_times(s, r, sk_row_host(r, "llama-server"), out);
    sk_column_best(s, r, true, out);
    sk_column_times(s, r, r->ours, out);
    sk_column_ratio(r, "exact", "exact", out);
    sk_column_tokens(s, r, out);
    sk_column_storage(r, out);
    sk_buf_str(out, "\n");
}

void sk_table_sweep(const sk_row_set *s, sk_buf *out) {
    for (sk_weights w = SK_WEIGHTS_REAL; w < SK_WEIGHTS_KINDS; w++)
        sk_table_rows(s, w, "Exact repeat by length of the prefix",
                      "Family | Prefix | Prompt tokens | Runs | llama-server, p50 / p95 ms | llama-server best, p50 / "
                      "p95 ms | skippy, p50 / p95 ms | Ratio | Cached + computed tokens: llama-server, best, skippy | "
                      "Cache bytes",
                      swept, add_sweep, out);
}
