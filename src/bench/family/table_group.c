/* Which rows belong into one table, and the lines around them. */
#include <string.h>

#include "bench/family/table_cell.h"

bool sk_weights_of(const sk_family_row *r, sk_weights w) {
    return r->synthetic == (w == SK_WEIGHTS_SYNTHETIC);
}

bool sk_row_is(const sk_family_row *r, const char *kind) {
    return strcmp(r->kind, kind) == 0;
}

bool sk_row_passed(const sk_family_row *r) {
    return strcmp(r->skippy_status, "pass") == 0;
}

bool sk_row_full_passed(const sk_family_row *r) {
    return sk_row_is(r, "full") && sk_row_passed(r);
}

size_t sk_row_host(const sk_family_row *r, const char *name) {
    size_t i = 0;
    while (i < r->n_hosts && strcmp(r->host[i], name) != 0) i++;
    return i;
}

void sk_table_heading(const char *title, sk_weights w, sk_buf *out) {
    sk_buf_printf(out, "\n## %s%s\n\n", title, w == SK_WEIGHTS_SYNTHETIC ? " (synthetic weights)" : "");
}

void sk_table_explain(sk_weights w, sk_buf *out) {
    if (w == SK_WEIGHTS_SYNTHETIC)
        sk_buf_str(out, "Random weights in the shape of the family, often with fewer layers: times and sizes are real, "
                        "texts mean nothing, and nothing here is promoted evidence for the published model.\n\n");
}

void sk_table_head(const char *titles, sk_buf *out) {
    sk_buf_printf(out, "| %s |\n|", titles);
    for (const char *p = titles; p; p = strchr(p + 1, '|')) sk_buf_str(out, " --- |");
    sk_buf_str(out, "\n");
}

size_t sk_table_count(const sk_row_set *s, sk_weights w, sk_row_filter want) {
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) n += sk_weights_of(&s->v[i], w) && want(&s->v[i]);
    return n;
}

void sk_table_rows(const sk_row_set *s, sk_weights w, const char *title, const char *titles, sk_row_filter want,
                   sk_row_line line, sk_buf *out) {
    if (sk_table_count(s, w, want) == 0) return;
    sk_table_heading(title, w, out);
    sk_table_head(titles, out);
    for (size_t i = 0; i < s->n; i++)
        if (sk_weights_of(&s->v[i], w) && want(&s->v[i])) line(&s->v[i], out);
}
