#include "bench/family/input.h"

#include <stdlib.h>
#include <string.h>

#include "bench/family/input_parts.h"

static int by_output(const void *a, const void *b) {
    const sk_family_cell *const *x = a, *const *y = b;
    return strcmp((*x)->output_relative, (*y)->output_relative);
}

/* "a" and "a/b" collide as well: a cell's folder would hold another cell. */
static bool collide(const char *shorter, const char *longer) {
    const size_t n = strlen(shorter);
    return strncmp(shorter, longer, n) == 0 && (longer[n] == '\0' || longer[n] == '/');
}

int sk_input_check_outputs(const sk_family_cell *cells, size_t n, sk_err *e) {
    int rc = SKIPPY_OK;
    const sk_family_cell **sorted = calloc(n ? n : 1, sizeof(const sk_family_cell *));
    if (!sorted) return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for %zu cells", n);
    for (size_t i = 0; i < n; i++) sorted[i] = &cells[i];
    qsort(sorted, n, sizeof(const sk_family_cell *), by_output);
    for (size_t i = 1; i < n && rc == SKIPPY_OK; i++) {
        if (collide(sorted[i - 1]->output_relative, sorted[i]->output_relative))
            rc = sk_err_set(e, SKIPPY_E_INVALID, "two cells collide: they would write to '%s' and '%s'",
                            sorted[i - 1]->output_relative, sorted[i]->output_relative);
    }
    free(sorted);
    return rc;
}

int sk_family_input_parse(json_t *json, sk_family_input **out, sk_err *e) {
    sk_strict_reader reader = {.e = e};
    *out = NULL;
    sk_family_input *in = calloc(1, sizeof *in);
    if (!in) return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for an input");
    const sk_strict root = sk_strict_root(&reader, json);
    sk_input_read(&root, in);
    if (reader.rc == SKIPPY_OK) reader.rc = sk_input_check_outputs(in->cells, in->n_cells, e);
    if (reader.rc != SKIPPY_OK) {
        sk_family_input_free(in);
        return reader.rc;
    }
    *out = in;
    return SKIPPY_OK;
}

int sk_family_input_load(const char *path, sk_family_input **out, sk_err *e) {
    json_t *root = NULL;
    *out = NULL;
    int rc = sk_strict_load(path, SK_INPUT_MAX_BYTES, &root, NULL, e);
    if (rc == SKIPPY_OK) rc = sk_family_input_parse(root, out, e);
    json_decref(root);
    return rc;
}

void sk_family_input_free(sk_family_input *in) {
    if (!in) return;
    for (size_t i = 0; i < in->n_env; i++) free(in->env[i]);
    free(in->cells);
    free(in);
}
