/* The lower bound of a cached request: llama_decode of some new tokens after a prefix that the context already holds,
 * without tokenizing, lookup, sampling or HTTP. Not thread-safe. */
#ifndef SKIPPY_RUNTIME_BARE_H
#define SKIPPY_RUNTIME_BARE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "runtime/model.h"

typedef struct sk_bare_params {
    uint32_t n_ctx;   /* cells, unified KV, as the server sets it */
    uint32_t n_batch; /* also the micro-batch */
    int32_t n_threads;
    int flash_attn; /* -1 auto, 0 off, 1 on */
} sk_bare_params;

typedef struct sk_bare sk_bare;

/* Makes a context and computes the prefix in it. m must outlive *out. Errors: SKIPPY_E_INVALID (prefix and n_new tokens
 * do not fit the context or the batch), SKIPPY_E_NOMEM, SKIPPY_E_RUNTIME. */
int sk_bare_open(const sk_model *m, const sk_bare_params *p, const int32_t *prefix, size_t n_prefix, size_t n_new,
                 sk_bare **out, sk_err *e);
/* Puts the context back to the end of the prefix (cut back where the memory can, a copy of the prefix's sequence where
 * it holds recurrent state) and decodes n_new tokens with logits for the last one. *ms: the time of that decode alone,
 * in milliseconds. Errors: SKIPPY_E_RUNTIME. */
int sk_bare_next(sk_bare *b, const int32_t *tokens, double *ms, sk_err *e);
void sk_bare_close(sk_bare *b); /* NULL allowed */

#endif
