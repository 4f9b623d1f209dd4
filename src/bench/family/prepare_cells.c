#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/family/input_parts.h"
#include "bench/family/prepare.h"

typedef struct cell_list {
    const sk_operator *op;
    sk_family_cell *v;
    size_t n, cap;
} cell_list;

static bool has_baseline(const sk_operator *op) {
    return op->native_server[0] && !op->plan.skip_llama_server;
}

/* What every cell with a whole model is asked. */
static sk_cell_tasks serial_tasks(const sk_operator *op) {
    return (sk_cell_tasks){.correctness = true, .serial_baseline = has_baseline(op), .serial_skippy = true};
}

static sk_cell_tasks full_tasks(const sk_operator *op) {
    sk_cell_tasks t = serial_tasks(op);
    t.concurrent = op->plan.sizes.n_concurrency > 0;
    t.moved_boundary = true;
    t.agent = op->plan.agent_corpus.path[0] != '\0';
    t.restart = true;
    t.paired_serving = op->plan.old_server.path[0] != '\0';
    return t;
}

static sk_family_cell *add(cell_list *list, const sk_preset *preset, size_t model, sk_cell_kind kind,
                           uint32_t prefix_tokens, const char *folder, sk_cell_tasks tasks) {
    sk_family_cell *c = &list->v[list->n++];
    *c = (sk_family_cell){
        .preset = preset, .kind = kind, .prefix_tokens = prefix_tokens, .model = model, .tasks = tasks};
    snprintf(c->output_relative, sizeof c->output_relative, "%s/%s-p%u", folder, preset->key, prefix_tokens);
    return c;
}

/* A package's context is small and fixed; a prefix of the plan that leaves no room for the token behind it is not for
 * this model. */
static uint32_t package_prefix(const sk_operator *op, const sk_preset *preset) {
    const uint32_t wanted = op->plan.sizes.prefix_tokens;
    return wanted && wanted < preset->preset_ctx ? wanted : preset->preset_prefix;
}

static void add_full(cell_list *list, const sk_preset *preset, size_t model) {
    const sk_family_sizes *s = &list->op->plan.sizes;
    if (preset->artifact == SK_ARTIFACT_PACKAGE) {
        add(list, preset, model, SK_CELL_PACKAGE, package_prefix(list->op, preset), "package",
            (sk_cell_tasks){.correctness = true}); /* some layers alone serve nobody */
        return;
    }
    const uint32_t prefix = s->prefix_tokens ? s->prefix_tokens : preset->preset_prefix;
    add(list, preset, model, SK_CELL_FULL, prefix, "full", full_tasks(list->op));
    for (size_t i = 0; i < s->n_sweep; i++) {
        if (s->sweep[i] != prefix)
            add(list, preset, model, SK_CELL_SWEEP, s->sweep[i], "sweep", serial_tasks(list->op));
    }
}

static void add_use_case(cell_list *list, const sk_preset *preset, size_t model, const sk_use_case *use_case) {
    const uint32_t wanted = list->op->plan.sizes.prefix_tokens;
    sk_family_cell *c = add(list, preset, model, SK_CELL_USE_CASE, wanted ? wanted : use_case->prefix_tokens,
                            use_case->key, serial_tasks(list->op));
    snprintf(c->use_case, sizeof c->use_case, "%s", use_case->key);
}

static int by_rank(const void *a, const void *b) {
    const sk_input_model *const *x = a, *const *y = b;
    const size_t rx = sk_preset_rank((*x)->preset->key), ry = sk_preset_rank((*y)->preset->key);
    return (rx > ry) - (rx < ry);
}

static void add_model(cell_list *list, const sk_input_model *m, size_t index, const sk_use_case *const *use_cases,
                      size_t n_use_cases) {
    if (!use_cases) {
        add_full(list, m->preset, index);
    } else if (m->preset->artifact != SK_ARTIFACT_PACKAGE) {
        for (size_t i = 0; i < n_use_cases; i++) add_use_case(list, m->preset, index, use_cases[i]);
    }
}

static int check_room(size_t n_models, size_t cells_each, sk_err *e) {
    if (n_models == 0 || cells_each == 0)
        return sk_err_set(e, SKIPPY_E_INVALID, "the request leaves no cell: no case or no use case is left");
    if (cells_each > SK_INPUT_MAX_CELLS / n_models)
        return sk_err_set(e, SKIPPY_E_TOO_LARGE, "%zu families with up to %zu cells each: more than %d cells", n_models,
                          cells_each, SK_INPUT_MAX_CELLS);
    return SKIPPY_OK;
}

int sk_prepare_cells(const sk_operator *op, const sk_use_case *const *use_cases, size_t n_use_cases,
                     const sk_input_model *models, size_t n_models, sk_family_cell **cells, size_t *n, sk_err *e) {
    const size_t each = use_cases ? n_use_cases : 1 + op->plan.sizes.n_sweep;
    const sk_input_model *sorted[SK_PRESETS];
    *cells = NULL;
    *n = 0;
    int rc = n_models <= SK_PRESETS ? check_room(n_models, each, e)
                                    : sk_err_set(e, SKIPPY_E_INVALID, "%zu models: more than cases", n_models);
    if (rc != SKIPPY_OK) return rc;
    cell_list list = {.op = op, .cap = n_models * each};
    list.v = calloc(list.cap, sizeof *list.v);
    if (!list.v) return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for %zu cells", list.cap);
    for (size_t i = 0; i < n_models; i++) sorted[i] = &models[i];
    qsort(sorted, n_models, sizeof(const sk_input_model *), by_rank);
    for (size_t i = 0; i < n_models; i++)
        add_model(&list, sorted[i], (size_t)(sorted[i] - models), use_cases, n_use_cases);
    rc = list.n ? sk_input_check_outputs(list.v, list.n, e)
                : sk_err_set(e, SKIPPY_E_INVALID, "no cell is left: a layer package has no use cases");
    if (rc != SKIPPY_OK) {
        free(list.v);
        return rc;
    }
    *cells = list.v;
    *n = list.n;
    return SKIPPY_OK;
}
