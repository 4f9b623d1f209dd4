/* The HTTP server: one loop thread between clients, the API layer and the engine. Bodies of requests are read by a few
 * worker threads, so that no body keeps the loop from other clients.
 *
 * Life: sk_engine_start -> sk_server_create -> sk_server_run (blocks) -> sk_engine_stop -> sk_server_destroy ->
 * sk_api_destroy. The engine stops before the server is destroyed: then the last event of every job is in, and
 * nothing of a client's call is used after it is freed. */
#ifndef SKIPPY_SERVER_SERVER_H
#define SKIPPY_SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/engine.h"
#include "openai/api.h"
#include "server/auth.h"

typedef struct sk_server sk_server;

/* Everything is borrowed until sk_server_destroy, except listen_fd, which the server takes over. */
typedef struct sk_server_params {
    int listen_fd; /* from sk_listen_open */
    sk_engine *engine;
    sk_api *api;
    const sk_auth *auth; /* NULL or empty: no key is asked for */
    const char *model_id, *model_path, *build_info;
    size_t max_body, max_head,
        max_output;           /* bytes: of a request's body and head, and of a stream that waits for its reader */
    uint32_t max_connections; /* further clients wait in the system's queue */
    uint32_t head_timeout_ms, body_timeout_ms, idle_timeout_ms, write_timeout_ms;
    uint32_t ping_ms;      /* silence in a stream after which a comment is sent */
    uint32_t shutdown_ms;  /* how long running requests may go on after a stop */
    uint32_t tick_ms;      /* how often time-outs are looked at */
    uint32_t read_threads; /* workers that turn bodies into engine requests; at least 1 */
    uint32_t read_queue;   /* bodies that may wait for a worker: beyond it 503 */
} sk_server_params;

/* Fills the limits with their defaults, the rest with zero. */
void sk_server_defaults(sk_server_params *p);

/* Starts to listen. The program must ignore SIGPIPE: a client that has left is an error of write here. Errors:
 * SKIPPY_E_NOMEM, SKIPPY_E_IO (listen_fd is closed in any case). */
int sk_server_create(const sk_server_params *p, sk_server **out, sk_err *e);
/* Serves on the calling thread until it is stopped. On return no thread of the server uses the engine any more; a body
 * that is just being read is waited for. */
void sk_server_run(sk_server *s);
/* Any thread, and signal handlers: the first call refuses new work and lets running requests end for up to shutdown_ms,
 * the second ends at once. */
void sk_server_stop(sk_server *s);
void sk_server_destroy(sk_server *s);

#endif
