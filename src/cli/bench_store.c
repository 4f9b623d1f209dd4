#include "cli/bench_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/interrupt.h"
#include "bench/store_report.h"
#include "cli/args.h"

#ifndef SKIPPY_VERSION
#define SKIPPY_VERSION "unknown"
#endif

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };
enum {
    ARG_MODEL = 1,
    ARG_THREADS,
    ARG_TURNS,
    ARG_TURN_TOKENS,
    ARG_AGENTS,
    ARG_SHARED,
    ARG_OWN,
    ARG_PREFIX,
    ARG_RUNS,
    ARG_SUBCUT,
    ARG_DIR,
    ARG_JSON,
    ARG_HELP
};
enum { MAX_THREADS = 1024 };

static const sk_arg_def defs[] = {
    {ARG_MODEL, "-m --model", "FILE", NULL, "the GGUF"},
    {ARG_THREADS, "-t --threads", "N", NULL, "threads that compute (default: cores)"},
    {ARG_TURNS, "--turns", "N", NULL, "chat: turns, each is exported (default: 20)"},
    {ARG_TURN_TOKENS, "--turn-tokens", "N", NULL, "chat: new tokens of each turn (default: 60)"},
    {ARG_AGENTS, "--agents", "N", NULL, "agents: how many, each is exported (default: 16)"},
    {ARG_SHARED, "--shared", "N", NULL, "agents: tokens of the prefix that all share (default: 2000)"},
    {ARG_OWN, "--own", "N", NULL, "agents: own tokens of each (default: 50)"},
    {ARG_PREFIX, "--prefix", "N", NULL, "speed and restore: tokens (default: 1000)"},
    {ARG_RUNS, "--runs", "N", NULL, "speed and restore: counted runs (default: 20)"},
    {ARG_SUBCUT, "--subcut", "N,N,...", NULL,
     "other ways to cut that are tried: every N tokens inside of tensors; 0 = none (default: 256,64)"},
    {ARG_DIR, "--dir", "DIR", NULL,
     "where a folder for the disk store is made and removed again; its disk is measured (default: .)"},
    {ARG_JSON, "--json", NULL, NULL, "JSON with every sample instead of tables"},
    {ARG_HELP, "-h --help", NULL, NULL, "this text"},
};
enum { N_DEFS = sizeof defs / sizeof *defs };

typedef struct options {
    sk_store_options bench;
    bool json, help;
} options;

static void print_help(void) {
    puts(
        "Usage: skippy bench store -m MODEL.gguf [options]\n"
        "\n"
        "Computes prefixes, exports their state as the server does, and stores it. Reports what the block store saves for\n"
        "a growing conversation and for agents with a shared prefix, by the way in which the state is cut into blocks;\n"
        "how fast state moves through each step; and how long a restored prefix takes compared with computing it again.\n"
        "Tokens are drawn from the vocabulary, the same ones each time.\n");
    sk_args_help(defs, N_DEFS, stdout);
    puts(
        "\n"
        "Columns: 'logical' is what the exports have together, 'unique' what remains when equal blocks are stored once;\n"
        "'tails' are recurrent state or sliding windows, which every boundary has anew. GB are 10^9 bytes.\n"
        "\n"
        "Examples:\n"
        "  skippy bench store -m model.gguf\n"
        "  skippy bench store -m model.gguf -t 2 --runs 5 --dir /mnt/cache\n"
        "  skippy bench store -m model.gguf --turns 4 --agents 2 --shared 300 --prefix 200 --runs 3 --json\n"
        "\n"
        "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.");
}

static int usage_error(const char *self, const char *words) {
    fprintf(stderr, "%s: %s. Try 'skippy bench store --help'.\n", self, words);
    return EXIT_USAGE;
}

/* "256,64"; "0": none. */
static bool parse_steps(sk_store_sizes *s, const char *text, sk_err *e) {
    memset(s->steps, 0, sizeof s->steps);
    if (strcmp(text, "0") == 0) return true;
    size_t n = 0;
    for (const char *p = text;; p++) {
        char *end = NULL;
        const unsigned long v = *p >= '0' && *p <= '9' ? strtoul(p, &end, 10) : 0;
        if (v == 0 || v > SK_STORE_MAX_TOKENS || (*end && *end != ',') || n == SK_STORE_MAX_STEPS) {
            sk_err_set(e, SKIPPY_E_INVALID, "--subcut needs up to %d numbers from 1 to %d, or 0, not '%s'",
                       SK_STORE_MAX_STEPS, SK_STORE_MAX_TOKENS, text);
            return false;
        }
        s->steps[n++] = (uint32_t)v;
        if (!*end) return true;
        p = end;
    }
}

static bool take(const sk_args *a, int id, options *o, sk_err *e) {
    sk_store_sizes *s = &o->bench.sizes;
    switch (id) {
    case ARG_MODEL: o->bench.model = a->value; return true;
    case ARG_THREADS: return sk_args_i32(a, 1, MAX_THREADS, &o->bench.n_threads, e);
    case ARG_TURNS: return sk_args_u32(a, 1, SK_STORE_MAX_TOKENS, &s->turns, e);
    case ARG_TURN_TOKENS: return sk_args_u32(a, 1, SK_STORE_MAX_TOKENS, &s->turn_tokens, e);
    case ARG_AGENTS: return sk_args_u32(a, 1, SK_STORE_MAX_RUNS, &s->agents, e);
    case ARG_SHARED: return sk_args_u32(a, 1, SK_STORE_MAX_TOKENS, &s->shared, e);
    case ARG_OWN: return sk_args_u32(a, 1, SK_STORE_MAX_TOKENS, &s->own, e);
    case ARG_PREFIX: return sk_args_u32(a, 1, SK_STORE_MAX_TOKENS, &s->prefix, e);
    case ARG_RUNS: return sk_args_u32(a, 1, SK_STORE_MAX_RUNS, &s->runs, e);
    case ARG_SUBCUT: return parse_steps(s, a->value, e);
    case ARG_DIR: o->bench.dir = a->value; return true;
    case ARG_JSON: o->json = true; return true;
    default: o->help = true; return true;
    }
}

static int parse(int argc, char **argv, options *o) {
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    sk_args a = {.defs = defs, .n_defs = N_DEFS, .argc = argc, .argv = argv, .at = 1};
    sk_err e;
    *o = (options){
        .bench = {.n_threads = cores > 0 ? (int32_t)cores : 1, .dir = ".", .sizes = sk_store_sizes_default()}};
    for (int id; (id = sk_args_next(&a, &e)) != 0;) {
        if (id < 0 || !take(&a, id, o, &e)) return usage_error(argv[0], e.text);
        if (o->help) return EXIT_DONE;
    }
    if (!o->bench.model) return usage_error(argv[0], "which model? Give -m MODEL.gguf");
    return sk_store_sizes_check(&o->bench.sizes, &e) ? usage_error(argv[0], e.text) : EXIT_DONE;
}

/* One line that is overwritten on a terminal, a line for each step elsewhere. */
static void note(void *ud, const char *what) {
    (void)ud;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%s ...", what);
    else
        fprintf(stderr, "%s\n", what);
}

static bool keep_loading(void *ud, float fraction) {
    (void)ud;
    (void)fraction;
    return !sk_interrupted();
}

static int print(const options *o, const sk_store_report *r, sk_err *e) {
    sk_buf text = {0};
    json_t *root = NULL;
    bool ok = false;
    if (o->json) {
        root = sk_store_json(r);
        ok = root && json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0 && puts("") != EOF;
    } else {
        ok = sk_store_markdown(r, &text) == SKIPPY_OK && fwrite(text.data, 1, text.len, stdout) == text.len;
    }
    json_decref(root);
    sk_buf_free(&text);
    return ok && fflush(stdout) == 0 ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_IO, "cannot write the report");
}

int sk_cli_bench_store(int argc, char **argv) {
    options o;
    sk_store_report report;
    sk_err e = {0};
    int rc = parse(argc, argv, &o);
    if (rc != EXIT_DONE) return rc;
    if (o.help) {
        print_help();
        return EXIT_DONE;
    }
    o.bench.note = note;
    o.bench.load = keep_loading;
    sk_interrupt_install();
    rc = sk_store_bench_run(&o.bench, SKIPPY_VERSION, &report, &e);
    if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
    /* what was measured before a failure is still worth reading */
    if (rc == SKIPPY_OK || report.n_savings) {
        sk_err why;
        const int printed = print(&o, &report, &why);
        if (rc == SKIPPY_OK && printed) {
            rc = printed;
            e = why;
        }
    }
    if (rc) fprintf(stderr, "%s: %s\n", argv[0], e.text);
    sk_store_report_free(&report);
    return rc == SKIPPY_OK ? EXIT_DONE : rc == SKIPPY_E_CANCELLED ? EXIT_INTERRUPTED : EXIT_FAILED;
}
