#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <unistd.h>

#include "bench/family/load.h"
#include "bench/interrupt.h"
#include "bench/scripted_server.h"

enum { TIMEOUT_MS = 5000, MAX_REQUESTS = 16 };

#define STREAM                                                                                                         \
    "HTTP/1.1 200 OK\r\n\r\n"                                                                                          \
    "data: {\"content\":\"a\",\"stop\":false,\"tokens_predicted\":1}\n\n"                                              \
    "data: {\"content\":\"b\",\"stop\":false,\"tokens_predicted\":2}\n\n"                                              \
    "data: {\"content\":\"\",\"stop\":true,\"tokens_predicted\":2,\"timings\":{\"cache_n\":7,\"prompt_n\":2}}\n\n"
#define REFUSAL "HTTP/1.1 503 Busy\r\n\r\n{\"error\":{\"message\":\"too many\"}}"

/* Runs n requests of `clients` against the server f. */
static int run(scripted_server *f, size_t clients, size_t n, sk_load_request *v, sk_err *e) {
    double wall_ms = -1.0;
    for (size_t i = 0; i < n; i++) {
        v[i] = (sk_load_request){.body = "{}"};
    }
    scripted_start(f);
    const sk_load l = {.port = f->port, .timeout_ms = TIMEOUT_MS, .clients = clients};
    const int rc = sk_load_run(&l, v, n, &wall_ms, e);
    scripted_end(f);
    assert_true(wall_ms >= 0.0);
    return rc;
}

static void every_request_is_sent_once_on_its_own_connection(void **state) {
    (void)state;
    sk_load_request v[MAX_REQUESTS];
    scripted_server f = {.answers = {STREAM}, .close_after = {true}, .n_answers = 1, .n_requests = 12};
    assert_int_equal(run(&f, 4, 12, v, NULL), SKIPPY_OK);
    for (size_t i = 0; i < 12; i++) {
        assert_int_equal(v[i].rc, SKIPPY_OK);
        assert_int_equal(v[i].times.tokens, 2);
        assert_int_equal(v[i].times.cache_n, 7);
    }
    assert_int_equal(f.connections, 12);
}

/* The server answers nobody before four have asked: fewer threads than clients would never get an answer. */
static void as_many_requests_are_under_way_as_there_are_clients(void **state) {
    (void)state;
    sk_load_request v[MAX_REQUESTS];
    scripted_server f = {.answers = {STREAM}, .n_answers = 1, .n_requests = 12, .held = 4};
    assert_int_equal(run(&f, 4, 12, v, NULL), SKIPPY_OK);
    for (size_t i = 0; i < 12; i++) {
        assert_int_equal(v[i].rc, SKIPPY_OK);
    }
}

static void more_clients_than_requests_are_not_needed(void **state) {
    (void)state;
    sk_load_request v[MAX_REQUESTS];
    scripted_server f = {.answers = {STREAM}, .n_answers = 1, .n_requests = 2, .held = 2};
    assert_int_equal(run(&f, 64, 2, v, NULL), SKIPPY_OK);
    assert_int_equal(f.connections, 2);
}

static void a_request_that_fails_does_not_stop_the_others(void **state) {
    (void)state;
    sk_load_request v[MAX_REQUESTS];
    sk_load_summary s;
    scripted_server f = {
        .answers = {STREAM, REFUSAL, ""}, .close_after = {true, true, true}, .n_answers = 3, .n_requests = 9};
    assert_int_equal(run(&f, 1, 9, v, NULL), SKIPPY_OK);
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(v[i].rc, i % 3 == 0 ? SKIPPY_OK : i % 3 == 1 ? SKIPPY_E_RUNTIME : SKIPPY_E_IO);
    }
    assert_int_equal(sk_load_summarize(v, 9, 1000.0, 1e9, 1e9, &s, NULL), SKIPPY_OK);
    assert_int_equal(s.requests, 9);
    assert_int_equal(s.ok, 3);
    assert_int_equal(s.within_slo, 3);
}

static void a_load_of_failures_is_an_error_with_the_servers_words(void **state) {
    (void)state;
    sk_load_request v[MAX_REQUESTS];
    sk_err e = {0};
    scripted_server f = {.answers = {REFUSAL}, .close_after = {true}, .n_answers = 1, .n_requests = 6};
    assert_int_equal(run(&f, 3, 6, v, &e), SKIPPY_E_RUNTIME);
    assert_string_equal(e.text, "all 6 requests failed, the first one: /completion answered 503: too many");
}

static void a_load_without_clients_or_requests_is_refused(void **state) {
    (void)state;
    sk_load_request v[1] = {{.body = "{}"}};
    double wall_ms = -1.0;
    sk_err e = {0};
    const size_t clients[] = {0, SK_LOAD_MAX_CLIENTS + 1, 1};
    const size_t requests[] = {1, 1, 0};
    for (size_t i = 0; i < 3; i++) {
        const sk_load l = {.port = 1, .timeout_ms = TIMEOUT_MS, .clients = clients[i]};
        assert_int_equal(sk_load_run(&l, v, requests[i], &wall_ms, &e), SKIPPY_E_INVALID);
        assert_non_null(strstr(e.text, "a load needs 1 to 1024 clients and a request"));
    }
}

static sk_load_request done(double ttft, double tpot, double elapsed) {
    return (sk_load_request){
        .rc = SKIPPY_OK, .times = {.ttft_ms = ttft, .tpot_ms = tpot, .elapsed_ms = elapsed, .has_tpot = tpot > 0.0}};
}

static void goodput_counts_requests_within_both_limits(void **state) {
    (void)state;
    const sk_load_request v[] = {
        done(100, 10, 500),  /* good */
        done(200, 50, 900),  /* at both limits: good */
        done(201, 10, 500),  /* first token too late */
        done(100, 51, 1500), /* further tokens too slow */
        done(50, 0, 50),     /* one token: only the first one counts */
        {.rc = SKIPPY_E_IO},
    };
    sk_load_summary s;
    assert_int_equal(sk_load_summarize(v, 6, 2000.0, 200.0, 50.0, &s, NULL), SKIPPY_OK);
    assert_int_equal(s.requests, 6);
    assert_int_equal(s.ok, 5);
    assert_int_equal(s.within_slo, 3);
    assert_float_equal(s.goodput_rps, 1.5, 1e-9);
    assert_float_equal(s.ttft.p50, 100.0, 0.0);
    assert_float_equal(s.ttft.p99, 201.0, 0.0);
    assert_float_equal(s.tpot.p50, 10.0, 0.0);
    assert_float_equal(s.tpot.p99, 51.0, 0.0);
    assert_float_equal(s.elapsed.p50, 500.0, 0.0);
    assert_float_equal(s.elapsed.p99, 1500.0, 0.0);
}

static void nothing_measured_is_nothing_and_not_an_error(void **state) {
    (void)state;
    sk_load_summary s;
    assert_int_equal(sk_load_summarize(NULL, 0, 0.0, 1.0, 1.0, &s, NULL), SKIPPY_OK);
    assert_int_equal(s.ok, 0);
    assert_float_equal(s.goodput_rps, 0.0, 0.0);
    assert_float_equal(s.ttft.p99, 0.0, 0.0);
}

static void send_signal(void) {
    kill(getpid(), SIGTERM);
}

/* All clients wait for a server that says nothing; the signal wakes only one thread. The last test: a signal stays
 * asked for. The program's time limit is what fails here when clients wait on. */
static void a_signal_ends_a_load_that_waits(void **state) {
    (void)state;
    sk_load_request v[MAX_REQUESTS];
    sk_err e = {0};
    scripted_server f = {.answers = {NULL}, .n_answers = 1, .n_requests = 4, .held = 4, .all_held = send_signal};
    for (size_t i = 0; i < 8; i++) {
        v[i] = (sk_load_request){.body = "{}"};
    }
    sk_interrupt_install();
    scripted_start(&f);
    const sk_load l = {.port = f.port, .timeout_ms = 3600000, .clients = 4};
    double wall_ms = 0.0;
    assert_int_equal(sk_load_run(&l, v, 8, &wall_ms, &e), SKIPPY_E_CANCELLED);
    assert_string_equal(e.text, "interrupted");
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(v[i].rc, SKIPPY_E_CANCELLED);
    }
    scripted_end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_is_sent_once_on_its_own_connection),
        cmocka_unit_test(as_many_requests_are_under_way_as_there_are_clients),
        cmocka_unit_test(more_clients_than_requests_are_not_needed),
        cmocka_unit_test(a_request_that_fails_does_not_stop_the_others),
        cmocka_unit_test(a_load_of_failures_is_an_error_with_the_servers_words),
        cmocka_unit_test(a_load_without_clients_or_requests_is_refused),
        cmocka_unit_test(goodput_counts_requests_within_both_limits),
        cmocka_unit_test(nothing_measured_is_nothing_and_not_an_error),
        cmocka_unit_test(a_signal_ends_a_load_that_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
