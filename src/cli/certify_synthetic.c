#include "cli/certify_synthetic.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/certify_show.h"
#include "cli/certify_table.h"
#include "runtime/synth.h"

enum { MAX_ROWS = 64, SEED = 1 };

typedef struct work {
    sk_certify_cli *o;
    json_t *list;
    char dir[1024];
    bool keep;
    sk_certify_report *report;
    sk_certify_row rows[MAX_ROWS];
    size_t n_rows;
    bool passed;
} work;

/* ---- the folder ---- */

static int open_folder(work *w, sk_err *e) {
    const char *tmp = getenv("TMPDIR");
    w->keep = w->o->dir != NULL;
    int n = w->keep ? snprintf(w->dir, sizeof w->dir, "%s", w->o->dir)
                    : snprintf(w->dir, sizeof w->dir, "%s/skippy-certify-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (n <= 0 || (size_t)n >= sizeof w->dir) return sk_err_set(e, SKIPPY_E_INVALID, "the folder's path is too long");
    bool ok = w->keep ? mkdir(w->dir, 0777) == 0 || errno == EEXIST : mkdtemp(w->dir) != NULL;
    return ok ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_IO, "'%s' cannot be made: %s", w->dir, strerror(errno));
}

static void close_folder(const work *w) {
    if (!w->keep) rmdir(w->dir);
}

/* ---- one model ---- */

static void say(const work *w, const sk_certify_row *r, double seconds) {
    fprintf(w->o->json ? stderr : stdout, "%-14s %-15s %-6s %5.1f s%s%s\n", r->family, r->memory,
            r->passed ? "pass" : "FAIL", seconds, r->passed ? "" : "  ", r->passed ? "" : r->verdict);
    fflush(stdout);
}

static int certify_once(work *w, const char *family, const char *path, bool swa_full, sk_err *e) {
    uint64_t start = sk_now_ns();
    sk_certify_options run = w->o->run;
    run.model_path = path;
    run.family = family;
    if (run.n_threads == 0) run.n_threads = 1; /* such small products lose time by being shared out */
    run.swa_full = swa_full;
    if (w->n_rows == MAX_ROWS) return sk_err_set(e, SKIPPY_E_INVALID, "more than %d families", MAX_ROWS);
    int rc = sk_certify_run(&run, w->report, e);
    if (rc) return rc;
    sk_certify_row *row = &w->rows[w->n_rows++];
    sk_certify_row_make(w->report, row);
    rc = sk_certify_collect(w->list, w->report, e);
    sk_certify_report_free(w->report);
    w->passed = w->passed && row->passed;
    say(w, row, (double)(sk_now_ns() - start) / 1e9);
    return rc;
}

static int certify_family(work *w, const char *family, sk_err *e) {
    char path[1200];
    snprintf(path, sizeof path, "%s/%s.gguf", w->dir, family);
    const sk_synth_params sp = {.family = family, .out = path, .seed = SEED, .force = true};
    int rc = sk_synth_write(&sp, NULL, e);
    if (rc) return rc;
    enum sk_window_choice window = w->o->window;
    rc = certify_once(w, family, path, window == SK_WINDOW_FULL, e);
    bool windowed = rc == SKIPPY_OK && strcmp(w->rows[w->n_rows - 1].memory, "sliding window") == 0;
    if (windowed && window == SK_WINDOW_BOTH) rc = certify_once(w, family, path, true, e);
    if (!w->keep) unlink(path);
    return rc;
}

/* ---- all of them ---- */

static int write_docs(const work *w, sk_err *e) {
    sk_buf table = {0};
    if (!w->o->docs) return SKIPPY_OK;
    sk_certify_table_write(&table, w->rows, w->n_rows);
    int rc = sk_certify_table_insert(w->o->docs, &table, e);
    sk_buf_free(&table);
    return rc;
}

int sk_certify_synthetic(sk_certify_cli *o, json_t *list, bool *passed, sk_err *e) {
    sk_synth_family_info f;
    int rc = SKIPPY_OK;
    work *w = calloc(1, sizeof *w);
    if (!w) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    *w = (work){.o = o, .list = list, .passed = true, .report = calloc(1, sizeof *w->report)};
    if (!w->report) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
        goto out;
    }
    rc = open_folder(w, e);
    if (rc) goto out;
    for (size_t i = 0; rc == SKIPPY_OK && sk_synth_family_at(i, &f); i++) rc = certify_family(w, f.name, e);
    close_folder(w);
    if (rc == SKIPPY_OK) rc = write_docs(w, e);
    *passed = w->passed;
out:
    free(w->report);
    free(w);
    return rc;
}
