#include "bench/family/table_matrix.h"

#include <string.h>

void sk_matrix_columns_of(const sk_row_set *s, sk_weights w, sk_row_filter want, sk_matrix_columns *out) {
    *out = (sk_matrix_columns){0};
    for (size_t i = 0; i < s->n && out->n < SK_MATRIX_MAX_COLUMNS; i++) {
        const sk_family_row *r = &s->v[i];
        size_t k = 0;
        if (!sk_weights_of(r, w) || !want(r)) continue;
        while (k < out->n && strcmp(out->v[k]->key, r->key) != 0) k++;
        if (k == out->n) out->v[out->n++] = r;
    }
}

void sk_matrix_head(const char *title, sk_weights w, const char *first, const sk_matrix_columns *c, sk_buf *out) {
    sk_buf titles = {0};
    sk_buf_str(&titles, first);
    for (size_t i = 0; i < c->n; i++) {
        sk_buf_str(&titles, " | ");
        sk_table_text(c->v[i]->family, &titles);
    }
    sk_table_heading(title, w, out);
    if (!titles.failed) sk_table_head(titles.data, out);
    out->failed |= titles.failed;
    sk_buf_free(&titles);
}
