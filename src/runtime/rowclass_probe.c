/* Measuring the row class: one prompt, cut in different ways, must give the same logits. */
#include <stdlib.h>
#include <string.h>

#include "runtime/rowclass.h"

enum {
    MAX_ROWS = 60, /* 63 is the last row count before the tiled flash-attention path; a multiple of every class but 8 */
    MAX_MULTIPLE = 8,
    BRIEF_TOKENS =
        16,        /* the beginning of the prompt, for the cuttings in many small pieces; a multiple of each class */
    ODD_PIECE = 5, /* no multiple of any class */
    TENANT_TOKENS = 7,
    COMPANY_CHUNK = 24,
    PROMPT_TOKENS = 60,
    DECODES = 2, /* tokens that follow one by one */
    ALL_TOKENS = PROMPT_TOKENS + DECODES
};

/* Positions whose logits are compared. Those behind BRIEF are decoded one by one after the brief prompt and stand
 * inside the whole one, so generated text is proved to be as good as a prompt. */
enum { AT_BRIEF, AT_NEXT, AT_SECOND, AT_END, AT_DECODE, AT_LAST, N_PLACES };
static const uint32_t places[N_PLACES] = {BRIEF_TOKENS - 1,  BRIEF_TOKENS,  BRIEF_TOKENS + 1,
                                          PROMPT_TOKENS - 1, PROMPT_TOKENS, PROMPT_TOKENS + 1};

typedef struct probe {
    sk_context *c;
    uint32_t lane, tenant, scratch; /* sequence ids; scratch: `multiple` of them */
    sk_row_class rc;
    size_t n_vocab;
    int32_t tokens[ALL_TOKENS];
    sk_row rows[MAX_ROWS + MAX_MULTIPLE];
    uint32_t n_rows;
} probe;

/* One row of logits per place. */
typedef struct logits {
    float *row[N_PLACES];
} logits;

static void add(probe *p, uint32_t seq, int32_t token, bool output) {
    p->rows[p->n_rows++] = (sk_row){.token = token, .seq = seq, .output = output};
}

/* Index of the place at this position, or N_PLACES. */
static size_t place_at(uint32_t position) {
    size_t i = 0;
    while (i < N_PLACES && places[i] != position) i++;
    return i;
}

/* Copies the logits of the lane's rows that stand at a place; the lane's rows are the first k of the batch. */
static int keep(probe *p, uint32_t at, uint32_t k, logits *out, sk_err *e) {
    for (uint32_t i = 0; i < k; i++) {
        size_t place = place_at(at + i);
        if (place == N_PLACES) continue;
        const float *row = sk_context_logits(p->c, i);
        if (!row) return sk_err_set(e, SKIPPY_E_RUNTIME, "the probe got no logits");
        memcpy(out->row[place], row, p->n_vocab * sizeof *row);
    }
    return SKIPPY_OK;
}

/* Tokens of the next piece. Recurrent memory takes multiples of one sequence, and the rest one by one. */
static uint32_t piece(const probe *p, uint32_t left, uint32_t chunk) {
    uint32_t k = chunk < p->rc.max_rows ? chunk : p->rc.max_rows;
    if (k > left) k = left;
    if (!sk_context_get_info(p->c)->recurrent) return k;
    return k >= p->rc.multiple ? k - k % p->rc.multiple : 1;
}

/* Feeds tokens [from, to) to the lane in chunks. company: another sequence has a row in every batch where this memory
 * allows it. */
static int feed(probe *p, uint32_t from, uint32_t to, uint32_t chunk, bool company, logits *out, sk_err *e) {
    const sk_context_info *info = sk_context_get_info(p->c);
    for (uint32_t at = from; at < to;) {
        uint32_t k = piece(p, to - at, chunk), padded = 0;
        p->n_rows = 0;
        for (uint32_t i = 0; i < k; i++) add(p, p->lane, p->tokens[at + i], out && place_at(at + i) < N_PLACES);
        if (company && info->has_kv && (!info->recurrent || k == 1)) add(p, p->tenant, p->tokens[at], false);
        int rc = sk_row_class_decode(p->c, &p->rc, p->rows, p->n_rows, p->scratch, &padded, NULL, e);
        if (rc == SKIPPY_OK && out) rc = keep(p, at, k, out, e);
        if (rc) return rc;
        at += k;
    }
    return SKIPPY_OK;
}

static void clear(probe *p) {
    sk_context_seq_clear(p->c, p->lane);
    sk_context_seq_clear(p->c, p->tenant);
}

/* SKIPPY_E_UNSUPPORTED when the rows of places [first, last] differ; what says how they were computed. */
static int compare(const probe *p, const logits *a, const logits *b, int first, int last, const char *what, sk_err *e) {
    for (int i = first; i <= last; i++)
        if (memcmp(a->row[i], b->row[i], p->n_vocab * sizeof *a->row[i]) != 0)
            return sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                              "%s gives other logits than one large piece when batches are padded to multiples of %u",
                              what, p->rc.multiple);
    return SKIPPY_OK;
}

/* The beginning in pieces of the multiple, behind another tenant's cells: where a multiple fails, it fails here, before
 * much was computed. Then two tokens one by one. */
static int small_pieces(probe *p, logits *reference, logits *got, sk_err *e) {
    clear(p);
    int rc = feed(p, 0, BRIEF_TOKENS, BRIEF_TOKENS, false, reference, e);
    clear(p);
    uint32_t lane = p->lane;
    p->lane = p->tenant;
    if (rc == SKIPPY_OK) rc = feed(p, 0, TENANT_TOKENS, TENANT_TOKENS, false, NULL, e);
    p->lane = lane;
    if (rc == SKIPPY_OK) rc = feed(p, 0, BRIEF_TOKENS, p->rc.multiple, false, got, e);
    if (rc == SKIPPY_OK) rc = compare(p, reference, got, AT_BRIEF, AT_BRIEF, "a prompt in small pieces", e);
    if (rc == SKIPPY_OK) rc = feed(p, BRIEF_TOKENS, BRIEF_TOKENS + DECODES, 1, false, got, e);
    return rc;
}

/* The whole prompt in the largest piece, which is the reference from here on. */
static int one_piece(probe *p, logits *reference, const logits *small, sk_err *e) {
    clear(p);
    int rc = feed(p, 0, PROMPT_TOKENS, p->rc.max_rows, false, reference, e);
    if (rc == SKIPPY_OK) rc = compare(p, reference, small, AT_BRIEF, AT_BRIEF, "a prompt in small pieces", e);
    if (rc == SKIPPY_OK) rc = feed(p, PROMPT_TOKENS, ALL_TOKENS, 1, false, reference, e);
    return rc;
}

/* An odd first piece. `small` holds the two tokens that were computed one by one. Where single rows differ from rows of
 * a piece, recurrent models can still be cut at absolute multiples. */
static int odd_pieces(probe *p, const logits *reference, const logits *small, logits *got, sk_err *e) {
    clear(p);
    int rc = feed(p, 0, ODD_PIECE, ODD_PIECE, false, NULL, e);
    if (rc == SKIPPY_OK) rc = feed(p, ODD_PIECE, BRIEF_TOKENS, BRIEF_TOKENS, false, got, e);
    if (rc == SKIPPY_OK) rc = compare(p, reference, got, AT_BRIEF, AT_BRIEF, "a prompt with an odd first piece", e);
    if (rc == SKIPPY_OK) rc = compare(p, reference, small, AT_NEXT, AT_SECOND, "a prompt token by token", e);
    if (rc != SKIPPY_E_UNSUPPORTED || !sk_context_get_info(p->c)->recurrent) return rc;
    p->rc.aligned = true;
    return SKIPPY_OK;
}

static int beside_another(probe *p, const logits *reference, logits *got, sk_err *e) {
    clear(p);
    int rc = feed(p, 0, PROMPT_TOKENS, COMPANY_CHUNK, true, got, e);
    if (rc == SKIPPY_OK) rc = feed(p, PROMPT_TOKENS, ALL_TOKENS, 1, true, got, e);
    if (rc == SKIPPY_OK) rc = compare(p, reference, got, AT_END, AT_LAST, "a prompt beside another request", e);
    return rc;
}

/* buffers: three sets of rows. */
static int try_multiple(probe *p, logits buffers[3], sk_err *e) {
    logits *reference = &buffers[0], *small = &buffers[1], *got = &buffers[2];
    int rc = small_pieces(p, reference, small, e);
    if (rc == SKIPPY_OK) rc = one_piece(p, reference, small, e);
    if (rc == SKIPPY_OK) rc = odd_pieces(p, reference, small, got, e);
    if (rc == SKIPPY_OK) rc = beside_another(p, reference, got, e);
    clear(p);
    return rc;
}

static void choose_tokens(probe *p) {
    uint32_t x = 12345;
    for (size_t i = 0; i < ALL_TOKENS; i++) {
        x = x * 1664525u + 1013904223u; /* Numerical Recipes' generator: any spread of tokens will do */
        p->tokens[i] = (int32_t)((x >> 8) % (uint32_t)p->n_vocab);
    }
}

static int try_all(probe *p, logits buffers[3], sk_err *e) {
    uint32_t most = sk_context_get_info(p->c)->n_batch;
    if (most > MAX_ROWS) most = MAX_ROWS;
    int rc = SKIPPY_E_UNSUPPORTED;
    for (uint32_t multiple = 2; multiple <= MAX_MULTIPLE && rc == SKIPPY_E_UNSUPPORTED; multiple *= 2) {
        p->rc = (sk_row_class){.multiple = multiple, .max_rows = most - most % multiple};
        /* a row of company beside the largest piece must find room */
        if (p->rc.max_rows < COMPANY_CHUNK + multiple)
            return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "batches of %u rows are too small: %u are needed", most,
                              COMPANY_CHUNK + MAX_MULTIPLE);
        rc = try_multiple(p, buffers, e);
    }
    return rc;
}

int sk_row_class_probe(sk_context *c, const sk_model *m, uint32_t lane, uint32_t scratch, uint32_t n_scratch,
                       sk_row_class *out, sk_err *e) {
    if (n_scratch < SK_ROW_CLASS_SCRATCH)
        return sk_err_set(e, SKIPPY_E_INVALID, "the probe needs %d sequences", SK_ROW_CLASS_SCRATCH);
    size_t n_vocab = (size_t)sk_model_get_info(m)->n_vocab;
    probe *p = calloc(1, sizeof *p);
    float *rows = calloc(3 * N_PLACES * n_vocab, sizeof *rows);
    logits buffers[3];
    int rc = SKIPPY_E_NOMEM;
    if (!p || !rows) {
        sk_err_set(e, rc, "out of memory for the row-class probe");
        goto out;
    }
    for (size_t i = 0; i < (size_t)3 * N_PLACES; i++) buffers[i / N_PLACES].row[i % N_PLACES] = rows + i * n_vocab;
    *p = (probe){.c = c, .lane = lane, .tenant = scratch, .scratch = scratch + 1, .n_vocab = n_vocab};
    choose_tokens(p);
    rc = try_all(p, buffers, e);
    if (rc == SKIPPY_OK) *out = p->rc;
out:
    free(p);
    free(rows);
    return rc;
}
