/* Fetching parts from a server that cuts, lies, loops and stalls. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/test_folder.h"
#include "runtime/file_server.h"
#include "runtime/part_fetch.h"
#include "runtime/test_gguf.h"

enum { SIZE = 300000 };

typedef struct bench {
    char dir[512], path[600], part[640];
    uint8_t data[SIZE];
    skippy_key digest;
    file_server *server;
    sk_part_fetch *fetch;
} bench;

static int set_up(void **state) {
    const sk_fetch_limits quick = {.attempts = 4, .pause_ms = 1, .stall_s = 1};
    char served[600];
    bench *b = calloc(1, sizeof *b);
    assert_non_null(b);
    assert_true(gg_temp_dir(b->dir, sizeof b->dir));
    for (size_t i = 0; i < SIZE; i++) b->data[i] = (uint8_t)(i * 2654435761u >> 13);
    sk_hash(b->data, SIZE, b->digest.bytes);
    snprintf(served, sizeof served, "%s/served", b->dir);
    assert_int_equal(mkdir(served, 0700), 0);
    b->server = file_server_start(served);
    snprintf(served, sizeof served, "%s/served/part.gguf", b->dir);
    assert_true(gg_write(served, b->data, SIZE));
    snprintf(b->path, sizeof b->path, "%s/part.gguf", b->dir);
    snprintf(b->part, sizeof b->part, "%s.part", b->path);
    assert_int_equal(sk_part_fetch_open(NULL, &quick, &b->fetch, NULL), SKIPPY_OK);
    *state = b;
    return 0;
}

static int tear_down(void **state) {
    bench *b = *state;
    sk_part_fetch_close(b->fetch);
    file_server_stop(b->server);
    test_remove_tree(b->dir);
    free(b);
    return 0;
}

static int fetch_with(bench *b, const char *url, sk_slice_progress progress, void *ud, bool *fetched, sk_err *e) {
    const sk_part_order o = {
        .url = url, .path = b->path, .bytes = SIZE, .digest = &b->digest, .progress = progress, .progress_ud = ud};
    int fd = -1;
    const int rc = sk_part_fetch_file(b->fetch, &o, &fd, fetched, e);
    assert_true((rc == SKIPPY_OK) == (fd >= 0));
    if (fd >= 0) close(fd);
    return rc;
}

static int fetch(bench *b, sk_err *e) {
    return fetch_with(b, file_server_url(b->server, "/part.gguf"), NULL, NULL, NULL, e);
}

static bool there(const char *path) {
    return access(path, F_OK) == 0;
}

static void comes_right(bench *b) {
    sk_err e = {0};
    sk_buf got = {0};
    if (fetch(b, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    assert_true(gg_read(b->path, &got));
    assert_int_equal(got.len, SIZE);
    assert_memory_equal(got.data, b->data, SIZE);
    assert_false(there(b->part));
    sk_buf_free(&got);
}

static void fails(bench *b, int code, const char *words) {
    sk_err e = {0};
    const int rc = fetch(b, &e);
    if (rc != code) fail_msg("code %d instead of %d: %s", rc, code, e.text);
    if (!strstr(e.text, words)) fail_msg("'%s' is not in: %s", words, e.text);
    assert_false(there(b->path));
}

static void leave_beginning(bench *b, size_t n, uint8_t change) {
    uint8_t *copy = malloc(n);
    assert_non_null(copy);
    memcpy(copy, b->data, n < SIZE ? n : SIZE);
    copy[n / 2] ^= change;
    assert_true(gg_write(b->part, copy, n));
    free(copy);
}

/* ---- what works ---- */

static void a_part_comes_whole_with_one_request(void **state) {
    bench *b = *state;
    comes_right(b);
    assert_int_equal(file_server_count(b->server, ""), 1);
    assert_int_equal(file_server_count(b->server, "range"), 0);
}

static void a_finished_part_is_not_fetched_again(void **state) {
    bench *b = *state;
    bool fetched = true;
    assert_int_equal(fetch_with(b, file_server_url(b->server, "/part.gguf"), NULL, NULL, &fetched, NULL), SKIPPY_OK);
    assert_true(fetched);
    assert_int_equal(fetch_with(b, file_server_url(b->server, "/part.gguf"), NULL, NULL, &fetched, NULL), SKIPPY_OK);
    assert_false(fetched);
    assert_int_equal(file_server_count(b->server, ""), 1);
}

static void a_finished_part_that_was_damaged_is_fetched_again(void **state) {
    bench *b = *state;
    comes_right(b);
    assert_int_equal(truncate(b->path, 1000), 0);
    comes_right(b);
    assert_int_equal(file_server_count(b->server, ""), 2);
}

static void a_cut_connection_is_continued_where_it_ended(void **state) {
    bench *b = *state;
    file_server_set(b->server, (file_server_rules){.cuts = 2, .cut_after = 100000});
    comes_right(b);
    assert_int_equal(file_server_count(b->server, ""), 3);
    assert_int_equal(file_server_count(b->server, "range 100000"), 1);
    assert_int_equal(file_server_count(b->server, "range 200000"), 1);
}

static void the_beginning_of_an_earlier_run_is_continued(void **state) {
    bench *b = *state;
    leave_beginning(b, 12345, 0);
    comes_right(b);
    assert_int_equal(file_server_count(b->server, ""), 1);
    assert_int_equal(file_server_count(b->server, "range 12345"), 1);
}

static void a_part_that_only_lacks_its_name_needs_no_request(void **state) {
    bench *b = *state;
    leave_beginning(b, SIZE, 0);
    comes_right(b);
    assert_int_equal(file_server_count(b->server, ""), 0);
}

static void a_server_without_ranges_sends_everything_again(void **state) {
    bench *b = *state;
    leave_beginning(b, 5000, 1);
    file_server_set(b->server, (file_server_rules){.ignore_ranges = true});
    comes_right(b);
    assert_int_equal(file_server_count(b->server, ""), 1);
}

static void a_busy_server_is_asked_again(void **state) {
    bench *b = *state;
    file_server_set(b->server, (file_server_rules){.refusals = 2, .status = 503});
    comes_right(b);
    assert_int_equal(file_server_count(b->server, ""), 3);
}

/* ---- a beginning of another version ---- */

static void a_foreign_beginning_is_dropped_when_the_digest_tells(void **state) {
    bench *b = *state;
    leave_beginning(b, 5000, 1);
    comes_right(b);
    assert_int_equal(file_server_count(b->server, "range 5000"), 1);
    assert_int_equal(file_server_count(b->server, ""), 2);
}

static void a_beginning_that_is_too_long_is_dropped(void **state) {
    bench *b = *state;
    leave_beginning(b, SIZE + 10, 0);
    comes_right(b);
    assert_int_equal(file_server_count(b->server, "range"), 0);
}

static void a_beginning_that_the_server_does_not_continue_is_dropped(void **state) {
    bench *b = *state;
    const file_server_rules wrong[] = {{.refuse_ranges = true}, {.range_shift = 10}, {.claimed_total = SIZE + 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        file_server_forget(b->server);
        file_server_set(b->server, wrong[i]);
        leave_beginning(b, 5000, 0);
        comes_right(b);
        assert_int_equal(file_server_count(b->server, "range 5000"), 1);
        assert_int_equal(file_server_count(b->server, ""), 2);
        assert_int_equal(unlink(b->path), 0);
    }
}

/* ---- what is refused ---- */

static void other_content_is_refused_and_not_kept(void **state) {
    bench *b = *state;
    b->digest.bytes[0] ^= 1;
    fails(b, SKIPPY_E_CORRUPT, "another content");
    assert_false(there(b->part));
    assert_int_equal(file_server_count(b->server, ""), 1);
}

static void a_missing_part_is_said_at_once(void **state) {
    bench *b = *state;
    sk_err e = {0};
    assert_int_equal(fetch_with(b, file_server_url(b->server, "/none.gguf"), NULL, NULL, NULL, &e), SKIPPY_E_NOT_FOUND);
    assert_non_null(strstr(e.text, "HTTP 404"));
    assert_int_equal(file_server_count(b->server, ""), 1);
}

static void a_refusal_is_not_repeated(void **state) {
    bench *b = *state;
    file_server_set(b->server, (file_server_rules){.refusals = 9, .status = 403});
    fails(b, SKIPPY_E_IO, "HTTP 403 (access denied)");
    assert_int_equal(file_server_count(b->server, ""), 1);
}

static void patience_ends(void **state) {
    bench *b = *state;
    file_server_set(b->server, (file_server_rules){.refusals = 99, .status = 503});
    fails(b, SKIPPY_E_IO, "HTTP 503");
    assert_int_equal(file_server_count(b->server, ""), 4);
}

static void an_endless_body_is_ended_at_the_expected_size(void **state) {
    bench *b = *state;
    file_server_set(b->server, (file_server_rules){.endless = true});
    fails(b, SKIPPY_E_CORRUPT, "than the manifest says");
    assert_false(there(b->part));
}

static void a_larger_file_is_refused_before_it_comes(void **state) {
    bench *b = *state;
    char served[640];
    snprintf(served, sizeof served, "%s/served/part.gguf", b->dir);
    assert_int_equal(truncate(served, SIZE + 1), 0);
    fails(b, SKIPPY_E_CORRUPT, "than the manifest says");
    assert_int_equal(file_server_count(b->server, ""), 1);
}

static void a_shorter_file_is_refused(void **state) {
    bench *b = *state;
    char served[640];
    snprintf(served, sizeof served, "%s/served/part.gguf", b->dir);
    assert_int_equal(truncate(served, SIZE - 1), 0);
    fails(b, SKIPPY_E_CORRUPT, "than the manifest says");
}

static void a_redirect_loop_ends(void **state) {
    bench *b = *state;
    file_server_set(b->server, (file_server_rules){.redirect = "self"});
    fails(b, SKIPPY_E_IO, "redirect");
    assert_int_equal(file_server_count(b->server, ""), 6);
}

static void a_redirect_to_a_file_of_this_machine_is_refused(void **state) {
    bench *b = *state;
    char url[700];
    snprintf(url, sizeof url, "file://%s/served/part.gguf", b->dir);
    file_server_set(b->server, (file_server_rules){.redirect = url});
    fails(b, SKIPPY_E_IO, "Unsupported protocol");
}

static void a_redirect_to_the_same_part_elsewhere_is_followed(void **state) {
    bench *b = *state;
    file_server *other = b->server;
    char served[640], url[700];
    snprintf(served, sizeof served, "%s/served", b->dir);
    b->server = file_server_start(served);
    snprintf(url, sizeof url, "%s", file_server_url(other, "/part.gguf"));
    file_server_set(b->server, (file_server_rules){.redirect = url});
    leave_beginning(b, 777, 0);
    comes_right(b);
    assert_int_equal(file_server_count(other, "range 777"), 1);
    file_server_stop(other);
}

static void other_schemes_are_refused_without_a_request(void **state) {
    bench *b = *state;
    static const char *const urls[] = {"file:///etc/hostname", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x",
                                       "/etc/hostname", ""};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        sk_err e = {0};
        sk_buf text = {0};
        assert_int_equal(fetch_with(b, urls[i], NULL, NULL, NULL, &e), SKIPPY_E_INVALID);
        assert_true(e.text[0]);
        assert_int_equal(sk_part_fetch_text(b->fetch, urls[i], 100, &text, &e), SKIPPY_E_INVALID);
        assert_int_equal(text.len, 0);
    }
    assert_false(there(b->part));
}

static void a_server_that_stalls_is_left(void **state) {
    bench *b = *state;
    file_server_set(b->server, (file_server_rules){.stalls = true});
    sk_part_fetch_close(b->fetch);
    const sk_fetch_limits once = {.attempts = 1, .stall_s = 1};
    assert_int_equal(sk_part_fetch_open(NULL, &once, &b->fetch, NULL), SKIPPY_OK);
    fails(b, SKIPPY_E_IO, "Timeout");
    assert_true(there(b->part)); /* what came is kept */
}

static void nobody_listening_is_said_in_words(void **state) {
    bench *b = *state;
    sk_err e = {0};
    char url[200];
    snprintf(url, sizeof url, "%s", file_server_url(b->server, "/part.gguf"));
    file_server_stop(b->server);
    b->server = NULL;
    assert_int_equal(fetch_with(b, url, NULL, NULL, NULL, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, "connect"));
    assert_non_null(strstr(e.text, "refused"));
}

static bool stop_at_once(void *ud, uint64_t done, uint64_t total) {
    (void)done;
    *(uint64_t *)ud = total;
    return false;
}

static void whoever_watches_can_stop_it(void **state) {
    bench *b = *state;
    sk_err e = {0};
    uint64_t total = 0;
    assert_int_equal(fetch_with(b, file_server_url(b->server, "/part.gguf"), stop_at_once, &total, NULL, &e),
                     SKIPPY_E_CANCELLED);
    assert_int_equal(total, SIZE);
    assert_false(there(b->path));
    comes_right(b); /* and go on later */
}

static void secrets_of_a_url_are_not_in_the_words(void **state) {
    bench *b = *state;
    const char *port = strrchr(file_server_url(b->server, ""), ':');
    char url[300];
    sk_err e = {0};
    snprintf(url, sizeof url, "http://user:pass@word@127.0.0.1%s/none.gguf?sig=hidden#part", port);
    assert_int_not_equal(fetch_with(b, url, NULL, NULL, NULL, &e), SKIPPY_OK);
    assert_non_null(strstr(e.text, "/none.gguf"));
    assert_null(strstr(e.text, "pass"));
    assert_null(strstr(e.text, "word"));
    assert_null(strstr(e.text, "user"));
    assert_null(strstr(e.text, "hidden"));
}

/* ---- TLS ---- */

/* Another server beside the first, for the same files. */
static file_server *start_tls(bench *b, char ca[700]) {
    char served[640];
    snprintf(served, sizeof served, "%s/served", b->dir);
    snprintf(ca, 700, "%s/ca.pem", served);
    return file_server_start_tls(served);
}

static void a_certificate_must_be_of_a_known_authority(void **state) {
    bench *b = *state;
    char ca[700];
    sk_err e = {0};
    file_server *tls = start_tls(b, ca);
    assert_int_equal(fetch_with(b, file_server_url(tls, "/part.gguf"), NULL, NULL, NULL, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, "certificate is not of an authority"));
    assert_int_equal(file_server_count(tls, ""), 0);
    sk_part_fetch_close(b->fetch);
    assert_int_equal(sk_part_fetch_open(ca, NULL, &b->fetch, NULL), SKIPPY_OK);
    assert_int_equal(fetch_with(b, file_server_url(tls, "/part.gguf"), NULL, NULL, NULL, &e), SKIPPY_OK);
    assert_int_equal(file_server_count(tls, ""), 1);
    file_server_stop(tls);
}

static void a_redirect_never_leaves_tls(void **state) {
    bench *b = *state;
    char ca[700], plain[700];
    sk_err e = {0};
    file_server *tls = start_tls(b, ca);
    snprintf(plain, sizeof plain, "%s", file_server_url(b->server, "/part.gguf"));
    file_server_set(tls, (file_server_rules){.redirect = plain});
    sk_part_fetch_close(b->fetch);
    assert_int_equal(sk_part_fetch_open(ca, NULL, &b->fetch, NULL), SKIPPY_OK);
    assert_int_equal(fetch_with(b, file_server_url(tls, "/part.gguf"), NULL, NULL, NULL, &e), SKIPPY_E_IO);
    assert_int_equal(file_server_count(tls, ""), 1);
    assert_int_equal(file_server_count(b->server, ""), 0);
    file_server_stop(tls);
}

/* ---- documents ---- */

static void a_document_of_bounded_size_comes_into_memory(void **state) {
    bench *b = *state;
    sk_err e = {0};
    sk_buf text = {0};
    sk_buf_str(&text, "before ");
    file_server_set(b->server, (file_server_rules){.cuts = 1, .cut_after = 10});
    assert_int_equal(sk_part_fetch_text(b->fetch, file_server_url(b->server, "/part.gguf"), SIZE, &text, &e),
                     SKIPPY_OK);
    assert_int_equal(text.len, SIZE + 7);
    assert_memory_equal(text.data + 7, b->data, SIZE);
    sk_buf_free(&text);
}

static void a_document_that_is_too_large_is_refused(void **state) {
    bench *b = *state;
    sk_err e = {0};
    sk_buf text = {0};
    const char *url = file_server_url(b->server, "/part.gguf");
    assert_int_equal(sk_part_fetch_text(b->fetch, url, SIZE - 1, &text, &e), SKIPPY_E_TOO_LARGE);
    file_server_set(b->server, (file_server_rules){.endless = true});
    assert_int_equal(sk_part_fetch_text(b->fetch, url, 100, &text, &e), SKIPPY_E_TOO_LARGE);
    assert_int_equal(text.len, 0);
    sk_buf_free(&text);
}

static void authorities_that_cannot_be_read_are_refused(void **state) {
    (void)state;
    sk_part_fetch *f = NULL;
    sk_err e = {0};
    assert_int_equal(sk_part_fetch_open("/nowhere/ca.pem", NULL, &f, &e), SKIPPY_E_IO);
    assert_null(f);
    assert_non_null(strstr(e.text, "ca.pem"));
}

#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_SERVER(a_part_comes_whole_with_one_request),
        WITH_SERVER(a_finished_part_is_not_fetched_again),
        WITH_SERVER(a_finished_part_that_was_damaged_is_fetched_again),
        WITH_SERVER(a_cut_connection_is_continued_where_it_ended),
        WITH_SERVER(the_beginning_of_an_earlier_run_is_continued),
        WITH_SERVER(a_part_that_only_lacks_its_name_needs_no_request),
        WITH_SERVER(a_server_without_ranges_sends_everything_again),
        WITH_SERVER(a_busy_server_is_asked_again),
        WITH_SERVER(a_foreign_beginning_is_dropped_when_the_digest_tells),
        WITH_SERVER(a_beginning_that_is_too_long_is_dropped),
        WITH_SERVER(a_beginning_that_the_server_does_not_continue_is_dropped),
        WITH_SERVER(other_content_is_refused_and_not_kept),
        WITH_SERVER(a_missing_part_is_said_at_once),
        WITH_SERVER(a_refusal_is_not_repeated),
        WITH_SERVER(patience_ends),
        WITH_SERVER(an_endless_body_is_ended_at_the_expected_size),
        WITH_SERVER(a_larger_file_is_refused_before_it_comes),
        WITH_SERVER(a_shorter_file_is_refused),
        WITH_SERVER(a_redirect_loop_ends),
        WITH_SERVER(a_redirect_to_a_file_of_this_machine_is_refused),
        WITH_SERVER(a_redirect_to_the_same_part_elsewhere_is_followed),
        WITH_SERVER(other_schemes_are_refused_without_a_request),
        WITH_SERVER(a_server_that_stalls_is_left),
        WITH_SERVER(nobody_listening_is_said_in_words),
        WITH_SERVER(whoever_watches_can_stop_it),
        WITH_SERVER(secrets_of_a_url_are_not_in_the_words),
        WITH_SERVER(a_certificate_must_be_of_a_known_authority),
        WITH_SERVER(a_redirect_never_leaves_tls),
        WITH_SERVER(a_document_of_bounded_size_comes_into_memory),
        WITH_SERVER(a_document_that_is_too_large_is_refused),
        cmocka_unit_test(authorities_that_cannot_be_read_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
