#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <jansson.h>

#include "cli/load_bar.h"
#include "cli/package_actions.h"
#include "runtime/native_log.h"
#include "runtime/package.h"

/* A run of the command. */
typedef struct run {
    const package_options *o;
    sk_load_bar bar;
    json_t *problems; /* with --json */
    size_t n_problems;
} run;

static bool on_progress(void *ud, uint64_t done, uint64_t total) {
    run *r = ud;
    if (r->bar.tty) sk_load_bar_show(&r->bar, total ? (float)((double)done / (double)total) : 1.0f);
    return true;
}

static void on_problem(void *ud, const sk_package_problem *p) {
    run *r = ud;
    char layer[24] = "";
    r->n_problems++;
    if (r->o->json) {
        json_t *one = json_pack("{s:s, s:s, s:s}", "part", p->part->path, "role", sk_part_role_names[p->part->role],
                                "problem", p->text);
        if (p->part->layer >= 0) json_object_set_new(one, "layer", json_integer(p->part->layer));
        json_array_append_new(r->problems, one);
        return;
    }
    if (p->part->layer >= 0) snprintf(layer, sizeof layer, " %d", (int)p->part->layer);
    printf("%s%s: %s\n", sk_part_role_names[p->part->role], layer, p->text);
}

static int write_json(const run *r, bool whole, sk_err *e) {
    json_t *root = json_pack("{s:s, s:b, s:O}", "package", r->o->operand, "whole", whole, "problems", r->problems);
    const bool ok = root && json_dumpf(root, stdout, JSON_INDENT(1)) == 0 && puts("") != EOF && fflush(stdout) == 0;
    json_decref(root);
    return ok ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_IO, "cannot write to standard output");
}

int package_verify(const package_options *o) {
    sk_err e = {0}, late = {0};
    run r = {.o = o,
             .bar = {.out = stderr, .tty = isatty(STDERR_FILENO) == 1, .what = "verifying", .shown = -1},
             .problems = o->json ? json_array() : NULL};
    sk_native_log_install();
    const int rc = sk_package_verify(o->operand, on_progress, &r, on_problem, &e);
    int code = rc == SKIPPY_OK ? PACKAGE_DONE : package_error(o, &e);
    if (rc == SKIPPY_OK && !o->json) printf("%s: every part is what the manifest says\n", o->operand);
    if (o->json && (rc == SKIPPY_OK || r.n_problems) && write_json(&r, rc == SKIPPY_OK, &late) != SKIPPY_OK)
        code = package_error(o, &late);
    json_decref(r.problems);
    return code;
}
