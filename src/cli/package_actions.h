/* The actions of `skippy package`, one file each. Internal to the command. */
#ifndef SKIPPY_CLI_PACKAGE_ACTIONS_H
#define SKIPPY_CLI_PACKAGE_ACTIONS_H

#include <stdbool.h>

#include "base/err.h"
#include "topology/capability.h"

enum { PACKAGE_DONE = 0, PACKAGE_FAILED = 1, PACKAGE_USAGE = 2, PACKAGE_REFUSED = 3 };

typedef struct package_options {
    const char *program; /* for messages */
    const char *operand; /* model, folder or URL */
    const char *out;     /* create: the folder */
    const char *ca_file; /* inspect */
    bool replace;        /* create */
    bool json;           /* verify, inspect */
    bool has_layers;     /* inspect */
    sk_layer_range layers;
} package_options;

/* Exit codes of the command. */
int package_create(const package_options *o);
int package_verify(const package_options *o);
int package_inspect(const package_options *o);

/* Says what failed and returns the exit code for it: a package whose content is wrong is refused, what could not be
 * read at all has failed. */
int package_error(const package_options *o, const sk_err *e);

#endif
