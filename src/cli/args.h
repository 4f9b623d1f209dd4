/* Command-line options of llama-server's style: one or several names each, single-dash names of several letters
 * ("-np"), values as "--name value" or "--name=value". getopt cannot do this: it reads "-np" as -n -p. */
#ifndef SKIPPY_CLI_ARGS_H
#define SKIPPY_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/* One option. Tables are arrays of these. */
typedef struct sk_arg_def {
    int id;              /* > 0; what sk_args_next returns */
    const char *names;   /* separated by blanks: "-c --ctx-size" */
    const char *value;   /* what stands for the value in the help ("N"); in brackets: may be left out; NULL: none */
    const char *choices; /* "on|off|auto": the only values; NULL: any. Needed where the value may be left out */
    const char *help;    /* NULL: accepted but not listed */
} sk_arg_def;

/* A walk through argv. Set all fields but the last two; at is 1 to skip the program's name. */
typedef struct sk_args {
    const sk_arg_def *defs;
    size_t n_defs;
    int argc;
    char **argv;
    int at;
    char name[64];     /* the current option as it was typed, without its value */
    const char *value; /* its value; NULL for a switch or an optional value that was left out */
} sk_args;

/* The next option's id, 0 at the end, -1 with words in *e (unknown option, missing or wrong value, stray argument). */
int sk_args_next(sk_args *a, sk_err *e);

/* Values of the current option. False with words that name option and value in *e when it is not a number or out of
 * range. */
bool sk_args_u64(const sk_args *a, uint64_t min, uint64_t max, uint64_t *out, sk_err *e);
bool sk_args_u32(const sk_args *a, uint32_t min, uint32_t max, uint32_t *out, sk_err *e);
bool sk_args_i32(const sk_args *a, int32_t min, int32_t max, int32_t *out, sk_err *e);
/* A finite number above min. */
bool sk_args_float(const sk_args *a, float above, float *out, sk_err *e);

/* Lists the options, one or more lines each. */
void sk_args_help(const sk_arg_def *defs, size_t n, FILE *out);

#endif
