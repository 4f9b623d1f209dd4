#include "bench/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/relay_queue.h"

enum {
    MAX_CONNECTIONS = 64,
    FIXED_FDS = 2, /* listener and bell */
    MAX_FDS = FIXED_FDS + 2 * MAX_CONNECTIONS,
    HOST_BYTES = 256,
    SLACK_NS = 1000 /* how late the kernel may wake the thread up for company; 50,000 without */
};

/* A client and the connection to the target that was made for it. */
typedef struct pair {
    int client, target; /* -1: none */
    bool connecting;    /* to the target */
    sk_relay_queue to, from;
} pair;

typedef struct endpoint {
    struct sockaddr_storage sa;
    socklen_t len;
} endpoint;

struct sk_relay {
    int listener, bell; /* the bell wakes the thread up after a call */
    endpoint target;
    char address[HOST_BYTES + 16];
    pthread_t thread;

    pthread_mutex_t lock; /* over what follows */
    uint64_t delay_ns;
    bool stalled, cut, stop;
    sk_relay_stats stats;

    /* the thread's own */
    pair pairs[MAX_CONNECTIONS];
};

/* What the callers ask for, read once in each round of the loop. */
typedef struct orders {
    uint64_t delay_ns;
    bool stalled, cut, stop;
} orders;

/* ---- addresses ---- */

/* Splits "host:port" or "[v6]:port". */
static bool split_address(const char *text, char host[HOST_BYTES], const char **port) {
    const char *colon = strrchr(text, ':');
    const char *from = text, *to = colon;
    if (!colon || !colon[1]) return false;
    if (*text == '[') {
        if (colon == text || colon[-1] != ']') return false;
        from++;
        to--;
    }
    if (to <= from || (size_t)(to - from) >= HOST_BYTES) return false;
    snprintf(host, HOST_BYTES, "%.*s", (int)(to - from), from);
    *port = colon + 1;
    return strspn(*port, "0123456789") == strlen(*port);
}

static int resolve(const char *text, bool passive, endpoint *out, sk_err *e) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = passive ? AI_PASSIVE : 0};
    struct addrinfo *found = NULL;
    char host[HOST_BYTES];
    const char *port = NULL;
    if (!split_address(text, host, &port))
        return sk_err_set(e, SKIPPY_E_INVALID, "'%s' is not an address of the form host:port", text);
    const int why = getaddrinfo(host, port, &hints, &found);
    if (why != 0) return sk_err_set(e, SKIPPY_E_INVALID, "the address '%s' is not known: %s", text, gai_strerror(why));
    memcpy(&out->sa, found->ai_addr, found->ai_addrlen);
    out->len = found->ai_addrlen;
    freeaddrinfo(found);
    return SKIPPY_OK;
}

static void write_address(sk_relay *r) {
    endpoint own = {.len = sizeof own.sa};
    char host[HOST_BYTES] = "?", port[16] = "?";
    if (getsockname(r->listener, (struct sockaddr *)&own.sa, &own.len) == 0)
        getnameinfo((struct sockaddr *)&own.sa, own.len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(r->address, sizeof r->address, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

/* ---- pairs ---- */

static void set_up_socket(int fd) {
    const int on = 1;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* Closes with a reset, so that the other end learns of it at once even when it only writes. */
static void reset_socket(int fd) {
    const struct linger now = {.l_onoff = 1};
    if (fd < 0) return;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

static void count(sk_relay *r, uint64_t accepted, int64_t open, uint64_t to, uint64_t from) {
    pthread_mutex_lock(&r->lock);
    r->stats.connections += accepted;
    r->stats.open += (uint64_t)open;
    r->stats.bytes_to += to;
    r->stats.bytes_from += from;
    pthread_mutex_unlock(&r->lock);
}

static void end_pair(sk_relay *r, pair *p, bool reset) {
    if (reset) {
        reset_socket(p->client);
        reset_socket(p->target);
    } else {
        close(p->client);
        close(p->target);
    }
    sk_relay_queue_free(&p->to);
    sk_relay_queue_free(&p->from);
    p->client = p->target = -1;
    p->connecting = false;
    count(r, 0, -1, 0, 0);
}

static pair *free_pair(sk_relay *r) {
    for (size_t i = 0; i < MAX_CONNECTIONS; i++)
        if (r->pairs[i].client < 0) return &r->pairs[i];
    return NULL;
}

static void accept_client(sk_relay *r) {
    pair *p = free_pair(r);
    const int client = p ? accept4(r->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    if (client < 0) return;
    set_up_socket(client);
    const int target = socket(r->target.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (target >= 0) set_up_socket(target);
    if (target < 0 ||
        (connect(target, (const struct sockaddr *)&r->target.sa, r->target.len) != 0 && errno != EINPROGRESS)) {
        reset_socket(client);
        reset_socket(target);
        count(r, 1, 0, 0, 0);
        return;
    }
    *p = (pair){.client = client, .target = target, .connecting = true};
    count(r, 1, 1, 0, 0);
}

/* The target has answered the connection, one way or the other. */
static bool finish_connecting(pair *p) {
    int why = 0;
    socklen_t len = sizeof why;
    p->connecting = false;
    return getsockopt(p->target, SOL_SOCKET, SO_ERROR, &why, &len) == 0 && why == 0;
}

/* Reads once; false when the source broke. A source that never pauses must not keep what is due from being written. */
static bool take(sk_relay_queue *q, int fd, uint64_t delay_ns, size_t *got) {
    *got = 0;
    if (q->ended || q->waiting >= SK_RELAY_WAITING_MAX) return true;
    return sk_relay_queue_read(q, fd, sk_now_ns(), delay_ns, got) != SK_RELAY_BROKEN;
}

/* Moves what can be moved. events of the two sockets as poll returned them. */
static void serve_pair(sk_relay *r, pair *p, short client, short target, uint64_t delay_ns) {
    size_t to = 0, from = 0;
    bool good = true;
    if (p->connecting && target) good = finish_connecting(p);
    if (good && client & (POLLIN | POLLHUP | POLLERR)) good = take(&p->to, p->client, delay_ns, &to);
    if (good && !p->connecting && target & (POLLIN | POLLHUP | POLLERR))
        good = take(&p->from, p->target, delay_ns, &from);
    if (to || from) count(r, 0, 0, to, from); /* before anybody can have seen the bytes */
    const uint64_t now = sk_now_ns();
    if (good && !p->connecting) good = sk_relay_queue_write(&p->to, p->target, now) != SK_RELAY_BROKEN;
    if (good && !p->connecting) good = sk_relay_queue_write(&p->from, p->client, now) != SK_RELAY_BROKEN;
    if (!good || (p->to.end_sent && p->from.end_sent)) end_pair(r, p, !good);
}

/* ---- the thread ---- */

/* What one socket is waited for: data unless too much waits already, room when something is due. */
static short interest(const sk_relay_queue *in, const sk_relay_queue *out, uint64_t now) {
    short events = 0;
    if (!in->ended && in->waiting < SK_RELAY_WAITING_MAX) events |= POLLIN;
    if (sk_relay_queue_due(out) <= now) events |= POLLOUT;
    return events;
}

/* A socket that is waited for nothing is left out (-1): poll would report its hang-up again and again. */
static struct pollfd watch(int fd, short events) {
    return (struct pollfd){.fd = events ? fd : -1, .events = events};
}

static uint64_t watch_pair(const pair *p, struct pollfd fds[2], uint64_t now) {
    fds[0] = watch(p->client, interest(&p->to, &p->from, now));
    fds[1] = watch(p->target, p->connecting ? POLLOUT : interest(&p->from, &p->to, now));
    const uint64_t to = p->connecting ? UINT64_MAX : sk_relay_queue_due(&p->to);
    const uint64_t from = sk_relay_queue_due(&p->from);
    return to < from ? to : from;
}

/* Waits until a socket is ready, the bell rings or a byte that can wait no longer is due. While stalled only for the
 * bell. */
static void wait_for_work(sk_relay *r, const orders *o, struct pollfd fds[MAX_FDS]) {
    const uint64_t now = sk_now_ns();
    uint64_t due = UINT64_MAX;
    fds[0] = (struct pollfd){.fd = r->bell, .events = POLLIN};
    fds[1] = watch(r->listener, o->stalled || !free_pair(r) ? 0 : POLLIN);
    for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
        struct pollfd *two = &fds[FIXED_FDS + 2 * i];
        two[0] = two[1] = watch(-1, 0);
        if (r->pairs[i].client < 0 || o->stalled) continue;
        const uint64_t next = watch_pair(&r->pairs[i], two, now);
        /* what is due already waits for room in a socket, which poll reports */
        if (next > now && next < due) due = next;
    }
    const uint64_t left = due == UINT64_MAX ? 0 : due - now;
    const struct timespec timeout = {.tv_sec = (time_t)(left / 1000000000u), .tv_nsec = (long)(left % 1000000000u)};
    if (ppoll(fds, MAX_FDS, due == UINT64_MAX ? NULL : &timeout, NULL) < 0)
        for (size_t i = 0; i < MAX_FDS; i++) fds[i].revents = 0;
}

static orders take_orders(sk_relay *r) {
    pthread_mutex_lock(&r->lock);
    const orders o = {.delay_ns = r->delay_ns, .stalled = r->stalled, .cut = r->cut, .stop = r->stop};
    r->cut = false;
    pthread_mutex_unlock(&r->lock);
    return o;
}

static void end_all(sk_relay *r) {
    for (size_t i = 0; i < MAX_CONNECTIONS; i++)
        if (r->pairs[i].client >= 0) end_pair(r, &r->pairs[i], true);
}

static void *relay_main(void *ud) {
    sk_relay *r = ud;
    struct pollfd fds[MAX_FDS];
    uint64_t rings;
    prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0);
    for (orders o = take_orders(r); !o.stop; o = take_orders(r)) {
        if (o.cut) end_all(r);
        wait_for_work(r, &o, fds);
        if (fds[0].revents && read(r->bell, &rings, sizeof rings) == (ssize_t)sizeof rings)
            continue; /* new orders first */
        if (fds[1].revents) accept_client(r);
        for (size_t i = 0; !o.stalled && i < MAX_CONNECTIONS; i++) {
            const struct pollfd *two = &fds[FIXED_FDS + 2 * i];
            if (r->pairs[i].client >= 0) serve_pair(r, &r->pairs[i], two[0].revents, two[1].revents, o.delay_ns);
        }
    }
    end_all(r);
    return NULL;
}

/* ---- calls ---- */

static void ring(sk_relay *r) {
    const uint64_t one = 1;
    /* The counter cannot be full, and a bell that rings already is as good. */
    if (write(r->bell, &one, sizeof one) < 0) return;
}

static int start_listening(sk_relay *r, const char *address, sk_err *e) {
    const int on = 1;
    endpoint own;
    const int rc = resolve(address, true, &own, e);
    if (rc != SKIPPY_OK) return rc;
    r->listener = socket(own.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (r->listener >= 0) setsockopt(r->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (r->listener < 0 || bind(r->listener, (const struct sockaddr *)&own.sa, own.len) != 0 ||
        listen(r->listener, SOMAXCONN) != 0)
        return sk_err_set(e, SKIPPY_E_IO, "cannot listen on '%s': %s", address, strerror(errno));
    write_address(r);
    return SKIPPY_OK;
}

static void free_relay(sk_relay *r) {
    if (r->listener >= 0) close(r->listener);
    if (r->bell >= 0) close(r->bell);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

int sk_relay_open(const char *listen, const char *target, uint32_t delay_us, sk_relay **out, sk_err *e) {
    *out = NULL;
    sk_relay *r = calloc(1, sizeof *r);
    if (!r) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a relay");
    *r = (sk_relay){
        .listener = -1, .bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .delay_ns = delay_us * UINT64_C(1000)};
    pthread_mutex_init(&r->lock, NULL);
    for (size_t i = 0; i < MAX_CONNECTIONS; i++) r->pairs[i].client = r->pairs[i].target = -1;
    int rc = r->bell >= 0 ? resolve(target, false, &r->target, e)
                          : sk_err_set(e, SKIPPY_E_IO, "cannot make an event descriptor: %s", strerror(errno));
    if (rc == SKIPPY_OK) rc = start_listening(r, listen, e);
    if (rc == SKIPPY_OK && pthread_create(&r->thread, NULL, relay_main, r) != 0)
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "cannot start the thread of a relay");
    if (rc != SKIPPY_OK) {
        free_relay(r);
        return rc;
    }
    *out = r;
    return SKIPPY_OK;
}

const char *sk_relay_address(const sk_relay *r) {
    return r->address;
}

void sk_relay_set_delay(sk_relay *r, uint32_t delay_us) {
    pthread_mutex_lock(&r->lock);
    r->delay_ns = delay_us * UINT64_C(1000);
    pthread_mutex_unlock(&r->lock);
    ring(r);
}

void sk_relay_cut(sk_relay *r) {
    pthread_mutex_lock(&r->lock);
    r->cut = true;
    pthread_mutex_unlock(&r->lock);
    ring(r);
}

void sk_relay_set_stalled(sk_relay *r, bool stalled) {
    pthread_mutex_lock(&r->lock);
    r->stalled = stalled;
    pthread_mutex_unlock(&r->lock);
    ring(r);
}

void sk_relay_get_stats(sk_relay *r, sk_relay_stats *out) {
    pthread_mutex_lock(&r->lock);
    *out = r->stats;
    pthread_mutex_unlock(&r->lock);
}

void sk_relay_close(sk_relay *r) {
    if (!r) return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_mutex_unlock(&r->lock);
    ring(r);
    pthread_join(r->thread, NULL);
    free_relay(r);
}
