/* The report as files: what is written, what is refused before anything is written, and links that lead somewhere. */
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

#include "base/test_folder.h"
#include "bench/family/report.h"
#include "bench/family/report_page.h"
#include "bench/family/table_fixture.h"

static char folder[] = "family-report-test-XXXXXX";

/* Paths below the folder; each name has a place of its own in the options. */
typedef struct files {
    char rows[128], markdown[128], html[128], todo[128], plots[128], gnuplot[128], corpus[128];
    const char *inputs[1];
    sk_family_report_options o;
} files;

static int make_folder(void **state) {
    files *f = mkdtemp(folder) ? calloc(1, sizeof *f) : NULL;
    if (!f) return -1;
    snprintf(f->rows, sizeof f->rows, "%s/rows.json", folder);
    snprintf(f->markdown, sizeof f->markdown, "%s/report.md", folder);
    snprintf(f->html, sizeof f->html, "%s/report.html", folder);
    snprintf(f->todo, sizeof f->todo, "%s/TODO.md", folder);
    snprintf(f->plots, sizeof f->plots, "%s/my plots", folder);
    snprintf(f->gnuplot, sizeof f->gnuplot, "%s/gnuplot", folder);
    snprintf(f->corpus, sizeof f->corpus, "%s/corpus.json", folder);
    f->inputs[0] = f->rows;
    *state = f;
    return 0;
}

static int remove_folder(void **state) {
    free(*state);
    return test_remove_tree(folder);
}

static bool there(const char *path) {
    return access(path, F_OK) == 0;
}

static void forget(const files *f) {
    const char *const all[] = {f->rows, f->markdown, f->html, f->todo, f->corpus};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) (void)unlink(all[i]);
}

static files *fresh(void **state) {
    files *f = *state;
    forget(f);
    f->o = (sk_family_report_options){.inputs = f->inputs, .n_inputs = 1, .output = f->markdown, .todo = f->todo};
    return f;
}

static void write_text(const char *path, const char *text) {
    FILE *out = fopen(path, "we");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static void write_rows(const files *f, json_t *row) {
    json_t *rows = json_pack("[o]", row);
    assert_non_null(rows);
    assert_int_equal(json_dump_file(rows, f->rows, 0), 0);
    json_decref(rows);
}

/* The whole file; free it. */
static sk_buf text_of(const char *path) {
    sk_buf b = {0};
    char chunk[4096];
    size_t n;
    FILE *in = fopen(path, "re");
    assert_non_null(in);
    while ((n = fread(chunk, 1, sizeof chunk, in)) > 0) sk_buf_add(&b, chunk, n);
    assert_int_equal(fclose(in), 0);
    assert_false(b.failed);
    return b;
}

static void made(const files *f) {
    sk_err e = {0};
    if (sk_family_report(&f->o, &e) != SKIPPY_OK) fail_msg("%s", e.text);
}

/* Refused, and neither report nor TODO is there. */
static void refused(const files *f, int code, const char *words) {
    sk_err e = {0};
    assert_int_equal(sk_family_report(&f->o, &e), code);
    if (!strstr(e.text, words)) fail_msg("'%s' is not in: %s", words, e.text);
    assert_false(there(f->markdown));
    assert_false(there(f->todo));
}

static void the_report_has_introduction_facts_reading_and_tables(void **state) {
    files *f = fresh(state);
    write_rows(f, sk_fixture_exact((sk_fixture){0}, 300, 250, 25));
    made(f);
    sk_buf text = text_of(f->markdown);
    sk_fixture_line(&text, "# skippy family benchmark");
    sk_fixture_order(&text, "# skippy family benchmark", "## Facts");
    sk_fixture_order(&text, "## Facts", "## Current performance read");
    sk_fixture_order(&text, "## Current performance read", "## Promoted: exact repeat");
    sk_fixture_order(&text, "## Promoted: exact repeat", "## Scenarios");
    sk_fixture_order(&text, "## In the process, without HTTP", "## Commands");
    sk_fixture_even(&text);
    sk_buf_free(&text);
}

static void a_failed_row_makes_a_todo_and_a_good_one_removes_it(void **state) {
    files *f = fresh(state);
    write_rows(f, sk_fixture_exact((sk_fixture){.status = "fail"}, 300, 250, 25));
    made(f);
    sk_buf text = text_of(f->todo);
    sk_fixture_line(&text, "- Llama (full, 128 tokens): correctness failed: the test says so");
    sk_buf_free(&text);
    write_rows(f, sk_fixture_exact((sk_fixture){0}, 300, 250, 25));
    made(f);
    assert_false(there(f->todo));
    made(f); /* nothing to remove is no error */
}

static void no_list_is_written_unless_it_was_asked_for(void **state) {
    files *f = fresh(state);
    write_rows(f, sk_fixture_exact((sk_fixture){.status = "fail"}, 300, 250, 25));
    f->o.todo = NULL;
    made(f);
    assert_false(there(f->todo));
    assert_true(there(f->markdown));
}

static void the_html_page_has_the_same_tables(void **state) {
    files *f = fresh(state);
    write_rows(f, sk_fixture_exact((sk_fixture){.family = "A<b>"}, 300, 250, 25));
    f->o.html = f->html;
    made(f);
    sk_buf text = text_of(f->html);
    assert_non_null(strstr(text.data, "10.00x faster"));
    assert_null(strstr(text.data, "A<b>"));
    sk_buf_free(&text);
}

static void an_input_without_rows_gives_a_report_that_says_so(void **state) {
    files *f = fresh(state);
    write_text(f->rows, "[]");
    made(f);
    sk_buf text = text_of(f->markdown);
    sk_fixture_line(&text, "The inputs have no rows.");
    sk_buf_free(&text);
}

static void the_corpus_names_the_sources_of_the_prompts(void **state) {
    files *f = fresh(state);
    write_rows(f, sk_fixture_exact((sk_fixture){.use_case = "open_chat"}, 300, 250, 25));
    write_text(f->corpus,
               "{\"version\":1,\"use_cases\":[{\"key\":\"open_chat\",\"label\":\"Open chat\",\"prompt\":\"Hi\","
               "\"prefix_tokens\":64,\"source\":{\"dataset\":\"a/b\",\"config\":\"main\",\"split\":\"test\","
               "\"row_idx\":7,\"written\":false}}]}");
    f->o.corpus = f->corpus;
    made(f);
    sk_buf text = text_of(f->markdown);
    sk_fixture_line(&text, "| Open chat | `a/b` | `main` | `test` | 7 | the data set's own row |");
    sk_buf_free(&text);
}

/* ---- what is refused ---- */

static void options_that_make_no_sense_are_refused(void **state) {
    files *f = fresh(state);
    write_rows(f, sk_fixture_exact((sk_fixture){0}, 300, 250, 25));
    f->o.n_inputs = 0;
    refused(f, SKIPPY_E_INVALID, "no input");
    f = fresh(state);
    f->o.output = NULL;
    refused(f, SKIPPY_E_INVALID, "no output");
    f = fresh(state);
    f->o.evict_json = f->rows;
    refused(f, SKIPPY_E_INVALID, "name a folder for plots");
}

static void an_output_never_replaces_an_input_or_another_output(void **state) {
    files *f = fresh(state);
    char other[160];
    write_rows(f, sk_fixture_exact((sk_fixture){0}, 300, 250, 25));
    snprintf(other, sizeof other, "%s/./rows.json", folder);
    f->o.html = other;
    refused(f, SKIPPY_E_INVALID, "is an input");
    f->o.html = f->todo;
    refused(f, SKIPPY_E_INVALID, "two outputs");
    f->o.html = NULL;
    f->o.todo = f->markdown;
    refused(f, SKIPPY_E_INVALID, "two outputs");
    assert_true(there(f->rows));
}

static void damaged_inputs_leave_no_report(void **state) {
    files *f = fresh(state);
    refused(f, SKIPPY_E_NOT_FOUND, "rows.json");
    write_text(f->rows, "[{}]");
    refused(f, SKIPPY_E_INVALID, "row 1");
    write_rows(f, sk_fixture_exact((sk_fixture){0}, 300, 250, 25));
    f->o.corpus = f->corpus;
    refused(f, SKIPPY_E_NOT_FOUND, "corpus.json");
    write_text(f->corpus, "{}");
    refused(f, SKIPPY_E_INVALID, "");
}

static void a_report_above_16_mib_is_refused(void **state) {
    files *f = fresh(state);
    const size_t n = (size_t)16 << 20;
    char *sentence = malloc(n + 1);
    assert_non_null(sentence);
    memset(sentence, 'x', n);
    sentence[n] = '\0';
    write_rows(f, sk_fixture_exact((sk_fixture){.read = sentence}, 300, 250, 25));
    refused(f, SKIPPY_E_TOO_LARGE, "more than 16 MiB");
    free(sentence);
}

static void a_folder_that_is_not_there_is_named(void **state) {
    files *f = fresh(state);
    char away[160];
    write_rows(f, sk_fixture_exact((sk_fixture){0}, 300, 250, 25));
    snprintf(away, sizeof away, "%s/away/report.md", folder);
    f->o.output = away;
    refused(f, SKIPPY_E_IO, "away/report.md");
}

static void a_todo_that_cannot_be_removed_is_an_error(void **state) {
    files *f = fresh(state);
    char inside[160];
    sk_err e = {0};
    write_rows(f, sk_fixture_exact((sk_fixture){0}, 300, 250, 25));
    assert_int_equal(mkdir(f->todo, 0700), 0);
    snprintf(inside, sizeof inside, "%s/file", f->todo);
    write_text(inside, "x");
    assert_int_equal(sk_family_report(&f->o, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, "cannot remove"));
    assert_int_equal(unlink(inside), 0);
    assert_int_equal(rmdir(f->todo), 0);
}

/* ---- plots ---- */

/* A stand-in that draws nothing: the tests need no gnuplot. It is called as GNUPLOT -d -e "cd 'FOLDER'" -e "output_file
 * = 'NAME'" PROGRAM. */
static void make_gnuplot(const files *f) {
    write_text(f->gnuplot, "#!/bin/sh\n"
                           "cd \"$(printf %s \"$3\" | sed \"s/^cd '//; s/'$//\")\" || exit 1\n"
                           "out=$(printf %s \"$5\" | sed \"s/^output_file = '//; s/'$//\")\n"
                           "echo '<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1 1\"></svg>' >\"$out\"\n");
    assert_int_equal(chmod(f->gnuplot, 0700), 0);
}

static void plots_are_linked_relatively_and_come_before_the_tables(void **state) {
    files *f = fresh(state);
    write_rows(f, sk_fixture_exact((sk_fixture){0}, 300, 250, 25));
    make_gnuplot(f);
    (void)mkdir(f->plots, 0700);
    f->o.plots = f->plots;
    f->o.gnuplot = f->gnuplot;
    f->o.html = f->html;
    made(f);
    sk_buf text = text_of(f->markdown);
    assert_non_null(strstr(text.data, "](my%20plots/speedup.svg)"));
    sk_fixture_order(&text, "## Current performance read", "## Plots");
    sk_fixture_order(&text, "## Plots", "## Promoted");
    sk_buf_free(&text);
    text = text_of(f->html);
    assert_non_null(strstr(text.data, "<svg"));
    assert_null(strstr(text.data, "my%20plots")); /* inside, not linked */
    sk_buf_free(&text);
}

static void a_gnuplot_that_fails_leaves_no_report(void **state) {
    files *f = fresh(state);
    write_rows(f, sk_fixture_exact((sk_fixture){0}, 300, 250, 25));
    (void)mkdir(f->plots, 0700);
    f->o.plots = f->plots;
    f->o.gnuplot = "/no/such/gnuplot";
    refused(f, SKIPPY_E_NOT_FOUND, "gnuplot");
}

static void relative_is(const char *from, const char *to, const char *want) {
    sk_buf b = {0};
    sk_relative_path(from, to, &b);
    assert_string_equal(b.data, want);
    sk_buf_free(&b);
}

static void relative_paths_lead_from_folder_to_file(void **state) {
    (void)state;
    relative_is("/a/b", "/a/b/c.svg", "c.svg");
    relative_is("/a/b", "/a/b/plots/c.svg", "plots/c.svg");
    relative_is("/a/b", "/a/c.svg", "../c.svg");
    relative_is("/a/b", "/a/bc/d.svg", "../bc/d.svg");
    relative_is("/a/bc", "/a/b/d.svg", "../b/d.svg");
    relative_is("/a/b/c", "/d/e.svg", "../../../d/e.svg");
    relative_is("/", "/a.svg", "a.svg");
}

static void links_of_missing_plots_or_folders_are_errors(void **state) {
    files *f = fresh(state);
    sk_plot plot = {.title = "T"};
    sk_buf out = {0};
    sk_err e = {0};
    snprintf(plot.path, sizeof plot.path, "%s/none.svg", folder);
    assert_int_equal(sk_report_page_plots(&plot, 1, f->markdown, &out, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, "none.svg"));
    assert_int_equal(sk_report_page_plots(&plot, 1, "/no/such/folder/report.md", &out, &e), SKIPPY_E_NOT_FOUND);
    sk_buf_clear(&out);
    assert_int_equal(sk_report_page_plots(&plot, 0, f->markdown, &out, &e), SKIPPY_OK);
    assert_int_equal(out.len, 0);
    sk_buf_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_report_has_introduction_facts_reading_and_tables),
        cmocka_unit_test(a_failed_row_makes_a_todo_and_a_good_one_removes_it),
        cmocka_unit_test(no_list_is_written_unless_it_was_asked_for),
        cmocka_unit_test(the_html_page_has_the_same_tables),
        cmocka_unit_test(an_input_without_rows_gives_a_report_that_says_so),
        cmocka_unit_test(the_corpus_names_the_sources_of_the_prompts),
        cmocka_unit_test(options_that_make_no_sense_are_refused),
        cmocka_unit_test(an_output_never_replaces_an_input_or_another_output),
        cmocka_unit_test(damaged_inputs_leave_no_report),
        cmocka_unit_test(a_report_above_16_mib_is_refused),
        cmocka_unit_test(a_folder_that_is_not_there_is_named),
        cmocka_unit_test(a_todo_that_cannot_be_removed_is_an_error),
        cmocka_unit_test(plots_are_linked_relatively_and_come_before_the_tables),
        cmocka_unit_test(a_gnuplot_that_fails_leaves_no_report),
        cmocka_unit_test(relative_paths_lead_from_folder_to_file),
        cmocka_unit_test(links_of_missing_plots_or_folders_are_errors),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
