/* Exact state in and out of a context, in canonical bytes: the same state gives the same bytes, wherever its cells lie
 * and whatever its sequence id was. Layout of llama.cpp's sequence blobs: docs/formats/state.md.
 *
 * CAVEATS, read first:
 *  - Not thread-safe: the context's owner thread.
 *  - Never import bytes whose digest was not verified. Structure is checked here before llama.cpp sees a byte (it hangs
 *    on a corrupt cell count and never checks positions), values cannot be.
 *  - An import is a transaction: on any error dst is empty.
 *  - Import places cells; where they land can change the last bits of what is computed next (docs/exactness.md). */
#ifndef SKIPPY_RUNTIME_STATE_H
#define SKIPPY_RUNTIME_STATE_H

#include "base/err.h"
#include "runtime/context.h"
#include "runtime/state_codec.h"
#include "skippy/identity.h"

/* What this context can do, found by the self-check. */
typedef struct sk_state_caps {
    bool windows;      /* false: only whole opaque exports (skippy_payload.h: SKIPPY_PART_OPAQUE) */
    bool has_kv;       /* there are KV parts (false: pure recurrent model) */
    bool has_tail;     /* a boundary needs a STATE part: recurrent state, or sliding-window cells */
    skippy_key layout; /* digest of the layout: kinds, layers, types, row bytes. Differs = not importable */
    skippy_key kv_part, state_part; /* layout digests of one KV and of one STATE part (windows true) */
    uint64_t cell_bytes; /* canonical bytes per token of the KV parts, metadata included (approximate for planning) */
    uint64_t tail_bytes; /* bytes of one STATE part (0 without) */
    char why[256];       /* windows false: the reason in words; else "" */
} sk_state_caps;

/* Learns the layout on the live context and proves it: decodes about 40 tokens into seq_a, exports, splits into
 * windows, joins, compares, imports into seq_b, exports again, compares; then clears both. The context must be idle;
 * seq_a, seq_b and scratch are empty sequences. A codec that does not fit is not an error: caps->windows is false and
 * says why, and the opaque round trip has been checked instead. Errors: SKIPPY_E_UNSUPPORTED (not even the opaque round
 * trip is exact: state must not be moved), SKIPPY_E_RUNTIME, SKIPPY_E_NOMEM. */
int sk_state_selfcheck(sk_context *c, uint32_t seq_a, uint32_t seq_b, uint32_t scratch, sk_state_caps *caps, sk_err *e);

/* Bytes with the offsets where blocks should be cut (ascending, the last equals len). Owned: free with sk_blob_free. */
typedef struct sk_blob {
    uint8_t *data;
    size_t len;
    size_t *cuts;
    size_t n_cuts;
} sk_blob;
void sk_blob_free(sk_blob *b); /* b->data may be NULL */

/* KV of positions [from, to) of a sequence, through the scratch sequence (empty before and after).
 * Errors: SKIPPY_E_INVALID (range, no KV), SKIPPY_E_UNSUPPORTED (caps->windows false), SKIPPY_E_NOMEM, SKIPPY_E_RUNTIME
 * (the export does not have the learned structure). */
int sk_state_export_kv(sk_context *c, const sk_state_caps *caps, uint32_t seq, uint32_t scratch, uint32_t from,
                       uint32_t to, sk_blob *out, sk_err *e);
/* Recurrent state or window cells at the end of a sequence. */
int sk_state_export_tail(sk_context *c, const sk_state_caps *caps, uint32_t seq, sk_blob *out, sk_err *e);
/* Everything, canonical when the layout is known, cut every MiB. SKIPPY_E_UNSUPPORTED: not now, or not ever, for this
 * sequence (unknown layout and cells out of order, or more tokens than a full-size window; no free sequence id). */
int sk_state_export_whole(sk_context *c, const sk_state_caps *caps, uint32_t seq, sk_blob *out, sk_err *e);

/* One part of a payload, as read back. */
typedef struct sk_state_part {
    int kind; /* enum skippy_part_kind: KV, STATE or OPAQUE */
    uint32_t from, to;
    const uint8_t *data;
    size_t len;
} sk_state_part;

/* Fills the empty sequence dst with the first n_tokens positions from parts: KV parts ascending without gaps from 0 and
 * the last one reaching at least n_tokens (what lies beyond is cut off: attention-only state), then STATE with to ==
 * n_tokens when the context needs one; or one OPAQUE part with to == n_tokens. Every part is checked against the
 * learned layout before the first import, and positions afterwards. scratch is empty before and after. Errors (dst is
 * empty): SKIPPY_E_CORRUPT (structure, missing or surplus parts), SKIPPY_E_FULL (no cells: evict, try again),
 * SKIPPY_E_NOMEM, SKIPPY_E_RUNTIME. SKIPPY_E_INVALID (dst or scratch is not an empty sequence): nothing was touched. */
int sk_state_import(sk_context *c, const sk_state_caps *caps, uint32_t dst, uint32_t scratch,
                    const sk_state_part *parts, size_t n_parts, uint32_t n_tokens, sk_err *e);

/* The same without the rules of production, for certification: accepts a KV-only payload on a hybrid context and puts a
 * recurrent state of zeros at its end, so that it can be decoded (which is then wrong, and certification shows it). On
 * a sliding-window context nothing can be continued without the window: SKIPPY_E_CORRUPT, as without force. */
int sk_state_import_forced(sk_context *c, const sk_state_caps *caps, uint32_t dst, uint32_t scratch,
                           const sk_state_part *parts, size_t n_parts, uint32_t n_tokens, sk_err *e);

#endif
