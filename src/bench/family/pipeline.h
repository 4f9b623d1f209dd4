/* The whole family benchmark as one command: request, preparation, both runs, report. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_PIPELINE_H
#define SKIPPY_BENCH_FAMILY_PIPELINE_H

#include <stdbool.h>
#include <stdio.h>

#include "bench/family/request.h"

typedef struct sk_pipeline_options {
    const char *out_dir;        /* made when it is not there; an earlier, unfinished run in it goes on */
    const char *operator_path;  /* the request; NULL = made from `request` */
    sk_request_options request; /* corpora are used with operator_path, too: they are bound to the plan */
    const char *version;        /* of skippy */
    bool skip_full, skip_use_cases;
    const char *gnuplot; /* NULL = found in PATH */
    FILE *progress;
} sk_pipeline_options;

/* Leaves in OUT: operator.json, full-input/, full-gguf/, use-cases-input/, use-cases/ (see family/run.h), evict.json,
 * readme-tables.md, TODO.md (when something fell short of evidence), plots/, report.html. A run that failed in part is
 * reported all the same. Errors: the first one of the steps; SKIPPY_E_CANCELLED leaves everything as it is. */
int sk_pipeline_run(const sk_pipeline_options *o, sk_err *e);

#endif
