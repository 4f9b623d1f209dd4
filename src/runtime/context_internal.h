/* What the files that implement a context share. Nobody outside runtime/ includes this. */
#ifndef SKIPPY_RUNTIME_CONTEXT_INTERNAL_H
#define SKIPPY_RUNTIME_CONTEXT_INTERNAL_H

#include <llama.h>

#include "runtime/cells.h"
#include "runtime/context.h"

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

#endif
