/* Links move whole frames in order, in both directions, at the pace of the slower side. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <pthread.h>

#include "base/clock.h"
#include "base/record.h"
#include "stage/link_fixture.h"

enum { MIB = 1024 * 1024, NS_PER_MS = 1000000 };

static uint64_t in_ms(uint64_t ms) {
    return sk_now_ns() + ms * NS_PER_MS;
}

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * NS_PER_MS}, NULL);
}

static ends open_plain(enum transport over) {
    sk_link_options o = plain_options();
    return ends_open(over, &o, &o);
}

/* The peer may have a frame before the thread that wrote it has counted it. */
static void wait_frames_out(sk_link *l, uint64_t n) {
    sk_link_stats s;
    uint64_t by = in_ms(PATIENCE_MS);
    for (sk_link_get_stats(l, &s); s.frames_out < n && sk_now_ns() < by; sk_link_get_stats(l, &s)) pause_ms(1);
    assert_int_equal(s.frames_out, n);
}

/* ---- frames arrive ---- */

static void a_frame_comes_back_over_every_transport(void **state) {
    (void)state;
    for (int over = 0; over < TRANSPORTS; over++) {
        ends x = open_plain((enum transport)over);
        send_all(x.a, frame_record(7), false);
        uint64_t n = receive_record(x.b);
        send_all(x.b, frame_record(n + 1), false);
        assert_int_equal(receive_record(x.a), 8);
        sk_link_stats s;
        wait_frames_out(x.a, 1);
        sk_link_get_stats(x.a, &s);
        assert_int_equal(s.encrypted, over == OVER_TLS);
        assert_int_equal(s.frames_in, 1);
        assert_true(s.bytes_in >= 2 * 28); /* the frame and the PING that opened the link */
        assert_false(sk_link_is_down(x.a));
        char reason[64];
        assert_string_equal(sk_link_reason(x.a, reason, sizeof reason), "");
        assert_string_equal(sk_link_peer(x.a), sk_listener_address(x.listener));
        ends_close(&x);
    }
}

enum { SMALL_FRAMES = 10000, LARGE_AT = 5000, LARGE_BYTES = 64 * MIB, LESS_LARGE_BYTES = 4 * MIB };

typedef struct one_way {
    pthread_t thread;
    sk_link *link;
    uint8_t seed;
    size_t large;
    uint64_t wrong; /* things that did not arrive as they should */
} one_way;

static void *send_many(void *ud) {
    one_way *w = ud;
    sk_err e;
    for (uint64_t i = 0; i < SMALL_FRAMES; i++) {
        sk_buf b = i == LARGE_AT ? frame_large(w->large, w->seed) : frame_record(i);
        if (sk_link_send(w->link, &b, false, in_ms(4 * PATIENCE_MS), &e) != SKIPPY_OK) w->wrong++;
        sk_buf_free(&b);
    }
    return NULL;
}

static void *receive_many(void *ud) {
    one_way *w = ud;
    sk_err e;
    for (uint64_t i = 0; i < SMALL_FRAMES; i++) {
        uint8_t *bytes;
        size_t len;
        if (sk_link_receive(w->link, 4 * PATIENCE_MS, &bytes, &len, &e) != SKIPPY_OK) {
            w->wrong++;
            break;
        }
        bool right = i == LARGE_AT ? len == w->large - 4 && large_is_intact(bytes, len, w->seed)
                                   : len == 24 && sk_get_u32(bytes + 16) == i;
        w->wrong += !right;
        free(bytes);
    }
    return NULL;
}

static void many_frames_and_a_large_one_keep_their_order_in_both_directions(void **state) {
    (void)state;
    for (int over = 0; over < TRANSPORTS; over++) {
        ends x = open_plain((enum transport)over);
        sk_link_set_limit(x.a, LARGE_BYTES);
        sk_link_set_limit(x.b, LARGE_BYTES);
        /* unix sockets have small buffers, so that 64 MiB are many changes of threads that show nothing new */
        size_t large = over == OVER_UNIX ? LESS_LARGE_BYTES : LARGE_BYTES;
        one_way way[4] = {
            {.link = x.a, .seed = 1}, {.link = x.b, .seed = 1}, {.link = x.b, .seed = 2}, {.link = x.a, .seed = 2}};
        for (int i = 0; i < 4; i++) way[i].large = large;
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&way[i].thread, NULL, i % 2 ? receive_many : send_many, &way[i]), 0);
        for (int i = 0; i < 4; i++) pthread_join(way[i].thread, NULL);
        for (int i = 0; i < 4; i++) assert_int_equal(way[i].wrong, 0);
        ends_close(&x);
    }
}

static void several_frames_may_be_sent_at_once(void **state) {
    (void)state;
    ends x = open_plain(OVER_UNIX);
    sk_buf b = {0};
    for (uint64_t i = 0; i < 5; i++) {
        sk_buf one = frame_record(i);
        sk_buf_add(&b, one.data, one.len);
        sk_buf_free(&one);
    }
    send_all(x.a, b, false);
    for (uint64_t i = 0; i < 5; i++) assert_int_equal(receive_record(x.b), i);
    wait_frames_out(x.a, 5);
    ends_close(&x);
}

static void parts_of_frames_are_not_sent(void **state) {
    (void)state;
    ends x = open_plain(OVER_UNIX);
    sk_err e = {0};
    sk_buf b = {0};
    assert_int_equal(sk_link_send(x.a, &b, false, 0, &e), SKIPPY_E_INVALID);
    b = frame_record(1);
    b.len--;
    assert_int_equal(sk_link_send(x.a, &b, false, 0, &e), SKIPPY_E_INVALID);
    b.len += 2;
    assert_int_equal(sk_link_try_send(x.a, &b, false, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "whole frames"));
    assert_non_null(b.data); /* stays the caller's */
    sk_buf_free(&b);
    send_all(x.a, frame_record(3), false);
    assert_int_equal(receive_record(x.b), 3);
    ends_close(&x);
}

static void receiving_does_not_wait_when_told_so(void **state) {
    (void)state;
    ends x = open_plain(OVER_UNIX);
    uint8_t *bytes;
    size_t len;
    sk_err e = {0};
    assert_int_equal(sk_link_receive(x.a, 0, &bytes, &len, &e), SKIPPY_E_NOT_FOUND);
    assert_int_equal(sk_link_receive(x.a, 5, &bytes, &len, &e), SKIPPY_E_NOT_FOUND);
    assert_null(bytes);
    ends_close(&x);
}

/* ---- credits ---- */

static void a_chunk_needs_a_credit_and_other_frames_do_not(void **state) {
    (void)state;
    ends x = open_plain(OVER_TCP);
    sk_err e = {0};
    sk_buf chunk = frame_record(1);
    assert_int_equal(sk_link_try_send(x.a, &chunk, true, &e), SKIPPY_E_BUSY);
    assert_non_null(chunk.data);
    assert_int_equal(sk_link_send(x.a, &chunk, true, in_ms(20), &e), SKIPPY_E_TIMEOUT);
    assert_non_null(strstr(e.text, "credit"));
    send_all(x.a, frame_record(2), false);
    sk_link_add_credits(x.a, 2);
    assert_int_equal(sk_link_try_send(x.a, &chunk, true, &e), SKIPPY_OK);
    assert_int_equal(sk_link_credits(x.a), 1);
    send_all(x.a, frame_record(3), true);
    assert_int_equal(sk_link_credits(x.a), 0);
    for (uint64_t expected = 2; expected; expected = expected == 2 ? 1 : expected == 1 ? 3 : 0)
        assert_int_equal(receive_record(x.b), expected);
    sk_link_add_credits(x.a, UINT32_MAX);
    sk_link_add_credits(x.a, UINT32_MAX);
    assert_int_equal(sk_link_credits(x.a), UINT32_MAX);
    ends_close(&x);
}

static void *grant_later(void *ud) {
    pause_ms(30);
    sk_link_add_credits(ud, 1);
    return NULL;
}

static void a_credit_wakes_the_sender_that_waits_for_it(void **state) {
    (void)state;
    ends x = open_plain(OVER_UNIX);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, grant_later, x.a), 0);
    sk_buf b = frame_record(9);
    sk_err e = {0};
    assert_int_equal(sk_link_send(x.a, &b, true, 0, &e), SKIPPY_OK); /* no deadline: only the credit ends it */
    assert_int_equal(receive_record(x.b), 9);
    pthread_join(thread, NULL);
    ends_close(&x);
}

static void *close_later(void *ud) {
    pause_ms(30);
    close(*(int *)ud);
    return NULL;
}

static void a_link_that_goes_down_wakes_the_sender_that_waits(void **state) {
    (void)state;
    sk_link_options o = plain_options();
    int fd;
    sk_link *l = link_to_raw(&o, &fd);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, close_later, &fd), 0);
    sk_buf b = frame_record(9);
    sk_err e = {0};
    assert_int_equal(sk_link_send(l, &b, true, 0, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, "is down"));
    assert_int_equal(sk_link_try_send(l, &b, false, &e), SKIPPY_E_IO);
    sk_buf_free(&b);
    pthread_join(thread, NULL);
    sk_link_close(l, 0);
}

/* ---- back-pressure ---- */

static void a_peer_that_does_not_read_holds_the_sender_back(void **state) {
    (void)state;
    sk_link_options o = plain_options();
    o.queue_max = MIB;
    int fd, rc = SKIPPY_OK;
    sk_link *l = link_to_raw(&o, &fd);
    sk_err e = {0};
    sk_buf b = {0};
    uint64_t sent = 0;
    /* the sockets' buffers take some, the queue one MiB and one frame, and then it ends */
    for (; sent < 256 && rc == SKIPPY_OK; sent += rc == SKIPPY_OK) {
        if (!b.data) b = frame_large(MIB, 3);
        rc = sk_link_send(l, &b, false, in_ms(100), &e);
    }
    assert_int_equal(rc, SKIPPY_E_TIMEOUT);
    assert_non_null(strstr(e.text, "took no more bytes"));
    assert_int_equal(sk_link_try_send(l, &b, false, &e), SKIPPY_E_BUSY);
    assert_int_equal(b.len, MIB);
    assert_true(sent >= 2);
    sk_buf_free(&b);
    close(fd);
    assert_int_not_equal(strlen(wait_down(l)), 0);
    sk_link_close(l, 0);
}

static void frames_that_nobody_takes_hold_the_peer_back(void **state) {
    (void)state;
    enum { FRAMES = 160, HELD = 64 + 2 };
    sk_link_options o = plain_options();
    o.queue_max = MIB;
    ends x = ends_open(OVER_UNIX, &o, &o);
    sk_link_set_limit(x.b, MIB);
    uint64_t sent = 0;
    sk_err e = {0};
    sk_buf b = {0};
    for (int rc = SKIPPY_OK; rc == SKIPPY_OK && sent < FRAMES; sent += rc == SKIPPY_OK) {
        if (!b.data) b = frame_large(MIB, (uint8_t)sent);
        rc = sk_link_send(x.a, &b, false, in_ms(200), &e);
    }
    assert_true(sent < FRAMES); /* 64 MiB wait to be taken, a few more are on their way */
    sk_link_stats s;
    sk_link_get_stats(x.b, &s);
    assert_true(s.frames_in <= HELD);
    for (uint64_t i = 0; i < sent; i++) {
        uint8_t *bytes;
        size_t len;
        assert_int_equal(sk_link_receive(x.b, PATIENCE_MS, &bytes, &len, &e), SKIPPY_OK);
        assert_true(large_is_intact(bytes, len, (uint8_t)i));
        free(bytes);
    }
    send_all(x.a, b, false); /* and it goes on */
    ends_close(&x);
}

/* ---- ends ---- */

static void what_was_sent_before_a_close_arrives(void **state) {
    (void)state;
    for (int over = 0; over < TRANSPORTS; over++) {
        ends x = open_plain((enum transport)over);
        uint8_t *bytes;
        size_t len;
        sk_err e = {0};
        sk_link_set_limit(x.b, 16 * MIB);
        send_all(x.b, frame_record(1), false); /* a is closed with this unread */
        send_all(x.a, frame_large(16 * MIB, 5), false);
        send_all(x.a, frame_record(6), false);
        sk_link_close(x.a, PATIENCE_MS);
        x.a = NULL;
        assert_int_equal(sk_link_receive(x.b, PATIENCE_MS, &bytes, &len, &e), SKIPPY_OK);
        assert_true(large_is_intact(bytes, len, 5));
        free(bytes);
        assert_int_equal(receive_record(x.b), 6);
        assert_non_null(strstr(wait_down(x.b), "closed"));
        assert_int_equal(sk_link_receive(x.b, PATIENCE_MS, &bytes, &len, &e), SKIPPY_E_IO);
        assert_non_null(strstr(e.text, "closed"));
        ends_close(&x);
    }
}

static void a_frame_that_breaks_off_is_not_delivered(void **state) {
    (void)state;
    sk_link_options o = plain_options();
    int fd;
    sk_link *l = link_to_raw(&o, &fd);
    sk_buf whole = frame_record(4), large = frame_large(30000, 1);
    uint8_t *bytes;
    size_t len;
    sk_err e = {0};
    assert_int_equal(send(fd, whole.data, whole.len, 0), whole.len);
    assert_int_equal(send(fd, large.data, large.len - 1, 0), large.len - 1);
    close(fd);
    assert_int_equal(receive_record(l), 4); /* what came whole is delivered, even when the link is down by then */
    assert_int_equal(sk_link_receive(l, PATIENCE_MS, &bytes, &len, &e), SKIPPY_E_IO);
    sk_buf_free(&whole);
    sk_buf_free(&large);
    sk_link_close(l, 0);
}

static void frames_are_put_together_from_single_bytes(void **state) {
    (void)state;
    sk_link_options o = plain_options();
    int fd;
    sk_link *l = link_to_raw(&o, &fd);
    for (uint64_t n = 0; n < 3; n++) {
        sk_buf b = frame_record(n);
        for (size_t i = 0; i < b.len; i++) {
            assert_int_equal(send(fd, b.data + i, 1, 0), 1);
            if (i % 5 == 0) pause_ms(1);
        }
        sk_buf_free(&b);
        assert_int_equal(receive_record(l), n);
    }
    close(fd);
    sk_link_close(l, 0);
}

static void lengths_out_of_bounds_end_the_link(void **state) {
    (void)state;
    static const uint32_t lengths[] = {0, 15, 64 * 1024 + 1, 0x7fffffff, UINT32_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        sk_link_options o = plain_options();
        int fd;
        sk_link *l = link_to_raw(&o, &fd);
        uint8_t field[4];
        sk_put_u32(field, lengths[i]);
        assert_int_equal(send(fd, field, sizeof field, 0),
                         sizeof field); /* no byte of the body is needed to refuse it */
        assert_non_null(strstr(wait_down(l), "announces a frame of"));
        close(fd);
        sk_link_close(l, 0);
    }
}

static void the_limit_can_be_raised_after_the_greeting(void **state) {
    (void)state;
    ends x = open_plain(OVER_TCP);
    uint8_t *bytes;
    size_t len;
    sk_err e = {0};
    sk_link_set_limit(x.b, 2 * MIB - 4);
    send_all(x.a, frame_large(2 * MIB, 1), false);
    assert_int_equal(sk_link_receive(x.b, PATIENCE_MS, &bytes, &len, &e), SKIPPY_OK);
    assert_int_equal(len, 2 * MIB - 4);
    free(bytes);
    send_all(x.a, frame_large(2 * MIB + 1, 1), false);
    assert_non_null(strstr(wait_down(x.b), "announces a frame of 2097149 bytes"));
    ends_close(&x);
}

static void closing_nothing_is_fine(void **state) {
    (void)state;
    sk_link_close(NULL, 0);
    sk_listener_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_comes_back_over_every_transport),
        cmocka_unit_test(many_frames_and_a_large_one_keep_their_order_in_both_directions),
        cmocka_unit_test(several_frames_may_be_sent_at_once),
        cmocka_unit_test(parts_of_frames_are_not_sent),
        cmocka_unit_test(receiving_does_not_wait_when_told_so),
        cmocka_unit_test(a_chunk_needs_a_credit_and_other_frames_do_not),
        cmocka_unit_test(a_credit_wakes_the_sender_that_waits_for_it),
        cmocka_unit_test(a_link_that_goes_down_wakes_the_sender_that_waits),
        cmocka_unit_test(a_peer_that_does_not_read_holds_the_sender_back),
        cmocka_unit_test(frames_that_nobody_takes_hold_the_peer_back),
        cmocka_unit_test(what_was_sent_before_a_close_arrives),
        cmocka_unit_test(a_frame_that_breaks_off_is_not_delivered),
        cmocka_unit_test(frames_are_put_together_from_single_bytes),
        cmocka_unit_test(lengths_out_of_bounds_end_the_link),
        cmocka_unit_test(the_limit_can_be_raised_after_the_greeting),
        cmocka_unit_test(closing_nothing_is_fine),
    };
    return cmocka_run_group_tests(tests, link_fixture_begin, link_fixture_end);
}
