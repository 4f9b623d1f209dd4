#include "server/http_conn.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "server/http_chunks.h"

enum phase { IDLE, HEAD, BODY, HANDLING, LINGER };

/* A client that pipelines without reading is not served further while this much output waits for it. */
enum { PIPELINE_OUTPUT = 256 * 1024, MAX_SINGLE_WRITE = 1024 * 1024 };

struct sk_conn {
    sk_conn *prev, *next;
    sk_conn_set *set;
    struct bufferevent *bev;
    unsigned refs;
    enum phase phase;
    bool closed;
    bool advancing; /* step() runs further up the stack */
    bool replying;  /* the reply's head is written */
    bool streaming, chunked_out;
    bool close_after;  /* no further request after this reply */
    bool discard;      /* the peer may still be sending: read and drop before closing, or it never sees the reply */
    int status;        /* of the reply in progress */
    uint64_t since_ns; /* the phase began */
    uint64_t read_ns, write_ns;
    size_t scanned;
    sk_buf head_text, body, extra;
    sk_http_head head;
    sk_http_chunks chunks;
    void *data;
    int tag;
};

struct sk_conn_set {
    struct event_base *base;
    sk_conn_limits limits;
    sk_conn_handler handler;
    sk_conn *first;
    size_t count;
};

sk_conn_set *sk_conn_set_create(struct event_base *base, const sk_conn_limits *limits, const sk_conn_handler *handler) {
    sk_conn_set *set = calloc(1, sizeof *set);
    if (!set) return NULL;
    set->base = base;
    set->limits = *limits;
    set->handler = *handler;
    return set;
}

size_t sk_conn_set_count(const sk_conn_set *set) {
    return set->count;
}

const sk_http_head *sk_conn_head(const sk_conn *c) {
    return &c->head;
}

const sk_buf *sk_conn_body(const sk_conn *c) {
    return &c->body;
}

sk_buf sk_conn_take_body(sk_conn *c) {
    sk_buf body = c->body;
    memset(&c->body, 0, sizeof c->body);
    return body;
}

void sk_conn_set_data(sk_conn *c, void *data) {
    c->data = data;
}

void *sk_conn_data(const sk_conn *c) {
    return c->data;
}

void sk_conn_set_tag(sk_conn *c, int tag) {
    c->tag = tag;
}

int sk_conn_tag(const sk_conn *c) {
    return c->tag;
}

/* ---- life and death ---- */

static void release(sk_conn *c) {
    if (--c->refs > 0) return;
    sk_buf_free(&c->head_text);
    sk_buf_free(&c->body);
    sk_buf_free(&c->extra);
    free(c);
}

static void close_conn(sk_conn *c) {
    if (c->closed) return;
    c->closed = true;
    sk_conn_set *set = c->set;
    if (c->phase == HANDLING) set->handler.gone(set->handler.ud, c);
    if (c->prev)
        c->prev->next = c->next;
    else
        set->first = c->next;
    if (c->next) c->next->prev = c->prev;
    set->count--;
    bufferevent_free(c->bev);
    c->bev = NULL;
    release(c);
    set->handler.settled(set->handler.ud);
}

void sk_conn_abort(sk_conn *c) {
    close_conn(c);
}

void sk_conn_set_free(sk_conn_set *set) {
    if (!set) return;
    for (sk_conn *c = set->first, *next; c; c = next) {
        next = c->next;
        close_conn(c);
    }
    free(set);
}

static size_t output_len(const sk_conn *c) {
    return evbuffer_get_length(bufferevent_get_output(c->bev));
}

bool sk_conn_set_settled(const sk_conn_set *set) {
    for (const sk_conn *c = set->first; c; c = c->next)
        if (c->phase == HANDLING || output_len(c) > 0) return false;
    return true;
}

static void enter(sk_conn *c, enum phase phase) {
    c->phase = phase;
    c->since_ns = sk_now_ns();
}

/* The output is sent: close, or let the peer finish sending first. Closing with unread input makes the kernel send
 * a reset, which can overtake the reply. */
static void linger_flushed(sk_conn *c) {
    if (!c->discard) {
        close_conn(c);
        return;
    }
    shutdown(bufferevent_getfd(c->bev), SHUT_WR);
}

static void start_linger(sk_conn *c) {
    enter(c, LINGER);
    if (output_len(c) == 0) linger_flushed(c);
}

/* ---- replies ---- */

const char *sk_http_reason(int status) {
    static const struct {
        int status;
        const char *text;
    } known[] = {{200, "OK"},
                 {400, "Bad Request"},
                 {401, "Unauthorized"},
                 {404, "Not Found"},
                 {405, "Method Not Allowed"},
                 {408, "Request Timeout"},
                 {413, "Content Too Large"},
                 {417, "Expectation Failed"},
                 {429, "Too Many Requests"},
                 {431, "Request Header Fields Too Large"},
                 {500, "Internal Server Error"},
                 {501, "Not Implemented"},
                 {503, "Service Unavailable"},
                 {504, "Gateway Timeout"},
                 {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].status == status) return known[i].text;
    return "Unknown";
}

void sk_conn_add_header(sk_conn *c, const char *name, const char *value) {
    sk_buf_printf(&c->extra, "%s: %s\r\n", name, value);
}

static void add_date(sk_buf *b) {
    time_t now = (time_t)sk_wall_s();
    struct tm tm;
    char text[40];
    gmtime_r(&now, &tm);
    strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    sk_buf_printf(b, "Date: %s\r\n", text);
}

/* length < 0: a stream. */
static void write_head(sk_conn *c, int status, const char *type, long long length) {
    sk_buf b = {0};
    c->replying = true;
    c->status = status;
    c->close_after = c->close_after || !c->head.keep_alive || (length < 0 && c->head.minor == 0);
    sk_buf_printf(&b, "HTTP/1.1 %d %s\r\nServer: skippy\r\n", status, sk_http_reason(status));
    add_date(&b);
    if (type) sk_buf_printf(&b, "Content-Type: %s\r\n", type);
    if (length >= 0)
        sk_buf_printf(&b, "Content-Length: %lld\r\n", length);
    else if (c->head.minor == 1)
        sk_buf_str(&b, "Transfer-Encoding: chunked\r\n");
    if (c->close_after)
        sk_buf_str(&b, "Connection: close\r\n");
    else if (c->head.minor == 0)
        sk_buf_str(&b, "Connection: keep-alive\r\n");
    sk_buf_add(&b, c->extra.data, c->extra.len);
    sk_buf_str(&b, "\r\n");
    if (b.failed || c->extra.failed) sk_log(SK_LOG_ERROR, "out of memory for the head of a reply");
    bufferevent_write(c->bev, b.data, b.len);
    sk_buf_free(&b);
    c->write_ns = sk_now_ns();
}

static void advance(sk_conn *c);

static void reset_request(sk_conn *c) {
    memset(&c->head, 0, sizeof c->head);
    memset(&c->chunks, 0, sizeof c->chunks);
    sk_buf_clear(&c->head_text);
    sk_buf_free(&c->body); /* bodies can be large; nothing of an idle connection should be */
    sk_buf_clear(&c->extra);
    c->scanned = 0;
    c->data = NULL;
    c->tag = 0;
    c->replying = c->streaming = c->chunked_out = false;
}

static void finish_reply(sk_conn *c) {
    sk_conn_set *set = c->set;
    set->handler.replied(set->handler.ud, c, c->status);
    reset_request(c);
    if (c->close_after) {
        start_linger(c);
        return;
    }
    enter(c, IDLE);
    advance(c); /* the next request may be here already */
}

void sk_conn_reply(sk_conn *c, int status, const char *type, const char *body, size_t len) {
    if (c->closed || c->replying) return;
    c->refs++;
    write_head(c, status, type, (long long)len);
    if (c->head.method != SK_HTTP_HEAD && len > 0) bufferevent_write(c->bev, body, len);
    finish_reply(c);
    release(c);
}

void sk_conn_stream_begin(sk_conn *c, int status, const char *type) {
    if (c->closed || c->replying) return;
    c->chunked_out = c->head.minor == 1;
    c->streaming = true;
    write_head(c, status, type, -1);
}

void sk_conn_stream_write(sk_conn *c, const char *data, size_t len) {
    if (c->closed || len == 0) return;
    struct evbuffer *out = bufferevent_get_output(c->bev);
    if (evbuffer_get_length(out) + len > c->set->limits.max_output) {
        sk_log(SK_LOG_WARN, "a client does not read its stream: %zu bytes are waiting, the connection is closed",
               evbuffer_get_length(out));
        close_conn(c);
        return;
    }
    if (c->chunked_out) evbuffer_add_printf(out, "%zx\r\n", len);
    evbuffer_add(out, data, len);
    if (c->chunked_out) evbuffer_add(out, "\r\n", 2);
    c->write_ns = sk_now_ns();
}

void sk_conn_stream_end(sk_conn *c) {
    if (c->closed) return;
    c->refs++;
    if (c->chunked_out) bufferevent_write(c->bev, "0\r\n\r\n", 5);
    finish_reply(c);
    release(c);
}

/* ---- requests ---- */

/* An error reply, after which the connection closes: where the next request begins is not known. */
static void refuse(sk_conn *c, int status, const char *why) {
    sk_conn_set *set = c->set;
    c->close_after = true;
    c->discard = true;
    enter(c, HANDLING);
    set->handler.refuse(set->handler.ud, c, status, why);
}

static struct evbuffer *input(const sk_conn *c) {
    return bufferevent_get_input(c->bev);
}

/* Returns true when step() can go on. */
static bool step_idle(sk_conn *c) {
    if (output_len(c) > PIPELINE_OUTPUT) return false;
    unsigned char first = 0;
    /* Line breaks before a request line are ignored (RFC 9112, section 2.2). */
    while (evbuffer_copyout(input(c), &first, 1) == 1 && (first == '\r' || first == '\n')) evbuffer_drain(input(c), 1);
    if (evbuffer_get_length(input(c)) == 0) return false;
    enter(c, HEAD);
    return true;
}

static bool accept_head(sk_conn *c) {
    sk_conn_set *set = c->set;
    bool has_body = c->head.chunked || c->head.content_length > 0;
    if (c->head.content_length > set->limits.max_body) {
        refuse(c, 413, "the request body is larger than this server accepts");
        return false;
    }
    enter(c, HANDLING);
    /* When the handler refuses at once, the body that follows is not wanted: the connection ends with the reply. */
    bool keep_alive = c->head.keep_alive;
    if (has_body) c->head.keep_alive = false;
    c->discard = has_body;
    if (!set->handler.head(set->handler.ud, c)) return true;
    c->head.keep_alive = keep_alive;
    c->discard = false;
    enter(c, BODY);
    c->read_ns = c->since_ns;
    if (c->head.expect_continue && has_body && evbuffer_get_length(input(c)) == 0)
        bufferevent_write(c->bev, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    return true;
}

static bool step_head(sk_conn *c) {
    size_t max = c->set->limits.max_head, len = evbuffer_get_length(input(c));
    if (len > max) len = max;
    const char *data = (const char *)evbuffer_pullup(input(c), (ev_ssize_t)len);
    size_t end = data ? sk_http_head_end(data, len, c->scanned) : 0;
    c->scanned = len;
    if (end == 0) {
        if (len == max) refuse(c, 431, "the request head is larger than this server accepts");
        return false;
    }
    const char *why = "";
    sk_buf_add(&c->head_text, data, end);
    evbuffer_drain(input(c), end);
    int status = c->head_text.failed ? 503 : sk_http_head_parse(c->head_text.data, end, &c->head, &why);
    if (status == 0) return accept_head(c);
    refuse(c, status, status == 503 ? "the server is out of memory" : why);
    return false;
}

static void complete(sk_conn *c) {
    enter(c, HANDLING);
    c->set->handler.request(c->set->handler.ud, c);
}

static bool step_chunked(sk_conn *c) {
    struct evbuffer *in = input(c);
    size_t len = 0;
    while ((len = evbuffer_get_contiguous_space(in)) > 0) {
        size_t used = 0;
        const char *data = (const char *)evbuffer_pullup(in, (ev_ssize_t)len);
        int rc = sk_http_chunks_feed(&c->chunks, data, len, c->set->limits.max_body, &c->body, &used);
        evbuffer_drain(in, used);
        if (rc == 0) continue;
        if (rc == 1) {
            complete(c);
            return true;
        }
        refuse(c, rc,
               rc == 413 ? "the request body is larger than this server accepts"
                         : "the chunked request body is malformed");
        return false;
    }
    return false;
}

static bool step_body(sk_conn *c) {
    if (c->head.chunked) return step_chunked(c);
    /* content_length is at most max_body, which is a size_t. */
    size_t left = (size_t)c->head.content_length - c->body.len, len = evbuffer_get_length(input(c));
    size_t take = len < left ? len : left;
    if (take > 0 && sk_buf_reserve(&c->body, take)) {
        evbuffer_remove(input(c), c->body.data + c->body.len, take);
        c->body.len += take;
        c->body.data[c->body.len] = '\0';
    }
    if (c->body.failed) {
        refuse(c, 503, "the server is out of memory");
        return false;
    }
    if (take < left) return false;
    complete(c);
    return true;
}

static bool step(sk_conn *c) {
    switch (c->phase) {
    case IDLE: return step_idle(c);
    case HEAD: return step_head(c);
    case BODY: return step_body(c);
    case LINGER: evbuffer_drain(input(c), evbuffer_get_length(input(c))); return false;
    default: return false;
    }
}

/* A loop, not recursion: a reply that is made at once brings the connection back to IDLE inside step(). */
static void advance(sk_conn *c) {
    if (c->advancing) return;
    c->advancing = true;
    c->refs++;
    while (!c->closed && step(c)) {
    }
    c->advancing = false;
    release(c);
}

/* ---- libevent callbacks ---- */

static void on_read(struct bufferevent *bev, void *ud) {
    (void)bev;
    sk_conn *c = ud;
    c->read_ns = sk_now_ns();
    advance(c);
}

static void on_written(struct bufferevent *bev, void *ud) {
    (void)bev;
    sk_conn *c = ud;
    sk_conn_set *set = c->set;
    if (c->phase == LINGER)
        linger_flushed(c);
    else if (c->phase == IDLE)
        advance(c);
    /* c may be freed by now. */
    set->handler.settled(set->handler.ud);
}

static void on_event(struct bufferevent *bev, short what, void *ud) {
    (void)bev;
    sk_conn *c = ud;
    bool flushing = (c->phase == IDLE || c->phase == LINGER) && output_len(c) > 0;
    if ((what & BEV_EVENT_EOF) && flushing) {
        /* The peer has stopped sending but may still read the reply that is on its way. */
        c->discard = false;
        enter(c, LINGER);
        return;
    }
    close_conn(c);
}

static void tune_socket(int fd) {
    int on = 1, idle_s = 30, every_s = 10, tries = 3;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    /* A peer that vanished without a word is noticed after a minute, also while its request waits in the queue. */
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
}

bool sk_conn_open(sk_conn_set *set, int fd) {
    sk_conn *c = calloc(1, sizeof *c);
    struct bufferevent *bev = c ? bufferevent_socket_new(set->base, fd, BEV_OPT_CLOSE_ON_FREE) : NULL;
    if (!bev) {
        free(c);
        close(fd);
        return false;
    }
    tune_socket(fd);
    c->set = set;
    c->bev = bev;
    c->refs = 1;
    c->next = set->first;
    if (c->next) c->next->prev = c;
    set->first = c;
    set->count++;
    enter(c, IDLE);
    const struct timeval write_time = {.tv_sec = set->limits.write_ms / 1000,
                                       .tv_usec = (set->limits.write_ms % 1000) * 1000};
    bufferevent_set_timeouts(bev, NULL, &write_time);
    bufferevent_set_max_single_write(bev, MAX_SINGLE_WRITE);
    /* Bounds what a client can pipeline while its request is handled; a head always fits. */
    bufferevent_setwatermark(bev, EV_READ, 0, set->limits.max_head + 4096);
    bufferevent_setcb(bev, on_read, on_written, on_event, c);
    bufferevent_enable(bev, EV_READ | EV_WRITE);
    return true;
}

/* ---- time ---- */

static bool past(uint64_t now_ns, uint64_t since_ns, uint32_t ms) {
    return now_ns > since_ns && now_ns - since_ns > (uint64_t)ms * 1000000u;
}

static void sweep_one(sk_conn *c, uint64_t now_ns) {
    const sk_conn_limits *l = &c->set->limits;
    switch (c->phase) {
    case IDLE:
        if (past(now_ns, c->since_ns, l->idle_ms) && output_len(c) == 0) close_conn(c);
        break;
    case HEAD:
        if (past(now_ns, c->since_ns, l->head_ms)) refuse(c, 408, "the request head did not arrive in time");
        break;
    case BODY:
        if (past(now_ns, c->read_ns, l->body_ms)) refuse(c, 408, "the request body did not arrive in time");
        break;
    case HANDLING:
        if (c->streaming && past(now_ns, c->write_ns, l->ping_ms)) sk_conn_stream_write(c, ": ping\n\n", 8);
        break;
    case LINGER:
        /* While output is left the write time-out decides. */
        if (past(now_ns, c->since_ns, l->linger_ms) && output_len(c) == 0) close_conn(c);
        break;
    }
}

void sk_conn_set_sweep(sk_conn_set *set, uint64_t now_ns) {
    for (sk_conn *c = set->first, *next; c; c = next) {
        next = c->next;
        sweep_one(c, now_ns);
    }
}
