/* What the files that implement a context share. Nobody outside runtime/ includes this. */
#ifndef SKIPPY_RUNTIME_CONTEXT_INTERNAL_H
#define SKIPPY_RUNTIME_CONTEXT_INTERNAL_H

#include <llama.h>

#include "runtime/cells.h"
#include "runtime/context.h"

/* What a stage's context has beside the others' (stage_context.c). All zero for a whole model. */
typedef struct sk_stage_io {
    bool takes, gives; /* hidden states in, out */
    uint32_t width;    /* values of one */
    char node[32];     /* graph node whose values are given */
    float *out;        /* where the rows of the running call go; NULL = nobody wants them */
    size_t rows, cap;  /* rows that arrived, rows that have room */
    bool failed;       /* a row was not what it must be */
    uint32_t per_row;  /* positions that llama.cpp wants with each hidden state: 4 with M-RoPE, else 1 */
    llama_pos *pos;    /* n_batch x per_row; NULL unless takes */
    float *scratch;    /* n_batch x width, for sk_context_decode; NULL unless takes */
} sk_stage_io;

struct sk_context {
    struct llama_context *lc;
    llama_memory_t mem;
    const sk_model *model;
    sk_context_info info;
    sk_cells cells;
    struct llama_batch batch;
    struct llama_adapter_lora **lora;
    size_t n_lora;
    uint32_t *ubatch_seq; /* scratch for the mirror: n_batch rows */
    uint32_t guard;       /* id of a sequence's guard = its id + guard; 0 = no guards */
    sk_stage_io stage;
};

/* Guards. The full-size window cache still hands out a cell whose position has left the window of the only sequence
 * that owns it (find_slot), which would eat the beginning of stored prefixes and put later cells out of order. A cell
 * with two owners is never taken, so every sequence has a twin that owns the same cells and is never decoded.
 * This makes the twin own the positions >= from of a sequence. */
void sk_context_guard_range(sk_context *c, uint32_t seq, llama_pos from);

/* Removes positions >= from of a sequence and of its guard, in llama.cpp only: the mirror is the caller's business. */
bool sk_context_native_rm(sk_context *c, uint32_t seq, llama_pos from);

/* Can decoding go on at position n of this sequence? The rule covers every memory kind (positions are all that
 * llama.cpp shows): the last position is n-1; a recurrent state is at n-1 exactly; a window still holds what position n
 * attends to. SKIPPY_E_CORRUPT when not. */
int sk_context_check_positions(const sk_context *c, uint32_t seq, uint32_t n, sk_err *e);

/* Before the native context exists: what it must know about a stage. The context's address must not change any more. */
void sk_stage_io_params(sk_context *c, struct llama_context_params *cp);
/* Afterwards. Errors: SKIPPY_E_NOMEM. */
int sk_stage_io_init(sk_context *c, sk_err *e);
void sk_stage_io_free(sk_context *c);
/* Makes the filled batch one of hidden states: in is n x width. */
struct llama_batch sk_stage_io_batch(sk_context *c, const float *in);

/* sk_context_decode of any context. in: hidden states where the stage takes them, else NULL. out: NULL, or where to put
 * the hidden states of every row. */
int sk_context_decode_rows(sk_context *c, const sk_row *rows, size_t n, const float *in, float *out, uint32_t *bad_seq,
                           sk_err *e);

#endif
