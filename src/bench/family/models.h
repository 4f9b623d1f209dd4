/* Generated models with the families' real widths, for a machine that cannot hold or download the real ones. */
#ifndef SKIPPY_BENCH_FAMILY_MODELS_H
#define SKIPPY_BENCH_FAMILY_MODELS_H

#include <stdio.h>

#include "bench/family/catalog.h"

/* The smallest limit with which every family but DeepSeek3 has a model. */
#define SK_MODELS_FILE_LIMIT (UINT64_C(5) << 30)

typedef struct sk_models_options {
    const char *root;   /* folder, made when it is not there; a preset's model becomes ROOT/KEY.gguf, ROOT/KEY/ for a
                           package */
    const char *skippy; /* program that has `synth` (and `package`) */
    const sk_preset *only[SK_PRESETS];
    size_t n_only;         /* 0 = all that have a whole GGUF */
    int32_t layers;        /* 0 = chosen: see sk_models_layers */
    uint64_t file_limit;   /* bytes of one file that the choice stays below; 0 = SK_MODELS_FILE_LIMIT */
    uint64_t active_limit; /* see sk_models_limits */
    uint64_t seed;
    FILE *progress; /* a line at the start and the end of each model and now and then between; NULL = silent */
} sk_models_options;

/* The layers of a preset's generated model: as many as stay below file_limit, never more than the real model has, and a
 * number with which every kind of layer of the family occurs (a hybrid's period, a sliding window's pattern, the dense
 * layers before the experts and one with them); 0 when not even the least fits. Bytes are estimated for q4_k_m. Pure.
 */
int32_t sk_models_layers(const sk_preset *p, uint64_t file_limit);
typedef struct sk_models_limits {
    uint64_t file;   /* bytes of the file */
    uint64_t memory; /* bytes that 'skippy synth' may reserve (sk_shape_size.reserved) */
    uint64_t active; /* weights of the layers that one token goes through, which decide the time that a prompt takes; 0
                        = any. The least number of layers is made whatever it says */
} sk_models_limits;
/* The same within all limits. Pure. */
int32_t sk_models_layers_for(const sk_preset *p, const sk_models_limits *limits);
/* Makes the models that are not there yet, one after another; a half-written file never stays. The layer count of an
 * existing file is not changed. A model that cannot be made does not stop the others; the first failure is returned at
 * the end. Errors: SKIPPY_E_RUNTIME (synth's words), SKIPPY_E_CANCELLED (at once), SKIPPY_E_TOO_LARGE (no number of
 * layers fits), SKIPPY_E_EXISTS (something that is no usable model has the name), SKIPPY_E_IO (disk full: says how much
 * is needed), SKIPPY_E_NOT_FOUND (no such program), those of sk_locate_model. */
int sk_models_make(const sk_models_options *o, sk_err *e);

/* Lists for every preset what sk_locate_model finds below root, as a table for people or as JSON:
 * {"root","models":[{"key","family","status","path","kind","layers","layers_real","width","quant","synthetic","bytes",
 * "why"}]}. Errors: those of sk_locate_model, SKIPPY_E_IO (out), SKIPPY_E_NOMEM. */
int sk_models_print(const char *root, FILE *out, bool json, sk_err *e);

#endif
