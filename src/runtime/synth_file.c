#include "runtime/synth_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml.h"

#define CHUNK_ELEMENTS ((size_t)1 << 20)

/* End-of-generation, special and reserved tokens and pieces of characters get output rows that are nearly zero, so
 * their logits are about 0 while the best of the others is several deviations above it. Otherwise greedy text of a
 * random model would stop at a random place, or not be text. */
#define SILENT_SCALE 0.02f

typedef struct writer {
    const sk_synth_job *job;
    FILE *file;
    float *values;
    ggml_fp16_t *halves;
    uint64_t done, total;
} writer;

static enum ggml_type type_of(const sk_synth_tensor *t, bool half) {
    return half && t->matrix ? GGML_TYPE_F16 : GGML_TYPE_F32;
}

static uint64_t padded(uint64_t bytes) {
    return (bytes + GGUF_DEFAULT_ALIGNMENT - 1) / GGUF_DEFAULT_ALIGNMENT * GGUF_DEFAULT_ALIGNMENT;
}

static uint64_t tensor_bytes(const sk_synth_tensor *t, bool half) {
    return sk_synth_tensor_elements(t) * (type_of(t, half) == GGML_TYPE_F16 ? sizeof(ggml_fp16_t) : sizeof(float));
}

uint64_t sk_synth_file_data_bytes(const sk_synth_tensors *t, bool half) {
    uint64_t sum = 0;
    for (size_t i = 0; i < t->n; i++) sum += padded(tensor_bytes(&t->v[i], half));
    return sum;
}

static int io_error(const sk_synth_job *job, sk_err *err) {
    return sk_err_set(err, SKIPPY_E_IO, "cannot write '%s': %s", job->path, strerror(errno));
}

/* Tensor descriptions go through a ggml context without memory for data. */
static bool describe(const sk_synth_job *job) {
    struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * (job->tensors->n + 1), .no_alloc = true};
    struct ggml_context *ctx = ggml_init(params);
    if (!ctx) return false;
    for (size_t i = 0; i < job->tensors->n; i++) {
        const sk_synth_tensor *t = &job->tensors->v[i];
        struct ggml_tensor *d = ggml_new_tensor(ctx, type_of(t, job->half), t->n_dims, t->ne);
        ggml_set_name(d, t->name);
        gguf_add_tensor(job->meta, d);
    }
    ggml_free(ctx);
    return true;
}

static bool is_output_matrix(const sk_synth_job *job, const sk_synth_tensor *t) {
    return strcmp(t->name, job->facts.tied ? "token_embd.weight" : "output.weight") == 0;
}

static void silence(const writer *w, const sk_synth_tensor *t, uint64_t first, size_t n) {
    uint64_t width = (uint64_t)t->ne[0];
    for (size_t i = 0; i < n; i++)
        if (sk_synth_vocab_is_silent(w->job->vocab, (size_t)((first + i) / width))) w->values[i] *= SILENT_SCALE;
}

static bool put_chunk(writer *w, const sk_synth_tensor *t, size_t n) {
    if (type_of(t, w->job->half) == GGML_TYPE_F32) return fwrite(w->values, sizeof(float), n, w->file) == n;
    ggml_fp32_to_fp16_row(w->values, w->halves, (int64_t)n);
    return fwrite(w->halves, sizeof(ggml_fp16_t), n, w->file) == n;
}

static int write_tensor(writer *w, const sk_synth_tensor *t, sk_err *err) {
    static const char zeros[GGUF_DEFAULT_ALIGNMENT];
    const sk_synth_job *job = w->job;
    sk_synth_rule rule = sk_synth_rule_for(&job->facts, t->name, t->ne);
    uint64_t key = sk_synth_key(job->seed, t->name), n_total = sk_synth_tensor_elements(t);
    uint64_t bytes = tensor_bytes(t, job->half), start = w->done;
    for (uint64_t first = 0; first < n_total; first += CHUNK_ELEMENTS) {
        size_t n = n_total - first < CHUNK_ELEMENTS ? (size_t)(n_total - first) : CHUNK_ELEMENTS;
        sk_synth_fill(&rule, key, first, n, n_total, w->values);
        if (is_output_matrix(job, t)) silence(w, t, first, n);
        if (!put_chunk(w, t, n)) return io_error(job, err);
        w->done = start + (first + n) * (bytes / n_total);
        if (job->progress && !job->progress(job->progress_ud, SK_SYNTH_WRITE, w->done, w->total))
            return sk_err_set(err, SKIPPY_E_CANCELLED, "stopped while writing '%s'", job->path);
    }
    size_t pad = (size_t)(padded(bytes) - bytes);
    if (fwrite(zeros, 1, pad, w->file) != pad) return io_error(job, err);
    w->done = start + padded(bytes);
    return SKIPPY_OK;
}

static int write_all(writer *w, sk_err *err) {
    const sk_synth_job *job = w->job;
    if (!gguf_write_to_file_ptr(job->meta, w->file, true)) return io_error(job, err);
    for (size_t i = 0; i < job->tensors->n; i++) {
        int rc = write_tensor(w, &job->tensors->v[i], err);
        if (rc != SKIPPY_OK) return rc;
    }
    return fflush(w->file) == 0 ? SKIPPY_OK : io_error(job, err);
}

int sk_synth_file_write(const sk_synth_job *job, uint64_t *file_bytes, sk_err *err) {
    int rc = SKIPPY_E_NOMEM;
    writer w = {.job = job, .total = sk_synth_file_data_bytes(job->tensors, job->half)};
    w.values = malloc(CHUNK_ELEMENTS * sizeof *w.values);
    w.halves = malloc(CHUNK_ELEMENTS * sizeof *w.halves);
    if (!w.values || !w.halves || !describe(job)) {
        sk_err_set(err, rc, "out of memory while writing '%s'", job->path);
        goto out;
    }
    w.file = fopen(job->path, "wb");
    if (!w.file) {
        rc = io_error(job, err);
        goto out;
    }
    rc = write_all(&w, err);
    long end = ftell(w.file);
    if (fclose(w.file) != 0 && rc == SKIPPY_OK) rc = io_error(job, err);
    *file_bytes = end > 0 ? (uint64_t)end : 0;
out:
    free(w.halves);
    free(w.values);
    return rc;
}
