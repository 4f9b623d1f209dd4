#include "stage/link_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/record.h"
#include "base/test_folder.h"

static char folder[100];

int link_fixture_begin(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/skippy-link-XXXXXX", base && base[0] ? base : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

int link_fixture_end(void **state) {
    (void)state;
    return test_remove_tree(folder);
}

const char *fixture_path(const char *name) {
    static char paths[8][200];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* ---- options ---- */

sk_link_options plain_options(void) {
    return (sk_link_options){.security = {.allow_loopback = true}};
}

/* One string for each path, which lives as long as the program. */
static const char *kept(const char *authority, const char *name, const char *suffix) {
    static char paths[64][250];
    static unsigned n;
    assert_true(n < 64);
    snprintf(paths[n], sizeof paths[0], "%s/%s/%s%s", folder, authority, name, suffix);
    for (unsigned i = 0; i < n; i++)
        if (strcmp(paths[i], paths[n]) == 0) return paths[i];
    return paths[n++];
}

sk_link_security tls_security(const char *authority, const char *name) {
    sk_err e = {0};
    sk_link_security s = {kept(authority, "ca", ".crt"), kept(authority, name, ".crt"), kept(authority, name, ".key"),
                          false};
    if (access(s.cert, F_OK) != 0 && sk_link_certs(fixture_path(authority), &name, 1, 30, false, &e) != SKIPPY_OK)
        fail_msg("%s", e.text);
    return s;
}

/* ---- pairs ---- */

struct acceptor {
    pthread_t thread;
    sk_listener *listener;
    sk_link_options o;
    sk_link *link;
    int rc;
    sk_err e;
};

static void *accept_run(void *ud) {
    acceptor *a = ud;
    a->rc = sk_listener_accept(a->listener, &a->o, PATIENCE_MS, &a->link, &a->e);
    return NULL;
}

acceptor *accept_begin(sk_listener *l, const sk_link_options *o) {
    acceptor *a = calloc(1, sizeof *a);
    assert_non_null(a);
    a->listener = l;
    a->o = *o;
    assert_int_equal(pthread_create(&a->thread, NULL, accept_run, a), 0);
    return a;
}

sk_link *accept_end(acceptor *a) {
    pthread_join(a->thread, NULL);
    if (a->rc != SKIPPY_OK) fail_msg("%s", a->e.text);
    sk_link *l = a->link;
    free(a);
    return l;
}

void accept_cancelled(acceptor *a) {
    pthread_join(a->thread, NULL);
    assert_int_equal(a->rc, SKIPPY_E_CANCELLED);
    assert_null(a->link);
    free(a);
}

ends ends_open(enum transport over, const sk_link_options *a, const sk_link_options *b) {
    char address[300] = "127.0.0.1:0";
    sk_link_options oa = *a, ob = *b;
    ends x = {0};
    sk_err e = {0};
    static unsigned n_sockets; /* a test that fails leaves its socket behind: the next one has its own */
    char name[32];
    snprintf(name, sizeof name, "socket-%u", n_sockets++);
    if (over == OVER_UNIX) snprintf(address, sizeof address, "unix:%s", fixture_path(name));
    if (over == OVER_TLS) {
        oa.security = tls_security("ours", "head");
        ob.security = tls_security("ours", "127.0.0.1");
    }
    if (sk_listener_open(address, &ob.security, &x.listener, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    acceptor *accepting = accept_begin(x.listener, &ob);
    int rc = sk_link_connect(sk_listener_address(x.listener), &oa, PATIENCE_MS, &x.a, &e);
    if (rc != SKIPPY_OK) sk_listener_cancel(x.listener);
    x.b = accept_end(accepting);
    if (rc != SKIPPY_OK) fail_msg("%s", e.text);
    return x;
}

void ends_close(ends *x) {
    sk_link_close(x->a, 0);
    sk_link_close(x->b, 0);
    sk_listener_close(x->listener);
    *x = (ends){0};
}

/* ---- raw peers ---- */

static struct sockaddr_in loopback(uint16_t port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

int raw_listen(char *address, size_t cap) {
    struct sockaddr_in in = loopback(0);
    socklen_t len = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)(void *)&in, sizeof in), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)(void *)&in, &len), 0);
    snprintf(address, cap, "127.0.0.1:%u", ntohs(in.sin_port));
    return fd;
}

int raw_accept(int listening, bool greet) {
    static sk_frame ping = {.kind = SK_FRAME_PING, .u.count = {.n = 1}};
    int fd = accept(listening, NULL, NULL);
    assert_true(fd >= 0);
    if (!greet) return fd;
    sk_buf b = {0};
    assert_true(sk_frame_encode(&ping, &b));
    assert_int_equal(send(fd, b.data, b.len, MSG_NOSIGNAL), b.len);
    sk_buf_free(&b);
    return fd;
}

static uint16_t port_of(const char *address) {
    const char *colon = strrchr(address, ':');
    char *end = NULL;
    const unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
    if (!end || *end || port == 0 || port > UINT16_MAX) fail_msg("'%s' names no port", address);
    return (uint16_t)port;
}

int raw_connect_to(const char *address) {
    struct sockaddr_in in = loopback(port_of(address));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)(void *)&in, sizeof in), 0);
    return fd;
}

void *raw_greeter(void *listening) {
    char bytes[256];
    int fd = raw_accept(*(int *)listening, true);
    while (recv(fd, bytes, sizeof bytes, 0) > 0) continue;
    close(fd);
    return NULL;
}

typedef struct raw_server {
    int listening, fd;
} raw_server;

static void *raw_serve(void *ud) {
    raw_server *s = ud;
    s->fd = raw_accept(s->listening, true);
    return NULL;
}

sk_link *link_to_raw(const sk_link_options *o, int *fd) {
    char address[64];
    sk_link *l = NULL;
    sk_err e = {0};
    pthread_t thread;
    raw_server s = {.listening = raw_listen(address, sizeof address)};
    assert_int_equal(pthread_create(&thread, NULL, raw_serve, &s), 0);
    int rc = sk_link_connect(address, o, PATIENCE_MS, &l, &e);
    pthread_join(thread, NULL);
    close(s.listening);
    if (rc != SKIPPY_OK) fail_msg("%s", e.text);
    *fd = s.fd;
    return l;
}

/* ---- frames ---- */

sk_buf frame_record(uint64_t n) {
    sk_frame *f = calloc(1, sizeof *f); /* threads make frames, too: nothing shared */
    sk_buf b = {0};
    assert_non_null(f);
    f->kind = SK_FRAME_RECORD;
    f->u.count.n = n;
    assert_true(sk_frame_encode(f, &b));
    free(f);
    return b;
}

static uint8_t pattern(size_t i, uint8_t seed) {
    return (uint8_t)(seed + i * 31 + (i >> 12));
}

sk_buf frame_large(size_t bytes, uint8_t seed) {
    sk_buf b = {0};
    if (bytes < SK_FRAME_HEADER || !sk_buf_reserve(&b, bytes)) {
        fail_msg("no frame of %zu bytes can be made", bytes);
        return b;
    }
    b.len = bytes;
    sk_put_u32((uint8_t *)b.data, (uint32_t)(bytes - 4));
    for (size_t i = 4; i < bytes; i++) b.data[i] = (char)pattern(i, seed);
    b.data[4] = SK_FRAME_CHUNK;
    b.data[5] = 0;
    b.data[bytes] = '\0';
    return b;
}

bool large_is_intact(const uint8_t *bytes, size_t len, uint8_t seed) {
    for (size_t i = 2; i < len; i++)
        if (bytes[i] != pattern(i + 4, seed)) return false;
    return len > 2 && bytes[0] == SK_FRAME_CHUNK;
}

void send_all(sk_link *l, sk_buf b, bool chunk) {
    sk_err e = {0};
    if (sk_link_send(l, &b, chunk, sk_now_ns() + (uint64_t)PATIENCE_MS * 1000000, &e) != SKIPPY_OK)
        fail_msg("%s", e.text);
    assert_null(b.data);
    assert_int_equal(b.len, 0);
}

uint64_t receive_record(sk_link *l) {
    uint8_t *bytes;
    size_t len;
    sk_err e = {0};
    sk_frame *f = malloc(sizeof *f);
    assert_non_null(f);
    if (sk_link_receive(l, PATIENCE_MS, &bytes, &len, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    assert_int_equal(sk_frame_decode(bytes, len, f, &e), SKIPPY_OK);
    assert_int_equal(f->kind, SK_FRAME_RECORD);
    uint64_t n = f->u.count.n;
    free(f);
    free(bytes);
    return n;
}

const char *wait_down(sk_link *l) {
    static char reason[512];
    uint64_t by = sk_now_ns() + (uint64_t)PATIENCE_MS * 1000000;
    while (!sk_link_is_down(l)) {
        if (sk_now_ns() > by) fail_msg("the link to %s stays up", sk_link_peer(l));
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return sk_link_reason(l, reason, sizeof reason);
}
