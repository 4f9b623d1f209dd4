/* How long a beginning each stage of a chain restores. Pure function. */
#ifndef SKIPPY_STAGE_AGREE_H
#define SKIPPY_STAGE_AGREE_H

#include "stage/frame.h"

typedef struct sk_agreement {
    uint32_t n_stages;
    uint32_t length[SK_CHAIN_MAX]; /* never rising: length[i] <= length[i-1] */
    bool terminal;                 /* all restore the whole prompt, and the last stage has its logits */
    uint32_t replayed;             /* rows of hidden states that come from activation caches, all links together */
} sk_agreement;

/* offers[0] is the head's own. A stage restores what the stage before it restores, or less when that one holds the
 * hidden states between. Chosen is the largest length[0]; of equal ones the longest lengths behind it. n_tokens: of the
 * prompt; its last token is computed unless `terminal`. gain: less than so many tokens on the head are not worth it
 * (then all lengths are 0). */
void sk_agree(const sk_stage_offer *offers, size_t n_stages, uint32_t n_tokens, uint32_t gain, sk_agreement *out);

#endif
