/* The steps of `skippy bench family`, one command each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/family/prepare.h"
#include "bench/family/report.h"
#include "bench/family/run.h"
#include "bench/interrupt.h"
#include "cli/args.h"
#include "cli/bench_exit.h"
#include "cli/bench_family.h"

#ifndef SKIPPY_VERSION
#define SKIPPY_VERSION "unknown"
#endif

enum {
    ARG_INPUT = 1,
    ARG_OUTPUT,
    ARG_CORPUS,
    ARG_AGENT_CORPUS,
    ARG_TODO,
    ARG_HTML,
    ARG_PLOTS,
    ARG_EVICT,
    ARG_GNUPLOT,
    ARG_HELP
};
enum { MAX_INPUTS = 16 };

typedef struct options {
    const char *inputs[MAX_INPUTS];
    size_t n_inputs;
    const char *output, *corpus, *agent_corpus, *todo, *html, *plots, *evict, *gnuplot;
    bool help;
} options;

/* One command: its options and the words of its help. */
typedef struct step {
    const char *name;
    const sk_arg_def *defs;
    size_t n_defs;
    size_t max_inputs;
    const char *usage, *example;
} step;

static void print_help(const step *s) {
    puts(s->usage);
    sk_args_help(s->defs, s->n_defs, stdout);
    printf("\nExample:\n%s\n\nExit codes: 0 done, 1 failed or incomplete, 2 wrong usage, 130 interrupted.\n",
           s->example);
}

static int usage_error(const char *self, const char *text) {
    fprintf(stderr, "%s: %s. Try '%s --help'.\n", self, text, self);
    return SK_BENCH_USAGE;
}

static bool take_input(const step *s, const char *path, options *o, sk_err *e) {
    if (o->n_inputs == s->max_inputs) {
        sk_err_set(e, SKIPPY_E_INVALID, "--input is given more than %zu times", s->max_inputs);
        return false;
    }
    o->inputs[o->n_inputs++] = path;
    return true;
}

static bool take(const step *s, const sk_args *a, int id, options *o, sk_err *e) {
    switch (id) {
    case ARG_INPUT: return take_input(s, a->value, o, e);
    case ARG_OUTPUT: o->output = a->value; return true;
    case ARG_CORPUS: o->corpus = a->value; return true;
    case ARG_AGENT_CORPUS: o->agent_corpus = a->value; return true;
    case ARG_TODO: o->todo = a->value; return true;
    case ARG_HTML: o->html = a->value; return true;
    case ARG_PLOTS: o->plots = a->value; return true;
    case ARG_EVICT: o->evict = a->value; return true;
    case ARG_GNUPLOT: o->gnuplot = a->value; return true;
    default: o->help = true; return true;
    }
}

static int parse(const step *s, int argc, char **argv, options *o) {
    sk_args a = {.defs = s->defs, .n_defs = s->n_defs, .argc = argc, .argv = argv, .at = 1};
    sk_err e = {0};
    *o = (options){0};
    for (int id; (id = sk_args_next(&a, &e)) != 0;) {
        if (id < 0 || !take(s, &a, id, o, &e)) return usage_error(argv[0], e.text);
        if (o->help) {
            print_help(s);
            return SK_BENCH_DONE;
        }
    }
    if (o->n_inputs == 0) return usage_error(argv[0], "--input is missing");
    if (!o->output) return usage_error(argv[0], "--output is missing");
    return SK_BENCH_DONE;
}

static int finish(const char *self, int rc, const sk_err *e) {
    if (rc != SKIPPY_OK) fprintf(stderr, "%s: %s\n", self, e->text);
    return sk_bench_exit(rc);
}

/* ---- preparation ---- */

static const sk_arg_def prepare_defs[] = {
    {ARG_INPUT, "--input", "FILE", NULL, "the operator's request (evals/schemas/cache-operator.schema.json)"},
    {ARG_OUTPUT, "-o --output", "DIR", NULL, "new folder for cache-family-input.json and what was observed"},
    {ARG_CORPUS, "--corpus", "FILE", NULL, "use-case corpus instead of the request's"},
    {ARG_AGENT_CORPUS, "--agent-corpus", "FILE", NULL, "agent corpus instead of the request's"},
    {ARG_HELP, "-h --help", NULL, NULL, "this text"},
};
enum { N_PREPARE = sizeof prepare_defs / sizeof *prepare_defs };

static const step PREPARE_FULL = {
    "prepare-full",
    prepare_defs,
    N_PREPARE,
    1,
    "Usage: skippy bench prepare-full --input REQUEST.json --output DIR [options]\n"
    "\n"
    "Looks at programs and models, pins their bytes and lists the cells of the families. Runs no model.\n",
    "  skippy bench prepare-full --input operator.json --output full-input"};
static const step PREPARE_USE_CASES = {
    "prepare-use-cases",
    prepare_defs,
    N_PREPARE,
    1,
    "Usage: skippy bench prepare-use-cases --input REQUEST.json --output DIR [options]\n"
    "\n"
    "As prepare-full, for the use cases of the corpus: all of them unless the request names some.\n",
    "  skippy bench prepare-use-cases --input operator.json --output use-cases-input --corpus corpus.json"};

static int prepare(const step *s, bool use_cases, int argc, char **argv) {
    options o;
    sk_err e = {0};
    const int usage = parse(s, argc, argv, &o);
    if (usage != SK_BENCH_DONE || o.help) return usage;
    const sk_prepare_options p = {.operator_path = o.inputs[0],
                                  .out_dir = o.output,
                                  .use_cases = use_cases,
                                  .corpus = o.corpus,
                                  .agent_corpus = o.agent_corpus,
                                  .progress = stderr};
    sk_interrupt_install();
    return finish(argv[0], sk_prepare_run(&p, &e), &e);
}

int sk_cli_bench_prepare_full(int argc, char **argv) {
    return prepare(&PREPARE_FULL, false, argc, argv);
}

int sk_cli_bench_prepare_use_cases(int argc, char **argv) {
    return prepare(&PREPARE_USE_CASES, true, argc, argv);
}

/* ---- run ---- */

static const sk_arg_def run_defs[] = {
    {ARG_INPUT, "--input", "FILE", NULL, "cache-family-input.json of a preparation"},
    {ARG_OUTPUT, "-o --output", "DIR", NULL, "rows and receipts; an unfinished run of the same input goes on"},
    {ARG_HELP, "-h --help", NULL, NULL, "this text"},
};

static const step RUN = {"run",
                         run_defs,
                         sizeof run_defs / sizeof *run_defs,
                         1,
                         "Usage: skippy bench run --input DIR/cache-family-input.json --output DIR\n"
                         "\n"
                         "Measures every cell: correctness first, then llama-server and skippy in turns. Pins are\n"
                         "verified before and after.\n",
                         "  skippy bench run --input full-input/cache-family-input.json --output full-gguf"};

int sk_cli_bench_run(int argc, char **argv) {
    options o;
    sk_err e = {0};
    const int usage = parse(&RUN, argc, argv, &o);
    if (usage != SK_BENCH_DONE || o.help) return usage;
    const sk_family_run_options r = {
        .input_path = o.inputs[0], .out_dir = o.output, .version = SKIPPY_VERSION, .progress = stderr};
    sk_interrupt_install();
    return finish(argv[0], sk_family_run(&r, &e), &e);
}

/* ---- report ---- */

static const sk_arg_def report_defs[] = {
    {ARG_INPUT, "--input", "FILE", NULL, "production-cache-bench.json of a run; may be given several times"},
    {ARG_OUTPUT, "-o --output", "FILE", NULL, "the tables in Markdown"},
    {ARG_CORPUS, "--corpus", "FILE", NULL, "use-case corpus, for the table of sources"},
    {ARG_TODO, "--todo", "FILE", NULL, "list of what is no evidence yet, and why"},
    {ARG_HTML, "--html", "FILE", NULL, "one page with tables and plots"},
    {ARG_PLOTS, "--plots", "DIR", NULL, "folder for plots as SVG (needs gnuplot)"},
    {ARG_EVICT, "--evict-json", "FILE", NULL, "output of 'skippy bench evict --json', for the plot of hit rates"},
    {ARG_GNUPLOT, "--gnuplot", "PATH", NULL, "(default: gnuplot in PATH)"},
    {ARG_HELP, "-h --help", NULL, NULL, "this text"},
};

static const step REPORT = {
    "report",
    report_defs,
    sizeof report_defs / sizeof *report_defs,
    MAX_INPUTS,
    "Usage: skippy bench report --input FILE [--input FILE] --output FILE [options]\n"
    "\n"
    "Makes tables, plots and an HTML page of measured rows. Only rows with real weights that passed correctness and\n"
    "are faster than 1.0x are promoted; everything else is shown as what it is.\n",
    "  skippy bench report --input full-gguf/production-cache-bench.json --output tables.md --plots plots --html report.html"};

int sk_cli_bench_report(int argc, char **argv) {
    options o;
    sk_err e = {0};
    const int usage = parse(&REPORT, argc, argv, &o);
    if (usage != SK_BENCH_DONE || o.help) return usage;
    const sk_family_report_options r = {.inputs = o.inputs,
                                        .n_inputs = o.n_inputs,
                                        .corpus = o.corpus,
                                        .output = o.output,
                                        .todo = o.todo,
                                        .html = o.html,
                                        .plots = o.plots,
                                        .evict_json = o.evict,
                                        .gnuplot = o.gnuplot};
    return finish(argv[0], sk_family_report(&r, &e), &e);
}
