/* Runs that stopped early or are started again: what is taken up, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/family/fake_server.h"
#include "bench/family/run.h"
#include "bench/family/run_fixture.h"
#include "bench/interrupt.h"

static sk_run_fixture fixture;

static int set_up(void **state) {
    (void)state;
    run_fixture_make(&fixture);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    run_fixture_free(&fixture);
    return 0;
}

static int run_it(sk_err *e) {
    return run_fixture_run(&fixture, NULL, e);
}

static void assert_runs(void) {
    sk_err e = {0};
    if (run_it(&e) != SKIPPY_OK) fail_msg("%s", e.text);
}

/* ---- going on ---- */

/* Its first certification ends the run as Ctrl-C does; a second one passes. */
static void interrupt_once(void) {
    char *certificate = run_fixture_certificate("pass"), *body = NULL;
    assert_true(asprintf(&body,
                         "#!/bin/sh\nif ! [ -e '%s/asked' ]; then touch '%s/asked'; kill -TERM $PPID; sleep 60; fi\n"
                         "while [ \"$1\" != --report-out ]; do shift; done\ncat >\"$2\" <<'END'\n%s\nEND\n",
                         fixture.folder, fixture.folder, certificate) > 0);
    run_fixture_script(&fixture, "correctness", body);
    run_fixture_pin(&fixture, "correctness", &fixture.in->correctness);
    free(certificate);
    free(body);
}

static void an_interrupted_run_leaves_valid_files_and_goes_on_later(void **state) {
    int status = 0;
    (void)state;
    interrupt_once();
    run_fixture_two_cells(&fixture, false);
    const pid_t child = fork(); /* the wish to stop cannot be taken back in this process */
    if (child == 0) {
        sk_err e = {0};
        sk_interrupt_install();
        _exit(run_it(&e) == SKIPPY_E_CANCELLED ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    json_t *run = run_fixture_load(&fixture, "run.json");
    json_t *rows = run_fixture_load(&fixture, "production-cache-bench.json");
    json_t *row = run_fixture_load(&fixture, "full/llama-p128/row.partial.json");
    assert_string_equal(json_string_value(json_object_get(run, "status")), "incomplete");
    assert_int_equal(json_array_size(rows), 2);
    assert_string_equal(run_fixture_text(row, "skippy", "status"), "cancelled");
    json_decref(run);
    json_decref(rows);
    json_decref(row);
    assert_runs();
    assert_true(run_fixture_has(&fixture, "full/llama-p128/row.json"));
    assert_false(run_fixture_has(&fixture, "full/llama-p128/row.partial.json"));
}

static void a_second_run_takes_finished_rows_as_they_are(void **state) {
    (void)state;
    run_fixture_two_cells(&fixture, false);
    assert_runs();
    json_t *before = run_fixture_load(&fixture, "production-cache-bench.json");
    assert_runs();
    json_t *after = run_fixture_load(&fixture, "production-cache-bench.json");
    assert_true(json_equal(before, after));
    assert_false(run_fixture_has(&fixture, "server-logs/llama-2")); /* no server was started again */
    json_decref(before);
    json_decref(after);
}

static void a_row_that_was_changed_is_measured_again(void **state) {
    char path[700];
    (void)state;
    run_fixture_two_cells(&fixture, false);
    assert_runs();
    snprintf(path, sizeof path, "%s/sweep/llama-p64/row.json", fixture.out_dir);
    run_fixture_file(&fixture, path, "{\"schema_version\":1}");
    assert_runs();
    json_t *rows = run_fixture_load(&fixture, "production-cache-bench.json");
    assert_int_equal(run_fixture_samples(json_array_get(rows, 1), "exact", "exact", "skippy"), 3);
    assert_true(run_fixture_has(&fixture, "server-logs/llama-2"));
    json_decref(rows);
}

static void the_folder_of_another_input_is_refused(void **state) {
    sk_err e = {0};
    (void)state;
    run_fixture_two_cells(&fixture, false);
    assert_runs();
    fixture.in->cell_seconds++;
    run_fixture_save(&fixture);
    assert_int_equal(run_it(&e), SKIPPY_E_EXISTS);
    assert_non_null(strstr(e.text, "holds a run of another input"));
}

static void a_folder_with_something_else_is_refused(void **state) {
    sk_err e = {0};
    (void)state;
    run_fixture_two_cells(&fixture, false);
    assert_int_equal(mkdir(fixture.out_dir, 0755), 0);
    run_fixture_file(&fixture, "out/letter.txt", "hello");
    assert_int_equal(run_it(&e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "is not empty and holds no run"));
    run_fixture_file(&fixture, "out/run.json", "{}");
    assert_int_equal(run_it(&e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "is no receipt of a run"));
}

static void an_output_folder_with_a_blank_is_refused(void **state) {
    sk_err e = {0};
    const sk_family_run_options o = {.input_path = fixture.input_path, .out_dir = "an output", .version = "1"};
    (void)state;
    run_fixture_two_cells(&fixture, false);
    assert_int_equal(sk_family_run(&o, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "has a blank in its name"));
}

static void an_input_that_is_not_there_is_refused(void **state) {
    sk_err e = {0};
    (void)state;
    assert_int_equal(run_it(&e), SKIPPY_E_NOT_FOUND);
}

/* ---- pins ---- */

static void a_changed_pin_refuses_the_run_before_the_first_cell(void **state) {
    sk_err e = {0};
    (void)state;
    run_fixture_two_cells(&fixture, false);
    run_fixture_file(&fixture, "llama.gguf", "other weights");
    assert_int_equal(run_it(&e), SKIPPY_E_CORRUPT);
    json_t *run = run_fixture_load(&fixture, "run.json");
    assert_string_equal(json_string_value(json_object_get(run, "status")), "refused");
    assert_string_equal(run_fixture_text(json_object_get(run, "pins"), "before", "status"), "changed");
    assert_false(run_fixture_has(&fixture, "full"));
    json_decref(run);
}

static void a_pin_that_changes_during_the_run_refuses_it_and_keeps_the_rows(void **state) {
    sk_err e = {0};
    char *certificate = run_fixture_certificate("pass"), *body = NULL;
    (void)state;
    assert_true(asprintf(&body,
                         "#!/bin/sh\necho more >>'%s/llama.gguf'\nwhile [ \"$1\" != --report-out ]; do shift; "
                         "done\ncat >\"$2\" <<'END'\n%s\nEND\n",
                         fixture.folder, certificate) > 0);
    run_fixture_script(&fixture, "correctness", body);
    run_fixture_pin(&fixture, "correctness", &fixture.in->correctness);
    free(certificate);
    free(body);
    run_fixture_two_cells(&fixture, false);
    assert_int_equal(run_it(&e), SKIPPY_E_CORRUPT);
    json_t *run = run_fixture_load(&fixture, "run.json");
    json_t *rows = run_fixture_load(&fixture, "production-cache-bench.json");
    json_t *notes = json_object_get(json_array_get(rows, 0), "notes");
    const char *last = json_string_value(json_array_get(notes, json_array_size(notes) - 1));
    assert_string_equal(json_string_value(json_object_get(run, "status")), "refused");
    assert_int_equal(run_fixture_samples(json_array_get(rows, 0), "exact", "exact", "skippy"), 3);
    assert_non_null(strstr(last, "a pin changed during the run"));
    json_decref(run);
    json_decref(rows);
}

/* ---- time ---- */

static void a_cell_whose_time_is_over_is_run_again(void **state) {
    sk_err e = {0};
    (void)state;
    run_fixture_script(&fixture, "correctness", "#!/bin/sh\nexec sleep 60\n");
    run_fixture_pin(&fixture, "correctness", &fixture.in->correctness);
    fixture.in->cell_seconds = 1;
    run_fixture_two_cells(&fixture, false);
    fixture.in->n_cells = 1;
    run_fixture_save(&fixture);
    assert_int_equal(run_it(&e), SKIPPY_E_RUNTIME);
    json_t *run = run_fixture_load(&fixture, "run.json");
    json_t *row = run_fixture_load(&fixture, "full/llama-p128/row.partial.json");
    assert_string_equal(json_string_value(json_object_get(run, "status")), "incomplete");
    assert_string_equal(run_fixture_text(row, "skippy", "status"), "timeout");
    assert_false(run_fixture_has(&fixture, "full/llama-p128/row.json"));
    json_decref(run);
    json_decref(row);
}

static void a_run_whose_time_is_over_stops_and_stays_open(void **state) {
    sk_err e = {0};
    (void)state;
    run_fixture_script(&fixture, "correctness", "#!/bin/sh\nexec sleep 60\n");
    run_fixture_pin(&fixture, "correctness", &fixture.in->correctness);
    fixture.in->execution_seconds = 1;
    run_fixture_two_cells(&fixture, false);
    assert_int_equal(run_it(&e), SKIPPY_E_TIMEOUT);
    assert_non_null(strstr(e.text, "execution_seconds"));
    json_t *run = run_fixture_load(&fixture, "run.json");
    json_t *second = run_fixture_load(&fixture, "sweep/llama-p64/row.partial.json");
    assert_string_equal(json_string_value(json_object_get(run, "status")), "incomplete");
    assert_string_equal(run_fixture_text(json_object_get(run, "pins"), "after", "status"), "ok");
    assert_string_equal(run_fixture_text(second, "skippy", "status"), "timeout");
    json_decref(run);
    json_decref(second);
}

int main(int argc, char **argv) {
    int code = 0;
    if (fake_server_asked(argc, argv, &code)) return code;
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_interrupted_run_leaves_valid_files_and_goes_on_later),
        TEST(a_second_run_takes_finished_rows_as_they_are),
        TEST(a_row_that_was_changed_is_measured_again),
        TEST(the_folder_of_another_input_is_refused),
        TEST(a_folder_with_something_else_is_refused),
        TEST(an_output_folder_with_a_blank_is_refused),
        TEST(an_input_that_is_not_there_is_refused),
        TEST(a_changed_pin_refuses_the_run_before_the_first_cell),
        TEST(a_pin_that_changes_during_the_run_refuses_it_and_keeps_the_rows),
        TEST(a_cell_whose_time_is_over_is_run_again),
        TEST(a_run_whose_time_is_over_stops_and_stays_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
