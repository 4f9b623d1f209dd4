/* What the server answers to good and to hostile requests. The engine and the API layer are test doubles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "server/fake_engine.h"
#include "server/listen.h"
#include "server/raw_client.h"
#include "server/server_fixture.h"

static server_fixture fx;

static int start_plain(void **state) {
    (void)state;
    sk_server_params p;
    fixture_params(&p);
    fixture_start(&fx, &p, NULL);
    fake_engine_set_auto(true);
    return 0;
}

static int start_with_keys(void **state) {
    (void)state;
    sk_server_params p;
    fixture_params(&p);
    fixture_start(&fx, &p, "key-one,key-two");
    fake_engine_set_auto(true);
    return 0;
}

static int start_small_and_impatient(void **state) {
    (void)state;
    sk_server_params p;
    fixture_params(&p);
    p.max_body = 1000;
    p.max_head = 2000;
    p.max_connections = 3;
    p.head_timeout_ms = p.body_timeout_ms = 30;
    fixture_start(&fx, &p, NULL);
    fake_engine_set_auto(true);
    return 0;
}

static int stop(void **state) {
    (void)state;
    fixture_stop(&fx);
    return 0;
}

/* The body of a reply with Content-Length must be an error object. */
static void assert_error_object(const sk_buf *in) {
    const char *body = strstr(in->data, "\r\n\r\n") + 4;
    json_t *root = json_loads(body, 0, NULL);
    assert_non_null(root);
    json_t *error = json_object_get(root, "error");
    assert_true(json_is_string(json_object_get(error, "message")));
    assert_true(json_is_string(json_object_get(error, "type")));
    assert_non_null(strstr(in->data, "Content-Type: application/json"));
    json_decref(root);
}

/* Sends bytes on a new connection; expects the status. For errors an error object too. Returns the whole reply in *in.
 */
static void expect(const char *bytes, int status, sk_buf *in) {
    int fd = raw_connect(fx.port);
    raw_send(fd, bytes);
    assert_int_equal(raw_read_reply(fd, in, NULL), status);
    if (status >= 400) assert_error_object(in);
    close(fd);
}

static void expect_status(const char *bytes, int status) {
    sk_buf in = {0};
    expect(bytes, status, &in);
    sk_buf_free(&in);
}

static void still_serves(void) {
    expect_status("GET /health HTTP/1.1\r\nHost: a\r\n\r\n", 200);
}

static void information_endpoints_answer_with_json(void **state) {
    (void)state;
    static const char *const paths[] = {"/health", "/v1/health", "/v1/models", "/models", "/props", "/slots"};
    int fd = raw_connect(fx.port);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        sk_buf in = {0};
        raw_request(fd, "GET", paths[i], NULL, NULL);
        assert_int_equal(raw_read_reply(fd, &in, NULL), 200);
        json_t *root = json_loads(strstr(in.data, "\r\n\r\n") + 4, 0, NULL);
        assert_non_null(root);
        json_decref(root);
        sk_buf_free(&in);
    }
    close(fd);
}

static void props_and_slots_tell_the_engines_facts(void **state) {
    (void)state;
    sk_buf in = {0};
    expect("GET /props HTTP/1.1\r\nHost: a\r\n\r\n", 200, &in);
    json_t *props = json_loads(strstr(in.data, "\r\n\r\n") + 4, 0, NULL);
    json_t *settings = json_object_get(props, "default_generation_settings");
    assert_int_equal(json_integer_value(json_object_get(settings, "n_ctx")), 4096);
    assert_int_equal(json_integer_value(json_object_get(props, "total_slots")), 2);
    assert_string_equal(json_string_value(json_object_get(props, "model_path")), "/models/fake.gguf");
    assert_string_equal(json_string_value(json_object_get(json_object_get(props, "skippy"), "family")), "lla\"ma");
    json_decref(props);
    sk_buf_clear(&in);
    expect("GET /slots HTTP/1.1\r\nHost: a\r\n\r\n", 200, &in);
    json_t *slots = json_loads(strstr(in.data, "\r\n\r\n") + 4, 0, NULL);
    assert_int_equal(json_array_size(slots), 2);
    assert_true(json_is_false(json_object_get(json_array_get(slots, 0), "is_processing")));
    assert_true(json_is_true(json_object_get(json_array_get(slots, 1), "is_processing")));
    json_decref(slots);
    sk_buf_free(&in);
}

static void head_answers_like_get_without_a_body(void **state) {
    (void)state;
    sk_buf in = {0};
    int fd = raw_connect(fx.port);
    raw_request(fd, "HEAD", "/health", NULL, NULL);
    raw_request(fd, "GET", "/health", NULL, NULL);
    assert_true(raw_read_until(fd, &in, "{\"status\":\"ok\"}"));
    assert_non_null(strstr(in.data, "Content-Length: 15\r\n"));
    /* The body appears once: the second reply's head follows the first one's at once. */
    assert_non_null(strstr(in.data, "\r\n\r\nHTTP/1.1 200 OK"));
    sk_buf_free(&in);
    close(fd);
}

static void unknown_paths_and_wrong_methods_are_told_apart(void **state) {
    (void)state;
    sk_buf in = {0};
    expect_status("GET /nope HTTP/1.1\r\nHost: a\r\n\r\n", 404);
    expect_status("POST /nope HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}", 404);
    expect("GET /v1/chat/completions HTTP/1.1\r\nHost: a\r\n\r\n", 405, &in);
    assert_non_null(strstr(in.data, "\r\nAllow: POST, OPTIONS\r\n"));
    sk_buf_clear(&in);
    expect("POST /health HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 405, &in);
    assert_non_null(strstr(in.data, "\r\nAllow: GET, HEAD, OPTIONS\r\n"));
    sk_buf_free(&in);
    expect_status("BREW /health HTTP/1.1\r\nHost: a\r\n\r\n", 405);
    still_serves();
}

static void preflight_requests_are_answered_as_llama_server_does(void **state) {
    (void)state;
    sk_buf in = {0};
    expect(
        "OPTIONS /completions HTTP/1.1\r\nHost: a\r\nOrigin: web.mydomain.fr\r\nAccess-Control-Request-Method: POST\r\n\r\n",
        200, &in);
    assert_non_null(strstr(in.data, "Access-Control-Allow-Origin: web.mydomain.fr\r\n"));
    assert_non_null(strstr(in.data, "Access-Control-Allow-Credentials: true\r\n"));
    assert_non_null(strstr(in.data, "Access-Control-Allow-Methods: GET, POST, DELETE, OPTIONS\r\n"));
    assert_non_null(strstr(in.data, "Access-Control-Allow-Headers: *\r\n"));
    sk_buf_free(&in);
}

static void malformed_requests_get_a_4xx_and_the_server_goes_on(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        int status;
    } cases[] = {
        {"NONSENSE\r\n\r\n", 400},
        {"GET /health\r\n\r\n", 400},
        {"GET health HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /health HTTP/2.0\r\nHost: a\r\n\r\n", 505},
        {"GET /health HTTP/1.1\r\n\r\n", 400},
        {"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
        {"GET /health HTTP/1.1\r\nHost: a\r\n folded: x\r\n\r\n", 400},
        {"GET /health HTTP/1.1\r\nHost : a\r\n\r\n", 400},
        {"GET /health HTTP/1.1\r\nHost: a\x01\r\n\r\n", 400},
        {"POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400},
        {"POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 1x\r\n\r\n", 400},
        {"POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400},
        {"POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400},
        {"POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        {"POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
        {"POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
        {"POST /tokenize HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\nContent-Length: 2\r\n\r\n", 417},
        {"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{\"broken\"", 400},
        {"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n\r\n", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) expect_status(cases[i].bytes, cases[i].status);
    still_serves();
}

static void pipelined_requests_are_answered_in_order(void **state) {
    (void)state;
    sk_buf in = {0};
    int fd = raw_connect(fx.port);
    raw_send(fd, "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}\r\n"
                 "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
                 "GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
                 "GET /nope HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_true(raw_read_to_end(fd, &in));
    const char *first = strstr(in.data, "{\"tokens\":[2]}");
    const char *second = strstr(in.data, "{\"text\":\"hello\"}");
    const char *third = strstr(in.data, "{\"status\":\"ok\"}");
    const char *fourth = strstr(in.data, "HTTP/1.1 404");
    assert_true(first && second && third && fourth);
    assert_true(first < second && second < third && third < fourth);
    sk_buf_free(&in);
    close(fd);
}

static void a_request_may_arrive_byte_by_byte(void **state) {
    (void)state;
    static const char bytes[] = "POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                                "3;ext=1\r\n{\"a\r\n2\r\n\":\r\n2\r\n1}\r\n0\r\nTrailer: x\r\n\r\n";
    sk_buf in = {0};
    int fd = raw_connect(fx.port);
    for (size_t i = 0; i < sizeof bytes - 1; i++) {
        const char one[2] = {bytes[i], 0};
        raw_send(fd, one);
    }
    assert_int_equal(raw_read_reply(fd, &in, NULL), 200);
    assert_non_null(strstr(in.data, "{\"tokens\":[7]}"));
    sk_buf_free(&in);
    close(fd);
}

static void a_client_that_asks_for_permission_gets_100_continue(void **state) {
    (void)state;
    sk_buf in = {0};
    int fd = raw_connect(fx.port);
    raw_send(fd, "POST /tokenize HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_true(raw_read_until(fd, &in, "HTTP/1.1 100 Continue\r\n\r\n"));
    sk_buf_clear(&in);
    raw_send(fd, "{}");
    assert_int_equal(raw_read_reply(fd, &in, NULL), 200);
    sk_buf_free(&in);
    close(fd);
}

static void http_1_0_clients_get_a_reply_that_ends_with_the_connection(void **state) {
    (void)state;
    sk_buf in = {0};
    int fd = raw_connect(fx.port);
    raw_send(fd, "POST /v1/completions HTTP/1.0\r\nContent-Length: 15\r\n\r\n{\"stream\":true}");
    assert_true(raw_read_to_end(fd, &in));
    assert_null(strstr(in.data, "Transfer-Encoding"));
    assert_non_null(strstr(in.data, "\r\n\r\ndata: {\"text\":\"hello\"}\n\ndata: [DONE]\n\n"));
    sk_buf_free(&in);
    close(fd);
}

static void a_reply_reaches_a_client_that_has_closed_its_sending_side(void **state) {
    (void)state;
    sk_buf in = {0};
    int fd = raw_connect(fx.port);
    raw_request(fd, "GET", "/health", NULL, NULL);
    shutdown(fd, SHUT_WR);
    assert_true(raw_read_to_end(fd, &in));
    assert_non_null(strstr(in.data, "{\"status\":\"ok\"}"));
    sk_buf_free(&in);
    close(fd);
}

static void keys_are_needed_everywhere_but_on_public_paths(void **state) {
    (void)state;
    sk_buf in = {0};
    expect_status("GET /health HTTP/1.1\r\nHost: a\r\n\r\n", 200);
    expect_status("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 200);
    expect("GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n", 401, &in);
    assert_non_null(strstr(in.data, "authentication_error"));
    sk_buf_free(&in);
    expect_status("GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer key-on\r\n\r\n", 401);
    expect_status("GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer key-onee\r\n\r\n", 401);
    expect_status("GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Basic key-one\r\n\r\n", 401);
    expect_status("GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \r\n\r\n", 401);
    expect_status("GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer key-two\r\n\r\n", 200);
    expect_status("GET /metrics HTTP/1.1\r\nHost: a\r\nX-Api-Key: key-one\r\n\r\n", 200);
    expect_status("OPTIONS /v1/models HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\n\r\n", 200);
}

static void each_key_is_its_own_tenant(void **state) {
    (void)state;
    sk_buf in = {0};
    static const char *const keys[] = {"Authorization: Bearer key-one\r\n", "X-Api-Key: key-one\r\n",
                                       "X-Api-Key: key-two\r\n"};
    for (size_t i = 0; i < 3; i++) {
        int fd = raw_connect(fx.port);
        raw_request(fd, "POST", "/v1/completions", keys[i], "{}");
        assert_int_equal(raw_read_reply(fd, &in, NULL), 200);
        sk_buf_clear(&in);
        close(fd);
    }
    assert_int_equal(strlen(fake_engine_tenant(0)), SK_TENANT_CAP - 1);
    assert_string_equal(fake_engine_tenant(0), fake_engine_tenant(1));
    assert_string_not_equal(fake_engine_tenant(0), fake_engine_tenant(2));
    assert_null(strstr(fake_engine_tenant(0), "key"));
    sk_buf_free(&in);
}

static void cache_is_erased_by_delete_alone(void **state) {
    (void)state;
    sk_buf in = {0};
    expect("DELETE /cache HTTP/1.1\r\nHost: a\r\n\r\n", 200, &in);
    assert_non_null(strstr(in.data, "{\"erased\":3}"));
    assert_string_equal(fake_engine_erased, "all|any|0");
    sk_buf_clear(&in);
    expect("DELETE /cache HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n{\"a\":1}", 200, &in);
    assert_string_equal(fake_engine_erased, "all|named|0");
    sk_buf_clear(&in);
    fake_engine_erased[0] = '\0';
    expect("DELETE /cache HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nbad", 400, &in);
    sk_buf_clear(&in);
    expect("POST /cache HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}", 405, &in);
    assert_non_null(strstr(in.data, "\r\nAllow: DELETE, OPTIONS\r\n"));
    sk_buf_clear(&in);
    expect("GET /cache HTTP/1.1\r\nHost: a\r\n\r\n", 405, &in);
    assert_string_equal(fake_engine_erased, "");
    sk_buf_free(&in);
}

static void a_key_erases_what_is_its_own(void **state) {
    (void)state;
    sk_buf in = {0};
    int fd = raw_connect(fx.port);
    raw_request(fd, "DELETE", "/cache", "Authorization: Bearer key-one\r\n", "{}");
    assert_int_equal(raw_read_reply(fd, &in, NULL), 200);
    assert_null(strstr(fake_engine_erased, "all|"));
    assert_int_equal(strlen(fake_engine_erased), SK_TENANT_CAP - 1 + strlen("|any|0"));
    sk_buf_clear(&in);
    fake_engine_erased[0] = '\0';
    expect("DELETE /cache HTTP/1.1\r\nHost: a\r\n\r\n", 401, &in);
    assert_string_equal(fake_engine_erased, "");
    sk_buf_free(&in);
    close(fd);
}

static void an_oversized_body_is_refused_before_it_is_read(void **state) {
    (void)state;
    sk_buf in = {0};
    expect_status("POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n", 413);
    expect_status("POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n", 413);
    /* A client that sends the whole body first still reads the reply: the connection lingers instead of being reset. */
    char *body = malloc(2000001);
    assert_non_null(body);
    memset(body, 'x', 2000000);
    body[2000000] = '\0';
    int fd = raw_connect(fx.port);
    raw_request(fd, "POST", "/tokenize", NULL, body);
    assert_int_equal(raw_read_reply(fd, &in, NULL), 413);
    close(fd);
    free(body);
    sk_buf_free(&in);
    still_serves();
}

static void an_oversized_head_is_refused(void **state) {
    (void)state;
    sk_buf b = {0};
    sk_buf_str(&b, "GET /health HTTP/1.1\r\nHost: a\r\nX: ");
    for (int i = 0; i < 3000; i++) sk_buf_str(&b, "a");
    sk_buf_str(&b, "\r\n\r\n");
    expect_status(b.data, 431);
    sk_buf_clear(&b);
    sk_buf_str(&b, "GET /health HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < 80; i++) sk_buf_str(&b, "X: 1\r\n");
    sk_buf_str(&b, "\r\n");
    expect_status(b.data, 431);
    sk_buf_free(&b);
    still_serves();
}

static void a_stalling_client_gets_408(void **state) {
    (void)state;
    expect_status("POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc", 408);
    expect_status("POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", 408);
    expect_status("POST /tokenize HT", 408);
    expect_status("GET /health HTTP/1.1\r\nHost: a\r\n", 408);
    still_serves();
}

static void clients_beyond_the_limit_wait_and_are_served_later(void **state) {
    (void)state;
    sk_buf in = {0};
    int fds[4];
    for (size_t i = 0; i < 4; i++) fds[i] = raw_connect(fx.port);
    for (size_t i = 0; i < 3; i++) {
        raw_request(fds[i], "GET", "/health", NULL, NULL);
        assert_int_equal(raw_read_reply(fds[i], &in, NULL), 200);
        sk_buf_clear(&in);
    }
    raw_request(fds[3], "GET", "/health", NULL, NULL);
    close(fds[0]);
    assert_int_equal(raw_read_reply(fds[3], &in, NULL), 200);
    for (size_t i = 1; i < 4; i++) close(fds[i]);
    sk_buf_free(&in);
}

static void an_idle_connection_is_closed(void **state) {
    (void)state;
    sk_server_params p;
    sk_buf in = {0};
    fixture_params(&p);
    p.idle_timeout_ms = 20;
    fixture_start(&fx, &p, NULL);
    int fd = raw_connect(fx.port);
    raw_request(fd, "GET", "/health", NULL, NULL);
    assert_int_equal(raw_read_reply(fd, &in, NULL), 200);
    sk_buf_clear(&in);
    assert_true(raw_read_to_end(fd, &in));
    assert_int_equal(in.len, 0);
    close(fd);
    fixture_stop(&fx);
    sk_buf_free(&in);
}

static void replies_are_counted_by_route_and_status(void **state) {
    (void)state;
    sk_buf in = {0};
    expect_status("GET /health HTTP/1.1\r\nHost: a\r\n\r\n", 200);
    expect_status("GET /v1/health HTTP/1.1\r\nHost: a\r\n\r\n", 200);
    expect_status("GET /nope HTTP/1.1\r\nHost: a\r\n\r\n", 404);
    expect_status("NONSENSE\r\n\r\n", 400);
    expect("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 200, &in);
    assert_non_null(strstr(in.data, "Content-Type: text/plain; version=0.0.4"));
    assert_non_null(strstr(in.data, "skippy_http_requests_total{route=\"/health\",status=\"200\"} 2\n"));
    assert_non_null(strstr(in.data, "skippy_http_requests_total{route=\"other\",status=\"404\"} 1\n"));
    assert_non_null(strstr(in.data, "skippy_http_requests_total{route=\"other\",status=\"400\"} 1\n"));
    sk_buf_free(&in);
}

static void a_public_address_needs_keys_or_consent(void **state) {
    (void)state;
    sk_err e;
    int fd = -1;
    assert_int_equal(sk_listen_open("0.0.0.0", 0, false, &fd, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "--allow-anonymous"));
    assert_int_equal(sk_listen_open("0.0.0.0", 0, true, &fd, &e), SKIPPY_OK);
    close(fd);
    assert_int_equal(sk_listen_open("no such host", 0, true, &fd, &e), SKIPPY_E_INVALID);
}

static void a_port_in_use_is_told_in_words(void **state) {
    (void)state;
    sk_err e;
    int fd = -1;
    assert_int_equal(sk_listen_open("127.0.0.1", fx.port, false, &fd, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, "in use"));
}

#define WITH(setup, test) cmocka_unit_test_setup_teardown(test, setup, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(start_plain, information_endpoints_answer_with_json),
        WITH(start_plain, props_and_slots_tell_the_engines_facts),
        WITH(start_plain, head_answers_like_get_without_a_body),
        WITH(start_plain, unknown_paths_and_wrong_methods_are_told_apart),
        WITH(start_plain, preflight_requests_are_answered_as_llama_server_does),
        WITH(start_plain, malformed_requests_get_a_4xx_and_the_server_goes_on),
        WITH(start_plain, pipelined_requests_are_answered_in_order),
        WITH(start_plain, a_request_may_arrive_byte_by_byte),
        WITH(start_plain, a_client_that_asks_for_permission_gets_100_continue),
        WITH(start_plain, http_1_0_clients_get_a_reply_that_ends_with_the_connection),
        WITH(start_plain, a_reply_reaches_a_client_that_has_closed_its_sending_side),
        WITH(start_plain, replies_are_counted_by_route_and_status),
        WITH(start_plain, a_port_in_use_is_told_in_words),
        WITH(start_with_keys, keys_are_needed_everywhere_but_on_public_paths),
        WITH(start_with_keys, each_key_is_its_own_tenant),
        WITH(start_plain, cache_is_erased_by_delete_alone),
        WITH(start_with_keys, a_key_erases_what_is_its_own),
        WITH(start_small_and_impatient, an_oversized_body_is_refused_before_it_is_read),
        WITH(start_small_and_impatient, an_oversized_head_is_refused),
        WITH(start_small_and_impatient, a_stalling_client_gets_408),
        WITH(start_small_and_impatient, clients_beyond_the_limit_wait_and_are_served_later),
        cmocka_unit_test(an_idle_connection_is_closed),
        cmocka_unit_test(a_public_address_needs_keys_or_consent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
