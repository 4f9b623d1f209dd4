/* Rows of the family registry: what is known about each architecture before a model is loaded. Internal to topology/.
 */
#ifndef SKIPPY_TOPOLOGY_FAMILY_TABLE_H
#define SKIPPY_TOPOLOGY_FAMILY_TABLE_H

#include "topology/family.h"

/* Why an architecture needs a rule of its own. */
enum sk_family_trait {
    SK_TRAIT_NONE = 0,
    SK_TRAIT_CHUNKED,   /* attention in aligned chunks instead of a sliding window */
    SK_TRAIT_INDEXER,   /* the cache holds more than keys and values: indexer keys or compressed state */
    SK_TRAIT_DRAFT,     /* drafts tokens for another model and reads that model's memory */
    SK_TRAIT_ENCODER,   /* no autoregressive decoder: embeddings, classifiers, encoder-decoder */
    SK_TRAIT_DIFFUSION, /* rewrites tokens it already produced */
    SK_TRAIT_SPEECH,    /* produces audio codes */
    SK_TRAIT_ROUTED     /* control tokens in the prompt switch adapters for the tokens that follow */
};

typedef struct sk_family_row {
    sk_family_record record;
    enum sk_family_trait trait;
} sk_family_row;

/* NULL past the end. */
const sk_family_row *sk_family_row_at(size_t i);
/* The first row of an architecture, NULL when it is unknown. */
const sk_family_row *sk_family_row_find(const char *arch);

#endif
