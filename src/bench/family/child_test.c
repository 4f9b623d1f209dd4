/* A program that runs once: its end, its output, its record. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/test_folder.h"
#include "bench/family/child.h"
#include "bench/family/sha256.h"
#include "bench/interrupt.h"

enum { LONG_MS = 60000 };

static char folder[64];

static int set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "child-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    return test_remove_tree(folder);
}

static int run(const char *script, int timeout_ms, sk_child_end *out, sk_err *e) {
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    const sk_child c = {.role = "tool", .argv = argv, .folder = folder, .timeout_ms = timeout_ms};
    return sk_child_run(&c, out, e);
}

static const char *text_at(const sk_child_end *end, const char *key) {
    return json_string_value(json_object_get(end->receipt, key));
}

/* The receipt of a stream is about the file that is there. */
static void assert_stream(const sk_child_end *end, const char *name, const char *content) {
    json_t *stream = json_object_get(end->receipt, name);
    char path[200], hex[SK_SHA256_HEX];
    snprintf(path, sizeof path, "tool.%s", name);
    assert_string_equal(json_string_value(json_object_get(stream, "path")), path);
    sk_sha256_text(content, strlen(content), hex);
    assert_string_equal(json_string_value(json_object_get(stream, "sha256")), hex);
    assert_int_equal(json_integer_value(json_object_get(stream, "bytes")), strlen(content));
}

static void a_record_has_command_end_and_complete_outputs(void **state) {
    sk_child_end end;
    sk_err e = {0};
    (void)state;
    assert_int_equal(run("echo out; echo words >&2; exit 4", LONG_MS, &end, &e), SKIPPY_OK);
    assert_int_equal(WEXITSTATUS(end.status), 4);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(end.receipt, "exit"), "code")), 4);
    assert_string_equal(text_at(&end, "role"), "tool");
    assert_string_equal(text_at(&end, "program"), "/bin/sh");
    assert_string_equal(text_at(&end, "command"), "/bin/sh -c echo out; echo words >&2; exit 4");
    assert_int_equal(strlen(text_at(&end, "started")), strlen("2026-01-31T12:00:00Z"));
    assert_true(json_is_null(json_object_get(end.receipt, "ready_ms")));
    assert_stream(&end, "stdout", "out\n");
    assert_stream(&end, "stderr", "words\n");
    assert_string_equal(end.last_words.data, "words\n");
    sk_child_end_free(&end);
}

static void a_program_that_is_not_there_leaves_no_record(void **state) {
    const char *const argv[] = {"/there/is/none", NULL};
    const sk_child c = {.role = "tool", .argv = argv, .folder = folder, .timeout_ms = LONG_MS};
    sk_child_end end;
    sk_err e = {0};
    (void)state;
    assert_int_equal(sk_child_run(&c, &end, &e), SKIPPY_E_NOT_FOUND);
    assert_null(end.receipt);
    sk_child_end_free(&end);
}

static void a_folder_that_is_not_there_is_an_error(void **state) {
    const char *const argv[] = {"/bin/true", NULL};
    const sk_child c = {.role = "tool", .argv = argv, .folder = "there/is/none", .timeout_ms = LONG_MS};
    sk_child_end end;
    sk_err e = {0};
    (void)state;
    assert_int_equal(sk_child_run(&c, &end, &e), SKIPPY_E_IO);
    sk_child_end_free(&end);
}

static void time_that_is_over_ends_it_and_keeps_the_record(void **state) {
    sk_child_end end;
    sk_err e = {0};
    (void)state;
    assert_int_equal(run("echo begun; exec sleep 60", 100, &end, &e), SKIPPY_E_TIMEOUT);
    assert_int_equal(WTERMSIG(end.status), SIGTERM);
    assert_true(json_is_false(json_object_get(end.receipt, "forced")));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(end.receipt, "exit"), "signal")), SIGTERM);
    sk_child_end_free(&end);
}

static void the_largest_resident_set_is_kept(void **state) {
    sk_child_end end;
    sk_err e = {0};
    (void)state;
    assert_int_equal(run("sleep 0.2", LONG_MS, &end, &e), SKIPPY_OK);
    assert_true(json_integer_value(json_object_get(end.receipt, "peak_rss_kib")) > 0);
    sk_child_end_free(&end);
}

static void a_signal_ends_the_program_too(void **state) {
    int status = 0;
    (void)state;
    const pid_t child = fork(); /* the wish to stop cannot be taken back in this process */
    if (child == 0) {
        sk_child_end end;
        sk_err e = {0};
        sk_interrupt_install();
        const int rc = run("kill -TERM $PPID; sleep 60", LONG_MS, &end, &e);
        const int kept = end.receipt != NULL;
        sk_child_end_free(&end);
        _exit(rc == SKIPPY_E_CANCELLED && kept ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_record_has_command_end_and_complete_outputs),
        TEST(a_program_that_is_not_there_leaves_no_record),
        TEST(a_folder_that_is_not_there_is_an_error),
        TEST(time_that_is_over_ends_it_and_keeps_the_record),
        TEST(the_largest_resident_set_is_kept),
        TEST(a_signal_ends_the_program_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
