/* Flags and environment of `skippy serve`, turned into the parameters of model, engine and server. */
#ifndef SKIPPY_CLI_SERVE_OPTIONS_H
#define SKIPPY_CLI_SERVE_OPTIONS_H

#include "cli/run_options.h"
#include "cli/split_options.h"
#include "server/auth.h"
#include "server/server.h"

#define SK_MAX_LORA 16

enum { SK_MAX_STAGES_BEHIND = SK_CHAIN_MAX - 1, SK_SERVE_MAX_DEFS = 96 };

typedef struct sk_serve_options {
    sk_run_options run;
    sk_split_options split;
    sk_split_params split_params; /* --stage-wait; the rest is filled in when the engine starts */
    sk_server_params server;      /* limits only */
    sk_lora_spec lora[SK_MAX_LORA];
    char *lora_paths[SK_MAX_LORA]; /* owned; NULL where the path is argv's */
    char *stage_list;              /* owned; what stages point into */
    const char *stages[SK_MAX_STAGES_BEHIND];
    uint32_t n_stages; /* behind this process; 0: it holds the whole model */
    int32_t n_predict;
    const char *host;
    uint16_t port;
    bool allow_anonymous;
    const char *receipts; /* folder; NULL = the default one */
    sk_auth *auth;        /* owned */
    char *chat_template;  /* owned; NULL = the model's */
} sk_serve_options;

/* Fills *o from argv[1..] and getenv-style look-ups of SKIPPY_API_KEY. Strings of argv are borrowed. Flags of
 * llama-server that make no difference here are accepted with a warning in the log. Call sk_serve_options_free in any
 * case. Errors: SKIPPY_E_INVALID with words that name flag and value, SKIPPY_E_NOT_FOUND and SKIPPY_E_IO for files,
 * SKIPPY_E_NOMEM. */
int sk_serve_options_parse(sk_serve_options *o, int argc, char **argv, sk_err *e);
void sk_serve_options_free(sk_serve_options *o);
void sk_serve_options_help(void);
/* The options, at most SK_SERVE_MAX_DEFS. Returns their number. Ids: run_options.h and split_options.h; others are
 * below SK_RUN_ARG_FIRST. */
size_t sk_serve_defs(sk_arg_def *out);

#endif
