/* The text of /metrics: Prometheus exposition format 0.0.4. */
#ifndef SKIPPY_SERVER_METRICS_H
#define SKIPPY_SERVER_METRICS_H

#include <stdint.h>

#include "base/buf.h"
#include "engine/engine.h"
#include "server/routes.h"

#define SK_HTTP_STATUSES 24

/* Replies by route and status. Loop thread only. */
typedef struct sk_http_stats {
    struct {
        int status; /* 0 = free */
        uint64_t count;
    } replies[SK_ROUTES][SK_HTTP_STATUSES];
    uint64_t connections; /* open now */
    uint64_t reading;     /* requests whose bodies wait for a worker or are with one */
} sk_http_stats;

void sk_http_stats_count(sk_http_stats *s, enum sk_route route, int status);

typedef struct sk_metrics_input {
    const sk_engine_stats *engine;
    const sk_engine_facts *facts;
    const sk_http_stats *http;
    const char *model_id, *build_info;
    uint64_t process_bytes; /* resident set, 0 = unknown */
    bool draining;
} sk_metrics_input;

void sk_metrics_render(const sk_metrics_input *in, sk_buf *out);
/* Resident set of this process in bytes, 0 when the system does not tell. */
uint64_t sk_process_resident_bytes(void);

#endif
