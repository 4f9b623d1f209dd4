/* The result of `skippy bench quick` as JSON with every raw sample, as Markdown, and as a table for a terminal.
 * Not thread-safe. */
#ifndef SKIPPY_BENCH_REPORT_H
#define SKIPPY_BENCH_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "bench/facts.h"
#include "bench/measurement.h"
#include "bench/scenario.h"

enum { SK_MAX_VARIANTS = 4 };

/* One server with one set of flags. */
typedef struct sk_variant {
    const char *name;  /* "llama-server", "llama-server-tuned", "skippy" */
    const char *flags; /* beyond model, context, threads, lanes and address; "" = defaults */
    bool ours;
    bool many_lanes_only; /* its flags change nothing on one lane */
} sk_variant;

typedef struct sk_result {
    const sk_scenario *scenario;
    size_t lanes;
    uint32_t n_ctx;
    bool ran[SK_MAX_VARIANTS];
    sk_measurement m[SK_MAX_VARIANTS]; /* by index of the variant; owned */
} sk_result;

typedef struct sk_soak_point {
    size_t requests;
    sk_process_memory memory;
} sk_soak_point;

typedef struct sk_report {
    sk_bench_facts facts;
    const sk_sizes *sizes;
    int threads;
    const char *skippy_version;
    sk_variant variants[SK_MAX_VARIANTS]; /* the last one is ours */
    size_t n_variants;
    sk_result *results; /* owned array */
    size_t n_results;
    json_t *floor;    /* array of records of bench/floor.h, NULL when it was not measured */
    json_t *bit_cost; /* record of bench/bitcost.h, NULL when it was not measured */
    sk_soak_point *soak;
    size_t n_soak;
    bool interrupted;
} sk_report;

void sk_report_free(sk_report *r);
/* New reference with everything that was measured so far, or NULL when out of memory. */
json_t *sk_report_json(const sk_report *r);
/* Appends the Markdown page. Errors: SKIPPY_E_NOMEM. */
int sk_report_markdown(const sk_report *r, sk_buf *out);
/* Writes text to a file next to the final name and renames it, so that a reader never sees half of it. Errors:
 * SKIPPY_E_IO. */
int sk_report_write_file(const char *path, const char *text, size_t len, sk_err *e);

#endif
