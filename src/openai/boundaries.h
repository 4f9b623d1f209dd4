/* Where later requests are likely to leave the text of this one. Wrong guesses cost a snapshot, never correctness. */
#ifndef SKIPPY_OPENAI_BOUNDARIES_H
#define SKIPPY_OPENAI_BOUNDARIES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "openai/prompt.h"
#include "runtime/model.h"

#define SK_MAX_CHAT_OFFSETS 3
/* Shorter prefixes are not worth a snapshot, and neighbours this close are one place. */
#define SK_MIN_BOUNDARY 16
#define SK_MIN_BOUNDARY_GAP 8

/* Byte offsets in a rendered conversation: start of the first and of the last user message's content, and the end of
 * the text without its generation prompt (n_generation bytes). Ascending, without duplicates; what is not found is left
 * out. Returns their number. */
size_t sk_chat_offsets(const json_t *messages, const char *text, size_t len, size_t n_generation,
                       size_t out[SK_MAX_CHAT_OFFSETS]);

/* For each ascending byte offset the number of tokens that end at or before it. Stops where tokens and text disagree;
 * returns how many positions were written. */
size_t sk_boundaries_from_offsets(const sk_model *m, const char *text, size_t len, const int32_t *tokens,
                                  size_t n_tokens, const size_t *offsets, size_t n_offsets, size_t *out);

/* Drops positions below SK_MIN_BOUNDARY, at or above n_tokens, and those closer than SK_MIN_BOUNDARY_GAP to a later
 * one. Positions are ascending. Returns how many remain, in place. */
size_t sk_boundaries_prune(size_t *positions, size_t n, size_t n_tokens);

/* All of the above for a rendered conversation: fills p->boundaries. */
void sk_boundaries_of_chat(const sk_model *m, const json_t *messages, size_t n_generation, sk_prompt *p);

#endif
