/* Flags of `skippy stage`, turned into the parameters of a stage. */
#ifndef SKIPPY_CLI_STAGE_OPTIONS_H
#define SKIPPY_CLI_STAGE_OPTIONS_H

#include "cli/run_options.h"
#include "cli/split_options.h"
#include "stage/service.h"

typedef struct sk_stage_options {
    sk_run_options run;
    sk_split_options split;
    const char *listen;
    const char *receipts; /* folder; NULL = the default one */
} sk_stage_options;

/* Fills *o from argv[1..]; strings of argv are borrowed. Errors: SKIPPY_E_INVALID with words that name flag and value.
 */
int sk_stage_options_parse(sk_stage_options *o, int argc, char **argv, sk_err *e);
void sk_stage_options_help(void);
/* What the options mean for this model. The result borrows from *o, which must not move. */
sk_stage_params sk_stage_options_params(const sk_stage_options *o, const sk_model_info *i);

#endif
