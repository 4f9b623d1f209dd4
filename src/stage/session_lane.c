/* What a lane's sequence holds. */
#include <stdlib.h>
#include <string.h>

#include "stage/stage_internal.h"

void sk_lane_reset(sk_stage *s, sk_stage_lane *l) {
    sk_context_seq_clear(s->setup.ctx, l->id);
    sk_lineage_release(l->lineage);
    l->lineage = NULL;
    l->n = 0;
    sk_hash_init(&l->hash);
}

void sk_lane_free(sk_stage_lane *l) {
    free(l->tokens);
    sk_lineage_release(l->lineage);
    sk_prefix_free(&l->prompt);
    sk_kept_writer_free(&l->writer);
    *l = (sk_stage_lane){0};
}

static int reserve(sk_stage_lane *l, uint64_t n) {
    if (n <= l->cap) return SKIPPY_OK;
    uint64_t cap = l->cap ? l->cap : 256;
    while (cap < n) cap *= 2;
    if (cap > UINT32_MAX) return SKIPPY_E_NOMEM;
    int32_t *grown = realloc(l->tokens, (size_t)cap * sizeof *grown);
    if (!grown) return SKIPPY_E_NOMEM;
    l->tokens = grown;
    l->cap = (uint32_t)cap;
    return SKIPPY_OK;
}

int sk_lane_append(sk_stage_lane *l, const int32_t *tokens, uint32_t n) {
    int rc = reserve(l, (uint64_t)l->n + n);
    if (rc) return rc;
    memcpy(l->tokens + l->n, tokens, n * sizeof *tokens);
    sk_hash_update(&l->hash, tokens, n * sizeof *tokens);
    l->n += n;
    return SKIPPY_OK;
}

int sk_lane_adopt(sk_stage_lane *l, const int32_t *tokens, uint32_t n, const skippy_key *ns) {
    int rc = reserve(l, n);
    if (rc) return rc;
    l->n = 0;
    l->ns = *ns;
    sk_hash_init(&l->hash);
    return n ? sk_lane_append(l, tokens, n) : SKIPPY_OK;
}

int sk_lane_trim(sk_stage *s, sk_stage_lane *l, uint32_t n, sk_err *e) {
    if (n == l->n) return SKIPPY_OK;
    int rc = sk_context_seq_trim(s->setup.ctx, l->id, n, e);
    if (rc) return rc;
    /* what follows is another content than that of the later windows */
    sk_lineage *cut = sk_lineage_cut(l->lineage, n);
    sk_lineage_release(l->lineage);
    l->lineage = cut;
    l->n = n;
    sk_hash_init(&l->hash);
    sk_hash_update(&l->hash, l->tokens, n * sizeof *l->tokens);
    return SKIPPY_OK;
}

uint32_t sk_lane_common(const sk_stage *s, const sk_stage_lane *l, const sk_stage_lane *session) {
    bool shared = !l->claimed || (!l->no_cache && !l->faulted); /* what an ended session left was kept for others */
    if (!shared || !sk_stage_may_reuse(s, session) || !skippy_key_equal(&l->ns, &session->prompt.ns)) return 0;
    size_t n = l->n < session->prompt.n_tokens ? l->n : session->prompt.n_tokens, i = 0;
    while (i < n && l->tokens[i] == session->prompt.tokens[i]) i++;
    return (uint32_t)i;
}

skippy_key sk_lane_hash_after(const sk_hasher *h, const int32_t *tokens, uint32_t n) {
    sk_hasher copy = *h;
    skippy_key key = {0};
    if (n) sk_hash_update(&copy, tokens, n * sizeof *tokens);
    sk_hash_final(&copy, key.bytes);
    return key;
}
