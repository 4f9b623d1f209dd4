/* Synthetic models: GGUF files with seeded random weights and the real structure of a model family.
 *
 * CAVEATS, read first:
 *  - The weights are random: such a model loads, decodes and keeps state like its family, and says nothing that makes
 *    sense. Its metadata says so (general.name, general.description, general.tags).
 *  - The same parameters give the same bytes on every machine (F32 and F16; quantised files as far as llama.cpp's
 *    quantiser is deterministic). The bytes depend on the vocabulary and template files, so on the llama.cpp tree.
 *  - Files of a family's real shape are gigabytes. Disk and memory are checked before anything is written.
 *  - sk_synth_write redirects llama.cpp's process-wide log while it runs: do not call it beside other llama.cpp work.
 */
#ifndef SKIPPY_RUNTIME_SYNTH_H
#define SKIPPY_RUNTIME_SYNTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum sk_synth_size {
    SK_SYNTH_TINY = 0, /* 6 to 12 narrow layers with the family's real head and state sizes, reduced vocabulary */
    SK_SYNTH_SHAPE = 1 /* the real model's width, layers and vocabulary size */
};

/* DEFAULT: F32 for tiny, Q4_K_M for shape. */
enum sk_synth_quant { SK_SYNTH_DEFAULT = 0, SK_SYNTH_F32, SK_SYNTH_F16, SK_SYNTH_Q8_0, SK_SYNTH_Q4_K_M };

/* QUANTISE cannot be stopped by the progress function: llama.cpp's quantiser has no way out. */
enum sk_synth_phase { SK_SYNTH_WRITE = 0, SK_SYNTH_QUANTISE = 1 };

/* done and total are bytes while writing, tensors while quantising. Returning false cancels (writing only). */
typedef bool (*sk_synth_progress)(void *ud, enum sk_synth_phase phase, uint64_t done, uint64_t total);

/* Zero-initialise, then fill in. Strings are borrowed for the call; NULL = default. */
typedef struct sk_synth_params {
    const char *family; /* a name of sk_synth_family_at */
    const char *out;    /* path of the new file */
    enum sk_synth_size size;
    enum sk_synth_quant quant;
    uint64_t seed;
    uint32_t layers;           /* 0 = the family's own number */
    const char *vocab_file;    /* a GGUF with a tokenizer instead of the family's */
    const char *template_file; /* a Jinja file instead of the family's */
    const char *llama_src;     /* llama.cpp tree; else $LLAMA_CPP_SRC, else the tree this program was built from */
    int n_threads;             /* for quantising; 0 = 2 */
    bool force;                /* replace an existing file */
    sk_synth_progress progress;
    void *progress_ud;
} sk_synth_params;

typedef struct sk_synth_result {
    uint64_t file_bytes, parameters;
    size_t tensors;
    uint32_t layers, vocab;
    enum sk_synth_quant quant; /* what DEFAULT became */
} sk_synth_result;

/* Writes one model. The file appears under its name only when it is complete (OUT.partial is renamed), and nothing is
 * left behind on failure. result may be NULL.
 * Errors, each with text in *err: SKIPPY_E_INVALID (unknown family, too few layers, no llama.cpp tree),
 * SKIPPY_E_EXISTS, SKIPPY_E_NOT_FOUND (vocabulary or template file), SKIPPY_E_UNSUPPORTED (vocabulary that cannot be
 * reduced), SKIPPY_E_TOO_LARGE (does not fit the disk or memory), SKIPPY_E_IO, SKIPPY_E_NOMEM, SKIPPY_E_CANCELLED,
 * SKIPPY_E_RUNTIME (llama.cpp refused). */
int sk_synth_write(const sk_synth_params *p, sk_synth_result *result, sk_err *err);

/* The files that a running sk_synth_write may have to remove: the partial output (which 0) and the unquantised
 * intermediate (which 1). For signal handlers of programs. Errors: SKIPPY_E_TOO_SMALL. */
int sk_synth_scratch_path(const char *out, int which, char *buf, size_t cap);

/* "f32", "f16", "q8_0", "q4_k_m", "default"; parse is the inverse and returns false for other words. */
const char *sk_synth_quant_name(enum sk_synth_quant quant);
bool sk_synth_quant_parse(const char *text, enum sk_synth_quant *out);

/* Families, in a fixed order; false past the end. */
typedef struct sk_synth_family_info {
    const char *name, *arch, *real_model;
    double billions; /* parameters of the real shape */
} sk_synth_family_info;
bool sk_synth_family_at(size_t i, sk_synth_family_info *out);

#endif
