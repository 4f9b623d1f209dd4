/* `skippy bench relay` as a script drives it: a line when it listens, a line for each command. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/bench_relay.h"
#include "cli/capture.h"

static captured output;

#define RUN(...) capture(&output, sk_cli_bench_relay, (const char *[]){"skippy bench relay", __VA_ARGS__, NULL})

static int forget_output(void **state) {
    (void)state;
    captured_free(&output);
    return 0;
}

static void says(const char *text, const char *words) {
    if (!strstr(text, words)) fail_msg("'%s' is not in: %s", words, text);
}

/* Runs with these lines as standard input. */
static int run_with_input(const char *lines) {
    int ends[2];
    const int before = dup(STDIN_FILENO);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], lines, strlen(lines)), strlen(lines));
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    clearerr(stdin);
    const int code = RUN("--to", "127.0.0.1:1", "--delay-ms", "2.5");
    dup2(before, STDIN_FILENO);
    close(before);
    return code;
}

static void every_command_is_answered(void **state) {
    (void)state;
    assert_int_equal(run_with_input("delay 7\nstall\ngo\ncut\nstats\nfly\ndelay x\n"), 0);
    says(output.out, "{\"address\": \"127.0.0.1:");
    size_t good = 0, bad = 0;
    for (const char *p = output.out; (p = strstr(p, "{\"connections\": 0, \"open\": 0")); p++) good++;
    for (const char *p = output.out; (p = strstr(p, "{\"error\": ")); p++) bad++;
    assert_int_equal(good, 5);
    assert_int_equal(bad, 2);
}

static void the_end_of_input_ends_it(void **state) {
    (void)state;
    assert_int_equal(run_with_input(""), 0);
    says(output.out, "{\"address\": ");
}

static void wrong_usage_ends_with_code_2_and_words(void **state) {
    (void)state;
    assert_int_equal(RUN("--listen", "127.0.0.1:0"), 2);
    says(output.err, "Give --to HOST:PORT");
    assert_int_equal(RUN("--to", "127.0.0.1:1", "--delay-ms", "-1"), 2);
    says(output.err, "not '-1'");
    assert_int_equal(RUN("--to", "127.0.0.1:1", "--fast"), 2);
    assert_int_equal(RUN("--to", "nowhere"), 1);
    says(output.err, "'nowhere' is not an address");
    assert_int_equal(RUN("--help"), 0);
    says(output.out, "Usage: skippy bench relay");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_command_is_answered, forget_output),
        cmocka_unit_test_teardown(the_end_of_input_ends_it, forget_output),
        cmocka_unit_test_teardown(wrong_usage_ends_with_code_2_and_words, forget_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
