/* State out of a context: KV windows through the scratch sequence, the tail, and whole exports. */
#include <stdlib.h>
#include <string.h>

#include "runtime/state_bytes.h"
#include "runtime/state_internal.h"
#include "runtime/state_join.h"

#define WHOLE_CUT ((size_t)1 << 20)

void sk_blob_free(sk_blob *b) {
    free(b->data);
    free(b->cuts);
    *b = (sk_blob){0};
}

bool sk_state_full_window(const sk_context *c) {
    return sk_model_get_info(c->model)->n_swa > 0 && c->info.n_swa == 0;
}

sk_state_shape sk_state_shape_of(const sk_context *c, bool partial) {
    return (sk_state_shape){.hybrid = c->info.recurrent && c->info.has_kv,
                            .recurrent = !c->info.has_kv,
                            .window = sk_model_get_info(c->model)->n_swa > 0,
                            .partial = partial};
}

/* ---- llama.cpp's exports ---- */

int sk_state_export_raw(sk_context *c, uint32_t seq, bool partial, uint8_t **data, size_t *len, sk_err *e) {
    llama_state_seq_flags flags = partial ? LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY : 0;
    size_t size = llama_state_seq_get_size_ext(c->lc, (llama_seq_id)seq, flags);
    if (size < SK_STATE_HEADER_BYTES)
        return sk_err_set(e, SKIPPY_E_RUNTIME, "llama.cpp cannot export sequence %u", seq);
    uint8_t *b = malloc(size);
    if (!b) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu bytes of state", size);
    if (llama_state_seq_get_data_ext(c->lc, b, size, (llama_seq_id)seq, flags) != size) {
        free(b);
        return sk_err_set(e, SKIPPY_E_RUNTIME, "llama.cpp failed to export sequence %u", seq);
    }
    *data = b;
    *len = size;
    return SKIPPY_OK;
}

/* A copied range shares the recurrent state of the whole sequence, which does not belong to the range and can be a
 * thousand times as large. The export of an empty sequence has no recurrent state but all its tensor headers; its
 * import takes the state away from the scratch sequence and leaves the attention cells alone. */
static int drop_recurrent(sk_context *c, uint32_t scratch, const uint8_t *empty, size_t len, sk_err *e) {
    if (llama_state_seq_set_data_ext(c->lc, empty, len, (llama_seq_id)scratch, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY) !=
        len)
        return sk_err_set(e, SKIPPY_E_RUNTIME, "the recurrent part of sequence %u could not be left out", scratch);
    return SKIPPY_OK;
}

static int export_range(sk_context *c, uint32_t seq, uint32_t scratch, uint32_t from, uint32_t to, uint8_t **data,
                        size_t *len, sk_err *e) {
    uint8_t *empty = NULL;
    size_t empty_len = 0;
    int rc = SKIPPY_OK;
    if (c->info.recurrent) rc = sk_state_export_raw(c, scratch, true, &empty, &empty_len, e);
    if (rc) return rc;
    llama_memory_seq_cp(c->mem, (llama_seq_id)seq, (llama_seq_id)scratch, (llama_pos)from, (llama_pos)to);
    if (c->info.recurrent) rc = drop_recurrent(c, scratch, empty, empty_len, e);
    if (rc == SKIPPY_OK) rc = sk_state_export_raw(c, scratch, false, data, len, e);
    sk_context_native_rm(c, scratch, -1); /* every cell has its owner still, so the mirror does not change */
    free(empty);
    return rc;
}

/* ---- canonical parts ---- */

/* Window cells travel in the STATE part: what a range shows of them is only what is alive at this moment. */
static void strip_window(uint8_t **data, size_t *len, const sk_state_parse *p) {
    size_t at = p->section[1].offset;
    sk_put_le32(*data + at, 1);
    sk_put_le32(*data + at + 4, 0);
    *len = at + 8;
    uint8_t *smaller = realloc(*data, *len);
    if (smaller) *data = smaller;
}

int sk_state_cut_window(sk_context *c, uint32_t seq, uint32_t scratch, uint32_t from, uint32_t to, uint8_t **data,
                        size_t *len, sk_state_parse *p, sk_err *e) {
    sk_state_shape shape = sk_state_shape_of(c, false);
    *p = (sk_state_parse){0};
    uint8_t *b = NULL;
    size_t n = 0;
    int rc = export_range(c, seq, scratch, from, to, &b, &n, e);
    if (rc) return rc;
    rc = sk_state_parse_blob(b, n, &shape, p, e);
    if (rc == SKIPPY_OK) rc = sk_state_canonicalise(b, n, p, e);
    if (rc == SKIPPY_OK && shape.window && !sk_state_full_window(c)) {
        strip_window(&b, &n, p);
        sk_state_parse_free(p);
        rc = sk_state_parse_blob(b, n, &shape, p, e);
    }
    if (rc) {
        sk_state_parse_free(p);
        free(b);
        return rc;
    }
    *data = b;
    *len = n;
    return SKIPPY_OK;
}

int sk_state_cut_tail(sk_context *c, uint32_t seq, uint8_t **data, size_t *len, sk_state_parse *p, sk_err *e) {
    sk_state_shape shape = sk_state_shape_of(c, true);
    *p = (sk_state_parse){0};
    uint8_t *b = NULL;
    int rc = sk_state_export_raw(c, seq, true, &b, len, e);
    if (rc) return rc;
    rc = sk_state_parse_blob(b, *len, &shape, p, e);
    if (rc == SKIPPY_OK) rc = sk_state_canonicalise(b, *len, p, e);
    if (rc) {
        sk_state_parse_free(p);
        free(b);
        return rc;
    }
    *data = b;
    return SKIPPY_OK;
}

/* An export leaves out cells that the end of its own range has moved away from, also of a full-size window cache; so
 * there a range goes out in pieces of one window each. */
static int cut_in_pieces(sk_context *c, uint32_t seq, uint32_t scratch, uint32_t from, uint32_t to, uint8_t **data,
                         size_t *len, sk_err *e) {
    uint32_t window = (uint32_t)sk_model_get_info(c->model)->n_swa;
    size_t cap = (to - from) / window + 2, n = 0;
    sk_state_piece *pieces = calloc(cap, sizeof *pieces);
    sk_state_parse *parses = calloc(cap, sizeof *parses);
    uint8_t **blobs = calloc(cap, sizeof *blobs);
    int rc = SKIPPY_OK;
    if (!pieces || !parses || !blobs) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu pieces of state", cap);
        goto out;
    }
    for (uint32_t at = from; at < to; n++) {
        uint32_t end = (at / window + 1) * window;
        if (end > to) end = to;
        rc = sk_state_cut_window(c, seq, scratch, at, end, &blobs[n], &pieces[n].len, &parses[n], e);
        if (rc) goto out;
        pieces[n].blob = blobs[n];
        pieces[n].parse = &parses[n];
        at = end;
    }
    rc = sk_state_join(pieces, n, data, len, e);
out:
    for (size_t i = 0; i < n; i++) {
        sk_state_parse_free(&parses[i]);
        free(blobs[i]);
    }
    free(pieces);
    free(parses);
    free(blobs);
    return rc;
}

static int cut_range(sk_context *c, uint32_t seq, uint32_t scratch, uint32_t from, uint32_t to, uint8_t **data,
                     size_t *len, sk_err *e) {
    if (sk_state_full_window(c)) return cut_in_pieces(c, seq, scratch, from, to, data, len, e);
    sk_state_parse p;
    int rc = sk_state_cut_window(c, seq, scratch, from, to, data, len, &p, e);
    sk_state_parse_free(&p);
    return rc;
}

/* ---- blobs with cuts ---- */

static int add_layout_cuts(const sk_state_shape *shape, sk_blob *b, sk_err *e) {
    sk_state_parse p;
    int rc = sk_state_parse_blob(b->data, b->len, shape, &p, e);
    if (rc) return rc;
    size_t n = sk_state_cuts(b->data, b->len, &p, SK_STATE_CUT_ROWS, NULL, 0);
    b->cuts = calloc(n ? n : 1, sizeof *b->cuts);
    if (b->cuts)
        b->n_cuts = sk_state_cuts(b->data, b->len, &p, SK_STATE_CUT_ROWS, b->cuts, n);
    else
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu cuts", n);
    sk_state_parse_free(&p);
    return rc;
}

static int add_fixed_cuts(sk_blob *b, sk_err *e) {
    size_t n = (b->len + WHOLE_CUT - 1) / WHOLE_CUT;
    b->cuts = calloc(n ? n : 1, sizeof *b->cuts);
    if (!b->cuts) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu cuts", n);
    for (size_t i = 0; i < n; i++) b->cuts[i] = i + 1 < n ? (i + 1) * WHOLE_CUT : b->len;
    b->n_cuts = n;
    return SKIPPY_OK;
}

/* What came out of llama.cpp must be what would be taken in again. */
static int learned(int rc, uint32_t seq, sk_err *e) {
    if (rc != SKIPPY_E_CORRUPT) return rc;
    sk_err inner = e ? *e : (sk_err){0};
    return sk_err_set(e, SKIPPY_E_RUNTIME, "the export of sequence %u is not as learned: %.400s", seq, inner.text);
}

static int finish(int rc, uint32_t seq, sk_blob *b, sk_blob *out, sk_err *e) {
    rc = learned(rc, seq, e);
    if (rc)
        sk_blob_free(b);
    else
        *out = *b;
    return rc;
}

int sk_state_export_kv(sk_context *c, const sk_state_caps *caps, uint32_t seq, uint32_t scratch, uint32_t from,
                       uint32_t to, sk_blob *out, sk_err *e) {
    *out = (sk_blob){0};
    if (!caps->windows)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "this context exports whole sequences only: %s", caps->why);
    if (!caps->has_kv || seq >= c->info.n_seq_max || seq == scratch || from >= to || to > sk_cells_len(&c->cells, seq))
        return sk_err_set(e, SKIPPY_E_INVALID, "positions %u..%u of sequence %u cannot be exported", from, to, seq);
    int rc = sk_state_require_empty(c, scratch, e);
    if (rc) return rc;
    sk_blob b = {0};
    sk_state_shape shape = sk_state_shape_of(c, false);
    rc = cut_range(c, seq, scratch, from, to, &b.data, &b.len, e);
    if (rc == SKIPPY_OK) rc = sk_state_verify_kv(c, caps, b.data, b.len, from, to, e);
    if (rc == SKIPPY_OK) rc = add_layout_cuts(&shape, &b, e);
    return finish(rc, seq, &b, out, e);
}

int sk_state_export_tail(sk_context *c, const sk_state_caps *caps, uint32_t seq, sk_blob *out, sk_err *e) {
    *out = (sk_blob){0};
    if (!caps->windows)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "this context exports whole sequences only: %s", caps->why);
    if (!caps->has_tail || seq >= c->info.n_seq_max || sk_context_seq_len(c, seq) == 0)
        return sk_err_set(e, SKIPPY_E_INVALID, "sequence %u has no recurrent state or window to export", seq);
    sk_blob b = {0};
    sk_state_parse p;
    sk_state_shape shape = sk_state_shape_of(c, true);
    int rc = sk_state_cut_tail(c, seq, &b.data, &b.len, &p, e);
    sk_state_parse_free(&p);
    if (rc == SKIPPY_OK) rc = sk_state_verify_tail(c, caps, b.data, b.len, sk_context_seq_len(c, seq), e);
    if (rc == SKIPPY_OK) rc = add_layout_cuts(&shape, &b, e);
    return finish(rc, seq, &b, out, e);
}

static int canonical_whole(sk_context *c, uint32_t seq, sk_blob *b, sk_err *e) {
    sk_state_shape shape = sk_state_shape_of(c, false);
    sk_state_parse p;
    int rc = sk_state_export_raw(c, seq, false, &b->data, &b->len, e);
    if (rc) return rc;
    rc = sk_state_parse_blob(b->data, b->len, &shape, &p, e);
    if (rc == SKIPPY_OK) rc = sk_state_canonicalise(b->data, b->len, &p, e);
    sk_state_parse_free(&p);
    return rc;
}

/* The bytes go back cell by cell in the order in which they lie, and the mirror takes that for position order. */
static int opaque_whole(sk_context *c, uint32_t seq, sk_blob *b, sk_err *e) {
    uint32_t n = sk_context_seq_len(c, seq);
    if (c->info.has_kv && !sk_cells_sorted(&c->cells, seq))
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "the cells of sequence %u are not in order", seq);
    if (sk_state_full_window(c) && n > (uint32_t)sk_model_get_info(c->model)->n_swa)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "an export of sequence %u would lack the cells before its window",
                          seq);
    int rc = sk_state_export_raw(c, seq, false, &b->data, &b->len, e);
    if (rc == SKIPPY_OK) sk_put_le32(b->data + 4, 0);
    return rc;
}

/* There is no scratch sequence here to cut pieces with; one that is empty does as well. */
static int find_scratch(const sk_context *c, uint32_t *out, sk_err *e) {
    for (uint32_t s = c->info.n_seq_max; s-- > 0;) {
        if (sk_state_require_empty(c, s, NULL) == SKIPPY_OK) {
            *out = s;
            return SKIPPY_OK;
        }
    }
    return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "every sequence is in use, and a whole export needs one more");
}

int sk_state_export_whole(sk_context *c, const sk_state_caps *caps, uint32_t seq, sk_blob *out, sk_err *e) {
    *out = (sk_blob){0};
    uint32_t scratch = 0, n = seq < c->info.n_seq_max ? sk_context_seq_len(c, seq) : 0;
    if (n == 0) return sk_err_set(e, SKIPPY_E_INVALID, "sequence %u holds nothing that could be exported", seq);
    sk_blob b = {0};
    int rc;
    if (!caps->windows) {
        rc = opaque_whole(c, seq, &b, e);
    } else if (!sk_state_full_window(c)) {
        rc = canonical_whole(c, seq, &b, e);
    } else {
        rc = find_scratch(c, &scratch, e);
        if (rc == SKIPPY_OK) rc = cut_in_pieces(c, seq, scratch, 0, n, &b.data, &b.len, e);
    }
    if (rc == SKIPPY_OK) rc = sk_state_verify_whole(c, caps, b.data, b.len, n, e);
    if (rc == SKIPPY_OK) rc = add_fixed_cuts(&b, e);
    return finish(rc, seq, &b, out, e);
}
