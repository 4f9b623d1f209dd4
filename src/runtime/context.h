/* A runtime context: KV and recurrent memory of all sequences, and decoding. Wraps llama_context.
 *
 * CAVEATS, read first:
 *  - Not thread-safe: one owner thread.
 *  - llama_decode returning 0 does not mean right: sk_context_decode checks the positions of every sequence in the
 * batch first (hybrid state of another length, window cells that are gone) and refuses with SKIPPY_E_CORRUPT.
 *  - Sequence ids at or above n_seq_max look fine to llama.cpp and are not: they are refused here. */
#ifndef SKIPPY_RUNTIME_CONTEXT_H
#define SKIPPY_RUNTIME_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "runtime/model.h"

typedef struct sk_context sk_context;

typedef struct sk_context_params {
    uint32_t n_ctx; /* cells, shared by all sequences (unified KV) */
    uint32_t n_batch, n_ubatch;
    uint32_t n_seq_max;
    uint32_t n_outputs; /* most rows of one batch that want logits; the context reserves at least n_seq_max */
    int32_t n_threads, n_threads_batch;
    int flash_attn;              /* -1 auto, 0, 1 */
    const char *type_k, *type_v; /* ggml type names, NULL or "" = f16 */
    bool swa_full;
    float rope_freq_base, rope_freq_scale; /* 0 = model's */
    const sk_lora_spec *lora;
    size_t n_lora;
} sk_context_params;

typedef struct sk_context_info {
    uint32_t n_ctx, n_batch, n_ubatch, n_seq_max;
    int flash_attn; /* resolved */
    char type_k[16], type_v[16];
    bool has_kv;    /* false for pure recurrent models: no cells at all */
    bool recurrent; /* hybrid or recurrent */
    int32_t n_swa;  /* 0 when the window cache keeps every cell */
} sk_context_info;

/* Errors in words: SKIPPY_E_INVALID (unknown KV type, context larger than the model's), SKIPPY_E_NOMEM,
 * SKIPPY_E_RUNTIME. */
int sk_context_create(const sk_model *m, const sk_context_params *p, sk_context **out, sk_err *e);
void sk_context_free(sk_context *c);
const sk_context_info *sk_context_get_info(const sk_context *c);
/* Name of a KV type that llama.cpp accepts; false when unknown. */
bool sk_context_known_type(const char *name);

/* What computes: llama.cpp's version and the instruction sets of its build, and our state conventions' version. */
void sk_runtime_abi(char *buf, size_t cap);
/* Names of the backend devices that llama.cpp may use, joined by "+". */
void sk_runtime_devices(char *buf, size_t cap);

/* What this model's memory costs, in bytes: */
typedef struct sk_memory_cost {
    uint64_t state; /* recurrent (hybrid, recurrent) or window (sliding window) state that one more sequence holds; 0
                       for dense */
    uint64_t cell;  /* K and V of one cell, all layers; 0 for pure recurrent models */
} sk_memory_cost;

/* Measures the costs by decoding two tokens in a small context of its own (so the weights are read once, as a warm-up).
 */
int sk_context_probe_cost(const sk_model *m, const sk_context_params *p, sk_memory_cost *out, sk_err *e);

/* ---- sequences ---- */

/* Tokens held: pos_max + 1, 0 when empty. */
uint32_t sk_context_seq_len(const sk_context *c, uint32_t seq);
/* Drops a whole sequence. Always works. */
void sk_context_seq_clear(sk_context *c, uint32_t seq);
/* Drops positions >= n. Only for attention state that can be cut back; SKIPPY_E_UNSUPPORTED (nothing changed) when the
 * rule of this memory forbids it. */
int sk_context_seq_trim(sk_context *c, uint32_t seq, uint32_t n, sk_err *e);
/* dst (cleared first) shares [0, n) of src. For recurrent and hybrid memory n must be the whole length of src.
 * A restore is a transaction: on any error dst is empty. Errors: SKIPPY_E_INVALID, SKIPPY_E_CORRUPT (the copy does not
 * have the positions it must have), SKIPPY_E_NOMEM. */
int sk_context_seq_copy(sk_context *c, uint32_t src, uint32_t dst, uint32_t n, sk_err *e);
/* Like sk_context_seq_copy of the whole sequence, but dst owns its sliding-window cells, so that the window pool can
 * move on in src. Same as a plain copy for models without a window. */
int sk_context_seq_snapshot(sk_context *c, uint32_t src, uint32_t dst, sk_err *e);
/* Exports a sequence, whose cells are in order, and imports it again elsewhere, still in order and with room above for
 * extra rows (bit-exact mode). SKIPPY_E_FULL: would not help now; SKIPPY_E_UNSUPPORTED: window state, or cells not in
 * order. Nothing changes then. */
int sk_context_seq_relocate(sk_context *c, uint32_t seq, uint32_t extra_rows, sk_err *e);
/* Canonical state bytes for comparing two sequences in tests: malloc'ed blob with sequence ids zeroed. */
int sk_context_seq_export(sk_context *c, uint32_t seq, uint8_t **blob, size_t *len, sk_err *e);
/* Forgets every sequence. */
void sk_context_clear(sk_context *c);

/* ---- cells ---- */

uint32_t sk_context_cells_free(const sk_context *c);
uint32_t sk_context_cells_used(const sk_context *c);
/* Highest cell in use + 1: what every decode walks past. */
uint32_t sk_context_cells_span(const sk_context *c);
/* Cells that dropping the sequence would free. */
uint32_t sk_context_cells_exclusive(const sk_context *c, uint32_t seq);
/* Distinct cells that any of these sequences owns. */
uint32_t sk_context_cells_union(const sk_context *c, const uint32_t *seqs, uint32_t n);
/* Cell that holds a position of a sequence (position below its length). For tests of the mirror. */
uint32_t sk_context_cell(const sk_context *c, uint32_t seq, uint32_t position);
bool sk_context_seq_sorted(const sk_context *c, uint32_t seq);

/* ---- decoding ---- */

typedef struct sk_row {
    int32_t token;
    uint32_t seq;
    bool output; /* wants logits */
} sk_row;

/* Decodes rows in order; each extends its sequence by one position. Rows of one sequence must be adjacent.
 * SKIPPY_OK; SKIPPY_E_FULL: no cells for it, memory unchanged: evict or split, then retry; SKIPPY_E_CORRUPT: a sequence
 * of the batch is not in the state it must have, nothing was decoded, *bad_seq says which; SKIPPY_E_RUNTIME: the
 * sequences of the batch have been cleared, since a failed decode leaves them half advanced; SKIPPY_E_INVALID. */
int sk_context_decode(sk_context *c, const sk_row *rows, size_t n, uint32_t *bad_seq, sk_err *e);
/* Would every row land above the cells that its sequence has already (bit-exact mode)? */
bool sk_context_rows_sorted(sk_context *c, const sk_row *rows, size_t n, uint32_t *bad_seq);
/* Logits of row i of the last decode (it had output set): n_vocab floats, valid until the next decode. NULL on error.
 */
const float *sk_context_logits(sk_context *c, size_t row);

#endif
