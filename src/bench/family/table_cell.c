#include "bench/family/table_cell.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void sk_column_text(const char *text, sk_buf *out) {
    sk_buf_str(out, " ");
    sk_table_text(text, out);
    sk_buf_str(out, " |");
}

void sk_column_code(const char *text, sk_buf *out) {
    sk_buf_str(out, " ");
    sk_table_code(text, out);
    sk_buf_str(out, " |");
}

void sk_column_number(int64_t n, sk_buf *out) {
    sk_buf_printf(out, " %" PRId64 " |", n);
}

void sk_column_ms(double ms, sk_buf *out) {
    sk_buf_str(out, " ");
    sk_table_ms(ms, out);
    sk_buf_str(out, " |");
}

void sk_column_family(const sk_family_row *r, sk_buf *out) {
    sk_buf_str(out, "| ");
    sk_table_text(r->family, out);
    if (r->layers && r->layers < r->layers_real)
        sk_buf_printf(out, " (%" PRId64 " of %" PRId64 " layers)", r->layers, r->layers_real);
    sk_buf_str(out, " |");
}

static bool measured(const sk_row_series *s, const sk_family_row *r, size_t host) {
    return s && host < r->n_hosts && s->n[host] > 0;
}

void sk_column_p50(const sk_row_series *s, const sk_family_row *r, size_t host, sk_buf *out) {
    if (measured(s, r, host))
        sk_column_ms(s->summary[host].p50, out);
    else
        sk_buf_str(out, " n/a |");
}

static void add_times(const sk_summary *ms, sk_buf *out) {
    sk_table_ms(ms->p50, out);
    sk_buf_str(out, " / ");
    sk_table_ms(ms->p95, out);
}

void sk_column_times(const sk_row_series *s, const sk_family_row *r, size_t host, sk_buf *out) {
    sk_buf_str(out, " ");
    if (measured(s, r, host))
        add_times(&s->summary[host], out);
    else
        sk_buf_str(out, "n/a");
    sk_buf_str(out, " |");
}

void sk_add_tokens(const sk_row_series *s, const sk_family_row *r, size_t host, sk_buf *out) {
    if (!measured(s, r, host))
        sk_buf_str(out, "n/a");
    else if (s->cache_n[host] + s->prompt_n[host] == 0)
        sk_buf_str(out, "-");
    else
        sk_buf_printf(out, "%zu+%zu", s->cache_n[host], s->prompt_n[host]);
}

void sk_column_tokens(const sk_row_series *s, const sk_family_row *r, sk_buf *out) {
    const size_t hosts[] = {sk_row_host(r, "llama-server"), sk_family_row_best(r, s), r->ours};
    for (size_t i = 0; i < 3; i++) {
        sk_buf_str(out, i ? ", " : " ");
        sk_add_tokens(s, r, hosts[i], out);
    }
    sk_buf_str(out, " |");
}

void sk_add_flags_name(const sk_family_row *r, size_t host, sk_buf *out) {
    const char *dash = strlen(r->host[host]) > strlen("llama-server") ? r->host[host] + strlen("llama-server-") : "";
    sk_buf_str(out, " (");
    sk_table_text(*dash ? dash : "default", out);
    sk_buf_str(out, ")");
}

void sk_column_best(const sk_row_series *s, const sk_family_row *r, bool with_p95, sk_buf *out) {
    const size_t best = sk_family_row_best(r, s);
    if (!measured(s, r, best)) {
        sk_buf_str(out, " n/a |");
        return;
    }
    sk_buf_str(out, " ");
    if (with_p95)
        add_times(&s->summary[best], out);
    else
        sk_table_ms(s->summary[best].p50, out);
    sk_add_flags_name(r, best, out);
    sk_buf_str(out, " |");
}

void sk_column_runs(const sk_row_series *s, const sk_family_row *r, sk_buf *out) {
    const size_t best = sk_family_row_best(r, s);
    const size_t ours = measured(s, r, r->ours) ? s->n[r->ours] : 0;
    const size_t theirs = measured(s, r, best) ? s->n[best] : 0;
    if (ours == theirs || theirs == 0)
        sk_buf_printf(out, " %zu |", ours);
    else
        sk_buf_printf(out, " %zu (llama-server %zu) |", ours, theirs);
}

void sk_column_factor(double ratio, bool comparable, sk_buf *out) {
    if (isfinite(ratio) && ratio > 0.0)
        sk_buf_printf(out, " %.2fx%s |", ratio, comparable ? "" : " " SK_DAGGER);
    else
        sk_buf_str(out, " n/a |");
}

void sk_column_ratio(const sk_family_row *r, const char *part, const char *series, sk_buf *out) {
    const double ratio = sk_family_row_speedup(r, part, series);
    const size_t best = sk_family_row_best(r, sk_family_row_series(r, part, series));
    if (!sk_family_row_comparable(r, part, best)) {
        sk_column_factor(ratio, false, out);
        return;
    }
    sk_buf_str(out, " ");
    sk_table_speedup(ratio, out);
    sk_buf_str(out, " |");
}

void sk_column_storage(const sk_family_row *r, sk_buf *out) {
    if (strcmp(r->storage_method, "n/a") == 0) {
        sk_buf_str(out, " n/a |");
        return;
    }
    sk_buf_str(out, " ");
    sk_table_bytes(r->storage_bytes, out);
    sk_buf_str(out, " (");
    sk_table_text(r->storage_method, out);
    sk_buf_str(out, ") |");
}
