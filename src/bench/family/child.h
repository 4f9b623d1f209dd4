/* A program that runs once to its end, with a complete record of it. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_CHILD_H
#define SKIPPY_BENCH_FAMILY_CHILD_H

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"

typedef struct sk_child {
    const char *role;        /* its name in the record and of its files */
    const char *const *argv; /* ends with NULL */
    const char *folder;      /* exists; gets ROLE.stdout and ROLE.stderr, complete */
    int timeout_ms;
} sk_child;

typedef struct sk_child_end {
    int status; /* as waitpid gives it; 0 when it never ran */
    double elapsed_ms;
    json_t *receipt;   /* as those of sk_host_stop, "ready_ms" is null; owned by the caller; NULL when it never ran */
    sk_buf last_words; /* the last lines of its standard error; owned by the caller */
} sk_child_end;

/* Runs it; a bad exit code is no error. Errors: SKIPPY_E_NOT_FOUND, SKIPPY_E_IO (could not be started),
 * SKIPPY_E_TIMEOUT, SKIPPY_E_CANCELLED (it was ended: SIGTERM, then SIGKILL after a grace; *out is filled all the
 * same), SKIPPY_E_NOMEM. */
int sk_child_run(const sk_child *c, sk_child_end *out, sk_err *e);
void sk_child_end_free(sk_child_end *c);

#endif
