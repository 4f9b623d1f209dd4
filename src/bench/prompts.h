/* Deterministic prompt texts of a wanted size in tokens.
 *
 * The same seed and tokenizer give the same text on every machine; the size is what the tokenizer says, never a guess.
 * Not thread-safe. */
#ifndef SKIPPY_BENCH_PROMPTS_H
#define SKIPPY_BENCH_PROMPTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"

/* Tokenizes text as a prompt (special tokens at the start as the model wants). *ids is malloc'ed, the caller frees it.
 */
typedef int (*sk_tokenize_fn)(void *ud, const char *text, size_t len, int32_t **ids, size_t *n, sk_err *e);

/* Word generator: splitmix64 over a fixed list. */
typedef struct sk_words {
    uint64_t state;
} sk_words;

typedef struct sk_prompts {
    sk_tokenize_fn tokenize;
    void *ud;
    sk_hasher digest; /* over every text that was made, with its token ids */
    size_t made;
} sk_prompts;

void sk_words_seed(sk_words *w, uint64_t seed);
/* The next word, without a space. Static storage. */
const char *sk_words_next(sk_words *w);

void sk_prompts_init(sk_prompts *p, sk_tokenize_fn tokenize, void *ud);
/* Appends a text of exactly n tokens (n >= 8) to out, which must be empty.
 * Errors: those of tokenize, SKIPPY_E_UNSUPPORTED when the tokenizer cannot make that size, SKIPPY_E_NOMEM. */
int sk_prompts_text(sk_prompts *p, uint64_t seed, size_t n, sk_buf *out, sk_err *e);
/* Writes base followed by exactly n more tokens to out (cleared first). The tokens of base stay a prefix of the result.
 */
int sk_prompts_extend(sk_prompts *p, uint64_t seed, const char *base, size_t n, sk_buf *out, sk_err *e);
/* Adds any other text that both servers must agree on (a rendered chat template) to the digest. */
void sk_prompts_note(sk_prompts *p, const char *text, size_t len);
void sk_prompts_digest(const sk_prompts *p, uint8_t out[SK_HASH_BYTES]);

#endif
