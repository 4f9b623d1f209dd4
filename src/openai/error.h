/* Short ways to refuse a request. */
#ifndef SKIPPY_OPENAI_ERROR_H
#define SKIPPY_OPENAI_ERROR_H

#include "openai/api.h"

/* 400 invalid_request_error for a field. Returns 400. */
int sk_api_invalid(sk_api_error *e, const char *param, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* 500 server_error: out of memory. Returns 500. */
int sk_api_nomem(sk_api_error *e);
/* 400 with code context_length_exceeded and both numbers. Returns 400. */
int sk_api_context_exceeded(sk_api_error *e, size_t n_prompt, size_t n_ctx);
/* The same for a prompt that was not tokenised, because its length alone says that it has so many tokens. */
int sk_api_context_far_exceeded(sk_api_error *e, size_t least_tokens, size_t n_ctx);

#endif
