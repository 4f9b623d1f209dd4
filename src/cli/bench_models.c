#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/family/models.h"
#include "bench/interrupt.h"
#include "cli/args.h"
#include "cli/bench_exit.h"
#include "cli/bench_family.h"

enum {
    ARG_ROOT = 1,
    ARG_SYNTHETIC,
    ARG_CASES,
    ARG_LAYERS,
    ARG_LIMIT,
    ARG_ACTIVE,
    ARG_SEED,
    ARG_SKIPPY,
    ARG_JSON,
    ARG_HELP
};

static const sk_arg_def defs[] = {
    {ARG_ROOT, "--root", "DIR", NULL, "the folder: plain files, KEY.gguf, or a Hugging Face cache"},
    {ARG_SYNTHETIC, "--synthetic", NULL, NULL,
     "make what is missing: the family's real width, random weights, fewer layers"},
    {ARG_CASES, "--cases", "A,B", NULL, "make only these, by key (default: all with a whole GGUF)"},
    {ARG_LAYERS, "--layers", "N", NULL, "layers of each (default: what stays below the limit)"},
    {ARG_LIMIT, "--max-mib", "N", NULL, "largest file to make (default: 5120)"},
    {ARG_ACTIVE, "--max-active-m", "N", NULL,
     "most million weights of the layers that a token goes through; bounds the time of a run (default: any)"},
    {ARG_SEED, "--seed", "N", NULL, "seed of the weights (default: 1)"},
    {ARG_SKIPPY, "--skippy", "PATH", NULL, "the program that makes them (default: this one)"},
    {ARG_JSON, "--json", NULL, NULL, "the list as JSON"},
    {ARG_HELP, "-h --help", NULL, NULL, "this text"},
};
enum { N_DEFS = sizeof defs / sizeof *defs };

typedef struct options {
    sk_models_options make;
    bool synthetic, json, help;
    char self[PATH_MAX], root[PATH_MAX];
} options;

static void print_help(void) {
    puts("Usage: skippy bench models --root DIR [--synthetic] [options]\n"
         "\n"
         "Says for each of the fourteen presets of the family benchmark whether its model is in DIR, and where.\n");
    sk_args_help(defs, N_DEFS, stdout);
    puts("\nExamples:\n"
         "  skippy bench models --root ~/.cache/huggingface/hub\n"
         "  skippy bench models --root models --synthetic --cases llama,falcon_h1\n"
         "\n"
         "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.");
}

static int usage_error(const char *self, const char *text) {
    fprintf(stderr, "%s: %s. Try 'skippy bench models --help'.\n", self, text);
    return SK_BENCH_USAGE;
}

static bool take_limit(const sk_args *a, sk_models_options *m, sk_err *e) {
    uint64_t mib = 0;
    const bool ok = sk_args_u64(a, 1, (uint64_t)1 << 24, &mib, e);
    m->file_limit = mib << 20;
    return ok;
}

static bool take_active(const sk_args *a, sk_models_options *m, sk_err *e) {
    uint64_t millions = 0;
    const bool ok = sk_args_u64(a, 1, 1000000, &millions, e);
    m->active_limit = millions * 1000000;
    return ok;
}

/* The folder with its name from the root on: models are found by it from anywhere. */
static int find_root(options *o, sk_err *e) {
    if (o->synthetic && mkdir(o->make.root, 0777) != 0 && errno != EEXIST)
        return sk_err_set(e, SKIPPY_E_IO, "cannot make the folder '%s': %s", o->make.root, strerror(errno));
    if (!realpath(o->make.root, o->root))
        return sk_err_set(e, SKIPPY_E_NOT_FOUND, "cannot find the folder '%s': %s", o->make.root, strerror(errno));
    o->make.root = o->root;
    return SKIPPY_OK;
}

static bool take(const sk_args *a, int id, options *o, sk_err *e) {
    switch (id) {
    case ARG_ROOT: o->make.root = a->value; return true;
    case ARG_SYNTHETIC: o->synthetic = true; return true;
    case ARG_CASES: return sk_presets_parse(a->value, o->make.only, &o->make.n_only, e) == SKIPPY_OK;
    case ARG_LAYERS: return sk_args_i32(a, 1, 1024, &o->make.layers, e);
    case ARG_LIMIT: return take_limit(a, &o->make, e);
    case ARG_ACTIVE: return take_active(a, &o->make, e);
    case ARG_SEED: return sk_args_u64(a, 0, UINT32_MAX, &o->make.seed, e);
    case ARG_SKIPPY: o->make.skippy = a->value; return true;
    case ARG_JSON: o->json = true; return true;
    default: o->help = true; return true;
    }
}

int sk_cli_bench_models(int argc, char **argv) {
    static options o; /* its path is too large for the stack */
    sk_args a = {.defs = defs, .n_defs = N_DEFS, .argc = argc, .argv = argv, .at = 1};
    sk_err e = {0};
    o = (options){.make = {.seed = 1, .progress = stderr}};
    for (int id; (id = sk_args_next(&a, &e)) != 0;) {
        if (id < 0 || !take(&a, id, &o, &e)) return usage_error(argv[0], e.text);
        if (o.help) {
            print_help();
            return SK_BENCH_DONE;
        }
    }
    if (!o.make.root) return usage_error(argv[0], "which folder? Give --root DIR");
    const ssize_t n = readlink("/proc/self/exe", o.self, sizeof o.self - 1);
    o.self[n > 0 ? n : 0] = '\0';
    if (!o.make.skippy) o.make.skippy = o.self;
    sk_interrupt_install();
    int rc = find_root(&o, &e);
    if (rc == SKIPPY_OK && o.synthetic) rc = sk_models_make(&o.make, &e);
    if (rc == SKIPPY_OK) rc = sk_models_print(o.make.root, stdout, o.json, &e);
    if (rc != SKIPPY_OK) fprintf(stderr, "%s: %s\n", argv[0], e.text);
    return sk_bench_exit(rc);
}
