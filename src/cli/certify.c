#include "cli/certify.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/certify_options.h"
#include "cli/certify_show.h"
#include "cli/certify_stage.h"
#include "cli/certify_stages.h"
#include "cli/certify_synthetic.h"
#include "correctness/receipt.h"
#include "correctness/stage_receipt.h"
#include "correctness/worker.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* How a certification starts the program again. */
static const char *const worker_argv[] = {"/proc/self/exe", "certify", "--restore-worker", NULL};

static volatile sig_atomic_t stop_asked;

static void on_signal(int sig) {
    stop_asked = sig;
}

/* Progress goes to standard error: one line that is overwritten on a terminal. */
static bool on_progress(void *ud, const char *what) {
    (void)ud;
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K%s ...", what);
    return stop_asked == 0;
}

static void end_progress(void) {
    if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
}

/* Where `serve` remembers digests of weights. */
static const char *digest_dir(char *buf, size_t cap) {
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (base && *base)
        n = snprintf(buf, cap, "%s/skippy", base);
    else if (home && *home)
        n = snprintf(buf, cap, "%s/.cache/skippy", home);
    return n > 0 && (size_t)n < cap ? buf : NULL;
}

static int write_receipt(const sk_certify_cli *o, const sk_certify_report *r, sk_err *e) {
    char dir[1024], path[1200];
    if (o->no_receipt) return SKIPPY_OK;
    if (o->receipts)
        snprintf(dir, sizeof dir, "%s", o->receipts);
    else if (!sk_receipt_default_dir(dir, sizeof dir))
        return sk_err_set(e, SKIPPY_E_IO, "there is no folder for receipts: set HOME, or give --receipts DIR");
    int rc = r->identity.alone
                 ? sk_stage_receipt_write_alone(dir, r, o->run.flash_attn, SKIPPY_VERSION, path, sizeof path, e)
                 : sk_receipt_write(dir, r, SKIPPY_VERSION, path, sizeof path, e);
    if (rc == SKIPPY_OK) fprintf(o->json ? stderr : stdout, "receipt: %s\n", path);
    return rc;
}

/* The receipt of a stage stands for all its layouts: the first failure, or the last pass. */
static bool wants_receipt(const sk_certify_report *r, bool failed_before, bool more_follow) {
    if (!r->identity.alone) return true;
    return r->passed ? !failed_before && !more_follow : !failed_before;
}

/* *windowed: the model has a window, so that there is another layout. */
static int certify_layout(sk_certify_cli *o, bool swa_full, json_t *list, sk_certify_report *r, bool *windowed,
                          bool *passed, sk_err *e) {
    o->run.swa_full = swa_full;
    int rc = sk_certify_run(&o->run, r, e);
    end_progress();
    if (rc) return rc;
    const bool failed_before = !*passed;
    *windowed = r->identity.n_swa > 0;
    *passed = *passed && r->passed;
    if (!o->json) sk_certify_show(r, stdout);
    rc = sk_certify_collect(list, r, e);
    const bool more_follow = *windowed && o->window == SK_WINDOW_BOTH && !swa_full;
    if (rc == SKIPPY_OK && wants_receipt(r, failed_before, more_follow)) rc = write_receipt(o, r, e);
    sk_certify_report_free(r);
    return rc;
}

/* A sliding-window model has two layouts; others have one, whatever --window says. */
static int certify_model(sk_certify_cli *o, json_t *list, bool *passed, sk_err *e) {
    sk_certify_report *r = calloc(1, sizeof *r);
    bool windowed = false;
    if (!r) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    int rc = certify_layout(o, o->window == SK_WINDOW_FULL, list, r, &windowed, passed, e);
    if (rc == SKIPPY_OK && windowed && o->window == SK_WINDOW_BOTH) {
        sk_err why = {0};
        if (!o->json) putchar('\n');
        rc = certify_layout(o, true, list, r, &windowed, passed, &why);
        if (rc) sk_err_set(e, rc, "with the full window cache: %.400s (--window sliding leaves it out)", why.text);
    }
    free(r);
    return rc;
}

static bool go_on(void) {
    return stop_asked == 0;
}

/* A model as it is, or a stage of one, which is put together first. */
static int certify_weights(sk_certify_cli *o, json_t *list, bool *passed, sk_err *e) {
    sk_certify_stage stage;
    json_t *report;
    size_t i;
    int rc = sk_certify_stage_prepare(o, go_on, &stage, e);
    end_progress();
    if (rc == SKIPPY_OK && !o->json) sk_certify_stage_show(&stage, stdout);
    if (rc == SKIPPY_OK) rc = certify_model(o, list, passed, e);
    if (rc == SKIPPY_OK && stage.package) json_array_foreach(list, i, report) {
            json_object_set(report, "package", stage.package);
        }
    sk_certify_stage_release(&stage);
    return rc;
}

static int run(sk_certify_cli *o, sk_err *e, bool *passed) {
    json_t *list = json_array();
    *passed = true;
    int rc = list ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    if (rc == SKIPPY_OK)
        rc = o->all_synthetic ? sk_certify_synthetic(o, list, passed, e) : certify_weights(o, list, passed, e);
    if (rc == SKIPPY_OK && o->json) rc = sk_certify_write_json(list, NULL, e);
    if (rc == SKIPPY_OK && o->report_out) rc = sk_certify_write_json(list, o->report_out, e);
    json_decref(list);
    return rc;
}

int sk_cli_certify(int argc, char **argv) {
    const struct sigaction stop = {.sa_handler = on_signal};
    sk_certify_cli o;
    sk_err e = {0};
    char digests[1024];
    bool passed = false;
    if (argc == 3 && strcmp(argv[1], "--restore-worker") == 0) return sk_worker_main(argv[2]);
    if (sk_certify_cli_parse(&o, argc, argv, &e)) {
        fprintf(stderr, "%s: %s. Try '%s --help'.\n", argv[0], e.text, argv[0]);
        return EXIT_USAGE;
    }
    if (o.help) {
        sk_certify_cli_help();
        return EXIT_DONE;
    }
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    o.run.digest_dir = digest_dir(digests, sizeof digests);
    o.run.worker_argv = worker_argv;
    o.run.progress = on_progress;
    int rc = o.stages || o.cuts ? sk_certify_stages(&o, go_on, &passed, &e) : run(&o, &e, &passed);
    if (rc) fprintf(stderr, "%s: %s\n", argv[0], e.text);
    return rc == SKIPPY_OK && passed ? EXIT_DONE : EXIT_FAILED;
}
