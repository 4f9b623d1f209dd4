#include "bench/http_client.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/interrupt.h"

enum { READ_CHUNK = 16384, WAIT_SLICE_MS = 200 };

/* Where a body goes: into a buffer, or to a function as it arrives. */
typedef struct body_sink {
    sk_buf *buf;            /* NULL = to the function */
    sk_http_piece_fn piece; /* NULL = into the buffer */
    void *ud;
    size_t total;
} body_sink;

/* Facts of a response head that decide how the body is read. */
typedef struct head {
    int status;
    bool keep_alive;
    bool chunked;
    bool has_length;
    size_t length;
} head;

void sk_http_client_init(sk_http_client *c, uint16_t port, int timeout_ms) {
    *c = (sk_http_client){.port = port, .timeout_ms = timeout_ms, .fd = -1};
}

static void disconnect(sk_http_client *c) {
    if (c->fd >= 0) {
        close(c->fd);
        c->fd = -1;
    }
    sk_buf_clear(&c->in);
}

void sk_http_client_close(sk_http_client *c) {
    disconnect(c);
    sk_buf_free(&c->in);
}

void sk_http_response_free(sk_http_response *r) {
    sk_buf_free(&r->body);
    *r = (sk_http_response){0};
}

static int connect_local(sk_http_client *c, sk_err *e) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return sk_err_set(e, SKIPPY_E_IO, "cannot open a socket: %s", strerror(errno));
    }
    const int on = 1;
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(c->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        connect(fd, (const struct sockaddr *)&a, sizeof a) != 0) {
        const int saved = errno;
        close(fd);
        return sk_err_set(e, SKIPPY_E_IO, "cannot connect to 127.0.0.1:%u: %s", (unsigned)c->port, strerror(saved));
    }
    c->fd = fd;
    return SKIPPY_OK;
}

int sk_http_client_prepare(sk_http_client *c, sk_err *e) {
    if (c->fd >= 0) {
        /* Between two requests nothing should arrive: readable means that the server closed the connection. */
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        if (poll(&p, 1, 0) == 0 && c->in.len == 0) {
            return SKIPPY_OK;
        }
        disconnect(c);
    }
    return connect_local(c, e);
}

static int send_all(sk_http_client *c, const sk_buf *out, sk_err *e) {
    for (size_t done = 0; done < out->len;) {
        const ssize_t n = send(c->fd, out->data + done, out->len - done, MSG_NOSIGNAL);
        if (n > 0) {
            done += (size_t)n;
        } else if (n < 0 && errno == EINTR && !sk_interrupted()) {
            continue;
        } else {
            return sk_err_set(e, sk_interrupted() ? SKIPPY_E_CANCELLED : SKIPPY_E_IO, "cannot send the request: %s",
                              strerror(errno));
        }
    }
    return SKIPPY_OK;
}

/* Waits until the server has sent something or has closed. A signal wakes only one thread of a program, so that the
 * others have to look for themselves from time to time. */
static int wait_readable(sk_http_client *c, sk_err *e) {
    const uint64_t begin = sk_now_ns();
    for (;;) {
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        const int64_t left = c->timeout_ms - (int64_t)((sk_now_ns() - begin) / 1000000u);
        const int ready = poll(&p, 1, left <= 0 ? 0 : left < WAIT_SLICE_MS ? (int)left : WAIT_SLICE_MS);
        if (ready < 0 && errno != EINTR) {
            return sk_err_set(e, SKIPPY_E_IO, "cannot wait for the server: %s", strerror(errno));
        }
        if (sk_interrupted()) {
            return sk_err_set(e, SKIPPY_E_CANCELLED, "interrupted");
        }
        if (ready > 0) {
            return SKIPPY_OK;
        }
        if (left <= 0) {
            return sk_err_set(e, SKIPPY_E_TIMEOUT, "the server was silent for %d ms", c->timeout_ms);
        }
    }
}

/* Reads once into c->in. *got is 0 at the end of the stream. */
static int read_some(sk_http_client *c, size_t *got, sk_err *e) {
    for (;;) {
        const int rc = wait_readable(c, e);
        if (rc != SKIPPY_OK) {
            return rc;
        }
        if (!sk_buf_reserve(&c->in, READ_CHUNK)) {
            return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory while reading an answer");
        }
        char piece[READ_CHUNK];
        const ssize_t n = recv(c->fd, piece, sizeof piece, 0);
        if (n >= 0) {
            sk_buf_add(&c->in, piece, (size_t)n);
            *got = (size_t)n;
            return SKIPPY_OK;
        }
        if (errno != EINTR) {
            return sk_err_set(e, SKIPPY_E_IO, "cannot read the answer: %s", strerror(errno));
        }
    }
}

static int need_more(sk_http_client *c, const char *what, sk_err *e) {
    size_t got = 0;
    const int rc = read_some(c, &got, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    return got ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_IO, "the server closed the connection in the middle of %s", what);
}

/* Reads until `text` is in the buffer at or after `from`; *at is its offset. */
static int read_until(sk_http_client *c, const char *text, size_t limit, const char *what, size_t *at, sk_err *e) {
    const size_t n = strlen(text);
    for (;;) {
        const char *hit = c->in.len >= n ? memmem(c->in.data, c->in.len, text, n) : NULL;
        if (hit) {
            *at = (size_t)(hit - c->in.data);
            return SKIPPY_OK;
        }
        if (c->in.len > limit) {
            return sk_err_set(e, SKIPPY_E_TOO_LARGE, "%s is larger than %zu bytes", what, limit);
        }
        const int rc = need_more(c, what, e);
        if (rc != SKIPPY_OK) {
            return rc;
        }
    }
}

static bool parse_size(const char *s, size_t len, int base, size_t *out) {
    if (len == 0 || len > 15) {
        return false;
    }
    size_t v = 0;
    for (size_t i = 0; i < len; i++) {
        const int ch = tolower((unsigned char)s[i]);
        const int digit = isdigit(ch) ? ch - '0' : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : 99;
        if (digit >= base) {
            return false;
        }
        v = v * (size_t)base + (size_t)digit;
    }
    *out = v;
    return true;
}

/* True when the line is the header `name`; *value and *len are its trimmed value. */
static bool header_is(const char *line, size_t n, const char *name, const char **value, size_t *len) {
    const size_t k = strlen(name);
    if (n <= k || line[k] != ':' || strncasecmp(line, name, k) != 0) {
        return false;
    }
    const char *from = line + k + 1;
    const char *to = line + n;
    while (from < to && (*from == ' ' || *from == '\t')) {
        from++;
    }
    while (to > from && (to[-1] == ' ' || to[-1] == '\t')) {
        to--;
    }
    *value = from;
    *len = (size_t)(to - from);
    return true;
}

static bool value_is(const char *value, size_t len, const char *want) {
    return len == strlen(want) && strncasecmp(value, want, len) == 0;
}

static int parse_header(const char *line, size_t n, head *h, sk_err *e) {
    const char *v = NULL;
    size_t len = 0;
    if (header_is(line, n, "Content-Length", &v, &len)) {
        h->has_length = parse_size(v, len, 10, &h->length);
        if (!h->has_length) {
            return sk_err_set(e, SKIPPY_E_CORRUPT, "the answer has an unreadable Content-Length");
        }
    } else if (header_is(line, n, "Transfer-Encoding", &v, &len)) {
        h->chunked = value_is(v, len, "chunked");
    } else if (header_is(line, n, "Connection", &v, &len)) {
        h->keep_alive = !value_is(v, len, "close");
    }
    return SKIPPY_OK;
}

static int parse_head(const char *text, size_t len, head *h, sk_err *e) {
    size_t status = 0;
    *h = (head){.keep_alive = true};
    if (len < 12 || memcmp(text, "HTTP/1.", 7) != 0 || !parse_size(text + 9, 3, 10, &status) || status < 100) {
        return sk_err_set(e, SKIPPY_E_CORRUPT, "the answer is not HTTP");
    }
    h->status = (int)status;
    h->keep_alive = text[7] != '0';
    const char *end = text + len;
    const char *line = memmem(text, len, "\r\n", 2);
    while (line && line + 2 < end) {
        line += 2;
        const char *next = memmem(line, (size_t)(end - line), "\r\n", 2);
        const int rc = parse_header(line, (size_t)((next ? next : end) - line), h, e);
        if (rc != SKIPPY_OK) {
            return rc;
        }
        line = next;
    }
    return SKIPPY_OK;
}

static int put(body_sink *s, const char *data, size_t n, sk_err *e) {
    if (s->piece) {
        return s->piece(s->ud, data, n, e);
    }
    sk_buf_add(s->buf, data, n);
    return s->buf->failed ? sk_err_set(e, SKIPPY_E_NOMEM, "out of memory while reading an answer") : SKIPPY_OK;
}

/* Moves exactly n bytes of the stream to out, each as soon as it is there. */
static int take(sk_http_client *c, size_t n, body_sink *out, sk_err *e) {
    if (n > SK_HTTP_MAX_BODY || out->total > SK_HTTP_MAX_BODY - n) {
        return sk_err_set(e, SKIPPY_E_TOO_LARGE, "the answer is larger than %zu bytes", SK_HTTP_MAX_BODY);
    }
    out->total += n;
    while (n > 0) {
        int rc = c->in.len == 0 ? need_more(c, "a body", e) : SKIPPY_OK;
        if (rc != SKIPPY_OK) {
            return rc;
        }
        const size_t piece = c->in.len < n ? c->in.len : n;
        rc = put(out, c->in.data, piece, e);
        sk_buf_consume(&c->in, piece);
        if (rc != SKIPPY_OK) {
            return rc;
        }
        n -= piece;
    }
    return SKIPPY_OK;
}

static int skip_line(sk_http_client *c, size_t *len, sk_err *e) {
    const int rc = read_until(c, "\r\n", SK_HTTP_MAX_HEADER, "a chunk", len, e);
    if (rc == SKIPPY_OK) {
        sk_buf_consume(&c->in, *len + 2);
    }
    return rc;
}

static int read_chunked(sk_http_client *c, body_sink *out, sk_err *e) {
    for (;;) {
        size_t line = 0;
        size_t size = 0;
        int rc = read_until(c, "\r\n", SK_HTTP_MAX_HEADER, "a chunk", &line, e);
        if (rc != SKIPPY_OK) {
            return rc;
        }
        const char *ext = memchr(c->in.data, ';', line);
        const size_t digits = ext ? (size_t)(ext - c->in.data) : line;
        if (!parse_size(c->in.data, digits, 16, &size)) {
            return sk_err_set(e, SKIPPY_E_CORRUPT, "the answer has an unreadable chunk size");
        }
        sk_buf_consume(&c->in, line + 2);
        if (size == 0) {
            break;
        }
        rc = take(c, size, out, e);
        if (rc == SKIPPY_OK) {
            rc = skip_line(c, &line, e);
        }
        if (rc != SKIPPY_OK) {
            return rc;
        }
        if (line != 0) {
            return sk_err_set(e, SKIPPY_E_CORRUPT, "a chunk of the answer is longer than its size");
        }
    }
    for (size_t trailer = 1; trailer != 0;) {
        const int rc = skip_line(c, &trailer, e);
        if (rc != SKIPPY_OK) {
            return rc;
        }
    }
    return SKIPPY_OK;
}

static int read_to_end(sk_http_client *c, body_sink *out, sk_err *e) {
    for (;;) {
        size_t got = 0;
        int rc = c->in.len ? take(c, c->in.len, out, e) : SKIPPY_OK;
        if (rc == SKIPPY_OK) {
            rc = read_some(c, &got, e);
        }
        if (rc != SKIPPY_OK || got == 0) {
            return rc;
        }
    }
}

/* piece: where the body of a 200 goes, NULL = into r->body. */
static int read_response(sk_http_client *c, sk_http_piece_fn piece, void *ud, sk_http_response *r, sk_err *e) {
    head h;
    size_t end = 0;
    int rc;
    do { /* 1xx answers come before the real one */
        rc = read_until(c, "\r\n\r\n", SK_HTTP_MAX_HEADER, "a header", &end, e);
        if (rc == SKIPPY_OK) {
            rc = parse_head(c->in.data, end, &h, e);
        }
        if (rc != SKIPPY_OK) {
            return rc;
        }
        sk_buf_consume(&c->in, end + 4);
    } while (h.status < 200);
    r->status = h.status;
    r->keep_alive = h.keep_alive;
    sk_buf_clear(&r->body);
    body_sink out = {.buf = &r->body};
    if (piece && h.status == 200) {
        out = (body_sink){.piece = piece, .ud = ud};
    }
    if (h.status == 204 || h.status == 304) {
        return SKIPPY_OK;
    }
    if (h.chunked) {
        return read_chunked(c, &out, e);
    }
    if (h.has_length) {
        return take(c, h.length, &out, e);
    }
    r->keep_alive = false; /* without a length only the end of the connection ends the body */
    return read_to_end(c, &out, e);
}

static void write_request(const sk_http_client *c, const char *method, const char *path, const char *body, size_t len,
                          bool keep_alive, sk_buf *out) {
    sk_buf_printf(out, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nConnection: %s\r\n", method, path, (unsigned)c->port,
                  keep_alive ? "keep-alive" : "close");
    if (body) {
        sk_buf_printf(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", len);
    }
    sk_buf_str(out, "\r\n");
    if (body) {
        sk_buf_add(out, body, len);
    }
}

/* Sends what is in out (freed here) and reads the answer. */
static int exchange(sk_http_client *c, sk_buf *out, sk_http_piece_fn piece, void *ud, sk_http_response *r, sk_err *e) {
    int rc = out->failed ? sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a request") : SKIPPY_OK;
    if (rc == SKIPPY_OK && c->fd < 0) {
        rc = connect_local(c, e);
    }
    if (rc == SKIPPY_OK) {
        rc = send_all(c, out, e);
    }
    if (rc == SKIPPY_OK) {
        rc = read_response(c, piece, ud, r, e);
    }
    if (rc != SKIPPY_OK || !r->keep_alive) {
        disconnect(c);
    }
    sk_buf_free(out);
    return rc;
}

int sk_http_client_request(sk_http_client *c, const char *method, const char *path, const char *body, size_t len,
                           sk_http_response *r, sk_err *e) {
    sk_buf out = {0};
    write_request(c, method, path, body, len, true, &out);
    return exchange(c, &out, NULL, NULL, r, e);
}

int sk_http_client_stream(sk_http_client *c, const char *path, const char *body, size_t len, sk_http_piece_fn piece,
                          void *ud, sk_http_response *r, sk_err *e) {
    sk_buf out = {0};
    write_request(c, "POST", path, body, len, false, &out);
    const int rc = exchange(c, &out, piece, ud, r, e);
    disconnect(c); /* also where the server would have kept it */
    return rc;
}
