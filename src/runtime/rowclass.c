#include "runtime/rowclass.h"

/* Flags more rows as outputs, dummies first, until their number is a multiple too: the last layer and the head work on
 * these. */
static void pad_outputs(const sk_row_class *rc, sk_row *rows, uint32_t n) {
    uint32_t outputs = 0;
    for (uint32_t i = 0; i < n; i++) outputs += rows[i].output;
    if (outputs == 0) return;
    uint32_t more = sk_row_class_pad(rc, outputs);
    for (uint32_t i = n; i-- > 0 && more > 0;) {
        if (rows[i].output) continue;
        rows[i].output = true;
        more--;
    }
}

/* The single row moves to the scratch sequence whose neighbours are the dummies. */
static int borrow_sequence(sk_context *c, sk_row *row, uint32_t scratch, sk_err *e) {
    uint32_t n = sk_context_seq_len(c, row->seq);
    int rc = n ? sk_context_seq_copy(c, row->seq, scratch, n, e) : SKIPPY_OK;
    if (rc == SKIPPY_OK) row->seq = scratch;
    return rc;
}

static int return_sequence(sk_context *c, sk_row *row, uint32_t owner, sk_err *e) {
    uint32_t scratch = row->seq;
    row->seq = owner;
    return sk_context_seq_copy(c, scratch, owner, sk_context_seq_len(c, scratch), e);
}

int sk_row_class_decode(sk_context *c, const sk_row_class *rc, sk_row *rows, uint32_t n, uint32_t scratch,
                        uint32_t *n_padded, uint32_t *bad_seq, sk_err *e) {
    const sk_context_info *info = sk_context_get_info(c);
    uint32_t pad = sk_row_class_pad(rc, n), owner = rows[0].seq;
    bool moves = pad > 0 && !info->has_kv;
    int result = moves ? borrow_sequence(c, &rows[0], scratch, e) : SKIPPY_OK;
    if (result) return result;
    /* equal pieces of recurrent memory need one sequence per dummy */
    for (uint32_t i = 0; i < pad; i++) rows[n + i] = (sk_row){.seq = scratch + 1 + (info->recurrent ? i : 0)};
    pad_outputs(rc, rows, n + pad);
    result = sk_context_decode(c, rows, n + pad, bad_seq, e);
    if (moves && result == SKIPPY_OK) result = return_sequence(c, &rows[0], owner, e);
    if (moves) rows[0].seq = owner;
    for (uint32_t i = 0; i < rc->multiple && pad; i++) sk_context_seq_clear(c, scratch + i);
    *n_padded = pad;
    return result;
}
