/* Addresses, and sockets that listen: what is refused, replaced, removed, and who can be waited for. */
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

#include "stage/link_fixture.h"

static const sk_link_security plain = {.allow_loopback = true};

static sk_listener *open_at(const char *address) {
    sk_listener *l;
    sk_err e = {0};
    if (sk_listener_open(address, &plain, &l, &e)) fail_msg("%s", e.text);
    return l;
}

static const char *unix_address(const char *name) {
    static char address[300];
    snprintf(address, sizeof address, "unix:%s", fixture_path(name));
    return address;
}

/* ---- addresses ---- */

static void addresses_of_the_documented_forms_are_accepted(void **state) {
    (void)state;
    static const char *const good[] = {"a:1",         "stage-2.example:65535",     "10.0.0.1:9000",       "[::1]:0",
                                       "[fe80::1]:7", "unix:relative/path.socket", "unix:/run/skippy/a:b"};
    sk_err e = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (sk_link_check_address(good[i], &e)) fail_msg("%s", e.text);
}

static void other_addresses_are_refused_in_words(void **state) {
    (void)state;
    char long_host[400], long_path[400];
    memset(long_host, 'h', sizeof long_host);
    memcpy(long_host + sizeof long_host - 3, ":1", 3);
    memset(long_path, 'p', sizeof long_path);
    memcpy(long_path, "unix:/", 6);
    long_path[sizeof long_path - 1] = '\0';
    const struct {
        const char *address, *why;
    } bad[] = {
        {NULL, "empty"},
        {"", "empty"},
        {"host", "no port"},
        {"host:", "no port"},
        {"host:http", "no port"},
        {"host:65536", "no port"},
        {"host:-1", "no port"},
        {"host:1 ", "no port"},
        {":9000", "no host"},
        {"host:99999999999999999999", "no port"},
        {"::1:9000", "several"},
        {"[::1:9000", "brackets"},
        {"[]:9000", "brackets"},
        {"[", "no port"},
        {"unix:", "no path"},
        {long_host, "longer than"},
        {long_path, "longer than"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sk_err e = {0};
        assert_int_equal(sk_link_check_address(bad[i].address, &e), SKIPPY_E_INVALID);
        if (!strstr(e.text, bad[i].why)) fail_msg("'%s' does not say '%s'", e.text, bad[i].why);
    }
}

/* ---- sockets ---- */

static void any_port_means_one_that_can_be_asked_for(void **state) {
    (void)state;
    sk_listener *a = open_at("127.0.0.1:0"), *b = open_at("127.0.0.1:0");
    assert_memory_equal(sk_listener_address(a), "127.0.0.1:", 10);
    assert_string_not_equal(sk_listener_address(a), "127.0.0.1:0");
    assert_string_not_equal(sk_listener_address(a), sk_listener_address(b));
    sk_listener *c;
    sk_err e = {0};
    assert_int_equal(sk_listener_open(sk_listener_address(a), &plain, &c, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, "another program"));
    assert_null(c);
    sk_listener_close(a);
    sk_listener_close(b);
}

static void a_unix_socket_is_private_and_goes_with_its_listener(void **state) {
    (void)state;
    struct stat st;
    sk_listener *l = open_at(unix_address("one"));
    assert_int_equal(stat(fixture_path("one"), &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_string_equal(sk_listener_address(l), unix_address("one"));
    sk_listener_close(l);
    assert_int_equal(access(fixture_path("one"), F_OK), -1);
}

static void a_socket_that_somebody_listens_on_is_not_taken_away(void **state) {
    (void)state;
    sk_listener *l = open_at(unix_address("two")), *other;
    sk_err e = {0};
    assert_int_equal(sk_listener_open(unix_address("two"), &plain, &other, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, "another program"));
    assert_int_equal(access(fixture_path("two"), F_OK), 0);
    sk_listener_close(l);
}

static void a_socket_that_nobody_listens_on_is_replaced(void **state) {
    (void)state;
    sk_listener *l = open_at(unix_address("three"));
    assert_int_equal(rename(fixture_path("three"), fixture_path("kept")), 0); /* so that close does not find it */
    sk_listener_close(l);
    assert_int_equal(rename(fixture_path("kept"), fixture_path("three")), 0);
    l = open_at(unix_address("three"));
    sk_listener_close(l);
}

static void other_files_are_not_replaced(void **state) {
    (void)state;
    sk_listener *l;
    sk_err e = {0};
    FILE *f = fopen(fixture_path("file"), "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(sk_listener_open(unix_address("file"), &plain, &l, &e), SKIPPY_E_IO);
    assert_int_equal(access(fixture_path("file"), F_OK), 0);
    assert_int_equal(sk_listener_open(unix_address("no/such/folder"), &plain, &l, &e), SKIPPY_E_IO);
    assert_null(l);
}

static void close_leaves_a_successors_socket_alone(void **state) {
    (void)state;
    sk_listener *old = open_at(unix_address("four"));
    assert_int_equal(unlink(fixture_path("four")), 0);
    sk_listener *next = open_at(unix_address("four"));
    sk_listener_close(old);
    assert_int_equal(access(fixture_path("four"), F_OK), 0);
    sk_listener_close(next);
}

/* ---- waiting ---- */

static void accept_gives_up_when_nobody_comes(void **state) {
    (void)state;
    sk_listener *l = open_at("127.0.0.1:0");
    sk_link *link;
    sk_err e = {0};
    sk_link_options o = plain_options();
    assert_int_equal(sk_listener_accept(l, &o, 0, &link, &e), SKIPPY_E_NOT_FOUND);
    assert_int_equal(sk_listener_accept(l, &o, 20, &link, &e), SKIPPY_E_NOT_FOUND);
    assert_null(link);
    sk_listener_close(l);
}

static void a_peer_that_waits_already_is_accepted_without_waiting(void **state) {
    (void)state;
    sk_listener *l = open_at("127.0.0.1:0");
    sk_link *link;
    sk_err e = {0};
    sk_link_options o = plain_options();
    int fd = raw_connect_to(sk_listener_address(l));
    assert_int_equal(sk_listener_accept(l, &o, 0, &link, &e), SKIPPY_OK);
    assert_memory_equal(sk_link_peer(link), "127.0.0.1:", 10);
    close(fd);
    assert_non_null(strstr(wait_down(link), "closed"));
    sk_link_close(link, 0);
    sk_listener_close(l);
}

static void cancel_wakes_accept(void **state) {
    (void)state;
    sk_listener *l = open_at("127.0.0.1:0");
    sk_link *link;
    sk_err e = {0};
    sk_link_options o = plain_options();
    acceptor *a = accept_begin(l, &o);
    sk_listener_cancel(l);
    accept_cancelled(a);
    assert_int_equal(sk_listener_accept(l, &o, PATIENCE_MS, &link, &e), SKIPPY_E_CANCELLED); /* and so it stays */
    sk_listener_close(l);
}

static void connecting_to_nobody_says_so(void **state) {
    (void)state;
    char address[64];
    sk_link *link;
    sk_err e = {0};
    sk_link_options o = plain_options();
    int fd = raw_listen(address, sizeof address);
    assert_int_equal(sk_link_connect(address, &o, 50, &link, &e), SKIPPY_E_IO); /* it listens, but says nothing */
    assert_non_null(strstr(e.text, "did not answer in time"));
    close(fd);
    assert_int_equal(sk_link_connect(address, &o, PATIENCE_MS, &link, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, address));
    assert_int_equal(sk_link_connect(unix_address("nobody"), &o, 50, &link, &e), SKIPPY_E_IO);
    assert_int_equal(sk_link_connect("nonsense", &o, 50, &link, &e), SKIPPY_E_INVALID);
    assert_null(link);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_of_the_documented_forms_are_accepted),
        cmocka_unit_test(other_addresses_are_refused_in_words),
        cmocka_unit_test(any_port_means_one_that_can_be_asked_for),
        cmocka_unit_test(a_unix_socket_is_private_and_goes_with_its_listener),
        cmocka_unit_test(a_socket_that_somebody_listens_on_is_not_taken_away),
        cmocka_unit_test(a_socket_that_nobody_listens_on_is_replaced),
        cmocka_unit_test(other_files_are_not_replaced),
        cmocka_unit_test(close_leaves_a_successors_socket_alone),
        cmocka_unit_test(accept_gives_up_when_nobody_comes),
        cmocka_unit_test(a_peer_that_waits_already_is_accepted_without_waiting),
        cmocka_unit_test(cancel_wakes_accept),
        cmocka_unit_test(connecting_to_nobody_says_so),
    };
    return cmocka_run_group_tests(tests, link_fixture_begin, link_fixture_end);
}
