#include "bench/family/pipeline.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/family/prepare.h"
#include "bench/family/report.h"
#include "bench/family/run.h"
#include "bench/interrupt.h"
#include "bench/process.h"
#include "bench/report.h"

enum { PATH_CHARS = 1200, EVICT_TIMEOUT_MS = 600000, EVICT_LOG_LINES = 3 };

typedef struct stage {
    const char *input, *output; /* folders in OUT */
    const char *what;
    bool use_cases;
} stage;

static const stage STAGES[] = {
    {"full-input", "full-gguf", "families", false},
    {"use-cases-input", "use-cases", "use cases", true},
};
enum { N_STAGES = sizeof STAGES / sizeof *STAGES };

static void say(const sk_pipeline_options *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(const sk_pipeline_options *o, const char *fmt, ...) {
    if (!o->progress) return;
    va_list ap;
    va_start(ap, fmt);
    vfprintf(o->progress, fmt, ap);
    va_end(ap);
    fputc('\n', o->progress);
    fflush(o->progress);
}

static void in_out(const sk_pipeline_options *o, char path[PATH_CHARS], const char *name, const char *more) {
    snprintf(path, PATH_CHARS, "%s/%s%s", o->out_dir, name, more);
}

static bool exists(const char *path) {
    return access(path, F_OK) == 0;
}

static int make_folder(const char *path, sk_err *e) {
    if (mkdir(path, 0755) == 0 || errno == EEXIST) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_IO, "cannot make the folder '%s': %s", path, strerror(errno));
}

/* The request of an earlier run in this folder stays: the run that goes on is that one. */
static int write_request(const sk_pipeline_options *o, const char *path, sk_err *e) {
    json_t *root = NULL;
    if (exists(path)) {
        say(o, "going on with the request in '%s'", path);
        return SKIPPY_OK;
    }
    int rc = sk_request_make(&o->request, &root, e);
    char *text = rc == SKIPPY_OK ? json_dumps(root, JSON_INDENT(2)) : NULL;
    if (rc == SKIPPY_OK && !text) rc = sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the request");
    if (rc == SKIPPY_OK) rc = sk_report_write_file(path, text, strlen(text), e);
    free(text);
    json_decref(root);
    return rc;
}

static int prepare(const sk_pipeline_options *o, const stage *s, const char *request, sk_err *e) {
    char folder[PATH_CHARS], input[PATH_CHARS];
    in_out(o, folder, s->input, "");
    in_out(o, input, s->input, "/cache-family-input.json");
    if (exists(input)) return SKIPPY_OK;
    say(o, "preparing the %s", s->what);
    const sk_prepare_options p = {.operator_path = request,
                                  .out_dir = folder,
                                  .use_cases = s->use_cases,
                                  .corpus = s->use_cases ? o->request.corpus : NULL,
                                  .agent_corpus = s->use_cases ? NULL : o->request.agent_corpus,
                                  .progress = o->progress};
    return sk_prepare_run(&p, e);
}

static int measure(const sk_pipeline_options *o, const stage *s, const char *request, sk_err *e) {
    char input[PATH_CHARS], output[PATH_CHARS];
    int rc = prepare(o, s, request, e);
    if (rc != SKIPPY_OK) return rc;
    in_out(o, input, s->input, "/cache-family-input.json");
    in_out(o, output, s->output, "");
    say(o, "measuring the %s", s->what);
    const sk_family_run_options r = {
        .input_path = input, .out_dir = output, .version = o->version, .progress = o->progress};
    return sk_family_run(&r, e);
}

/* The simulation behind the plot of hit rates; no model is needed, and its output is always the same. */
static int simulate(const sk_pipeline_options *o, const char *json, sk_err *e) {
    char log[PATH_CHARS];
    sk_process p = {0};
    int status = 0;
    if (exists(json)) return SKIPPY_OK;
    in_out(o, log, "evict.log", "");
    const char *const argv[] = {o->request.skippy, "bench", "evict", "--json", NULL};
    int rc = sk_process_start(&p, argv, json, log, e);
    if (rc != SKIPPY_OK) return rc;
    rc = sk_process_wait(&p, EVICT_TIMEOUT_MS, &status, e);
    sk_process_stop(&p, 0);
    if (rc == SKIPPY_OK && status != 0) {
        sk_buf tail = {0};
        sk_process_log_tail(&p, EVICT_LOG_LINES, &tail);
        rc =
            sk_err_set(e, SKIPPY_E_RUNTIME, "'skippy bench evict' failed: %.300s", tail.len ? tail.data : "(no words)");
        sk_buf_free(&tail);
    }
    if (rc != SKIPPY_OK)
        unlink(json);
    else
        unlink(log);
    return rc;
}

static int report(const sk_pipeline_options *o, sk_err *e) {
    char rows[N_STAGES][PATH_CHARS], output[PATH_CHARS], todo[PATH_CHARS], html[PATH_CHARS], plots[PATH_CHARS],
        evict[PATH_CHARS];
    const char *inputs[N_STAGES];
    size_t n = 0;
    for (size_t i = 0; i < N_STAGES; i++) {
        in_out(o, rows[n], STAGES[i].output, "/production-cache-bench.json");
        if (exists(rows[n])) {
            inputs[n] = rows[n];
            n++;
        }
    }
    if (n == 0) return sk_err_set(e, SKIPPY_E_NOT_FOUND, "nothing was measured, so there is nothing to report");
    in_out(o, output, "readme-tables.md", "");
    in_out(o, todo, "TODO.md", "");
    in_out(o, html, "report.html", "");
    in_out(o, plots, "plots", "");
    in_out(o, evict, "evict.json", "");
    say(o, "writing the report");
    int rc = simulate(o, evict, e);
    if (rc != SKIPPY_OK) return rc;
    const sk_family_report_options r = {.inputs = inputs,
                                        .n_inputs = n,
                                        .corpus = o->request.corpus,
                                        .output = output,
                                        .todo = todo,
                                        .html = html,
                                        .plots = plots,
                                        .evict_json = evict,
                                        .gnuplot = o->gnuplot};
    rc = sk_family_report(&r, e);
    if (rc == SKIPPY_OK) say(o, "tables: %s\npage:   %s", output, html);
    return rc;
}

int sk_pipeline_run(const sk_pipeline_options *o, sk_err *e) {
    char request[PATH_CHARS];
    sk_err first = {0};
    int rc = make_folder(o->out_dir, e);
    in_out(o, request, "operator.json", "");
    if (rc == SKIPPY_OK && !o->operator_path) rc = write_request(o, request, e);
    if (rc != SKIPPY_OK) return rc;
    const char *asked = o->operator_path ? o->operator_path : request;
    for (size_t i = 0; i < N_STAGES; i++) {
        if (STAGES[i].use_cases ? o->skip_use_cases : o->skip_full) continue;
        rc = measure(o, &STAGES[i], asked, e);
        if (rc == SKIPPY_E_CANCELLED || sk_interrupted()) return rc == SKIPPY_OK ? SKIPPY_E_CANCELLED : rc;
        if (rc != SKIPPY_OK && first.code == SKIPPY_OK) sk_err_set(&first, rc, "%s", e->text);
        if (rc != SKIPPY_OK) say(o, "%s: %s", STAGES[i].what, e->text);
    }
    rc = report(o, e);
    return first.code != SKIPPY_OK ? sk_err_set(e, first.code, "%s", first.text) : rc;
}
