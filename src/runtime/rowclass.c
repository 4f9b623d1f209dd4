#include "runtime/rowclass.h"

#include <stdlib.h>
#include <string.h>

/* 63 is the last row count before the tiled flash-attention path; 60 is a multiple of every candidate but 8. */
enum { MAX_ROWS = 60, SHORT_TOKENS = 30, PROBE_TOKENS = 66, PROBE_DECODES = 2, TENANT_TOKENS = 20, MAX_MULTIPLE = 8 };
#define NO_ROW UINT32_MAX

/* ---- padded decoding ---- */

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

/* ---- the probe ---- */

typedef struct probe {
    sk_context *c;
    uint32_t lane, tenant, scratch; /* sequence ids; scratch: `multiple` of them */
    sk_row_class rc;
    size_t n_vocab;
    int32_t tokens[PROBE_TOKENS + PROBE_DECODES];
    sk_row rows[MAX_ROWS + MAX_MULTIPLE];
    uint32_t n_rows;
} probe;

static void add(probe *p, uint32_t seq, int32_t token) {
    p->rows[p->n_rows++] = (sk_row){.token = token, .seq = seq, .output = false};
}

/* Decodes the rows so far; logits of row `wanted` are asked for unless it is NO_ROW. */
static int run(probe *p, uint32_t wanted, sk_err *e) {
    uint32_t padded = 0, n = p->n_rows;
    if (wanted != NO_ROW) p->rows[wanted].output = true;
    p->n_rows = 0;
    return sk_row_class_decode(p->c, &p->rc, p->rows, n, p->scratch, &padded, NULL, e);
}

/* Feeds tokens to the lane in chunks; the logits of the last token are copied to out. company: another sequence has a
 * row in every batch where this memory allows it. */
static int feed(probe *p, const int32_t *tokens, uint32_t n, uint32_t chunk, bool company, float *out, sk_err *e) {
    const sk_context_info *info = sk_context_get_info(p->c);
    company = company && info->has_kv;
    for (uint32_t at = 0; at < n;) {
        uint32_t k = n - at < chunk ? n - at : chunk;
        if (info->recurrent) k = k >= p->rc.multiple ? k - k % p->rc.multiple : 1;
        for (uint32_t i = 0; i < k; i++) add(p, p->lane, tokens[at + i]);
        uint32_t last = p->n_rows - 1;
        if (company && (!info->recurrent || k == 1)) add(p, p->tenant, tokens[at]);
        at += k;
        int rc = run(p, at == n ? last : NO_ROW, e);
        if (rc) return rc;
        if (at < n) continue;
        const float *row = sk_context_logits(p->c, last);
        if (!row) return sk_err_set(e, SKIPPY_E_RUNTIME, "the probe got no logits");
        memcpy(out, row, p->n_vocab * sizeof *out);
    }
    return SKIPPY_OK;
}

typedef struct variant {
    uint32_t chunk;
    bool tenant;  /* other tokens lie in the pool first, so the lane's cells are elsewhere */
    bool company; /* and share the batches */
    bool odd;     /* a first piece that is no multiple of the class */
    uint32_t n;   /* tokens of the prompt */
} variant;

enum { ODD_PIECE = 17 };

/* One prompt and some padded decodes; rows: 1 + PROBE_DECODES rows of logits. */
static int run_variant(probe *p, const variant *v, float *rows, sk_err *e) {
    int rc = SKIPPY_OK;
    float *unused = rows; /* overwritten by the prompt's row below */
    sk_context_seq_clear(p->c, p->lane);
    sk_context_seq_clear(p->c, p->tenant);
    if (v->tenant || v->company) {
        uint32_t lane = p->lane;
        p->lane = p->tenant;
        rc = feed(p, p->tokens, TENANT_TOKENS, MAX_ROWS, false, unused, e);
        p->lane = lane;
    }
    uint32_t first = v->odd ? ODD_PIECE : 0;
    if (rc == SKIPPY_OK && first) rc = feed(p, p->tokens, first, v->chunk, v->company, unused, e);
    if (rc == SKIPPY_OK) rc = feed(p, p->tokens + first, v->n - first, v->chunk, v->company, rows, e);
    for (int i = 0; rc == SKIPPY_OK && i < PROBE_DECODES; i++)
        rc = feed(p, p->tokens + v->n + i, 1, 1, v->company, rows + (size_t)(i + 1) * p->n_vocab, e);
    sk_context_seq_clear(p->c, p->lane);
    sk_context_seq_clear(p->c, p->tenant);
    return rc;
}

/* SKIPPY_OK: the variant gives the reference's bits. SKIPPY_E_UNSUPPORTED: it does not. Other: failure. */
static int compare_variant(probe *p, const variant *v, const float *reference, float *got, sk_err *e) {
    int rc = run_variant(p, v, got, e);
    if (rc == SKIPPY_OK && memcmp(reference, got, (1 + PROBE_DECODES) * p->n_vocab * sizeof *got) != 0)
        rc = sk_err_set(
            e, SKIPPY_E_UNSUPPORTED,
            "chunks of %u rows%s give other logits than chunks of %u when batches are padded to multiples of %u",
            v->chunk, v->company ? " beside another request" : "", p->rc.max_rows, p->rc.multiple);
    return rc;
}

/* Compares variants of a prompt with its computation in the largest chunks. */
static int compare_all(probe *p, uint32_t n, const variant *v, size_t n_variants, float *reference, float *got,
                       sk_err *e) {
    const variant largest = {.chunk = p->rc.max_rows, .n = n};
    int rc = run_variant(p, &largest, reference, e);
    for (size_t i = 0; rc == SKIPPY_OK && i < n_variants; i++) rc = compare_variant(p, &v[i], reference, got, e);
    return rc;
}

/* A short prompt first: on a large model most of the probe's time would go into multiples that fail. */
static int try_multiple(probe *p, float *reference, float *got, sk_err *e) {
    const variant brief[] = {{.chunk = p->rc.multiple, .tenant = true, .n = SHORT_TOKENS},
                             {.chunk = 16, .tenant = true, .company = true, .n = SHORT_TOKENS}};
    const variant full[] = {{.chunk = 32, .n = PROBE_TOKENS}};
    const variant odd[] = {{.chunk = p->rc.max_rows, .odd = true, .n = SHORT_TOKENS}};
    int rc = compare_all(p, SHORT_TOKENS, brief, 2, reference, got, e);
    if (rc == SKIPPY_OK) rc = compare_all(p, PROBE_TOKENS, full, 1, reference, got, e);
    if (rc) return rc;
    rc = compare_all(p, SHORT_TOKENS, odd, 1, reference, got, e);
    if (rc != SKIPPY_E_UNSUPPORTED || !sk_context_get_info(p->c)->recurrent) return rc;
    p->rc.aligned = true;
    return SKIPPY_OK;
}

static void choose_tokens(probe *p) {
    uint32_t x = 12345;
    for (size_t i = 0; i < sizeof p->tokens / sizeof *p->tokens; i++) {
        x = x * 1664525u + 1013904223u; /* Numerical Recipes' generator: any spread of tokens will do */
        p->tokens[i] = (int32_t)((x >> 8) % (uint32_t)p->n_vocab);
    }
}

int sk_row_class_probe(sk_context *c, const sk_model *m, uint32_t lane, uint32_t scratch, uint32_t n_scratch,
                       sk_row_class *out, sk_err *e) {
    if (n_scratch < SK_ROW_CLASS_SCRATCH)
        return sk_err_set(e, SKIPPY_E_INVALID, "the probe needs %d sequences", SK_ROW_CLASS_SCRATCH);
    size_t n_vocab = (size_t)sk_model_get_info(m)->n_vocab;
    probe *p = calloc(1, sizeof *p);
    float *reference = malloc((1 + PROBE_DECODES) * n_vocab * sizeof *reference);
    float *got = malloc((1 + PROBE_DECODES) * n_vocab * sizeof *got);
    int rc = SKIPPY_E_NOMEM;
    if (!p || !reference || !got) {
        sk_err_set(e, rc, "out of memory for the row-class probe");
        goto out;
    }
    *p = (probe){.c = c, .lane = lane, .tenant = scratch, .scratch = scratch + 1, .n_vocab = n_vocab};
    choose_tokens(p);
    for (uint32_t multiple = 2; multiple <= MAX_MULTIPLE; multiple *= 2) {
        p->rc = (sk_row_class){.multiple = multiple, .max_rows = MAX_ROWS - MAX_ROWS % multiple};
        rc = try_multiple(p, reference, got, e);
        if (rc != SKIPPY_E_UNSUPPORTED) break;
    }
    if (rc == SKIPPY_OK) *out = p->rc;
out:
    free(p);
    free(reference);
    free(got);
    return rc;
}
