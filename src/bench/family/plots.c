#include "bench/family/plots.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/family/plot_gnuplot.h"
#include "bench/family/plot_kinds.h"
#include "bench/report.h"

typedef struct kind {
    const char *name, *title, *caption;
    int (*draw)(const sk_plot_source *s, sk_plot_page *p, sk_err *e);
} kind;

static const kind KINDS[] = {
    {"speedup", "Ratio to llama-server, per family",
     "A bar to the right of the line at 1x: skippy answers that many times as fast as llama-server with whichever flags "
     "were best. A bar to the left: it is slower.",
     sk_plot_speedup},
    {"latency", "Time of a request, per family and server",
     "Thick: the middle half of the measured requests, with a stroke at the median. Thin: from the quickest to the "
     "slowest request. Further left is better.",
     sk_plot_latency},
    {"agent", "Time of each request of agent conversations",
     "Each point is one request of a conversation that is replayed as a whole. Lower is better; peaks are requests "
     "where a server computed much of the conversation again.",
     sk_plot_agent},
    {"hit-rate", "Input that a cache of limited size saves",
     "A simulation on traces, without a model: the share of all input tokens that need not be computed, for different "
     "rules of what leaves the cache first. Higher is better.",
     sk_plot_hit_rate},
};

static int write_part(const char *folder, const char *name, const char *ending, const sk_buf *text, sk_err *e) {
    char path[1100];
    if ((size_t)snprintf(path, sizeof path, "%s/%s.%s", folder, name, ending) >= sizeof path) {
        return sk_err_set(e, SKIPPY_E_INVALID, "the path of the folder for plots is too long: '%.200s'", folder);
    }
    return sk_report_write_file(path, text->data, text->len, e);
}

/* Program and data first: with them a plot can be drawn later or elsewhere, should gnuplot fail. */
static int write_page(const sk_plot_page *page, const sk_plot_options *o, sk_err *e) {
    if (sk_plot_page_failed(page)) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the plot '%s'", page->name);
    }
    int rc = write_part(o->folder, page->name, "gp", &page->program, e);
    if (rc == SKIPPY_OK) {
        rc = write_part(o->folder, page->name, "dat", &page->data, e);
    }
    return rc == SKIPPY_OK ? sk_gnuplot_run(o->gnuplot, o->folder, page->name, e) : rc;
}

static int describe(const kind *k, const char *folder, sk_plot *out, sk_err *e) {
    *out = (sk_plot){0};
    snprintf(out->name, sizeof out->name, "%s", k->name);
    snprintf(out->title, sizeof out->title, "%s", k->title);
    snprintf(out->caption, sizeof out->caption, "%s", k->caption);
    if ((size_t)snprintf(out->path, sizeof out->path, "%s/%s.svg", folder, k->name) >= sizeof out->path) {
        return sk_err_set(e, SKIPPY_E_INVALID, "the path of the folder for plots is too long: '%.200s'", folder);
    }
    return SKIPPY_OK;
}

static int load_evict(const char *path, json_t **out, sk_err *e) {
    json_error_t where;
    *out = path ? json_load_file(path, 0, &where) : NULL;
    if (!path || *out) {
        return SKIPPY_OK;
    }
    if (json_error_code(&where) == json_error_cannot_open_file) {
        return sk_err_set(e, SKIPPY_E_IO, "cannot read '%s': %s", path, strerror(errno));
    }
    return sk_err_set(e, SKIPPY_E_INVALID, "'%s' is not JSON: line %d: %s", path, where.line, where.text);
}

static int write_kind(const kind *k, const sk_plot_source *source, const sk_plot_options *o, sk_plot *plots, size_t *n,
                      sk_err *e) {
    sk_plot_page page = {0};
    int rc = k->draw(source, &page, e);
    if (rc == SKIPPY_OK && page.n_panels > 0) {
        rc = write_page(&page, o, e);
        rc = rc == SKIPPY_OK ? describe(k, o->folder, &plots[*n], e) : rc;
        *n += rc == SKIPPY_OK;
    }
    sk_plot_page_free(&page);
    return rc;
}

int sk_plots_write(const sk_row_set *s, const sk_plot_options *o, sk_plot plots[SK_PLOTS_MAX], size_t *n, sk_err *e) {
    json_t *evict = NULL;
    *n = 0;
    int rc = load_evict(o->evict_json, &evict, e);
    if (rc == SKIPPY_OK && mkdir(o->folder, 0777) != 0 && errno != EEXIST) {
        rc = sk_err_set(e, SKIPPY_E_IO, "cannot make the folder '%s': %s", o->folder, strerror(errno));
    }
    const sk_plot_source source = {.rows = s, .evict = evict};
    for (size_t i = 0; rc == SKIPPY_OK && i < sizeof KINDS / sizeof KINDS[0]; i++) {
        rc = write_kind(&KINDS[i], &source, o, plots, n, e);
    }
    json_decref(evict);
    return rc;
}
