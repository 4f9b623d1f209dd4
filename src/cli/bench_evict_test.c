/* `skippy bench evict` as people call it: options, words, exit codes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "cli/bench_evict.h"
#include "cli/capture.h"

static captured output;

#define RUN(...) capture(&output, sk_cli_bench_evict, (const char *[]){"skippy bench evict", __VA_ARGS__, NULL})

static int forget_output(void **state) {
    (void)state;
    captured_free(&output);
    return 0;
}

static void says(const char *text, const char *words) {
    if (!strstr(text, words)) fail_msg("'%s' is not in: %s", words, text);
}

static void a_small_generated_trace_makes_two_tables(void **state) {
    (void)state;
    assert_int_equal(RUN("--requests", "60", "--agents", "3", "--seed", "5", "--capacity", "20"), 0);
    says(output.out, "## generated: 3 agents, seed 5");
    says(output.out, "60 requests");
    says(output.out, "### dense");
    says(output.out, "### hybrid");
    says(output.out, "| 20 % (");
    assert_string_equal(output.err, "");
}

static void json_holds_both_traces(void **state) {
    (void)state;
    char file[64];
    snprintf(file, sizeof file, "bench-evict-test-%d.jsonl", (int)getpid());
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fputs("{\"timestamp\":0,\"input_length\":600,\"output_length\":1,\"hash_ids\":[1,2]}\n", f);
    fputs("{\"timestamp\":1,\"input_length\":600,\"output_length\":1,\"hash_ids\":[1,3]}\n", f);
    fclose(f);
    const int code = RUN("--trace", file, "--trace-generated", "--requests", "30", "--json");
    unlink(file);
    assert_int_equal(code, 0);
    json_t *root = json_loads(output.out, 0, NULL);
    assert_int_equal(json_array_size(root), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(root, 0), "trace")), file);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(root, 0), "requests")), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(root, 1), "requests")), 30);
    json_decref(root);
}

static void a_trace_that_cannot_be_read_ends_with_code_1(void **state) {
    (void)state;
    assert_int_equal(RUN("--trace", "there-is-no-such.jsonl"), 1);
    says(output.err, "skippy bench evict: there-is-no-such.jsonl: ");
    assert_string_equal(output.out, "");
}

static void wrong_usage_ends_with_code_2_and_words(void **state) {
    (void)state;
    assert_int_equal(RUN("--capacity", "0"), 2);
    says(output.err, "--capacity needs up to 16 numbers above 0 and up to 100, not '0'");
    assert_int_equal(RUN("--capacity", "5,,6"), 2);
    assert_int_equal(RUN("--capacity", "5,x"), 2);
    assert_int_equal(RUN("--agents", "0"), 2);
    assert_int_equal(RUN("--requests", "0"), 2);
    assert_int_equal(RUN("--sed", "1"), 2);
    says(output.err, "unknown option '--sed'");
}

static void help_names_examples_and_exit_codes(void **state) {
    (void)state;
    assert_int_equal(RUN("--help"), 0);
    says(output.out, "Usage: skippy bench evict");
    says(output.out, "Examples:");
    says(output.out, "Exit codes:");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_small_generated_trace_makes_two_tables, forget_output),
        cmocka_unit_test_teardown(json_holds_both_traces, forget_output),
        cmocka_unit_test_teardown(a_trace_that_cannot_be_read_ends_with_code_1, forget_output),
        cmocka_unit_test_teardown(wrong_usage_ends_with_code_2_and_words, forget_output),
        cmocka_unit_test_teardown(help_names_examples_and_exit_codes, forget_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
