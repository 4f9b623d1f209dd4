/* Probabilities of generated tokens, in the three forms that clients know. */
#ifndef SKIPPY_OPENAI_LOGPROBS_H
#define SKIPPY_OPENAI_LOGPROBS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "engine/engine.h"

/* A token with its probability; `top` holds n_top alternatives, best first. */
typedef struct sk_token_record {
    int32_t token;
    float logprob;
    const sk_token_prob *top; /* borrowed, or the same as `owned` */
    size_t n_top;
    sk_token_prob *owned;
} sk_token_record;

/* Records of an event that borrow from it. malloc'ed; NULL when there are none or memory is out. */
sk_token_record *sk_records_borrow(const sk_gen_event *ev);
/* Appends deep copies of an event's records to a growing array. False when out of memory. */
bool sk_records_keep(sk_token_record **list, size_t *n, size_t *cap, const sk_gen_event *ev);
void sk_records_free(sk_token_record *list, size_t n);

/* OpenAI's chat form: an array of {"token","logprob","bytes","top_logprobs"}; with_ids adds llama-server's "id". At
 * most n_top alternatives each. */
void sk_write_chat_logprobs(const sk_model *m, const sk_token_record *r, size_t n, size_t n_top, bool with_ids,
                            sk_buf *out);
/* OpenAI's legacy form {"tokens","token_logprobs","top_logprobs","text_offset"}. *offset is the position of the first
 * token's text in the answer and is moved on. */
void sk_write_legacy_logprobs(const sk_model *m, const sk_token_record *r, size_t n, size_t n_top, size_t *offset,
                              sk_buf *out);

#endif
