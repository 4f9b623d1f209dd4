/* Prompts as token ids. */
#ifndef SKIPPY_OPENAI_PROMPT_H
#define SKIPPY_OPENAI_PROMPT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "openai/error.h"
#include "runtime/model.h"

typedef struct sk_prompt {
    int32_t *tokens; /* owned */
    size_t n_tokens;
    char *text; /* owned; NULL when the prompt came as token ids */
    size_t text_len;
    size_t boundaries[SK_MAX_BOUNDARIES];
    size_t n_boundaries;
} sk_prompt;

/* Remembers the tokens of recent prompts, so that a repeated or a grown conversation is not tokenised again from its
 * start. Thread-safe; no lock is held while text is tokenised. */
typedef struct sk_prompt_memo sk_prompt_memo;
/* NULL when out of memory. The model is borrowed. */
sk_prompt_memo *sk_prompt_memo_create(const sk_model *m);
/* The fewest tokens that a text of len bytes can have in this vocabulary. Known without reading the text. */
size_t sk_prompt_memo_least_tokens(const sk_prompt_memo *memo, size_t len);
void sk_prompt_memo_destroy(sk_prompt_memo *memo);
/* Same tokens as sk_model_tokenize(text, add_special = true, parse_special = true). *out is malloc'ed. */
int sk_prompt_memo_tokenize(sk_prompt_memo *memo, const char *text, size_t len, int32_t **out, size_t *n);

/* Takes over text (malloc'ed) and tokenises it. Returns 0 or the HTTP status. */
int sk_prompt_from_text(sk_prompt_memo *memo, char *text, size_t len, sk_prompt *out, sk_api_error *err);
/* A checked JSON prompt: text, or token ids and text pieces. */
int sk_prompt_from_json(const sk_model *m, sk_prompt_memo *memo, const json_t *v, sk_prompt *out, sk_api_error *err);
void sk_prompt_clear(sk_prompt *p);
/* Gives the prompt its text where it came as token ids. Returns false when out of memory. */
bool sk_prompt_need_text(const sk_model *m, sk_prompt *p);

/* How many bytes of text at `at` a token stands for; `first` is set for the first token, which may stand for none.
 * False when the text there is something else. */
bool sk_token_match(const sk_model *m, int32_t token, bool first, const char *text, size_t len, size_t at,
                    size_t *used);

#endif
