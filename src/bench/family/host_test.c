#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/test_folder.h"
#include "bench/family/fake_server.h"
#include "bench/family/host.h"
#include "bench/family/sha256.h"

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "host-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state) {
    (void)state;
    return test_remove_tree(folder);
}

static void complete(sk_family_host *h, const char *prompt, int want) {
    sk_reply r = {0};
    assert_int_equal(sk_endpoint_complete(&h->ep, prompt, 1, &r, NULL), want);
    sk_reply_free(&r);
}

static const char *text_in(const json_t *o, const char *key) {
    const char *text = json_string_value(json_object_get(o, key));
    assert_non_null(text);
    return text;
}

/* The file that an output record names is there with the bytes and the digest that it says. */
static void check_output(const json_t *receipt, const char *stream, const char *name) {
    const json_t *o = json_object_get(receipt, stream);
    char path[256];
    char hex[SK_SHA256_HEX];
    uint64_t bytes = 0;
    assert_string_equal(text_in(o, "path"), name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(sk_sha256_file(path, NULL, hex, &bytes, NULL), SKIPPY_OK);
    assert_string_equal(text_in(o, "sha256"), hex);
    assert_int_equal(json_integer_value(json_object_get(o, "bytes")), bytes);
}

static void every_process_leaves_a_receipt(void **state) {
    (void)state;
    sk_family_host h = fake_host(SK_HOST_BASE, folder, NULL);
    sk_err e = {0};
    assert_int_equal(sk_host_start(&h, &e), SKIPPY_OK);
    assert_string_equal(h.version, "fake 1");
    assert_true(h.ready_ms > 0.0);
    complete(&h, "hello there", SKIPPY_OK);
    assert_int_equal(sk_host_restart(&h, &e), SKIPPY_OK);
    complete(&h, "hello again", SKIPPY_OK);
    sk_host_stop(&h);
    sk_host_stop(&h); /* nothing runs: nothing happens */
    assert_int_equal(json_array_size(h.receipts), 2);
    assert_true(h.memory.peak_rss > 0);

    const json_t *r = json_array_get(h.receipts, 1);
    assert_string_equal(text_in(r, "role"), "llama-server");
    assert_string_equal(text_in(r, "program"), "/proc/self/exe");
    assert_ptr_equal(strstr(text_in(r, "command"), "/proc/self/exe fake-server -m none -c 4096"),
                     text_in(r, "command"));
    assert_int_equal(strlen(text_in(r, "started")), strlen("2000-01-01T00:00:00Z"));
    assert_true(strcmp(text_in(r, "started"), text_in(r, "ended")) <= 0);
    assert_true(json_real_value(json_object_get(r, "ready_ms")) > 0.0);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(r, "exit"), "signal")), SIGTERM);
    assert_true(json_is_false(json_object_get(r, "forced")));
    assert_true(json_integer_value(json_object_get(r, "peak_rss_kib")) > 0);
    check_output(r, "stdout", "llama-server-2.stdout");
    check_output(r, "stderr", "llama-server-2.stderr");
    check_output(json_array_get(h.receipts, 0), "stdout", "llama-server-1.stdout");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(r, "stdout"), "bytes")),
                     strlen("hello again\n"));
    sk_host_free(&h);
    assert_null(h.receipts);
}

static void a_server_that_ends_by_itself_is_explained_with_its_last_words(void **state) {
    (void)state;
    sk_family_host h = fake_host(SK_HOST_OURS, folder, "--die-after 1");
    sk_reply r = {0};
    sk_err e = {0};
    assert_int_equal(sk_host_start(&h, &e), SKIPPY_OK);
    complete(&h, "one", SKIPPY_OK);
    assert_int_equal(sk_host_explain(&h, SKIPPY_E_INVALID, &e), SKIPPY_E_INVALID);
    assert_string_equal(e.text, ""); /* it runs: the error is not its end */
    const int rc = sk_endpoint_complete(&h.ep, "two", 1, &r, &e);
    assert_int_not_equal(rc, SKIPPY_OK);
    assert_int_equal(sk_host_explain(&h, rc, &e), rc);
    assert_int_equal(e.code, rc);
    assert_string_equal(e.text, "the server ended in the middle; its last words: fake server: no more answers\n");
    sk_host_stop(&h);
    const json_t *receipt = json_array_get(h.receipts, 0);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(receipt, "exit"), "code")), 3);
    check_output(receipt, "stderr", "skippy-1.stderr");
    sk_host_explain(&h, rc, &e);
    assert_string_equal(e.text, "the server does not run");
    sk_host_free(&h);
}

static void a_dead_server_can_be_started_again_and_both_have_receipts(void **state) {
    (void)state;
    sk_family_host h = fake_host(SK_HOST_OURS, folder, "--die-after 0");
    sk_reply r = {0};
    sk_err e = {0};
    assert_int_equal(sk_host_start(&h, &e), SKIPPY_OK);
    assert_int_equal(sk_host_start(&h, &e), SKIPPY_E_EXISTS);
    assert_string_equal(e.text, "the server 'skippy' runs already");
    const int rc = sk_endpoint_complete(&h.ep, "one", 1, &r, NULL);
    assert_int_not_equal(sk_host_explain(&h, rc, &e), SKIPPY_OK);
    assert_int_equal(sk_host_start(&h, &e), SKIPPY_OK);
    sk_host_stop(&h);
    assert_int_equal(json_array_size(h.receipts), 2);
    assert_non_null(json_object_get(json_object_get(json_array_get(h.receipts, 0), "exit"), "code"));
    assert_non_null(json_object_get(json_object_get(json_array_get(h.receipts, 1), "exit"), "signal"));
    sk_host_free(&h);
}

static void a_server_that_is_never_ready_leaves_a_receipt_too(void **state) {
    (void)state;
    sk_family_host h = fake_host(SK_HOST_BASE, folder, "--never-ready");
    sk_err e = {0};
    h.launch.ready_timeout_ms = 100;
    assert_int_equal(sk_host_start(&h, &e), SKIPPY_E_TIMEOUT);
    assert_int_equal(h.port, 0);
    assert_int_equal(json_array_size(h.receipts), 1);
    assert_true(json_is_null(json_object_get(json_array_get(h.receipts, 0), "ready_ms")));
    sk_host_free(&h);
}

static void a_program_that_is_not_there_leaves_no_receipt(void **state) {
    (void)state;
    sk_family_host h = fake_host(SK_HOST_BASE, folder, NULL);
    sk_err e = {0};
    h.launch.program = "./no-such-program";
    assert_int_equal(sk_host_start(&h, &e), SKIPPY_E_NOT_FOUND);
    assert_non_null(strstr(e.text, "no-such-program"));
    sk_host_stop(&h);
    assert_int_equal(json_array_size(h.receipts), 0);
    sk_host_free(&h);
}

static void an_output_that_is_gone_says_so_in_the_receipt(void **state) {
    (void)state;
    sk_family_host h = fake_host(SK_HOST_BASE, folder, NULL);
    sk_err e = {0};
    char path[256];
    assert_int_equal(sk_host_start(&h, &e), SKIPPY_OK);
    snprintf(path, sizeof path, "%s/llama-server-1.stdout", folder);
    assert_int_equal(remove(path), 0);
    sk_host_stop(&h);
    const json_t *o = json_object_get(json_array_get(h.receipts, 0), "stdout");
    assert_true(json_is_null(json_object_get(o, "sha256")));
    assert_non_null(strstr(text_in(o, "error"), "llama-server-1.stdout"));
    sk_host_free(&h);
}

static void a_path_that_is_too_long_is_an_error(void **state) {
    (void)state;
    char name[1100];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    sk_family_host h = fake_host(SK_HOST_BASE, name, NULL);
    sk_err e = {0};
    assert_int_equal(sk_host_start(&h, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "too long a path"));
    sk_host_free(&h);
}

static void the_environment_is_part_of_the_command(void **state) {
    (void)state;
    static const char *const env[] = {"SOME_NAME=some value", "OTHER=1"};
    sk_family_host h = fake_host(SK_HOST_BASE, folder, NULL);
    sk_err e = {0};
    h.launch.program = "no-such-program"; /* env(1) is the one that is there */
    h.launch.env = env;
    h.launch.n_env = 2;
    assert_int_equal(sk_host_start(&h, &e), SKIPPY_E_RUNTIME);
    const char *want = "env SOME_NAME=some value OTHER=1 no-such-program fake-server";
    assert_memory_equal(h.command, want, strlen(want));
    sk_host_free(&h);
}

int main(int argc, char **argv) {
    int code = 0;
    if (fake_server_asked(argc, argv, &code)) {
        return code;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_process_leaves_a_receipt),
        cmocka_unit_test(a_server_that_ends_by_itself_is_explained_with_its_last_words),
        cmocka_unit_test(a_dead_server_can_be_started_again_and_both_have_receipts),
        cmocka_unit_test(a_server_that_is_never_ready_leaves_a_receipt_too),
        cmocka_unit_test(a_program_that_is_not_there_leaves_no_receipt),
        cmocka_unit_test(an_output_that_is_gone_says_so_in_the_receipt),
        cmocka_unit_test(a_path_that_is_too_long_is_an_error),
        cmocka_unit_test(the_environment_is_part_of_the_command),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
