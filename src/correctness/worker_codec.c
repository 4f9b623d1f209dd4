#include "correctness/worker_codec.h"

#include <stdlib.h>
#include <string.h>

/* ---- requests ---- */

static void write_parcel(sk_buf *b, const sk_parcel *p) {
    sk_wire_put_u64(b, p->kind);
    sk_wire_put_u64(b, p->n_tokens);
    sk_wire_put_u64(b, p->forced);
    sk_wire_put_u64(b, p->n_parts);
    for (size_t i = 0; i < p->n_parts; i++) {
        sk_wire_put_u64(b, (uint64_t)p->part[i].kind);
        sk_wire_put_u64(b, p->part[i].from);
        sk_wire_put_u64(b, p->part[i].to);
        sk_wire_put_bytes(b, p->part[i].data, p->part[i].len);
    }
}

static void read_parcel(sk_wire_reader *r, sk_parcel *p) {
    p->kind = (enum skippy_payload_kind)sk_wire_get_u64(r);
    p->n_tokens = (uint32_t)sk_wire_get_u64(r);
    p->forced = sk_wire_get_u64(r) != 0;
    uint64_t n = sk_wire_get_u64(r);
    if (n > SK_PARCEL_MAX_PARTS) r->failed = true;
    for (uint64_t i = 0; !r->failed && i < n; i++) {
        sk_state_part *part = &p->part[i];
        part->kind = (int)sk_wire_get_u64(r);
        part->from = (uint32_t)sk_wire_get_u64(r);
        part->to = (uint32_t)sk_wire_get_u64(r);
        part->data = sk_wire_get_bytes(r, &part->len);
    }
    p->n_parts = r->failed ? 0 : (size_t)n;
}

static void write_rig(sk_buf *b, const sk_rig_params *p) {
    sk_wire_put_u64(b, p->n_ctx);
    sk_wire_put_u64(b, (uint64_t)p->n_threads);
    sk_wire_put_u64(b, (uint64_t)(int64_t)p->flash_attn);
    sk_wire_put_text(b, p->type_k);
    sk_wire_put_text(b, p->type_v);
    sk_wire_put_u64(b, p->swa_full);
}

/* What a stage is fed; no positions for a whole model. */
static void write_script(sk_buf *b, const sk_stage_script *s) {
    static const sk_stage_script none = {0};
    if (!s) s = &none;
    sk_wire_put_u64(b, s->n);
    sk_wire_put_u64(b, s->width);
    sk_wire_put_bytes(b, s->tokens, s->n * sizeof *s->tokens);
    sk_wire_put_bytes(b, s->hidden, s->hidden ? (size_t)s->n * s->width * sizeof *s->hidden : 0);
}

static void read_rig(sk_wire_reader *r, sk_worker_job *j) {
    sk_rig_params *p = &j->request.rig;
    p->n_ctx = (uint32_t)sk_wire_get_u64(r);
    p->n_threads = (int32_t)sk_wire_get_u64(r);
    p->flash_attn = (int)(int64_t)sk_wire_get_u64(r);
    sk_wire_get_text(r, j->type_k, sizeof j->type_k);
    sk_wire_get_text(r, j->type_v, sizeof j->type_v);
    p->swa_full = sk_wire_get_u64(r) != 0;
    p->type_k = j->type_k;
    p->type_v = j->type_v;
}

void sk_worker_write_request(sk_buf *b, const sk_worker_request *q) {
    sk_wire_begin(b);
    sk_wire_put_text(b, q->model_path);
    sk_wire_put_u64(b, (uint64_t)(int64_t)q->n_gpu_layers);
    write_rig(b, &q->rig);
    sk_wire_put_u64(b, q->rows.multiple);
    sk_wire_put_u64(b, q->rows.max_rows);
    sk_wire_put_u64(b, q->rows.aligned);
    sk_buf_add(b, q->layout.bytes, sizeof q->layout.bytes);
    sk_wire_put_u64(b, q->n_prefix);
    sk_wire_put_u64(b, q->repeats);
    sk_wire_put_bytes(b, q->tokens, (q->n_prefix + (size_t)SK_TRIAL_SUFFIX) * sizeof *q->tokens);
    write_script(b, q->rig.script);
    write_parcel(b, q->parcel);
    sk_wire_seal(b);
}

/* Copies: the container aligns nothing. */
static int read_script(sk_wire_reader *r, sk_worker_job *j, sk_err *e) {
    sk_stage_script *s = &j->script;
    size_t n_tokens = 0, n_hidden = 0;
    s->n = (uint32_t)sk_wire_get_u64(r);
    s->width = (uint32_t)sk_wire_get_u64(r);
    const void *tokens = sk_wire_get_bytes(r, &n_tokens), *hidden = sk_wire_get_bytes(r, &n_hidden);
    if (r->failed || n_tokens != s->n * sizeof *s->tokens ||
        (n_hidden && n_hidden != (uint64_t)s->n * s->width * sizeof *s->hidden))
        return sk_err_set(e, SKIPPY_E_CORRUPT, "the request's script is damaged");
    if (s->n == 0) return SKIPPY_OK;
    s->tokens = malloc(n_tokens);
    s->hidden = n_hidden ? malloc(n_hidden) : NULL;
    if (!s->tokens || (n_hidden && !s->hidden)) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    memcpy(s->tokens, tokens, n_tokens);
    if (n_hidden) memcpy(s->hidden, hidden, n_hidden);
    j->request.rig.script = s;
    return SKIPPY_OK;
}

/* Tokens are copied, too. */
static int read_tokens(sk_wire_reader *r, sk_worker_job *j, sk_err *e) {
    size_t bytes = 0, expected = (j->request.n_prefix + (size_t)SK_TRIAL_SUFFIX) * sizeof *j->tokens;
    const void *data = sk_wire_get_bytes(r, &bytes);
    if (bytes != expected) return sk_err_set(e, SKIPPY_E_CORRUPT, "the request holds %zu bytes of tokens", bytes);
    j->tokens = malloc(bytes);
    if (!j->tokens) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    memcpy(j->tokens, data, bytes);
    j->request.tokens = j->tokens;
    return SKIPPY_OK;
}

int sk_worker_read_request(const void *data, size_t len, sk_worker_job *out, sk_err *e) {
    sk_wire_reader r;
    *out = (sk_worker_job){0};
    sk_worker_request *q = &out->request;
    int rc = sk_wire_open(data, len, &r, e);
    if (rc) return rc;
    sk_wire_get_text(&r, out->model_path, sizeof out->model_path);
    q->model_path = out->model_path;
    q->n_gpu_layers = (int32_t)(int64_t)sk_wire_get_u64(&r);
    read_rig(&r, out);
    q->rows.multiple = (uint32_t)sk_wire_get_u64(&r);
    q->rows.max_rows = (uint32_t)sk_wire_get_u64(&r);
    q->rows.aligned = sk_wire_get_u64(&r) != 0;
    sk_wire_get_exact(&r, q->layout.bytes, sizeof q->layout.bytes);
    q->n_prefix = (uint32_t)sk_wire_get_u64(&r);
    q->repeats = (uint32_t)sk_wire_get_u64(&r);
    rc = read_tokens(&r, out, e);
    if (rc == SKIPPY_OK) rc = read_script(&r, out, e);
    if (rc) {
        sk_worker_job_free(out);
        return rc;
    }
    read_parcel(&r, &out->parcel);
    q->parcel = &out->parcel;
    if (sk_wire_done(&r)) return SKIPPY_OK;
    sk_worker_job_free(out);
    return sk_err_set(e, SKIPPY_E_CORRUPT, "the request does not have the fields of this version");
}

void sk_worker_job_free(sk_worker_job *j) {
    free(j->tokens);
    sk_stage_script_free(&j->script);
    *j = (sk_worker_job){0};
}

/* ---- answers ---- */

static size_t row_bytes(const sk_trial *t) {
    return (SK_ROW_HITS + (size_t)t->repeats) * t->n_vocab * sizeof *t->rows;
}

void sk_worker_write_answer(sk_buf *b, const sk_err *status, const sk_trial *t) {
    sk_wire_begin(b);
    sk_wire_put_u64(b, (uint64_t)status->code);
    sk_wire_put_text(b, status->text);
    if (status->code == SKIPPY_OK) {
        sk_wire_put_bytes(b, t->rows, row_bytes(t));
        sk_buf_add(b, t->greedy, sizeof t->greedy);
        sk_buf_add(b, t->lead, sizeof t->lead);
        sk_buf_add(b, t->state.bytes, sizeof t->state.bytes);
        sk_wire_put_u64(b, t->state_bytes);
        sk_wire_put_f64(b, t->export_ms);
        sk_buf_add(b, t->import_ms, sizeof t->import_ms);
        sk_buf_add(b, t->decode_ms, sizeof t->decode_ms);
    }
    sk_wire_seal(b);
}

static int read_trial(sk_wire_reader *r, sk_trial *t, sk_err *e) {
    size_t bytes = 0;
    const void *rows = sk_wire_get_bytes(r, &bytes);
    if (bytes != row_bytes(t))
        return sk_err_set(e, SKIPPY_E_CORRUPT, "the fresh process answered with %zu bytes of logits, not %zu", bytes,
                          row_bytes(t));
    memcpy(t->rows, rows, bytes);
    sk_wire_get_exact(r, t->greedy, sizeof t->greedy);
    sk_wire_get_exact(r, t->lead, sizeof t->lead);
    sk_wire_get_exact(r, t->state.bytes, sizeof t->state.bytes);
    t->state_bytes = sk_wire_get_u64(r);
    t->export_ms = sk_wire_get_f64(r);
    sk_wire_get_exact(r, t->import_ms, sizeof t->import_ms);
    sk_wire_get_exact(r, t->decode_ms, sizeof t->decode_ms);
    return SKIPPY_OK;
}

int sk_worker_read_answer(const void *data, size_t len, sk_trial *t, sk_err *e) {
    sk_wire_reader r;
    char words[sizeof e->text];
    int rc = sk_wire_open(data, len, &r, e);
    if (rc) return rc;
    uint64_t status = sk_wire_get_u64(&r);
    sk_wire_get_text(&r, words, sizeof words);
    if (!r.failed && status != SKIPPY_OK)
        return sk_err_set(e, status <= SKIPPY_E_TOO_SMALL ? (int)status : SKIPPY_E_CORRUPT, "%s", words);
    rc = read_trial(&r, t, e);
    if (rc) return rc;
    return sk_wire_done(&r) ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_CORRUPT, "the fresh process's answer lacks fields");
}
