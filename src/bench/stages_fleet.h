/* A front server and the processes behind it, for a measurement: a chain of skippy's stages, or llama-server with
 * rpc-server. Links can be slow. Not thread-safe. */
#ifndef SKIPPY_BENCH_STAGES_FLEET_H
#define SKIPPY_BENCH_STAGES_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/endpoint.h"
#include "bench/process.h"
#include "bench/relay.h"
#include "bench/stages.h"
#include "bench/stages_split.h"

typedef struct sk_fleet {
    sk_process front, behind[SK_STAGES_MAX - 1];
    size_t n_behind;
    sk_relay *relay[SK_STAGES_MAX - 1]; /* NULL: the link is direct */
    uint16_t port;                      /* of the front server */
    sk_endpoint ep;
    char command[1024]; /* of the front server, for the record */
} sk_fleet;

typedef struct sk_fleet_plan {
    const sk_stages_options *o;
    const sk_stages_split *split;
    const char *name; /* of logs and folders: "overhead" */
    size_t lanes;
    double delay_ms; /* each way, of every link; 0 = direct */
    bool disk;       /* caches on disk */
} sk_fleet_plan;

/* Start all processes and wait until the front server is ready. Errors in words, with the last lines of a log where a
 * process ended; nothing runs then. SKIPPY_E_UNSUPPORTED: llama-server with more than two stages. */
int sk_fleet_start_skippy(const sk_fleet_plan *p, sk_fleet *out, sk_err *e);
int sk_fleet_start_rpc(const sk_fleet_plan *p, sk_fleet *out, sk_err *e);
/* A zeroed fleet is fine. */
void sk_fleet_stop(sk_fleet *f);
/* Adds to the words in e what the process that ended said last, if one has ended. Returns e->code. */
int sk_fleet_explain(sk_fleet *f, sk_err *e);
/* Folder of stage i of this plan: its stage file and its cache. */
void sk_fleet_folder(const sk_fleet_plan *p, size_t stage, char *buf, size_t cap);
/* Makes the certificates of all fleets of this run when links use TLS. Errors: SKIPPY_E_RUNTIME with the program's
 * words. */
int sk_fleet_certificates(const sk_stages_options *o, sk_err *e);

#endif
