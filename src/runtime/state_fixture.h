/* Shared by the tests of state export and import: tiny models, contexts, stored states. Fails the test on any error. */
#ifndef SKIPPY_RUNTIME_STATE_FIXTURE_H
#define SKIPPY_RUNTIME_STATE_FIXTURE_H

#include "runtime/state_internal.h"
#include "skippy/payload.h"

enum {
    FX_SEQS = 6,
    FX_SCRATCH = FX_SEQS - 1,
    FX_BATCH = 48, /* below 64 rows, where another class of kernels begins (docs/exactness.md) */
    FX_WINDOW = 64,
    FX_SUFFIX = 16,
    FX_MAX_PARTS = 24
};

typedef struct fx_options {
    bool swa_full, fa_off;
    const char *kv_type; /* NULL = f16 */
    uint32_t n_ctx;      /* 0 = 640 */
    bool opaque;         /* whole exports only */
} fx_options;

typedef struct fx {
    sk_model *m;
    sk_context *c;
    sk_state_caps caps;
} fx;

/* False (the reason was printed) when the test models were not built: skip() then. */
bool fx_open(fx *f, const char *family, fx_options o);
/* Another context of the same model. */
void fx_open_beside(fx *f, const fx *other, fx_options o);
void fx_close(fx *f);
void fx_close_context(fx *f); /* of fx_open_beside */

/* Decodes tokens that depend on their position only. */
void fx_feed(fx *f, uint32_t seq, uint32_t n);
/* Decodes FX_SUFFIX tokens in one batch and copies the last row of logits, n_vocab floats; free it. */
float *fx_suffix(fx *f, uint32_t seq);
void fx_assert_same_logits(const fx *f, const float *a, const float *b);

/* A state in parts, as a store would keep it. */
typedef struct fx_state {
    sk_blob blob[FX_MAX_PARTS];
    sk_state_part part[FX_MAX_PARTS];
    size_t n;
    uint32_t n_tokens;
} fx_state;
/* Windows of FX_WINDOW and the tail, if the model has one. */
void fx_export(fx *f, uint32_t seq, fx_state *s);
int fx_import(fx *f, uint32_t dst, const fx_state *s, uint32_t n_tokens, sk_err *e);
void fx_state_free(fx_state *s);

/* Canonical whole exports of two sequences (of one or two contexts) are the same bytes. */
void fx_assert_same_state(fx *a, uint32_t seq_a, fx *b, uint32_t seq_b);
void fx_assert_empty(const fx *f, uint32_t seq);
/* The cells of a sequence lie in the order that the mirror says. */
void fx_assert_mirror(fx *f, uint32_t seq);

#endif
