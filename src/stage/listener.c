/* The accepting side: a socket that listens, and connections whose handshake is not done yet. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "stage/link_internal.h"
#include "stage/link_socket.h"

enum { PENDING_MAX = 64, HANDSHAKE_MS = 5000, NS_PER_MS = 1000000, BACKLOG = 16 };

/* A connection in its handshake. */
typedef struct pending {
    sk_channel ch;
    uint64_t by_ns;
    char peer[SK_LINK_NAME_MAX];
} pending;

struct sk_listener {
    int fd, cancel_fd;
    SSL_CTX *ctx; /* NULL = plaintext */
    char address[SK_LINK_NAME_MAX];
    struct sockaddr_un local; /* of a unix socket, else family 0 */
    ino_t inode;              /* of its file, so that close does not remove another one's */
    pthread_mutex_t lock;     /* one accept at a time */
    size_t n_pending;
    pending pending[PENDING_MAX]; /* oldest first */
};

/* ---- opening ---- */

static int listen_error(const char *address, int code, sk_err *e) {
    if (code == EADDRINUSE)
        return sk_err_set(e, SKIPPY_E_IO, "cannot listen on %s: another program does already", address);
    return sk_err_set(e, SKIPPY_E_IO, "cannot listen on %s: %s", address, strerror(code));
}

/* 0 or errno. */
static int bind_and_listen(int fd, const struct sockaddr *sa, socklen_t len, const char *path) {
    if (bind(fd, sa, len) != 0) return errno;
    if (path && chmod(path, 0600) != 0) return errno; /* before anybody can connect */
    return listen(fd, BACKLOG) == 0 ? 0 : errno;
}

static int open_socket(const struct sockaddr *sa, socklen_t len, const char *path, int *out) {
    int on = 1, fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    if (!path) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    int code = bind_and_listen(fd, sa, len, path);
    if (code) {
        close(fd);
        return code;
    }
    *out = fd;
    return 0;
}

/* Removes the file of a socket that nobody listens on. 0, or errno: EADDRINUSE when somebody does. */
static int remove_dead_socket(const struct sockaddr_un *sa) {
    struct stat st;
    if (lstat(sa->sun_path, &st) != 0) return errno == ENOENT ? 0 : errno;
    if (!S_ISSOCK(st.st_mode)) return EEXIST; /* somebody's file: not ours to remove */
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    int code = connect(fd, (const struct sockaddr *)(const void *)sa, sizeof *sa) == 0 ? 0 : errno;
    close(fd);
    if (code != ECONNREFUSED) return EADDRINUSE;
    return unlink(sa->sun_path) == 0 ? 0 : errno;
}

static int open_unix(sk_listener *l, const sk_address *a, const char *address, sk_err *e) {
    struct stat st;
    const struct sockaddr *sa = (const struct sockaddr *)(const void *)&a->local;
    int code = remove_dead_socket(&a->local);
    if (!code) code = open_socket(sa, sizeof a->local, a->local.sun_path, &l->fd);
    if (!code && lstat(a->local.sun_path, &st) != 0) code = errno;
    if (code) return listen_error(address, code, e);
    l->local = a->local;
    l->inode = st.st_ino;
    snprintf(l->address, sizeof l->address, "%s", address);
    return SKIPPY_OK;
}

static int bind_first(sk_listener *l, const struct addrinfo *list, const char *address, sk_err *e) {
    int code = EADDRNOTAVAIL;
    for (const struct addrinfo *ai = list; ai; ai = ai->ai_next) {
        code = open_socket(ai->ai_addr, ai->ai_addrlen, NULL, &l->fd);
        if (code == 0) return SKIPPY_OK;
    }
    return listen_error(address, code, e);
}

static int open_tcp(sk_listener *l, const sk_address *a, const sk_link_security *s, const char *address, sk_err *e) {
    struct addrinfo *list;
    struct sockaddr_storage bound;
    socklen_t len = sizeof bound;
    int rc = sk_address_resolve(a, true, &list, e);
    if (rc) return rc;
    for (const struct addrinfo *ai = list; ai && !rc && !l->ctx; ai = ai->ai_next)
        if (!s->allow_loopback || !sk_address_is_loopback(ai->ai_addr)) rc = sk_socket_plaintext_error(address, e);
    if (!rc) rc = bind_first(l, list, address, e);
    freeaddrinfo(list);
    if (rc) return rc;
    if (getsockname(l->fd, (struct sockaddr *)(void *)&bound, &len) != 0) return listen_error(address, errno, e);
    sk_address_name((const struct sockaddr *)(const void *)&bound, len, l->address, sizeof l->address);
    return SKIPPY_OK;
}

int sk_listener_open(const char *address, const sk_link_security *s, sk_listener **out, sk_err *e) {
    sk_address a;
    bool encrypted;
    *out = NULL;
    int rc = sk_address_parse(address, &a, e);
    if (!rc) rc = sk_tls_check(s, &encrypted, e);
    if (rc) return rc;
    sk_listener *l = calloc(1, sizeof *l);
    if (!l) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a listener");
    pthread_mutex_init(&l->lock, NULL);
    l->fd = -1;
    l->cancel_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (l->cancel_fd < 0) rc = listen_error(address, errno, e);
    if (!rc && encrypted) rc = sk_tls_context(s, true, &l->ctx, e);
    if (!rc) rc = a.is_unix ? open_unix(l, &a, address, e) : open_tcp(l, &a, s, address, e);
    if (rc) {
        sk_listener_close(l);
        return rc;
    }
    *out = l;
    return SKIPPY_OK;
}

const char *sk_listener_address(const sk_listener *l) {
    return l->address;
}

/* ---- handshakes ---- */

static void forget(sk_listener *l, size_t i) {
    sk_channel_close(&l->pending[i].ch);
    l->n_pending--;
    memmove(&l->pending[i], &l->pending[i + 1], (l->n_pending - i) * sizeof l->pending[0]);
}

static void drop(sk_listener *l, size_t i, const char *why) {
    sk_log(SK_LOG_WARN, "%s: a connection from %s was dropped: %s", l->address, l->pending[i].peer, why);
    forget(l, i);
}

static void name_peer(const sk_listener *l, const struct sockaddr_storage *sa, socklen_t len, char *buf, size_t cap) {
    if (l->local.sun_family == AF_UNIX)
        snprintf(buf, cap, "%s", l->address); /* who connects to a unix socket has no name */
    else
        sk_address_name((const struct sockaddr *)(const void *)sa, len, buf, cap);
}

/* Takes one connection that waits. Should all places be taken, the one that has been silent for longest gives way:
 * silence must not keep others out. */
static void take_connection(sk_listener *l) {
    struct sockaddr_storage sa;
    socklen_t len = sizeof sa;
    sk_err e = {0};
    int fd = accept4(l->fd, (struct sockaddr *)(void *)&sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return; /* it went away again */
    if (l->n_pending == PENDING_MAX) drop(l, 0, "too many connections at once have not completed their handshake");
    pending *p = &l->pending[l->n_pending];
    *p = (pending){.by_ns = sk_now_ns() + (uint64_t)HANDSHAKE_MS * NS_PER_MS};
    name_peer(l, &sa, len, p->peer, sizeof p->peer);
    if (sk_channel_open(&p->ch, fd, l->ctx, true, NULL, &e) == SKIPPY_OK)
        l->n_pending++;
    else
        sk_log(SK_LOG_WARN, "%s: a connection from %s was dropped: %s", l->address, p->peer, e.text);
}

/* One step for every connection. The index of one that is done, or n_pending. */
static size_t advance(sk_listener *l) {
    for (size_t i = 0; i < l->n_pending;) {
        sk_err e = {0};
        int rc = sk_channel_handshake(&l->pending[i].ch, &e);
        if (rc == SKIPPY_OK) return i;
        if (rc != SKIPPY_E_BUSY)
            drop(l, i, e.text);
        else if (sk_now_ns() >= l->pending[i].by_ns)
            drop(l, i, "it did not complete the handshake in time");
        else
            i++;
    }
    return l->n_pending;
}

/* Until the first of by_ns and the handshakes' ends. */
static int poll_ms(const sk_listener *l, uint64_t by_ns) {
    uint64_t now = sk_now_ns(), by = by_ns;
    for (size_t i = 0; i < l->n_pending; i++)
        if (l->pending[i].by_ns < by) by = l->pending[i].by_ns;
    uint64_t ms = by > now ? (by - now) / NS_PER_MS + 1 : 0;
    return ms < 60000 ? (int)ms : 60000;
}

/* SKIPPY_E_CANCELLED, or SKIPPY_OK when something may have happened. */
static int wait_for_peers(sk_listener *l, uint64_t by_ns) {
    struct pollfd fds[2 + PENDING_MAX] = {{.fd = l->cancel_fd, .events = POLLIN}, {.fd = l->fd, .events = POLLIN}};
    for (size_t i = 0; i < l->n_pending; i++)
        fds[2 + i] = (struct pollfd){.fd = l->pending[i].ch.fd, .events = l->pending[i].ch.read_wants};
    poll(fds, (nfds_t)(2 + l->n_pending), poll_ms(l, by_ns));
    if (fds[0].revents) return SKIPPY_E_CANCELLED;
    if (fds[1].revents) take_connection(l);
    return SKIPPY_OK;
}

static int start_link(sk_listener *l, size_t i, const sk_link_options *o, sk_link **out, sk_err *e) {
    pending *p = &l->pending[i];
    sk_socket_tune(p->ch.fd, o->silent_ms);
    int rc = sk_link_start(&p->ch, p->peer, o, true, out, e);
    forget(l, i);
    return rc;
}

int sk_listener_accept(sk_listener *l, const sk_link_options *o, uint32_t timeout_ms, sk_link **out, sk_err *e) {
    uint64_t by_ns = sk_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
    int rc = SKIPPY_OK;
    *out = NULL;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        size_t done = advance(l);
        if (done < l->n_pending) {
            rc = start_link(l, done, o, out, e);
            break;
        }
        bool late = sk_now_ns() >= by_ns;
        rc = wait_for_peers(l, by_ns); /* also when it is late: what has come already is looked at once */
        if (rc) {
            sk_err_set(e, rc, "%s does not listen any more", l->address);
            break;
        }
        if (late && advance(l) == l->n_pending) {
            rc = sk_err_set(e, SKIPPY_E_NOT_FOUND, "nobody connected to %s in time", l->address);
            break;
        }
    }
    pthread_mutex_unlock(&l->lock);
    return rc;
}

void sk_listener_cancel(sk_listener *l) {
    uint64_t one = 1;
    ssize_t n = write(l->cancel_fd, &one, sizeof one); /* never read: every later accept ends at once, too */
    (void)n;
}

void sk_listener_close(sk_listener *l) {
    struct stat st;
    if (!l) return;
    while (l->n_pending) forget(l, l->n_pending - 1);
    if (l->fd >= 0) close(l->fd);
    bool ours = l->local.sun_family == AF_UNIX && lstat(l->local.sun_path, &st) == 0 && st.st_ino == l->inode;
    if (ours) unlink(l->local.sun_path);
    if (l->cancel_fd >= 0) close(l->cancel_fd);
    SSL_CTX_free(l->ctx);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
