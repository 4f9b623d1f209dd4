/* Makes llama.cpp's grammar sampler from sampling settings. Internal to runtime/. */
#ifndef SKIPPY_RUNTIME_GRAMMAR_H
#define SKIPPY_RUNTIME_GRAMMAR_H

#include "runtime/sampler.h"

struct llama_sampler;
struct llama_vocab;

/* *out is NULL when the settings name no grammar; free it with llama_sampler_free. Words become escaped patterns;
 * "full" patterns are anchored. Errors: SKIPPY_E_INVALID (does not parse, no rule "root", left recursion, bad trigger
 * pattern), SKIPPY_E_UNSUPPORTED (no tokenizer), SKIPPY_E_NOMEM. */
int sk_grammar_create(const struct llama_vocab *vocab, const sk_sampling *s, struct llama_sampler **out, sk_err *e);

#endif
