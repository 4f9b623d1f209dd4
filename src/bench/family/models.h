/* Generated models with the families' real widths, for a machine that cannot hold or download the real ones. */
#ifndef SKIPPY_BENCH_FAMILY_MODELS_H
#define SKIPPY_BENCH_FAMILY_MODELS_H

#include <stdio.h>

#include "bench/family/catalog.h"

typedef struct sk_models_options {
    const char *root;   /* folder; a preset's model becomes ROOT/KEY.gguf */
    const char *skippy; /* program that has `synth` (and `package`) */
    const sk_preset *only[SK_PRESETS];
    size_t n_only;       /* 0 = all that have a whole GGUF */
    int32_t layers;      /* 0 = chosen: see sk_models_layers */
    uint64_t file_limit; /* bytes of one file that the choice stays below; 0 = 4 GiB */
    uint64_t seed;
    FILE *progress;
} sk_models_options;

/* The layers of a preset's generated model: as many as stay below file_limit, never more than the real model has, and a
 * number with which every kind of layer of the family occurs (a hybrid's period, a sliding window's pattern, the dense
 * layers before the experts and one with them); 0 when not even the least fits. Bytes are estimated for q4_k_m. Pure.
 */
int32_t sk_models_layers(const sk_preset *p, uint64_t file_limit);
/* Makes the models that are not there yet; a half-written file never stays. The layer count of an existing file is not
 * changed. Errors: SKIPPY_E_RUNTIME (synth's words), SKIPPY_E_CANCELLED, SKIPPY_E_IO (disk full: says how much is
 * needed). */
int sk_models_make(const sk_models_options *o, sk_err *e);

#endif
