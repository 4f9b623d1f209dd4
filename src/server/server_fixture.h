/* A server on a free loopback port with a fake engine behind it, for tests. */
#ifndef SKIPPY_SERVER_SERVER_FIXTURE_H
#define SKIPPY_SERVER_SERVER_FIXTURE_H

#include <pthread.h>

#include "server/server.h"

typedef struct server_fixture {
    sk_server *server;
    sk_auth *auth;
    pthread_t thread;
    uint16_t port;
} server_fixture;

/* Defaults with time-outs that no test reaches, and a short tick. */
void fixture_params(sk_server_params *p);
/* Resets the fake engine, then starts the server with p (listen_fd, ids and auth are filled in). keys may be NULL. */
void fixture_start(server_fixture *f, const sk_server_params *p, const char *keys);
/* Waits for the loop to end (after sk_server_stop), without destroying the server. The fake engine is gone then. */
void fixture_join(server_fixture *f);
/* Stops at once, joins, destroys. All fake jobs must have had their last event. */
void fixture_stop(server_fixture *f);

#endif
