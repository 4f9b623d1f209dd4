/* Row classes: which batch shapes compute bit-identical rows on this machine, build and model.
 *
 * CPU kernels pick another summation order by the number of rows in a batch (a flash-attention path for one row,
 * another from 64; Q4_K products in groups of four rows; see docs/decisions). Inside one class a row's result does not
 * depend on how the prompt was cut or who shares the batch. The class is measured, not assumed. */
#ifndef SKIPPY_RUNTIME_ROWCLASS_H
#define SKIPPY_RUNTIME_ROWCLASS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "runtime/context.h"

/* Scratch sequences that padding and probe need: one tenant, and `multiple` for the largest class. */
#define SK_ROW_CLASS_SCRATCH 9

typedef struct sk_row_class {
    uint32_t multiple; /* every batch has a multiple of this many rows, and so many output rows */
    uint32_t max_rows; /* and at most this many */
    bool
        aligned; /* one row per sequence takes another path than several (delta-net models): a token must always be
                  * computed the same way, so prompts are cut at absolute multiples and only the rest goes row by row */
} sk_row_class;

/* Rows that must be added to n so that it is a multiple. */
static inline uint32_t sk_row_class_pad(const sk_row_class *rc, uint32_t n) {
    return n % rc->multiple ? rc->multiple - n % rc->multiple : 0;
}

/* Decodes rows as sk_context_decode does, padded to the class by dummy rows of scratch sequences, which are empty again
 * afterwards. `rows` has room for `multiple` more. At least one more row than the class asks may be flagged as output.
 * scratch: first of `multiple` sequence ids. Recurrent memory: either all rows are of one sequence and a multiple, or
 * every sequence has one row; memory without any KV cells: a single row of one sequence in the second case (its pieces
 * are made of neighbouring sequence ids only, so the row is computed in a scratch sequence beside its dummies, and
 * copied back). *n_padded: dummy rows added. Errors as sk_context_decode. */
int sk_row_class_decode(sk_context *c, const sk_row_class *rc, sk_row *rows, uint32_t n, uint32_t scratch,
                        uint32_t *n_padded, uint32_t *bad_seq, sk_err *e);

/* Finds the smallest multiple (2, 4, 8) for which every tried cutting of one prompt, with and without other tenants and
 * followed by padded decodes, gives identical logits on this context. scratch: first of SK_ROW_CLASS_SCRATCH sequence
 * ids that are free for the probe; all of them, and lane, are empty afterwards. SKIPPY_E_UNSUPPORTED when no class
 * holds: e->text says what differed. */
int sk_row_class_probe(sk_context *c, const sk_model *m, uint32_t lane, uint32_t scratch, uint32_t n_scratch,
                       sk_row_class *out, sk_err *e);

#endif
