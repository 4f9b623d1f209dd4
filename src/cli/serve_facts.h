/* What `skippy serve` says when it is ready, for people or as one line of JSON. */
#ifndef SKIPPY_CLI_SERVE_FACTS_H
#define SKIPPY_CLI_SERVE_FACTS_H

#include "cli/serve_options.h"

typedef struct sk_serve_facts {
    const sk_serve_options *o;
    const sk_model_info *model;
    sk_engine *engine;
    const char *address;       /* host:port that it listens on */
    const char *split_receipt; /* what is known about the exactness of the split; "" for a whole model */
} sk_serve_facts;

/* Writes to standard output. */
void sk_serve_print_facts(const sk_serve_facts *s);

#endif
