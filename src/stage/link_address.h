/* Addresses of links: "host:port", "[v6]:port", "unix:/path". */
#ifndef SKIPPY_STAGE_LINK_ADDRESS_H
#define SKIPPY_STAGE_LINK_ADDRESS_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"

enum { SK_LINK_NAME_MAX = 300 }; /* of an address as text */

typedef struct sk_address {
    bool is_unix;
    char host[256]; /* without brackets; empty for a unix socket */
    char port[8];   /* decimal */
    struct sockaddr_un local;
} sk_address;

/* Errors: SKIPPY_E_INVALID in words. */
int sk_address_parse(const char *text, sk_address *out, sk_err *e);

/* 127.0.0.0/8, ::1, and the first mapped into IPv6. */
bool sk_address_is_loopback(const struct sockaddr *sa);

/* Addresses of host and port; passive: to listen on. Free with freeaddrinfo. It may ask a name server, which takes as
 * long as the system's resolver is told to wait. Errors: SKIPPY_E_INVALID (to listen), SKIPPY_E_IO (to connect). */
int sk_address_resolve(const sk_address *a, bool passive, struct addrinfo **out, sk_err *e);

/* Numeric "host:port" of a socket's address, for people. */
void sk_address_name(const struct sockaddr *sa, socklen_t len, char *buf, size_t cap);

#endif
