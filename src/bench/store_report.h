/* Everything that `skippy bench store` measures, and how it is shown. Not thread-safe. */
#ifndef SKIPPY_BENCH_STORE_REPORT_H
#define SKIPPY_BENCH_STORE_REPORT_H

#include <jansson.h>

#include "base/buf.h"
#include "bench/facts.h"
#include "bench/store_dedup.h"
#include "bench/store_restore.h"
#include "bench/store_speed.h"

enum { SK_STORE_SCENARIOS = 2 };

typedef struct sk_store_report {
    const char *version; /* of skippy; static */
    sk_bench_facts facts;
    int32_t n_threads;
    sk_store_sizes sizes;
    sk_state_caps caps;
    int flash_attn; /* what the context uses */
    sk_store_savings savings[SK_STORE_SCENARIOS];
    size_t n_savings; /* measured so far */
    sk_store_speed speed;
    sk_store_restore restore;
    bool complete; /* false: it ended early, what is here was measured */
} sk_store_report;

/* Runs everything; *out holds what was measured so far also after an error, and is to be freed in any case.
 * Errors: those of the lab and of the measurements, SKIPPY_E_IO. */
int sk_store_bench_run(const sk_store_options *o, const char *version, sk_store_report *out, sk_err *e);
void sk_store_report_free(sk_store_report *r);

/* Appends Markdown tables. Errors: SKIPPY_E_NOMEM. */
int sk_store_markdown(const sk_store_report *r, sk_buf *out);
/* A new reference with every sample; NULL when out of memory. */
json_t *sk_store_json(const sk_store_report *r);

/* Median time of a restore divided by that of the computation; 0 when one was not measured. Pure. */
double sk_store_share(const sk_store_restore *r, enum sk_store_path path);

#endif
