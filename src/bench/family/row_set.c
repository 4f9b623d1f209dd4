#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/family/catalog.h"
#include "bench/family/corpus.h"
#include "bench/family/row.h"

static bool same_text(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Random weights never replace real ones, nor the other way round: they are other evidence. */
static bool same_cell(const sk_family_row *a, const sk_family_row *b) {
    return a->synthetic == b->synthetic && a->prefix_tokens == b->prefix_tokens && same_text(a->kind, b->kind) &&
           same_text(a->key, b->key) && same_text(a->use_case, b->use_case);
}

static int add_note(sk_row_set *s, const sk_family_row *r) {
    const json_t *source = json_array_get(s->sources, json_array_size(s->sources) - 1);
    const char *path = json_string_value(json_object_get(source, "path"));
    if (!s->notes) s->notes = json_array();
    json_t *note = json_sprintf("%s (%s%s%s, prefix of %lld tokens) was measured more than once: the last one%s%s is "
                                "shown.",
                                r->family, r->kind, r->use_case ? " " : "", r->use_case ? r->use_case : "",
                                (long long)r->prefix_tokens, path ? ", of " : "", path ? sk_row_path_tail(path) : "");
    return note && json_array_append_new(s->notes, note) == 0 ? SKIPPY_OK : SKIPPY_E_NOMEM;
}

static int replace(sk_row_set *s, size_t i, const sk_family_row *r) {
    sk_family_row_free(&s->v[i]);
    s->v[i] = *r;
    return add_note(s, r);
}

static int append(sk_row_set *s, const sk_family_row *r) {
    if (s->n >= SIZE_MAX / sizeof *s->v - 1) return SKIPPY_E_NOMEM;
    sk_family_row *grown = realloc(s->v, (s->n + 1) * sizeof *grown);
    if (!grown) return SKIPPY_E_NOMEM;
    s->v = grown;
    s->v[s->n++] = *r;
    return SKIPPY_OK;
}

int sk_row_set_add(sk_row_set *s, json_t *row, size_t number, sk_err *e) {
    sk_family_row r;
    size_t i = 0;
    int rc = sk_family_row_parse(row, number, &r, e);
    if (rc != SKIPPY_OK) {
        json_decref(row);
        return rc;
    }
    while (i < s->n && !same_cell(&s->v[i], &r)) i++;
    if (i < s->n) {
        rc = replace(s, i, &r);
    } else {
        rc = append(s, &r);
        if (rc != SKIPPY_OK) sk_family_row_free(&r);
    }
    return rc == SKIPPY_OK ? rc : sk_err_set(e, rc, "no memory for row %zu", number);
}

/* ---- order ---- */

static int by_number(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

static int kind_rank(const char *kind) {
    static const char *const order[] = {"full", "sweep", "package", "use-case"};
    int i = 0;
    while (i < 3 && strcmp(kind, order[i]) != 0) i++;
    return i;
}

static int by_family(const sk_family_row *a, const sk_family_row *b) {
    const int rank = by_number((int64_t)sk_preset_rank(a->key), (int64_t)sk_preset_rank(b->key));
    if (rank) return rank;
    const int family = strcmp(a->family, b->family);
    return family ? family : strcmp(a->key, b->key);
}

static int by_use_case(const sk_family_row *a, const sk_family_row *b) {
    if (!a->use_case || !b->use_case) return (a->use_case != NULL) - (b->use_case != NULL);
    const int rank = by_number((int64_t)sk_use_case_rank(a->use_case), (int64_t)sk_use_case_rank(b->use_case));
    return rank ? rank : strcmp(a->use_case, b->use_case);
}

static int compare_rows(const void *x, const void *y) {
    const sk_family_row *a = x;
    const sk_family_row *b = y;
    int d = by_family(a, b);
    if (!d) d = (int)a->synthetic - (int)b->synthetic;
    if (!d) d = kind_rank(a->kind) - kind_rank(b->kind);
    if (!d) d = by_use_case(a, b);
    return d ? d : by_number(a->prefix_tokens, b->prefix_tokens);
}

/* Two rows are never equal in all of this: the same cell is in the set only once. */
void sk_row_set_sort(sk_row_set *s) {
    if (s->n > 1) qsort(s->v, s->n, sizeof *s->v, compare_rows);
}

void sk_row_set_free(sk_row_set *s) {
    for (size_t i = 0; i < s->n; i++) sk_family_row_free(&s->v[i]);
    free(s->v);
    json_decref(s->sources);
    json_decref(s->notes);
    *s = (sk_row_set){0};
}
