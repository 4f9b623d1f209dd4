/* Flags of `skippy certify`. */
#ifndef SKIPPY_CLI_CERTIFY_OPTIONS_H
#define SKIPPY_CLI_CERTIFY_OPTIONS_H

#include "cli/split_options.h"
#include "correctness/certify.h"

/* Which window caches of a sliding-window model to certify: `serve` chooses by the size of its context. */
enum sk_window_choice { SK_WINDOW_BOTH, SK_WINDOW_SLIDING, SK_WINDOW_FULL };

/* Strings are argv's. */
typedef struct sk_certify_cli {
    sk_certify_options run; /* model_path, family, prompt, lengths, settings */
    enum sk_window_choice window;
    bool all_synthetic, no_receipt, json, help;
    const char *receipts;   /* NULL = the default folder */
    const char *report_out; /* NULL = none */
    const char *dir;        /* generated models stay here; NULL = a temporary folder */
    const char *docs;       /* NULL = none */
    uint32_t stages;        /* 0 = the model's state is certified, not its stages */
    const char *cuts;       /* first layers of the stages behind the first, separated by commas; NULL = none */
    sk_split_options split; /* a stage alone: package or not, its layers, where stage files are kept */
    bool has_stage, has_producer;
    sk_layer_range producer; /* when has_producer: all layers before those of the stage */
} sk_certify_cli;

/* Errors: SKIPPY_E_INVALID with words that name flag and value. */
int sk_certify_cli_parse(sk_certify_cli *o, int argc, char **argv, sk_err *e);
void sk_certify_cli_help(void);

#endif
