#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/args.h"
#include "cli/stage_actions.h"
#include "stage/link.h"

enum { ARG_DAYS = 1, ARG_FORCE, ARG_HELP, DEFAULT_DAYS = 825, MAX_NAMES = 64 };

static const sk_arg_def defs[] = {
    {ARG_DAYS, "--days", "N", NULL, "how long the certificates are valid (default: 825)"},
    {ARG_FORCE, "--force", NULL, NULL, "replace certificates that are there already"},
    {ARG_HELP, "-h --help", NULL, NULL, "this text"},
};
enum { N_DEFS = sizeof defs / sizeof *defs };

typedef struct certs_options {
    const char *dir, *names[MAX_NAMES];
    size_t n_names;
    uint32_t days;
    bool force, help;
} certs_options;

static void print_help(void) {
    puts(
        "Usage: skippy stage init-certs DIR NAME... [options]\n\n"
        "Makes certificates for the links between stages: an authority (ca.crt, ca.key) and for each NAME a certificate\n"
        "and its key (NAME.crt, NAME.key). A NAME is the host name or the IP address that the stage before connects to;\n"
        "'head' is the head's. An authority that is in DIR already is used on. Copy to each machine ca.crt and its own\n"
        "two files; ca.key stays where it is.\n");
    sk_args_help(defs, N_DEFS, stdout);
    puts("\nExamples:\n"
         "  skippy stage init-certs certs head 10.0.0.2 10.0.0.3\n"
         "  skippy stage init-certs certs stage4.example.org --days 90\n\n"
         "Exit codes: 0 done, 1 failed, 2 wrong usage.");
}

static int take_name(certs_options *o, const char *word, sk_err *e) {
    if (!o->dir) {
        o->dir = word;
        return SKIPPY_OK;
    }
    if (o->n_names == MAX_NAMES) return sk_err_set(e, SKIPPY_E_INVALID, "at most %d names at once", MAX_NAMES);
    o->names[o->n_names++] = word;
    return SKIPPY_OK;
}

static int parse(certs_options *o, int argc, char **argv, sk_err *e) {
    sk_args a = {.defs = defs, .n_defs = N_DEFS, .argc = argc, .argv = argv, .at = 1};
    while (a.at < argc) {
        if (argv[a.at][0] != '-') {
            if (take_name(o, argv[a.at++], e) != SKIPPY_OK) return e->code;
            continue;
        }
        switch (sk_args_next(&a, e)) {
        case ARG_DAYS:
            if (!sk_args_u32(&a, 1, 36500, &o->days, e)) return e->code;
            break;
        case ARG_FORCE: o->force = true; break;
        case ARG_HELP: o->help = true; return SKIPPY_OK;
        default: return e->code;
        }
    }
    if (!o->dir) return sk_err_set(e, SKIPPY_E_INVALID, "which folder, and for which names?");
    if (o->n_names == 0)
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "for which names? Give the host name or address of each stage, and 'head'");
    return SKIPPY_OK;
}

int stage_init_certs(int argc, char **argv) {
    certs_options o = {.days = DEFAULT_DAYS};
    sk_err e = {0};
    if (parse(&o, argc, argv, &e) != SKIPPY_OK) {
        fprintf(stderr, "%s init-certs: %s. Try '%s init-certs --help'.\n", argv[0], e.text, argv[0]);
        return STAGE_USAGE;
    }
    if (o.help) {
        print_help();
        return STAGE_DONE;
    }
    if (sk_link_certs(o.dir, o.names, o.n_names, o.days, o.force, &e) != SKIPPY_OK) {
        fprintf(stderr, "%s init-certs: %s\n", argv[0], e.text);
        return STAGE_FAILED;
    }
    printf("%s/ca.crt is the authority; its key, %s/ca.key, stays on this machine.\n", o.dir, o.dir);
    for (size_t i = 0; i < o.n_names; i++)
        printf("%s: copy ca.crt, %s.crt and %s.key there, then\n  --tls-ca ca.crt --tls-cert %s.crt --tls-key %s.key\n",
               o.names[i], o.names[i], o.names[i], o.names[i], o.names[i]);
    return STAGE_DONE;
}
