/* Decoding with a stage in a certification: inputs come out of the script, and a row of output is a hidden state, or on
 * the last stage logits.
 *
 * Not thread-safe. */
#ifndef SKIPPY_CORRECTNESS_STAGE_FEED_H
#define SKIPPY_CORRECTNESS_STAGE_FEED_H

#include "correctness/stage_script.h"
#include "runtime/context.h"
#include "runtime/rowclass.h"

typedef struct sk_stage_feed {
    const sk_stage_script *script; /* borrowed; NULL: this is no feed */
    bool gives;                    /* hidden states, not logits */
    uint32_t width;
    float *in, *out; /* of one batch; owned; NULL where the stage takes tokens, or gives logits */
} sk_stage_feed;

/* rows: room for one batch with its padding. Errors: SKIPPY_E_INVALID (a script for another width, or without the
 * hidden states that this stage takes), SKIPPY_E_NOMEM. */
int sk_stage_feed_init(sk_stage_feed *f, const sk_model *stage, const sk_stage_script *script, size_t rows, sk_err *e);
/* f may be all zero. */
void sk_stage_feed_free(sk_stage_feed *f);

/* Values of a row of output. */
size_t sk_stage_feed_values(const sk_stage_feed *f, const sk_model *stage);

/* Decodes n rows, as sk_context_decode does. rc (NULL: none) pads them to its class with dummy rows of the sequence
 * `scratch`, which is empty before and after; rows has room for them. Recurrent stages take rows of one sequence only,
 * so nothing is padded there. Errors: SKIPPY_E_INVALID (a position behind the script's end), those of
 * sk_context_decode_stage. */
int sk_stage_feed_decode(sk_stage_feed *f, sk_context *c, const sk_row_class *rc, sk_row *rows, uint32_t n,
                         uint32_t scratch, sk_err *e);
/* Row of output of the last decode; NULL where there is none. */
const float *sk_stage_feed_row(const sk_stage_feed *f, sk_context *c, size_t index);

#endif
