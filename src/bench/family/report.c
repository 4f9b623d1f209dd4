#include "bench/family/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/family/html.h"
#include "bench/family/report_page.h"
#include "bench/report.h"

static const size_t MARKDOWN_LIMIT = (size_t)16 << 20;

/* Everything that is made before the first file is written, so that an error leaves the last report as it was. */
typedef struct work {
    sk_row_set rows;
    sk_corpus corpus;
    bool has_corpus;
    sk_plot plots[SK_PLOTS_MAX];
    size_t n_plots;
    sk_buf head, links, tables; /* the three parts of the page; HTML has its pictures inside instead of links */
    sk_buf markdown, html, todo;
} work;

static void work_free(work *w) {
    sk_row_set_free(&w->rows);
    if (w->has_corpus) sk_corpus_free(&w->corpus);
    sk_buf *const all[] = {&w->head, &w->links, &w->tables, &w->markdown, &w->html, &w->todo};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) sk_buf_free(all[i]);
}

/* By name or, where both are there, by what is behind the name. */
static bool same_file(const char *a, const char *b) {
    struct stat x;
    struct stat y;
    if (strcmp(a, b) == 0) return true;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Evidence must not be overwritten, and one output must not replace another. */
static int check_options(const sk_family_report_options *o, sk_err *e) {
    const char *const written[] = {o->output, o->todo, o->html};
    if (o->n_inputs == 0) return sk_err_set(e, SKIPPY_E_INVALID, "no input: name a production-cache-bench.json");
    if (!o->output) return sk_err_set(e, SKIPPY_E_INVALID, "no output: name the Markdown file");
    if (o->evict_json && !o->plots)
        return sk_err_set(e, SKIPPY_E_INVALID, "results of evict are shown as a plot: name a folder for plots, too");
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; written[i] && k < o->n_inputs; k++)
            if (same_file(written[i], o->inputs[k]))
                return sk_err_set(e, SKIPPY_E_INVALID, "'%s' is an input: the report must not overwrite it",
                                  written[i]);
        for (size_t k = 0; written[i] && k < i; k++)
            if (written[k] && same_file(written[i], written[k]))
                return sk_err_set(e, SKIPPY_E_INVALID, "two outputs have the name '%s'", written[i]);
    }
    return SKIPPY_OK;
}

static int load(const sk_family_report_options *o, work *w, sk_err *e) {
    for (size_t i = 0; i < o->n_inputs; i++) {
        const int rc = sk_row_set_load(&w->rows, o->inputs[i], e);
        if (rc != SKIPPY_OK) return rc;
    }
    sk_row_set_sort(&w->rows);
    if (!o->corpus) return SKIPPY_OK;
    const int rc = sk_corpus_load(o->corpus, &w->corpus, e);
    w->has_corpus = rc == SKIPPY_OK;
    return rc;
}

static int draw(const sk_family_report_options *o, work *w, sk_err *e) {
    const sk_plot_options po = {.folder = o->plots, .gnuplot = o->gnuplot, .evict_json = o->evict_json};
    if (!o->plots) return SKIPPY_OK;
    const int rc = sk_plots_write(&w->rows, &po, w->plots, &w->n_plots, e);
    return rc == SKIPPY_OK ? sk_report_page_plots(w->plots, w->n_plots, o->output, &w->links, e) : rc;
}

static int check_size(const sk_buf *markdown, sk_err *e) {
    if (markdown->failed) return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the report");
    if (markdown->len > MARKDOWN_LIMIT)
        return sk_err_set(e, SKIPPY_E_TOO_LARGE,
                          "the report would have %zu bytes, more than 16 MiB: give it fewer rows", markdown->len);
    return SKIPPY_OK;
}

static void add_part(sk_buf *to, const sk_buf *part) {
    if (part->len) sk_buf_add(to, part->data, part->len);
    to->failed |= part->failed;
}

static int make_html(work *w, sk_err *e) {
    sk_buf text = {0};
    add_part(&text, &w->head);
    add_part(&text, &w->tables);
    const int rc = text.failed ? sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the report")
                               : sk_html_page("skippy family benchmark", text.data, w->plots, w->n_plots, &w->html, e);
    sk_buf_free(&text);
    return rc;
}

static int make(const sk_family_report_options *o, work *w, sk_err *e) {
    sk_report_page_head(&w->rows, &w->head);
    sk_report_page_tables(&w->rows, w->has_corpus ? &w->corpus : NULL, &w->tables);
    sk_table_todo(&w->rows, &w->todo);
    int rc = draw(o, w, e);
    if (rc != SKIPPY_OK) return rc;
    add_part(&w->markdown, &w->head);
    add_part(&w->markdown, &w->links);
    add_part(&w->markdown, &w->tables);
    rc = check_size(&w->markdown, e);
    if (rc == SKIPPY_OK && w->todo.failed) rc = sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the list of things to do");
    return rc == SKIPPY_OK && o->html ? make_html(w, e) : rc;
}

static int write_todo(const char *path, const sk_buf *todo, sk_err *e) {
    if (todo->len) return sk_report_write_file(path, todo->data, todo->len, e);
    if (remove(path) == 0 || errno == ENOENT) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_IO, "cannot remove '%s': %s", path, strerror(errno));
}

static int write_all(const sk_family_report_options *o, const work *w, sk_err *e) {
    int rc = sk_report_write_file(o->output, w->markdown.data, w->markdown.len, e);
    if (rc == SKIPPY_OK && o->html) rc = sk_report_write_file(o->html, w->html.data, w->html.len, e);
    if (rc == SKIPPY_OK && o->todo) rc = write_todo(o->todo, &w->todo, e);
    return rc;
}

int sk_family_report(const sk_family_report_options *o, sk_err *e) {
    work w = {0};
    int rc = check_options(o, e);
    if (rc == SKIPPY_OK) rc = load(o, &w, e);
    if (rc == SKIPPY_OK) rc = make(o, &w, e);
    if (rc == SKIPPY_OK) rc = write_all(o, &w, e);
    work_free(&w);
    return rc;
}
