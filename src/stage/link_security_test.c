/* Who may be at the other end: only certificates of our authority, only TLS 1.3, plaintext only where it cannot leave
 * the machine. Whoever is refused costs others nothing. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <openssl/ssl.h>

#include "base/clock.h"
#include "stage/certs.h"
#include "stage/link_fixture.h"

enum { DAY = 86400 };

/* A listener with our certificate, and an accept that runs. */
typedef struct guarded {
    sk_listener *listener;
    acceptor *accepting;
} guarded;

static guarded guard(const char *cert_name) {
    guarded g;
    sk_err e = {0};
    sk_link_options o = {.security = tls_security("ours", cert_name)};
    if (sk_listener_open("127.0.0.1:0", &o.security, &g.listener, &e)) fail_msg("%s", e.text);
    g.accepting = accept_begin(g.listener, &o);
    return g;
}

/* A good peer still gets through, its link is the first that accept returns, and no frame came before its own. */
static void still_serves(guarded *g) {
    sk_err e = {0};
    sk_link *a;
    sk_link_stats s;
    sk_link_options o = {.security = tls_security("ours", "head")};
    if (sk_link_connect(sk_listener_address(g->listener), &o, PATIENCE_MS, &a, &e)) fail_msg("%s", e.text);
    sk_link *b = accept_end(g->accepting);
    sk_link_get_stats(b, &s);
    assert_true(s.encrypted);
    assert_int_equal(s.frames_in, 0);
    send_all(a, frame_record(5), false);
    assert_int_equal(receive_record(b), 5);
    sk_link_close(a, 0);
    sk_link_close(b, 0);
    sk_listener_close(g->listener);
}

static void is_refused(const guarded *g, sk_link_security s, const char *why) {
    sk_err e = {0};
    sk_link *l;
    sk_link_options o = {.security = s};
    int rc = sk_link_connect(sk_listener_address(g->listener), &o, PATIENCE_MS, &l, &e);
    if (rc != SKIPPY_E_UNSUPPORTED) fail_msg("status %d: %s", rc, e.text);
    if (!strstr(e.text, why)) fail_msg("'%s' does not say '%s'", e.text, why);
    assert_null(l);
}

/* A file of our own authority under a second name, in another folder. */
static void share_authority(const char *dir, const char *name) {
    char from[300], to[300];
    snprintf(from, sizeof from, "%s/%s", fixture_path("ours"), name);
    snprintf(to, sizeof to, "%s/%s", dir, name);
    assert_int_equal(link(from, to), 0);
}

/* Certificates of our own authority that are valid at other times. */
static sk_link_security dated(const char *folder, const char *name, int64_t from_days, int64_t to_days) {
    sk_err e = {0};
    char dir[200];
    int64_t now = (int64_t)sk_wall_s();
    snprintf(dir, sizeof dir, "%s", fixture_path(folder));
    tls_security("ours", "head"); /* the authority is there */
    if (mkdir(dir, 0700) == 0) {
        share_authority(dir, "ca.crt");
        share_authority(dir, "ca.key");
    } else {
        assert_int_equal(errno, EEXIST); /* from the certificate of another name */
    }
    sk_cert_time when = {now + from_days * DAY, now + to_days * DAY};
    if (sk_certs_write(dir, &name, 1, when, true, &e)) fail_msg("%s", e.text);
    return tls_security(folder, name);
}

/* ---- certificates ---- */

static void a_client_of_another_authority_is_refused(void **state) {
    (void)state;
    guarded g = guard("127.0.0.1");
    sk_link_security s = tls_security("theirs", "head");
    s.ca = tls_security("ours", "head").ca; /* it trusts us, but we do not trust it */
    is_refused(&g, s, "the peer refuses the connection");
    still_serves(&g);
}

static void a_server_of_another_authority_is_refused(void **state) {
    (void)state;
    guarded g = guard("127.0.0.1");
    is_refused(&g, tls_security("theirs", "head"), "the peer's certificate is not accepted");
    still_serves(&g);
}

static void an_expired_certificate_is_refused_on_either_side(void **state) {
    (void)state;
    guarded g = guard("127.0.0.1");
    is_refused(&g, dated("old", "head", -3, -1), "the peer refuses the connection");
    still_serves(&g);
    sk_err e = {0};
    sk_link_security old = dated("old", "127.0.0.1", -3, -1);
    assert_int_equal(sk_listener_open("127.0.0.1:0", &old, &g.listener, &e), SKIPPY_OK);
    sk_link_options o = {.security = old};
    g.accepting = accept_begin(g.listener, &o);
    is_refused(&g, tls_security("ours", "head"), "certificate has expired");
    sk_listener_cancel(g.listener);
    accept_cancelled(g.accepting);
    sk_listener_close(g.listener);
}

static void a_certificate_that_is_not_valid_yet_is_refused(void **state) {
    (void)state;
    guarded g = guard("127.0.0.1");
    is_refused(&g, dated("early", "head", 1, 3), "the peer refuses the connection");
    still_serves(&g);
}

static void the_certificate_must_have_the_name_that_is_connected_to(void **state) {
    (void)state;
    guarded g = guard("stage-b.example"); /* of our authority, but another host's */
    is_refused(&g, tls_security("ours", "head"), "IP address mismatch");
    sk_listener_cancel(g.listener);
    accept_cancelled(g.accepting);
    sk_listener_close(g.listener);
}

static void a_host_name_is_checked_like_an_address(void **state) {
    (void)state;
    sk_err e = {0};
    sk_link *l = NULL;
    char address[300];
    sk_link_options o = {.security = tls_security("ours", "head")};
    guarded g = guard("localhost");
    snprintf(address, sizeof address, "localhost:%s", strrchr(sk_listener_address(g.listener), ':') + 1);
    if (sk_link_connect(address, &o, PATIENCE_MS, &l, &e)) fail_msg("%s", e.text);
    sk_link_close(accept_end(g.accepting), 0);
    sk_link_close(l, 0);
    sk_listener_close(g.listener);
    g = guard("127.0.0.1");
    snprintf(address, sizeof address, "localhost:%s", strrchr(sk_listener_address(g.listener), ':') + 1);
    assert_int_equal(sk_link_connect(address, &o, PATIENCE_MS, &l, &e), SKIPPY_E_UNSUPPORTED);
    assert_non_null(strstr(e.text, "hostname mismatch"));
    still_serves(&g);
}

/* ---- other TLS ---- */

/* What an ordinary TLS client with these settings gets: 1 when it could exchange bytes. */
static int foreign_client(const char *address, int version, const sk_link_security *s) {
    char byte;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    assert_non_null(ctx);
    SSL_CTX_set_max_proto_version(ctx, version);
    if (s) {
        assert_int_equal(SSL_CTX_use_certificate_chain_file(ctx, s->cert), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, s->key, SSL_FILETYPE_PEM), 1);
    }
    int fd = raw_connect_to(address);
    SSL *ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fd);
    int ok = SSL_connect(ssl) == 1 && SSL_read(ssl, &byte, 1) == 1;
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    close(fd);
    return ok;
}

static void a_client_without_a_certificate_is_refused(void **state) {
    (void)state;
    guarded g = guard("127.0.0.1");
    assert_int_equal(foreign_client(sk_listener_address(g.listener), TLS1_3_VERSION, NULL), 0);
    still_serves(&g);
}

static void an_older_tls_is_refused(void **state) {
    (void)state;
    sk_link_security s = tls_security("ours", "head");
    guarded g = guard("127.0.0.1");
    assert_int_equal(foreign_client(sk_listener_address(g.listener), TLS1_2_VERSION, &s), 0);
    still_serves(&g);
}

static void bytes_that_are_no_tls_are_refused(void **state) {
    (void)state;
    static const char *const garbage[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x18\0\0\0\x0b\0\0\0",
                                          "\x16\x03\x01\xff\xff\xff\xff"};
    guarded g = guard("127.0.0.1");
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        char reply[64];
        int fd = raw_connect_to(sk_listener_address(g.listener));
        assert_int_equal(send(fd, garbage[i], 7, MSG_NOSIGNAL), 7);
        shutdown(fd, SHUT_WR);
        while (recv(fd, reply, sizeof reply, 0) > 0) continue; /* an alert, perhaps; then the end */
        close(fd);
    }
    still_serves(&g);
}

static void silent_connections_do_not_keep_others_out(void **state) {
    (void)state;
    enum { SILENT = 70 /* more than may be in their handshake at once */ };
    int fds[SILENT];
    guarded g = guard("127.0.0.1");
    for (int i = 0; i < SILENT; i++) fds[i] = raw_connect_to(sk_listener_address(g.listener));
    still_serves(&g);
    for (int i = 0; i < SILENT; i++) close(fds[i]);
}

static void a_server_that_speaks_plaintext_is_refused(void **state) {
    (void)state;
    char address[64];
    sk_err e = {0};
    sk_link *l;
    sk_link_options o = {.security = tls_security("ours", "head")};
    int listening = raw_listen(address, sizeof address);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, raw_greeter, &listening), 0);
    assert_int_equal(sk_link_connect(address, &o, PATIENCE_MS, &l, &e), SKIPPY_E_UNSUPPORTED);
    assert_non_null(strstr(e.text, "does not speak TLS 1.3"));
    pthread_join(thread, NULL);
    close(listening);
}

/* ---- plaintext ---- */

static void plaintext_stays_on_this_machine(void **state) {
    (void)state;
    sk_err e = {0};
    sk_link *l;
    sk_listener *listener;
    sk_link_options allowed = plain_options(), not_allowed = {0};
    assert_int_equal(sk_link_connect("192.0.2.1:9", &allowed, 10, &l, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "needs certificates"));
    assert_int_equal(sk_link_connect("127.0.0.1:9", &not_allowed, 10, &l, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_link_connect("[::ffff:192.0.2.1]:9", &allowed, 10, &l, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_listener_open("0.0.0.0:0", &allowed.security, &listener, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_listener_open("[::]:0", &allowed.security, &listener, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_listener_open("127.0.0.1:0", &not_allowed.security, &listener, &e), SKIPPY_E_INVALID);
    assert_null(listener);
}

static void certificates_are_used_on_unix_sockets_too(void **state) {
    (void)state;
    char address[300];
    sk_err e = {0};
    sk_link *a, *b;
    sk_listener *listener;
    sk_link_stats s;
    sk_link_options oa = {.security = tls_security("ours", "head")},
                    ob = {.security = tls_security("ours", "127.0.0.1")};
    snprintf(address, sizeof address, "unix:%s", fixture_path("tls-socket"));
    assert_int_equal(sk_listener_open(address, &ob.security, &listener, &e), SKIPPY_OK);
    acceptor *accepting = accept_begin(listener, &ob);
    if (sk_link_connect(address, &oa, PATIENCE_MS, &a, &e)) fail_msg("%s", e.text);
    b = accept_end(accepting);
    sk_link_get_stats(b, &s);
    assert_true(s.encrypted);
    sk_link_close(a, 0);
    sk_link_close(b, 0);
    sk_listener_close(listener);
}

/* ---- files ---- */

static void missing_and_wrong_files_are_named(void **state) {
    (void)state;
    sk_err e = {0};
    sk_listener *l;
    sk_link *link;
    const sk_link_security good = tls_security("ours", "head"), other = tls_security("theirs", "head");
    sk_link_options o = {.security = good};
    o.security.key = NULL;
    assert_int_equal(sk_link_connect("127.0.0.1:9", &o, 10, &link, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "the key is missing"));
    o.security = good;
    o.security.key = other.key;
    assert_int_equal(sk_link_connect("127.0.0.1:9", &o, 10, &link, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, other.key));
    o.security = good;
    o.security.ca = fixture_path("nothing.crt");
    assert_int_equal(sk_listener_open("127.0.0.1:0", &o.security, &l, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "nothing.crt"));
    o.security = good;
    o.security.cert = good.key;
    assert_int_equal(sk_listener_open("127.0.0.1:0", &o.security, &l, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "not a readable certificate"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_of_another_authority_is_refused),
        cmocka_unit_test(a_server_of_another_authority_is_refused),
        cmocka_unit_test(an_expired_certificate_is_refused_on_either_side),
        cmocka_unit_test(a_certificate_that_is_not_valid_yet_is_refused),
        cmocka_unit_test(the_certificate_must_have_the_name_that_is_connected_to),
        cmocka_unit_test(a_host_name_is_checked_like_an_address),
        cmocka_unit_test(a_client_without_a_certificate_is_refused),
        cmocka_unit_test(an_older_tls_is_refused),
        cmocka_unit_test(bytes_that_are_no_tls_are_refused),
        cmocka_unit_test(silent_connections_do_not_keep_others_out),
        cmocka_unit_test(a_server_that_speaks_plaintext_is_refused),
        cmocka_unit_test(plaintext_stays_on_this_machine),
        cmocka_unit_test(certificates_are_used_on_unix_sockets_too),
        cmocka_unit_test(missing_and_wrong_files_are_named),
    };
    return cmocka_run_group_tests(tests, link_fixture_begin, link_fixture_end);
}
