#include "bench/family/model_maker.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "bench/family/shape.h"
#include "bench/process.h"
#include "runtime/synth.h"

enum { TICK_MS = 10000, STOP_GRACE_MS = 10000, OPEN_FOLDERS = 16 };

#define DISK_RESERVE (UINT64_C(256) << 20) /* what 'skippy synth' leaves free, too */

/* One model on its way: the names of everything that must be gone at the end. */
typedef struct maker {
    const sk_models_options *o;
    const sk_preset *preset;
    char part[PATH_MAX];    /* the GGUF while it is made */
    char package[PATH_MAX]; /* the package while it is made */
    char target[PATH_MAX];
    char log[PATH_MAX];
    uint64_t start_ns;
} maker;

static void say(const maker *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(const maker *m, const char *fmt, ...) {
    va_list ap;
    if (!m->o->progress) {
        return;
    }
    fprintf(m->o->progress, "[%7.1f s] %s: ", (double)(sk_now_ns() - m->start_ns) / 1e9, m->preset->key);
    va_start(ap, fmt);
    vfprintf(m->o->progress, fmt, ap);
    va_end(ap);
    fputc('\n', m->o->progress);
    fflush(m->o->progress);
}

/* ---- files ---- */

static bool name_file(const maker *m, const char *tail, char out[PATH_MAX]) {
    const int n = snprintf(out, PATH_MAX, "%s/%s%s", m->o->root, m->preset->key, tail);
    return n >= 0 && n < PATH_MAX - 32; /* room for what synth appends */
}

static int name_files(maker *m, sk_err *e) {
    const bool package = m->preset->artifact == SK_ARTIFACT_PACKAGE;
    const bool ok = name_file(m, ".gguf.part", m->part) && name_file(m, ".part", m->package) &&
                    name_file(m, ".log", m->log) && name_file(m, package ? "" : ".gguf", m->target);
    return ok ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_INVALID, "the path '%.200s' is too long", m->o->root);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where) {
    (void)st;
    (void)type;
    (void)where;
    return remove(path);
}

/* Also what an earlier run left that was killed. Nothing to remove is no error. */
static void remove_scratch(const maker *m) {
    char path[PATH_MAX];
    for (int which = 0; which < 2; which++) {
        if (sk_synth_scratch_path(m->part, which, path, sizeof path) == SKIPPY_OK) {
            unlink(path);
        }
    }
    unlink(m->part);
    unlink(m->log);
    nftw(m->package, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

/* 'synth' writes halves of all weights first, and quantises from them; a package is a second copy. */
static int check_disk(const maker *m, int32_t layers, sk_err *e) {
    struct statvfs fs;
    sk_shape_size size;
    if (!sk_shape_size_of(m->preset->synth, layers, &size) || statvfs(m->o->root, &fs) != 0) {
        return sk_err_set(e, SKIPPY_E_IO, "the folder '%.200s' cannot be used: %s", m->o->root, strerror(errno));
    }
    const uint64_t copies = m->preset->artifact == SK_ARTIFACT_PACKAGE ? 2 : 1;
    const uint64_t need = 2 * size.parameters + copies * size.bytes + DISK_RESERVE;
    const uint64_t have = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (need <= have) {
        return SKIPPY_OK;
    }
    return sk_err_set(e, SKIPPY_E_IO,
                      "'%.200s' has %.1f GiB free, but %s with %" PRId32 " layers needs %.1f GiB while it is made",
                      m->o->root, (double)have / (1 << 30), m->preset->key, layers, (double)need / (1 << 30));
}

/* ---- the program's commands ---- */

/* The last line of the log, without its end. */
static void last_words(const sk_process *p, char *out, size_t cap) {
    sk_buf tail = {0};
    sk_process_log_tail(p, 1, &tail);
    snprintf(out, cap, "%.300s", tail.data ? tail.data : "");
    out[strcspn(out, "\n")] = '\0';
    sk_text_clean(out);
    sk_buf_free(&tail);
}

static int await(const maker *m, sk_process *p, int *status, sk_err *e) {
    char words[320];
    for (;;) {
        const int rc = sk_process_wait(p, TICK_MS, status, e);
        if (rc != SKIPPY_E_TIMEOUT) {
            return rc;
        }
        last_words(p, words, sizeof words);
        say(m, "%s", words[0] ? words : "working");
    }
}

static int run(const maker *m, const char *const *argv, sk_err *e) {
    sk_process p;
    char words[320];
    int status = 0;
    int rc = sk_process_start(&p, argv, NULL, m->log, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    rc = await(m, &p, &status, e);
    if (rc != SKIPPY_OK) {
        sk_process_stop(&p, STOP_GRACE_MS);
        return rc;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return SKIPPY_OK;
    }
    last_words(&p, words, sizeof words);
    if (WIFSIGNALED(status)) {
        return sk_err_set(e, SKIPPY_E_RUNTIME, "%s: '%s %s' was ended by signal %d", m->preset->key, argv[0], argv[1],
                          WTERMSIG(status));
    }
    return sk_err_set(e, SKIPPY_E_RUNTIME, "%s: %s", m->preset->key,
                      words[0] ? words : "the program ended without a word");
}

static int run_synth(const maker *m, int32_t layers, sk_err *e) {
    char number[16];
    char seed[32];
    snprintf(number, sizeof number, "%" PRId32, layers);
    snprintf(seed, sizeof seed, "%" PRIu64, m->o->seed);
    const char *const argv[] = {m->o->skippy, "synth",    "--family", m->preset->synth, "--size",
                                "shape",      "--layers", number,     "--quant",        "q4_k_m",
                                "--seed",     seed,       "--out",    m->part,          NULL};
    return run(m, argv, e);
}

static int run_package(const maker *m, sk_err *e) {
    const char *const argv[] = {m->o->skippy, "package", m->part, "--output", m->package, NULL};
    return run(m, argv, e);
}

static int publish(const maker *m, const char *made, sk_err *e) {
    return rename(made, m->target) == 0
               ? SKIPPY_OK
               : sk_err_set(e, SKIPPY_E_IO, "cannot rename '%.150s' to '%.150s': %s", made, m->target, strerror(errno));
}

static int make(const maker *m, int32_t layers, sk_err *e) {
    const bool package = m->preset->artifact == SK_ARTIFACT_PACKAGE;
    int rc = check_disk(m, layers, e);
    if (rc == SKIPPY_OK) {
        rc = run_synth(m, layers, e);
    }
    if (rc == SKIPPY_OK && package) {
        rc = run_package(m, e);
    }
    return rc == SKIPPY_OK ? publish(m, package ? m->package : m->part, e) : rc;
}

int sk_model_maker_run(const sk_models_options *o, const sk_preset *p, int32_t layers, sk_err *e) {
    maker m = {.o = o, .preset = p, .start_ns = sk_now_ns()};
    struct stat st;
    sk_shape_size size = {0};
    int rc = name_files(&m, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    sk_shape_size_of(p->synth, layers, &size);
    say(&m, "%" PRId32 " of %" PRId32 " layers, about %.1f GiB", layers, p->layers, (double)size.bytes / (1 << 30));
    remove_scratch(&m);
    rc = make(&m, layers, e);
    remove_scratch(&m);
    if (rc == SKIPPY_OK && stat(m.target, &st) == 0 && S_ISREG(st.st_mode)) {
        say(&m, "made, %.2f GiB", (double)st.st_size / (1 << 30));
    } else if (rc == SKIPPY_OK) {
        say(&m, "made");
    }
    return rc;
}
