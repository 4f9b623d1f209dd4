#include "bench/family/plot_gnuplot.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "bench/family/plot_page.h"
#include "bench/process.h"

enum { PATH_CHARS = 1100, TIMEOUT_MS = 60000, LAST_WORDS = 6 };

typedef struct paths {
    char svg[PATH_CHARS], part[PATH_CHARS], log[PATH_CHARS];
} paths;

static int make_paths(const char *folder, const char *name, paths *p, sk_err *e) {
    const int svg = snprintf(p->svg, sizeof p->svg, "%s/%s.svg", folder, name);
    const int part = snprintf(p->part, sizeof p->part, "%s/%s.svg.part", folder, name);
    const int log = snprintf(p->log, sizeof p->log, "%s/%s.gnuplot.log", folder, name);
    if (svg < 0 || part < 0 || log < 0 || log >= PATH_CHARS || part >= PATH_CHARS) {
        return sk_err_set(e, SKIPPY_E_INVALID, "the path of the folder for plots is too long: '%.200s'", folder);
    }
    return SKIPPY_OK;
}

static int explain_start(int rc, const char *program, sk_err *e) {
    if (rc != SKIPPY_E_NOT_FOUND) {
        return rc;
    }
    return sk_err_set(e, rc,
                      "there is no gnuplot ('%s'), which draws the plots: install it (Debian: apt install gnuplot-nox, "
                      "or scripts/bootstrap --bench) or name the program",
                      program);
}

/* gnuplot ended: the file must be there. */
static int judge(const sk_process *p, int status, const char *name, const paths *to, sk_err *e) {
    struct stat st;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && stat(to->part, &st) == 0 && st.st_size > 0) {
        if (rename(to->part, to->svg) != 0) {
            return sk_err_set(e, SKIPPY_E_IO, "cannot write '%s': %s", to->svg, strerror(errno));
        }
        return SKIPPY_OK;
    }
    sk_buf words = {0};
    sk_process_log_tail(p, LAST_WORDS, &words);
    sk_err_set(e, SKIPPY_E_RUNTIME, "gnuplot could not draw '%s.gp'; its last words: %.400s", name,
               words.len ? sk_text_clean(words.data) : "(nothing)");
    sk_buf_free(&words);
    return SKIPPY_E_RUNTIME;
}

static int run(const char *const *argv, const char *name, const paths *to, sk_err *e) {
    sk_process p;
    int status = 0;
    int rc = sk_process_start(&p, argv, NULL, to->log, e);
    if (rc != SKIPPY_OK) {
        return explain_start(rc, argv[0], e);
    }
    rc = sk_process_wait(&p, TIMEOUT_MS, &status, e);
    if (rc != SKIPPY_OK) {
        sk_process_stop(&p, 0);
        return rc;
    }
    return judge(&p, status, name, to, e);
}

int sk_gnuplot_run(const char *gnuplot, const char *folder, const char *name, sk_err *e) {
    paths to;
    sk_buf go = {0}, output = {0}, program = {0};
    int rc = make_paths(folder, name, &to, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    /* gnuplot changes to the folder itself: its program names files without folders and works wherever it is copied. */
    sk_buf_str(&go, "cd ");
    sk_plot_quote(&go, folder);
    sk_buf_printf(&output, "output_file = '%s.svg.part'", name);
    sk_buf_printf(&program, "%s.gp", name);
    if (go.failed || output.failed || program.failed) {
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the command of gnuplot");
    } else {
        const char *const argv[] = {
            gnuplot ? gnuplot : "gnuplot", "-d", "-e", go.data, "-e", output.data, program.data, NULL};
        rc = run(argv, name, &to, e);
        remove(to.part);
        remove(to.log);
    }
    sk_buf_free(&go);
    sk_buf_free(&output);
    sk_buf_free(&program);
    return rc;
}
