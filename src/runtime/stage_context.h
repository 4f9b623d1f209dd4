/* Computing with a stage: hidden states in, hidden states or logits out. Works on an sk_context whose model is a stage
 * file (sk_model_get_info(m)->stage.is_stage).
 *
 * A stage that is not the first takes n_embd values for each row instead of a token; one that is not the last gives
 * n_embd values for each row, captured at the output of its last layer (cb_eval on "l_out-{n-1}", which then stops the
 * graph: norm and head are not computed). Values are f32, one row after another, in the order of the rows.
 *
 * Rows of one call belong to one sequence for recurrent and hybrid stages (llama.cpp reorders rows of several);
 * attention-only stages may mix sequences. Measured bit-identical with the whole model where sk_slice_check agrees.
 *
 * A first stage keeps the vocabulary, and llama.cpp copies a row of logits for every row that it computes, though
 * nobody wants them and they are not even computed here: there is no switch for it. Measured on CPU: about 6 us a row
 * with 32,000 tokens, 30 us with 128,000 (64 rows: 0.4 and 1.9 ms), and 4 x n_vocab bytes of memory for each row of
 * n_batch (512 rows of 128,000 tokens: 250 MiB, and as much again for the graph). Give first stages batches of some 64
 * to 256 rows.
 *
 * sk_context_decode on a stage that is not the first feeds hidden states made from the row's token and position by a
 * fixed formula (sk_stage_synthetic): for self-checks, cost probes and certification without an upstream stage, never
 * for serving. */
#ifndef SKIPPY_RUNTIME_STAGE_CONTEXT_H
#define SKIPPY_RUNTIME_STAGE_CONTEXT_H

#include "base/err.h"
#include "runtime/context.h"

/* Decodes rows. in: n x n_embd (NULL on the first stage). out: receives n x n_embd (NULL on the last stage: use
 * sk_context_logits for rows with output set). Otherwise as sk_context_decode: same checks, same errors, same rules
 * about what is left after a failure. SKIPPY_E_INVALID also when rows of several sequences go to a recurrent stage. */
int sk_context_decode_stage(sk_context *c, const sk_row *rows, size_t n, const float *in, float *out, uint32_t *bad_seq,
                            sk_err *e);

/* Hidden states that depend on token, position and width only: values in about [-1, 1], the same on every machine. */
void sk_stage_synthetic(int32_t token, uint32_t position, float *row, uint32_t width);

/* f32 <-> f16 for frames of half the size, round to nearest even as ggml does. */
void sk_stage_to_f16(const float *in, uint16_t *out, size_t n);
void sk_stage_from_f16(const uint16_t *in, float *out, size_t n);

#endif
