/* Decoding: rows in, logits or hidden states out, with guards and the cell mirror kept in step. */
#include "base/err.h"
#include "runtime/context_internal.h"
#include "runtime/stage_context.h"

/* Runs fn for each ubatch that llama.cpp will make of the rows: consecutive pieces for attention-only memory; for
 * recurrent memory the same number of rows of every sequence that has rows left (src/llama-batch.cpp, split_simple and
 * split_equal). The rows' sequences stand in c->ubatch_seq. Stops at the first non-zero result. */
typedef int (*ubatch_fn)(sk_context *c, uint32_t n);

static int each_ubatch(sk_context *c, const sk_row *rows, size_t n, ubatch_fn fn) {
    uint32_t max = c->info.n_ubatch;
    if (!c->info.recurrent) {
        for (size_t at = 0; at < n; at += max) {
            uint32_t k = n - at < max ? (uint32_t)(n - at) : max;
            for (uint32_t i = 0; i < k; i++) c->ubatch_seq[i] = rows[at + i].seq;
            int rc = fn(c, k);
            if (rc) return rc;
        }
        return SKIPPY_OK;
    }
    enum { MAX_RUNS = 256 };
    struct {
        uint32_t seq, left;
    } run[MAX_RUNS];
    uint32_t n_runs = 0;
    for (size_t i = 0; i < n; i++) {
        if (n_runs && run[n_runs - 1].seq == rows[i].seq)
            run[n_runs - 1].left++;
        else if (n_runs < MAX_RUNS)
            run[n_runs].seq = rows[i].seq, run[n_runs++].left = 1;
    }
    while (n_runs) {
        uint32_t take = max / n_runs, k = 0, kept = 0;
        for (uint32_t r = 0; r < n_runs; r++)
            if (run[r].left < take) take = run[r].left;
        if (take == 0) take = 1;
        for (uint32_t r = 0; r < n_runs; r++)
            for (uint32_t t = 0; t < take; t++) c->ubatch_seq[k++] = run[r].seq;
        int rc = fn(c, k);
        if (rc) return rc;
        for (uint32_t r = 0; r < n_runs; r++) {
            run[r].left -= take;
            if (run[r].left) run[kept++] = run[r];
        }
        n_runs = kept;
    }
    return SKIPPY_OK;
}

static int place_ubatch(sk_context *c, uint32_t n) {
    return sk_cells_place(&c->cells, c->ubatch_seq, n);
}

static int check_rows(const sk_context *c, const sk_row *rows, size_t n, uint32_t *bad_seq, sk_err *e) {
    if (n == 0 || n > c->info.n_batch)
        return sk_err_set(e, SKIPPY_E_INVALID, "a batch of %zu rows (1..%u)", n, c->info.n_batch);
    uint32_t last = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        /* a stage that takes hidden states has no vocabulary to compare the token with, and no use for it */
        bool token_ok = c->stage.takes || sk_model_valid_token(c->model, rows[i].token);
        if (rows[i].seq >= c->info.n_seq_max || !token_ok)
            return sk_err_set(e, SKIPPY_E_INVALID, "row %zu: token %d, sequence %u", i, rows[i].token, rows[i].seq);
        if (rows[i].seq == last) continue;
        last = rows[i].seq;
        int rc = sk_context_check_positions(c, last, sk_context_seq_len(c, last), e);
        if (rc) {
            if (bad_seq) *bad_seq = last;
            return rc;
        }
    }
    return SKIPPY_OK;
}

static void fill_batch(sk_context *c, const sk_row *rows, size_t n) {
    struct llama_batch *b = &c->batch;
    llama_pos next = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || rows[i].seq != rows[i - 1].seq) next = (llama_pos)sk_context_seq_len(c, rows[i].seq);
        b->token[i] = rows[i].token;
        b->pos[i] = next++;
        b->n_seq_id[i] = 1;
        b->seq_id[i][0] = (llama_seq_id)rows[i].seq;
        b->logits[i] = c->stage.gives || rows[i].output; /* else the last layer drops the row */
    }
    b->n_tokens = (int32_t)n;
}

/* Earlier ubatches stay after a failure, and recurrent state cannot be taken back: only whole sequences are safe to
 * drop. */
static void drop_sequences(sk_context *c, const sk_row *rows, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (i == 0 || rows[i].seq != rows[i - 1].seq) sk_context_seq_clear(c, rows[i].seq);
}

/* After llama.cpp took the rows: guards and mirror follow, and every hidden state must have come. */
static int follow_decode(sk_context *c, const sk_row *rows, size_t n, sk_err *e) {
    for (size_t i = 0; i < n; i++)
        if (i == 0 || rows[i].seq != rows[i - 1].seq) sk_context_guard_range(c, rows[i].seq, c->batch.pos[i]);
    if (c->info.has_kv && each_ubatch(c, rows, n, place_ubatch))
        return sk_err_set(e, SKIPPY_E_RUNTIME, "the cell mirror could not follow a decode");
    if (c->stage.out && (c->stage.failed || c->stage.rows != n))
        return sk_err_set(e, SKIPPY_E_RUNTIME, "%zu hidden states came out of '%s' for %zu rows", c->stage.rows,
                          c->stage.node, n);
    return SKIPPY_OK;
}

int sk_context_decode_rows(sk_context *c, const sk_row *rows, size_t n, const float *in, float *out, uint32_t *bad_seq,
                           sk_err *e) {
    int rc = check_rows(c, rows, n, bad_seq, e);
    if (rc) return rc;
    if (c->info.has_kv && n > sk_cells_free_count(&c->cells))
        return sk_err_set(e, SKIPPY_E_FULL, "%zu rows do not fit %u free cells", n, sk_cells_free_count(&c->cells));
    fill_batch(c, rows, n);
    c->stage.out = out;
    c->stage.cap = n;
    c->stage.rows = 0;
    c->stage.failed = false;
    int32_t result = llama_decode(c->lc, in ? sk_stage_io_batch(c, in) : c->batch);
    if (result == 1) return sk_err_set(e, SKIPPY_E_FULL, "no place in memory for %zu rows", n);
    if (result == -1) /* nothing was changed */
        return sk_err_set(e, SKIPPY_E_INVALID, "llama_decode failed with %d", (int)result);
    if (result == 0)
        rc = follow_decode(c, rows, n, e);
    else
        rc = sk_err_set(e, SKIPPY_E_RUNTIME, "llama_decode failed with %d", (int)result);
    if (rc) drop_sequences(c, rows, n);
    return rc;
}

int sk_context_decode(sk_context *c, const sk_row *rows, size_t n, uint32_t *bad_seq, sk_err *e) {
    if (!c->stage.takes) return sk_context_decode_rows(c, rows, n, NULL, NULL, bad_seq, e);
    if (n > c->info.n_batch) return sk_err_set(e, SKIPPY_E_INVALID, "a batch of %zu rows (1..%u)", n, c->info.n_batch);
    uint32_t position = 0;
    for (size_t i = 0; i < n; i++) {
        if (rows[i].seq >= c->info.n_seq_max) break; /* refused below */
        if (i == 0 || rows[i].seq != rows[i - 1].seq) position = sk_context_seq_len(c, rows[i].seq);
        sk_stage_synthetic(rows[i].token, position++, c->stage.scratch + i * c->stage.width, c->stage.width);
    }
    return sk_context_decode_rows(c, rows, n, c->stage.scratch, NULL, bad_seq, e);
}

bool sk_context_rows_sorted(sk_context *c, const sk_row *rows, size_t n, uint32_t *bad_seq) {
    for (size_t i = 0; i < n && i < c->info.n_batch; i++) c->ubatch_seq[i] = rows[i].seq;
    if (!c->info.has_kv || sk_cells_place_sorted(&c->cells, c->ubatch_seq, (uint32_t)n)) return true;
    /* name the first sequence that would be out of order */
    for (uint32_t k = 1; k <= n; k++) {
        if (!sk_cells_place_sorted(&c->cells, c->ubatch_seq, k)) {
            *bad_seq = rows[k - 1].seq;
            break;
        }
    }
    return false;
}

const float *sk_context_logits(sk_context *c, size_t row) {
    if (c->stage.gives) return NULL; /* the graph was stopped before its head */
    return llama_get_logits_ith(c->lc, (int32_t)row);
}
