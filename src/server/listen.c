#include "server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_loopback(const struct sockaddr *sa) {
    if (sa->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)sa;
        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    if (sa->sa_family != AF_INET6) return false;
    const struct in6_addr *a = &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

static int bind_one(const struct addrinfo *ai, int *fd) {
    int on = 1;
    int s = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s < 0) return errno;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(s, ai->ai_addr, ai->ai_addrlen) != 0) {
        int code = errno;
        close(s);
        return code;
    }
    *fd = s;
    return 0;
}

static int bind_first(const struct addrinfo *list, const char *host, uint16_t port, int *fd, sk_err *e) {
    int code = EADDRNOTAVAIL;
    for (const struct addrinfo *ai = list; ai; ai = ai->ai_next) {
        code = bind_one(ai, fd);
        if (code == 0) return SKIPPY_OK;
    }
    if (code == EADDRINUSE)
        return sk_err_set(e, SKIPPY_E_IO,
                          "port %u on '%s' is in use by another program: stop it or choose another --port", port, host);
    return sk_err_set(e, SKIPPY_E_IO, "cannot bind to '%s' port %u: %s", host, port, strerror(code));
}

int sk_listen_open(const char *host, uint16_t port, bool allow_public, int *fd, sk_err *e) {
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    int rc = getaddrinfo(host, service, &hints, &list);
    if (rc != 0)
        return sk_err_set(e, SKIPPY_E_INVALID, "--host '%s' is not an address of this machine: %s", host,
                          gai_strerror(rc));
    rc = SKIPPY_OK;
    for (const struct addrinfo *ai = list; ai && !allow_public; ai = ai->ai_next)
        if (!is_loopback(ai->ai_addr)) {
            rc = sk_err_set(
                e, SKIPPY_E_INVALID,
                "--host '%s' can be reached from other machines, and no API key is set: give --api-key or --api-key-file, "
                "or --allow-anonymous if everybody may use this server",
                host);
            break;
        }
    if (rc == SKIPPY_OK) rc = bind_first(list, host, port, fd, e);
    freeaddrinfo(list);
    return rc;
}

/* One address, in whichever of the three shapes the system calls want it. */
typedef union address {
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
} address;

static bool bound_address(int fd, address *a) {
    socklen_t len = sizeof *a;
    memset(a, 0, sizeof *a);
    return getsockname(fd, &a->sa, &len) == 0;
}

const char *sk_listen_name(int fd, char *buf, size_t cap) {
    address a;
    char host[64] = "?", port[16] = "?";
    if (bound_address(fd, &a))
        getnameinfo(&a.sa, sizeof a, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(buf, cap, a.sa.sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    return buf;
}

uint16_t sk_listen_port(int fd) {
    address a;
    if (!bound_address(fd, &a)) return 0;
    return ntohs(a.sa.sa_family == AF_INET6 ? a.in6.sin6_port : a.in.sin_port);
}
