#include "runtime/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml-backend.h>

#include "base/log.h"
#include "runtime/context_internal.h"

void sk_context_guard_range(sk_context *c, uint32_t seq, llama_pos from) {
    if (c->guard) llama_memory_seq_cp(c->mem, (llama_seq_id)seq, (llama_seq_id)(seq + c->guard), from, -1);
}

bool sk_context_native_rm(sk_context *c, uint32_t seq, llama_pos from) {
    if (c->guard) llama_memory_seq_rm(c->mem, (llama_seq_id)(seq + c->guard), from, -1);
    return llama_memory_seq_rm(c->mem, (llama_seq_id)seq, from, -1);
}

static const struct {
    const char *name;
    enum ggml_type type;
} kv_types[] = {
    {"f32", GGML_TYPE_F32},       {"f16", GGML_TYPE_F16},   {"bf16", GGML_TYPE_BF16},
    {"q8_0", GGML_TYPE_Q8_0},     {"q4_0", GGML_TYPE_Q4_0}, {"q4_1", GGML_TYPE_Q4_1},
    {"iq4_nl", GGML_TYPE_IQ4_NL}, {"q5_0", GGML_TYPE_Q5_0}, {"q5_1", GGML_TYPE_Q5_1},
};

static bool kv_type(const char *name, enum ggml_type *out) {
    if (!name || !*name) name = "f16";
    for (size_t i = 0; i < sizeof kv_types / sizeof *kv_types; i++) {
        if (strcmp(kv_types[i].name, name) == 0) {
            *out = kv_types[i].type;
            return true;
        }
    }
    return false;
}

bool sk_context_known_type(const char *name) {
    enum ggml_type t;
    return kv_type(name, &t);
}

static bool has_guards(const sk_model *m, const sk_context_params *p) {
    return p->swa_full && sk_model_get_info(m)->n_swa > 0 && p->n_seq_max > 1;
}

static int native_params(const sk_model *m, const sk_context_params *p, struct llama_context_params *out, sk_err *e) {
    const sk_model_info *mi = sk_model_get_info(m);
    struct llama_context_params cp = llama_context_default_params();
    if (!kv_type(p->type_k, &cp.type_k) || !kv_type(p->type_v, &cp.type_v))
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "KV cache type '%s' is not known; use f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl",
                          kv_type(p->type_k, &cp.type_k) ? p->type_v : p->type_k);
    if (mi->n_ctx_train > 0 && p->n_ctx > (uint32_t)mi->n_ctx_train && p->rope_freq_base <= 0 &&
        p->rope_freq_scale <= 0)
        return sk_err_set(
            e, SKIPPY_E_INVALID,
            "a context of %u tokens is larger than the model's %d; choose -c %d or less, or set --rope-freq-base or "
            "--rope-freq-scale if the model is meant to be stretched",
            p->n_ctx, mi->n_ctx_train, mi->n_ctx_train);
    cp.n_ctx = p->n_ctx;
    cp.n_batch = p->n_batch;
    cp.n_ubatch = p->n_ubatch;
    cp.n_seq_max = has_guards(m, p) ? 2 * p->n_seq_max : p->n_seq_max;
    cp.n_outputs_max = p->n_outputs > cp.n_seq_max ? p->n_outputs : cp.n_seq_max;
    cp.n_threads = p->n_threads;
    cp.n_threads_batch = p->n_threads_batch;
    cp.rope_freq_base = p->rope_freq_base;
    cp.rope_freq_scale = p->rope_freq_scale;
    cp.swa_full = p->swa_full;
    cp.kv_unified = true;
    cp.no_perf = true;
    *out = cp;
    return SKIPPY_OK;
}

static int apply_lora(sk_context *c, const sk_context_params *p, sk_err *e) {
    if (p->n_lora == 0) return SKIPPY_OK;
    /* its layers are numbered as in the whole model: they would be added to other layers without a word */
    if (sk_model_get_info(c->model)->stage.is_stage)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "adapters cannot be applied to a stage file");
    c->lora = calloc(p->n_lora, sizeof(struct llama_adapter_lora *));
    float *scales = calloc(p->n_lora, sizeof *scales);
    int rc = SKIPPY_OK;
    if (!c->lora || !scales) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for adapters");
        goto out;
    }
    for (size_t i = 0; i < p->n_lora; i++) {
        c->lora[i] = llama_adapter_lora_init(sk_model_native(c->model), p->lora[i].path);
        if (!c->lora[i]) {
            rc = sk_err_set(e, SKIPPY_E_MODEL, "adapter '%s' could not be loaded (missing, or not made for this model)",
                            p->lora[i].path);
            goto out;
        }
        c->n_lora = i + 1;
        scales[i] = p->lora[i].scale;
    }
    if (llama_set_adapters_lora(c->lc, c->lora, c->n_lora, scales) != 0)
        rc = sk_err_set(e, SKIPPY_E_RUNTIME, "the adapters could not be applied");
out:
    free(scales);
    return rc;
}

/* "auto" means on where it works: off changes the layout of V and costs bit exactness. */
static struct llama_context *create_native(const sk_model *m, struct llama_context_params *cp, int flash_attn,
                                           int *resolved) {
    struct llama_context *lc = NULL;
    if (flash_attn != 0) {
        cp->flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
        lc = llama_init_from_model(sk_model_native(m), *cp);
        *resolved = 1;
    }
    if (!lc && flash_attn != 1) {
        cp->flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
        lc = llama_init_from_model(sk_model_native(m), *cp);
        *resolved = 0;
    }
    return lc;
}

int sk_context_create(const sk_model *m, const sk_context_params *p, sk_context **out, sk_err *e) {
    const sk_model_info *mi = sk_model_get_info(m);
    struct llama_context_params cp;
    int rc = native_params(m, p, &cp, e);
    if (rc) return rc;
    sk_context *c = calloc(1, sizeof *c);
    if (!c) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    c->model = m;
    sk_stage_io_params(c, &cp);
    c->lc = create_native(m, &cp, p->flash_attn, &c->info.flash_attn);
    if (!c->lc) {
        rc = sk_err_set(
            e, SKIPPY_E_NOMEM,
            "llama.cpp could not create a context of %u cells with KV types %s/%s: not enough memory, or a combination "
            "that this model does not allow (a quantised V cache needs flash attention). Try a smaller -c",
            p->n_ctx, p->type_k && *p->type_k ? p->type_k : "f16", p->type_v && *p->type_v ? p->type_v : "f16");
        goto fail;
    }
    c->mem = llama_get_memory(c->lc);
    if (!c->mem) {
        rc = sk_err_set(e, SKIPPY_E_UNSUPPORTED, "the model has no sequence memory (it is not a text generator)");
        goto fail;
    }
    rc = apply_lora(c, p, e);
    if (rc) goto fail;
    c->info.n_ctx = llama_n_ctx(c->lc);
    c->info.n_batch = llama_n_batch(c->lc);
    c->info.n_ubatch = llama_n_ubatch(c->lc);
    c->info.n_seq_max = p->n_seq_max;
    c->guard = has_guards(m, p) ? p->n_seq_max : 0;
    c->info.recurrent = mi->facts.is_hybrid || mi->facts.is_recurrent;
    c->info.has_kv = !mi->facts.is_recurrent;
    c->info.n_swa = p->swa_full ? 0 : mi->n_swa;
    snprintf(c->info.type_k, sizeof c->info.type_k, "%s", p->type_k && *p->type_k ? p->type_k : "f16");
    snprintf(c->info.type_v, sizeof c->info.type_v, "%s", p->type_v && *p->type_v ? p->type_v : "f16");
    c->ubatch_seq = calloc(c->info.n_batch, sizeof *c->ubatch_seq);
    c->batch = llama_batch_init((int32_t)c->info.n_batch, 0, 1);
    if (!c->ubatch_seq || sk_cells_init(&c->cells, c->info.n_ctx, c->info.n_seq_max)) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
        goto fail;
    }
    rc = sk_stage_io_init(c, e);
    if (rc) goto fail;
    *out = c;
    return SKIPPY_OK;
fail:
    sk_context_free(c);
    return rc;
}

void sk_context_free(sk_context *c) {
    if (!c) return;
    if (c->batch.token) llama_batch_free(c->batch);
    if (c->lc) llama_free(c->lc);
    for (size_t i = 0; i < c->n_lora; i++) llama_adapter_lora_free(c->lora[i]);
    free(c->lora);
    free(c->ubatch_seq);
    sk_stage_io_free(c);
    sk_cells_free(&c->cells);
    free(c);
}

const sk_context_info *sk_context_get_info(const sk_context *c) {
    return &c->info;
}

void sk_runtime_abi(char *buf, size_t cap) {
    snprintf(buf, cap, "skippy-state-1; llama.cpp %s; %s", llama_version(), llama_print_system_info());
}

void sk_runtime_devices(char *buf, size_t cap) {
    size_t at = 0;
    buf[0] = '\0';
    for (size_t i = 0; i < ggml_backend_dev_count() && at < cap; i++) {
        int n = snprintf(buf + at, cap - at, "%s%s", i ? "+" : "", ggml_backend_dev_name(ggml_backend_dev_get(i)));
        at += n > 0 ? (size_t)n : 0;
    }
}

static size_t state_size(sk_context *c, llama_state_seq_flags flags) {
    return llama_state_seq_get_size_ext(c->lc, 0, flags);
}

int sk_context_probe_cost(const sk_model *m, const sk_context_params *p, sk_memory_cost *out, sk_err *e) {
    const sk_model_info *mi = sk_model_get_info(m);
    sk_context_params q = *p;
    q.n_ctx = 256;
    q.n_batch = q.n_ubatch = 32;
    q.n_seq_max = q.n_outputs = 1;
    q.n_lora = 0;
    *out = (sk_memory_cost){0};
    sk_context *c = NULL;
    struct llama_context_params unused;
    int rc = native_params(m, p, &unused, e); /* say what is wrong with the real context before measuring a small one */
    if (rc == SKIPPY_OK) rc = sk_context_create(m, &q, &c, e);
    if (rc) return rc;
    size_t total[2] = {0, 0}, partial[2] = {0, 0};
    sk_row row = {.token = sk_model_bos(m) >= 0 ? sk_model_bos(m) : 0, .seq = 0, .output = true};
    for (int i = 0; i < 2 && rc == SKIPPY_OK; i++) {
        rc = sk_context_decode(c, &row, 1, NULL, e);
        total[i] = state_size(c, 0);
        partial[i] = state_size(c, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
    }
    /* what grows with a token is the cell; what does not is the state, but a window grows to its full width first */
    out->cell = c->info.has_kv ? total[1] - total[0] : 0;
    if (c->info.recurrent)
        out->state = partial[1];
    else if (c->info.n_swa > 0)
        out->state = (partial[1] - partial[0]) * (uint64_t)mi->n_swa;
    sk_context_free(c);
    return rc;
}

/* ---- sequences ---- */

uint32_t sk_context_seq_len(const sk_context *c, uint32_t seq) {
    llama_pos p = llama_memory_seq_pos_max(c->mem, (llama_seq_id)seq);
    return p < 0 ? 0 : (uint32_t)p + 1;
}

void sk_context_seq_clear(sk_context *c, uint32_t seq) {
    sk_context_native_rm(c, seq, -1);
    sk_cells_rm(&c->cells, seq, 0);
}

void sk_context_clear(sk_context *c) {
    llama_memory_clear(c->mem, true);
    sk_cells_clear(&c->cells);
}

int sk_context_check_positions(const sk_context *c, uint32_t seq, uint32_t n, sk_err *e) {
    llama_pos lo = llama_memory_seq_pos_min(c->mem, (llama_seq_id)seq);
    llama_pos hi = llama_memory_seq_pos_max(c->mem, (llama_seq_id)seq);
    bool ok;
    if (n == 0) {
        ok = lo < 0 && hi < 0;
    } else {
        ok = hi == (llama_pos)n - 1 && lo >= 0 && lo <= hi;
        if (c->info.recurrent)
            ok = ok && lo == (llama_pos)n - 1;
        else if (c->info.n_swa > 0) {
            int64_t newest_needed = (int64_t)n - c->info.n_swa + 1;
            ok = ok && lo <= (newest_needed > 0 ? newest_needed : 0);
        } else
            ok = ok && lo == 0;
        if (c->info.has_kv) ok = ok && sk_cells_len(&c->cells, seq) == n;
    }
    if (!ok)
        return sk_err_set(e, SKIPPY_E_CORRUPT, "sequence %u holds positions %d..%d, which cannot be continued at %u",
                          seq, (int)lo, (int)hi, n);
    return SKIPPY_OK;
}

int sk_context_seq_trim(sk_context *c, uint32_t seq, uint32_t n, sk_err *e) {
    uint32_t len = sk_context_seq_len(c, seq);
    if (n == len) return SKIPPY_OK;
    if (n == 0) {
        sk_context_seq_clear(c, seq);
        return SKIPPY_OK;
    }
    if (n > len) return sk_err_set(e, SKIPPY_E_INVALID, "sequence %u has %u tokens, fewer than %u", seq, len, n);
    if (c->info.recurrent) return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "recurrent state cannot be cut back");
    if (c->info.n_swa > 0) {
        llama_pos lo = llama_memory_seq_pos_min(c->mem, (llama_seq_id)seq);
        int64_t newest_needed = (int64_t)n - c->info.n_swa + 1;
        if (lo < 0 || lo > (newest_needed > 0 ? newest_needed : 0))
            return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "the window cells that position %u needs are gone", n);
    }
    if (!sk_context_native_rm(c, seq, (llama_pos)n))
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "llama.cpp refused to cut sequence %u back to %u", seq, n);
    sk_cells_rm(&c->cells, seq, n);
    return SKIPPY_OK;
}

int sk_context_seq_copy(sk_context *c, uint32_t src, uint32_t dst, uint32_t n, sk_err *e) {
    if (src >= c->info.n_seq_max || dst >= c->info.n_seq_max || src == dst || n == 0)
        return sk_err_set(e, SKIPPY_E_INVALID, "cannot copy %u tokens of sequence %u to %u", n, src, dst);
    uint32_t len = sk_context_seq_len(c, src);
    if (n > len || (c->info.recurrent && n != len))
        return sk_err_set(e, SKIPPY_E_INVALID, "sequence %u has %u tokens, so %u cannot be taken", src, len, n);
    sk_context_seq_clear(c, dst);
    int rc = sk_cells_cp(&c->cells, src, dst, c->info.has_kv ? n : 0);
    if (rc) return sk_err_set(e, rc, "out of memory");
    bool whole = n == len;
    llama_memory_seq_cp(c->mem, (llama_seq_id)src, (llama_seq_id)dst, whole ? -1 : 0, whole ? -1 : (llama_pos)n);
    sk_context_guard_range(c, dst, -1);
    rc = sk_context_check_positions(c, dst, n, e);
    if (rc) sk_context_seq_clear(c, dst);
    return rc;
}

/* Replaces the window cells of dst, which it shares with src, by cells of its own (one more sequence in a window cell
 * keeps it from being reclaimed, and one snapshot can then stop the lane). */
static int detach_window(sk_context *c, uint32_t src, uint32_t dst, sk_err *e) {
    size_t size = llama_state_seq_get_size_ext(c->lc, (llama_seq_id)src, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY);
    uint8_t *blob = malloc(size ? size : 1);
    if (!blob) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu bytes of window state", size);
    int rc = SKIPPY_OK;
    if (llama_state_seq_get_data_ext(c->lc, blob, size, (llama_seq_id)src, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY) !=
            size ||
        llama_state_seq_set_data_ext(c->lc, blob, size, (llama_seq_id)dst, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY) != size)
        rc = sk_err_set(e, SKIPPY_E_FULL, "the window pool has no room for a snapshot of sequence %u", src);
    free(blob);
    return rc;
}

int sk_context_seq_snapshot(sk_context *c, uint32_t src, uint32_t dst, sk_err *e) {
    uint32_t n = sk_context_seq_len(c, src);
    int rc = sk_context_seq_copy(c, src, dst, n, e);
    if (rc || c->info.n_swa == 0) return rc;
    rc = detach_window(c, src, dst, e);
    if (rc == SKIPPY_OK) rc = sk_context_check_positions(c, dst, n, e);
    if (rc) sk_context_seq_clear(c, dst);
    return rc;
}

int sk_context_seq_relocate(sk_context *c, uint32_t seq, uint32_t extra_rows, sk_err *e) {
    /* an export keeps only the window, also of a full-size window cache */
    if (c->guard)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "window state cannot be moved without losing its older cells");
    /* an import keeps the order that the cells have, so it moves a sequence but does not sort it */
    if (!sk_cells_sorted(&c->cells, seq))
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "the cells of sequence %u are not in order", seq);
    int rc = sk_cells_try_relocate(&c->cells, seq, extra_rows);
    if (rc) return sk_err_set(e, rc, "sequence %u cannot be moved to ascending cells now", seq);
    uint32_t n = sk_context_seq_len(c, seq);
    size_t size = llama_state_seq_get_size(c->lc, (llama_seq_id)seq);
    uint8_t *blob = malloc(size);
    if (!blob) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu bytes of state", size);
    if (llama_state_seq_get_data(c->lc, blob, size, (llama_seq_id)seq) != size) {
        free(blob);
        return sk_err_set(e, SKIPPY_E_RUNTIME, "sequence %u could not be exported", seq);
    }
    /* the import removes the sequence first and then looks for cells, as the mirror does */
    rc = sk_cells_relocate(&c->cells, seq);
    sk_context_native_rm(c, seq, -1);
    if (rc == SKIPPY_OK && llama_state_seq_set_data(c->lc, blob, size, (llama_seq_id)seq) != size)
        rc = sk_err_set(e, SKIPPY_E_RUNTIME, "sequence %u could not be imported", seq);
    free(blob);
    sk_context_guard_range(c, seq, -1);
    if (rc == SKIPPY_OK) rc = sk_context_check_positions(c, seq, n, e);
    if (rc) sk_context_seq_clear(c, seq);
    return rc;
}

int sk_context_seq_export(sk_context *c, uint32_t seq, uint8_t **blob, size_t *len, sk_err *e) {
    size_t size = llama_state_seq_get_size(c->lc, (llama_seq_id)seq);
    uint8_t *b = malloc(size ? size : 1);
    if (!b) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for %zu bytes of state", size);
    if (llama_state_seq_get_data(c->lc, b, size, (llama_seq_id)seq) != size) {
        free(b);
        return sk_err_set(e, SKIPPY_E_RUNTIME, "sequence %u could not be exported", seq);
    }
    *blob = b;
    *len = size;
    return SKIPPY_OK;
}

/* ---- cells ---- */

uint32_t sk_context_cells_free(const sk_context *c) {
    return c->info.has_kv ? sk_cells_free_count(&c->cells) : UINT32_MAX;
}

uint32_t sk_context_cells_used(const sk_context *c) {
    return c->cells.used;
}

uint32_t sk_context_cells_span(const sk_context *c) {
    return c->cells.span;
}

uint32_t sk_context_cells_exclusive(const sk_context *c, uint32_t seq) {
    return sk_cells_exclusive(&c->cells, seq);
}

uint32_t sk_context_cells_union(const sk_context *c, const uint32_t *seqs, uint32_t n) {
    return sk_cells_union(&c->cells, seqs, n);
}

uint32_t sk_context_cell(const sk_context *c, uint32_t seq, uint32_t position) {
    return c->cells.seq[seq].cell[position];
}

bool sk_context_seq_sorted(const sk_context *c, uint32_t seq) {
    return sk_cells_sorted(&c->cells, seq);
}
