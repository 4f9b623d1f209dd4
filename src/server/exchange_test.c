/* Generation requests over real sockets: streams, clients that leave in every phase, errors, shutdown. The test thread
 * plays the engine thread, so every order of events is chosen, not hoped for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "server/fake_engine.h"
#include "server/raw_client.h"
#include "server/server_fixture.h"

static server_fixture fx;
static sk_buf in;

static int start(void **state) {
    (void)state;
    sk_server_params p;
    fixture_params(&p);
    sk_buf_free(&in);
    fixture_start(&fx, &p, NULL);
    return 0;
}

static int stop(void **state) {
    (void)state;
    fixture_stop(&fx);
    sk_buf_free(&in);
    return 0;
}

static int post(const char *body) {
    int fd = raw_connect(fx.port);
    raw_request(fd, "POST", "/v1/chat/completions", NULL, body);
    return fd;
}

static void a_stream_is_framed_as_server_sent_events(void **state) {
    (void)state;
    sk_buf body = {0};
    int fd = post("{\"stream\":true}");
    assert_true(fake_engine_wait_jobs(1));
    fake_engine_start_job(0);
    assert_true(raw_read_until(fd, &in, "\r\n\r\n"));
    assert_non_null(strstr(in.data, "HTTP/1.1 200 OK\r\n"));
    assert_non_null(strstr(in.data, "Content-Type: text/event-stream\r\n"));
    assert_non_null(strstr(in.data, "Cache-Control: no-cache\r\n"));
    assert_non_null(strstr(in.data, "X-Skippy-Cache: hit=resident; tokens=8\r\n"));
    fake_engine_text(0, "a");
    assert_true(raw_read_until(fd, &in, "data: {\"text\":\"a\"}\n\n"));
    fake_engine_text(0, "b");
    fake_engine_done(0);
    assert_int_equal(raw_read_reply(fd, &in, NULL), 200);
    assert_true(raw_chunked_body(&in, &body));
    assert_string_equal(body.data, "data: {\"text\":\"a\"}\n\ndata: {\"text\":\"b\"}\n\ndata: [DONE]\n\n");
    sk_buf_free(&body);
    close(fd);
}

static void a_connection_serves_streams_one_after_the_other(void **state) {
    (void)state;
    fake_engine_set_auto(true);
    int fd = raw_connect(fx.port);
    for (int i = 0; i < 50; i++) {
        raw_request(fd, "POST", "/completion", NULL, i % 2 ? "{\"stream\":true}" : "{}");
        assert_int_equal(raw_read_reply(fd, &in, NULL), 200);
        assert_non_null(strstr(in.data, "X-Skippy-Cache: hit=resident"));
        sk_buf_clear(&in);
    }
    assert_int_equal(fake_engine_jobs(), 50);
    close(fd);
}

static void an_answer_waits_for_all_its_choices(void **state) {
    (void)state;
    int fd = post("{\"n\":3}");
    assert_true(fake_engine_wait_jobs(3));
    for (size_t i = 0; i < 3; i++) fake_engine_start_job(i);
    fake_engine_text(1, "b");
    fake_engine_done(1);
    fake_engine_text(0, "a");
    fake_engine_done(0);
    fake_engine_text(2, "c");
    fake_engine_done(2);
    assert_int_equal(raw_read_reply(fd, &in, NULL), 200);
    assert_non_null(strstr(in.data, "{\"text\":\"bac\"}"));
    close(fd);
}

static void an_error_before_the_first_byte_is_an_http_status(void **state) {
    (void)state;
    int fd = post("{\"stream\":true}");
    assert_true(fake_engine_wait_jobs(1));
    fake_engine_error(0, SKIPPY_E_INVALID, "the grammar allows no token");
    assert_int_equal(raw_read_reply(fd, &in, NULL), 400);
    assert_non_null(strstr(in.data, "the grammar allows no token"));
    close(fd);
}

static void an_error_inside_a_stream_is_an_event(void **state) {
    (void)state;
    int fd = post("{\"stream\":true}");
    assert_true(fake_engine_wait_jobs(1));
    fake_engine_start_job(0);
    fake_engine_error(0, SKIPPY_E_RUNTIME, "the decoder failed");
    assert_int_equal(raw_read_reply(fd, &in, NULL), 200);
    assert_non_null(strstr(in.data, "data: {\"error\":\"the decoder failed\"}\n\n"));
    close(fd);
}

static void a_refused_submit_is_an_http_status(void **state) {
    (void)state;
    static const struct {
        int code, status;
        const char *name;
    } cases[] = {{SKIPPY_E_FULL, 429, "queue_full"},
                 {SKIPPY_E_TOO_LARGE, 400, "context_length_exceeded"},
                 {SKIPPY_E_NOMEM, 500, "server_error"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_engine_refuse(cases[i].code, "prompt of 9000 tokens, context of 4096");
        int fd = post(i % 2 ? "{\"stream\":true}" : "{}");
        assert_int_equal(raw_read_reply(fd, &in, NULL), cases[i].status);
        assert_non_null(strstr(in.data, cases[i].name));
        assert_non_null(strstr(in.data, "prompt of 9000 tokens, context of 4096"));
        sk_buf_clear(&in);
        close(fd);
    }
}

static void a_call_whose_last_choice_does_not_fit_is_cancelled_as_a_whole(void **state) {
    (void)state;
    fake_engine_accept_first(2);
    fake_engine_refuse(SKIPPY_E_FULL, "the queue is full");
    int fd = post("{\"n\":3}");
    assert_int_equal(raw_read_reply(fd, &in, NULL), 429);
    assert_true(fake_engine_wait_cancel(0));
    assert_true(fake_engine_wait_cancel(1));
    fake_engine_error(0, SKIPPY_E_CANCELLED, "cancelled");
    fake_engine_error(1, SKIPPY_E_CANCELLED, "cancelled");
    close(fd);
}

static void serves_another(void) {
    fake_engine_refuse(0, "");
    size_t n = fake_engine_jobs();
    int fd = post("{}");
    assert_true(fake_engine_wait_jobs(n + 1));
    fake_engine_start_job(n);
    fake_engine_done(n);
    sk_buf_clear(&in);
    assert_int_equal(raw_read_reply(fd, &in, NULL), 200);
    close(fd);
}

static void a_client_that_leaves_the_queue_is_cancelled(void **state) {
    (void)state;
    int fd = post("{\"n\":2}");
    assert_true(fake_engine_wait_jobs(2));
    close(fd);
    assert_true(fake_engine_wait_cancel(0));
    assert_true(fake_engine_wait_cancel(1));
    /* Late events, as the engine sends them when the cancel overtakes work in progress. */
    fake_engine_start_job(0);
    fake_engine_text(0, "late");
    fake_engine_done(0);
    fake_engine_error(1, SKIPPY_E_CANCELLED, "cancelled");
    serves_another();
}

static void a_client_that_leaves_during_prefill_is_cancelled(void **state) {
    (void)state;
    int fd = post("{}");
    assert_true(fake_engine_wait_jobs(1));
    fake_engine_start_job(0);
    close(fd);
    assert_true(fake_engine_wait_cancel(0));
    fake_engine_error(0, SKIPPY_E_CANCELLED, "cancelled");
    serves_another();
}

static void a_client_that_leaves_a_stream_is_cancelled(void **state) {
    (void)state;
    int fd = post("{\"stream\":true}");
    assert_true(fake_engine_wait_jobs(1));
    fake_engine_start_job(0);
    fake_engine_text(0, "a");
    assert_true(raw_read_until(fd, &in, "data: "));
    close(fd);
    assert_true(fake_engine_wait_cancel(0));
    fake_engine_text(0, "late");
    fake_engine_error(0, SKIPPY_E_CANCELLED, "cancelled");
    serves_another();
}

static void a_client_that_resets_a_stream_is_cancelled(void **state) {
    (void)state;
    int fd = post("{\"stream\":true}");
    assert_true(fake_engine_wait_jobs(1));
    fake_engine_start_job(0);
    assert_true(raw_read_until(fd, &in, "\r\n\r\n"));
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
    assert_true(fake_engine_wait_cancel(0));
    fake_engine_error(0, SKIPPY_E_CANCELLED, "cancelled");
    serves_another();
}

static void a_half_closed_client_counts_as_gone(void **state) {
    (void)state;
    int fd = post("{\"stream\":true}");
    assert_true(fake_engine_wait_jobs(1));
    fake_engine_start_job(0);
    shutdown(fd, SHUT_WR);
    assert_true(fake_engine_wait_cancel(0));
    fake_engine_error(0, SKIPPY_E_CANCELLED, "cancelled");
    close(fd);
    serves_another();
}

static void the_engine_may_finish_while_the_client_leaves(void **state) {
    (void)state;
    for (int i = 0; i < 200; i++) {
        size_t n = fake_engine_jobs();
        int fd = post("{\"stream\":true}");
        assert_true(fake_engine_wait_jobs(n + 1));
        fake_engine_start_job(n);
        if (i % 2) close(fd); /* races with the events that follow: any order must do */
        fake_engine_text(n, "x");
        fake_engine_done(n);
        if (i % 2 == 0) close(fd);
    }
    serves_another();
}

static void a_silent_stream_is_pinged(void **state) {
    (void)state;
    sk_server_params p;
    fixture_stop(&fx);
    fixture_params(&p);
    p.ping_ms = 10;
    fixture_start(&fx, &p, NULL);
    int fd = post("{\"stream\":true}");
    assert_true(fake_engine_wait_jobs(1));
    fake_engine_start_job(0);
    assert_true(raw_read_until(fd, &in, ": ping\n\n"));
    fake_engine_text(0, "x");
    fake_engine_done(0);
    assert_int_equal(raw_read_reply(fd, &in, NULL), 200);
    close(fd);
}

/* A stream whose client takes only a little: its receive buffer is small and nobody reads from it. */
static int post_without_reading(void) {
    const int small = 4096;
    int fd = raw_connect(fx.port);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    raw_request(fd, "POST", "/v1/chat/completions", NULL, "{\"stream\":true}");
    return fd;
}

static void a_reader_that_is_too_slow_is_cut_off(void **state) {
    (void)state;
    sk_server_params p;
    fixture_stop(&fx);
    fixture_params(&p);
    p.max_output = 20000;
    fixture_start(&fx, &p, NULL);
    int fd = post_without_reading();
    assert_true(fake_engine_wait_jobs(1));
    fake_engine_start_job(0);
    char text[4001];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    /* The server's send buffer holds 4 MiB at most; this is four times as much. */
    for (int i = 0; i < 4000; i++) fake_engine_text(0, text);
    assert_true(fake_engine_wait_cancel(0));
    fake_engine_error(0, SKIPPY_E_CANCELLED, "cancelled");
    close(fd);
    serves_another();
}

static void a_peer_that_takes_nothing_is_timed_out(void **state) {
    (void)state;
    sk_server_params p;
    fixture_stop(&fx);
    fixture_params(&p);
    p.write_timeout_ms = 30;
    p.max_output = (size_t)1 << 30;
    fixture_start(&fx, &p, NULL);
    int fd = post_without_reading();
    assert_true(fake_engine_wait_jobs(1));
    fake_engine_start_job(0);
    char text[4001];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < 4000; i++) fake_engine_text(0, text);
    assert_true(fake_engine_wait_cancel(0));
    fake_engine_error(0, SKIPPY_E_CANCELLED, "cancelled");
    close(fd);
    serves_another();
}

static void a_request_that_is_sent_during_a_stream_waits_for_its_end(void **state) {
    (void)state;
    int fd = post("{\"stream\":true}");
    assert_true(fake_engine_wait_jobs(1));
    fake_engine_start_job(0);
    raw_request(fd, "POST", "/v1/completions", NULL, "{}");
    fake_engine_text(0, "first");
    assert_true(raw_read_until(fd, &in, "first"));
    assert_int_equal(fake_engine_jobs(), 1);
    fake_engine_done(0);
    assert_true(fake_engine_wait_jobs(2));
    fake_engine_start_job(1);
    fake_engine_text(1, "second");
    fake_engine_done(1);
    assert_true(raw_read_until(fd, &in, "{\"text\":\"second\"}"));
    assert_true(strstr(in.data, "[DONE]") < strstr(in.data, "second"));
    close(fd);
}

static void a_stopping_server_finishes_what_runs(void **state) {
    (void)state;
    int idle = raw_connect(fx.port);
    raw_request(idle, "GET", "/health", NULL, NULL);
    assert_int_equal(raw_read_reply(idle, &in, NULL), 200);
    sk_buf_clear(&in);
    int fd = post("{\"stream\":true}");
    assert_true(fake_engine_wait_jobs(1));
    fake_engine_start_job(0);
    assert_true(raw_read_until(fd, &in, "\r\n\r\n"));
    sk_server_stop(fx.server);
    while (!fake_engine_is_drained()) usleep(500);
    sk_buf other = {0};
    raw_request(idle, "GET", "/health", NULL, NULL);
    assert_int_equal(raw_read_reply(idle, &other, NULL), 503);
    sk_buf_clear(&other);
    raw_request(idle, "POST", "/v1/completions", NULL, "{}");
    assert_int_equal(raw_read_reply(idle, &other, NULL), 503);
    sk_buf_free(&other);
    fake_engine_text(0, "end");
    fake_engine_done(0);
    assert_int_equal(raw_read_reply(fd, &in, NULL), 200);
    assert_non_null(strstr(in.data, "data: [DONE]\n\n"));
    fixture_join(&fx);
    sk_server_destroy(fx.server);
    sk_auth_free(fx.auth);
    close(fd);
    close(idle);
    start(NULL); /* for the teardown */
}

static void a_stopping_server_tells_streams_that_take_too_long(void **state) {
    (void)state;
    sk_server_params p;
    fixture_stop(&fx);
    fixture_params(&p);
    p.shutdown_ms = 20;
    fixture_start(&fx, &p, NULL);
    int streaming = post("{\"stream\":true}");
    assert_true(fake_engine_wait_jobs(1));
    int waiting = post("{}");
    assert_true(fake_engine_wait_jobs(2));
    fake_engine_start_job(0);
    assert_true(raw_read_until(streaming, &in, "\r\n\r\n"));
    sk_server_stop(fx.server);
    assert_int_equal(raw_read_reply(streaming, &in, NULL), 200);
    assert_non_null(strstr(in.data, "data: {\"error\":\"the server is shutting down\"}\n\n"));
    sk_buf_clear(&in);
    assert_int_equal(raw_read_reply(waiting, &in, NULL), 503);
    fixture_join(&fx);
    /* The engine stops between the loop's end and destroy, and sends its last events then. */
    fake_engine_error(0, SKIPPY_E_CANCELLED, "the server is shutting down");
    fake_engine_error(1, SKIPPY_E_CANCELLED, "the server is shutting down");
    sk_server_destroy(fx.server);
    sk_auth_free(fx.auth);
    close(streaming);
    close(waiting);
    start(NULL);
}

static void a_second_stop_ends_at_once(void **state) {
    (void)state;
    int fd = post("{\"stream\":true}");
    assert_true(fake_engine_wait_jobs(1));
    sk_server_stop(fx.server);
    sk_server_stop(fx.server);
    fixture_join(&fx);
    fake_engine_error(0, SKIPPY_E_CANCELLED, "the server is shutting down");
    sk_server_destroy(fx.server);
    sk_auth_free(fx.auth);
    close(fd);
    start(NULL);
}

#define ON_SERVER(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_SERVER(a_stream_is_framed_as_server_sent_events),
        ON_SERVER(a_connection_serves_streams_one_after_the_other),
        ON_SERVER(an_answer_waits_for_all_its_choices),
        ON_SERVER(an_error_before_the_first_byte_is_an_http_status),
        ON_SERVER(an_error_inside_a_stream_is_an_event),
        ON_SERVER(a_refused_submit_is_an_http_status),
        ON_SERVER(a_call_whose_last_choice_does_not_fit_is_cancelled_as_a_whole),
        ON_SERVER(a_client_that_leaves_the_queue_is_cancelled),
        ON_SERVER(a_client_that_leaves_during_prefill_is_cancelled),
        ON_SERVER(a_client_that_leaves_a_stream_is_cancelled),
        ON_SERVER(a_client_that_resets_a_stream_is_cancelled),
        ON_SERVER(a_half_closed_client_counts_as_gone),
        ON_SERVER(the_engine_may_finish_while_the_client_leaves),
        ON_SERVER(a_silent_stream_is_pinged),
        ON_SERVER(a_reader_that_is_too_slow_is_cut_off),
        ON_SERVER(a_peer_that_takes_nothing_is_timed_out),
        ON_SERVER(a_request_that_is_sent_during_a_stream_waits_for_its_end),
        ON_SERVER(a_stopping_server_finishes_what_runs),
        ON_SERVER(a_stopping_server_tells_streams_that_take_too_long),
        ON_SERVER(a_second_stop_ends_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
