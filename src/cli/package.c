#include "cli/package.h"

#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/layer_range.h"
#include "cli/package_actions.h"

enum { ARG_OUT = 1, ARG_REPLACE, ARG_JSON, ARG_LAYERS, ARG_CA, ARG_HELP };

static const sk_arg_def defs[] = {
    {ARG_OUT, "-o --output", "DIR", NULL, "where the package goes; made when it is not there"},
    {ARG_REPLACE, "--replace", NULL, NULL, "DIR may hold a package of another model; its parts stay"},
    {ARG_LAYERS, "--layers", "A..B", NULL, "inspect: what a stage of the layers A to B, both included, would fetch"},
    {ARG_CA, "--ca-file", "FILE", NULL, "inspect: authorities (PEM) to trust for https instead of the system's"},
    {ARG_JSON, "--json", NULL, NULL, "verify, inspect: one JSON object on standard output"},
    {ARG_HELP, "-h --help", NULL, NULL, "this text"},
};
enum { N_DEFS = sizeof defs / sizeof *defs };

static const struct action {
    const char *name; /* NULL: no word stands for it */
    const char *operand;
    int (*run)(const package_options *o);
} create = {NULL, "which model?", package_create}, actions[] = {
                                                       {"verify", "which package?", package_verify},
                                                       {"inspect", "which package?", package_inspect},
};
enum { N_ACTIONS = sizeof actions / sizeof *actions };

static void print_help(void) {
    puts(
        "Usage: skippy package MODEL.gguf -o DIR [--replace]\n"
        "       skippy package verify DIR [--json]\n"
        "       skippy package inspect DIR|URL [--layers A..B] [--json]\n"
        "\n"
        "Makes a package of a model: the same weights in one file for each layer, named by their content. Put DIR on a\n"
        "web server, and a machine that runs a stage of the model fetches only the layers of its stage. An interrupted\n"
        "run is continued by the same command. 'verify' reads every part and compares it with its digest.\n");
    sk_args_help(defs, N_DEFS, stdout);
    puts(
        "\n"
        "Examples:\n"
        "  skippy package model.gguf -o packages/model\n"
        "  skippy package verify packages/model\n"
        "  skippy package inspect packages/model --layers 3..4\n"
        "  skippy package inspect https://models.example.net/model --json\n"
        "\n"
        "Exit codes: 0 done, 1 failed (not there, not readable, stopped), 2 wrong usage, 3 refused, or the package is\n"
        "damaged.");
}

int package_error(const package_options *o, const sk_err *e) {
    fprintf(stderr, "%s: %s\n", o->program, e->text);
    switch (e->code) {
    case SKIPPY_E_CORRUPT:
    case SKIPPY_E_EXISTS:
    case SKIPPY_E_INVALID:
    case SKIPPY_E_TOO_LARGE:
    case SKIPPY_E_UNSUPPORTED: return PACKAGE_REFUSED;
    default: return PACKAGE_FAILED;
    }
}

static int usage(const package_options *o, const char *words) {
    const char *end = words[strlen(words) - 1] == '?' ? "" : ".";
    fprintf(stderr, "%s: %s%s Try 'skippy package --help'.\n", o->program, words, end);
    return PACKAGE_USAGE;
}

static const struct action *find_action(const char *name) {
    for (size_t i = 0; i < N_ACTIONS; i++)
        if (strcmp(actions[i].name, name) == 0) return &actions[i];
    return &create;
}

static bool take(const sk_args *a, int id, package_options *o, sk_err *e) {
    switch (id) {
    case ARG_OUT: o->out = a->value; return true;
    case ARG_REPLACE: o->replace = true; return true;
    case ARG_JSON: o->json = true; return true;
    case ARG_CA: o->ca_file = a->value; return true;
    default: o->has_layers = true; return sk_layer_range_parse(a->value, &o->layers, e);
    }
}

/* NULL: all is well. */
static const char *contradiction(const package_options *o, const struct action *action) {
    const bool creates = action == &create, inspects = action->run == package_inspect;
    if (!o->operand) return action->operand;
    if (creates && !o->out) return "where to? -o DIR is missing";
    if (!creates && (o->out || o->replace)) return "-o and --replace are for making a package";
    if (creates && o->json) return "--json is for verify and inspect";
    if (!inspects && (o->has_layers || o->ca_file)) return "--layers and --ca-file are for inspect";
    return NULL;
}

int sk_cli_package(int argc, char **argv) {
    package_options o = {.program = argv[0]};
    sk_args a = {.defs = defs, .n_defs = N_DEFS, .argc = argc, .argv = argv, .at = 1};
    const struct action *action = argc > 1 ? find_action(argv[1]) : &create;
    sk_err e;
    if (action != &create) a.at = 2;
    while (a.at < argc) {
        if (argv[a.at][0] != '-') {
            if (o.operand) return usage(&o, "only one model or package at a time");
            o.operand = argv[a.at++];
            continue;
        }
        const int id = sk_args_next(&a, &e);
        if (id == ARG_HELP) {
            print_help();
            return PACKAGE_DONE;
        }
        if (id < 0 || !take(&a, id, &o, &e)) return usage(&o, e.text);
    }
    const char *wrong = contradiction(&o, action);
    return wrong ? usage(&o, wrong) : action->run(&o);
}
