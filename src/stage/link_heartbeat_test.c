/* Links notice a peer that is gone, tell a busy owner from a dead process, and wake their owner. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "stage/link_fixture.h"

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* Waits until *count is at least n; the test fails when it never is. */
static void wait_count(atomic_uint *count, unsigned n) {
    uint64_t by = sk_now_ns() + (uint64_t)PATIENCE_MS * 1000000;
    while (atomic_load(count) < n) {
        if (sk_now_ns() > by) fail_msg("%u calls came, not %u", atomic_load(count), n);
        pause_ms(1);
    }
}

static void a_silent_peer_takes_the_link_down(void **state) {
    (void)state;
    sk_link_options o = plain_options();
    o.ping_ms = 20;
    o.silent_ms = 100;
    int fd;
    sk_link *l = link_to_raw(&o, &fd); /* greets, and never says anything again, though the connection stays */
    assert_non_null(strstr(wait_down(l), "silent for 100 ms"));
    close(fd);
    sk_link_close(l, 0);
}

static void pings_are_answered_while_both_owners_are_busy(void **state) {
    (void)state;
    for (int over = 0; over < TRANSPORTS; over++) {
        sk_link_options o = plain_options();
        o.ping_ms = 10;
        ends x = ends_open((enum transport)over, &o, &o);
        sk_link_stats s = {0};
        uint64_t by = sk_now_ns() + (uint64_t)PATIENCE_MS * 1000000;
        while (s.round_trip_ms <= 0 && sk_now_ns() < by) { /* nobody receives */
            pause_ms(1);
            sk_link_get_stats(x.a, &s);
        }
        assert_true(s.round_trip_ms > 0);
        assert_int_equal(s.frames_in, 0); /* PING and PONG are the links' own */
        assert_int_equal(s.frames_out, 0);
        assert_false(sk_link_is_down(x.b));
        ends_close(&x);
    }
}

static void a_quiet_link_stays_up(void **state) {
    (void)state;
    sk_link_options o = plain_options();
    o.ping_ms = 50;
    o.silent_ms = 2000;
    ends x = ends_open(OVER_TCP, &o, &o);
    sk_link_stats before, after;
    sk_link_get_stats(x.b, &before);
    uint64_t by = sk_now_ns() + (uint64_t)PATIENCE_MS * 1000000;
    do { /* many PINGs and PONGs later */
        pause_ms(5);
        sk_link_get_stats(x.b, &after);
    } while (after.bytes_in - before.bytes_in < 40 * 28 && sk_now_ns() < by);
    assert_true(after.bytes_in - before.bytes_in >= 40 * 28);
    assert_false(sk_link_is_down(x.a));
    assert_false(sk_link_is_down(x.b));
    ends_close(&x);
}

static void a_ping_comes_back_with_its_number(void **state) {
    (void)state;
    static sk_frame f;
    sk_link_options o = plain_options();
    int fd;
    sk_link *l = link_to_raw(&o, &fd);
    uint8_t reply[2 * 28]; /* the answer to the greeting, then ours */
    sk_err e = {0};
    f = (sk_frame){.kind = SK_FRAME_PING, .u.count = {.n = 0x1122334455667788}};
    sk_buf b = {0};
    assert_int_equal(recv(fd, reply, 28, MSG_WAITALL), 28);
    assert_true(sk_frame_encode(&f, &b));
    assert_int_equal(send(fd, b.data, b.len, 0), b.len);
    assert_int_equal(recv(fd, reply, 28, MSG_WAITALL), 28);
    assert_int_equal(sk_frame_decode(reply + 4, 24, &f, &e), SKIPPY_OK);
    assert_int_equal(f.kind, SK_FRAME_PONG);
    assert_true(f.u.count.n == 0x1122334455667788);
    sk_buf_free(&b);
    close(fd);
    sk_link_close(l, 0);
}

static void a_ping_that_is_none_ends_the_link(void **state) {
    (void)state;
    sk_link_options o = plain_options();
    int fd;
    sk_link *l = link_to_raw(&o, &fd);
    sk_buf b = frame_record(1);
    b.data[4] = SK_FRAME_PING;
    b.data[6] = 1; /* a flag that no PING has */
    assert_int_equal(send(fd, b.data, b.len, 0), b.len);
    assert_non_null(strstr(wait_down(l), "PING"));
    sk_buf_free(&b);
    close(fd);
    sk_link_close(l, 0);
}

static void what_the_peer_said_before_it_went_can_be_read(void **state) {
    (void)state;
    sk_link_options o = plain_options();
    int fd;
    sk_link *l = link_to_raw(&o, &fd);
    sk_buf b = frame_record(11);
    sk_err e = {0};
    assert_int_equal(send(fd, b.data, b.len, 0), b.len);
    close(fd); /* with the PONG unread: the next write is answered by a reset */
    while (!sk_link_is_down(l)) {
        sk_buf more = frame_record(1);
        sk_link_send(l, &more, false, 0, &e);
        sk_buf_free(&more);
    }
    assert_int_equal(receive_record(l), 11);
    sk_buf_free(&b);
    sk_link_close(l, 0);
}

static void count_wake(void *ud) {
    atomic_fetch_add((atomic_uint *)ud, 1);
}

static void the_owner_is_woken_by_frames_and_by_the_end(void **state) {
    (void)state;
    atomic_uint calls = 0;
    sk_link_options plain = plain_options(), o = plain;
    o.wake = count_wake;
    o.ud = &calls;
    ends x = ends_open(OVER_UNIX, &plain, &o);
    assert_int_equal(atomic_load(&calls), 0);
    send_all(x.a, frame_record(1), false);
    wait_count(&calls, 1);
    assert_int_equal(receive_record(x.b), 1);
    sk_link_close(x.a, 0);
    x.a = NULL;
    wait_count(&calls, 2);
    assert_true(sk_link_is_down(x.b)); /* known before the call */
    ends_close(&x);
    assert_int_equal(atomic_load(&calls), 2); /* an owner that closes is not called */
}

static void take_frame(void *ud) {
    sk_link **l = ud;
    uint8_t *bytes;
    size_t len;
    sk_err e;
    while (*l && sk_link_receive(*l, 0, &bytes, &len, &e) == SKIPPY_OK) free(bytes);
}

static void frames_can_be_taken_when_the_owner_is_woken(void **state) {
    (void)state;
    static sk_link *taken_from;
    sk_link_options plain = plain_options(), o = plain;
    o.wake = take_frame;
    o.ud = &taken_from;
    ends x = ends_open(OVER_UNIX, &plain, &o);
    taken_from = x.b; /* before the first frame is sent */
    for (uint64_t i = 0; i < 100; i++) send_all(x.a, frame_record(i), false);
    sk_link_close(x.a, PATIENCE_MS);
    x.a = NULL;
    wait_down(x.b);
    sk_link_stats s;
    sk_link_get_stats(x.b, &s);
    assert_int_equal(s.frames_in, 100);
    ends_close(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_peer_takes_the_link_down),
        cmocka_unit_test(pings_are_answered_while_both_owners_are_busy),
        cmocka_unit_test(a_quiet_link_stays_up),
        cmocka_unit_test(a_ping_comes_back_with_its_number),
        cmocka_unit_test(a_ping_that_is_none_ends_the_link),
        cmocka_unit_test(what_the_peer_said_before_it_went_can_be_read),
        cmocka_unit_test(the_owner_is_woken_by_frames_and_by_the_end),
        cmocka_unit_test(frames_can_be_taken_when_the_owner_is_woken),
    };
    return cmocka_run_group_tests(tests, link_fixture_begin, link_fixture_end);
}
