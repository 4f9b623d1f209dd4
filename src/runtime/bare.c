#include "runtime/bare.h"

#include <stdbool.h>
#include <stdlib.h>

#include <llama.h>

#include "base/clock.h"

/* Sequence 0 keeps the prefix; recurrent memory, which cannot be cut back, decodes in a copy of it. */
enum { SEQ_PREFIX = 0, SEQ_COPY = 1, N_SEQ = 2 };

struct sk_bare {
    struct llama_context *ctx;
    struct llama_batch batch;
    bool recurrent;
    size_t n_prefix, n_new;
};

static struct llama_context *open_context(const sk_model *m, const sk_bare_params *p, sk_err *e) {
    struct llama_context_params c = llama_context_default_params();
    c.n_ctx = p->n_ctx;
    c.n_batch = p->n_batch;
    c.n_ubatch = p->n_batch;
    c.n_seq_max = N_SEQ;
    c.n_threads = p->n_threads;
    c.n_threads_batch = p->n_threads;
    c.flash_attn_type = p->flash_attn < 0    ? LLAMA_FLASH_ATTN_TYPE_AUTO
                        : p->flash_attn == 0 ? LLAMA_FLASH_ATTN_TYPE_DISABLED
                                             : LLAMA_FLASH_ATTN_TYPE_ENABLED;
    c.kv_unified = true;
    c.swa_full = false;
    struct llama_context *ctx = llama_init_from_model(sk_model_native(m), c);
    if (!ctx) {
        sk_err_set(e, SKIPPY_E_NOMEM, "cannot make a context of %u tokens", p->n_ctx);
    }
    return ctx;
}

/* Decodes n tokens from position pos on; the last one gets logits. */
static int decode(sk_bare *b, const int32_t *tokens, size_t n, size_t pos, int32_t seq, sk_err *e) {
    struct llama_batch *batch = &b->batch;
    for (size_t i = 0; i < n; i++) {
        batch->token[i] = tokens[i];
        batch->pos[i] = (llama_pos)(pos + i);
        batch->n_seq_id[i] = 1;
        batch->seq_id[i][0] = seq;
        batch->logits[i] = i + 1 == n;
    }
    batch->n_tokens = (int32_t)n;
    const int32_t rc = llama_decode(b->ctx, *batch);
    return rc == 0 ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_RUNTIME, "llama_decode of %zu tokens returned %d", n, (int)rc);
}

static int prefill(sk_bare *b, const int32_t *tokens, size_t chunk, sk_err *e) {
    int rc = SKIPPY_OK;
    for (size_t at = 0; rc == SKIPPY_OK && at < b->n_prefix; at += chunk) {
        const size_t left = b->n_prefix - at;
        rc = decode(b, tokens + at, left < chunk ? left : chunk, at, SEQ_PREFIX, e);
    }
    llama_synchronize(b->ctx);
    return rc;
}

int sk_bare_open(const sk_model *m, const sk_bare_params *p, const int32_t *prefix, size_t n_prefix, size_t n_new,
                 sk_bare **out, sk_err *e) {
    const struct llama_model *native = sk_model_native(m);
    if (n_prefix == 0 || n_new == 0 || n_new > p->n_batch || p->n_batch > INT32_MAX || n_new >= p->n_ctx ||
        n_prefix >= p->n_ctx - n_new) {
        return sk_err_set(e, SKIPPY_E_INVALID, "%zu + %zu tokens do not fit a context of %u and a batch of %u",
                          n_prefix, n_new, p->n_ctx, p->n_batch);
    }
    sk_bare *b = calloc(1, sizeof *b);
    if (!b) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a context");
    }
    b->recurrent = llama_model_is_recurrent(native) || llama_model_is_hybrid(native);
    b->n_prefix = n_prefix;
    b->n_new = n_new;
    b->batch = llama_batch_init((int32_t)p->n_batch, 0, 1);
    b->ctx = open_context(m, p, e);
    const int rc = b->ctx ? prefill(b, prefix, p->n_batch, e) : SKIPPY_E_NOMEM;
    if (rc != SKIPPY_OK) {
        sk_bare_close(b);
        return rc;
    }
    *out = b;
    return SKIPPY_OK;
}

/* Puts the context back to the end of the prefix; returns the sequence to decode in, or -1. */
static int32_t restore(sk_bare *b) {
    llama_memory_t mem = llama_get_memory(b->ctx);
    if (!b->recurrent) {
        return llama_memory_seq_rm(mem, SEQ_PREFIX, (llama_pos)b->n_prefix, -1) ? SEQ_PREFIX : -1;
    }
    if (!llama_memory_seq_rm(mem, SEQ_COPY, -1, -1)) {
        return -1;
    }
    llama_memory_seq_cp(mem, SEQ_PREFIX, SEQ_COPY, -1, -1);
    return llama_memory_seq_pos_max(mem, SEQ_COPY) == (llama_pos)b->n_prefix - 1 ? SEQ_COPY : -1;
}

int sk_bare_next(sk_bare *b, const int32_t *tokens, double *ms, sk_err *e) {
    const int32_t seq = restore(b);
    if (seq < 0) {
        return sk_err_set(e, SKIPPY_E_RUNTIME, "this memory cannot be put back to the end of the prefix");
    }
    const uint64_t start = sk_now_ns();
    const int rc = decode(b, tokens, b->n_new, b->n_prefix, seq, e);
    /* Asking for the logits waits for the backend. */
    if (rc == SKIPPY_OK && !llama_get_logits_ith(b->ctx, -1)) {
        return sk_err_set(e, SKIPPY_E_RUNTIME, "llama_decode left no logits");
    }
    *ms = (double)(sk_now_ns() - start) / 1e6;
    return rc;
}

void sk_bare_close(sk_bare *b) {
    if (!b) {
        return;
    }
    llama_batch_free(b->batch);
    llama_free(b->ctx); /* NULL is fine there */
    free(b);
}
