#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/family/stream.h"
#include "bench/scripted_server.h"

#define TEXT(content, n) "data: {\"content\":\"" content "\",\"stop\":false,\"tokens_predicted\":" #n "}\n\n"
#define LAST(n)                                                                                                        \
    "data: {\"content\":\"\",\"stop\":true,\"tokens_predicted\":" #n ",\"timings\":{\"cache_n\":12,\"prompt_n\":3}}\n\n"
#define SECOND UINT64_C(1000000000)

/* One piece of a stream and when it arrived, in milliseconds after the request. */
typedef struct piece {
    const char *text;
    uint64_t ms;
} piece;

static uint64_t at(uint64_t ms) {
    return SECOND + ms * 1000000u;
}

/* Feeds the pieces; the stream ends at 1000 ms. */
static int feed(const piece *v, size_t n, sk_stream_times *out, sk_err *e) {
    sk_stream s = {0};
    int rc = SKIPPY_OK;
    *out = (sk_stream_times){0};
    for (size_t i = 0; rc == SKIPPY_OK && i < n; i++) {
        rc = sk_stream_feed(&s, v[i].text, strlen(v[i].text), at(v[i].ms), e);
    }
    if (rc == SKIPPY_OK) {
        rc = sk_stream_finish(&s, at(0), at(1000), out, e);
    }
    sk_stream_free(&s);
    return rc;
}

#define FEED(out, e, ...)                                                                                              \
    feed((const piece[]){__VA_ARGS__}, sizeof((const piece[]){__VA_ARGS__}) / sizeof(piece), out, e)

static void the_first_and_the_last_token_are_timed(void **state) {
    (void)state;
    sk_stream_times t;
    assert_int_equal(FEED(&t, NULL, {TEXT("a", 1), 100}, {TEXT("b", 2), 150}, {TEXT("c", 3), 300}, {LAST(3), 400}),
                     SKIPPY_OK);
    assert_float_equal(t.ttft_ms, 100.0, 1e-9);
    assert_float_equal(t.tpot_ms, 100.0, 1e-9);
    assert_float_equal(t.elapsed_ms, 1000.0, 1e-9);
    assert_true(t.has_tpot);
    assert_int_equal(t.tokens, 3);
    assert_int_equal(t.cache_n, 12);
    assert_int_equal(t.prompt_n, 3);
}

static void an_event_of_several_tokens_counts_them_all(void **state) {
    (void)state;
    sk_stream_times t;
    assert_int_equal(FEED(&t, NULL, {TEXT("a", 2), 100}, {TEXT("bcd", 6), 300}, {LAST(6), 400}), SKIPPY_OK);
    assert_float_equal(t.tpot_ms, 50.0, 1e-9);
}

static void events_without_text_do_not_count_where_there_is_text(void **state) {
    (void)state;
    sk_stream_times t;
    assert_int_equal(FEED(&t, NULL, {TEXT("", 1), 100}, {TEXT("b", 2), 200}, {TEXT("c", 3), 250}, {TEXT("", 4), 900},
                          {LAST(4), 950}),
                     SKIPPY_OK);
    assert_float_equal(t.ttft_ms, 200.0, 1e-9);
    assert_float_equal(t.tpot_ms, 50.0, 1e-9);
    assert_int_equal(t.tokens, 4);
}

static void an_answer_without_any_text_is_timed_by_its_tokens(void **state) {
    (void)state;
    sk_stream_times t;
    assert_int_equal(FEED(&t, NULL, {TEXT("", 0), 50}, {TEXT("", 1), 100}, {TEXT("", 2), 120}, {LAST(2), 900}),
                     SKIPPY_OK);
    assert_float_equal(t.ttft_ms, 100.0, 1e-9);
    assert_float_equal(t.tpot_ms, 20.0, 1e-9);
}

static void one_token_has_no_time_per_further_token(void **state) {
    (void)state;
    sk_stream_times t;
    assert_int_equal(FEED(&t, NULL, {TEXT("a", 1), 100}, {LAST(1), 400}), SKIPPY_OK);
    assert_false(t.has_tpot);
    assert_float_equal(t.tpot_ms, 0.0, 0.0);
}

static void events_are_read_in_any_pieces_and_line_ends(void **state) {
    (void)state;
    static const char text[] =
        ": a comment\n\nevent: x\r\ndata:{\"content\":\"a\",\r\ndata: \"tokens_predicted\":1}\r\n\r\n"
        "data: {\"content\":\"\\u0000\",\"tokens_predicted\":2}\n\n" LAST(2) "data: [DONE]\n\n";
    for (size_t size = 1; size < 8; size++) {
        sk_stream s = {0};
        sk_stream_times t;
        for (size_t i = 0; i < sizeof text - 1; i += size) {
            const size_t left = sizeof text - 1 - i;
            assert_int_equal(sk_stream_feed(&s, text + i, left < size ? left : size, at(i), NULL), SKIPPY_OK);
        }
        assert_int_equal(sk_stream_finish(&s, at(0), at(1000), &t, NULL), SKIPPY_OK);
        assert_int_equal(t.tokens, 2);
        assert_true(t.ttft_ms > 0.0);
        sk_stream_free(&s);
    }
}

static void what_is_no_stream_of_tokens_is_an_error_in_words(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int rc;
        const char *words;
    } cases[] = {
        {"data: {\"error\":{\"message\":\"the context is full\"}}\n\n", SKIPPY_E_RUNTIME,
         "/completion ended its stream with an error: the context is full"},
        {"data: {\"error\":5}\n\n", SKIPPY_E_RUNTIME,
         "/completion ended its stream with an error: an error without words"},
        {"data: {\"choices\":[]}\n\n", SKIPPY_E_CORRUPT, "/completion streamed an event without content"},
        {"data: []\n\n", SKIPPY_E_CORRUPT, "/completion streamed something that is not a JSON object: another type"},
        {TEXT("a", 1), SKIPPY_E_IO, "/completion ended its stream without a last event"},
        {LAST(1), SKIPPY_E_CORRUPT, "/completion streamed no token"},
        {"", SKIPPY_E_IO, "/completion ended its stream without a last event"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sk_stream_times t;
        sk_err e = {0};
        assert_int_equal(FEED(&t, &e, {cases[i].text, 1}), cases[i].rc);
        assert_string_equal(e.text, cases[i].words);
    }
    sk_stream_times t;
    sk_err e = {0};
    assert_int_equal(FEED(&t, &e, {"data: {oops\n\n", 1}), SKIPPY_E_CORRUPT);
    assert_non_null(strstr(e.text, "not a JSON object"));
}

static void an_event_without_an_end_is_given_up(void **state) {
    (void)state;
    enum { PIECE = 1 << 20 };
    char *text = malloc(PIECE);
    sk_stream s = {0};
    sk_err e = {0};
    int rc = SKIPPY_OK;
    assert_non_null(text);
    memset(text, 'x', PIECE);
    for (size_t i = 0; rc == SKIPPY_OK && i < 64; i++) {
        rc = sk_stream_feed(&s, text, PIECE, at(i), &e);
    }
    assert_int_equal(rc, SKIPPY_E_TOO_LARGE);
    assert_string_equal(e.text, "/completion streamed an event of more than 8388608 bytes");
    sk_stream_free(&s);
    free(text);
}

/* ---- over a connection ---- */

static int request(const char *answer, size_t piece_size, sk_stream_times *t, scripted_server *f, sk_err *e) {
    *f = (scripted_server){.answers = {answer}, .close_after = {true}, .n_answers = 1, .piece = piece_size};
    sk_http_client c;
    char *body = sk_stream_body("say \"hi\"", 3);
    assert_non_null(body);
    scripted_start(f);
    sk_http_client_init(&c, f->port, 5000);
    const int rc = sk_stream_request(&c, body, t, e);
    assert_int_equal(c.fd, -1);
    sk_http_client_close(&c);
    scripted_end(f);
    free(body);
    return rc;
}

static void a_streamed_completion_is_asked_for_and_read(void **state) {
    (void)state;
    for (size_t size = 0; size < 20; size += 9) {
        sk_stream_times t;
        scripted_server f;
        assert_int_equal(request("HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" TEXT("a", 1) TEXT("b", 2)
                                     LAST(2),
                                 size, &t, &f, NULL),
                         SKIPPY_OK);
        assert_int_equal(t.tokens, 2);
        assert_int_equal(t.cache_n, 12);
        assert_true(t.ttft_ms > 0.0);
        assert_true(t.ttft_ms <= t.elapsed_ms);
        assert_non_null(strstr(f.last_request, "POST /completion HTTP/1.1\r\n"));
        assert_non_null(strstr(f.last_request, "\"prompt\":\"say \\\"hi\\\"\",\"n_predict\":3"));
        assert_non_null(strstr(f.last_request, "\"temperature\":0"));
        assert_non_null(strstr(f.last_request, "\"cache_prompt\":true"));
        assert_non_null(strstr(f.last_request, "\"ignore_eos\":true"));
        assert_non_null(strstr(f.last_request, "\"stream\":true"));
    }
}

static void a_refused_stream_keeps_the_servers_words(void **state) {
    (void)state;
    sk_stream_times t;
    scripted_server f;
    sk_err e = {0};
    assert_int_equal(
        request("HTTP/1.1 400 Bad Request\r\n\r\n{\"error\":{\"message\":\"it does not fit\"}}", 0, &t, &f, &e),
        SKIPPY_E_RUNTIME);
    assert_string_equal(e.text, "/completion answered 400: it does not fit");
    assert_int_equal(request("HTTP/1.1 502 Bad Gateway\r\n\r\nplain words", 0, &t, &f, &e), SKIPPY_E_RUNTIME);
    assert_string_equal(e.text, "/completion answered 502: plain words");
    assert_int_equal(request("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", 0, &t, &f, &e), SKIPPY_E_RUNTIME);
    assert_string_equal(e.text, "/completion answered 503: (nothing)");
}

static void a_cut_stream_has_no_times(void **state) {
    (void)state;
    sk_stream_times t;
    scripted_server f;
    sk_err e = {0};
    assert_int_equal(request("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n99\r\n" TEXT("a", 1), 0, &t, &f, &e),
                     SKIPPY_E_IO);
    assert_string_equal(e.text, "the server closed the connection in the middle of a body");
    assert_int_equal(t.tokens, 0);
}

static void a_prompt_that_is_no_text_makes_no_request(void **state) {
    (void)state;
    assert_null(sk_stream_body("\xFF\xFE", 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_and_the_last_token_are_timed),
        cmocka_unit_test(an_event_of_several_tokens_counts_them_all),
        cmocka_unit_test(events_without_text_do_not_count_where_there_is_text),
        cmocka_unit_test(an_answer_without_any_text_is_timed_by_its_tokens),
        cmocka_unit_test(one_token_has_no_time_per_further_token),
        cmocka_unit_test(events_are_read_in_any_pieces_and_line_ends),
        cmocka_unit_test(what_is_no_stream_of_tokens_is_an_error_in_words),
        cmocka_unit_test(an_event_without_an_end_is_given_up),
        cmocka_unit_test(a_streamed_completion_is_asked_for_and_read),
        cmocka_unit_test(a_refused_stream_keeps_the_servers_words),
        cmocka_unit_test(a_cut_stream_has_no_times),
        cmocka_unit_test(a_prompt_that_is_no_text_makes_no_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
