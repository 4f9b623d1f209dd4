/* What a stage is fed in a certification: tokens, and for a stage that takes hidden states one hidden state for each
 * position. Fixed before the battery begins, so that every run of it, here or in a fresh process, is fed the same.
 *
 * Not thread-safe. */
#ifndef SKIPPY_CORRECTNESS_STAGE_SCRIPT_H
#define SKIPPY_CORRECTNESS_STAGE_SCRIPT_H

#include "base/err.h"
#include "runtime/model.h"

typedef struct sk_stage_script {
    int32_t *tokens; /* n; owned */
    float *hidden;   /* n x width, by position; owned; NULL for the first stage, which takes tokens */
    uint32_t n, width;
} sk_stage_script;

/* Strings are borrowed for the call. */
typedef struct sk_stage_script_params {
    const char *producer; /* stage file of every layer before the stage; NULL = made by sk_stage_synthetic */
    const char *prompt;   /* NULL = drawn tokens; a text needs a tokenizer, which first stages have */
    uint32_t n;           /* positions */
    int32_t n_threads, n_gpu_layers;
    int flash_attn;              /* -1 auto, 0, 1 */
    const char *type_k, *type_v; /* NULL = f16 */
} sk_stage_script_params;

/* Is this a stage that the battery needs a script for? Not a whole model, nor a stage file of all layers. */
bool sk_stage_needs_script(const sk_model_info *i);

/* Loads the producer, if there is one, runs it, and drops it. Errors: SKIPPY_E_INVALID (a producer that is not all the
 * layers before the stage of the same model; one for a first stage; a text for a stage without tokenizer), those of
 * sk_model_load, sk_context_create, sk_context_decode_stage and sk_prompt_tokens, SKIPPY_E_NOMEM. */
int sk_stage_script_make(const sk_model *stage, const sk_stage_script_params *p, sk_stage_script *out, sk_err *e);
/* s may be all zero. */
void sk_stage_script_free(sk_stage_script *s);

/* The token of a position; 0 behind the end, where decoding is refused. */
int32_t sk_stage_script_token(const sk_stage_script *s, uint32_t position);

#endif
