#include "server/server.h"

#include <string.h>

void sk_server_defaults(sk_server_params *p) {
    memset(p, 0, sizeof *p);
    p->listen_fd = -1;
    p->max_body = (size_t)64 << 20;
    p->max_head = (size_t)64 << 10;
    p->max_output = (size_t)8 << 20;
    p->max_connections = 1000;
    p->head_timeout_ms = 10000;
    p->body_timeout_ms = 30000;
    p->idle_timeout_ms = 75000;
    p->write_timeout_ms = 60000;
    p->ping_ms = 15000;
    p->shutdown_ms = 10000;
    p->tick_ms = 250;
    p->read_threads = 2;
    p->read_queue = 256;
}
