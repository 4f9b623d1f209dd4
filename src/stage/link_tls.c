#include "stage/link_tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

/* ---- a BIO over a socket that never raises SIGPIPE: OpenSSL's own one uses write() ---- */

static int socket_of(BIO *b) {
    return (int)(intptr_t)BIO_get_data(b); /* the number itself, so that a channel may be moved */
}

static bool would_block(void) {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static int bio_read(BIO *b, char *buf, int n) {
    BIO_clear_retry_flags(b);
    ssize_t got = recv(socket_of(b), buf, (size_t)n, 0);
    if (got < 0 && would_block()) BIO_set_retry_read(b);
    return (int)got;
}

static int bio_write(BIO *b, const char *buf, int n) {
    BIO_clear_retry_flags(b);
    ssize_t put = send(socket_of(b), buf, (size_t)n, MSG_NOSIGNAL);
    if (put < 0 && would_block()) BIO_set_retry_write(b);
    return (int)put;
}

static long bio_ctrl(BIO *b, int command, long number, void *pointer) {
    (void)b;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH; /* nothing is kept back; other commands are not known */
}

static BIO_METHOD *bio_method;

static void make_bio_method(void) {
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "stage link");
    if (!bio_method) return;
    BIO_meth_set_read(bio_method, bio_read);
    BIO_meth_set_write(bio_method, bio_write);
    BIO_meth_set_ctrl(bio_method, bio_ctrl);
}

static BIO *bio_over(int fd) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_bio_method);
    BIO *b = bio_method ? BIO_new(bio_method) : NULL;
    if (!b) return NULL;
    /* OpenSSL keeps one pointer for the method; all that ours needs is a descriptor.
     * NOLINTNEXTLINE(performance-no-int-to-ptr) */
    BIO_set_data(b, (void *)(intptr_t)fd);
    BIO_set_init(b, 1);
    return b;
}

/* ---- settings ---- */

int sk_tls_check(const sk_link_security *s, bool *encrypted, sk_err *e) {
    int n = (s->ca != NULL) + (s->cert != NULL) + (s->key != NULL);
    *encrypted = n == 3;
    if (n == 0 || n == 3) return SKIPPY_OK;
    return sk_err_set(
        e, SKIPPY_E_INVALID,
        "a link needs three files or none: the authority's certificate, this side's certificate and its key; "
        "%s is missing",
        !s->ca     ? "the authority's certificate"
        : !s->cert ? "the certificate"
                   : "the key");
}

/* The reason of OpenSSL's newest error. */
static const char *tls_reason(void) {
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    return reason ? reason : "unknown reason";
}

static int load_files(SSL_CTX *ctx, const sk_link_security *s, sk_err *e) {
    ERR_clear_error();
    if (SSL_CTX_load_verify_file(ctx, s->ca) != 1)
        return sk_err_set(e, SKIPPY_E_INVALID, "'%s' is not a readable certificate of an authority (PEM): %s", s->ca,
                          tls_reason());
    if (SSL_CTX_use_certificate_chain_file(ctx, s->cert) != 1)
        return sk_err_set(e, SKIPPY_E_INVALID, "'%s' is not a readable certificate (PEM): %s", s->cert, tls_reason());
    if (SSL_CTX_use_PrivateKey_file(ctx, s->key, SSL_FILETYPE_PEM) != 1)
        return sk_err_set(e, SKIPPY_E_INVALID, "'%s' is not a readable private key (PEM) of the certificate '%s': %s",
                          s->key, s->cert, tls_reason());
    return SKIPPY_OK;
}

/* TLS 1.3 only, both sides verified, nothing remembered between connections: without sessions and tickets there is no
 * early data, so nothing can be replayed. */
static bool set_rules(SSL_CTX *ctx) {
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1 && SSL_CTX_set_num_tickets(ctx, 0) == 1 &&
           SSL_CTX_set_ciphersuites(ctx,
                                    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256") == 1;
}

int sk_tls_context(const sk_link_security *s, bool server, SSL_CTX **out, sk_err *e) {
    *out = NULL;
    SSL_CTX *ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    if (!ctx || !set_rules(ctx)) {
        SSL_CTX_free(ctx);
        return sk_err_set(e, SKIPPY_E_NOMEM, "TLS 1.3 cannot be set up: %s", tls_reason());
    }
    int rc = load_files(ctx, s, e);
    if (rc) {
        SSL_CTX_free(ctx);
        return rc;
    }
    *out = ctx;
    return SKIPPY_OK;
}

/* ---- channels ---- */

static bool is_ip(const char *host) {
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

/* The name stands among the certificate's alternative names; the old habit of looking at the subject is not followed.
 */
static bool expect_name(SSL *ssl, const char *host) {
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (is_ip(host)) return X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1;
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

static int open_tls(sk_channel *c, SSL_CTX *ctx, bool server, const char *host, sk_err *e) {
    c->ssl = SSL_new(ctx);
    BIO *b = c->ssl ? bio_over(c->fd) : NULL;
    if (!b) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for an encrypted connection");
    SSL_set_bio(c->ssl, b, b);
    SSL_set_read_ahead(c->ssl, 1); /* several records for one system call */
    if (server)
        SSL_set_accept_state(c->ssl);
    else
        SSL_set_connect_state(c->ssl);
    if (host && !expect_name(c->ssl, host))
        return sk_err_set(e, SKIPPY_E_INVALID, "'%s' is not a name that a certificate can have", host);
    return SKIPPY_OK;
}

int sk_channel_open(sk_channel *c, int fd, SSL_CTX *ctx, bool server, const char *host, sk_err *e) {
    *c = (sk_channel){.fd = fd, .read_wants = POLLIN, .write_wants = POLLOUT};
    int rc = ctx ? open_tls(c, ctx, server, host, e) : SKIPPY_OK;
    if (rc) sk_channel_close(c);
    return rc;
}

void sk_channel_finish(sk_channel *c) {
    if (c->fd < 0) return;
    ERR_clear_error();
    if (c->ssl) SSL_shutdown(c->ssl); /* best effort: the peer also sees the end of the stream */
    shutdown(c->fd, SHUT_WR);
}

void sk_channel_close(sk_channel *c) {
    SSL_free(c->ssl);
    if (c->fd >= 0) close(c->fd);
    c->ssl = NULL;
    c->fd = -1;
}

/* ---- errors ---- */

static bool is_end(int kind) {
    if (kind == SSL_ERROR_ZERO_RETURN) return true;
    if (kind == SSL_ERROR_SYSCALL) return errno == 0;
    return kind == SSL_ERROR_SSL && ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
}

/* Says why a TLS call failed. errno is that of the call. */
static int tls_failure(const sk_channel *c, int kind, sk_err *e) {
    long verdict = SSL_get_verify_result(c->ssl);
    if (is_end(kind)) return sk_err_set(e, SKIPPY_E_IO, "the peer closed the connection");
    if (kind == SSL_ERROR_SYSCALL) return sk_err_set(e, SKIPPY_E_IO, "the connection broke: %s", strerror(errno));
    if (verdict != X509_V_OK)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "the peer's certificate is not accepted: %s",
                          X509_verify_cert_error_string(verdict));
    if (ERR_GET_REASON(ERR_peek_last_error()) >= SSL_AD_REASON_OFFSET) /* an alert: the peer's words */
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "the peer refuses the connection (certificate or TLS version): %s",
                          tls_reason());
    if (ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "the peer has no certificate");
    return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "the peer does not speak TLS 1.3 as expected: %s", tls_reason());
}

/* SK_CHANNEL_WAIT with *wants set, or END or FAILED with e set. result: of a TLS call that moved nothing. */
static ssize_t tls_wait(const sk_channel *c, int result, short *wants, sk_err *e) {
    int kind = SSL_get_error(c->ssl, result);
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
        *wants = kind == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
        return SK_CHANNEL_WAIT;
    }
    bool end = is_end(kind);
    tls_failure(c, kind, e);
    return end ? SK_CHANNEL_END : SK_CHANNEL_FAILED;
}

/* A socket call moved nothing. */
static ssize_t plain_wait(ssize_t result, sk_err *e) {
    if (result < 0 && would_block()) return SK_CHANNEL_WAIT;
    if (result == 0 || errno == EPIPE || errno == ECONNRESET) {
        sk_err_set(e, SKIPPY_E_IO, "the peer closed the connection");
        return SK_CHANNEL_END;
    }
    sk_err_set(e, SKIPPY_E_IO, "the connection broke: %s", strerror(errno));
    return SK_CHANNEL_FAILED;
}

static void clear_errors(void) {
    ERR_clear_error(); /* the queue belongs to the thread: another channel may have left something */
    errno = 0;
}

/* SKIPPY_E_BUSY for waiting, else e's code. */
static int status_of(ssize_t result, const sk_err *e) {
    return result == SK_CHANNEL_WAIT ? SKIPPY_E_BUSY : e->code;
}

int sk_channel_handshake(sk_channel *c, sk_err *e) {
    sk_err why = {0};
    if (!c->ssl) return SKIPPY_OK;
    clear_errors();
    int n = SSL_do_handshake(c->ssl);
    if (n != 1) {
        int rc = status_of(tls_wait(c, n, &c->read_wants, &why), &why);
        return rc == SKIPPY_E_BUSY ? rc : sk_err_set(e, rc, "%s", why.text);
    }
    c->read_wants = POLLIN;
    return SKIPPY_OK;
}

int sk_channel_peek(sk_channel *c, sk_err *e) {
    char byte;
    sk_err why = {0};
    ssize_t n;
    clear_errors();
    if (c->ssl) {
        n = SSL_peek(c->ssl, &byte, 1);
        if (n <= 0) n = tls_wait(c, (int)n, &c->read_wants, &why);
    } else {
        n = recv(c->fd, &byte, 1, MSG_PEEK);
        if (n <= 0) n = plain_wait(n, &why);
    }
    if (n > 0) return SKIPPY_OK;
    int rc = status_of(n, &why);
    return rc == SKIPPY_E_BUSY ? rc : sk_err_set(e, rc, "%s", why.text);
}

ssize_t sk_channel_read(sk_channel *c, void *buf, size_t n, sk_err *e) {
    clear_errors();
    if (c->ssl) {
        size_t got = 0;
        int rc = SSL_read_ex(c->ssl, buf, n, &got);
        c->read_wants = POLLIN;
        return rc == 1 ? (ssize_t)got : tls_wait(c, rc, &c->read_wants, e);
    }
    ssize_t got = recv(c->fd, buf, n, 0);
    return got > 0 ? got : plain_wait(got, e);
}

ssize_t sk_channel_write(sk_channel *c, const void *buf, size_t n, sk_err *e) {
    clear_errors();
    if (c->ssl) {
        size_t put = 0;
        int rc = SSL_write_ex(c->ssl, buf, n, &put);
        c->write_wants = POLLOUT;
        return rc == 1 ? (ssize_t)put : tls_wait(c, rc, &c->write_wants, e);
    }
    ssize_t put = send(c->fd, buf, n, MSG_NOSIGNAL);
    return put > 0 ? put : plain_wait(put, e);
}
