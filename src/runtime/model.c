#include "runtime/model.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml-backend.h>
#include <llama.h>

#include "runtime/apart.h"
#include "runtime/gguf_check.h"
#include "runtime/host_memory.h"
#include "runtime/huge_pages.h"
#include "runtime/native_log.h"
#include "runtime/slice.h"

struct sk_model {
    struct llama_model *native;
    const struct llama_vocab *vocab;
    bool has_text; /* false for a stage slice without tokenizer: llama.cpp would abort on every text call */
    int32_t *eog;  /* collected once: asking for each of 100,000 tokens per request would cost milliseconds */
    size_t n_eog;
    sk_model_info info;
};

static void init_once(void) {
    sk_native_log_install();
    llama_backend_init();
    /* Only a build with loadable backends starts without any. Otherwise stay away: it also looks into the working
     * directory, and a library that lies there is not to be trusted. */
    if (ggml_backend_reg_count() == 0) ggml_backend_load_all();
}

void sk_runtime_init(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_once);
}

/* Refuses what clearly cannot work; a model that only might not fit is tried. With mmap the kernel may drop weights
 * again, so only the whole limit counts; without it every byte must be there at once. */
static int check_memory(const sk_model_params *p, uint64_t bytes, sk_err *e) {
    if (p->vocab_only || p->facts_only) return SKIPPY_OK;
    if (p->n_gpu_layers != 0 && llama_supports_gpu_offload()) return SKIPPY_OK; /* weights go to the device */
    sk_host_memory host;
    sk_host_memory_read("", &host);
    if (p->memory_limit) host.total = host.available = p->memory_limit;
    uint64_t limit = p->no_mmap ? host.available : host.total;
    if (limit == 0 || bytes <= limit) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_NOMEM,
                      "the model needs %" PRIu64 " MiB for its weights alone, but %s %" PRIu64
                      " MiB; use a smaller quantisation or a machine with more memory",
                      bytes >> 20, p->no_mmap ? "only this much memory is available:" : "this process may use only",
                      limit >> 20);
}

typedef struct load_watch {
    const sk_model_params *params;
    bool stopped;
} load_watch;

static bool on_progress(float fraction, void *ud) {
    load_watch *w = ud;
    if (!w->params->progress || w->params->progress(w->params->progress_ud, fraction)) return true;
    w->stopped = true;
    return false;
}

static int load_error(const sk_model_params *p, const sk_gguf_facts *facts, const load_watch *watch, sk_err *e) {
    char reason[400];
    if (watch->stopped) return sk_err_set(e, SKIPPY_E_CANCELLED, "loading %.250s was stopped", p->path);
    sk_native_log_errors(reason, sizeof reason);
    if (strstr(reason, "unknown model architecture"))
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                          "%.250s: this build of llama.cpp does not know the architecture '%s'", p->path, facts->arch);
    return sk_err_set(e, SKIPPY_E_MODEL, "llama.cpp could not load %.200s: %.280s", p->path,
                      reason[0] ? reason : "it gave no reason");
}

typedef struct native_load {
    const sk_model_params *params;
    const sk_gguf_facts *facts;
    struct llama_model **out;
    sk_err *e;
} native_load;

static int do_load(void *ud) {
    const native_load *n = ud;
    const sk_model_params *p = n->params;
    load_watch watch = {.params = p};
    struct llama_model_params mp = llama_model_default_params();
    mp.n_gpu_layers = p->n_gpu_layers;
    mp.no_alloc = p->facts_only; /* llama.cpp asks for reading without mmap then */
    mp.load_mode = p->no_mmap || p->facts_only ? LLAMA_LOAD_MODE_NONE : LLAMA_LOAD_MODE_MMAP;
    mp.vocab_only = p->vocab_only;
    mp.progress_callback = on_progress;
    mp.progress_callback_user_data = &watch;
    sk_native_log_clear();
    *n->out = llama_model_load_from_file(p->path, mp);
    return *n->out ? SKIPPY_OK : load_error(p, n->facts, &watch, n->e);
}

/* Weights are packed anew with all processors while they are loaded. */
static int load_native(const sk_model_params *p, const sk_gguf_facts *facts, struct llama_model **out, sk_err *e) {
    native_load n = {.params = p, .facts = facts, .out = out, .e = e};
    return sk_run_apart(do_load, &n);
}

/* The name people know a file by: its last component without .gguf. */
static void file_title(const char *path, char *buf, size_t cap) {
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    size_t n = strlen(base);
    if (n > 5 && strcmp(base + n - 5, ".gguf") == 0) n -= 5;
    snprintf(buf, cap, "%.*s", (int)n, base);
}

static void fill_identity(sk_model *m, const sk_model_params *p) {
    sk_model_info *i = &m->info;
    snprintf(i->path, sizeof i->path, "%s", p->path);
    if (!sk_model_meta(m, "general.name", i->name, sizeof i->name)) i->name[0] = 0;
    if (p->alias && p->alias[0])
        snprintf(i->id, sizeof i->id, "%s", p->alias);
    else if (i->name[0])
        snprintf(i->id, sizeof i->id, "%s", i->name);
    else
        file_title(p->path, i->id, sizeof i->id);
    llama_model_desc(m->native, i->desc, sizeof i->desc);
}

static void fill_facts(sk_model *m, const sk_gguf_facts *file) {
    sk_model_info *i = &m->info;
    memcpy(i->arch, file->arch, sizeof i->arch);
    i->n_vocab = llama_vocab_n_tokens(m->vocab);
    i->n_embd = llama_model_n_embd(m->native);
    i->n_layer = llama_model_n_layer(m->native);
    i->n_ctx_train = llama_model_n_ctx_train(m->native);
    i->n_swa = llama_model_n_swa(m->native);
    i->size_bytes = llama_model_size(m->native);
    i->n_params = llama_model_n_params(m->native);
    i->facts = (sk_family_facts){
        .arch = i->arch,
        .is_hybrid = llama_model_is_hybrid(m->native),
        .is_recurrent = llama_model_is_recurrent(m->native),
        .is_diffusion = llama_model_is_diffusion(m->native),
        .has_encoder = llama_model_has_encoder(m->native),
        .has_decoder = llama_model_has_decoder(m->native),
        .n_swa = i->n_swa,
        .n_tensors = (size_t)file->n_tensors,
        .stateful_tensors = (size_t)file->stateful_tensors,
    };
}

static int32_t meta_number(const sk_model *m, const char *key) {
    char text[32];
    char *end = text;
    if (!sk_model_meta(m, key, text, sizeof text)) return -1;
    unsigned long v = strtoul(text, &end, 10);
    return *end || end == text || v > INT32_MAX ? -1 : (int32_t)v;
}

/* A stage file says where its layers come from (docs/formats/stage-file.md). */
static int fill_stage(sk_model *m, sk_err *e) {
    sk_stage_facts *s = &m->info.stage;
    char version[32];
    *s = (sk_stage_facts){
        .first = true, .last = true, .layer_end = m->info.n_layer, .n_layer = m->info.n_layer, .width = m->info.n_embd};
    if (!sk_model_meta(m, "skippy.stage.version", version, sizeof version)) return SKIPPY_OK;
    s->is_stage = true;
    s->layer_start = meta_number(m, "skippy.stage.layer_start");
    s->layer_end = meta_number(m, "skippy.stage.layer_end");
    s->n_layer = meta_number(m, "skippy.stage.layer_count");
    s->first = s->layer_start == 0;
    s->last = s->layer_end == s->n_layer;
    sk_model_meta(m, "skippy.stage.source", s->source, sizeof s->source);
    sk_model_meta(m, "skippy.stage.source_name", s->source_name, sizeof s->source_name);
    if (meta_number(m, "skippy.stage.version") != SK_SLICE_VERSION)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED,
                          "%.250s is a stage file of version %s, this program reads version %d; make it again",
                          m->info.path, version, SK_SLICE_VERSION);
    if (s->layer_start < 0 || s->layer_end > s->n_layer || s->layer_end - s->layer_start != m->info.n_layer ||
        meta_number(m, "skippy.stage.width") != s->width)
        return sk_err_set(e, SKIPPY_E_MODEL,
                          "%.250s says that it holds layers %d..%d of %d, but it has %d layers; make it again",
                          m->info.path, s->layer_start, s->layer_end, s->n_layer, m->info.n_layer);
    return SKIPPY_OK;
}

static bool collect_eog(sk_model *m) {
    if (!m->has_text) return true;
    size_t n = 0;
    for (int32_t t = 0; t < m->info.n_vocab; t++) n += llama_vocab_is_eog(m->vocab, t);
    if (n == 0) return true;
    m->eog = malloc(n * sizeof *m->eog);
    if (!m->eog) return false;
    for (int32_t t = 0; t < m->info.n_vocab; t++) {
        if (llama_vocab_is_eog(m->vocab, t)) m->eog[m->n_eog++] = t;
    }
    return true;
}

static int check_before_load(const sk_model_params *p, sk_gguf_facts *facts, sk_err *e) {
    if (!p->path || !p->path[0]) return sk_err_set(e, SKIPPY_E_INVALID, "no model file was named");
    int rc = sk_gguf_check_file(p->path, facts, e);
    if (rc != SKIPPY_OK) return rc;
    if (facts->arch[0] == 0)
        return sk_err_set(e, SKIPPY_E_MODEL, "%.250s names no architecture; it is not a language model", p->path);
    if (facts->n_tensors == 0 && !p->vocab_only)
        return sk_err_set(e, SKIPPY_E_MODEL, "%.250s has a vocabulary but no weights", p->path);
    return check_memory(p, facts->file_bytes, e);
}

int sk_model_load(const sk_model_params *p, sk_model **out, sk_err *e) {
    sk_gguf_facts facts;
    *out = NULL;
    sk_runtime_init();
    int rc = check_before_load(p, &facts, e);
    if (rc != SKIPPY_OK) return rc;
    sk_huge_pages_ask(p->huge_pages);
    sk_model *m = calloc(1, sizeof *m);
    if (!m) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    rc = load_native(p, &facts, &m->native, e);
    if (rc != SKIPPY_OK) {
        free(m);
        return rc;
    }
    m->vocab = llama_model_get_vocab(m->native);
    m->has_text = llama_vocab_type(m->vocab) != LLAMA_VOCAB_TYPE_NONE;
    fill_facts(m, &facts);
    fill_identity(m, p);
    rc = fill_stage(m, e);
    if (rc == SKIPPY_OK && !collect_eog(m)) rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    if (rc != SKIPPY_OK) {
        sk_model_free(m);
        return rc;
    }
    *out = m;
    return SKIPPY_OK;
}

void sk_model_free(sk_model *m) {
    if (!m) return;
    llama_model_free(m->native);
    free(m->eog);
    free(m);
}

const sk_model_info *sk_model_get_info(const sk_model *m) {
    return &m->info;
}

void *sk_model_native(const sk_model *m) {
    return m->native;
}

bool sk_model_meta(const sk_model *m, const char *key, char *buf, size_t cap) {
    return llama_model_meta_val_str(m->native, key, buf, cap) >= 0;
}

const char *sk_model_chat_template(const sk_model *m) {
    return llama_model_chat_template(m->native, NULL);
}

int sk_model_tokenize(const sk_model *m, const char *text, size_t len, bool add_special, bool parse_special,
                      int32_t **out, size_t *n) {
    *out = NULL;
    *n = 0;
    if (!m->has_text) return SKIPPY_E_UNSUPPORTED;
    if (len > INT32_MAX - 64) return SKIPPY_E_INVALID;
    /* Nearly always enough: a token stands for at least one byte, plus a prefix and the special tokens. */
    int32_t cap = (int32_t)len / 2 + 32;
    for (;;) {
        int32_t *tokens = malloc((size_t)cap * sizeof *tokens);
        if (!tokens) return SKIPPY_E_NOMEM;
        int32_t got = llama_tokenize(m->vocab, text, (int32_t)len, tokens, cap, add_special, parse_special);
        if (got >= 0) {
            *out = tokens;
            *n = (size_t)got;
            return SKIPPY_OK;
        }
        free(tokens);
        if (got == INT32_MIN || -got <= cap) return SKIPPY_E_INVALID;
        cap = -got; /* llama.cpp says how many there are */
    }
}

size_t sk_model_piece(const sk_model *m, int32_t token, bool special, char *buf, size_t cap) {
    if (!m->has_text || !sk_model_valid_token(m, token) || cap == 0) return 0;
    int32_t room = cap > INT32_MAX ? INT32_MAX : (int32_t)cap;
    int32_t got = llama_token_to_piece(m->vocab, token, buf, room, 0, special);
    if (got >= 0) return (size_t)got;
    /* Longer than the buffer: llama.cpp copies nothing then. Give the beginning. */
    char *whole = malloc((size_t)-got);
    if (!whole) return 0;
    got = llama_token_to_piece(m->vocab, token, whole, -got, 0, special);
    size_t n = got < 0 ? 0 : (size_t)got < cap ? (size_t)got : cap;
    memcpy(buf, whole, n);
    free(whole);
    return n;
}

int sk_model_detokenize(const sk_model *m, const int32_t *tokens, size_t n, bool special, char **out, size_t *len) {
    *out = NULL;
    *len = 0;
    if (!m->has_text) return SKIPPY_E_UNSUPPORTED;
    if (n > INT32_MAX / 8) return SKIPPY_E_INVALID;
    for (size_t i = 0; i < n; i++) {
        if (!sk_model_valid_token(m, tokens[i])) return SKIPPY_E_INVALID;
    }
    int32_t cap = (int32_t)n * 6 + 16;
    for (;;) {
        char *text = malloc((size_t)cap + 1);
        if (!text) return SKIPPY_E_NOMEM;
        int32_t got = llama_detokenize(m->vocab, tokens, (int32_t)n, text, cap, false, special);
        if (got >= 0) {
            text[got] = 0;
            *out = text;
            *len = (size_t)got;
            return SKIPPY_OK;
        }
        free(text);
        if (got == INT32_MIN || -got <= cap) return SKIPPY_E_INVALID;
        cap = -got;
    }
}

bool sk_model_valid_token(const sk_model *m, int32_t token) {
    return token >= 0 && token < m->info.n_vocab;
}

bool sk_model_is_eog(const sk_model *m, int32_t token) {
    return m->has_text && llama_vocab_is_eog(m->vocab, token);
}

const int32_t *sk_model_eog_tokens(const sk_model *m, size_t *n) {
    *n = m->n_eog;
    return m->eog;
}

int32_t sk_model_bos(const sk_model *m) {
    return llama_vocab_bos(m->vocab); /* LLAMA_TOKEN_NULL is -1 */
}

int32_t sk_model_eos(const sk_model *m) {
    return llama_vocab_eos(m->vocab);
}
