/* A whole run: every session in the order of the tables, pins verified before and after, one receipt. Not thread-safe;
 * one run in a process. */
#ifndef SKIPPY_BENCH_FAMILY_RUN_H
#define SKIPPY_BENCH_FAMILY_RUN_H

#include <stdio.h>

#include "bench/family/cell.h"

typedef struct sk_family_run_options {
    const char *input_path; /* cache-family-input.json */
    const char *out_dir;    /* new, empty, or of an earlier run of the same input: then it goes on where that stopped */
    const char *version;    /* of skippy */
    FILE *progress;         /* a line for each cell with elapsed and remaining time; NULL = silent */
} sk_family_run_options;

/* Leaves in OUT: production-cache-bench.json (array of rows in the order of the cells: docs/formats/family-bench.md),
 * production-cache-bench.md (a table of them), run.json (status "completed", "incomplete", "refused"; input and its
 * SHA-256; pins before and after; machine; versions; per cell its status; "promotion": null). Both JSON files are
 * rewritten after every cell, so Ctrl-C leaves valid output; a changed pin at the end makes the run "refused".
 * server-logs/ has the outputs of the servers, one folder a session. The input's environment is set in this process.
 * Errors:
 * SKIPPY_E_RUNTIME (some cell failed, see its row), SKIPPY_E_CANCELLED, SKIPPY_E_TIMEOUT (execution_seconds),
 * SKIPPY_E_CORRUPT (pins), SKIPPY_E_EXISTS or SKIPPY_E_INVALID (out_dir belongs to something else, or has
 * a blank in its name: it is a word of a server's flags), those of
 * sk_family_input_load, SKIPPY_E_IO. */
int sk_family_run(const sk_family_run_options *o, sk_err *e);

#endif
