/* What is no evidence, with the reason: in the report and as a list of things to do. */
#include <inttypes.h>
#include <string.h>

#include "bench/family/table_cell.h"

static bool short_of_evidence(const sk_family_row *r) {
    return !sk_family_row_evidence(r, NULL);
}

/* "full, 128 tokens"; "Tool calling, 128 tokens" */
static void add_cell_name(const sk_family_row *r, sk_buf *out) {
    sk_table_text(r->use_case ? r->use_case_label : r->kind, out);
    sk_buf_printf(out, ", %" PRId64 " tokens", r->prefix_tokens);
}

/* The reason, and the words that came with the status. */
static void add_reason(const sk_family_row *r, sk_buf *out) {
    const char *why;
    if (sk_family_row_evidence(r, &why)) return;
    sk_table_text(why, out);
    if (!*r->why) return;
    sk_buf_str(out, ": ");
    sk_table_text(r->why, out);
}

static void add_line(const sk_family_row *r, sk_buf *out) {
    const sk_row_series *s = sk_family_row_series(r, "exact", "exact");
    sk_column_family(r, out);
    sk_buf_str(out, " ");
    add_cell_name(r, out);
    sk_buf_str(out, " |");
    sk_column_code(r->model_id, out);
    sk_column_text(r->skippy_status, out);
    sk_column_text(r->llama_status, out);
    sk_column_best(s, r, true, out);
    sk_column_times(s, r, r->ours, out);
    sk_column_ratio(r, "exact", "exact", out);
    sk_buf_str(out, " ");
    add_reason(r, out);
    sk_buf_str(out, " |\n");
}

void sk_table_not_promoted(const sk_row_set *s, sk_buf *out) {
    for (sk_weights w = SK_WEIGHTS_REAL; w < SK_WEIGHTS_KINDS; w++)
        sk_table_rows(s, w, "Not promoted",
                      "Family | Cell | Model | Correctness | llama-server | llama-server best, p50 / p95 ms | skippy, "
                      "p50 / p95 ms | Ratio | Reason",
                      short_of_evidence, add_line, out);
}

void sk_table_todo(const sk_row_set *s, sk_buf *out) {
    bool any = false;
    for (size_t i = 0; i < s->n; i++) {
        const sk_family_row *r = &s->v[i];
        if (!short_of_evidence(r)) continue;
        if (!any)
            sk_buf_str(out,
                       "# Families without evidence\n\nWritten by `skippy bench report`; a row leaves this list when "
                       "a later run passes.\n\n");
        any = true;
        sk_buf_str(out, "- ");
        sk_table_text(r->family, out);
        sk_buf_str(out, " (");
        add_cell_name(r, out);
        sk_buf_str(out, r->synthetic ? ", synthetic weights): " : "): ");
        add_reason(r, out);
        sk_buf_str(out, "\n");
    }
}
