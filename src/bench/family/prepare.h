/* Preparation: observes tools, builds and models, pins their bytes, and writes the complete list of cells. Runs no
 * model. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_PREPARE_H
#define SKIPPY_BENCH_FAMILY_PREPARE_H

#include <stdio.h>

#include "bench/family/corpus.h"
#include "bench/family/operator.h"

typedef struct sk_prepare_options {
    const char *operator_path; /* of the request, copied to OUT/request.json */
    const char *out_dir; /* new or empty; must not lie in the cache root, the native build or a toolkit folder, nor
                            contain one of them */
    bool use_cases;      /* false: the full rows (and package row), the corpus selection is dropped; true: use cases,
                            all of them when the request names none */
    const char *corpus;  /* instead of plan.corpus; NULL = as the request says. The wrapper binds it */
    const char *agent_corpus; /* likewise */
    FILE *progress;           /* one line a step; NULL = silent */
} sk_prepare_options;

/* Writes OUT/request.json, OUT/observations.json (tools, builds and models as they were found, machine) and, last of
 * all, OUT/cache-family-input.json. A missing model becomes cells with status missing-model. When the time limit
 * (preparation_seconds) passes or a signal comes after the last file was written, that file is removed again; the
 * observations stay.
 * Errors: those of sk_operator_load and sk_locate_model; SKIPPY_E_INVALID (folders not disjoint, output not empty,
 * cells collide), SKIPPY_E_CORRUPT (a model's or corpus's digest is not the pinned one), SKIPPY_E_TOO_LARGE (more than
 * 8,192 cells or 64 MiB), SKIPPY_E_TIMEOUT, SKIPPY_E_CANCELLED, SKIPPY_E_IO. */
int sk_prepare_run(const sk_prepare_options *o, sk_err *e);
/* The cells of a request, in order: by model; of each model the full (or package) cell and then its sweep, or one cell
 * for each of the use cases, of which a package has none. use_cases: NULL for the full rows. *cells is malloc'ed.
 * Errors: SKIPPY_E_INVALID (no cell is left, two cells collide), SKIPPY_E_TOO_LARGE, SKIPPY_E_NOMEM. Pure but for
 * memory. */
int sk_prepare_cells(const sk_operator *op, const sk_use_case *const *use_cases, size_t n_use_cases,
                     const sk_input_model *models, size_t n_models, sk_family_cell **cells, size_t *n, sk_err *e);

#endif
