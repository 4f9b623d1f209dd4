/* Use cases as rows, families as columns, and where the prompts come from. */
#include <inttypes.h>
#include <string.h>

#include "bench/family/table_matrix.h"

static bool use_case(const sk_family_row *r) {
    return r->use_case != NULL;
}

/* Same line of the matrix. */
static bool same_line(const sk_family_row *a, const sk_family_row *b) {
    return strcmp(a->use_case, b->use_case) == 0 && a->prefix_tokens == b->prefix_tokens;
}

static const sk_family_row *find_cell(const sk_row_set *s, sk_weights w, const sk_family_row *line, const char *key) {
    for (size_t i = 0; i < s->n; i++) {
        const sk_family_row *r = &s->v[i];
        if (use_case(r) && sk_weights_of(r, w) && same_line(r, line) && strcmp(r->key, key) == 0) return r;
    }
    return NULL;
}

static void add_cell(const sk_family_row *r, sk_buf *out) {
    if (!r || !sk_row_passed(r)) {
        sk_buf_str(out, " n/a |");
        return;
    }
    const size_t best = sk_family_row_best(r, sk_family_row_series(r, "exact", "exact"));
    sk_column_factor(sk_family_row_speedup(r, "exact", "exact"), sk_family_row_comparable(r, "exact", best), out);
}

static void add_line(const sk_row_set *s, sk_weights w, const sk_matrix_columns *c, const sk_family_row *line,
                     sk_buf *out) {
    sk_buf_str(out, "|");
    sk_column_text(line->use_case_label, out);
    sk_column_number(line->prefix_tokens, out);
    for (size_t i = 0; i < c->n; i++) add_cell(find_cell(s, w, line, c->v[i]->key), out);
    sk_buf_str(out, "\n");
}

/* The line that comes next after `last` in the order of use cases and prefixes; NULL after the end. The rows of one
 * family are in that order, but a family may lack some. */
static bool before(const sk_family_row *a, const sk_family_row *b) {
    const size_t x = sk_use_case_rank(a->use_case);
    const size_t y = sk_use_case_rank(b->use_case);
    const int text = strcmp(a->use_case, b->use_case);
    if (x != y) return x < y;
    return text ? text < 0 : a->prefix_tokens < b->prefix_tokens;
}

static const sk_family_row *next_line(const sk_row_set *s, sk_weights w, const sk_family_row *last) {
    const sk_family_row *next = NULL;
    for (size_t i = 0; i < s->n; i++) {
        const sk_family_row *r = &s->v[i];
        if (!use_case(r) || !sk_weights_of(r, w) || (last && !before(last, r))) continue;
        if (!next || before(r, next)) next = r;
    }
    return next;
}

static void add_matrix(const sk_row_set *s, sk_weights w, sk_buf *out) {
    sk_matrix_columns c;
    sk_matrix_columns_of(s, w, use_case, &c);
    if (c.n == 0) return;
    sk_matrix_head("Use cases: exact repeat, times faster than llama-server's best", w, "Use case | Prefix", &c, out);
    for (const sk_family_row *line = next_line(s, w, NULL); line; line = next_line(s, w, line))
        add_line(s, w, &c, line, out);
}

/* ---- sources ---- */

typedef struct source {
    const char *label, *dataset, *config, *split;
    int64_t row_idx;
    bool written;
} source;

static void add_source(const source *v, sk_buf *out) {
    sk_buf_str(out, "|");
    sk_column_text(v->label, out);
    sk_column_code(v->dataset, out);
    sk_column_code(v->config, out);
    sk_column_code(v->split, out);
    if (v->written)
        sk_buf_str(out, " - | written for this project in the manner of that data set |\n");
    else
        sk_buf_printf(out, " %" PRId64 " | the data set's own row |\n", v->row_idx);
}

static const char *text_of(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static void add_row_source(const sk_family_row *r, sk_buf *out) {
    const json_t *from = json_object_get(r->json, "use_case_source");
    const source v = {.label = r->use_case_label,
                      .dataset = text_of(from, "dataset"),
                      .config = text_of(from, "config"),
                      .split = text_of(from, "split"),
                      .row_idx = json_integer_value(json_object_get(from, "row_idx")),
                      .written = json_is_true(json_object_get(from, "written"))};
    add_source(&v, out);
}

/* Each use case once, of whatever weights. */
static void add_row_sources(const sk_row_set *s, sk_buf *out) {
    for (size_t i = 0; i < s->n; i++) {
        size_t k = 0;
        if (!use_case(&s->v[i])) continue;
        while (k < i && !(use_case(&s->v[k]) && strcmp(s->v[k].use_case, s->v[i].use_case) == 0)) k++;
        if (k == i) add_row_source(&s->v[i], out);
    }
}

static void add_corpus_sources(const sk_corpus *corpus, sk_buf *out) {
    for (size_t i = 0; i < corpus->n; i++) {
        const sk_use_case *u = &corpus->v[i];
        const source v = {.label = u->label,
                          .dataset = u->dataset ? u->dataset : "",
                          .config = u->config ? u->config : "",
                          .split = u->split ? u->split : "",
                          .row_idx = u->row_idx,
                          .written = u->written};
        add_source(&v, out);
    }
}

static bool any_use_case(const sk_row_set *s) {
    for (size_t i = 0; i < s->n; i++)
        if (use_case(&s->v[i])) return true;
    return false;
}

void sk_table_use_cases(const sk_row_set *s, const sk_corpus *corpus, sk_buf *out) {
    if (!any_use_case(s)) return;
    for (sk_weights w = SK_WEIGHTS_REAL; w < SK_WEIGHTS_KINDS; w++) add_matrix(s, w, out);
    sk_table_heading("Where the prompts come from", SK_WEIGHTS_REAL, out);
    sk_table_head("Use case | Data set | Config | Split | Row | Prompt", out);
    if (corpus)
        add_corpus_sources(corpus, out);
    else
        add_row_sources(s, out);
}
