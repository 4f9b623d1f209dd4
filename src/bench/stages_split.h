/* How a model is cut, and what each stage's share of the weights is. Not thread-safe. */
#ifndef SKIPPY_BENCH_STAGES_SPLIT_H
#define SKIPPY_BENCH_STAGES_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/stages_report.h"

typedef struct sk_stages_split {
    size_t n;                         /* stages */
    int32_t first[SK_STAGES_MAX + 1]; /* first layer of each, then the number of layers */
    uint64_t weights[SK_STAGES_MAX];  /* bytes of tensor data of each */
    uint64_t model_weights;
} sk_stages_split;

/* Cuts [0, n_layers) at `cuts` (n - 1 of them; 0: as even as it goes). Errors: SKIPPY_E_INVALID in words (not rising,
 * too few layers). Pure. */
int sk_stages_split_make(int32_t n_layers, const int32_t *cuts, size_t n, sk_stages_split *out, sk_err *e);
/* Reads the model's header: number of layers, and for each split whether it may be cut so, and the weights. Errors:
 * those of sk_tensor_source_open_gguf, sk_slice_check and sk_stages_split_make. two and three receive splits of 2 and 3
 * stages. */
int sk_stages_split_open(const char *model, int32_t cut, const int32_t cuts[2], sk_stages_split *two,
                         sk_stages_split *three, sk_err *e);

#endif
