/* State into a context: a transaction that checks everything first. */
#include <stdlib.h>
#include <string.h>

#include "runtime/state_bytes.h"
#include "runtime/state_internal.h"
#include "skippy/payload.h"

/* What an import is made of, found by looking at the parts only. */
typedef struct plan {
    const sk_state_part *parts;
    size_t n_kv;
    const sk_state_part *tail, *whole; /* NULL = absent */
    uint32_t cells;                    /* that the KV parts need at once */
    uint32_t n_tokens;
    bool forced; /* a missing tail is replaced by an empty one */
} plan;

/* ---- checks that need no llama.cpp ---- */

static int wrong_parts(const char *why, sk_err *e) {
    return sk_err_set(e, SKIPPY_E_CORRUPT, "the parts do not make a state: %s", why);
}

static int plan_kv(const sk_state_part *part, plan *p, sk_err *e) {
    if (p->tail) return wrong_parts("a KV part after the STATE part", e);
    if (part->from != p->cells || part->to <= part->from) return wrong_parts("KV parts with a gap or out of order", e);
    if (part->from >= p->n_tokens) return wrong_parts("a KV part beyond the end", e);
    p->cells = part->to;
    p->n_kv++;
    return SKIPPY_OK;
}

static int plan_parts(const sk_state_part *parts, size_t n, uint32_t n_tokens, plan *p, sk_err *e) {
    *p = (plan){.parts = parts, .n_tokens = n_tokens};
    if (n == 0 || n_tokens == 0) return wrong_parts("there are none", e);
    for (size_t i = 0; i < n; i++) {
        const sk_state_part *part = &parts[i];
        int rc = SKIPPY_OK;
        if (!part->data || part->len == 0) {
            rc = wrong_parts("one has no bytes", e);
        } else if (part->kind == SKIPPY_PART_KV) {
            rc = plan_kv(part, p, e);
        } else if (part->kind != SKIPPY_PART_STATE && part->kind != SKIPPY_PART_OPAQUE) {
            rc = wrong_parts("one is of an unknown kind", e);
        } else if (part->to != n_tokens) {
            rc = wrong_parts("one is of another position", e);
        } else if (part->kind == SKIPPY_PART_STATE) {
            if (p->tail) return wrong_parts("two STATE parts", e);
            p->tail = part;
        } else {
            if (n != 1) return wrong_parts("a whole export beside other parts", e);
            p->whole = part;
        }
        if (rc) return rc;
    }
    return SKIPPY_OK;
}

/* Does this context take such parts? */
static int check_plan(const sk_context *c, const sk_state_caps *caps, plan *p, bool force, sk_err *e) {
    if (p->whole) {
        p->cells = caps->has_kv ? p->n_tokens : 0;
        return SKIPPY_OK;
    }
    if (!caps->windows) return wrong_parts("this context takes whole exports only", e);
    if (!caps->has_kv && p->n_kv) return wrong_parts("a KV part for a recurrent model", e);
    if (caps->has_kv && p->cells < p->n_tokens) return wrong_parts("the KV parts end too early", e);
    if (!caps->has_tail && p->tail) return wrong_parts("a STATE part for a model that has no such state", e);
    if (caps->has_tail && !p->tail && !(force && caps->has_kv)) return wrong_parts("the STATE part is missing", e);
    if (caps->has_tail && p->cells > p->n_tokens && caps->has_kv)
        return wrong_parts("the KV parts of such a model must end where its STATE part stands", e);
    p->forced = caps->has_tail && !p->tail && c->info.recurrent;
    return SKIPPY_OK;
}

static int verify_parts(const sk_context *c, const sk_state_caps *caps, const plan *p, sk_err *e) {
    if (p->whole) return sk_state_verify_whole(c, caps, p->whole->data, p->whole->len, p->n_tokens, e);
    for (size_t i = 0; i < p->n_kv; i++) {
        const sk_state_part *part = &p->parts[i];
        int rc = sk_state_verify_kv(c, caps, part->data, part->len, part->from, part->to, e);
        if (rc) return rc;
    }
    return p->tail ? sk_state_verify_tail(c, caps, p->tail->data, p->tail->len, p->n_tokens, e) : SKIPPY_OK;
}

/* ---- the import ---- */

static int no_place(sk_err *e, uint32_t dst) {
    return sk_err_set(e, SKIPPY_E_FULL, "there is no place in memory for the state of sequence %u", dst);
}

/* llama.cpp looks for the cells of an import as for those of a batch, so the mirror does. It goes first: if it runs out
 * of memory nothing has happened yet. */
static int mirror_cells(sk_context *c, uint32_t dst, uint32_t n, sk_err *e) {
    int rc = c->info.has_kv ? sk_cells_extend(&c->cells, dst, n) : SKIPPY_OK;
    if (rc == SKIPPY_E_FULL) return no_place(e, dst);
    return rc ? sk_err_set(e, rc, "out of memory for the mirror of %u cells", n) : SKIPPY_OK;
}

/* An import replaces the whole target, so each window takes the way over the scratch sequence. The cells stay where
 * they are when their owner changes. */
static int import_window(sk_context *c, const sk_state_part *part, uint32_t dst, uint32_t scratch, sk_err *e) {
    int rc = mirror_cells(c, dst, part->to - part->from, e);
    if (rc) return rc;
    if (llama_state_seq_set_data(c->lc, part->data, part->len, (llama_seq_id)scratch) != part->len)
        return no_place(e, dst); /* the structure is known to be right */
    llama_memory_seq_cp(c->mem, (llama_seq_id)scratch, (llama_seq_id)dst, -1, -1);
    sk_context_guard_range(c, dst, (llama_pos)part->from);
    sk_context_native_rm(c, scratch, -1);
    return SKIPPY_OK;
}

static int import_tail(sk_context *c, const uint8_t *data, size_t len, uint32_t dst, sk_err *e) {
    if (llama_state_seq_set_data_ext(c->lc, data, len, (llama_seq_id)dst, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY) != len)
        return no_place(e, dst);
    return SKIPPY_OK;
}

/* A recurrent state of zeros at the last position: what a lost state amounts to. The export of an empty sequence has
 * all tensor headers; rows of zeros are put behind them. */
static int import_zero_tail(sk_context *c, uint32_t dst, uint32_t scratch, uint32_t n_tokens, sk_err *e) {
    uint8_t *empty = NULL, *zero = NULL;
    size_t empty_len = 0;
    sk_state_parse p = {0};
    sk_state_shape shape = sk_state_shape_of(c, true);
    int rc = sk_state_export_raw(c, scratch, true, &empty, &empty_len, e);
    if (rc == SKIPPY_OK) rc = sk_state_parse_blob(empty, empty_len, &shape, &p, e);
    if (rc) goto out;
    size_t len = empty_len + 8;
    for (size_t i = 0; i < p.n_runs; i++) len += (size_t)p.runs[i].row_bytes;
    zero = calloc(1, len);
    if (!zero) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu bytes of state", len);
        goto out;
    }
    memcpy(zero, empty, SK_STATE_HEADER_BYTES);
    sk_put_le32(zero + 8, 1);             /* cell count */
    sk_put_le32(zero + 12, n_tokens - 1); /* position; no sequence ids follow */
    size_t at = 20;
    memcpy(zero + at, empty + 12, 8); /* transposition, layer count */
    at += 8;
    for (size_t i = 0; i < p.n_runs; i++) {
        memcpy(zero + at, empty + p.runs[i].offset - SK_STATE_RUN_HEADER_BYTES, SK_STATE_RUN_HEADER_BYTES);
        at += SK_STATE_RUN_HEADER_BYTES + (size_t)p.runs[i].row_bytes;
    }
    rc = import_tail(c, zero, len, dst, e);
out:
    sk_state_parse_free(&p);
    free(empty);
    free(zero);
    return rc;
}

static int import_whole(sk_context *c, const plan *p, uint32_t dst, sk_err *e) {
    int rc = mirror_cells(c, dst, p->cells, e);
    if (rc) return rc;
    if (llama_state_seq_set_data(c->lc, p->whole->data, p->whole->len, (llama_seq_id)dst) != p->whole->len)
        return no_place(e, dst);
    sk_context_guard_range(c, dst, -1);
    return SKIPPY_OK;
}

static int import_parts(sk_context *c, const plan *p, uint32_t dst, uint32_t scratch, sk_err *e) {
    int rc = SKIPPY_OK;
    for (size_t i = 0; i < p->n_kv && rc == SKIPPY_OK; i++) rc = import_window(c, &p->parts[i], dst, scratch, e);
    if (rc) return rc;
    if (p->tail) rc = import_tail(c, p->tail->data, p->tail->len, dst, e);
    if (p->forced) rc = import_zero_tail(c, dst, scratch, p->n_tokens, e);
    if (rc == SKIPPY_OK && p->n_kv && p->cells > p->n_tokens) {
        sk_context_native_rm(c, dst, (llama_pos)p->n_tokens);
        sk_cells_rm(&c->cells, dst, p->n_tokens);
    }
    return rc;
}

static int import(sk_context *c, const sk_state_caps *caps, uint32_t dst, uint32_t scratch, const sk_state_part *parts,
                  size_t n_parts, uint32_t n_tokens, bool force, sk_err *e) {
    if (dst == scratch) return sk_err_set(e, SKIPPY_E_INVALID, "sequence %u cannot be its own scratch", dst);
    int rc = sk_state_require_empty(c, dst, e);
    if (rc == SKIPPY_OK) rc = sk_state_require_empty(c, scratch, e);
    if (rc) return rc;
    plan p;
    rc = plan_parts(parts, n_parts, n_tokens, &p, e);
    if (rc == SKIPPY_OK) rc = check_plan(c, caps, &p, force, e);
    if (rc == SKIPPY_OK) rc = verify_parts(c, caps, &p, e);
    if (rc) return rc;
    if (c->info.has_kv && p.cells > sk_cells_free_count(&c->cells))
        return sk_err_set(e, SKIPPY_E_FULL, "%u cells are needed and %u are free", p.cells,
                          sk_cells_free_count(&c->cells));
    rc = p.whole ? import_whole(c, &p, dst, e) : import_parts(c, &p, dst, scratch, e);
    if (rc == SKIPPY_OK) rc = sk_context_check_positions(c, dst, n_tokens, e);
    if (rc) {
        sk_context_native_rm(c, scratch, -1);
        sk_context_seq_clear(c, dst);
    }
    return rc;
}

int sk_state_import(sk_context *c, const sk_state_caps *caps, uint32_t dst, uint32_t scratch,
                    const sk_state_part *parts, size_t n_parts, uint32_t n_tokens, sk_err *e) {
    return import(c, caps, dst, scratch, parts, n_parts, n_tokens, false, e);
}

int sk_state_import_forced(sk_context *c, const sk_state_caps *caps, uint32_t dst, uint32_t scratch,
                           const sk_state_part *parts, size_t n_parts, uint32_t n_tokens, sk_err *e) {
    return import(c, caps, dst, scratch, parts, n_parts, n_tokens, true, e);
}
