/* Bodies that take long to read: nobody else waits for them, and whatever happens meanwhile nothing is lost. Slow
 * bodies stop at a gate that the test opens, so every order is chosen, not hoped for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "server/fake_api.h"
#include "server/fake_engine.h"
#include "server/raw_client.h"
#include "server/server_fixture.h"

enum { WORKERS = 2, QUEUE = 2 };

static server_fixture fx;
static sk_buf in;

static int start(void **state) {
    (void)state;
    sk_server_params p;
    fixture_params(&p);
    p.read_threads = WORKERS;
    p.read_queue = QUEUE;
    sk_buf_free(&in);
    fixture_start(&fx, &p, NULL);
    return 0;
}

/* Every call that was made must be gone with the server. */
static int stop(void **state) {
    (void)state;
    fixture_stop(&fx);
    sk_buf_free(&in);
    return fake_api_calls() == 0 ? 0 : -1;
}

static int post(const char *body) {
    int fd = raw_connect(fx.port);
    raw_request(fd, "POST", "/v1/chat/completions", NULL, body);
    return fd;
}

/* All workers are held at the gate. */
static void occupy_workers(int fds[WORKERS], const char *body) {
    for (size_t i = 0; i < WORKERS; i++) fds[i] = post(body);
    assert_true(fake_api_wait_at_gate(WORKERS));
}

static void finish_jobs(size_t first, size_t n) {
    for (size_t i = first; i < first + n; i++) {
        fake_engine_start_job(i);
        fake_engine_text(i, "done");
        fake_engine_done(i);
    }
}

static void expect_reply(int fd, int status) {
    sk_buf_clear(&in);
    assert_int_equal(raw_read_reply(fd, &in, NULL), status);
    close(fd);
}

/* Until /metrics says that n requests are being read: what the loop thread knows cannot be seen otherwise. */
static void wait_reading(size_t n) {
    char line[64];
    snprintf(line, sizeof line, "\nskippy_http_reading %zu\n", n);
    int fd = raw_connect(fx.port);
    for (int i = 0; i < 10000; i++) {
        sk_buf reply = {0};
        raw_request(fd, "GET", "/metrics", NULL, NULL);
        assert_int_equal(raw_read_reply(fd, &reply, NULL), 200);
        bool found = strstr(reply.data, line) != NULL;
        sk_buf_free(&reply);
        if (found) {
            close(fd);
            return;
        }
        usleep(1000);
    }
    fail_msg("the number of requests that are being read never became %zu", n);
}

static void slow_bodies_hold_up_neither_health_nor_a_stream(void **state) {
    (void)state;
    int slow[WORKERS];
    int streaming = post("{\"stream\":true}");
    assert_true(fake_engine_wait_jobs(1));
    fake_engine_start_job(0);
    occupy_workers(slow, "{\"slow\":true}");
    int other = raw_connect(fx.port);
    raw_request(other, "GET", "/health", NULL, NULL);
    expect_reply(other, 200);
    sk_buf_clear(&in);
    fake_engine_text(0, "goes on");
    assert_true(raw_read_until(streaming, &in, "goes on"));
    fake_engine_done(0);
    assert_int_equal(raw_read_reply(streaming, &in, NULL), 200);
    close(streaming);
    fake_api_open_gate();
    assert_true(fake_engine_wait_jobs(1 + WORKERS));
    finish_jobs(1, WORKERS);
    for (size_t i = 0; i < WORKERS; i++) expect_reply(slow[i], 200);
}

static void answers_without_the_engine_are_prepared_by_workers_too(void **state) {
    (void)state;
    int fd = raw_connect(fx.port);
    raw_request(fd, "POST", "/tokenize", NULL, "{\"slow\":1}");
    assert_true(fake_api_wait_at_gate(1));
    int other = raw_connect(fx.port);
    raw_request(other, "GET", "/health", NULL, NULL);
    expect_reply(other, 200);
    fake_api_open_gate();
    expect_reply(fd, 200);
    assert_non_null(strstr(in.data, "{\"tokens\":[10]}"));
}

static void a_full_queue_is_a_503_with_an_error_object(void **state) {
    (void)state;
    int slow[WORKERS], waiting[QUEUE];
    occupy_workers(slow, "{\"slow\":true}");
    for (size_t i = 0; i < QUEUE; i++) waiting[i] = post("{}");
    wait_reading(WORKERS + QUEUE);
    int fd = raw_connect(fx.port);
    raw_request(fd, "POST", "/v1/chat/completions", NULL, "{}");
    sk_buf_clear(&in);
    assert_int_equal(raw_read_reply(fd, &in, NULL), 503);
    assert_non_null(strstr(in.data, "\r\nRetry-After: 1\r\n"));
    assert_non_null(strstr(in.data, "{\"error\":{\"message\":\"too many requests wait to be read"));
    assert_non_null(strstr(in.data, "\"code\":\"queue_full\""));
    /* The connection is as good as before. */
    raw_request(fd, "GET", "/health", NULL, NULL);
    expect_reply(fd, 200);
    fake_api_open_gate();
    assert_true(fake_engine_wait_jobs(WORKERS + QUEUE));
    finish_jobs(0, WORKERS + QUEUE);
    for (size_t i = 0; i < WORKERS; i++) expect_reply(slow[i], 200);
    for (size_t i = 0; i < QUEUE; i++) expect_reply(waiting[i], 200);
}

static void a_client_that_leaves_while_its_body_is_read_costs_no_job(void **state) {
    (void)state;
    int slow[WORKERS];
    occupy_workers(slow, "{\"slow\":true,\"n\":3}");
    for (size_t i = 0; i < WORKERS; i++) close(slow[i]);
    /* The loop has seen both go when a request that came later is answered. */
    int other = raw_connect(fx.port);
    raw_request(other, "GET", "/health", NULL, NULL);
    expect_reply(other, 200);
    fake_api_open_gate();
    wait_reading(0);
    /* A worker that was past its last look may have submitted: then the job is cancelled. */
    for (size_t i = 0; i < fake_engine_jobs(); i++) {
        assert_true(fake_engine_wait_cancel(i));
        fake_engine_error(i, SKIPPY_E_CANCELLED, "cancelled");
    }
}

static void a_client_that_leaves_the_queue_is_never_read(void **state) {
    (void)state;
    int slow[WORKERS];
    occupy_workers(slow, "{\"slow\":true}");
    int waiting = post("{}");
    wait_reading(WORKERS + 1);
    close(waiting);
    wait_reading(WORKERS);
    fake_api_open_gate();
    assert_true(fake_engine_wait_jobs(WORKERS));
    finish_jobs(0, WORKERS);
    for (size_t i = 0; i < WORKERS; i++) expect_reply(slow[i], 200);
    assert_int_equal(fake_api_reads(), WORKERS);
}

static void clients_that_leave_at_any_moment_leave_nothing_behind(void **state) {
    (void)state;
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    fake_engine_set_auto(true);
    fake_api_open_gate();
    for (int i = 0; i < 300; i++) {
        int fd = post(i % 3 ? "{\"stream\":true,\"n\":2}" : "{\"broken\"");
        if (i % 2) setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        if (i % 5 == 0) usleep(200);
        close(fd);
    }
    wait_reading(0);
    int fd = post("{}");
    expect_reply(fd, 200);
    assert_int_equal(fake_api_calls(), 0);
}

static void events_that_overtake_the_preparation_are_not_lost(void **state) {
    (void)state;
    fake_engine_set_auto(true); /* every event of a job comes inside submit, on the worker */
    fake_api_open_gate();
    for (int i = 0; i < 200; i++) {
        int fd = post(i % 2 ? "{\"stream\":true,\"n\":3}" : "{\"n\":3}");
        expect_reply(fd, 200);
        assert_non_null(strstr(in.data, "hello"));
    }
}

static void pipelined_requests_keep_their_order_behind_a_slow_body(void **state) {
    (void)state;
    int fd = raw_connect(fx.port);
    fake_engine_set_auto(true);
    sk_buf_clear(&in);
    raw_send(fd, "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{\"slow\":1}"
                 "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
                 "GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_true(fake_api_wait_at_gate(1));
    assert_int_equal(fake_engine_jobs(), 0);
    fake_api_open_gate();
    assert_true(raw_read_to_end(fd, &in));
    const char *first = strstr(in.data, "{\"tokens\":[10]}"), *second = strstr(in.data, "{\"text\":\"hello\"}");
    const char *third = strstr(in.data, "{\"status\":\"ok\"}");
    assert_true(first && second && third && first < second && second < third);
    close(fd);
}

/* A stopped server goes, with everything it had; the teardown gets another one. */
static void destroy_and_restart(void) {
    sk_server_destroy(fx.server);
    sk_auth_free(fx.auth);
    assert_int_equal(fake_api_calls(), 0);
    start(NULL);
}

static void a_stopping_server_answers_what_it_was_reading(void **state) {
    (void)state;
    int slow[WORKERS];
    int idle = raw_connect(fx.port);
    raw_request(idle, "GET", "/health", NULL, NULL);
    sk_buf_clear(&in);
    assert_int_equal(raw_read_reply(idle, &in, NULL), 200);
    occupy_workers(slow, "{\"slow\":true}");
    int waiting = post("{}");
    wait_reading(WORKERS + 1);
    sk_server_stop(fx.server);
    do { /* until the loop has seen the stop */
        sk_buf_clear(&in);
        raw_request(idle, "GET", "/health", NULL, NULL);
    } while (raw_read_reply(idle, &in, NULL) == 200);
    sk_buf_clear(&in);
    raw_request(idle, "POST", "/tokenize", NULL, "{}");
    assert_int_equal(raw_read_reply(idle, &in, NULL), 503);
    assert_false(fake_engine_is_drained());
    fake_api_open_gate();
    assert_true(fake_engine_wait_jobs(WORKERS + 1));
    finish_jobs(0, WORKERS + 1);
    for (size_t i = 0; i < WORKERS; i++) expect_reply(slow[i], 200);
    expect_reply(waiting, 200);
    close(idle);
    fixture_join(&fx);
    assert_true(fake_engine_is_drained());
    destroy_and_restart();
}

static void a_stopping_server_tells_clients_whose_bodies_take_too_long(void **state) {
    (void)state;
    sk_server_params p;
    fixture_stop(&fx);
    fixture_params(&p);
    p.read_threads = 1;
    p.shutdown_ms = 20;
    fixture_start(&fx, &p, NULL);
    int running = post("{\"slow\":true}");
    assert_true(fake_api_wait_at_gate(1));
    int waiting = post("{\"stream\":true}");
    wait_reading(2);
    sk_server_stop(fx.server);
    expect_reply(running, 503);
    assert_non_null(strstr(in.data, "the server is shutting down"));
    expect_reply(waiting, 503);
    fake_api_open_gate(); /* the server waits for its worker, not for the client */
    fixture_join(&fx);
    destroy_and_restart();
}

static void a_second_stop_lets_go_of_clients_whose_bodies_are_read(void **state) {
    (void)state;
    int slow[WORKERS];
    occupy_workers(slow, "{\"slow\":true,\"stream\":true}");
    int waiting = post("{}");
    wait_reading(WORKERS + 1);
    sk_server_stop(fx.server);
    sk_server_stop(fx.server);
    fake_api_open_gate();
    fixture_join(&fx);
    size_t n = fake_engine_jobs();
    for (size_t i = 0; i < n; i++) {
        assert_true(fake_engine_wait_cancel(i));
        fake_engine_error(i, SKIPPY_E_CANCELLED, "the server is shutting down");
    }
    for (size_t i = 0; i < WORKERS; i++) close(slow[i]);
    close(waiting);
    destroy_and_restart();
}

#define ON_SERVER(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_SERVER(slow_bodies_hold_up_neither_health_nor_a_stream),
        ON_SERVER(answers_without_the_engine_are_prepared_by_workers_too),
        ON_SERVER(a_full_queue_is_a_503_with_an_error_object),
        ON_SERVER(a_client_that_leaves_while_its_body_is_read_costs_no_job),
        ON_SERVER(a_client_that_leaves_the_queue_is_never_read),
        ON_SERVER(clients_that_leave_at_any_moment_leave_nothing_behind),
        ON_SERVER(events_that_overtake_the_preparation_are_not_lost),
        ON_SERVER(pipelined_requests_keep_their_order_behind_a_slow_body),
        ON_SERVER(a_stopping_server_answers_what_it_was_reading),
        ON_SERVER(a_stopping_server_tells_clients_whose_bodies_take_too_long),
        ON_SERVER(a_second_stop_lets_go_of_clients_whose_bodies_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
