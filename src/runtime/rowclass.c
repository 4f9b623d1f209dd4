#include "runtime/rowclass.h"

#include <stdlib.h>
#include <string.h>

/* 63 is the last row count before the tiled flash-attention path; 60 is a multiple of every candidate but 8. */
enum { MAX_ROWS = 60, PROBE_TOKENS = 66, PROBE_DECODES = 2, TENANT_TOKENS = 40, MAX_MULTIPLE = 8 };

typedef struct probe {
    sk_context *c;
    uint32_t lane, tenant, scratch; /* sequence ids; scratch: multiple - 1 of them */
    sk_row_class rc;
    size_t n_vocab;
    int32_t tokens[PROBE_TOKENS + PROBE_DECODES];
    sk_row rows[MAX_ROWS + MAX_MULTIPLE];
    uint32_t n_rows;
} probe;

static void add(probe *p, uint32_t seq, int32_t token) {
    p->rows[p->n_rows++] = (sk_row){.token = token, .seq = seq, .output = false};
}

/* Pads the batch and its output rows to the class, decodes it, drops the dummies. */
static int run(probe *p, bool output, sk_err *e) {
    bool own_seq = sk_context_get_info(p->c)->recurrent;
    uint32_t pad = sk_row_class_pad(&p->rc, p->n_rows);
    for (uint32_t i = 0; i < pad; i++) add(p, p->scratch + (own_seq ? i : 0), 0);
    if (output)
        for (uint32_t i = 0; i < p->rc.multiple; i++) p->rows[p->n_rows - 1 - i].output = true;
    int rc = sk_context_decode(p->c, p->rows, p->n_rows, NULL, e);
    for (uint32_t i = 0; i < (own_seq ? pad : 1u) && pad; i++) sk_context_seq_clear(p->c, p->scratch + i);
    p->n_rows = 0;
    return rc;
}

/* Feeds tokens to the lane in chunks; the logits of the last token are copied to out. company: another sequence has a row in every
 * batch where this memory allows it. */
static int feed(probe *p, const int32_t *tokens, uint32_t n, uint32_t chunk, bool company, float *out, sk_err *e) {
    bool recurrent = sk_context_get_info(p->c)->recurrent;
    for (uint32_t at = 0; at < n;) {
        uint32_t k = n - at < chunk ? n - at : chunk;
        if (recurrent) k = k >= p->rc.multiple ? k - k % p->rc.multiple : 1;
        for (uint32_t i = 0; i < k; i++) add(p, p->lane, tokens[at + i]);
        uint32_t last = p->n_rows - 1;
        if (company && p->rc.multiple > 1 && (!recurrent || k == 1)) add(p, p->tenant, tokens[at]);
        at += k;
        int rc = run(p, at == n, e);
        if (rc) return rc;
        if (at < n) continue;
        const float *row = sk_context_logits(p->c, last);
        /* the lane's last row is among the padded outputs only when it lies in the last `multiple` rows */
        if (!row) return sk_err_set(e, SKIPPY_E_RUNTIME, "the probe got no logits");
        memcpy(out, row, p->n_vocab * sizeof *out);
    }
    return SKIPPY_OK;
}

typedef struct variant {
    uint32_t chunk;
    bool tenant;  /* other tokens lie in the pool first, so the lane's cells are elsewhere */
    bool company; /* and share the batches */
} variant;

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
    if (rc == SKIPPY_OK) rc = feed(p, p->tokens, PROBE_TOKENS, v->chunk, v->company, rows, e);
    for (int i = 0; rc == SKIPPY_OK && i < PROBE_DECODES; i++)
        rc = feed(p, p->tokens + PROBE_TOKENS + i, 1, 1, v->company, rows + (size_t)(i + 1) * p->n_vocab, e);
    sk_context_seq_clear(p->c, p->lane);
    sk_context_seq_clear(p->c, p->tenant);
    return rc;
}

/* SKIPPY_OK: identical everywhere. SKIPPY_E_UNSUPPORTED: differs. Other: failure. */
static int try_multiple(probe *p, float *reference, float *got, sk_err *e) {
    const uint32_t m = p->rc.multiple;
    const variant variants[] = {{MAX_ROWS - MAX_ROWS % m, false, false}, {m, true, false}, {32, false, false}, {12 - 12 % m + (m > 12 ? m : 0), true, true}};
    size_t bytes = (1 + PROBE_DECODES) * p->n_vocab * sizeof *reference;
    int rc = run_variant(p, &variants[0], reference, e);
    for (size_t i = 1; rc == SKIPPY_OK && i < sizeof variants / sizeof *variants; i++) {
        rc = run_variant(p, &variants[i], got, e);
        if (rc == SKIPPY_OK && memcmp(reference, got, bytes) != 0)
            rc = sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                            "chunks of %u rows and chunks of %u rows%s give different logits when batches are padded to multiples of %u",
                            variants[0].chunk, variants[i].chunk, variants[i].company ? " beside another request" : "", m);
    }
    return rc;
}

static void choose_tokens(probe *p) {
    uint32_t x = 12345;
    for (size_t i = 0; i < sizeof p->tokens / sizeof *p->tokens; i++) {
        x = x * 1664525u + 1013904223u; /* Numerical Recipes' generator: any spread of tokens will do */
        p->tokens[i] = (int32_t)((x >> 8) % (uint32_t)p->n_vocab);
    }
}

int sk_row_class_probe(sk_context *c, const sk_model *m, uint32_t lane, uint32_t scratch, uint32_t n_scratch, sk_row_class *out,
                       sk_err *e) {
    if (n_scratch < MAX_MULTIPLE) return sk_err_set(e, SKIPPY_E_INVALID, "the probe needs %d sequences", MAX_MULTIPLE);
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
