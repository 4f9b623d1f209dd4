/* A loaded GGUF: weights, vocabulary and facts about its memory. Wraps llama_model.
 * Thread-safety: after loading everything here is read-only and may be called from any thread. */
#ifndef SKIPPY_RUNTIME_MODEL_H
#define SKIPPY_RUNTIME_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "topology/family.h"

typedef struct sk_model sk_model;

/* Called during loading with 0..1; returns false to stop the load. */
typedef bool (*sk_load_progress)(void *ud, float fraction);

typedef struct sk_lora_spec {
    const char *path;
    float scale;
} sk_lora_spec;

typedef struct sk_model_params {
    const char *path;
    const char *alias;    /* model id shown to clients; NULL = general.name, else the file name without .gguf */
    int32_t n_gpu_layers; /* -1 = all */
    bool no_mmap;
    bool huge_pages; /* weights, and what is allocated after them, in huge pages (runtime/huge_pages.h): of the process
                      */
    bool vocab_only;
    bool facts_only; /* read the header and check the tensors' shapes, hold no weights: for sk_model_get_info only */
    uint64_t memory_limit; /* bytes the process may use; 0 = ask the machine (cgroup limit, MemAvailable) */
    sk_load_progress progress;
    void *progress_ud;
} sk_model_params;

/* What a stage file says about itself (runtime/slice.h). */
typedef struct sk_stage_facts {
    bool is_stage;                           /* false: a whole model, and the rest is 0..n_layer of it */
    bool first, last;                        /* both for a whole model */
    int32_t layer_start, layer_end, n_layer; /* [start, end) of the whole model's n_layer */
    int32_t width;                           /* values of a hidden state: n_embd */
    char source[65];                         /* hex digest of the whole model; "" for a whole model */
    char source_name[256];
} sk_stage_facts;

typedef struct sk_model_info {
    char id[128]; /* what clients call it */
    char path[1024];
    char arch[48];
    char name[128];
    char desc[128]; /* llama.cpp's description, with the quantisation */
    int32_t n_vocab, n_embd, n_layer, n_ctx_train, n_swa;
    uint64_t size_bytes, n_params;
    sk_family_facts facts; /* arch points into this struct */
    sk_stage_facts stage;
} sk_model_info;

/* Silences llama.cpp's own log below the level of ours; called by sk_model_load. */
void sk_runtime_init(void);

/* Loads a model. Checks the file before llama.cpp sees it, so that people get words: missing, a directory, not GGUF,
 * truncated (tensor data reaches beyond the end of the file), big-endian, unsupported architecture, split shard that is
 * not the first or whose siblings are missing, more memory needed than there is. Errors: SKIPPY_E_MODEL,
 * SKIPPY_E_NOT_FOUND, SKIPPY_E_NOMEM, SKIPPY_E_CANCELLED, SKIPPY_E_UNSUPPORTED; e->text is for people. */
int sk_model_load(const sk_model_params *p, sk_model **out, sk_err *e);
void sk_model_free(sk_model *m);
const sk_model_info *sk_model_get_info(const sk_model *m);

/* Text to tokens. *out is malloc'ed (free it), *n its length. add_special: BOS/EOS as the model wants; parse_special:
 * "<|im_end|>" becomes its token. Errors: SKIPPY_E_NOMEM, SKIPPY_E_INVALID (text too long),
 * SKIPPY_E_UNSUPPORTED (the file has no tokenizer: a stage slice). */
int sk_model_tokenize(const sk_model *m, const char *text, size_t len, bool add_special, bool parse_special,
                      int32_t **out, size_t *n);
/* Bytes of one token (may be part of a UTF-8 sequence). Returns the length, at most cap; special tokens give "" unless
 * special is set. */
size_t sk_model_piece(const sk_model *m, int32_t token, bool special, char *buf, size_t cap);
/* Tokens to text, malloc'ed and NUL-terminated in *out. Errors: as sk_model_tokenize; SKIPPY_E_INVALID for a token that
 * the vocabulary does not have. */
int sk_model_detokenize(const sk_model *m, const int32_t *tokens, size_t n, bool special, char **out, size_t *len);
bool sk_model_is_eog(const sk_model *m, int32_t token);
/* Every token that ends a generation (the model may have several). Valid as long as the model; *n is their number. */
const int32_t *sk_model_eog_tokens(const sk_model *m, size_t *n);
bool sk_model_valid_token(const sk_model *m, int32_t token);
int32_t sk_model_bos(const sk_model *m); /* -1 when there is none */
int32_t sk_model_eos(const sk_model *m);
/* The model's chat template (Jinja source), NULL when it has none. Valid as long as the model. */
const char *sk_model_chat_template(const sk_model *m);
/* Value of a metadata key as text; returns false when absent. */
bool sk_model_meta(const sk_model *m, const char *key, char *buf, size_t cap);
/* struct llama_model *, for runtime/ and the chat bridge only. */
void *sk_model_native(const sk_model *m);

#endif
