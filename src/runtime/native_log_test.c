#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <llama.h>

#include "runtime/native_log.h"

static ggml_log_callback callback;

static int install(void **state) {
    (void)state;
    void *ud;
    sk_native_log_install();
    llama_log_get(&callback, &ud);
    return callback ? 0 : -1;
}

static void say(enum ggml_log_level level, const char *text) {
    callback(level, text, NULL);
}

static void only_error_lines_are_kept(void **state) {
    (void)state;
    char text[600];
    sk_native_log_clear();
    say(GGML_LOG_LEVEL_INFO, "information\n");
    say(GGML_LOG_LEVEL_WARN, "warning\n");
    say(GGML_LOG_LEVEL_ERROR, "first error\n");
    say(GGML_LOG_LEVEL_ERROR, "second ");
    say(GGML_LOG_LEVEL_CONT, "error\n");
    sk_native_log_errors(text, sizeof text);
    assert_string_equal(text, "first error; second error");
    sk_native_log_errors(text, 6); /* cut, and terminated */
    assert_string_equal(text, "first");
    sk_native_log_clear();
    sk_native_log_errors(text, sizeof text);
    assert_string_equal(text, "");
}

static void a_line_that_another_one_interrupts_is_complete(void **state) {
    (void)state;
    char text[600];
    sk_native_log_clear();
    say(GGML_LOG_LEVEL_ERROR, "no newline");
    say(GGML_LOG_LEVEL_INFO, "information\n");
    sk_native_log_errors(text, sizeof text);
    assert_string_equal(text, "no newline");
}

static void many_and_long_lines_keep_the_newest(void **state) {
    (void)state;
    char text[600], line[3000];
    sk_native_log_clear();
    for (int i = 0; i < 200; i++) {
        snprintf(line, sizeof line, "error number %d\n", i);
        say(GGML_LOG_LEVEL_ERROR, line);
    }
    sk_native_log_errors(text, sizeof text);
    assert_non_null(strstr(text, "error number 199"));
    assert_null(strstr(text, "error number 1;"));
    memset(line, 'x', sizeof line - 2);
    line[sizeof line - 2] = '\n';
    line[sizeof line - 1] = 0;
    say(GGML_LOG_LEVEL_ERROR, line);
    sk_native_log_errors(text, sizeof text);
    assert_true(strlen(text) <= 480 && text[0] == 'x');
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_error_lines_are_kept),
        cmocka_unit_test(a_line_that_another_one_interrupts_is_complete),
        cmocka_unit_test(many_and_long_lines_keep_the_newest),
    };
    return cmocka_run_group_tests(tests, install, NULL);
}
