/* `skippy serve` as the head of a chain of stages. */
#ifndef SKIPPY_CLI_SERVE_SPLIT_H
#define SKIPPY_CLI_SERVE_SPLIT_H

#include "cli/serve_options.h"

/* Fits the loaded model to the options? A stage needs --stages and has to hold the first layers, but not all. Errors in
 * words: SKIPPY_E_INVALID. */
int sk_serve_check_layers(const sk_serve_options *o, const sk_model_info *i, sk_err *e);

/* What is said at the start while stages are not there yet. */
typedef struct sk_serve_waiting {
    bool (*go_on)(void); /* false stops the wait */
    char said[512];      /* what was logged last, so that it is not logged again */
} sk_serve_waiting;

/* The engine's parameters about the stages behind it. They live in the options and refer to w. */
const sk_split_params *sk_serve_split(sk_serve_options *o, sk_serve_waiting *w);

/* What receipts say about all stages of the chain, the head's layers included: a sentence in text. SKIPPY_E_UNSUPPORTED
 * when one of them was seen to compute something else. */
int sk_serve_split_receipt(const sk_serve_options *o, const sk_model_info *i, const sk_engine_facts *f, char *text,
                           size_t cap, sk_err *e);

#endif
