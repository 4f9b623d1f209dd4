/* The listening socket. Opened before the model is loaded, so that a wrong address or a port in use is known at once.
 */
#ifndef SKIPPY_SERVER_LISTEN_H
#define SKIPPY_SERVER_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Resolves host and binds; clients are refused until the server listens. port 0: any free one.
 * allow_public false: every address of host must be loopback, since anybody who reaches the port may use the model.
 * Errors in words: SKIPPY_E_INVALID (unknown host, not loopback), SKIPPY_E_IO (port in use, no permission). */
int sk_listen_open(const char *host, uint16_t port, bool allow_public, int *fd, sk_err *e);
/* Where the socket is bound, as it stands in a URL: "127.0.0.1:8080" or "[::1]:8080". Returns buf. */
const char *sk_listen_name(int fd, char *buf, size_t cap);
uint16_t sk_listen_port(int fd);

#endif
