/* Reads libllama's sequence blobs (v0.4.0) without libllama: pure functions over untrusted bytes.
 *
 * Little endian. header: u32 magic, i32 sequence id; then, by memory kind, KV and RS sections (docs/formats/state.md).
 * A blob does not say what its cells and layers look like, so the parser tries {12-byte position extension no/yes} x
 * {V yes/no} and takes the one combination that consumes every byte. The number of recurrent layers needs no trial:
 * their section is the last one, and all its entries have one form. A known layout is then held against every later
 * blob.
 *
 * Thread-safe: no state. Every count and length is checked before use; time is linear in the blob's length (n log n for
 * cells out of order), memory in the number of layers and cells that the blob really holds. */
#ifndef SKIPPY_RUNTIME_STATE_CODEC_H
#define SKIPPY_RUNTIME_STATE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "skippy/identity.h"

enum {
    SK_STATE_MAX_SECTIONS = 3,
    SK_STATE_MAX_RUNS = 4096,
    SK_STATE_HEADER_BYTES = 8,
    SK_STATE_RUN_HEADER_BYTES = 12, /* before the payload of each run */
    SK_STATE_MIN_SPAN = 4096,       /* shorter spans are not worth a block of their own */
    SK_STATE_CUT_ROWS = 64          /* step of production (docs/benchmarks.md: what it saves) */
};
#define SK_STATE_MAGIC 0xaf143cd8u

enum sk_state_section_kind { SK_SECTION_KV = 1, SK_SECTION_RS = 2 };

/* Rows of one tensor: for KV n_cells rows of row_bytes (or, transposed, n_embd_v x n_cells elements); for RS one row.
 */
typedef struct sk_state_run {
    uint8_t what; /* 'K', 'V', 'R', 'S' */
    bool transposed;
    int32_t type;                     /* ggml type */
    uint64_t row_bytes;               /* of one cell; transposed: element bytes x n_embd_v */
    uint32_t element_bytes, n_embd_v; /* transposed V only */
    size_t offset;                    /* of the payload in the blob */
    size_t bytes;                     /* payload bytes */
} sk_state_run;

typedef struct sk_state_section {
    uint8_t kind;
    bool ext;        /* cells carry the 12-byte extension (M-RoPE) */
    bool transposed; /* the V order as written, also where there is no V */
    uint32_t n_cells, n_layer /* as written */;
    size_t offset, bytes;            /* the whole section */
    size_t cells_offset, cell_bytes; /* metadata of the first cell, bytes of each */
    size_t first_run, n_runs;
} sk_state_section;

typedef struct sk_state_parse {
    int32_t seq_id;
    sk_state_section section[SK_STATE_MAX_SECTIONS];
    size_t n_sections;
    sk_state_run *runs; /* owned: sk_state_parse_free */
    size_t n_runs;
} sk_state_parse;

/* Which sections to expect: from the loaded model.
 *
 *                        whole blob           partial
 *     attention only     KV                   KV (llama.cpp ignores the flag)
 *     window             KV  KV(window)       KV(window)
 *     hybrid             KV  RS               RS
 *     hybrid + window    KV  KV(window)  RS   the same (the flag is ignored)
 *     recurrent          RS                   RS */
typedef struct sk_state_shape {
    bool hybrid, recurrent, window; /* window: a second KV section for sliding-window layers */
    bool partial;                   /* the blob was made with PARTIAL_ONLY */
} sk_state_shape;

/* Parses a whole blob. Errors: SKIPPY_E_CORRUPT with the reason in words (no combination, or more than one, consumes
 * every byte), SKIPPY_E_NOMEM. */
int sk_state_parse_blob(const uint8_t *blob, size_t len, const sk_state_shape *shape, sk_state_parse *out, sk_err *e);
void sk_state_parse_free(sk_state_parse *p);

/* Position of cell i of a section (i < n_cells). */
int32_t sk_state_position(const uint8_t *blob, const sk_state_parse *p, size_t section, uint32_t i);

/* Digest over everything that must be equal for two blobs of one model: section kinds, ext, layers, types, row bytes,
 * transposition. Cell counts do not take part, but a KV section without cells has no layers to show. */
void sk_state_layout_digest(const sk_state_parse *p, skippy_key *out);

/* Canonical form in place: sequence ids zeroed, cells of each KV section sorted by position together with their rows.
 * Errors: SKIPPY_E_CORRUPT (two cells of one position, negative position), SKIPPY_E_NOMEM. */
int sk_state_canonicalise(uint8_t *blob, size_t len, const sk_state_parse *p, sk_err *e);

/* Do the cells of KV section `section` hold exactly the positions from .. to-1, each once, in order? */
bool sk_state_positions_are(const uint8_t *blob, const sk_state_parse *p, size_t section, uint32_t from, uint32_t to);

/* Offsets where blocks are cut: after each frame (metadata up to the first run), after each run, whose 12-byte header
 * travels with it, and inside runs of K and V rows before every position that is a multiple of step (or of a power of
 * two times step, so that a piece has at least twice SK_STATE_MIN_SPAN; 0 = not inside). Parts that share positions
 * then share blocks, also when one is longer, or is a window that moved on. A span shorter than SK_STATE_MIN_SPAN joins
 * the next one, at the end of a run or of the bytes the one before. blob: canonical. Ascending, the last is len.
 * Returns how many there are (may exceed cap, then the first cap are written). */
size_t sk_state_cuts(const uint8_t *blob, size_t len, const sk_state_parse *p, uint32_t step, size_t *cuts, size_t cap);

#endif
