/* How many tokens a text may become, without a tokenizer: context is reserved for a corpus before any model is loaded.
 * Pure, thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_TOKEN_BOUND_H
#define SKIPPY_BENCH_FAMILY_TOKEN_BOUND_H

#include <stddef.h>

/* An estimate from above for vocabularies of language models (tens of thousands of tokens or more): four letters make a
 * token, every digit and every other character of ASCII is one, a run of spaces or line ends too unless it is one space
 * before a word, and two bytes of anything else. English comes out at about a third of its bytes, source code at about
 * half. Vocabularies of single bytes need more: a request that does not fit is refused by its server, in words. */
size_t sk_token_bound(const char *text);

#endif
