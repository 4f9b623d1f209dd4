#include "stage/link_address.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "stage/link.h"

static const char FORMS[] = "write host:port, [IPv6 address]:port or unix:/path";

static int parse_unix(const char *text, const char *path, sk_address *out, sk_err *e) {
    out->is_unix = true;
    out->local.sun_family = AF_UNIX;
    if (!*path) return sk_err_set(e, SKIPPY_E_INVALID, "the address '%s' has no path: %s", text, FORMS);
    if (strlen(path) >= sizeof out->local.sun_path)
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "the path of '%s' is longer than the %zu bytes that a unix socket may have", text,
                          sizeof out->local.sun_path - 1);
    memcpy(out->local.sun_path, path, strlen(path));
    return SKIPPY_OK;
}

static bool is_port(const char *s) {
    unsigned value = 0, digits = 0;
    for (; *s >= '0' && *s <= '9' && digits < 6; s++, digits++) value = value * 10 + (unsigned)(*s - '0');
    return digits > 0 && !*s && value <= 65535;
}

int sk_address_parse(const char *text, sk_address *out, sk_err *e) {
    memset(out, 0, sizeof *out);
    if (!text || !*text) return sk_err_set(e, SKIPPY_E_INVALID, "an address is empty: %s", FORMS);
    if (strncmp(text, "unix:", 5) == 0) return parse_unix(text, text + 5, out, e);
    const char *host = text, *colon = strrchr(text, ':'), *end = colon;
    if (!colon || !is_port(colon + 1))
        return sk_err_set(e, SKIPPY_E_INVALID, "the address '%s' has no port between 0 and 65535: %s", text, FORMS);
    if (*host == '[') {
        host++;
        end = colon - 1;
        if (end <= host || *end != ']')
            return sk_err_set(e, SKIPPY_E_INVALID, "the brackets of '%s' are not as expected: %s", text, FORMS);
    } else if (memchr(host, ':', (size_t)(end - host))) {
        return sk_err_set(e, SKIPPY_E_INVALID, "the address '%s' has several colons: %s", text, FORMS);
    }
    size_t n = (size_t)(end - host);
    if (n == 0) return sk_err_set(e, SKIPPY_E_INVALID, "the address '%s' has no host: %s", text, FORMS);
    if (n >= sizeof out->host)
        return sk_err_set(e, SKIPPY_E_INVALID, "the host of '%.64s...' is longer than %zu characters", text,
                          sizeof out->host - 1);
    memcpy(out->host, host, n);
    snprintf(out->port, sizeof out->port, "%s", colon + 1);
    return SKIPPY_OK;
}

int sk_link_check_address(const char *address, sk_err *e) {
    sk_address a;
    return sk_address_parse(address, &a, e);
}

bool sk_address_is_loopback(const struct sockaddr *sa) {
    if (sa->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, sa, sizeof in);
        return ntohl(in.sin_addr.s_addr) >> 24 == 127;
    }
    if (sa->sa_family != AF_INET6) return false;
    struct sockaddr_in6 in6;
    memcpy(&in6, sa, sizeof in6);
    const struct in6_addr *a = &in6.sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

int sk_address_resolve(const sk_address *a, bool passive, struct addrinfo **out, sk_err *e) {
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0)};
    *out = NULL;
    int rc = getaddrinfo(a->host, a->port, &hints, out);
    if (rc == 0) return SKIPPY_OK;
    if (passive)
        return sk_err_set(e, SKIPPY_E_INVALID, "'%s' is not an address of this machine: %s", a->host, gai_strerror(rc));
    return sk_err_set(e, SKIPPY_E_IO, "the host '%s' cannot be found: %s", a->host, gai_strerror(rc));
}

void sk_address_name(const struct sockaddr *sa, socklen_t len, char *buf, size_t cap) {
    char host[64] = "?", port[16] = "?";
    getnameinfo(sa, len, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(buf, cap, sa->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}
