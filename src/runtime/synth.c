#include "runtime/synth.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "llama.h"
#include "runtime/synth_families.h"
#include "runtime/synth_file.h"
#include "runtime/synth_meta.h"
#include "runtime/synth_tensors.h"
#include "runtime/synth_vocab.h"

#ifndef SKIPPY_LLAMA_SRC
#define SKIPPY_LLAMA_SRC ""
#endif

#define DISK_RESERVE ((uint64_t)256 << 20) /* left free for everything else on the disk */
#define TEMPLATE_MAX ((size_t)1 << 20)

/* One run: what is derived from the parameters, and what must be cleaned up. */
typedef struct run {
    const sk_synth_params *p;
    const sk_synth_family *family;
    enum sk_synth_quant quant;
    const char *llama_src;
    char partial[PATH_MAX], plain[PATH_MAX];
    struct gguf_context *meta;
    sk_synth_vocab vocab;
    sk_synth_tensors tensors;
    uint32_t layers;
    /* llama.cpp's log while we run */
    ggml_log_callback old_log;
    void *old_log_ud;
    char last_error[256];
    uint64_t quantised;
} run;

const char *sk_synth_quant_name(enum sk_synth_quant quant) {
    static const char *const names[] = {"default", "f32", "f16", "q8_0", "q4_k_m"};
    return names[quant];
}

bool sk_synth_quant_parse(const char *text, enum sk_synth_quant *out) {
    for (int i = SK_SYNTH_DEFAULT; i <= SK_SYNTH_Q4_K_M; i++) {
        if (strcmp(text, sk_synth_quant_name((enum sk_synth_quant)i)) != 0) continue;
        *out = (enum sk_synth_quant)i;
        return true;
    }
    return false;
}

bool sk_synth_family_at(size_t i, sk_synth_family_info *out) {
    const sk_synth_family *f = sk_synth_family_get(i);
    if (f) *out = (sk_synth_family_info){f->name, f->arch, f->real_model, f->billions};
    return f != NULL;
}

int sk_synth_scratch_path(const char *out, int which, char *buf, size_t cap) {
    int n = snprintf(buf, cap, "%s%s", out, which == 0 ? ".partial" : ".unquantised.partial");
    return n >= 0 && (size_t)n < cap ? SKIPPY_OK : SKIPPY_E_TOO_SMALL;
}

/* ---- llama.cpp's log ---- */

/* Keeps the last error line for our own message. While quantising, llama.cpp reports each tensor as one line that
 * starts with "[ 12/ 290]"; that is the only progress it gives. */
static void on_log(enum ggml_log_level level, const char *text, void *ud) {
    run *r = ud;
    if (level == GGML_LOG_LEVEL_ERROR) {
        size_t n = strcspn(text, "\n");
        if (n > 0) snprintf(r->last_error, sizeof r->last_error, "%.*s", (int)(n < 250 ? n : 250), text);
    } else if (level == GGML_LOG_LEVEL_INFO && text[0] == '[' && r->p->progress) {
        uint64_t done = ++r->quantised;
        r->p->progress(r->p->progress_ud, SK_SYNTH_QUANTISE, done < r->tensors.n ? done : r->tensors.n, r->tensors.n);
    }
}

static int with_log_detail(const run *r, sk_err *err) {
    if (!err || err->code != SKIPPY_E_RUNTIME || r->last_error[0] == '\0') return err ? err->code : SKIPPY_E_RUNTIME;
    char text[sizeof err->text];
    snprintf(text, sizeof text, "%s", err->text);
    return sk_err_set(err, SKIPPY_E_RUNTIME, "%.200s: %s", text, r->last_error);
}

/* ---- parameters and files ---- */

static int choose(run *r, sk_err *err) {
    const sk_synth_params *p = r->p;
    if (!p->family || !p->out || !*p->out)
        return sk_err_set(err, SKIPPY_E_INVALID, "a family and an output file are needed");
    r->family = sk_synth_family_find(p->family);
    if (!r->family)
        return sk_err_set(err, SKIPPY_E_INVALID, "unknown family '%s'; 'skippy synth --list' names them", p->family);
    r->quant = p->quant;
    if (r->quant == SK_SYNTH_DEFAULT) r->quant = p->size == SK_SYNTH_TINY ? SK_SYNTH_F32 : SK_SYNTH_Q4_K_M;
    const char *env = getenv("LLAMA_CPP_SRC");
    r->llama_src = p->llama_src ? p->llama_src : env && *env ? env : SKIPPY_LLAMA_SRC;
    if (sk_synth_scratch_path(p->out, 0, r->partial, sizeof r->partial) != SKIPPY_OK ||
        sk_synth_scratch_path(p->out, 1, r->plain, sizeof r->plain) != SKIPPY_OK)
        return sk_err_set(err, SKIPPY_E_INVALID, "the output path is too long");
    return SKIPPY_OK;
}

static int check_target(const run *r, sk_err *err) {
    struct stat st;
    if (stat(r->p->out, &st) != 0) return SKIPPY_OK;
    if (S_ISDIR(st.st_mode)) return sk_err_set(err, SKIPPY_E_EXISTS, "'%s' is a directory; name a file", r->p->out);
    if (!r->p->force)
        return sk_err_set(err, SKIPPY_E_EXISTS, "'%s' exists; use --force to replace it, or choose another name",
                          r->p->out);
    return SKIPPY_OK;
}

/* Makes the empty partial file, so that a directory that takes no files is noticed before the long work. */
static int claim_output(const run *r, sk_err *err) {
    int fd = open(r->partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return sk_err_set(err, SKIPPY_E_IO, "cannot write '%s': %s", r->partial, strerror(errno));
    close(fd);
    return SKIPPY_OK;
}

/* Path of a file in the llama.cpp tree. */
static int tree_path(const run *r, const char *format, const char *name, char *buf, size_t cap, sk_err *err) {
    char tail[256];
    if (*r->llama_src == '\0')
        return sk_err_set(err, SKIPPY_E_INVALID,
                          "vocabularies and templates come from a llama.cpp source tree: give --llama-src DIR or set "
                          "LLAMA_CPP_SRC");
    snprintf(tail, sizeof tail, format, name);
    int n = snprintf(buf, cap, "%s/models/%s", r->llama_src, tail);
    return n >= 0 && (size_t)n < cap ? SKIPPY_OK : sk_err_set(err, SKIPPY_E_INVALID, "the llama.cpp path is too long");
}

static int read_text(const char *path, sk_buf *out, sk_err *err) {
    char chunk[4096];
    size_t n;
    FILE *f = fopen(path, "rb");
    if (!f) return sk_err_set(err, SKIPPY_E_NOT_FOUND, "cannot read '%s': %s", path, strerror(errno));
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0 && out->len <= TEMPLATE_MAX) sk_buf_add(out, chunk, n);
    bool bad = ferror(f) != 0;
    fclose(f);
    if (bad || out->len > TEMPLATE_MAX || out->len == 0)
        return sk_err_set(err, SKIPPY_E_INVALID, "'%s' is not a chat template (empty, over 1 MiB, or unreadable)",
                          path);
    return out->failed ? sk_err_set(err, SKIPPY_E_NOMEM, "out of memory while reading '%s'", path) : SKIPPY_OK;
}

/* ---- metadata ---- */

static const char CHATML[] = "{%- for message in messages -%}\n"
                             "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}\n"
                             "{%- endfor -%}\n"
                             "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}\n";

static int add_template(run *r, sk_err *err) {
    char path[PATH_MAX];
    sk_buf text = {0};
    int rc = SKIPPY_OK;
    if (r->p->template_file) {
        rc = read_text(r->p->template_file, &text, err);
    } else if (r->family->chat_template) {
        rc = tree_path(r, "templates/%s.jinja", r->family->chat_template, path, sizeof path, err);
        if (rc == SKIPPY_OK) rc = read_text(path, &text, err);
    } else {
        sk_buf_str(&text, CHATML);
        if (text.failed) rc = sk_err_set(err, SKIPPY_E_NOMEM, "out of memory");
    }
    if (rc == SKIPPY_OK) gguf_set_val_str(r->meta, "tokenizer.chat_template", text.data);
    sk_buf_free(&text);
    return rc;
}

static int add_tokenizer(run *r, sk_err *err) {
    char path[PATH_MAX], key[64];
    const sk_synth_family *f = r->family;
    bool tiny = r->p->size == SK_SYNTH_TINY;
    int rc = SKIPPY_OK;
    if (r->p->vocab_file)
        snprintf(path, sizeof path, "%s", r->p->vocab_file);
    else
        rc = tree_path(r, "ggml-vocab-%s.gguf", tiny ? f->tiny_vocab : f->vocab, path, sizeof path, err);
    if (rc != SKIPPY_OK) return rc;
    size_t wanted = r->p->vocab_file ? 0 : sk_synth_meta_u32(r->meta, f->arch, "vocab_size", 0);
    rc = tiny ? sk_synth_vocab_reduced(path, f->specials, &r->vocab, err)
              : sk_synth_vocab_full(path, f->specials, wanted, &r->vocab, err);
    if (rc != SKIPPY_OK) return rc;
    snprintf(key, sizeof key, "%s.vocab_size", f->arch);
    gguf_set_val_u32(r->meta, key, (uint32_t)r->vocab.n);
    /* The family's own pre-tokenizer does not belong to a file that the user chose. */
    return sk_synth_vocab_store(&r->vocab, f->specials, r->p->vocab_file ? NULL : f->pre, r->meta, err);
}

static void add_general(run *r) {
    char text[256];
    static const char *tags[] = {"synthetic", "random-weights"};
    const char *size = r->p->size == SK_SYNTH_TINY ? "tiny" : "shape";
    bool half = r->quant != SK_SYNTH_F32;
    gguf_set_val_str(r->meta, "general.architecture", r->family->arch);
    gguf_set_val_str(r->meta, "general.type", "model");
    snprintf(text, sizeof text, "synthetic %s %s (random weights, seed %llu)", r->family->name, size,
             (unsigned long long)r->p->seed);
    gguf_set_val_str(r->meta, "general.name", text);
    snprintf(text, sizeof text,
             "Synthetic model with random weights and the structure of %s (%s), made by 'skippy synth' for tests and "
             "benchmarks. Its text has no meaning.",
             r->family->real_model, size);
    gguf_set_val_str(r->meta, "general.description", text);
    gguf_set_arr_str(r->meta, "general.tags", tags, 2);
    gguf_set_val_u32(r->meta, "general.file_type", half ? LLAMA_FTYPE_MOSTLY_F16 : LLAMA_FTYPE_ALL_F32);
    gguf_set_val_u32(r->meta, "general.quantization_version", GGML_QNT_VERSION);
    gguf_set_val_str(r->meta, "skippy.synth.family", r->family->name);
    gguf_set_val_str(r->meta, "skippy.synth.size", size);
    gguf_set_val_u64(r->meta, "skippy.synth.seed", r->p->seed);
}

static int make_metadata(run *r, sk_err *err) {
    const sk_synth_family *f = r->family;
    bool tiny = r->p->size == SK_SYNTH_TINY;
    r->meta = gguf_init_empty();
    if (!r->meta) return sk_err_set(err, SKIPPY_E_NOMEM, "out of memory");
    add_general(r);
    int rc = sk_synth_meta_apply(r->meta, f->arch, tiny ? "context_length=u:4096" : "", err);
    if (rc == SKIPPY_OK) rc = sk_synth_meta_apply(r->meta, f->arch, tiny ? f->tiny : f->shape, err);
    if (rc == SKIPPY_OK) rc = sk_synth_meta_set_layers(r->meta, f->arch, r->p->layers, f->min_layers, err);
    if (rc == SKIPPY_OK) rc = add_tokenizer(r, err);
    if (rc == SKIPPY_OK) rc = add_template(r, err);
    r->layers = sk_synth_meta_u32(r->meta, f->arch, "block_count", 0);
    return rc;
}

/* ---- room ---- */

/* Weights of the experts that llama.cpp is not asked to build (synth_tensors.h); three matrices each. */
static double unlisted_weights(const struct gguf_context *g, const char *arch) {
    double experts = sk_synth_meta_u32(g, arch, "expert_count", 0);
    double layers = (double)sk_synth_meta_u32(g, arch, "block_count", 0) -
                    (double)sk_synth_meta_u32(g, arch, "leading_dense_block_count", 0);
    if (experts <= SK_SYNTH_LISTED_EXPERTS) return 0;
    return 3.0 * sk_synth_meta_u32(g, arch, "embedding_length", 0) *
           sk_synth_meta_u32(g, arch, "expert_feed_forward_length", 0) * (experts - SK_SYNTH_LISTED_EXPERTS) * layers;
}

/* llama.cpp reserves address space for every weight as F32, which the kernel refuses beyond physical memory. */
static int check_memory(const run *r, sk_err *err) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page <= 0 || r->p->size == SK_SYNTH_TINY) return SKIPPY_OK;
    sk_synth_family_info info = {r->family->name, r->family->arch, r->family->real_model, r->family->billions};
    struct gguf_context *full = gguf_init_empty();
    if (!full) return sk_err_set(err, SKIPPY_E_NOMEM, "out of memory");
    int rc = sk_synth_meta_apply(full, info.arch, r->family->shape, err);
    uint32_t own = sk_synth_meta_u32(full, info.arch, "block_count", 1);
    double listed = info.billions * 1e9 - unlisted_weights(full, info.arch);
    gguf_free(full);
    if (rc != SKIPPY_OK) return rc;
    double share = (double)r->layers / (double)(own ? own : 1);
    double need = listed * sizeof(float) * share, have = (double)pages * (double)page;
    if (need <= have) return SKIPPY_OK;
    return sk_err_set(
        err, SKIPPY_E_TOO_LARGE,
        "the %s shape with %u layers needs about %.0f GiB of address space for its tensor list, this machine "
        "has %.0f GiB of memory; ask for fewer layers (--layers)",
        info.name, r->layers, need / (1 << 30), have / (1 << 30));
}

static double quantised_bytes(const run *r) {
    double per_weight = r->quant == SK_SYNTH_Q4_K_M ? 0.70 : r->quant == SK_SYNTH_Q8_0 ? 1.07 : 0;
    return per_weight * (double)r->tensors.elements;
}

static int check_disk(const run *r, bool half, sk_err *err) {
    char dir[PATH_MAX];
    struct statvfs fs;
    snprintf(dir, sizeof dir, "%s", r->p->out);
    char *slash = strrchr(dir, '/');
    if (!slash)
        snprintf(dir, sizeof dir, ".");
    else
        slash[slash == dir] = '\0';
    if (statvfs(dir, &fs) != 0)
        return sk_err_set(err, SKIPPY_E_IO, "cannot use the directory '%s': %s", dir, strerror(errno));
    double need = (double)sk_synth_file_data_bytes(&r->tensors, half) + quantised_bytes(r) + (double)DISK_RESERVE;
    double have = (double)fs.f_bavail * (double)fs.f_frsize;
    if (need <= have) return SKIPPY_OK;
    return sk_err_set(err, SKIPPY_E_TOO_LARGE, "'%s' has %.1f GiB free, this model needs %.1f GiB while it is made",
                      dir, have / (1 << 30), need / (1 << 30));
}

/* ---- writing ---- */

static float rope_base(const run *r) {
    char key[64];
    snprintf(key, sizeof key, "%s.rope.freq_base", r->family->arch);
    int64_t id = gguf_find_key(r->meta, key);
    return id >= 0 ? gguf_get_val_f32(r->meta, id) : 10000.0f;
}

static bool is_quantised(const run *r) {
    return r->quant == SK_SYNTH_Q8_0 || r->quant == SK_SYNTH_Q4_K_M;
}

static int write_plain(run *r, uint64_t *bytes, sk_err *err) {
    /* Tiny files are quantised from F32: their size does not matter. */
    bool half = r->quant == SK_SYNTH_F16 || (is_quantised(r) && r->p->size == SK_SYNTH_SHAPE);
    int rc = check_disk(r, half, err);
    if (rc != SKIPPY_OK) return rc;
    sk_synth_job job = {.path = is_quantised(r) ? r->plain : r->partial,
                        .meta = r->meta,
                        .tensors = &r->tensors,
                        .vocab = &r->vocab,
                        .facts = {.arch = r->family->arch,
                                  .n_embd = sk_synth_meta_u32(r->meta, r->family->arch, "embedding_length", 1),
                                  .rope_base = rope_base(r),
                                  .tied = r->family->tied},
                        .seed = r->p->seed,
                        .half = half,
                        .progress = r->p->progress,
                        .progress_ud = r->p->progress_ud};
    return sk_synth_file_write(&job, bytes, err);
}

static int quantise(run *r, uint64_t *bytes, sk_err *err) {
    struct stat st;
    struct llama_model_quantize_params q = llama_model_quantize_default_params();
    q.nthread = r->p->n_threads > 0 ? r->p->n_threads : 2;
    q.ftype = r->quant == SK_SYNTH_Q8_0 ? LLAMA_FTYPE_MOSTLY_Q8_0 : LLAMA_FTYPE_MOSTLY_Q4_K_M;
    if (llama_model_quantize(r->plain, r->partial, &q) != 0)
        return sk_err_set(err, SKIPPY_E_RUNTIME, "llama.cpp could not quantise the model to %s",
                          sk_synth_quant_name(r->quant));
    if (stat(r->partial, &st) != 0)
        return sk_err_set(err, SKIPPY_E_IO, "cannot find '%s' after quantising: %s", r->partial, strerror(errno));
    *bytes = (uint64_t)st.st_size;
    return SKIPPY_OK;
}

static int make_file(run *r, uint64_t *bytes, sk_err *err) {
    int rc = make_metadata(r, err);
    if (rc == SKIPPY_OK) rc = check_memory(r, err);
    if (rc == SKIPPY_OK) rc = sk_synth_tensors_list(r->meta, r->family, &r->tensors, err);
    if (rc == SKIPPY_OK) rc = write_plain(r, bytes, err);
    if (rc == SKIPPY_OK && is_quantised(r)) rc = quantise(r, bytes, err);
    if (rc == SKIPPY_OK) rc = check_target(r, err); /* somebody may have made the file meanwhile */
    if (rc == SKIPPY_OK && rename(r->partial, r->p->out) != 0)
        rc = sk_err_set(err, SKIPPY_E_IO, "cannot rename '%s': %s", r->partial, strerror(errno));
    if (rc == SKIPPY_E_RUNTIME) rc = with_log_detail(r, err);
    return rc;
}

int sk_synth_write(const sk_synth_params *p, sk_synth_result *result, sk_err *err) {
    sk_err local = {0};
    if (!err) err = &local;
    uint64_t bytes = 0;
    run *r = calloc(1, sizeof *r); /* two paths: too large for the stack of a small thread */
    if (!r) return sk_err_set(err, SKIPPY_E_NOMEM, "out of memory");
    r->p = p;
    int rc = choose(r, err);
    if (rc == SKIPPY_OK) rc = check_target(r, err);
    if (rc == SKIPPY_OK) rc = claim_output(r, err);
    if (rc != SKIPPY_OK) goto out;
    llama_log_get(&r->old_log, &r->old_log_ud);
    llama_log_set(on_log, r);
    rc = make_file(r, &bytes, err);
    llama_log_set(r->old_log, r->old_log_ud);
    unlink(r->plain);
    if (rc != SKIPPY_OK)
        unlink(r->partial);
    else if (result)
        *result = (sk_synth_result){.file_bytes = bytes,
                                    .parameters = r->tensors.elements,
                                    .tensors = r->tensors.n,
                                    .layers = r->layers,
                                    .vocab = (uint32_t)r->vocab.n,
                                    .quant = r->quant};
    sk_synth_tensors_free(&r->tensors);
    sk_synth_vocab_free(&r->vocab);
    if (r->meta) gguf_free(r->meta);
out:
    free(r);
    return rc;
}
