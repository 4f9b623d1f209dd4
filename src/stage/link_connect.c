/* The connecting side: addresses, handshake, first sign of life. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "stage/link_internal.h"
#include "stage/link_socket.h"

enum { NS_PER_MS = 1000000, DEFAULT_SILENT_MS = 10000 };

static int ms_until(uint64_t by_ns) {
    uint64_t now = sk_now_ns();
    if (now >= by_ns) return 0;
    uint64_t ms = (by_ns - now) / NS_PER_MS + 1;
    return ms < 60000 ? (int)ms : 60000;
}

/* Waits for events on fd. False: the time is over. */
static bool wait_fd(int fd, short events, uint64_t by_ns) {
    struct pollfd p = {.fd = fd, .events = events};
    while (sk_now_ns() < by_ns)
        if (poll(&p, 1, ms_until(by_ns)) > 0) return true;
    return false;
}

void sk_socket_tune(int fd, uint32_t silent_ms) {
    int on = 1;
    unsigned silent = silent_ms ? silent_ms : DEFAULT_SILENT_MS;
    /* of a unix socket these fail, and it needs none of them */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent, sizeof silent);
}

int sk_socket_plaintext_error(const char *address, sk_err *e) {
    return sk_err_set(
        e, SKIPPY_E_INVALID,
        "'%s' needs certificates (make them with 'skippy stage init-certs'): plaintext is for unix sockets, and "
        "for loopback addresses when it is allowed explicitly",
        address);
}

/* ---- one socket ---- */

/* 0, or why it is not connected. */
static int connect_one(const struct sockaddr *sa, socklen_t len, uint64_t by_ns, int *out) {
    int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    int code = connect(fd, sa, len) == 0 ? 0 : errno;
    if (code == EINPROGRESS) {
        socklen_t n = sizeof code;
        code = ETIMEDOUT;
        if (wait_fd(fd, POLLOUT, by_ns)) getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &n);
    }
    if (code) {
        close(fd);
        return code;
    }
    *out = fd;
    return 0;
}

static size_t count_addresses(const struct addrinfo *list) {
    size_t n = 0;
    for (; list; list = list->ai_next) n++;
    return n;
}

/* Each address gets its share of the time, so that a dead first one leaves some for the next. */
static int connect_any(const struct addrinfo *list, uint64_t by_ns, int *fd) {
    size_t left = count_addresses(list);
    int code = EADDRNOTAVAIL;
    for (const struct addrinfo *ai = list; ai; ai = ai->ai_next, left--) {
        uint64_t now = sk_now_ns(), share = by_ns > now ? (by_ns - now) / left : 0;
        code = connect_one(ai->ai_addr, ai->ai_addrlen, now + share, fd);
        if (code == 0) break;
    }
    return code;
}

static bool all_loopback(const struct addrinfo *list) {
    for (; list; list = list->ai_next)
        if (!sk_address_is_loopback(list->ai_addr)) return false;
    return true;
}

static int connect_tcp(const char *address, const sk_address *a, const sk_link_security *s, bool encrypted,
                       uint64_t by_ns, int *code, int *fd, sk_err *e) {
    struct addrinfo *list;
    int rc = sk_address_resolve(a, false, &list, e);
    if (rc) return rc;
    if (!encrypted && !(s->allow_loopback && all_loopback(list)))
        rc = sk_socket_plaintext_error(address, e);
    else
        *code = connect_any(list, by_ns, fd);
    freeaddrinfo(list);
    return rc;
}

static int connect_socket(const char *address, const sk_address *a, const sk_link_security *s, bool encrypted,
                          uint64_t by_ns, int *fd, sk_err *e) {
    int code = 0, rc = SKIPPY_OK;
    if (a->is_unix)
        code = connect_one((const struct sockaddr *)(const void *)&a->local, sizeof a->local, by_ns, fd);
    else
        rc = connect_tcp(address, a, s, encrypted, by_ns, &code, fd, e);
    if (rc) return rc;
    if (code) return sk_err_set(e, SKIPPY_E_IO, "cannot connect to %s: %s", address, strerror(code));
    return SKIPPY_OK;
}

/* ---- handshake ---- */

/* Repeats a step of the channel until it is done, fails, or the time is over. */
static int until_done(sk_channel *c, int (*step)(sk_channel *c, sk_err *e), const char *address, uint64_t by_ns,
                      sk_err *e) {
    sk_err why = {0};
    for (;;) {
        int rc = step(c, &why);
        if (rc == SKIPPY_OK) return rc;
        if (rc != SKIPPY_E_BUSY) return sk_err_set(e, rc, "%s: %s", address, why.text);
        if (!wait_fd(c->fd, c->read_wants, by_ns))
            return sk_err_set(e, SKIPPY_E_IO, "%s did not answer in time: is it a stage that waits for this chain?",
                              address);
    }
}

/* The accepting side speaks first, when it is content with our certificate: until then nothing is sure. */
static int greet(sk_channel *c, const char *address, uint64_t by_ns, sk_err *e) {
    int rc = until_done(c, sk_channel_handshake, address, by_ns, e);
    return rc ? rc : until_done(c, sk_channel_peek, address, by_ns, e);
}

int sk_link_connect(const char *address, const sk_link_options *o, uint32_t timeout_ms, sk_link **out, sk_err *e) {
    const sk_link_security *s = &o->security;
    uint64_t by_ns = sk_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
    sk_address a;
    SSL_CTX *ctx = NULL;
    sk_channel c = {.fd = -1};
    bool encrypted;
    int fd = -1;
    *out = NULL;
    int rc = sk_tls_check(s, &encrypted, e);
    if (!rc) rc = sk_address_parse(address, &a, e);
    if (!rc && encrypted) rc = sk_tls_context(s, false, &ctx, e);
    if (!rc) rc = connect_socket(address, &a, s, encrypted, by_ns, &fd, e);
    if (rc) goto out;
    sk_socket_tune(fd, o->silent_ms);
    rc = sk_channel_open(&c, fd, ctx, false, a.is_unix ? NULL : a.host, e);
    if (!rc) rc = greet(&c, address, by_ns, e);
    if (!rc) rc = sk_link_start(&c, address, o, false, out, e);
out:
    sk_channel_close(&c);
    SSL_CTX_free(ctx);
    return rc;
}
