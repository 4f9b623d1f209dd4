/* Where to cut a model, as its file allows: the registry's rules and what only the file can tell. Pure functions on an
 * open source. */
#ifndef SKIPPY_CLI_CUT_PLAN_H
#define SKIPPY_CLI_CUT_PLAN_H

#include "runtime/slice.h"

enum { SK_CUT_STAGES_MAX = 16 };

typedef struct sk_cut_plan {
    int32_t n_layer;
    size_t n_stages;
    sk_layer_range stage[SK_CUT_STAGES_MAX];
    uint64_t bytes[SK_CUT_STAGES_MAX]; /* of tensor data that each stage file holds */
} sk_cut_plan;

/* Stages of about as many layers each, or, with memory (n_stages sizes in bytes), in proportion to it: bytes of the
 * stage files against bytes of memory, and none larger than its memory. Of all cuts that the file allows the ones with
 * the smallest sum of size^2 / share, which is least where sizes are in proportion. Errors: SKIPPY_E_INVALID (no stage,
 * more stages than SK_CUT_STAGES_MAX or than layers), SKIPPY_E_UNSUPPORTED (no cuts are allowed: the reason of the
 * first layers is in the text), SKIPPY_E_TOO_LARGE (it does not fit the memory: how many bytes are missing),
 * SKIPPY_E_NOMEM. */
int sk_cut_plan_make(const sk_tensor_source *s, size_t n_stages, const uint64_t *memory, sk_cut_plan *out, sk_err *e);

/* The plan with these cuts (n_stages - 1 ascending layer numbers): SKIPPY_E_INVALID, or why a stage is refused. */
int sk_cut_plan_fixed(const sk_tensor_source *s, const int32_t *cuts, size_t n_stages, sk_cut_plan *out, sk_err *e);

/* "layers 0 to 5, 6 to 10 and 11 to 15"; returns buf. */
const char *sk_cut_plan_text(const sk_cut_plan *p, char *buf, size_t cap);

#endif
