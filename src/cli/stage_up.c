/* `skippy stage up`: a whole split on this machine, and one process that watches over the others. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "cli/stage_actions.h"
#include "cli/stage_certificate.h"
#include "cli/stage_child.h"
#include "cli/stage_up_options.h"
#include "cli/stage_weights.h"

typedef struct split {
    sk_up_options o;
    sk_up_shares shares;
    sk_cut_plan plan;
    char folder[128];                  /* of the sockets; "" = not made */
    int signals;                       /* signalfd */
    sk_child child[SK_CUT_STAGES_MAX]; /* 0: the head, which is started last */
    bool stopping, failed;
} split;

/* Is one of the signals waiting that ask for the end? They are blocked, so this works before anything reads them. */
static bool go_on(void) {
    sigset_t waiting;
    return sigpending(&waiting) != 0 || !(sigismember(&waiting, SIGINT) || sigismember(&waiting, SIGTERM));
}

static int open_signals(split *s, sk_err *e) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    s->signals = signalfd(-1, &set, SFD_CLOEXEC);
    return s->signals >= 0 ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_IO, "signals cannot be received: %s", strerror(errno));
}

/* Only we may look into it. Short: the path of a unix socket holds about a hundred characters. */
static int make_folder(split *s, sk_err *e) {
    const char *base = getenv("XDG_RUNTIME_DIR");
    if (!base || !*base) base = getenv("TMPDIR");
    if (!base || !*base) base = "/tmp";
    int n = snprintf(s->folder, sizeof s->folder, "%s/skippy-up-XXXXXX", base);
    if (n > 0 && n < 80 && mkdtemp(s->folder)) return SKIPPY_OK;
    s->folder[0] = '\0';
    return sk_err_set(e, SKIPPY_E_IO, "no folder for sockets could be made in '%.200s': %s. Set TMPDIR", base,
                      n < 80 ? strerror(errno) : "its path is too long");
}

static void remove_folder(split *s) {
    char path[256];
    if (!s->folder[0]) return;
    for (size_t i = 1; i < s->plan.n_stages; i++) {
        snprintf(path, sizeof path, "%s/%zu.sock", s->folder, i);
        unlink(path);
    }
    rmdir(s->folder);
}

/* Folders of the disk stores: each process has its own. */
static void make_store_folders(const split *s) {
    const char *dir = s->o.serve.run.engine.disk_dir;
    char path[1200];
    if (!dir) return;
    mkdir(dir, 0700); /* what went wrong shows when a store is opened */
    for (size_t i = 0; i < s->plan.n_stages; i++) {
        snprintf(path, sizeof path, "%s/stage-%zu", dir, i);
        mkdir(path, 0700);
    }
}

static bool is_certified(const split *s, const sk_tensor_source *t) {
    char source[2 * sizeof t->digest.bytes + 1], text[700];
    sk_hex(t->digest.bytes, sizeof t->digest.bytes, source);
    for (size_t i = 0; i < s->plan.n_stages; i++)
        if (!sk_stage_certificate_find(s->o.serve.receipts, source, s->plan.stage[i], &s->o.serve.run.engine, text,
                                       sizeof text, NULL))
            return false;
    return true;
}

/* Compares the stages with the whole model, where no receipts say that this was done. */
static int certify(const split *s, sk_weights_source *source, sk_err *e) {
    const sk_serve_options *o = &s->o.serve;
    sk_run_options run = o->run;
    sk_stage_certify_report *report = NULL;
    if (is_certified(s, &source->tensors)) return SKIPPY_OK;
    report = calloc(1, sizeof *report);
    if (!report) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    if (run.engine.n_threads == 0) run.engine.n_threads = (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
    sk_log(SK_LOG_INFO, "comparing the stages with the whole model (--no-certify skips this)");
    int rc = sk_stage_certificate_make(source, o->run.model.path, &s->plan, &o->split, &run, o->receipts, report, e);
    if (rc == SKIPPY_OK && !report->passed) rc = sk_err_set(e, SKIPPY_E_UNSUPPORTED, "%s", report->verdict);
    if (rc == SKIPPY_OK) sk_log(SK_LOG_INFO, "certified: %s", report->verdict);
    free(report);
    return rc;
}

static int prepare(split *s, sk_err *e) {
    const sk_serve_options *o = &s->o.serve;
    char text[400];
    sk_weights_source source;
    int64_t ctx = 0;
    int rc = sk_weights_source_open(o->run.model.path, &o->split, go_on, &source, e);
    if (rc == SKIPPY_OK) rc = sk_cut_plan_make(&source.tensors, s->o.n_stages, NULL, &s->plan, e);
    if (rc == SKIPPY_OK) {
        sk_tensor_source_int(&source.tensors, "context_length", &ctx);
        s->shares = sk_up_shares_make(&s->o, ctx, sysconf(_SC_NPROCESSORS_ONLN));
        sk_log(SK_LOG_INFO, "cutting '%s' into %u stages: %s", source.tensors.name, s->o.n_stages,
               sk_cut_plan_text(&s->plan, text, sizeof text));
        if (!s->o.no_certify) rc = certify(s, &source, e);
    }
    sk_weights_source_close(&source);
    return rc;
}

static int start_child(split *s, size_t i, sk_err *e) {
    sk_arg_list words = {0};
    char name[32];
    snprintf(name, sizeof name, i == 0 ? "the head" : "stage %zu", i);
    sk_up_arguments(&s->o, &s->shares, &s->plan, i, s->folder, &words);
    int rc = words.failed ? sk_err_set(e, SKIPPY_E_NOMEM, "out of memory") : SKIPPY_OK;
    if (rc == SKIPPY_OK) rc = sk_child_start(&s->child[i], name, words.v, i != 0, e);
    sk_arg_list_free(&words);
    return rc;
}

static bool any_runs(const split *s) {
    for (size_t i = 0; i < s->plan.n_stages; i++)
        if (s->child[i].pid) return true;
    return false;
}

/* The head first: it ends what runs while its stages are still there. */
static void tell_to_stop(split *s) {
    s->stopping = true;
    if (s->child[0].pid) {
        kill(s->child[0].pid, SIGTERM);
        return;
    }
    for (size_t i = 1; i < s->plan.n_stages; i++)
        if (s->child[i].pid) kill(s->child[i].pid, SIGTERM);
}

static void child_ended(split *s, size_t i, int status) {
    sk_child *c = &s->child[i];
    /* a child that is told to stop before it minds signals is ended by them */
    const bool clean = (WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
                       (s->stopping && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    c->pid = 0;
    sk_child_finish(c);
    if (!clean && WIFEXITED(status))
        fprintf(stderr, "skippy stage up: %s ended with code %d\n", c->name, WEXITSTATUS(status));
    else if (!clean)
        fprintf(stderr, "skippy stage up: %s was ended by signal %d\n", c->name, WTERMSIG(status));
    else if (!s->stopping)
        fprintf(stderr, "skippy stage up: %s ended\n", c->name);
    if (!clean || (!s->stopping && i != 0)) s->failed = true;
    if (!s->stopping || i == 0) tell_to_stop(s);
}

static void reap(split *s) {
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (size_t i = 0; i < s->plan.n_stages; i++)
            if (s->child[i].pid == pid) child_ended(s, i, status);
}

static void take_signal(split *s) {
    struct signalfd_siginfo info;
    if (read(s->signals, &info, sizeof info) != (ssize_t)sizeof info) return;
    if (info.ssi_signo == SIGCHLD)
        reap(s);
    else
        tell_to_stop(s);
}

/* Waits for something to happen, and sees to it. */
static void step(split *s) {
    struct pollfd polls[1 + 2 * SK_CUT_STAGES_MAX] = {{.fd = s->signals, .events = POLLIN}};
    size_t n = 1;
    for (size_t i = 0; i < s->plan.n_stages; i++) n += sk_child_polls(&s->child[i], polls + n);
    if (poll(polls, n, -1) < 0) return;
    for (size_t i = 0; i < s->plan.n_stages; i++) sk_child_read(&s->child[i]);
    if (polls[0].revents) take_signal(s);
}

static bool stages_ready(const split *s) {
    for (size_t i = 1; i < s->plan.n_stages; i++)
        if (!s->child[i].ready) return false;
    return true;
}

/* Starts the stages, then the head, and stays until all have ended. */
static int watch(split *s, sk_err *e) {
    int rc = SKIPPY_OK;
    for (size_t i = 0; i < s->plan.n_stages; i++) s->child[i] = (sk_child){.out = -1, .err = -1};
    /* Stages of one machine work in turns: workers that spin when their turn is over would take the processors from the
     * next one. */
    (void)setenv("OMP_WAIT_POLICY", "passive", 0);
    for (size_t i = 1; i < s->plan.n_stages && rc == SKIPPY_OK; i++) rc = start_child(s, i, e);
    while (rc == SKIPPY_OK && !s->stopping && !stages_ready(s)) step(s);
    if (rc == SKIPPY_OK && !s->stopping) rc = start_child(s, 0, e);
    if (rc != SKIPPY_OK) tell_to_stop(s);
    while (any_runs(s)) step(s);
    return rc;
}

static int run(split *s, sk_err *e) {
    int rc = open_signals(s, e);
    if (rc == SKIPPY_OK) rc = prepare(s, e);
    if (rc == SKIPPY_OK) rc = make_folder(s, e);
    if (rc == SKIPPY_OK) {
        make_store_folders(s);
        rc = watch(s, e);
    }
    remove_folder(s);
    if (s->signals >= 0) close(s->signals);
    return rc;
}

int stage_up(int argc, char **argv) {
    split s = {.signals = -1};
    sk_err e = {0};
    int rc = sk_up_options_parse(&s.o, argc, argv, &e), code = STAGE_DONE;
    if (rc != SKIPPY_OK) {
        fprintf(stderr, "%s up: %s. Try '%s up --help'.\n", argv[0], e.text, argv[0]);
        code = STAGE_USAGE;
    } else if (s.o.serve.run.help) {
        sk_up_options_help();
    } else {
        rc = run(&s, &e);
        if (rc != SKIPPY_OK && rc != SKIPPY_E_CANCELLED) fprintf(stderr, "%s up: %s\n", argv[0], e.text);
        code = s.failed || (rc != SKIPPY_OK && rc != SKIPPY_E_CANCELLED) ? STAGE_FAILED : STAGE_DONE;
    }
    sk_up_options_free(&s.o);
    return code;
}
