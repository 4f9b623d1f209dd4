#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/digest_dir.h"
#include "cli/inspect_names.h"
#include "cli/load_bar.h"
#include "cli/package_actions.h"
#include "runtime/native_log.h"
#include "runtime/package.h"

static volatile sig_atomic_t stop_asked;

static void on_signal(int sig) {
    stop_asked = sig;
}

static bool on_progress(void *ud, uint64_t done, uint64_t total) {
    sk_load_bar_show(ud, total ? (float)((double)done / (double)total) : 1.0f);
    return stop_asked == 0;
}

static sk_load_bar bar_for(const char *what) {
    return (sk_load_bar){.out = stderr, .tty = isatty(STDERR_FILENO) == 1, .what = what, .shown = -1};
}

/* A package of another model is not overwritten by accident: its parts would stay, and nothing would name them. */
static int check_target(const package_options *o, const sk_tensor_source *s, sk_err *e) {
    const sk_package_access access = {.location = o->out};
    sk_package old;
    sk_err why = {0};
    const int rc = sk_package_load(&access, &old, &why);
    if (rc == SKIPPY_E_NOT_FOUND || o->replace) {
        if (rc == SKIPPY_OK) sk_package_free(&old);
        return SKIPPY_OK;
    }
    if (rc != SKIPPY_OK)
        return sk_err_set(e, SKIPPY_E_EXISTS,
                          "%.200s holds a package that cannot be read (%.200s); --replace replaces it", o->out,
                          why.text);
    const bool same = skippy_key_equal(&old.source_digest, &s->digest);
    if (!same)
        sk_err_set(e, SKIPPY_E_EXISTS, "%.200s holds a package of '%s'; choose another folder, or give --replace",
                   o->out, old.model_id);
    sk_package_free(&old);
    return same ? SKIPPY_OK : SKIPPY_E_EXISTS;
}

static int summarise(const package_options *o, sk_err *e) {
    const sk_package_access access = {.location = o->out};
    char size[SIZE_CHARS];
    sk_package p;
    uint64_t bytes = 0;
    const int rc = sk_package_load(&access, &p, e);
    if (rc != SKIPPY_OK) return rc;
    for (size_t i = 0; i < p.n_parts; i++) bytes += p.parts[i].bytes;
    printf("%s: '%s' (%s, %d layers) in %zu parts, %s\n", o->out, p.model_id, p.arch, (int)p.n_layer, p.n_parts,
           size_of(bytes, size));
    sk_package_free(&p);
    return SKIPPY_OK;
}

int package_create(const package_options *o) {
    const struct sigaction stop = {.sa_handler = on_signal};
    char digests[1024];
    sk_err e = {0};
    sk_tensor_source s = {0};
    sk_load_bar reading = bar_for("reading the model"), writing = bar_for("writing the package");
    stop_asked = 0;
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sk_native_log_install();
    int rc = sk_tensor_source_open_gguf(o->operand, sk_cli_digest_dir(digests, sizeof digests), on_progress, &reading,
                                        &s, &e);
    if (rc == SKIPPY_OK) rc = check_target(o, &s, &e);
    if (rc == SKIPPY_OK) rc = sk_package_write(&s, o->out, on_progress, &writing, &e);
    if (rc == SKIPPY_OK) rc = summarise(o, &e);
    sk_tensor_source_close(&s);
    return rc == SKIPPY_OK ? PACKAGE_DONE : package_error(o, &e);
}
