/* The halves of cache-family-input.json that its writer and its reader share: names of fields and words. */
#ifndef SKIPPY_BENCH_FAMILY_INPUT_PARTS_H
#define SKIPPY_BENCH_FAMILY_INPUT_PARTS_H

#include <stddef.h>

#include "bench/family/input.h"
#include "bench/family/strict.h"

enum { SK_INPUT_SCHEMA = 1, SK_INPUT_MAX_BYTES = 64 << 20 };

/* A member of a struct that is a number or a flag: its field and its place. */
typedef struct sk_input_field {
    const char *name;
    size_t offset;
} sk_input_field;

/* A name of NULL ends each list. */
extern const sk_input_field sk_input_task_fields[]; /* bool of sk_cell_tasks */
extern const sk_input_field sk_input_programs[];    /* sk_pinned_file of sk_family_input */
extern const char *const sk_input_cell_kinds[];     /* by sk_cell_kind */
extern const char *const sk_input_model_kinds[];    /* sk_found_model.kind */
extern const char *const sk_input_statuses[];       /* by sk_found_status */

/* Reads the whole document into an input that is all zero. Refusals are left in the reader. */
void sk_input_read(const sk_strict *root, sk_family_input *in);
/* Every cell needs a folder of its own. Errors: SKIPPY_E_INVALID (names both paths), SKIPPY_E_NOMEM. */
int sk_input_check_outputs(const sk_family_cell *cells, size_t n, sk_err *e);
/* New references; NULL when out of memory or when a path is not UTF-8. */
json_t *sk_input_model_json(const sk_input_model *m);
json_t *sk_input_pin_json(const sk_pinned_file *f);
json_t *sk_input_tree_json(const sk_pinned_tree *t);

#endif
