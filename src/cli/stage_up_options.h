/* Flags of `skippy stage up`: its own, and those of `skippy serve`, which it deals out to the head and to the stages.
 */
#ifndef SKIPPY_CLI_STAGE_UP_OPTIONS_H
#define SKIPPY_CLI_STAGE_UP_OPTIONS_H

#include "cli/arg_list.h"
#include "cli/cut_plan.h"
#include "cli/serve_options.h"

typedef struct sk_up_options {
    uint32_t n_stages; /* the head included */
    bool no_certify;
    sk_serve_options serve;  /* what serve's options say; n_stages and stages are not those of the split */
    sk_arg_list head_words;  /* serve's options as they were given */
    sk_arg_list parsed;      /* owner of the strings in serve */
    sk_arg_list stage_words; /* those that every stage has to be told */
} sk_up_options;

/* Errors: as sk_serve_options_parse. Call sk_up_options_free in any case. */
int sk_up_options_parse(sk_up_options *o, int argc, char **argv, sk_err *e);
void sk_up_options_free(sk_up_options *o);
void sk_up_options_help(void);

/* What all processes share when nobody says it. */
typedef struct sk_up_shares {
    uint32_t n_ctx;     /* 0: as given */
    int32_t n_threads;  /* of each process; 0: as given */
    uint64_t ram_bytes; /* of each process; UINT64_MAX: as given */
} sk_up_shares;
sk_up_shares sk_up_shares_make(const sk_up_options *o, int64_t ctx_of_model, long cores);

/* The arguments behind the program's name for stage i (0: the head) of the plan. folder: where the sockets are. */
void sk_up_arguments(const sk_up_options *o, const sk_up_shares *s, const sk_cut_plan *plan, size_t i,
                     const char *folder, sk_arg_list *out);

#endif
