/* A prompt of an exact number of tokens that is the beginning of a given text. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_PROMPT_CUT_H
#define SKIPPY_BENCH_FAMILY_PROMPT_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/prompts.h"

/* Largest boundary between characters that is not behind n; text is UTF-8 of at least n bytes. Pure. */
size_t sk_utf8_floor(const char *text, size_t n);

/* Writes to out (cleared first) the longest beginning of text that has exactly n tokens, and adds it to the digest. A
 * text that is too short, or that has no such beginning, is lengthened with words from seed: *lengthened says so.
 * Errors: those of sk_prompts_extend. */
int sk_prompt_cut(sk_prompts *p, uint64_t seed, const char *text, size_t n, sk_buf *out, bool *lengthened, sk_err *e);

#endif
