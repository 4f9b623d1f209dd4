#include "server/raw_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

int raw_connect(uint16_t port) {
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = 10};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    return fd;
}

void raw_send(int fd, const char *text) {
    size_t len = strlen(text), at = 0;
    while (at < len) {
        ssize_t n = send(fd, text + at, len - at, MSG_NOSIGNAL);
        if (n <= 0) return; /* the server may have hung up: the test sees that when it reads */
        at += (size_t)n;
    }
}

void raw_request(int fd, const char *method, const char *path, const char *extra, const char *body) {
    sk_buf b = {0};
    sk_buf_printf(&b, "%s %s HTTP/1.1\r\nHost: test\r\n%s", method, path, extra ? extra : "");
    if (body) sk_buf_printf(&b, "Content-Length: %zu\r\n", strlen(body));
    sk_buf_printf(&b, "\r\n%s", body ? body : "");
    raw_send(fd, b.data);
    sk_buf_free(&b);
}

static bool read_some(int fd, sk_buf *in) {
    char chunk[65536];
    ssize_t n = recv(fd, chunk, sizeof chunk, 0);
    if (n <= 0) return false;
    sk_buf_add(in, chunk, (size_t)n);
    return true;
}

bool raw_read_until(int fd, sk_buf *in, const char *text) {
    while (!in->data || !memmem(in->data, in->len, text, strlen(text)))
        if (!read_some(fd, in)) return false;
    return true;
}

bool raw_read_to_end(int fd, sk_buf *in) {
    do errno = 0;
    while (read_some(fd, in));
    return errno != EAGAIN && errno != EWOULDBLOCK;
}

int raw_read_reply(int fd, sk_buf *in, size_t *end) {
    if (!raw_read_until(fd, in, "\r\n\r\n")) return 0;
    const char *blank = strstr(in->data, "\r\n\r\n");
    size_t head = (size_t)(blank - in->data) + 4;
    int status = (int)strtol(in->data + strlen("HTTP/1.1 "), NULL, 10);
    const char *length = strcasestr(in->data, "Content-Length:");
    if (length && length < blank) {
        size_t total = head + (size_t)strtoul(length + strlen("Content-Length:"), NULL, 10);
        while (in->len < total)
            if (!read_some(fd, in)) return 0;
        if (end) *end = total;
        return status;
    }
    if (!raw_read_until(fd, in, "0\r\n\r\n")) return 0;
    if (end) *end = in->len;
    return status;
}

bool raw_chunked_body(const sk_buf *in, sk_buf *body) {
    const char *at = strstr(in->data, "\r\n\r\n");
    if (!at) return false;
    at += 4;
    const char *stop = in->data + in->len;
    while (at < stop) {
        char *after = NULL;
        size_t n = (size_t)strtoul(at, &after, 16);
        if (after == at || strncmp(after, "\r\n", 2) != 0) return false;
        at = after + 2;
        if (n == 0) return strncmp(at, "\r\n", 2) == 0;
        if ((size_t)(stop - at) < n + 2 || strncmp(at + n, "\r\n", 2) != 0) return false;
        sk_buf_add(body, at, n);
        at += n + 2;
    }
    return false;
}
