#include "runtime/file_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/buf.h"

enum { MOST_REQUESTS = 256, LINE = 400 };

struct file_server {
    char root[512], url[700];
    int listener, stop_pipe[2];
    uint16_t port;
    SSL_CTX *tls; /* NULL: plain */
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    file_server_rules rules;
    char requests[MOST_REQUESTS][LINE];
    size_t n_requests;
};

/* A connection. */
typedef struct peer {
    int fd;
    SSL *ssl; /* NULL: plain */
} peer;

/* A request as far as it matters. */
typedef struct request {
    char path[256], range[64];
    bool has_range;
    size_t from;
} request;

static bool send_all(const peer *to, const char *data, size_t n) {
    for (size_t done = 0; done < n;) {
        const ssize_t k = to->ssl ? SSL_write(to->ssl, data + done, (int)(n - done))
                                  : send(to->fd, data + done, n - done, MSG_NOSIGNAL);
        if (k <= 0) return false;
        done += (size_t)k;
    }
    return true;
}

/* The path of a GET. False: another method, or a path that is too long. */
static bool read_path(const char *text, request *r) {
    if (strncmp(text, "GET ", 4) != 0) return false;
    const size_t n = strcspn(text + 4, " \r\n");
    if (n == 0 || n >= sizeof r->path) return false;
    memcpy(r->path, text + 4, n);
    r->path[n] = '\0';
    return true;
}

/* The first byte of an open range, which is all that a client here asks for. */
static bool read_range(const char *text, size_t *first) {
    static const char field[] = "Range: bytes=";
    const char *range = strstr(text, field);
    if (!range) return false;
    range += sizeof field - 1;
    if (*range < '0' || *range > '9') return false;
    char *end;
    *first = strtoull(range, &end, 10);
    return *end == '-';
}

static bool read_request(const peer *from, request *r) {
    char text[4096];
    size_t n = 0;
    memset(r, 0, sizeof *r);
    text[0] = '\0';
    while (n + 1 < sizeof text && !strstr(text, "\r\n\r\n")) {
        const ssize_t k = from->ssl ? SSL_read(from->ssl, text + n, (int)(sizeof text - 1 - n))
                                    : recv(from->fd, text + n, sizeof text - 1 - n, 0);
        if (k <= 0) return false;
        n += (size_t)k;
        text[n] = '\0';
    }
    if (!read_path(text, r)) return false;
    r->has_range = read_range(text, &r->from);
    if (r->has_range) snprintf(r->range, sizeof r->range, " range %zu", r->from);
    return true;
}

static bool load(const file_server *s, const char *path, sk_buf *out) {
    char name[800], piece[65536];
    snprintf(name, sizeof name, "%s%.*s", s->root, (int)strcspn(path, "?"), path);
    FILE *f = fopen(name, "rb");
    if (!f) return false;
    for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0;) sk_buf_add(out, piece, n);
    fclose(f);
    return true;
}

static void answer_status(const peer *to, int status, const char *more) {
    char head[600];
    const int n = snprintf(head, sizeof head,
                           "HTTP/1.1 %d Test\r\nContent-Length: 4\r\nConnection: close\r\n%s\r\ngone", status, more);
    (void)send_all(to, head, (size_t)n);
}

/* Until the client or the test ends. */
static void wait_for_end(const file_server *s, const peer *to) {
    struct pollfd p[2] = {{.fd = to->fd, .events = POLLIN}, {.fd = s->stop_pipe[0], .events = POLLIN}};
    (void)poll(p, 2, -1);
}

static void answer_endless(const peer *to) {
    static const char piece[4096];
    static const char head[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    bool more = send_all(to, head, sizeof head - 1);
    while (more) more = send_all(to, piece, sizeof piece);
}

static void answer_file(const file_server *s, const peer *to, const file_server_rules *rules, const request *r,
                        bool cut) {
    char head[300], range[120] = "";
    sk_buf body = {0};
    size_t from = 0;
    if (!load(s, r->path, &body)) {
        answer_status(to, 404, "");
        goto out;
    }
    if (r->has_range && !rules->ignore_ranges) {
        if (rules->refuse_ranges || r->from >= body.len) {
            answer_status(to, 416, "");
            goto out;
        }
        from = r->from - (rules->range_shift < r->from ? rules->range_shift : r->from);
        snprintf(range, sizeof range, "Content-Range: bytes %zu-%zu/%zu\r\n", from, body.len - 1,
                 rules->claimed_total ? rules->claimed_total : body.len);
    }
    const size_t n = body.len - from, sent = cut && rules->cut_after < n ? rules->cut_after : n;
    const int len = snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n%s\r\n",
                             range[0] ? "206 Partial Content" : "200 OK", n, range);
    if (send_all(to, head, (size_t)len)) (void)send_all(to, body.data + from, rules->stalls ? 3 : sent);
    if (rules->stalls) wait_for_end(s, to);
out:
    sk_buf_free(&body);
}

static void answer(file_server *s, const peer *to, const request *r) {
    char location[400];
    pthread_mutex_lock(&s->lock);
    const file_server_rules rules = s->rules;
    const bool cut = rules.cuts > 0, refuse = !cut && rules.refusals > 0;
    if (cut) s->rules.cuts--;
    if (refuse) s->rules.refusals--;
    if (s->n_requests < MOST_REQUESTS) snprintf(s->requests[s->n_requests++], LINE, "GET %s%s", r->path, r->range);
    pthread_mutex_unlock(&s->lock);
    if (rules.redirect) {
        const bool self = strcmp(rules.redirect, "self") == 0;
        snprintf(location, sizeof location, "Location: %.300s\r\n", self ? r->path : rules.redirect);
        answer_status(to, 302, location);
    } else if (refuse) {
        answer_status(to, rules.status, "");
    } else if (rules.endless) {
        answer_endless(to);
    } else {
        answer_file(s, to, &rules, r, cut);
    }
}

static void serve_one(file_server *s, int fd) {
    peer p = {.fd = fd};
    request r;
    bool ready = true;
    if (s->tls) {
        p.ssl = SSL_new(s->tls);
        ready = p.ssl && SSL_set_fd(p.ssl, fd) == 1 && SSL_accept(p.ssl) == 1;
    }
    if (ready && read_request(&p, &r)) answer(s, &p, &r);
    if (ready && p.ssl) (void)SSL_shutdown(p.ssl);
    SSL_free(p.ssl);
    close(fd);
}

static void *serve(void *ud) {
    file_server *s = ud;
    sigset_t pipe_only; /* SSL_write to a client that left */
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only, NULL);
    for (;;) {
        struct pollfd p[2] = {{.fd = s->listener, .events = POLLIN}, {.fd = s->stop_pipe[0], .events = POLLIN}};
        if (poll(p, 2, -1) < 0) continue;
        if (p[1].revents) return NULL;
        const int fd = accept(s->listener, NULL, NULL);
        if (fd >= 0) serve_one(s, fd);
    }
}

/* A certificate that vouches for itself. */
static X509 *make_certificate(EVP_PKEY *key) {
    X509 *x = X509_new();
    assert_non_null(x);
    X509_NAME *name = X509_get_subject_name(x);
    assert_int_equal(X509_set_version(x, X509_VERSION_3), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(x), 1), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(x), -3600));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(x), 3600));
    assert_int_equal(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)"test", -1, -1, 0), 1);
    assert_int_equal(X509_set_issuer_name(x, name), 1);
    assert_int_equal(X509_set_pubkey(x, key), 1);
    X509_EXTENSION *san = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
    assert_non_null(san);
    assert_int_equal(X509_add_ext(x, san, -1), 1);
    X509_EXTENSION_free(san);
    assert_true(X509_sign(x, key, EVP_sha256()) > 0);
    return x;
}

static SSL_CTX *make_tls(const char *root) {
    char path[600];
    SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
    EVP_PKEY *key = EVP_EC_gen("P-256");
    assert_non_null(tls);
    assert_non_null(key);
    X509 *x = make_certificate(key);
    assert_int_equal(SSL_CTX_use_certificate(tls, x), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(tls, key), 1);
    snprintf(path, sizeof path, "%s/ca.pem", root);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(PEM_write_X509(f, x), 1);
    fclose(f);
    X509_free(x);
    EVP_PKEY_free(key);
    return tls;
}

static file_server *start(const char *root, bool tls) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    file_server *s = calloc(1, sizeof *s);
    assert_non_null(s);
    setenv("no_proxy", "127.0.0.1", 1); /* the machine may have a proxy for the world outside */
    snprintf(s->root, sizeof s->root, "%s", root);
    if (tls) s->tls = make_tls(root);
    pthread_mutex_init(&s->lock, NULL);
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(s->listener >= 0);
    assert_int_equal(bind(s->listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(s->listener, 8), 0);
    assert_int_equal(getsockname(s->listener, (struct sockaddr *)&a, &len), 0);
    s->port = ntohs(a.sin_port);
    assert_int_equal(pipe(s->stop_pipe), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
    return s;
}

file_server *file_server_start(const char *root) {
    return start(root, false);
}

file_server *file_server_start_tls(const char *root) {
    return start(root, true);
}

void file_server_stop(file_server *s) {
    if (!s) return;
    close(s->stop_pipe[1]); /* the other end becomes readable */
    pthread_join(s->thread, NULL);
    close(s->stop_pipe[0]);
    close(s->listener);
    pthread_mutex_destroy(&s->lock);
    SSL_CTX_free(s->tls);
    free(s);
}

void file_server_set(file_server *s, file_server_rules rules) {
    pthread_mutex_lock(&s->lock);
    s->rules = rules;
    pthread_mutex_unlock(&s->lock);
}

const char *file_server_url(file_server *s, const char *path) {
    snprintf(s->url, sizeof s->url, "http%s://127.0.0.1:%u%s", s->tls ? "s" : "", s->port, path);
    return s->url;
}

size_t file_server_count(file_server *s, const char *text) {
    size_t n = 0;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n_requests; i++) n += strstr(s->requests[i], text) != NULL;
    pthread_mutex_unlock(&s->lock);
    return n;
}

void file_server_forget(file_server *s) {
    pthread_mutex_lock(&s->lock);
    s->n_requests = 0;
    pthread_mutex_unlock(&s->lock);
}
