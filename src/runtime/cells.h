/* Mirror of llama.cpp's unified KV cell pool (non-window part): which cell holds which position of which sequence.
 *
 * libllama tells neither how many cells are used nor where a sequence lies. The engine needs both: the first to evict
 * in time, the second for bit-exact mode, where the order of a sequence's cells is part of the numerics (sums over
 * cells run in cell order). The mirror follows the pool's placement rule of llama.cpp v0.4.0 (src/llama-kv-cache.cpp,
 * find_slot, apply_ubatch, seq_rm, seq_cp); a test compares it with the cell order of real exports.
 *
 * Not thread-safe. Sequences start at position 0 and have no gaps. */
#ifndef SKIPPY_RUNTIME_CELLS_H
#define SKIPPY_RUNTIME_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sk_cells_seq {
    uint32_t *cell; /* cell[p] holds position p */
    uint32_t len, cap;
} sk_cells_seq;

typedef struct sk_cells {
    uint32_t size, used, head;
    uint32_t span;  /* highest cell in use + 1: a decode walks past all cells below */
    uint16_t *refs; /* how many sequences own the cell */
    sk_cells_seq *seq;
    uint32_t n_seq;
} sk_cells;

/* size: cells of the pool; n_seq: sequence ids. SKIPPY_E_NOMEM. */
int sk_cells_init(sk_cells *c, uint32_t size, uint32_t n_seq);
void sk_cells_free(sk_cells *c);
/* Forgets everything (llama_memory_clear). */
void sk_cells_clear(sk_cells *c);
/* Removes positions [p0, end) of a sequence. */
void sk_cells_rm(sk_cells *c, uint32_t seq, uint32_t p0);
/* Makes dst share [0, p1) of src; dst must be empty. SKIPPY_E_NOMEM leaves dst empty. */
int sk_cells_cp(sk_cells *c, uint32_t src, uint32_t dst, uint32_t p1);
/* Places one ubatch: row i extends sequence seq[i] by one position. SKIPPY_E_FULL when there are not n free cells
 * (nothing changes), SKIPPY_E_NOMEM. */
int sk_cells_place(sk_cells *c, const uint32_t *seq, uint32_t n);
/* The same for n rows of one sequence: what importing n cells does. Same errors. */
int sk_cells_extend(sk_cells *c, uint32_t seq, uint32_t n);
/* Room for n more rows? */
static inline uint32_t sk_cells_free_count(const sk_cells *c) {
    return c->size - c->used;
}
static inline uint32_t sk_cells_len(const sk_cells *c, uint32_t seq) {
    return c->seq[seq].len;
}
/* Cells that only this sequence owns: what dropping it would free. O(length). */
uint32_t sk_cells_exclusive(const sk_cells *c, uint32_t seq);
/* Distinct cells that any of these sequences owns. Out of memory: the size of the pool (never too few). */
uint32_t sk_cells_union(const sk_cells *c, const uint32_t *seqs, uint32_t n);
/* True when the cells of a sequence ascend with its positions. O(length). */
bool sk_cells_sorted(const sk_cells *c, uint32_t seq);
/* Would the n rows of one ubatch all land above the last cell of their own sequence, in ascending order? Nothing
 * changes. */
bool sk_cells_place_sorted(const sk_cells *c, const uint32_t *seq, uint32_t n);
/* Would removing a sequence (its cells in order) and importing it again give ascending cells, with room above for
 * `extra` rows placed next? Nothing changes. SKIPPY_OK, SKIPPY_E_FULL (no), SKIPPY_E_NOMEM. */
int sk_cells_try_relocate(const sk_cells *c, uint32_t seq, uint32_t extra);
/* Performs the same removal and import on the mirror. */
int sk_cells_relocate(sk_cells *c, uint32_t seq);

#endif
