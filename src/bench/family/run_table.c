/* The rows as a plain table: what was measured, before any judgement about it. */
#include <stdio.h>
#include <string.h>

#include "bench/family/row.h"
#include "bench/family/run_state.h"
#include "bench/family/tables.h"

typedef struct series_name {
    const char *part, *name, *shown;
} series_name;

static const series_name SHOWN[] = {
    {"exact", "exact", "exact"},          {"suffix", "suffix", "suffix"},          {"edit", "edit", "edit"},
    {"thinking", "thinking", "thinking"}, {"agent", "all conversations", "agent"}, {"restart", "restart", "restart"},
};
enum { N_SHOWN = sizeof SHOWN / sizeof *SHOWN };

/* ---- times of one row ---- */

static void add_ratio(double ratio, sk_buf *out) {
    if (ratio >= 100.0) {
        sk_buf_printf(out, " (%.0fx)", ratio);
    } else {
        sk_buf_printf(out, " (%.2fx)", ratio);
    }
}

static void add_series(const sk_family_row *r, const series_name *n, sk_buf *out) {
    const sk_row_series *s = sk_family_row_series(r, n->part, n->name);
    if (!s || r->ours >= r->n_hosts || s->n[r->ours] == 0) {
        return;
    }
    const size_t best = sk_family_row_best(r, s);
    sk_buf_printf(out, "%s%s ", out->len ? "; " : "", n->shown);
    if (best < r->n_hosts) {
        sk_table_ms(s->summary[best].p50, out);
        sk_buf_str(out, " -> ");
    }
    sk_table_ms(s->summary[r->ours].p50, out);
    sk_buf_str(out, " ms");
    if (best < r->n_hosts) {
        add_ratio(sk_family_row_speedup(r, n->part, n->name), out);
    }
}

void sk_run_times(json_t *row, sk_buf *out) {
    sk_row_set one = {0};
    sk_buf times = {0};
    if (sk_row_set_add(&one, json_incref(row), 1, NULL) == SKIPPY_OK) {
        for (size_t i = 0; i < N_SHOWN; i++) {
            add_series(&one.v[0], &SHOWN[i], &times);
        }
    }
    if (times.len > 0) {
        sk_buf_add(out, times.data, times.len);
    }
    out->failed = out->failed || times.failed;
    sk_buf_free(&times);
    sk_row_set_free(&one);
}

/* ---- the page ---- */

/* "llama-server 302.1, skippy 0.2" */
static void add_hosts(const sk_family_row *r, const char *part, const char *name, sk_buf *out) {
    const sk_row_series *s = sk_family_row_series(r, part, name);
    bool any = false;
    for (size_t i = 0; s && i < r->n_hosts; i++) {
        if (s->n[i] == 0) {
            continue;
        }
        sk_buf_printf(out, "%s%s ", any ? ", " : "", r->host[i]);
        sk_table_ms(s->summary[i].p50, out);
        any = true;
    }
    if (!any) {
        sk_buf_str(out, "n/a");
    }
}

static void add_status(const char *status, const char *why, sk_buf *out) {
    sk_buf_str(out, status);
    if (*why) {
        sk_buf_str(out, ": ");
        sk_table_text(why, out);
    }
}

static const char *why_of(const sk_family_row *r, const char *side) {
    const char *why = json_string_value(json_object_get(json_object_get(r->json, side), "why"));
    return why ? why : "";
}

static void add_weights(const sk_family_row *r, sk_buf *out) {
    if (json_array_size(json_object_get(r->json, "model_files")) == 0) {
        sk_buf_str(out, "n/a");
        return;
    }
    sk_buf_printf(out, "%s, %lld of %lld layers", r->synthetic ? "synthetic" : "real", (long long)r->layers,
                  (long long)r->layers_real);
}

static void add_row(const sk_family_row *r, sk_buf *out) {
    sk_buf_str(out, "| ");
    sk_table_text(r->family, out);
    sk_buf_printf(out, " | %s%s%s | %lld | ", r->kind, r->use_case ? " " : "", r->use_case ? r->use_case : "",
                  (long long)r->prefix_tokens);
    add_weights(r, out);
    sk_buf_str(out, " | ");
    add_status(r->skippy_status, why_of(r, "skippy"), out);
    sk_buf_str(out, " | ");
    add_status(r->llama_status, why_of(r, "llama_server"), out);
    sk_buf_str(out, " | ");
    add_hosts(r, "exact", "exact", out);
    sk_buf_str(out, " | ");
    add_hosts(r, "suffix", "suffix", out);
    sk_buf_str(out, " |\n");
}

int sk_run_table(json_t *rows, const char *status, sk_buf *out, sk_err *e) {
    size_t i;
    json_t *row;
    sk_buf_printf(
        out,
        "# Rows of a family benchmark\n\nThe run is %s. Times are medians in milliseconds of client wall time "
        "over HTTP. Which rows count as evidence is decided by `skippy bench report`.\n\n"
        "| Family | Cell | Prefix | Weights | skippy | llama-server | Exact repeat | New suffix |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |\n",
        status);
    json_array_foreach(rows, i, row) {
        sk_row_set one = {0}; /* alone: rows of different sources would replace each other in a set */
        const int rc = sk_row_set_add(&one, json_incref(row), i + 1, e);
        if (rc == SKIPPY_OK) {
            add_row(&one.v[0], out);
        }
        sk_row_set_free(&one);
        if (rc != SKIPPY_OK) {
            return rc;
        }
    }
    return out->failed ? sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the table") : SKIPPY_OK;
}
