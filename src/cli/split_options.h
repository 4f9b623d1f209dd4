/* Options about one stage of a split model: which layers, where its weights come from, and how the links to its
 * neighbours are made. `skippy serve` and `skippy stage` have them in common. */
#ifndef SKIPPY_CLI_SPLIT_OPTIONS_H
#define SKIPPY_CLI_SPLIT_OPTIONS_H

#include "cli/args.h"
#include "stage/link.h"
#include "topology/capability.h"

typedef struct sk_split_options {
    bool has_layers;
    sk_layer_range layers;  /* when has_layers */
    const char *package;    /* folder or URL; NULL = none */
    const char *package_ca; /* further authorities for https; NULL = the system's */
    const char *stage_dir;  /* where stage files are kept; NULL = below the folder of digests */
    uint64_t stage_max;     /* bytes of that folder; 0 = no limit */
    sk_link_security security;
    uint8_t dtype;             /* of hidden states on links: 0 f32, 1 f16 */
    uint64_t activation_bytes; /* cap of the activation cache; 0 = none */
    const char *link_option;   /* the first option about links that was given; NULL = none was */
} sk_split_options;

enum {
    SK_SPLIT_ARG_FIRST = 2000,
    SK_SPLIT_ARG_LAYERS = SK_SPLIT_ARG_FIRST,
    SK_SPLIT_ARG_PACKAGE,
    SK_SPLIT_ARG_PACKAGE_CA,
    SK_SPLIT_ARG_STAGE_DIR,
    SK_SPLIT_ARG_STAGE_MAX,
    SK_SPLIT_ARG_LINKS, /* from here on: about links */
    SK_SPLIT_ARG_WIRE = SK_SPLIT_ARG_LINKS,
    SK_SPLIT_ARG_ACTIVATIONS,
    SK_SPLIT_ARG_CA,
    SK_SPLIT_ARG_CERT,
    SK_SPLIT_ARG_KEY,
    SK_SPLIT_ARG_PLAINTEXT,
    SK_SPLIT_ARG_END
};

extern const sk_arg_def sk_split_defs[];
extern const size_t sk_split_n_defs;

void sk_split_options_defaults(sk_split_options *o);
/* Applies one option. *known is cleared when id is none of these. Strings of argv are borrowed. */
bool sk_split_options_apply(sk_split_options *o, int id, const sk_args *a, bool *known, sk_err *e);
/* What options say together: certificates are complete, or there are none. SKIPPY_OK or SKIPPY_E_INVALID in words. */
int sk_split_options_check(const sk_split_options *o, sk_err *e);

#endif
