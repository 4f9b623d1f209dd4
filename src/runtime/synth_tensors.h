/* The tensor list of a synthetic model: what llama.cpp asks for, minus what real files of the family lack. */
#ifndef SKIPPY_RUNTIME_SYNTH_TENSORS_H
#define SKIPPY_RUNTIME_SYNTH_TENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gguf.h"
#include "runtime/synth_families.h"

typedef struct sk_synth_tensor {
    char name[64];
    int64_t ne[4]; /* ne[0] is the row length; unused dimensions are 1 */
    int n_dims;
    bool matrix; /* may be stored as F16; else F32 in every file */
} sk_synth_tensor;

typedef struct sk_synth_tensors {
    sk_synth_tensor *v; /* owned */
    size_t n, cap;
    uint64_t elements;
} sk_synth_tensors;

/* llama.cpp reserves memory for every weight that it is asked to build, four bytes each. Experts are by far the most of
 * them and all alike, so the model is built with at most this many, and their tensors are listed with the real number.
 * Not fewer than any family uses for a token, and a multiple of its groups. */
enum { SK_SYNTH_LISTED_EXPERTS = 16 };

/* Builds the model in llama.cpp from metadata alone (its tensor memory is reserved but never touched) and lists its
 * tensors. meta must hold the tokenizer too. Errors: SKIPPY_E_RUNTIME (llama.cpp refused), SKIPPY_E_NOMEM. */
int sk_synth_tensors_list(struct gguf_context *meta, const sk_synth_family *family, sk_synth_tensors *out, sk_err *err);
void sk_synth_tensors_free(sk_synth_tensors *t);
uint64_t sk_synth_tensor_elements(const sk_synth_tensor *t);

#endif
