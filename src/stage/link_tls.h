/* Bytes of a connection, encrypted or not: a non-blocking socket with or without TLS 1.3 around it.
 *
 * Not thread-safe: whoever uses a channel holds the lock of its link. */
#ifndef SKIPPY_STAGE_LINK_TLS_H
#define SKIPPY_STAGE_LINK_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <openssl/ssl.h>

#include "base/err.h"
#include "stage/link.h"

typedef struct sk_channel {
    int fd;                        /* -1 = closed */
    SSL *ssl;                      /* NULL = plaintext */
    short read_wants, write_wants; /* poll events that the next read or write waits for; TLS may want the other one */
} sk_channel;

/* Results of sk_channel_read and sk_channel_write that are no number of bytes. */
enum { SK_CHANNEL_WAIT = 0, SK_CHANNEL_END = -1, SK_CHANNEL_FAILED = -2 };

/* Whether the files are there or all missing. SKIPPY_E_INVALID: some of them. */
int sk_tls_check(const sk_link_security *s, bool *encrypted, sk_err *e);
/* Settings and certificates of one side. Errors: SKIPPY_E_INVALID (files, in words), SKIPPY_E_NOMEM. */
int sk_tls_context(const sk_link_security *s, bool server, SSL_CTX **out, sk_err *e);

/* Takes fd (closed on failure). ctx NULL: plaintext. host: whose name the peer's certificate must have, NULL = anyone
 * of the authority. Errors: SKIPPY_E_INVALID (not a name), SKIPPY_E_NOMEM. */
int sk_channel_open(sk_channel *c, int fd, SSL_CTX *ctx, bool server, const char *host, sk_err *e);
/* One step of the handshake. SKIPPY_E_BUSY: not done, read_wants says what to wait for; SKIPPY_E_UNSUPPORTED:
 * certificates or TLS versions do not agree, in words; SKIPPY_E_IO: the connection ended. Plaintext is done at once. */
int sk_channel_handshake(sk_channel *c, sk_err *e);
/* Whether a byte can be read, without taking it: SKIPPY_OK, or as for the handshake. In TLS 1.3 a client learns only
 * from what it reads that its certificate was refused. */
int sk_channel_peek(sk_channel *c, sk_err *e);

/* Bytes moved (> 0) or one of SK_CHANNEL_*; e is set for END and FAILED. Never raises SIGPIPE. After SK_CHANNEL_WAIT a
 * write must be repeated with the same bytes and no fewer of them. */
ssize_t sk_channel_read(sk_channel *c, void *buf, size_t n, sk_err *e);
ssize_t sk_channel_write(sk_channel *c, const void *buf, size_t n, sk_err *e);
/* Says that nothing more comes from here; the other direction stays open. */
void sk_channel_finish(sk_channel *c);
void sk_channel_close(sk_channel *c);

#endif
