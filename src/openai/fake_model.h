/* A model for tests without a file: tokens 0..255 are bytes, then a few control tokens. It implements runtime/model.h.
 */
#ifndef SKIPPY_OPENAI_FAKE_MODEL_H
#define SKIPPY_OPENAI_FAKE_MODEL_H

#include "runtime/model.h"

enum {
    FAKE_BOS = 256,
    FAKE_EOS = 257,
    FAKE_START = 258 /* <|im_start|> */,
    FAKE_END = 259 /* <|im_end|> */,
    FAKE_VOCAB = 260
};

/* Static; needs no release. */
const sk_model *fake_model(void);

#endif
