/* The files of the plots, and gnuplot itself where it is installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/test_folder.h"
#include "bench/family/plots.h"
#include "bench/family/row_fixture.h"
#include "bench/report.h"

static const char EVICT[] =
    "[{\"trace\": \"t\", \"memories\": [{\"memory\": \"dense\", \"unlimited_bytes\": 2147483648, \"capacities\": ["
    "{\"capacity_percent\": 5, \"bound_tokens_saved_percent\": 60, \"lru\": {\"tokens_saved_percent\": 40}, "
    "\"fifo\": {\"tokens_saved_percent\": 30}, \"benefit\": {\"tokens_saved_percent\": 50}},"
    "{\"capacity_percent\": null, \"bound_tokens_saved_percent\": 90, \"lru\": {\"tokens_saved_percent\": 89}, "
    "\"fifo\": {\"tokens_saved_percent\": 88}, \"benefit\": {\"tokens_saved_percent\": 89.5}}]}]}]";

typedef struct fixture {
    char root[64];
    char folder[128]; /* with a blank and a quote in its name; not there yet */
    sk_row_set rows;
    sk_plot plots[SK_PLOTS_MAX];
    size_t n;
} fixture;

static fixture *make(const char *family) {
    static fixture f;
    f = (fixture){.root = "/tmp/skippy-plots-XXXXXX", .n = 99};
    assert_non_null(mkdtemp(f.root));
    char folder[128];
    snprintf(folder, sizeof folder, "%s/the plot's", f.root);
    memcpy(f.folder, folder, sizeof folder);
    if (family) {
        json_t *row = sk_fixture_row(&(sk_fixture){.family = family});
        sk_fixture_times(row, "exact", "exact", 30.0, 20.0, 2.0);
        sk_fixture_times(row, "suffix", "suffix", 30.0, 20.0, 25.0);
        sk_fixture_times(row, "agent", "coding", 30.0, 20.0, 15.0);
        assert_int_equal(sk_row_set_add(&f.rows, row, 0, NULL), SKIPPY_OK);
    }
    return &f;
}

static int set_up(void **state) {
    *state = make("Llama");
    return 0;
}

static int set_up_empty(void **state) {
    *state = make(NULL);
    return 0;
}

static int set_up_hostile(void **state) {
    *state = make("<b>'; system 'touch pwned'; `touch pwned` \"\\");
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    sk_row_set_free(&f->rows);
    return test_remove_tree(f->root);
}

static int write_all(fixture *f, const char *gnuplot, const char *evict, sk_err *e) {
    const sk_plot_options o = {.folder = f->folder, .gnuplot = gnuplot, .evict_json = evict};
    return sk_plots_write(&f->rows, &o, f->plots, &f->n, e);
}

static void read_file(const char *folder, const char *name, sk_buf *out) {
    char path[512], chunk[4096];
    size_t n;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while ((n = fread(chunk, 1, sizeof chunk, file)) > 0) {
        sk_buf_add(out, chunk, n);
    }
    fclose(file);
    if (!out->data) {
        fail_msg("'%s' is empty", path);
        abort(); /* for the analyser: fail_msg does not return */
    }
}

static bool there(const char *folder, const char *name) {
    char path[512];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &st) == 0;
}

static const char *evict_file(const fixture *f, const char *text) {
    static char path[128];
    snprintf(path, sizeof path, "%s/evict.json", f->root);
    assert_int_equal(sk_report_write_file(path, text, strlen(text), NULL), SKIPPY_OK);
    return path;
}

static void need_gnuplot(void) {
    /* A test must not pass for want of the program that it is about. */
    if (system("command -v gnuplot >/dev/null 2>&1") != 0) { /* NOLINT(cert-env33-c): a fixed command */
        print_message("skipped: gnuplot is not installed\n");
        skip();
    }
}

/* ---- without gnuplot ---- */

static void rows_without_times_write_nothing(void **state) {
    fixture *f = *state;
    assert_int_equal(write_all(f, "/nonexistent/gnuplot", NULL, NULL), SKIPPY_OK);
    assert_int_equal(f->n, 0);
    assert_int_equal(rmdir(f->folder), 0); /* it is empty */
}

static void without_gnuplot_the_error_says_how_to_get_it_and_the_program_is_kept(void **state) {
    fixture *f = *state;
    sk_err e = {0};
    assert_int_equal(write_all(f, "/nonexistent/gnuplot", NULL, &e), SKIPPY_E_NOT_FOUND);
    assert_non_null(strstr(e.text, "gnuplot-nox"));
    assert_non_null(strstr(e.text, "/nonexistent/gnuplot"));
    assert_int_equal(f->n, 0);
    assert_true(there(f->folder, "speedup.gp") && there(f->folder, "speedup.dat"));
    assert_false(there(f->folder, "speedup.svg") || there(f->folder, "speedup.gnuplot.log"));
}

static void a_gnuplot_that_fails_is_quoted_and_leaves_no_picture(void **state) {
    fixture *f = *state;
    sk_err e = {0};
    char program[128];
    static const char script[] = "#!/bin/sh\necho 'line 3: it does not like it' >&2\nexit 1\n";
    snprintf(program, sizeof program, "%s/fails", f->root);
    assert_int_equal(sk_report_write_file(program, script, sizeof script - 1, NULL), SKIPPY_OK);
    assert_int_equal(chmod(program, 0755), 0);
    assert_int_equal(write_all(f, program, NULL, &e), SKIPPY_E_RUNTIME);
    assert_non_null(strstr(e.text, "speedup.gp"));
    assert_non_null(strstr(e.text, "it does not like it"));
    assert_false(there(f->folder, "speedup.svg") || there(f->folder, "speedup.gnuplot.log"));
}

static void a_gnuplot_that_writes_nothing_has_failed(void **state) {
    fixture *f = *state;
    sk_err e = {0};
    assert_int_equal(write_all(f, "true", NULL, &e), SKIPPY_E_RUNTIME);
    assert_non_null(strstr(e.text, "(nothing)"));
    assert_int_equal(f->n, 0);
}

static void files_of_the_eviction_that_cannot_be_used_are_named(void **state) {
    fixture *f = *state;
    sk_err e = {0};
    char missing[128];
    snprintf(missing, sizeof missing, "%s/none.json", f->root);
    assert_int_equal(write_all(f, "true", missing, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, missing));
    assert_int_equal(write_all(f, "true", evict_file(f, "[{]"), &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "line 1"));
    assert_int_equal(write_all(f, "true", evict_file(f, "{}"), &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "skippy bench evict --json"));
    assert_int_equal(f->n, 0);
}

static void a_folder_that_cannot_be_made_is_an_error(void **state) {
    fixture *f = *state;
    sk_err e = {0};
    snprintf(f->folder, sizeof f->folder, "%.60s/no/such", f->root);
    assert_int_equal(write_all(f, "true", NULL, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, f->folder));
}

static void a_path_that_is_too_long_is_refused(void **state) {
    fixture *f = *state;
    sk_err e = {0};
    char folder[1200];
    memset(folder, '/', sizeof folder);
    memcpy(folder, "/tmp", 4);
    folder[sizeof folder - 1] = '\0'; /* many slashes are one: the folder is there */
    const sk_plot_options o = {.folder = folder, .gnuplot = "true"};
    assert_int_equal(sk_plots_write(&f->rows, &o, f->plots, &f->n, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "too long"));
}

/* ---- with gnuplot ---- */

static void each_plot_is_a_picture_on_white_with_program_and_data(void **state) {
    fixture *f = *state;
    static const char *const names[] = {"speedup", "latency", "agent", "hit-rate"};
    sk_err e = {0};
    need_gnuplot();
    if (write_all(f, NULL, evict_file(f, EVICT), &e) != SKIPPY_OK) {
        fail_msg("%s", e.text);
    }
    assert_int_equal(f->n, 4);
    for (size_t i = 0; i < 4; i++) {
        char name[64];
        sk_buf svg = {0};
        assert_string_equal(f->plots[i].name, names[i]);
        assert_true(f->plots[i].title[0] && f->plots[i].caption[0]);
        snprintf(name, sizeof name, "%s.svg", names[i]);
        assert_string_equal(strrchr(f->plots[i].path, '/') + 1, name);
        read_file(f->folder, name, &svg);
        assert_non_null(strstr(svg.data, "fill=\"#ffffff\"/>"));
        assert_non_null(strstr(svg.data, "</svg>"));
        assert_non_null(strstr(svg.data, "sans-serif"));
        sk_buf_free(&svg);
        snprintf(name, sizeof name, "%s.gp", names[i]);
        assert_true(there(f->folder, name));
        snprintf(name, sizeof name, "%s.gnuplot.log", names[i]);
        assert_false(there(f->folder, name));
        snprintf(name, sizeof name, "%s.svg.part", names[i]);
        assert_false(there(f->folder, name));
    }
}

static void a_second_run_elsewhere_writes_the_same_bytes(void **state) {
    fixture *f = *state;
    static const char *const endings[] = {"svg", "gp", "dat"};
    const char *evict = evict_file(f, EVICT);
    char first[128], name[64];
    need_gnuplot();
    assert_int_equal(write_all(f, NULL, evict, NULL), SKIPPY_OK);
    memcpy(first, f->folder, sizeof first);
    snprintf(f->folder, sizeof f->folder, "%.60s/second", f->root);
    assert_int_equal(write_all(f, NULL, evict, NULL), SKIPPY_OK);
    for (size_t i = 0; i < f->n; i++) {
        for (size_t k = 0; k < sizeof endings / sizeof endings[0]; k++) {
            sk_buf a = {0}, b = {0};
            snprintf(name, sizeof name, "%s.%s", f->plots[i].name, endings[k]);
            read_file(first, name, &a);
            read_file(f->folder, name, &b);
            assert_string_equal(a.data, b.data);
            assert_null(strstr(a.data, f->root));
            sk_buf_free(&a);
            sk_buf_free(&b);
        }
    }
}

static void names_from_rows_are_drawn_and_not_run(void **state) {
    fixture *f = *state;
    sk_err e = {0};
    sk_buf svg = {0};
    need_gnuplot();
    if (write_all(f, NULL, NULL, &e) != SKIPPY_OK) {
        fail_msg("%s", e.text);
    }
    assert_int_equal(f->n, 3);
    assert_false(there(f->folder, "pwned") || there(".", "pwned"));
    read_file(f->folder, "speedup.svg", &svg);
    assert_non_null(strstr(svg.data, "&lt;b>'; system 'touch pwned'; `touch pwned`"));
    sk_buf_free(&svg);
}

#define WITH(name, up) cmocka_unit_test_setup_teardown(name, up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(rows_without_times_write_nothing, set_up_empty),
        WITH(without_gnuplot_the_error_says_how_to_get_it_and_the_program_is_kept, set_up),
        WITH(a_gnuplot_that_fails_is_quoted_and_leaves_no_picture, set_up),
        WITH(a_gnuplot_that_writes_nothing_has_failed, set_up),
        WITH(files_of_the_eviction_that_cannot_be_used_are_named, set_up_empty),
        WITH(a_folder_that_cannot_be_made_is_an_error, set_up),
        WITH(a_path_that_is_too_long_is_refused, set_up),
        WITH(each_plot_is_a_picture_on_white_with_program_and_data, set_up),
        WITH(a_second_run_elsewhere_writes_the_same_bytes, set_up),
        WITH(names_from_rows_are_drawn_and_not_run, set_up_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
