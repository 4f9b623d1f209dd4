/* Memory over many requests: does the resident set stay flat? */
#ifndef SKIPPY_BENCH_SOAK_H
#define SKIPPY_BENCH_SOAK_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/process.h"
#include "bench/report.h"

/* Context that the soak's prompts need at most. */
enum { SK_SOAK_LANE_TOKENS = 256 };

/* Sends `requests` short prompts (32 common beginnings, each time another end) to the server and reads its memory about
 * 40 times on the way. *points is malloc'ed; the points before an error are kept. Errors: those of the endpoint,
 * SKIPPY_E_NOMEM. */
int sk_soak_run(const sk_process *p, uint16_t port, int timeout_ms, uint64_t seed, size_t requests,
                sk_soak_point **points, size_t *n_points, sk_err *e);

#endif
