/* A test rig around one runtime context: sequences with fixed roles, and decoding in a way whose last bits do not
 * depend on where cells lie, as far as this machine and model allow it.
 *
 * Not thread-safe. */
#ifndef SKIPPY_CORRECTNESS_RIG_H
#define SKIPPY_CORRECTNESS_RIG_H

#include "base/err.h"
#include "correctness/stage_feed.h"
#include "runtime/context.h"
#include "runtime/rowclass.h"
#include "runtime/state.h"

/* Roles of sequence ids. Scratch rows pad batches; the probe takes everything from CACHE on, while it is empty. */
enum { SK_RIG_LANE = 0, SK_RIG_OTHER = 1, SK_RIG_CACHE = 2, SK_RIG_SCRATCH = 3, SK_RIG_SEQS = 11 };

/* How the context is made. Strings are borrowed while the rig is opened. */
typedef struct sk_rig_params {
    uint32_t n_ctx;
    int32_t n_threads;
    int flash_attn;              /* -1 auto, 0, 1 */
    const char *type_k, *type_v; /* NULL = f16 */
    bool swa_full;
    const sk_stage_script *script; /* what a stage is fed; NULL: a whole model */
} sk_rig_params;

typedef struct sk_rig {
    const sk_model *model;
    sk_context *ctx;
    sk_row_class rows; /* multiple 0: none holds here, and why_not_bit says so */
    char why_not_bit[256];
    sk_state_caps caps;
    bool movable; /* state can leave the context; else why_not_movable */
    char why_not_movable[256];
    size_t n_vocab;     /* values of a row of output: logits, or a stage's hidden state */
    sk_row *batch;      /* room for one batch and its padding */
    sk_stage_feed feed; /* of a stage; all zero for a whole model */
} sk_rig;

/* Opens a context, learns its state layout, and finds the row class, unless `known` (may be NULL) gives it: multiple 0
 * there means that none holds. Errors: those of sk_context_create; SKIPPY_E_NOMEM, SKIPPY_E_RUNTIME. */
int sk_rig_open(const sk_model *m, const sk_rig_params *p, const sk_row_class *known, sk_rig *out, sk_err *e);
/* r may be all zero. */
void sk_rig_close(sk_rig *r);

/* Are rows computed in a row class, so that equal state gives equal bits? */
static inline bool sk_rig_bit(const sk_rig *r) {
    return r->rows.multiple > 0;
}

/* Extends a sequence by n tokens; a stage that takes hidden states is fed its script's, whatever the tokens are.
 * wanted: n_wanted ascending indices into tokens whose logits are copied to out, row after row (n_vocab floats each).
 * Errors: those of sk_context_decode. */
int sk_rig_feed(sk_rig *r, uint32_t seq, const int32_t *tokens, uint32_t n, const uint32_t *wanted, size_t n_wanted,
                float *out, sk_err *e);

/* The same as a server without row classes computes it: pieces of `chunk` rows, no padding; out is the last row. */
int sk_rig_feed_plain(sk_rig *r, uint32_t seq, const int32_t *tokens, uint32_t n, uint32_t chunk, float *out,
                      sk_err *e);

/* Greedy decoding: out[0] is the best token of `row`, which is then decoded, and so on, n tokens in all. lead[i] is by
 * how much out[i] led; last receives the row after the last token. A stage goes on with its script instead, since
 * nobody makes a hidden state out of a token here; out[i] is the place of the largest value of each row all the same.
 */
int sk_rig_greedy(sk_rig *r, uint32_t seq, const float *row, size_t n, int32_t *out, float *lead, float *last,
                  sk_err *e);

/* BLAKE3 and length of the canonical export of a whole sequence. */
int sk_rig_state_digest(sk_rig *r, uint32_t seq, skippy_key *digest, uint64_t *bytes, sk_err *e);

#endif
