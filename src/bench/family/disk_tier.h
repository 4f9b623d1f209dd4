/* What a running skippy says about its disk store: whether it has one that is open, and whether everything is written.
 * Read from GET /metrics. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_DISK_TIER_H
#define SKIPPY_BENCH_FAMILY_DISK_TIER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/endpoint.h"

typedef struct sk_disk_tier {
    bool ready;      /* a disk store is open */
    uint64_t staged; /* bytes that were copied out and are not stored yet */
    uint64_t puts;   /* entries that were written since the start */
} sk_disk_tier;

/* Reads a text of Prometheus metrics; what it does not say is 0. Pure. */
void sk_disk_tier_parse(const char *metrics, sk_disk_tier *out);
/* Errors: those of sk_http_client_request. A server without /metrics has no disk store. */
int sk_disk_tier_read(sk_endpoint *ep, sk_disk_tier *out, sk_err *e);
/* Waits until nothing has been written for a while, at most timeout_ms. True when that is so, or when there is no disk
 * store; false also when a signal came or the server does not answer. */
bool sk_disk_tier_wait_written(sk_endpoint *ep, int timeout_ms);
/* Waits until the store is open, at most timeout_ms. */
bool sk_disk_tier_wait_ready(sk_endpoint *ep, int timeout_ms);

#endif
