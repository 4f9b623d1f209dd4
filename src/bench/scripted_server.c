#include "bench/scripted_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 64 };

/* Reads one request: the head, and the body that its Content-Length says. False when the client left. */
static bool read_request(scripted_server *f, int fd) {
    size_t n = 0;
    f->last_request[0] = '\0';
    for (;;) {
        const char *end = strstr(f->last_request, "\r\n\r\n");
        const char *length = strstr(f->last_request, "Content-Length: ");
        const size_t want = length ? strtoul(length + 16, NULL, 10) : 0;
        if (end && strlen(end + 4) >= want) {
            return true;
        }
        const ssize_t got =
            n + 1 < sizeof f->last_request ? read(fd, f->last_request + n, sizeof f->last_request - 1 - n) : 0;
        if (got <= 0) {
            return false;
        }
        n += (size_t)got;
        f->last_request[n] = '\0';
    }
}

static void wait_until_left(int fd) {
    char byte;
    while (read(fd, &byte, 1) > 0) {
    }
}

static void write_answer(const scripted_server *f, int fd, const char *text) {
    if (!text) {
        wait_until_left(fd);
        return;
    }
    const size_t len = strlen(text);
    const size_t step = f->piece ? f->piece : len;
    for (size_t at = 0; at < len;) {
        const size_t want = len - at < step ? len - at : step;
        const ssize_t n = send(fd, text + at, want, MSG_NOSIGNAL);
        if (n <= 0) {
            return;
        }
        at += (size_t)n;
    }
}

static int next_connection(scripted_server *f) {
    const int fd = accept(f->listener, NULL, NULL);
    f->connections += fd >= 0;
    return fd;
}

/* Answers each request as it comes; a connection may bring several. */
static void serve_in_turn(scripted_server *f) {
    int fd = -1;
    for (size_t i = 0; i < f->n_requests;) {
        if (fd < 0) {
            fd = next_connection(f);
        }
        if (fd < 0) {
            break;
        }
        const bool asked = read_request(f, fd);
        if (asked) {
            write_answer(f, fd, f->answers[i % f->n_answers]);
        }
        if (!asked || f->close_after[i % f->n_answers]) {
            close(fd);
            fd = -1;
        }
        i += asked;
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* Collects the requests of `held` connections before it answers them. */
static void serve_together(scripted_server *f) {
    const size_t held = f->held;
    for (size_t done = 0; done < f->n_requests; done += held) {
        int fds[SCRIPTED_MAX_HELD];
        for (size_t i = 0; i < held; i++) {
            fds[i] = next_connection(f);
            if (fds[i] >= 0) {
                read_request(f, fds[i]);
            }
        }
        if (f->all_held) {
            f->all_held();
        }
        for (size_t i = 0; i < held; i++) {
            if (fds[i] >= 0) {
                write_answer(f, fds[i], f->answers[(done + i) % f->n_answers]);
                close(fds[i]);
            }
        }
    }
}

static void *serve(void *ud) {
    scripted_server *f = ud;
    if (f->held) {
        serve_together(f);
    } else {
        serve_in_turn(f);
    }
    return NULL;
}

void scripted_start(scripted_server *f) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    f->n_requests = f->n_requests ? f->n_requests : f->n_answers;
    assert_true(f->held <= SCRIPTED_MAX_HELD);
    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(f->listener >= 0);
    assert_int_equal(bind(f->listener, (const struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(f->listener, BACKLOG), 0);
    assert_int_equal(getsockname(f->listener, (struct sockaddr *)&a, &len), 0);
    f->port = ntohs(a.sin_port);
    assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
}

void scripted_end(scripted_server *f) {
    shutdown(f->listener, SHUT_RDWR); /* wakes a server that waits for connections that a failed test does not make */
    pthread_join(f->thread, NULL);
    close(f->listener);
}
