#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/endpoint.h"
#include "bench/http_client.h"
#include "bench/scripted_server.h"

/* One GET to a server that gives this one answer. */
static int ask(const char *answer, bool close_after, size_t piece, sk_http_response *r, sk_err *e) {
    scripted_server f = {.answers = {answer}, .close_after = {close_after}, .n_answers = 1, .piece = piece};
    sk_http_client c;
    scripted_start(&f);
    sk_http_client_init(&c, f.port, 5000);
    const int rc = sk_http_client_request(&c, "GET", "/x", NULL, 0, r, e);
    sk_http_client_close(&c);
    scripted_end(&f);
    return rc;
}

static void a_body_with_a_length_is_read_whole_in_any_pieces(void **state) {
    (void)state;
    for (size_t piece = 0; piece < 8; piece++) {
        sk_http_response r = {0};
        sk_err e = {0};
        assert_int_equal(ask("HTTP/1.1 200 OK\r\ncontent-length:  5 \r\nX: y\r\n\r\nhello", false, piece, &r, &e),
                         SKIPPY_OK);
        assert_int_equal(r.status, 200);
        assert_string_equal(r.body.data, "hello");
        assert_true(r.keep_alive);
        sk_http_response_free(&r);
    }
}

static void a_chunked_body_is_joined_in_any_pieces(void **state) {
    (void)state;
    for (size_t piece = 0; piece < 8; piece++) {
        sk_http_response r = {0};
        sk_err e = {0};
        assert_int_equal(
            ask("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n, 10 bytes\r\n0\r\nT: 1\r\n\r\n",
                false, piece, &r, &e),
            SKIPPY_OK);
        assert_string_equal(r.body.data, "hello, 10 bytes");
        sk_http_response_free(&r);
    }
}

static void a_body_without_a_length_ends_with_the_connection(void **state) {
    (void)state;
    sk_http_response r = {0};
    assert_int_equal(ask("HTTP/1.0 200 OK\r\n\r\nuntil the end", true, 0, &r, NULL), SKIPPY_OK);
    assert_string_equal(r.body.data, "until the end");
    assert_false(r.keep_alive);
    sk_http_response_free(&r);
}

static void an_interim_answer_is_skipped(void **state) {
    (void)state;
    sk_http_response r = {0};
    assert_int_equal(
        ask("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", false, 3, &r, NULL),
        SKIPPY_OK);
    assert_int_equal(r.status, 404);
    assert_string_equal(r.body.data, "no");
    sk_http_response_free(&r);
}

static void a_connection_that_closes_too_early_is_an_error_in_words(void **state) {
    (void)state;
    static const struct {
        const char *answer, *words;
    } cases[] = {
        {"", "the server closed the connection in the middle of a header"},
        {"HTTP/1.1 200 OK\r\nContent-Le", "the server closed the connection in the middle of a header"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
         "the server closed the connection in the middle of a body"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
         "the server closed the connection in the middle of a body"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
         "the server closed the connection in the middle of a chunk"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sk_http_response r = {0};
        sk_err e = {0};
        assert_int_equal(ask(cases[i].answer, true, 0, &r, &e), SKIPPY_E_IO);
        assert_string_equal(e.text, cases[i].words);
        sk_http_response_free(&r);
    }
}

static void garbage_is_not_taken_for_an_answer(void **state) {
    (void)state;
    static const struct {
        const char *answer, *words;
    } cases[] = {
        {"SSH-2.0-OpenSSH_9.2\r\n\r\n", "the answer is not HTTP"},
        {"HTTP/1.1 2x0 OK\r\n\r\n", "the answer is not HTTP"},
        {"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello", "the answer has an unreadable Content-Length"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nx",
         "the answer has an unreadable Content-Length"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
         "the answer has an unreadable chunk size"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n",
         "a chunk of the answer is longer than its size"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sk_http_response r = {0};
        sk_err e = {0};
        assert_int_equal(ask(cases[i].answer, true, 0, &r, &e), SKIPPY_E_CORRUPT);
        assert_string_equal(e.text, cases[i].words);
        sk_http_response_free(&r);
    }
}

static void an_answer_larger_than_the_limit_is_refused(void **state) {
    (void)state;
    sk_http_response r = {0};
    assert_int_equal(ask("HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\nx", true, 0, &r, NULL),
                     SKIPPY_E_TOO_LARGE);
    sk_http_response_free(&r);
}

static void a_connection_is_kept_for_the_next_request(void **state) {
    (void)state;
    scripted_server f = {
        .answers = {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb"},
        .n_answers = 2};
    sk_http_client c;
    sk_http_response r = {0};
    scripted_start(&f);
    sk_http_client_init(&c, f.port, 5000);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(sk_http_client_prepare(&c, NULL), SKIPPY_OK);
        assert_int_equal(sk_http_client_request(&c, "POST", "/p", "{}", 2, &r, NULL), SKIPPY_OK);
        assert_int_equal(r.body.data[0], "ab"[i]);
    }
    sk_http_client_close(&c);
    scripted_end(&f);
    assert_int_equal(f.connections, 1);
    assert_non_null(strstr(f.last_request, "POST /p HTTP/1.1\r\n"));
    assert_non_null(strstr(f.last_request, "Content-Length: 2\r\n\r\n{}"));
    sk_http_response_free(&r);
}

static void a_connection_that_the_server_ends_is_made_anew(void **state) {
    (void)state;
    scripted_server f = {.answers = {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na",
                                     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb"},
                         .close_after = {true, false},
                         .n_answers = 2};
    sk_http_client c;
    sk_http_response r = {0};
    scripted_start(&f);
    sk_http_client_init(&c, f.port, 5000);
    assert_int_equal(sk_http_client_request(&c, "GET", "/", NULL, 0, &r, NULL), SKIPPY_OK);
    assert_int_equal(c.fd, -1);
    assert_int_equal(sk_http_client_prepare(&c, NULL), SKIPPY_OK);
    assert_int_equal(sk_http_client_request(&c, "GET", "/", NULL, 0, &r, NULL), SKIPPY_OK);
    assert_string_equal(r.body.data, "b");
    sk_http_client_close(&c);
    scripted_end(&f);
    assert_int_equal(f.connections, 2);
    sk_http_response_free(&r);
}

static void a_silent_server_is_given_up(void **state) {
    (void)state;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    sk_http_client c;
    sk_http_response r = {0};
    sk_err e = {0};
    assert_int_equal(bind(listener, (const struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &len), 0);
    sk_http_client_init(&c, ntohs(a.sin_port), 30);
    assert_int_equal(sk_http_client_request(&c, "GET", "/", NULL, 0, &r, &e), SKIPPY_E_TIMEOUT);
    assert_string_equal(e.text, "the server was silent for 30 ms");
    close(listener);
    assert_int_equal(sk_http_client_request(&c, "GET", "/", NULL, 0, &r, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, "cannot connect"));
    sk_http_client_close(&c);
    sk_http_response_free(&r);
}

/* The pieces of a stream, and the error that its reader gives for each of them. */
typedef struct received {
    sk_buf text;
    size_t pieces;
    int rc;
} received;

static int receive(void *ud, const char *data, size_t len, sk_err *e) {
    received *r = ud;
    sk_buf_add(&r->text, data, len);
    r->pieces++;
    return r->rc == SKIPPY_OK ? SKIPPY_OK : sk_err_set(e, r->rc, "enough");
}

/* One streamed POST to a server that gives this one answer. */
static int stream(const char *answer, size_t piece, received *got, sk_http_response *r, sk_err *e) {
    scripted_server f = {.answers = {answer}, .close_after = {true}, .n_answers = 1, .piece = piece};
    sk_http_client c;
    scripted_start(&f);
    sk_http_client_init(&c, f.port, 5000);
    const int rc = sk_http_client_stream(&c, "/p", "{}", 2, receive, got, r, e);
    assert_int_equal(c.fd, -1);
    sk_http_client_close(&c);
    scripted_end(&f);
    assert_non_null(strstr(f.last_request, "Connection: close\r\n"));
    return rc;
}

static void a_streamed_body_comes_in_pieces_without_its_framing(void **state) {
    (void)state;
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world", "HTTP/1.0 200 OK\r\n\r\nhello world"};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        for (size_t piece = 0; piece < 4; piece++) {
            received got = {.rc = SKIPPY_OK};
            sk_http_response r = {0};
            assert_int_equal(stream(answers[i], piece, &got, &r, NULL), SKIPPY_OK);
            assert_string_equal(got.text.data, "hello world");
            assert_int_equal(r.body.len, 0);
            sk_http_response_free(&r);
            sk_buf_free(&got.text);
        }
    }
}

static void the_body_of_a_refused_stream_is_kept_whole(void **state) {
    (void)state;
    received got = {.rc = SKIPPY_OK};
    sk_http_response r = {0};
    assert_int_equal(stream("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy", 0, &got, &r, NULL), SKIPPY_OK);
    assert_int_equal(r.status, 503);
    assert_string_equal(r.body.data, "busy");
    assert_int_equal(got.pieces, 0);
    sk_http_response_free(&r);
}

static void the_reader_of_a_stream_can_end_it(void **state) {
    (void)state;
    received got = {.rc = SKIPPY_E_CORRUPT};
    sk_http_response r = {0};
    sk_err e = {0};
    assert_int_equal(stream("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno", 0, &got, &r, &e), SKIPPY_E_CORRUPT);
    assert_string_equal(e.text, "enough");
    assert_int_equal(got.pieces, 1);
    sk_http_response_free(&r);
    sk_buf_free(&got.text);
}

static void a_completion_is_read_with_its_counts(void **state) {
    (void)state;
    scripted_server f = {
        .answers =
            {"HTTP/1.1 200 OK\r\nContent-Length: 118\r\n\r\n"
             "{\"content\":\"hi\",\"tokens\":[17,4],\"timings\":{\"cache_n\":12,\"prompt_n\":3,\"predicted_n\":2},"
             "\"other\":\"012345678901234567890\"}"},
        .n_answers = 1};
    sk_endpoint ep;
    sk_reply r;
    sk_err e = {0};
    scripted_start(&f);
    sk_endpoint_init(&ep, f.port, 5000);
    assert_int_equal(sk_endpoint_complete(&ep, "say \"hi\"", 2, &r, &e), SKIPPY_OK);
    sk_endpoint_close(&ep);
    scripted_end(&f);
    assert_string_equal(r.text, "hi");
    assert_int_equal(r.first_token, 17);
    assert_int_equal(r.cache_n, 12);
    assert_int_equal(r.prompt_n, 3);
    assert_int_equal(r.predicted_n, 2);
    assert_non_null(strstr(f.last_request, "\"prompt\":\"say \\\"hi\\\"\""));
    assert_non_null(strstr(f.last_request, "\"temperature\":0"));
    assert_non_null(strstr(f.last_request, "\"cache_prompt\":true"));
    sk_reply_free(&r);
}

static void a_refusal_keeps_the_servers_words(void **state) {
    (void)state;
    scripted_server f = {
        .answers =
            {"HTTP/1.1 400 Bad Request\r\nContent-Length: 40\r\n\r\n{\"error\":{\"message\":\"it does not fit\"}}\n",
             "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnot JSON!", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"},
        .n_answers = 3};
    sk_endpoint ep;
    sk_reply r;
    sk_err e = {0};
    scripted_start(&f);
    sk_endpoint_init(&ep, f.port, 5000);
    assert_int_equal(sk_endpoint_complete(&ep, "x", 1, &r, &e), SKIPPY_E_RUNTIME);
    assert_string_equal(e.text, "/completion answered 400: it does not fit");
    assert_int_equal(sk_endpoint_complete(&ep, "x", 1, &r, &e), SKIPPY_E_CORRUPT);
    assert_int_equal(sk_endpoint_complete(&ep, "x", 1, &r, &e), SKIPPY_E_CORRUPT);
    assert_string_equal(e.text, "/completion answered without content or timings");
    sk_endpoint_close(&ep);
    scripted_end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_with_a_length_is_read_whole_in_any_pieces),
        cmocka_unit_test(a_chunked_body_is_joined_in_any_pieces),
        cmocka_unit_test(a_body_without_a_length_ends_with_the_connection),
        cmocka_unit_test(an_interim_answer_is_skipped),
        cmocka_unit_test(a_connection_that_closes_too_early_is_an_error_in_words),
        cmocka_unit_test(garbage_is_not_taken_for_an_answer),
        cmocka_unit_test(an_answer_larger_than_the_limit_is_refused),
        cmocka_unit_test(a_connection_is_kept_for_the_next_request),
        cmocka_unit_test(a_connection_that_the_server_ends_is_made_anew),
        cmocka_unit_test(a_silent_server_is_given_up),
        cmocka_unit_test(a_streamed_body_comes_in_pieces_without_its_framing),
        cmocka_unit_test(the_body_of_a_refused_stream_is_kept_whole),
        cmocka_unit_test(the_reader_of_a_stream_can_end_it),
        cmocka_unit_test(a_completion_is_read_with_its_counts),
        cmocka_unit_test(a_refusal_keeps_the_servers_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
