/* Test client that speaks HTTP byte by byte over a loopback socket, so that tests can be as rude as they like. */
#ifndef SKIPPY_SERVER_RAW_CLIENT_H
#define SKIPPY_SERVER_RAW_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Connects; reads time out after 10 s. The test fails when it cannot. */
int raw_connect(uint16_t port);
void raw_send(int fd, const char *text);
/* Sends a request with Content-Length. extra: header lines, each with CRLF. */
void raw_request(int fd, const char *method, const char *path, const char *extra, const char *body);
/* Reads until `text` has been seen in what was read, or the connection ends: false then. Appends to in. */
bool raw_read_until(int fd, sk_buf *in, const char *text);
/* Reads one whole reply with Content-Length or chunked; returns its status, 0 when the connection ended before it was
 * complete. in holds head and body as sent; bytes of a following reply stay unread or are kept in `in` from *end on. */
int raw_read_reply(int fd, sk_buf *in, size_t *end);
/* True when the peer closes within 10 s without sending more (what comes is appended to in). */
bool raw_read_to_end(int fd, sk_buf *in);
/* Decodes the chunked body that begins behind the blank line of in. False when it is not complete. */
bool raw_chunked_body(const sk_buf *in, sk_buf *body);

#endif
