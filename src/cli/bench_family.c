#include "cli/bench_family.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/family/pipeline.h"
#include "bench/interrupt.h"
#include "cli/args.h"
#include "cli/bench_exit.h"

#ifndef SKIPPY_VERSION
#define SKIPPY_VERSION "unknown"
#endif

enum {
    ARG_MODELS = 1,
    ARG_INPUT,
    ARG_OUT,
    ARG_CASES,
    ARG_CORPUS,
    ARG_AGENT_CORPUS,
    ARG_NO_FULL,
    ARG_NO_USE_CASES,
    ARG_THREADS,
    ARG_CTX,
    ARG_GPU_LAYERS,
    ARG_CONCURRENCY,
    ARG_SWEEP,
    ARG_EXECUTION,
    ARG_CELL,
    ARG_SKIPPY,
    ARG_LLAMA,
    ARG_GNUPLOT,
    ARG_QUICK,
    ARG_HELP,
    ARG_SIZE /* ARG_SIZE + index into SIZES */
};

/* Options that set one number of sk_family_sizes. Preparation puts the environment's numbers over them. */
static const struct size_option {
    size_t offset;
    uint32_t min, max;
} SIZES[] = {
    {offsetof(sk_family_sizes, prefix_tokens), 8, 1000000},
    {offsetof(sk_family_sizes, suffix_tokens), 1, 1000000},
    {offsetof(sk_family_sizes, history_tokens), 64, 1000000},
    {offsetof(sk_family_sizes, restart_tokens), 16, 1000000},
    {offsetof(sk_family_sizes, conversation_repeats), 1, 1024},
    {offsetof(sk_family_sizes, restart_repeats), 1, 1024},
    {offsetof(sk_family_sizes, cache_hit_repeats), 1, 1024},
    {offsetof(sk_family_sizes, llama_repeats), 1, 1024},
    {offsetof(sk_family_sizes, lanes), 1, 256},
    {offsetof(sk_family_sizes, parallel), 1, 256},
    {offsetof(sk_family_sizes, concurrent_requests), 1, 65536},
    {offsetof(sk_family_sizes, concurrent_output_tokens), 2, 1000000},
};
enum { N_SIZES = sizeof SIZES / sizeof *SIZES };

static const sk_arg_def defs[] = {
    {ARG_OUT, "-o --out", "DIR", NULL,
     "where everything goes; an unfinished run in it goes on (default: bench-family)"},
    {ARG_MODELS, "--models", "DIR", NULL,
     "folder with the families' GGUFs; 'skippy bench models' says what is found there"},
    {ARG_INPUT, "--input", "FILE", NULL, "an operator's request instead of --models and the options below"},
    {ARG_CASES, "--cases", "A,B", NULL, "only these families, by key (default: all fourteen)"},
    {ARG_CORPUS, "--corpus", "FILE", NULL, "prompts of the use cases (default: none, no use-case rows)"},
    {ARG_AGENT_CORPUS, "--agent-corpus", "FILE", NULL, "conversations of agents (default: none, no agent loop)"},
    {ARG_NO_FULL, "--no-full", NULL, NULL, "only the use cases"},
    {ARG_NO_USE_CASES, "--no-use-cases", NULL, NULL, "only the families"},
    {ARG_SIZE + 0, "--prefix-tokens", "N", NULL, "known prefix (default: 128)"},
    {ARG_SIZE + 1, "--suffix-tokens", "N", NULL, "new tokens after it (default: 16)"},
    {ARG_SIZE + 2, "--history-tokens", "N", NULL, "conversation before an edited message (default: 384)"},
    {ARG_SIZE + 3, "--restart-tokens", "N", NULL, "prompt that is asked again after a restart (default: 512)"},
    {ARG_SIZE + 4, "--conversation-repeats", "N", NULL, "measured edits and turns of conversations (default: 20)"},
    {ARG_SIZE + 5, "--restart-repeats", "N", NULL, "restarts (default: 3)"},
    {ARG_SIZE + 6, "--cache-hit-repeats", "N", NULL, "measured requests of skippy (default: 20)"},
    {ARG_SIZE + 7, "--llama-repeats", "N", NULL, "measured requests of llama-server (default: 20)"},
    {ARG_SIZE + 8, "--lanes", "N", NULL, "lanes of skippy (default: 1)"},
    {ARG_SIZE + 9, "--parallel", "N", NULL, "slots of llama-server (default: 1)"},
    {ARG_CONCURRENCY, "--concurrency", "N,N", NULL, "clients of the concurrency curve (default: no curve)"},
    {ARG_SIZE + 10, "--concurrent-requests", "N", NULL, "requests of each of its levels (default: 64)"},
    {ARG_SIZE + 11, "--concurrent-tokens", "N", NULL, "tokens that each generates (default: 128)"},
    {ARG_SWEEP, "--prefix-sweep", "N,N", NULL, "further prefix lengths of the exact repeat (default: none)"},
    {ARG_THREADS, "-t --threads", "N", NULL, "threads of each server (default: cores)"},
    {ARG_CTX, "-c --ctx-size", "N", NULL, "context of a lane (default: what the requests need)"},
    {ARG_GPU_LAYERS, "-ngl --gpu-layers", "N", NULL, "layers on the GPU, -1: all (default: 0)"},
    {ARG_EXECUTION, "--execution-seconds", "N", NULL, "time for each of the two runs (default: 43200)"},
    {ARG_CELL, "--cell-seconds", "N", NULL, "time for one cell (default: 1800)"},
    {ARG_SKIPPY, "--skippy", "PATH", NULL, "the program to measure (default: this one)"},
    {ARG_LLAMA, "--llama-server", "PATH", NULL, "the baseline (default: llama-server beside this program)"},
    {ARG_GNUPLOT, "--gnuplot", "PATH", NULL, "(default: gnuplot in PATH)"},
    {ARG_QUICK, "--quick-check", NULL, NULL, "tiny prompts, two repeats: checks the benchmark itself, not the speed"},
    {ARG_HELP, "-h --help", NULL, NULL, "this text"},
};
enum { N_DEFS = sizeof defs / sizeof *defs };

typedef struct options {
    sk_pipeline_options pipe;
    sk_family_sizes sizes;
    bool quick, help, size_set[N_SIZES];
    char self[PATH_MAX], llama[PATH_MAX + 32];
} options;

static void print_help(void) {
    puts(
        "Usage: skippy bench family --models DIR [options]\n"
        "       skippy bench family --input REQUEST.json [options]\n"
        "\n"
        "Compares skippy with llama-server on every model family that is there: correctness first, then the same\n"
        "requests to both over HTTP, in turns; then tables, plots and one HTML page. It does what 'prepare-full', 'run',\n"
        "'prepare-use-cases', 'run' and 'report' do one after the other. Ctrl-C keeps what was measured; the same\n"
        "command goes on from there.\n");
    sk_args_help(defs, N_DEFS, stdout);
    puts("\nThe environment variables PREFIX_TOKENS, RUNTIME_LANE_COUNT, LLAMA_PARALLEL, LLAMA_REPEATS and\n"
         "CACHE_HIT_REPEATS come before the options of the same meaning.\n"
         "\nExamples:\n"
         "  skippy bench models --root models --synthetic\n"
         "  skippy bench family --models models --corpus evals/skippy-usecase-corpus.json --out results\n"
         "  skippy bench family --models models --cases llama,falcon_h1 --concurrency 1,4,16 --out results\n"
         "\n"
         "Exit codes: 0 done, 1 failed or incomplete, 2 wrong usage, 130 interrupted.");
}

static int usage_error(const char *self, const char *text) {
    fprintf(stderr, "%s: %s. Try 'skippy bench family --help'.\n", self, text);
    return SK_BENCH_USAGE;
}

/* "1,4,16" */
static bool take_list(const sk_args *a, uint32_t *out, size_t cap, size_t *n, sk_err *e) {
    *n = 0;
    for (const char *p = a->value; *p;) {
        char *end = NULL;
        const unsigned long v = strtoul(p, &end, 10);
        if (end == p || *p == '-' || v < 1 || v > 1000000 || (*end && *end != ',') || *n == cap) {
            sk_err_set(e, SKIPPY_E_INVALID, "%s needs up to %zu numbers with commas between them, not '%s'", a->name,
                       cap, a->value);
            return false;
        }
        out[(*n)++] = (uint32_t)v;
        p = end + (*end == ',');
    }
    return true;
}

static uint32_t *size_at(sk_family_sizes *s, size_t i) {
    return (uint32_t *)(void *)((char *)s + SIZES[i].offset);
}

static bool take_size(const sk_args *a, size_t i, options *o, sk_err *e) {
    o->size_set[i] = true;
    return sk_args_u32(a, SIZES[i].min, SIZES[i].max, size_at(&o->sizes, i), e);
}

static bool take(const sk_args *a, int id, options *o, sk_err *e) {
    sk_request_options *r = &o->pipe.request;
    if (id >= ARG_SIZE) return take_size(a, (size_t)(id - ARG_SIZE), o, e);
    switch (id) {
    case ARG_MODELS: r->models = a->value; return true;
    case ARG_INPUT: o->pipe.operator_path = a->value; return true;
    case ARG_OUT: o->pipe.out_dir = a->value; return true;
    case ARG_CASES: r->cases = a->value; return true;
    case ARG_CORPUS: r->corpus = a->value; return true;
    case ARG_AGENT_CORPUS: r->agent_corpus = a->value; return true;
    case ARG_NO_FULL: o->pipe.skip_full = true; return true;
    case ARG_NO_USE_CASES: o->pipe.skip_use_cases = true; return true;
    case ARG_CONCURRENCY: return take_list(a, o->sizes.concurrency, SK_FAMILY_MAX_LEVELS, &o->sizes.n_concurrency, e);
    case ARG_SWEEP: return take_list(a, o->sizes.sweep, SK_FAMILY_MAX_SWEEP, &o->sizes.n_sweep, e);
    case ARG_THREADS: return sk_args_u32(a, 1, 1024, &o->sizes.threads, e);
    case ARG_CTX: return sk_args_u32(a, 256, 10000000, &o->sizes.ctx, e);
    case ARG_GPU_LAYERS: return sk_args_i32(a, -1, 10000, &o->sizes.n_gpu_layers, e);
    case ARG_EXECUTION: return sk_args_u32(a, 4, 86400, &r->execution_seconds, e);
    case ARG_CELL: return sk_args_u32(a, 1, 3600, &r->cell_seconds, e);
    case ARG_SKIPPY: r->skippy = a->value; return true;
    case ARG_LLAMA: r->llama_server = a->value; return true;
    case ARG_GNUPLOT: o->pipe.gnuplot = a->value; return true;
    case ARG_QUICK: o->quick = true; return true;
    default: o->help = true; return true;
    }
}

/* Sizes that were given stay. */
static void use_quick_check(options *o) {
    static const uint32_t TINY[N_SIZES] = {24, 8, 64, 32, 2, 1, 2, 2, 1, 1, 4, 4};
    for (size_t i = 0; i < N_SIZES; i++)
        if (!o->size_set[i]) *size_at(&o->sizes, i) = TINY[i];
    o->sizes.rest_ms = 0;
}

static void find_programs(options *o) {
    const ssize_t n = readlink("/proc/self/exe", o->self, sizeof o->self - 1);
    o->self[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(o->self, '/');
    snprintf(o->llama, sizeof o->llama, "%.*s/llama-server", slash ? (int)(slash - o->self) : 0, o->self);
    if (!o->pipe.request.skippy) o->pipe.request.skippy = o->self;
    if (!o->pipe.request.llama_server) o->pipe.request.llama_server = o->llama;
}

static int parse(int argc, char **argv, options *o) {
    sk_args a = {.defs = defs, .n_defs = N_DEFS, .argc = argc, .argv = argv, .at = 1};
    sk_err e = {0};
    o->pipe = (sk_pipeline_options){
        .out_dir = "bench-family",
        .version = SKIPPY_VERSION,
        .progress = stderr,
        .request = {.execution_seconds = 43200, .cell_seconds = 1800, .preparation_seconds = 1800}};
    sk_family_sizes_default(&o->sizes);
    for (int id; (id = sk_args_next(&a, &e)) != 0;) {
        if (id < 0 || !take(&a, id, o, &e)) return usage_error(argv[0], e.text);
        if (o->help) return SK_BENCH_DONE;
    }
    if (!o->pipe.operator_path == !o->pipe.request.models)
        return usage_error(argv[0], "which models? Give either --models DIR or --input REQUEST.json");
    if (o->quick) use_quick_check(o);
    if (!o->pipe.request.corpus && !o->pipe.operator_path) o->pipe.skip_use_cases = true;
    o->pipe.request.sizes = &o->sizes;
    return SK_BENCH_DONE;
}

int sk_cli_bench_family(int argc, char **argv) {
    static options o; /* its paths are too large for the stack */
    sk_err e = {0};
    int rc = parse(argc, argv, &o);
    if (rc != SK_BENCH_DONE) return rc;
    if (o.help) {
        print_help();
        return SK_BENCH_DONE;
    }
    find_programs(&o);
    sk_interrupt_install();
    rc = sk_pipeline_run(&o.pipe, &e);
    if (rc != SKIPPY_OK) fprintf(stderr, "%s: %s\n", argv[0], e.text);
    return sk_bench_exit(rc);
}
