#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/http_chunks.h"
#include "server/http_head.h"

static char text[4096];
static sk_http_head head;

static int parse(const char *request) {
    const char *why = NULL;
    snprintf(text, sizeof text, "%s", request);
    int status = sk_http_head_parse(text, strlen(text), &head, &why);
    assert_true(status == 0 || why != NULL);
    return status;
}

static void the_parts_of_a_head_are_found(void **state) {
    (void)state;
    assert_int_equal(parse("POST /v1/x?a=b&c HTTP/1.1\r\nHost: h\r\nContent-length:  12 \r\nX-A:\t v w \r\n\r\n"), 0);
    assert_int_equal(head.method, SK_HTTP_POST);
    assert_string_equal(head.path, "/v1/x");
    assert_string_equal(head.query, "a=b&c");
    assert_int_equal(head.content_length, 12);
    assert_true(head.keep_alive);
    assert_string_equal(sk_http_head_field(&head, "x-a"), "v w");
    assert_null(sk_http_head_field(&head, "x"));
}

static void targets_may_be_absolute(void **state) {
    (void)state;
    assert_int_equal(parse("GET http://h:80/health?x HTTP/1.1\r\nHost: h\r\n\r\n"), 0);
    assert_string_equal(head.path, "/health");
    assert_string_equal(head.query, "x");
    assert_int_equal(parse("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"), 0);
    assert_string_equal(head.path, "*");
    assert_int_equal(parse("GET http://h HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
}

static void keep_alive_follows_version_and_connection(void **state) {
    (void)state;
    assert_int_equal(parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade , CLOSE\r\n\r\n"), 0);
    assert_false(head.keep_alive);
    assert_int_equal(parse("GET / HTTP/1.0\r\n\r\n"), 0);
    assert_false(head.keep_alive);
    assert_int_equal(parse("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), 0);
    assert_true(head.keep_alive);
    assert_int_equal(parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: closed\r\n\r\n"), 0);
    assert_true(head.keep_alive);
}

static void bare_line_feeds_end_lines_too(void **state) {
    (void)state;
    assert_int_equal(parse("GET / HTTP/1.1\nHost: h\nX: 1\n\n"), 0);
    assert_string_equal(sk_http_head_field(&head, "X"), "1");
}

static void lengths_beyond_64_bits_are_refused(void **state) {
    (void)state;
    assert_int_equal(parse("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551615\r\n\r\n"), 0);
    assert_true(head.content_length == UINT64_MAX);
    assert_int_equal(parse("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551616\r\n\r\n"), 400);
    assert_int_equal(parse("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: \r\n\r\n"), 400);
    assert_int_equal(parse("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\n"), 400);
    assert_int_equal(parse("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1, 1\r\n\r\n"), 400);
}

static void chunked_is_the_only_coding_and_needs_http_1_1(void **state) {
    (void)state;
    assert_int_equal(parse("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n"), 0);
    assert_true(head.chunked);
    assert_int_equal(parse("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"), 501);
    assert_int_equal(
        parse("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"), 501);
    assert_int_equal(parse("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
}

static void the_end_of_a_head_is_found_wherever_the_input_is_split(void **state) {
    (void)state;
    static const char *const requests[] = {"GET / HTTP/1.1\r\nHost: h\r\n\r\nBODY", "GET / HTTP/1.1\nHost: h\n\nBODY",
                                           "GET / HTTP/1.1\r\nHost: h\n\r\nBODY"};
    for (size_t r = 0; r < 3; r++) {
        size_t end = (size_t)(strstr(requests[r], "BODY") - requests[r]);
        for (size_t first = 0; first < end; first++) {
            assert_int_equal(sk_http_head_end(requests[r], first, 0), 0);
            assert_int_equal(sk_http_head_end(requests[r], end + 4, first), end);
        }
    }
}

static int feed_split(const char *bytes, size_t step, size_t max, sk_buf *out, size_t *total) {
    sk_http_chunks c = {0};
    size_t len = strlen(bytes), at = 0;
    int rc = 0;
    while (rc == 0 && at < len) {
        size_t n = len - at < step ? len - at : step, used = 0;
        rc = sk_http_chunks_feed(&c, bytes + at, n, max, out, &used);
        at += used;
    }
    *total = at;
    return rc;
}

static void chunks_are_joined_wherever_the_input_is_split(void **state) {
    (void)state;
    static const char bytes[] =
        "5\r\nhello\r\n00000a;x=\"y\"\r\n0123456789\r\n1 \r\n!\n0\r\nTrailer: v\r\nOther: w\r\n\r\n";
    for (size_t step = 1; step <= sizeof bytes; step++) {
        sk_buf out = {0};
        size_t total = 0;
        sk_buf with_next = {0};
        sk_buf_printf(&with_next, "%sGET /next", bytes);
        assert_int_equal(feed_split(with_next.data, step, 100, &out, &total), 1);
        assert_string_equal(out.data, "hello0123456789!");
        assert_int_equal(total, sizeof bytes - 1);
        sk_buf_free(&with_next);
        sk_buf_free(&out);
    }
}

static void malformed_or_oversized_chunks_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        int status;
    } cases[] = {{"\r\n", 400},
                 {"g\r\n", 400},
                 {"-1\r\n", 400},
                 {"1\rx", 400},
                 {"1\r\nab", 400},
                 {";x\r\n", 400},
                 {"0\r\n\rx", 400},
                 {"1\r\na\rx", 400},
                 {"65\r\n", 413},
                 {"60\r\n", 0},
                 {"fffffffffffffff\r\n", 413},
                 {"ffffffffffffffff\r\n", 400}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sk_buf out = {0};
        size_t total = 0;
        assert_int_equal(feed_split(cases[i].bytes, 64, 100, &out, &total), cases[i].status);
        sk_buf_free(&out);
    }
}

static void endless_size_lines_and_trailers_are_refused(void **state) {
    (void)state;
    sk_buf b = {0}, out = {0};
    size_t total = 0;
    sk_buf_str(&b, "1;");
    for (int i = 0; i < 300; i++) sk_buf_str(&b, "x");
    assert_int_equal(feed_split(b.data, 64, 100, &out, &total), 400);
    sk_buf_clear(&b);
    sk_buf_str(&b, "0\r\n");
    for (int i = 0; i < 3000; i++) sk_buf_str(&b, "T: 1\r\n");
    assert_int_equal(feed_split(b.data, 64, 100, &out, &total), 400);
    sk_buf_free(&b);
    sk_buf_free(&out);
}

/* Bytes changed at random must never lead to more than a refusal; ASan watches the rest. */
static void damaged_heads_do_no_harm(void **state) {
    (void)state;
    static const char good[] =
        "POST /v1/x?a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nConnection: close\r\nExpect: 100-continue\r\n\r\n";
    unsigned seed = 20240607;
    print_message("seed %u\n", seed);
    size_t accepted = 0, refused = 0;
    for (int i = 0; i < 20000; i++) {
        memcpy(text, good, sizeof good);
        for (int k = 0; k < 3; k++) {
            seed = seed * 1664525u + 1013904223u;
            text[(seed >> 8) % (sizeof good - 1)] = (char)(seed >> 24);
        }
        const char *why = NULL;
        int status = sk_http_head_parse(text, sizeof good - 1, &head, &why);
        if (status == 0)
            accepted++;
        else
            refused++;
        assert_true(status == 0 || (status >= 400 && status <= 505 && why));
    }
    assert_true(accepted > 0 && refused > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parts_of_a_head_are_found),
        cmocka_unit_test(targets_may_be_absolute),
        cmocka_unit_test(keep_alive_follows_version_and_connection),
        cmocka_unit_test(bare_line_feeds_end_lines_too),
        cmocka_unit_test(lengths_beyond_64_bits_are_refused),
        cmocka_unit_test(chunked_is_the_only_coding_and_needs_http_1_1),
        cmocka_unit_test(the_end_of_a_head_is_found_wherever_the_input_is_split),
        cmocka_unit_test(chunks_are_joined_wherever_the_input_is_split),
        cmocka_unit_test(malformed_or_oversized_chunks_are_refused),
        cmocka_unit_test(endless_size_lines_and_trailers_are_refused),
        cmocka_unit_test(damaged_heads_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
