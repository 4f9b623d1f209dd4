/* `skippy certify --package P --layers A..B`: one stage of a model that nobody holds whole. */
#ifndef SKIPPY_CLI_CERTIFY_STAGE_H
#define SKIPPY_CLI_CERTIFY_STAGE_H

#include <jansson.h>

#include "cli/certify_options.h"
#include "cli/stage_weights.h"

/* The files that a certification of a stage loads, and what they are made of. */
typedef struct sk_certify_stage {
    sk_weights stage, producer; /* stage files, held while they are used */
    json_t *package;            /* for the report; NULL where there is no package */
} sk_certify_stage;

/* Puts the stage together (and the layers before it, with --producer), and sets run.model_path and run.producer. A
 * package is only asked for the parts that these layers need. Without --layers nothing is done: the model is certified
 * as it is. Release it in any case. go_on: false stops. Errors: those of sk_weights_source_open and sk_weights_cut,
 * SKIPPY_E_INVALID, SKIPPY_E_NOMEM. */
int sk_certify_stage_prepare(sk_certify_cli *o, bool (*go_on)(void), sk_certify_stage *out, sk_err *e);
void sk_certify_stage_release(sk_certify_stage *s);

/* What of the package was needed, for people. Nothing without a package. */
void sk_certify_stage_show(const sk_certify_stage *s, FILE *out);

#endif
