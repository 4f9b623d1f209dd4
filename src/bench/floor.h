/* The lower bound of a cached request, measured honestly: a server and a bare process take turns on one machine.
 *
 * In each round the server answers one request that shares a stored prefix, over HTTP, and a process without a server
 * (bench/bare.h, the same prefix in its context) decodes the same new tokens; the order changes from round to round.
 * Whoever does not work sleeps: the processor time that it used meanwhile is measured too. A slow minute of the machine
 * hits both, so the ratio of a round means something where two separate runs would not. Not thread-safe. */
#ifndef SKIPPY_BENCH_FLOOR_H
#define SKIPPY_BENCH_FLOOR_H

#include <jansson.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "bench/launch.h"
#include "bench/scenario.h"

typedef struct sk_floor_options {
    sk_launch server;
    const char *name;    /* of the server, for the record */
    const char *skippy;  /* program that has `bench bare` */
    const char *out_dir; /* for the logs */
    int timeout_ms;
} sk_floor_options;

/* One measured round. */
typedef struct sk_floor_round {
    double server_ms, bare_ms;
    size_t cache_n, prompt_n; /* the server's own counts */
    double server_idle_ms;    /* processor time of the server while the bare process worked */
    double bare_idle_ms;      /* and the other way round */
} sk_floor_round;

/* Measures SK_WARM_UPS + s->runs rounds and returns the record of sk_floor_json in *out (the caller decrefs). Errors:
 * those of the server and the bare process, SKIPPY_E_INVALID (the two do not make the same tokens of the prompts). */
int sk_floor_run(const sk_floor_options *o, const sk_sizes *s, json_t **out, sk_err *e);
/* {"server", "server_p50_ms", "bare_p50_ms", "ratio" (of these two), "round_ratio": {"p50", "p25", "p75", "min",
 * "max"}, "cache_n", "prompt_n" (medians), "server_idle_cpu", "bare_idle_cpu" (share of a core), "rounds": [...]}; NULL
 * when out of memory or n is 0. Pure. */
json_t *sk_floor_json(const char *server, const sk_floor_round *rounds, size_t n);
/* Appends one line of a list for people. */
void sk_floor_line(const json_t *record, const sk_sizes *s, sk_buf *out);

#endif
