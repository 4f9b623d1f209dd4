/* The relay passes on every byte, late, and can be cut and stalled. No test looks at how late: only a byte that comes
 * too early is wrong on every machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/relay.h"

enum { PATIENCE_MS = 30000, MUCH = 3 << 20 };

typedef struct ends {
    sk_relay *relay;
    int listener, client, target; /* client -> relay -> target */
} ends;

static int listen_somewhere(char address[64]) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    snprintf(address, 64, "127.0.0.1:%u", ntohs(a.sin_port));
    return fd;
}

static int connect_to(const char *address) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    a.sin_port = htons((uint16_t)strtoul(strrchr(address, ':') + 1, NULL, 10));
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static bool readable(int fd, int ms) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) == 1;
}

static int accept_one(int listener) {
    assert_true(readable(listener, PATIENCE_MS));
    const int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    return fd;
}

static ends open_ends(uint32_t delay_us) {
    ends x = {0};
    char target[64];
    sk_err e = {0};
    x.listener = listen_somewhere(target);
    if (sk_relay_open("127.0.0.1:0", target, delay_us, &x.relay, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    x.client = connect_to(sk_relay_address(x.relay));
    x.target = accept_one(x.listener);
    return x;
}

static void close_ends(ends *x) {
    close(x->client);
    close(x->target);
    close(x->listener);
    sk_relay_close(x->relay);
}

static void say(int fd, const char *text) {
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void hear(int fd, const char *text) {
    char buf[64];
    size_t n = 0;
    while (n < strlen(text)) {
        assert_true(readable(fd, PATIENCE_MS));
        const ssize_t got = recv(fd, buf + n, strlen(text) - n, 0);
        assert_true(got > 0);
        n += (size_t)got;
    }
    assert_memory_equal(buf, text, n);
}

/* The connection is over: its end, or a reset. */
static bool is_over(int fd) {
    char c;
    return readable(fd, PATIENCE_MS) && recv(fd, &c, 1, 0) <= 0;
}

static void what_is_said_on_one_side_is_heard_on_the_other(void **state) {
    (void)state;
    ends x = open_ends(0);
    say(x.client, "ahoy");
    hear(x.target, "ahoy");
    say(x.target, "aye");
    hear(x.client, "aye");
    sk_relay_stats s;
    sk_relay_get_stats(x.relay, &s);
    assert_int_equal(s.connections, 1);
    assert_int_equal(s.open, 1);
    assert_int_equal(s.bytes_to, 4);
    assert_int_equal(s.bytes_from, 3);
    close_ends(&x);
}

static void no_byte_is_early(void **state) {
    (void)state;
    const uint64_t delay_ms = 30;
    ends x = open_ends((uint32_t)delay_ms * 1000);
    for (int i = 0; i < 3; i++) {
        const uint64_t start = sk_now_ns();
        say(x.client, "there");
        hear(x.target, "there");
        const uint64_t half = sk_now_ns();
        assert_true(half - start >= delay_ms * 1000000u);
        say(x.target, "back");
        hear(x.client, "back");
        assert_true(sk_now_ns() - half >= delay_ms * 1000000u);
    }
    close_ends(&x);
}

static void a_shorter_delay_lets_nothing_overtake(void **state) {
    (void)state;
    ends x = open_ends(50000);
    sk_relay_stats s;
    say(x.client, "first");
    do sk_relay_get_stats(x.relay, &s);
    while (s.bytes_to < 5);
    sk_relay_set_delay(x.relay, 0);
    say(x.client, "second");
    hear(x.target, "firstsecond");
    close_ends(&x);
}

/* ---- much data ---- */

typedef struct stream {
    int fd;
    uint8_t first;
    bool good;
} stream;

static uint8_t expected_byte(size_t i, uint8_t first) {
    return (uint8_t)(first + i * 7 + (i >> 9));
}

static void *pour(void *ud) {
    stream *s = ud;
    uint8_t *data = malloc(MUCH);
    s->good = data != NULL;
    for (size_t i = 0; s->good && i < MUCH; i++) data[i] = expected_byte(i, s->first);
    for (size_t at = 0; s->good && at < MUCH;) {
        const ssize_t n = send(s->fd, data + at, MUCH - at, MSG_NOSIGNAL);
        s->good = n > 0;
        at += s->good ? (size_t)n : 0;
    }
    free(data);
    shutdown(s->fd, SHUT_WR);
    return NULL;
}

static void *drink(void *ud) {
    stream *s = ud;
    uint8_t buf[8192];
    size_t at = 0;
    s->good = true;
    for (ssize_t n; (n = recv(s->fd, buf, sizeof buf, 0)) > 0;)
        for (ssize_t i = 0; i < n; i++, at++) s->good &= buf[i] == expected_byte(at, s->first);
    s->good &= at == MUCH;
    return NULL;
}

static void megabytes_in_both_directions_arrive_whole_and_in_order(void **state) {
    (void)state;
    ends x = open_ends(2000);
    stream s[4] = {{x.client, 1, false}, {x.target, 1, false}, {x.target, 2, false}, {x.client, 2, false}};
    pthread_t t[4];
    for (size_t i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, i % 2 ? drink : pour, &s[i]), 0);
    for (size_t i = 0; i < 4; i++) pthread_join(t[i], NULL);
    for (size_t i = 0; i < 4; i++) assert_true(s[i].good);
    close_ends(&x);
}

static void the_end_of_one_direction_leaves_the_other_open(void **state) {
    (void)state;
    ends x = open_ends(1000);
    say(x.client, "done");
    shutdown(x.client, SHUT_WR);
    hear(x.target, "done");
    assert_true(is_over(x.target));
    say(x.target, "answer");
    hear(x.client, "answer");
    close_ends(&x);
}

/* ---- trouble ---- */

static void a_cut_ends_both_sides_and_the_next_connection_works(void **state) {
    (void)state;
    ends x = open_ends(0);
    say(x.client, "x");
    hear(x.target, "x");
    sk_relay_cut(x.relay);
    assert_true(is_over(x.client));
    assert_true(is_over(x.target));
    const int client = connect_to(sk_relay_address(x.relay));
    const int target = accept_one(x.listener);
    say(client, "again");
    hear(target, "again");
    close(client);
    close(target);
    close_ends(&x);
}

static void a_stalled_relay_holds_everything_back_and_loses_nothing(void **state) {
    (void)state;
    ends x = open_ends(0);
    say(x.client, "a");
    hear(x.target, "a");
    sk_relay_set_stalled(x.relay, true);
    say(x.client, "held");
    assert_false(readable(x.target, 100));
    sk_relay_set_stalled(x.relay, false);
    hear(x.target, "held");
    close_ends(&x);
}

static void a_target_that_refuses_ends_the_client(void **state) {
    (void)state;
    char nobody[64];
    sk_relay *r;
    sk_err e = {0};
    close(listen_somewhere(nobody)); /* a port where nobody listens any more */
    assert_int_equal(sk_relay_open("127.0.0.1:0", nobody, 0, &r, &e), SKIPPY_OK);
    const int client = connect_to(sk_relay_address(r));
    assert_true(is_over(client));
    close(client);
    sk_relay_close(r);
}

static void what_is_no_address_is_refused_in_words(void **state) {
    (void)state;
    static const char *const wrong[] = {"", "localhost", "127.0.0.1:", ":80", "127.0.0.1:http", "[::1:80"};
    sk_relay *r;
    sk_err e = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(sk_relay_open("127.0.0.1:0", wrong[i], 0, &r, &e), SKIPPY_E_INVALID);
        assert_null(r);
        assert_non_null(strstr(e.text, wrong[i]));
    }
    char taken[64];
    const int fd = listen_somewhere(taken);
    assert_int_equal(sk_relay_open(taken, "127.0.0.1:1", 0, &r, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, taken));
    close(fd);
    sk_relay_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said_on_one_side_is_heard_on_the_other),
        cmocka_unit_test(no_byte_is_early),
        cmocka_unit_test(a_shorter_delay_lets_nothing_overtake),
        cmocka_unit_test(megabytes_in_both_directions_arrive_whole_and_in_order),
        cmocka_unit_test(the_end_of_one_direction_leaves_the_other_open),
        cmocka_unit_test(a_cut_ends_both_sides_and_the_next_connection_works),
        cmocka_unit_test(a_stalled_relay_holds_everything_back_and_loses_nothing),
        cmocka_unit_test(a_target_that_refuses_ends_the_client),
        cmocka_unit_test(what_is_no_address_is_refused_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
