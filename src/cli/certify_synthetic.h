/* `skippy certify --all-synthetic`: every family on a tiny generated model, and the table for the documentation. */
#ifndef SKIPPY_CLI_CERTIFY_SYNTHETIC_H
#define SKIPPY_CLI_CERTIFY_SYNTHETIC_H

#include <jansson.h>

#include "cli/certify_options.h"

/* Makes, certifies and (without --dir) removes one model after the other; a line on standard output for each; reports
 * are appended to list. *passed becomes false when a family fails. Errors: those of sk_synth_write
 * and sk_certify_run, SKIPPY_E_IO (folders, --docs), SKIPPY_E_INVALID (no markers in the --docs file). */
int sk_certify_synthetic(sk_certify_cli *o, json_t *list, bool *passed, sk_err *e);

#endif
