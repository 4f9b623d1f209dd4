/* A small blocking HTTP/1.1 client for measurements: one connection, kept alive, TCP_NODELAY, one write per request.
 *
 * It talks to servers on this machine that the benchmark started: no TLS, no redirects, no proxies.
 * Thread-safety: a client belongs to one thread; several clients are independent. */
#ifndef SKIPPY_BENCH_HTTP_CLIENT_H
#define SKIPPY_BENCH_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define SK_HTTP_MAX_HEADER ((size_t)64 << 10)
#define SK_HTTP_MAX_BODY ((size_t)64 << 20)

typedef struct sk_http_client {
    uint16_t port;  /* on 127.0.0.1 */
    int timeout_ms; /* longest silence while waiting for bytes; a signal ends the wait within a fifth of a second */
    int fd;         /* -1 = not connected */
    sk_buf in;      /* bytes that were read but not consumed yet */
} sk_http_client;

typedef struct sk_http_response {
    int status;
    bool keep_alive;
    sk_buf body; /* freed with sk_http_response_free, reused by the next request */
} sk_http_response;

void sk_http_client_init(sk_http_client *c, uint16_t port, int timeout_ms);
void sk_http_client_close(sk_http_client *c);

/* Makes sure that a connection stands, so that a timed request does not pay for the server's habit of closing a
 * connection after some requests or some idle seconds. Errors: SKIPPY_E_IO. */
int sk_http_client_prepare(sk_http_client *c, sk_err *e);

/* Sends one request and reads the whole answer into r (zero-initialised before the first use). body may be NULL.
 * Any status is a success here. Connects when needed; a failed exchange is never sent twice.
 * Errors (the connection is closed): SKIPPY_E_IO (connect, send, premature close), SKIPPY_E_TIMEOUT,
 * SKIPPY_E_CANCELLED (a signal asked the benchmark to stop), SKIPPY_E_CORRUPT (not HTTP), SKIPPY_E_TOO_LARGE,
 * SKIPPY_E_NOMEM. */
int sk_http_client_request(sk_http_client *c, const char *method, const char *path, const char *body, size_t len,
                           sk_http_response *r, sk_err *e);
/* The same for an answer that arrives over time: every piece of the body of a 200 goes to `piece` as soon as it is
 * there, without the framing of chunks; the body of any other status goes into r->body. The server is asked to close
 * the connection afterwards. `piece` returns SKIPPY_OK, or an error that ends the exchange. Errors: those of
 * sk_http_client_request and of `piece`. */
typedef int (*sk_http_piece_fn)(void *ud, const char *data, size_t len, sk_err *e);
int sk_http_client_stream(sk_http_client *c, const char *path, const char *body, size_t len, sk_http_piece_fn piece,
                          void *ud, sk_http_response *r, sk_err *e);
void sk_http_response_free(sk_http_response *r);

#endif
