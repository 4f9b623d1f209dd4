/* Do the stages of a split compute what the whole model computes? One prompt and a few generated tokens go through the
 * whole model, then through the stage files one after another in this process; every row of logits is compared bit for
 * bit. One model is loaded at a time.
 *
 * CAVEATS, read first:
 *  - Not thread-safe, and not beside other llama.cpp work.
 *  - A pass says that these stage files, on this machine with these settings, compute the same numbers for the tokens
 *    that were tried. Hidden states must travel as f32. */
#ifndef SKIPPY_CORRECTNESS_STAGE_CERTIFY_H
#define SKIPPY_CORRECTNESS_STAGE_CERTIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "topology/capability.h"

enum { SK_STAGE_CERTIFY_MAX = 16 };

/* Zero-initialise, then fill in. Strings are borrowed for the run. */
typedef struct sk_stage_certify_options {
    const char *whole;         /* the model's GGUF */
    const char *const *stages; /* stage files in order */
    size_t n_stages;
    uint32_t n_prompt, n_decode; /* tokens; 0 = 24 and 8 */
    int32_t n_threads;           /* 0 = all cores */
    int32_t n_gpu_layers;
    int flash_attn;              /* -1 auto, 0, 1 */
    const char *type_k, *type_v; /* NULL or "" = f16 */
    bool (*go_on)(void);         /* false stops; may be NULL */
} sk_stage_certify_options;

typedef struct sk_stage_certify_report {
    bool passed;
    uint32_t rows, different; /* of logits: compared, and not identical */
    float largest;            /* difference of two logits */
    char source[65];          /* hex digest of the whole model, as the stage files have it */
    int32_t n_layer;
    sk_layer_range layers[SK_STAGE_CERTIFY_MAX];
    size_t n_stages;
    char abi[512], device[128];
    char type_k[16], type_v[16];
    int flash_attn;    /* as asked */
    char verdict[400]; /* one sentence */
    int64_t date_s;    /* Unix time */
} sk_stage_certify_report;

/* SKIPPY_OK means that there is a report, not that it passed. Errors: those of sk_model_load, sk_context_create and
 * sk_context_decode_stage; SKIPPY_E_INVALID (files that are not the stages of one model in order, without gaps),
 * SKIPPY_E_NOMEM, SKIPPY_E_CANCELLED. */
int sk_stage_certify_run(const sk_stage_certify_options *o, sk_stage_certify_report *out, sk_err *e);

#endif
