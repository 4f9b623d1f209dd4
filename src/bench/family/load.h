/* A load of streamed requests: some clients send them as fast as the answers come, each request on a connection of its
 * own, and every answer keeps its times.
 *
 * Connections are not reused, because a server that keeps a thread for each open connection would let the first clients
 * pass all others. sk_load_run may be called from any thread, several loads are independent. */
#ifndef SKIPPY_BENCH_FAMILY_LOAD_H
#define SKIPPY_BENCH_FAMILY_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/family/stream.h"

enum { SK_LOAD_MAX_CLIENTS = 1024 };

typedef struct sk_load {
    uint16_t port;  /* on 127.0.0.1 */
    int timeout_ms; /* longest silence of an answer */
    size_t clients; /* 1..SK_LOAD_MAX_CLIENTS */
} sk_load;

typedef struct sk_load_request {
    const char *body;      /* borrowed; see sk_stream_body */
    int rc;                /* after the run: SKIPPY_OK, or why there are no times */
    sk_stream_times times; /* when rc is SKIPPY_OK */
} sk_load_request;

/* Sends all n requests in order, at most `clients` at a time; *wall_ms: from the start until the last answer. A request
 * that fails is counted by its rc and does not stop the others. Errors: SKIPPY_E_INVALID (no clients or too many, no
 * requests), SKIPPY_E_NOMEM (no thread), SKIPPY_E_CANCELLED (a signal; within a second), or the error of the first
 * request when every request failed. */
int sk_load_run(const sk_load *l, sk_load_request *v, size_t n, double *wall_ms, sk_err *e);

/* Half and nearly all of the values, by nearest rank: times that were measured. */
typedef struct sk_load_percentiles {
    double p50, p99;
} sk_load_percentiles;

typedef struct sk_load_summary {
    size_t requests, ok;
    size_t within_slo;  /* first token and time per further token both within their limits */
    double goodput_rps; /* requests within the limits for each second of the run */
    sk_load_percentiles ttft, tpot, elapsed;
} sk_load_summary;

/* Pure. Errors: SKIPPY_E_NOMEM. */
int sk_load_summarize(const sk_load_request *v, size_t n, double wall_ms, double ttft_slo_ms, double tpot_slo_ms,
                      sk_load_summary *out, sk_err *e);

#endif
