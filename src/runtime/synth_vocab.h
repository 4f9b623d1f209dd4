/* Tokenizers of synthetic models, made from the vocabulary files of the llama.cpp tree. */
#ifndef SKIPPY_RUNTIME_SYNTH_VOCAB_H
#define SKIPPY_RUNTIME_SYNTH_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gguf.h"
#include "runtime/synth_families.h"

/* Strings are borrowed from the vocabulary file or owned here; all live until sk_synth_vocab_free. */
typedef struct sk_synth_vocab {
    struct gguf_context *file;
    const char **tokens; /* n entries */
    int32_t *types;      /* enum llama_token_type, n entries */
    bool *placeholder;   /* reserved entry without meaning, n entries */
    bool *silent;        /* see sk_synth_vocab_is_silent, n entries */
    size_t n, cap;
    const char **merges;
    size_t n_merges;
    char **owned;
    size_t n_owned, cap_owned;
} sk_synth_vocab;

/* Byte tokens, the first merges whose parts are kept, the special tokens, padding to a multiple of 64: about 1100
 * tokens that encode any text. Errors: SKIPPY_E_NOT_FOUND (no readable vocabulary in path), SKIPPY_E_UNSUPPORTED (not
 * byte-level BPE), SKIPPY_E_NOMEM. */
int sk_synth_vocab_reduced(const char *path, const sk_synth_specials *sp, sk_synth_vocab *out, sk_err *err);

/* All tokens of the file. Missing special tokens take the place of reserved entries; then reserved entries are cut off
 * or added at the end until there are n_wanted tokens (0 = as many as the file has), if that is possible. */
int sk_synth_vocab_full(const char *path, const sk_synth_specials *sp, size_t n_wanted, sk_synth_vocab *out,
                        sk_err *err);

/* Writes the tokenizer.* keys. pre NULL = as in the file. */
int sk_synth_vocab_store(const sk_synth_vocab *v, const sk_synth_specials *sp, const char *pre, struct gguf_context *g,
                         sk_err *err);

/* True for a token that a random model should not produce: special, marked or reserved ones, and tokens that are not
 * whole characters of text (control characters and pieces of UTF-8 sequences). */
bool sk_synth_vocab_is_silent(const sk_synth_vocab *v, size_t token);
void sk_synth_vocab_free(sk_synth_vocab *v);

#endif
