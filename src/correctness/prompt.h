/* The tokens that a certification computes. */
#ifndef SKIPPY_CORRECTNESS_PROMPT_H
#define SKIPPY_CORRECTNESS_PROMPT_H

#include "base/err.h"
#include "runtime/model.h"

/* Fills out with n tokens: the text's, continued by a filler sentence as often as needed, or (text NULL, or a file
 * without tokenizer) tokens drawn from the vocabulary, always the same ones. None of them ends a generation.
 * Errors: SKIPPY_E_NOMEM, SKIPPY_E_INVALID (no usable token). */
int sk_prompt_tokens(const sk_model *m, const char *text, int32_t *out, size_t n, sk_err *e);

#endif
