#include "cli/bench_stages.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/interrupt.h"
#include "bench/stages.h"
#include "cli/args.h"

#ifndef SKIPPY_VERSION
#define SKIPPY_VERSION "unknown"
#endif

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };
enum {
    ARG_MODEL = 1,
    ARG_THREADS,
    ARG_CTX,
    ARG_OUT,
    ARG_ONLY,
    ARG_RUNS,
    ARG_PROMPT,
    ARG_PREDICT,
    ARG_DELAY,
    ARG_CUT,
    ARG_CUTS,
    ARG_TLS,
    ARG_SEED,
    ARG_TIMEOUT,
    ARG_SKIPPY,
    ARG_LLAMA,
    ARG_RPC,
    ARG_QUICK,
    ARG_JSON,
    ARG_HELP
};
enum { MAX_THREADS = 1024, MAX_LAYERS = 1024, MAX_RUNS = 10000, MAX_TOKENS = 1000000, MAX_DELAY_MS = 10000 };

static const sk_arg_def defs[] = {
    {ARG_MODEL, "-m --model", "FILE", NULL, "the GGUF"},
    {ARG_THREADS, "-t --threads", "N", NULL, "threads of each process (default: 1)"},
    {ARG_CTX, "-c --ctx-size", "N", NULL, "context of each lane (default: 2048)"},
    {ARG_OUT, "-o --out", "DIR", NULL, "where stages.json, stages.md and the logs go (default: bench-stages)"},
    {ARG_ONLY, "--only", "A,B", NULL, "only these parts: overhead, lanes, rivals, memory"},
    {ARG_RUNS, "--runs", "N", NULL, "counted rounds of each part (default: 20)"},
    {ARG_PROMPT, "--prompt-tokens", "N", NULL, "tokens of a prompt (default: 128)"},
    {ARG_PREDICT, "--predict", "N", NULL, "generated tokens that are timed (default: 32)"},
    {ARG_DELAY, "--delay-ms", "N", NULL, "delay of the slow links of 'rivals', each way; 0: none (default: 5)"},
    {ARG_CUT, "--cut", "N", NULL, "two stages: first layer of the second (default: the middle)"},
    {ARG_CUTS, "--cuts", "N,N", NULL, "three stages: first layers of the second and third (default: even)"},
    {ARG_TLS, "--tls", NULL, NULL, "TLS on the links between skippy's stages (default: plaintext, as rpc-server)"},
    {ARG_SEED, "--seed", "N", NULL, "seed of the prompts (default: 1)"},
    {ARG_TIMEOUT, "--timeout", "SECONDS", NULL, "longest silence of a server (default: 900)"},
    {ARG_SKIPPY, "--skippy", "PATH", NULL, "the program to measure (default: this one)"},
    {ARG_LLAMA, "--llama-server", "PATH", NULL,
     "llama-server with RPC (default: rpc-llama-server beside this program)"},
    {ARG_RPC, "--rpc-server", "PATH", NULL, "(default: rpc-server beside this program)"},
    {ARG_QUICK, "--quick-check", NULL, NULL, "tiny prompts, two rounds: checks the benchmark itself, not the speed"},
    {ARG_JSON, "--json", NULL, NULL, "the result as JSON on standard output instead of tables"},
    {ARG_HELP, "-h --help", NULL, NULL, "this text"},
};
enum { N_DEFS = sizeof defs / sizeof *defs };

typedef struct options {
    sk_stages_options bench;
    bool quick, json, help;
    char self[PATH_MAX], llama[PATH_MAX + 32], rpc[PATH_MAX + 32];
} options;

static void print_help(void) {
    puts(
        "Usage: skippy bench stages -m MODEL.gguf [options]\n"
        "\n"
        "Runs one model as several stages on this machine and measures them:\n"
        "  overhead  three stages: time of a generated token beside what the stages computed for it\n"
        "  lanes     two requests over two stages: together, and one after the other\n"
        "  rivals    two stages, in turn with llama-server and one rpc-server, the same split; on loopback and on slow links\n"
        "  memory    three stages: resident set and disk use of each beside its share of the weights\n"
        "'make baseline-rpc' builds both rivals.\n");
    sk_args_help(defs, N_DEFS, stdout);
    puts("\nExamples:\n"
         "  skippy bench stages -m model.gguf --out results\n"
         "  skippy bench stages -m model.gguf --only overhead,lanes --runs 40 --tls\n"
         "\n"
         "Exit codes: 0 done, 1 failed or incomplete, 2 wrong usage, 130 interrupted.");
}

static int usage_error(const char *self, const char *text) {
    fprintf(stderr, "%s: %s. Try 'skippy bench stages --help'.\n", self, text);
    return EXIT_USAGE;
}

static bool parse_parts(const char *text, unsigned *parts, sk_err *e) {
    *parts = 0;
    for (const char *p = text; *p;) {
        const size_t len = strcspn(p, ",");
        unsigned found = 0;
        for (unsigned i = 0; i < SK_STAGES_PARTS; i++)
            if (strlen(sk_stages_part_names[i]) == len && memcmp(sk_stages_part_names[i], p, len) == 0) found = 1u << i;
        if (!found) {
            sk_err_set(e, SKIPPY_E_INVALID, "there is no part '%.*s'", (int)len, p);
            return false;
        }
        *parts |= found;
        p += len + (p[len] == ',');
    }
    if (!*parts) sk_err_set(e, SKIPPY_E_INVALID, "--only names no part");
    return *parts != 0;
}

static bool parse_cuts(const char *text, int32_t cuts[2], sk_err *e) {
    char *end = NULL;
    const long a = strtol(text, &end, 10);
    const long b = *end == ',' ? strtol(end + 1, &end, 10) : 0;
    if (*end || a < 1 || b <= a || b >= MAX_LAYERS) {
        sk_err_set(e, SKIPPY_E_INVALID, "--cuts needs two rising numbers of layers, as in 6,11, not '%s'", text);
        return false;
    }
    cuts[0] = (int32_t)a;
    cuts[1] = (int32_t)b;
    return true;
}

static bool take_size(const sk_args *a, uint64_t max, size_t *out, sk_err *e) {
    uint64_t v = 0;
    const bool ok = sk_args_u64(a, 1, max, &v, e);
    *out = (size_t)v;
    return ok;
}

static bool take_delay(const sk_args *a, double *out, sk_err *e) {
    uint32_t ms = 0;
    const bool ok = sk_args_u32(a, 0, MAX_DELAY_MS, &ms, e);
    *out = ms;
    return ok;
}

static bool take(const sk_args *a, int id, options *o, sk_err *e) {
    sk_stages_options *b = &o->bench;
    switch (id) {
    case ARG_MODEL: b->model = a->value; return true;
    case ARG_THREADS: return sk_args_i32(a, 1, MAX_THREADS, &b->threads, e);
    case ARG_CTX: return sk_args_u32(a, 64, MAX_TOKENS, &b->lane_ctx, e);
    case ARG_OUT: b->out_dir = a->value; return true;
    case ARG_ONLY: return parse_parts(a->value, &b->parts, e);
    case ARG_RUNS: return take_size(a, MAX_RUNS, &b->runs, e);
    case ARG_PROMPT: return take_size(a, MAX_TOKENS, &b->prompt_tokens, e);
    case ARG_PREDICT: return take_size(a, MAX_TOKENS, &b->predict, e);
    case ARG_DELAY: return take_delay(a, &b->delay_ms, e);
    case ARG_CUT: return sk_args_i32(a, 1, MAX_LAYERS, &b->cut, e);
    case ARG_CUTS: return parse_cuts(a->value, b->cuts, e);
    case ARG_TLS: b->tls = true; return true;
    case ARG_SEED: return sk_args_u64(a, 0, UINT32_MAX, &b->seed, e);
    case ARG_TIMEOUT: return sk_args_i32(a, 1, 86400, &b->timeout_s, e);
    case ARG_SKIPPY: b->skippy = a->value; return true;
    case ARG_LLAMA: b->llama_server = a->value; return true;
    case ARG_RPC: b->rpc_server = a->value; return true;
    case ARG_QUICK: o->quick = true; return true;
    case ARG_JSON: o->json = true; return true;
    default: o->help = true; return true;
    }
}

/* This program, and the rivals that `make baseline-rpc` puts beside it. */
static void find_programs(options *o) {
    const ssize_t n = readlink("/proc/self/exe", o->self, sizeof o->self - 1);
    o->self[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(o->self, '/');
    const int folder = slash ? (int)(slash - o->self) : 0;
    snprintf(o->llama, sizeof o->llama, "%.*s/rpc-llama-server", folder, o->self);
    snprintf(o->rpc, sizeof o->rpc, "%.*s/rpc-server", folder, o->self);
    if (!o->bench.skippy) o->bench.skippy = n > 0 ? o->self : "skippy";
    if (!o->bench.llama_server) o->bench.llama_server = o->llama;
    if (!o->bench.rpc_server) o->bench.rpc_server = o->rpc;
}

static int parse(int argc, char **argv, options *o) {
    sk_args a = {.defs = defs, .n_defs = N_DEFS, .argc = argc, .argv = argv, .at = 1};
    sk_err e = {0};
    *o = (options){.bench = {.out_dir = "bench-stages",
                             .version = SKIPPY_VERSION,
                             .parts = (1u << SK_STAGES_PARTS) - 1,
                             .threads = 1,
                             .lane_ctx = 2048,
                             .runs = 20,
                             .prompt_tokens = 128,
                             .predict = 32,
                             .delay_ms = 5.0,
                             .timeout_s = 900,
                             .seed = 1}};
    for (int id; (id = sk_args_next(&a, &e)) != 0;) {
        if (id < 0 || !take(&a, id, o, &e)) return usage_error(argv[0], e.text);
        if (o->help) return EXIT_DONE;
    }
    if (!o->bench.model) return usage_error(argv[0], "which model? Give -m MODEL.gguf");
    if (o->quick) {
        o->bench.runs = 2;
        o->bench.prompt_tokens = 24;
        o->bench.predict = 4;
    }
    return sk_stages_check(&o->bench, &e) == SKIPPY_OK ? EXIT_DONE : usage_error(argv[0], e.text);
}

static void note(void *ud, const char *what) {
    (void)ud;
    fprintf(stderr, "%s\n", what);
}

static int print(const options *o, const sk_stages_report *r) {
    sk_buf page = {0};
    json_t *root = o->json ? sk_stages_json(r) : NULL;
    bool ok;
    if (o->json)
        ok = root && json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0 && puts("") != EOF;
    else
        ok = sk_stages_markdown(r, &page) == SKIPPY_OK && fwrite(page.data, 1, page.len, stdout) == page.len;
    json_decref(root);
    sk_buf_free(&page);
    return ok && fflush(stdout) == 0 ? SKIPPY_OK : SKIPPY_E_IO;
}

int sk_cli_bench_stages(int argc, char **argv) {
    static options o; /* its paths are too large for the stack */
    sk_stages_report report;
    sk_err e = {0};
    int rc = parse(argc, argv, &o);
    if (rc != EXIT_DONE) return rc;
    if (o.help) {
        print_help();
        return EXIT_DONE;
    }
    find_programs(&o);
    o.bench.note = note;
    sk_interrupt_install();
    rc = sk_stages_run(&o.bench, &report, &e);
    /* what was measured before a failure is still worth reading */
    if ((rc == SKIPPY_OK || report.n_layers) && print(&o, &report) != SKIPPY_OK && rc == SKIPPY_OK)
        rc = sk_err_set(&e, SKIPPY_E_IO, "cannot write the report");
    if (rc != SKIPPY_OK) fprintf(stderr, "%s: %s\n", argv[0], e.text);
    sk_stages_report_free(&report);
    return rc == SKIPPY_OK ? EXIT_DONE : rc == SKIPPY_E_CANCELLED ? EXIT_INTERRUPTED : EXIT_FAILED;
}
