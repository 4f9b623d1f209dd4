/* Starting a server for a measurement: llama-server and skippy take the same model, context, threads and lanes.
 * Not thread-safe. */
#ifndef SKIPPY_BENCH_LAUNCH_H
#define SKIPPY_BENCH_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "bench/process.h"

typedef struct sk_launch {
    const char *program;
    const char *subcommand; /* "serve", or NULL for a program without subcommands */
    const char *model;
    uint32_t n_ctx; /* for all lanes together */
    int threads;
    size_t lanes;
    const char *flags[3];   /* further words, separated by spaces; NULL = none */
    const char *cache_home; /* XDG_CACHE_HOME of the server; NULL = as ours */
    const char *const *env; /* n_env assignments "NAME=value" for the server */
    size_t n_env;
    const char *out_path; /* its standard output; NULL = with the log */
    int ready_timeout_ms;
} sk_launch;

/* Starts the server on a free port and waits until GET /health answers 200. Its standard error goes to log_path.
 * command receives the command line for the record. Errors (nothing runs then): SKIPPY_E_NOT_FOUND (no such program),
 * SKIPPY_E_RUNTIME with the last lines of its log when it ended, SKIPPY_E_TIMEOUT, SKIPPY_E_CANCELLED, SKIPPY_E_INVALID
 * (too many flags). */
int sk_launch_server(const sk_launch *l, const char *log_path, sk_process *p, uint16_t *port, sk_buf *command,
                     sk_err *e);

#endif
