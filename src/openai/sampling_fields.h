/* Sampling settings of a request body. Names are llama-server's, which include OpenAI's. */
#ifndef SKIPPY_OPENAI_SAMPLING_FIELDS_H
#define SKIPPY_OPENAI_SAMPLING_FIELDS_H

#include <jansson.h>

#include "openai/error.h"
#include "runtime/sampler.h"

/* Largest number of alternatives per token that may be asked for. OpenAI's limit is 20; llama-server has none. */
#define SK_MAX_PROBS 100

/* Reads the numeric settings over the values that *s already has. Returns 0 or the HTTP status. */
int sk_sampling_parse(const json_t *body, sk_sampling *s, sk_api_error *err);
/* Reads logit_bias: {"42": -1.5} as OpenAI has it, or [[42, -1.5], [42, false]] as llama-server has it (false bans the
 * token). *out is malloc'ed, NULL when there is none. Tokens at or above n_vocab are refused. */
int sk_logit_bias_parse(const json_t *body, int32_t n_vocab, sk_logit_bias **out, size_t *n, sk_api_error *err);

#endif
