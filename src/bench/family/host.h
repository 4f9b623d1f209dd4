/* One server of a family run: how it is started, its connection, and a complete record of each of its processes.
 * Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_HOST_H
#define SKIPPY_BENCH_FAMILY_HOST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/endpoint.h"
#include "bench/launch.h"
#include "bench/process.h"

enum { SK_FAMILY_MAX_HOSTS = 6 };

/* A role is the host's name in every record. */
#define SK_HOST_BASE "llama-server"        /* default flags */
#define SK_HOST_TUNED "llama-server-tuned" /* its best flags */
#define SK_HOST_OURS "skippy"

typedef struct sk_family_host {
    const char *name; /* static */
    bool ours;
    sk_launch launch;   /* borrowed strings; ready_timeout_ms set */
    const char *folder; /* for its logs and receipts: OUT/.../process; borrowed */
    int timeout_ms;     /* longest silence of an answer */

    sk_process process; /* pid 0 = does not run */
    uint16_t port;
    sk_endpoint ep; /* valid while it runs */
    size_t starts;
    char started[32]; /* of the process that runs: UTC, ISO 8601 */
    char version[64];
    char command[1024];
    double ready_ms;          /* of the last start: until /health answered 200 */
    sk_process_memory memory; /* largest of all its processes, read before each stop */
    json_t *receipts;         /* array, one object a process; owned */
} sk_family_host;

/* Starts it; its standard output and error go to FOLDER/NAME-START.stdout and .stderr, complete. A process that ended
 * by itself leaves its receipt first. Errors: those of sk_launch_server, SKIPPY_E_EXISTS (it runs already). */
int sk_host_start(sk_family_host *h, sk_err *e);
/* Ends it (SIGTERM, then SIGKILL after a grace) and appends a receipt: {"role","program","command","started","ended",
 * "ready_ms","exit":{"code"|"signal"},"forced","peak_rss_kib","stdout":{"path","bytes","sha256"},"stderr":{...}}; a
 * path is the file's name in the folder, ready_ms null when it was never ready. A process that ended by itself, or that
 * did not become ready, leaves a receipt as well. Does nothing when there was none. */
void sk_host_stop(sk_family_host *h);
/* Stop and start on the same folders: what a restart of the service is. Errors: those of sk_host_start. */
int sk_host_restart(sk_family_host *h, sk_err *e);
/* Stops it and frees what it owns. */
void sk_host_free(sk_family_host *h);
/* When a request failed with rc: says so if the server has ended, with its last words. Returns rc. */
int sk_host_explain(sk_family_host *h, int rc, sk_err *e);

#endif
