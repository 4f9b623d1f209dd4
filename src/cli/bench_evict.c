#include "cli/bench_evict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/evict_generate.h"
#include "bench/evict_report.h"
#include "cli/args.h"

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum { ARG_TRACE = 1, ARG_GENERATED, ARG_SEED, ARG_REQUESTS, ARG_AGENTS, ARG_CAPACITY, ARG_JSON, ARG_HELP };

static const sk_arg_def defs[] = {
    {ARG_TRACE, "--trace", "FILE", NULL,
     "a recorded trace in Mooncake's format: one JSON object a line with timestamp, input_length, output_length, hash_ids"},
    {ARG_GENERATED, "--trace-generated", NULL, NULL,
     "a generated trace of coding agents; the default when no --trace is given"},
    {ARG_SEED, "--seed", "N", NULL, "seed of the generated trace (default: 1)"},
    {ARG_REQUESTS, "--requests", "N", NULL, "requests of the generated trace (default: 10000)"},
    {ARG_AGENTS, "--agents", "N", NULL, "agents at work at the same time (default: 200)"},
    {ARG_CAPACITY, "--capacity", "P,P,...", NULL,
     "cache sizes in percent of what an unlimited cache holds at the end (default: 1,2,5,10,20,50)"},
    {ARG_JSON, "--json", NULL, NULL, "one JSON array instead of tables"},
    {ARG_HELP, "-h --help", NULL, NULL, "this text"},
};
enum { N_DEFS = sizeof defs / sizeof *defs, MAX_REQUESTS = 1000000, MAX_AGENTS = 100000 };

typedef struct options {
    const char *trace;
    bool generated, json, help;
    sk_evict_workload workload;
    double percent[SK_EVICT_MAX_CAPACITIES];
    size_t n_percent;
} options;

static void print_help(void) {
    puts(
        "Usage: skippy bench evict [--trace FILE.jsonl] [--trace-generated] [options]\n"
        "\n"
        "Simulates a prefix cache of several sizes and compares what leaves first: least recently used (lru), oldest\n"
        "(fifo), least benefit (benefit: what the RAM and disk stores do), and the bound that no policy can exceed.\n"
        "Two kinds of memory: dense, where any shorter prefix can be used, and hybrid, where only recorded boundaries\n"
        "can be used and each has a tail of fixed size. No model is needed; the same input gives the same output.\n");
    sk_args_help(defs, N_DEFS, stdout);
    puts(
        "\n"
        "Columns, in percent: 'tokens' of the input that need not be computed, 'compute' that is saved (tokens at the\n"
        "end of a long prompt cost more), 'hits' are requests that save at least 512 tokens.\n"
        "\n"
        "Examples:\n"
        "  skippy bench evict\n"
        "  skippy bench evict --trace mooncake_trace.jsonl --capacity 5,20\n"
        "  skippy bench evict --trace-generated --agents 50 --seed 7 --json\n"
        "\n"
        "Exit codes: 0 done, 1 failed, 2 wrong usage.");
}

static int usage_error(const char *self, const char *words) {
    fprintf(stderr, "%s: %s. Try 'skippy bench evict --help'.\n", self, words);
    return EXIT_USAGE;
}

/* "1,2.5,50" */
static bool parse_capacities(options *o, const char *text, sk_err *e) {
    o->n_percent = 0;
    for (const char *p = text;; p++) {
        char *end = NULL;
        const double v = strtod(p, &end);
        if (end == p || !(v > 0 && v <= 100) || (*end && *end != ',') || o->n_percent == SK_EVICT_MAX_CAPACITIES) {
            sk_err_set(e, SKIPPY_E_INVALID, "--capacity needs up to %d numbers above 0 and up to 100, not '%s'",
                       SK_EVICT_MAX_CAPACITIES, text);
            return false;
        }
        o->percent[o->n_percent++] = v;
        if (!*end) return true;
        p = end;
    }
}

static bool take(const sk_args *a, int id, options *o, sk_err *e) {
    uint64_t n = 0;
    switch (id) {
    case ARG_TRACE: o->trace = a->value; return true;
    case ARG_GENERATED: o->generated = true; return true;
    case ARG_SEED: return sk_args_u64(a, 0, UINT64_MAX, &o->workload.seed, e);
    case ARG_REQUESTS:
        if (!sk_args_u64(a, 1, MAX_REQUESTS, &n, e)) return false;
        o->workload.requests = (size_t)n;
        return true;
    case ARG_AGENTS: return sk_args_u32(a, 1, MAX_AGENTS, &o->workload.agents, e);
    case ARG_CAPACITY: return parse_capacities(o, a->value, e);
    case ARG_JSON: o->json = true; return true;
    default: o->help = true; return true;
    }
}

static int parse(int argc, char **argv, options *o) {
    static const double CAPACITIES[] = {1, 2, 5, 10, 20, 50};
    sk_args a = {.defs = defs, .n_defs = N_DEFS, .argc = argc, .argv = argv, .at = 1};
    sk_err e;
    *o = (options){.workload = sk_evict_workload_default(), .n_percent = sizeof CAPACITIES / sizeof *CAPACITIES};
    memcpy(o->percent, CAPACITIES, sizeof CAPACITIES);
    for (int id; (id = sk_args_next(&a, &e)) != 0;) {
        if (id < 0 || !take(&a, id, o, &e)) return usage_error(argv[0], e.text);
        if (o->help) return EXIT_DONE;
    }
    if (!o->trace) o->generated = true;
    return EXIT_DONE;
}

/* One trace through all simulations; adds to *text or *array. */
static int compare(const options *o, const sk_evict_trace *t, const char *name, sk_buf *text, json_t *array,
                   sk_err *e) {
    sk_evict_memory memories[SK_EVICT_MEMORIES];
    sk_evict_report report;
    sk_evict_memories(memories);
    int rc = sk_evict_compare(t, name, memories, o->percent, o->n_percent, &report, e);
    if (rc != SKIPPY_OK) return rc;
    if (!o->json)
        sk_evict_markdown(&report, text);
    else if (json_array_append_new(array, sk_evict_json(&report)) != 0)
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the report");
    return rc;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int run_recorded(const options *o, sk_buf *text, json_t *array, sk_err *e) {
    sk_evict_trace t = {0};
    int rc = sk_evict_trace_load(&t, o->trace, e);
    if (rc == SKIPPY_OK) rc = compare(o, &t, base_name(o->trace), text, array, e);
    sk_evict_trace_free(&t);
    return rc;
}

static int run_generated(const options *o, sk_buf *text, json_t *array, sk_err *e) {
    sk_evict_trace t = {0};
    char name[64];
    snprintf(name, sizeof name, "generated: %u agents, seed %llu", o->workload.agents,
             (unsigned long long)o->workload.seed);
    int rc = sk_evict_generate(&o->workload, &t, e);
    if (rc == SKIPPY_OK) rc = compare(o, &t, name, text, array, e);
    sk_evict_trace_free(&t);
    return rc;
}

static int print(const options *o, const sk_buf *text, const json_t *array, sk_err *e) {
    bool ok = false;
    if (o->json)
        ok = json_dumpf(array, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0 && puts("") != EOF;
    else
        ok = !text->failed && fwrite(text->data, 1, text->len, stdout) == text->len;
    return ok && fflush(stdout) == 0 ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_IO, "cannot write the report");
}

int sk_cli_bench_evict(int argc, char **argv) {
    options o;
    sk_err e;
    sk_buf text = {0};
    int rc = parse(argc, argv, &o);
    if (rc != EXIT_DONE) return rc;
    if (o.help) {
        print_help();
        return EXIT_DONE;
    }
    json_t *array = o.json ? json_array() : NULL;
    if (o.trace) rc = run_recorded(&o, &text, array, &e);
    if (rc == SKIPPY_OK && o.generated) rc = run_generated(&o, &text, array, &e);
    if (rc == SKIPPY_OK) rc = print(&o, &text, array, &e);
    if (rc != SKIPPY_OK) fprintf(stderr, "%s: %s\n", argv[0], e.text);
    json_decref(array);
    sk_buf_free(&text);
    return rc == SKIPPY_OK ? EXIT_DONE : EXIT_FAILED;
}
