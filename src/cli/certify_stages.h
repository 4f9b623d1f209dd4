/* `skippy certify -m MODEL --stages N`: the stages of a model against the whole. */
#ifndef SKIPPY_CLI_CERTIFY_STAGES_H
#define SKIPPY_CLI_CERTIFY_STAGES_H

#include "cli/certify_options.h"

/* Cuts the model as 'skippy stage up' does, or at --cuts, compares, prints the result and leaves receipts. go_on: false
 * stops. *passed tells how it went. Errors: those of sk_cut_plan_make and sk_stage_certificate_make. */
int sk_certify_stages(const sk_certify_cli *o, bool (*go_on)(void), bool *passed, sk_err *e);

#endif
