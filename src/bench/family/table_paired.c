/* Two builds of a server beside each other, where the request named them: an old one and a new one. */
#include "bench/family/goal.h"
#include "bench/family/table_cell.h"

static const char OLD[] = "old-server";
static const char NEW[] = "new-server";

static bool paired(const sk_family_row *r) {
    return sk_row_passed(r) && sk_row_host(r, OLD) < r->n_hosts && sk_row_host(r, NEW) < r->n_hosts;
}

static void cell_ratio(const sk_family_row *r, const sk_row_series *s, sk_buf *out) {
    const size_t before = sk_row_host(r, OLD);
    const size_t after = sk_row_host(r, NEW);
    const bool both = s->n[before] && s->n[after] && s->summary[after].p50 > 0.0 && sk_family_row_complete(r, s->part);
    const double ratio = both ? s->summary[before].p50 / s->summary[after].p50 : 0.0;
    if (!sk_family_row_comparable(r, s->part, before) || !sk_family_row_comparable(r, s->part, after)) {
        sk_column_factor(ratio, false, out);
        return;
    }
    sk_buf_str(out, " ");
    sk_table_speedup(ratio, out);
    sk_buf_str(out, " |");
}

static void add_scenario(const sk_family_row *r, const sk_goal *g, sk_buf *out) {
    const sk_row_series *s = sk_family_row_series(r, g->part, g->series);
    if (!s) return;
    sk_column_family(r, out);
    sk_column_text(r->use_case ? r->use_case_label : r->kind, out);
    sk_column_number(r->prefix_tokens, out);
    sk_column_text(g->title, out);
    sk_column_times(s, r, sk_row_host(r, OLD), out);
    sk_column_times(s, r, sk_row_host(r, NEW), out);
    sk_column_times(s, r, r->ours, out);
    cell_ratio(r, s, out);
    sk_buf_str(out, "\n");
}

static void add_row(const sk_family_row *r, sk_buf *out) {
    for (size_t i = 0; sk_goal_at(i); i++) add_scenario(r, sk_goal_at(i), out);
}

void sk_table_paired(const sk_row_set *s, sk_buf *out) {
    for (sk_weights w = SK_WEIGHTS_REAL; w < SK_WEIGHTS_KINDS; w++)
        sk_table_rows(
            s, w, "Old server and new server",
            "Family | Cell | Prefix | Scenario | old-server, p50 / p95 ms | new-server, p50 / p95 ms | skippy, "
            "p50 / p95 ms | New against old",
            paired, add_row, out);
}
