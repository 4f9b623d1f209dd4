/* Row classes: which batch shapes compute bit-identical rows on this machine, build and model.
 *
 * CPU kernels pick another summation order by the number of rows in a batch (a flash-attention path for one row,
 * another from 64; Q4_K products in groups of four rows; see docs/decisions). Inside one class a row's result does not
 * depend on how the prompt was cut or who shares the batch. The class is measured, not assumed; since nothing but the
 * inputs of sk_row_class_key can change it, a measurement may be remembered. */
#ifndef SKIPPY_RUNTIME_ROWCLASS_H
#define SKIPPY_RUNTIME_ROWCLASS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
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

/* Finds the smallest multiple (2, 4, 8) for which one prompt gives identical logits in every tried cutting: in one
 * piece, in pieces of the multiple, of other sizes and odd ones, token by token, behind and beside another tenant's
 * rows, and in padded decodes after it. scratch: first of SK_ROW_CLASS_SCRATCH sequence ids that are free for the
 * probe; all of them, and lane, are empty afterwards. Computes about 40 rows for a multiple that fails and 220 for the
 * one that holds. SKIPPY_E_UNSUPPORTED when no class holds: e->text says what differed. */
int sk_row_class_probe(sk_context *c, const sk_model *m, uint32_t lane, uint32_t scratch, uint32_t n_scratch,
                       sk_row_class *out, sk_err *e);

/* ---- remembered classes ---- */

/* Digest over everything that decides the class: identity (the namespace key, without batch schedule and tenant:
 * weights by content, runtime, devices, KV types, flash attention, adapters ...), the context's own sizes and window
 * cache, the threads, the processor as the system names it with its instruction sets, and the version of the probe. */
void sk_row_class_key(const uint8_t identity[SK_HASH_BYTES], const sk_context *c, int32_t n_threads,
                      int32_t n_threads_batch, uint8_t key[SK_HASH_BYTES]);

/* The class that was measured under this key before, or else that of a new probe, which is then remembered:
 *
 *   <dir>/<first 32 hex digits of key>.rows, little endian
 *   offset  size  field
 *        0     8  magic "skippyR1"
 *        8    32  key
 *       40     4  multiple: 2, 4 or 8
 *       44     4  max_rows
 *       48     4  aligned: 0 or 1
 *       52    32  BLAKE3-256 of bytes 0..51
 *
 * A record that is damaged, foreign, writable by others or impossible for this context is ignored and rewritten. dir
 * NULL or empty: always measured. *remembered (may be NULL) says which it was. A record that cannot be written is not
 * an error. Otherwise as sk_row_class_probe; a model without a class is probed at each start. */
int sk_row_class_get(sk_context *c, const sk_model *m, const char *dir, const uint8_t key[SK_HASH_BYTES], uint32_t lane,
                     uint32_t scratch, uint32_t n_scratch, sk_row_class *out, bool *remembered, sk_err *e);

enum { SK_ROW_CLASS_RECORD_BYTES = 84 };

#endif
