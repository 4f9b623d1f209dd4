/* A prefix and whose it is: everything that the index, an erase and a manifest ask about it. The same type borrows (a
 * request on its way in) and owns (an entry, a row of logits, a put): who owns says so and frees. */
#ifndef SKIPPY_REUSE_PREFIX_H
#define SKIPPY_REUSE_PREFIX_H

#include <stddef.h>
#include <stdint.h>

#include "skippy/payload.h"

typedef struct sk_prefix {
    skippy_key ns; /* of model, settings, tenant and caller's namespace together */
    const int32_t *tokens;
    size_t n_tokens;
    const char *tenant, *cache_namespace; /* NULL = none */
} sk_prefix;

/* Makes *dst an owned copy; free it with sk_prefix_free, after an error too. Errors: SKIPPY_E_NOMEM. */
int sk_prefix_copy(sk_prefix *dst, const sk_prefix *src);
/* Frees an owned prefix. */
void sk_prefix_free(sk_prefix *p);
/* What a manifest says about the same prefix, borrowed from p; its other fields are zero. */
skippy_manifest sk_prefix_manifest(const sk_prefix *p);

#endif
