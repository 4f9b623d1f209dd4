#include "reuse/prefix.h"

#include <stdlib.h>
#include <string.h>

static int copy_text(const char **dst, const char *src) {
    *dst = src ? strdup(src) : NULL;
    return src && !*dst ? SKIPPY_E_NOMEM : SKIPPY_OK;
}

static int copy_tokens(sk_prefix *dst, const sk_prefix *src) {
    if (src->n_tokens == 0) return SKIPPY_OK;
    int32_t *tokens = malloc(src->n_tokens * sizeof *tokens);
    if (!tokens) return SKIPPY_E_NOMEM;
    memcpy(tokens, src->tokens, src->n_tokens * sizeof *tokens);
    dst->tokens = tokens;
    dst->n_tokens = src->n_tokens;
    return SKIPPY_OK;
}

int sk_prefix_copy(sk_prefix *dst, const sk_prefix *src) {
    *dst = (sk_prefix){.ns = src->ns};
    int rc = copy_tokens(dst, src);
    if (rc == SKIPPY_OK) rc = copy_text(&dst->tenant, src->tenant);
    if (rc == SKIPPY_OK) rc = copy_text(&dst->cache_namespace, src->cache_namespace);
    return rc;
}

void sk_prefix_free(sk_prefix *p) {
    free((void *)p->tokens);
    free((void *)p->tenant);
    free((void *)p->cache_namespace);
    *p = (sk_prefix){0};
}

skippy_manifest sk_prefix_manifest(const sk_prefix *p) {
    return (skippy_manifest){.ns = p->ns,
                             .tokens = p->tokens,
                             .n_tokens = p->n_tokens,
                             .tenant = p->tenant,
                             .cache_namespace = p->cache_namespace};
}
