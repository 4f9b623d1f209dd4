#include "cli/bench.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bare.h"
#include "bench/interrupt.h"
#include "bench/quick.h"
#include "cli/bench_evict.h"
#include "cli/bench_exit.h"
#include "cli/bench_family.h"
#include "cli/bench_relay.h"
#include "cli/bench_stages.h"
#include "cli/bench_store.h"

#ifndef SKIPPY_VERSION
#define SKIPPY_VERSION "unknown"
#endif

enum exit_code { EXIT_DONE = SK_BENCH_DONE, EXIT_FAILED = SK_BENCH_FAILED, EXIT_USAGE = SK_BENCH_USAGE };

static const char HELP[] =
    "Usage: skippy bench quick -m MODEL.gguf [options]\n"
    "       skippy bench bare -m MODEL.gguf [options]\n"
    "       skippy bench evict [--trace FILE.jsonl] [options]\n"
    "       skippy bench store -m MODEL.gguf [options]\n"
    "       skippy bench stages -m MODEL.gguf [options]\n"
    "       skippy bench relay --to HOST:PORT [options]\n"
    "       skippy bench family --models DIR [options]\n"
    "       skippy bench models --root DIR [options]\n"
    "       skippy bench prepare-full | prepare-use-cases | run --input FILE --output DIR\n"
    "       skippy bench report --input FILE --output FILE [options]\n"
    "\n"
    "quick starts llama-server and skippy in turn, sends both the same requests over HTTP and compares the times.\n"
    "bare times llama_decode of the new tokens of the 'prefix' scenario without a server.\n"
    "evict compares eviction policies on traces, without a model; its options: skippy bench evict --help.\n"
    "store measures what stored state costs and saves, without a server; its options: skippy bench store --help.\n"
    "stages measures one model over several processes, against llama.cpp's RPC: skippy bench stages --help.\n"
    "relay delays, stalls and cuts TCP connections: skippy bench relay --help.\n"
    "family compares with llama-server on fourteen model families, with receipts and a report: skippy bench family\n"
    "--help. models finds or makes its models; prepare-full, prepare-use-cases, run and report are its steps.\n"
    "\n"
    "  -m, --model FILE         the GGUF\n"
    "  -t, --threads N          threads of each server (default: cores)\n"
    "  -c, --ctx-size N         context of each lane (default: what the scenario needs, 4096 on one lane)\n"
    "  -o, --out DIR            where quick.json, quick.md and the servers' logs go (default: bench-quick)\n"
    "      --only A,B           only these: exact, prefix, alternation, agent, agent-chat, clients, clients-chat, edit,\n"
    "                           edit-chat, floor (prefix against a bare llama_decode, in turn), bitcost (state\n"
    "                           mode against bit mode, in turn), soak\n"
    "      --chat               also agent-chat and clients-chat\n"
    "      --runs N             measured requests of the short scenarios (default 20)\n"
    "      --long-runs N        repetitions of agent and clients, rounds of bitcost (default 3)\n"
    "      --prefix-tokens N    exact, prefix, floor: shared tokens (default 128)\n"
    "      --new-tokens N       prefix, floor: new tokens (default 16)\n"
    "      --chat-tokens N      alternation: tokens of each chat (default 1000)\n"
    "      --turns N            agent: turns (default 12)\n"
    "      --turn-tokens N      agent: new tokens of each turn (default 60)\n"
    "      --turn-predict N     agent: generated tokens of each turn (default 16)\n"
    "      --clients N          clients: how many (default 8)\n"
    "      --system-tokens N    clients: shared tokens (default 2000)\n"
    "      --tail-tokens N      clients: own tokens (default 32)\n"
    "      --clients-predict N  clients: generated tokens of each (default 1)\n"
    "      --history-tokens N   edit: tokens before the last message (default 600)\n"
    "      --edit-tokens N      edit: tokens of the last message (default 20)\n"
    "      --edits N            edit: edits of each conversation (default 5)\n"
    "      --cost-tokens N      bitcost: tokens of a new prompt (default 512)\n"
    "      --cost-predict N     bitcost: generated tokens (default 32)\n"
    "      --cost-lanes N       bitcost: lanes that generate together (default 4)\n"
    "      --seed N             seed of the prompts (default 1)\n"
    "      --soak N             also N requests to skippy while its memory is recorded\n"
    "      --llama-server PATH  the baseline (default: llama-server beside this program, else in PATH)\n"
    "      --skippy PATH        the program to measure (default: this one)\n"
    "      --baseline-flags S   flags of the tuned llama-server instead of the built-in sets\n"
    "      --skippy-flags S     further flags of skippy serve\n"
    "      --both-flags S       further flags of both servers\n"
    "      --timeout SECONDS    longest silence of a server (default 900)\n"
    "      --quick-check        tiny prompts, two runs: checks the benchmark itself, says nothing about speed\n"
    "      --paced              bare: one decode for each line of standard input, one JSON line for each answer\n"
    "      --json               the result as JSON on standard output instead of the table\n"
    "  -h, --help               this text\n"
    "\n"
    "Examples:\n"
    "  skippy bench quick -m model.gguf -t 2 --out results\n"
    "  skippy bench quick -m model.gguf --only exact,edit-chat --runs 40\n"
    "  skippy bench quick -m model.gguf --only floor --runs 40\n"
    "  skippy bench quick -m model.gguf --only bitcost --long-runs 7\n"
    "  skippy bench quick -m model.gguf --only soak --soak 5000\n"
    "\n"
    "Exit codes: 0 done, 1 failed or incomplete, 2 wrong usage, 130 interrupted.\n";

/* Every option: long ones without a letter have a number above all letters. */
enum option_id {
    OPT_ONLY = 256,
    OPT_CHAT,
    OPT_SOAK,
    OPT_LLAMA_SERVER,
    OPT_SKIPPY,
    OPT_BASELINE_FLAGS,
    OPT_SKIPPY_FLAGS,
    OPT_BOTH_FLAGS,
    OPT_TIMEOUT,
    OPT_QUICK_CHECK,
    OPT_JSON,
    OPT_PACED,
    OPT_SEED,
    OPT_SIZE /* OPT_SIZE + index into SIZES */
};

/* Options that set one number of sk_sizes. */
static const struct size_option {
    const char *name;
    size_t offset;
    size_t min;
} SIZES[] = {
    {"runs", offsetof(sk_sizes, runs), 1},
    {"long-runs", offsetof(sk_sizes, long_runs), 1},
    {"prefix-tokens", offsetof(sk_sizes, prefix_tokens), 8},
    {"new-tokens", offsetof(sk_sizes, new_tokens), 1},
    {"chat-tokens", offsetof(sk_sizes, chat_tokens), 8},
    {"turns", offsetof(sk_sizes, turns), 1},
    {"turn-tokens", offsetof(sk_sizes, turn_tokens), 8},
    {"turn-predict", offsetof(sk_sizes, turn_predict), 1},
    {"clients", offsetof(sk_sizes, clients), 1},
    {"system-tokens", offsetof(sk_sizes, system_tokens), 8},
    {"tail-tokens", offsetof(sk_sizes, tail_tokens), 8},
    {"clients-predict", offsetof(sk_sizes, clients_predict), 1},
    {"history-tokens", offsetof(sk_sizes, history_tokens), 40},
    {"edit-tokens", offsetof(sk_sizes, edit_tokens), 8},
    {"edits", offsetof(sk_sizes, edits), 1},
    {"cost-tokens", offsetof(sk_sizes, cost_tokens), 16},
    {"cost-predict", offsetof(sk_sizes, cost_predict), 1},
    {"cost-lanes", offsetof(sk_sizes, cost_lanes), 1},
};
enum { N_SIZES = sizeof SIZES / sizeof SIZES[0], MAX_NUMBER = 1000000 };

typedef struct options {
    sk_quick_options quick;
    bool json, paced, help;
    bool size_set[N_SIZES];
    char self[PATH_MAX];
    char baseline[PATH_MAX + 32];
} options;

static int usage_error(const char *name, const char *what, const char *value) {
    fprintf(stderr, "%s: %s '%s'. Try 'skippy bench --help'.\n", name, what, value);
    return EXIT_USAGE;
}

static bool parse_number(const char *text, unsigned long long min, unsigned long long max, unsigned long long *out) {
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && text[0] != '-' && *out >= min && *out <= max;
}

static int set_size(const char *name, options *o, size_t index, const char *text) {
    unsigned long long v = 0;
    if (!parse_number(text, SIZES[index].min, MAX_NUMBER, &v)) {
        fprintf(stderr, "%s: --%s needs a number from %zu to %d, not '%s'.\n", name, SIZES[index].name,
                SIZES[index].min, MAX_NUMBER, text);
        return EXIT_USAGE;
    }
    *(size_t *)((char *)&o->quick.sizes + SIZES[index].offset) = (size_t)v;
    o->size_set[index] = true;
    return EXIT_DONE;
}

static int set_number(const char *name, options *o, int id, const char *text) {
    unsigned long long v = 0;
    const unsigned long long max = id == OPT_SEED      ? UINT32_MAX
                                   : id == 't'         ? 1024
                                   : id == OPT_TIMEOUT ? 86400
                                                       : 100000000;
    if (!parse_number(text, id == OPT_SEED || id == OPT_SOAK ? 0 : 1, max, &v)) {
        return usage_error(name, "a whole number in range is needed, not", text);
    }
    if (id == 't') {
        o->quick.threads = (int)v;
    } else if (id == 'c') {
        o->quick.lane_ctx = (uint32_t)v;
    } else if (id == OPT_SOAK) {
        o->quick.soak = (size_t)v;
    } else if (id == OPT_TIMEOUT) {
        o->quick.timeout_s = (int)v;
    } else {
        o->quick.sizes.seed = v;
    }
    return EXIT_DONE;
}

/* Sizes that were given stay, whatever the order of the options. */
static void use_quick_check(options *o) {
    sk_sizes tiny = o->quick.sizes;
    sk_sizes_quick_check(&tiny);
    for (size_t i = 0; i < N_SIZES; i++) {
        if (!o->size_set[i]) {
            memcpy((char *)&o->quick.sizes + SIZES[i].offset, (const char *)&tiny + SIZES[i].offset, sizeof(size_t));
        }
    }
}

static int set_option(const char *name, options *o, int id, const char *value) {
    switch (id) {
    case 'h': o->help = true; break;
    case 'm': o->quick.model = value; break;
    case 'o': o->quick.out_dir = value; break;
    case OPT_ONLY: o->quick.only = value; break;
    case OPT_CHAT: o->quick.chat = true; break;
    case OPT_LLAMA_SERVER: o->quick.llama_server = value; break;
    case OPT_SKIPPY: o->quick.skippy = value; break;
    case OPT_BASELINE_FLAGS: o->quick.baseline_flags = value; break;
    case OPT_SKIPPY_FLAGS: o->quick.skippy_flags = value; break;
    case OPT_BOTH_FLAGS: o->quick.both_flags = value; break;
    case OPT_JSON: o->json = true; break;
    case OPT_PACED: o->paced = true; break;
    default: return id >= OPT_SIZE ? set_size(name, o, (size_t)(id - OPT_SIZE), value) : set_number(name, o, id, value);
    }
    return EXIT_DONE;
}

static const struct option FIXED[] = {
    {"model", required_argument, NULL, 'm'},
    {"threads", required_argument, NULL, 't'},
    {"ctx-size", required_argument, NULL, 'c'},
    {"out", required_argument, NULL, 'o'},
    {"help", no_argument, NULL, 'h'},
    {"only", required_argument, NULL, OPT_ONLY},
    {"chat", no_argument, NULL, OPT_CHAT},
    {"soak", required_argument, NULL, OPT_SOAK},
    {"llama-server", required_argument, NULL, OPT_LLAMA_SERVER},
    {"skippy", required_argument, NULL, OPT_SKIPPY},
    {"baseline-flags", required_argument, NULL, OPT_BASELINE_FLAGS},
    {"skippy-flags", required_argument, NULL, OPT_SKIPPY_FLAGS},
    {"both-flags", required_argument, NULL, OPT_BOTH_FLAGS},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"quick-check", no_argument, NULL, OPT_QUICK_CHECK},
    {"json", no_argument, NULL, OPT_JSON},
    {"paced", no_argument, NULL, OPT_PACED},
    {"seed", required_argument, NULL, OPT_SEED},
};
enum { N_FIXED = sizeof FIXED / sizeof FIXED[0] };

static int parse(const char *name, int argc, char **argv, options *o) {
    struct option all[N_FIXED + N_SIZES + 1] = {{0}};
    bool tiny = false;
    memcpy(all, FIXED, sizeof FIXED);
    for (size_t i = 0; i < N_SIZES; i++) {
        all[N_FIXED + i] = (struct option){SIZES[i].name, required_argument, NULL, OPT_SIZE + (int)i};
    }
    optind = 0; /* glibc: start over */
    opterr = 0;
    for (int id; (id = getopt_long(argc, argv, ":m:t:c:o:h", all, NULL)) != -1;) {
        int rc = EXIT_DONE;
        if (id == ':' || id == '?') {
            return usage_error(name, id == ':' ? "a value is missing after" : "unknown option", argv[optind - 1]);
        }
        if (id == OPT_QUICK_CHECK) {
            tiny = true;
        } else {
            rc = set_option(name, o, id, optarg);
        }
        if (rc != EXIT_DONE) {
            return rc;
        }
    }
    if (tiny) {
        use_quick_check(o);
    }
    return optind < argc ? usage_error(name, "unexpected argument", argv[optind]) : EXIT_DONE;
}

/* This program, and the llama-server that `make baseline` puts beside it. */
static void find_programs(options *o) {
    const ssize_t n = readlink("/proc/self/exe", o->self, sizeof o->self - 1);
    o->self[n > 0 ? n : 0] = '\0';
    if (!o->quick.skippy) {
        o->quick.skippy = n > 0 ? o->self : "skippy";
    }
    if (!o->quick.llama_server) {
        const char *slash = strrchr(o->self, '/');
        snprintf(o->baseline, sizeof o->baseline, "%.*s/llama-server", slash ? (int)(slash - o->self) : 0, o->self);
        o->quick.llama_server = access(o->baseline, X_OK) == 0 ? o->baseline : "llama-server";
    }
}

static int print_report(const sk_report *report, bool json) {
    if (json) {
        json_t *root = sk_report_json(report);
        const int rc = root ? json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : -1;
        json_decref(root);
        puts("");
        return rc == 0 ? SKIPPY_OK : SKIPPY_E_NOMEM;
    }
    sk_buf page = {0};
    const int rc = sk_report_markdown(report, &page);
    if (rc == SKIPPY_OK) {
        fwrite(page.data, 1, page.len, stdout);
    }
    sk_buf_free(&page);
    return rc;
}

static int run_quick(const char *name, options *o) {
    sk_report report;
    sk_err e = {0};
    int rc = sk_quick_check(&o->quick, &e);
    if (rc != SKIPPY_OK) {
        fprintf(stderr, "%s: %s. Try 'skippy bench --help'.\n", name, e.text);
        return EXIT_USAGE;
    }
    find_programs(o);
    sk_interrupt_install();
    rc = sk_quick_run(&o->quick, &report, &e);
    if (report.n_results || report.floor || report.bit_cost || report.n_soak) {
        const int printed = print_report(&report, o->json);
        rc = rc == SKIPPY_OK && printed != SKIPPY_OK ? sk_err_set(&e, printed, "cannot print the report") : rc;
    }
    if (rc != SKIPPY_OK) {
        fprintf(stderr, "%s: %s\n", name, e.text);
    }
    sk_report_free(&report);
    return sk_bench_exit(rc);
}

static int run_bare(const char *name, const options *o) {
    const sk_quick_options *q = &o->quick;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const sk_bare_options b = {.model = q->model,
                               .n_ctx = q->lane_ctx ? q->lane_ctx : 4096,
                               .n_threads = q->threads ? q->threads : (int)cores,
                               .flash_attn = -1};
    json_t *result = NULL;
    sk_err e = {0};
    int rc = o->paced ? sk_bare_paced(&b, &q->sizes, stdin, stdout, &e) : sk_bare_run(&b, &q->sizes, &result, &e);
    if (rc == SKIPPY_OK && o->paced) {
        return EXIT_DONE;
    }
    if (rc != SKIPPY_OK) {
        fprintf(stderr, "%s: %s\n", name, e.text);
        return sk_bench_exit(rc);
    }
    if (o->json) {
        rc = json_dumpf(result, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
        puts("");
    } else {
        printf("llama_decode of %zu tokens after %zu: p50 %.3f ms, p95 %.3f ms over %zu runs\n", q->sizes.new_tokens,
               q->sizes.prefix_tokens, json_real_value(json_object_get(result, "p50_ms")),
               json_real_value(json_object_get(result, "p95_ms")), q->sizes.runs);
    }
    json_decref(result);
    return rc == 0 ? EXIT_DONE : EXIT_FAILED;
}

/* Benchmarks with options of their own. */
static const struct bench_command {
    const char *what;
    int (*run)(int argc, char **argv);
} COMMANDS[] = {
    {"evict", sk_cli_bench_evict},
    {"store", sk_cli_bench_store},
    {"stages", sk_cli_bench_stages},
    {"relay", sk_cli_bench_relay},
    {"family", sk_cli_bench_family},
    {"models", sk_cli_bench_models},
    {"prepare-full", sk_cli_bench_prepare_full},
    {"prepare-use-cases", sk_cli_bench_prepare_use_cases},
    {"run", sk_cli_bench_run},
    {"report", sk_cli_bench_report},
};

int sk_cli_bench(int argc, char **argv) {
    static const char NAME[] = "skippy bench";
    options o = {.quick = {.out_dir = "bench-quick", .timeout_s = 900, .version = SKIPPY_VERSION}};
    sk_sizes_default(&o.quick.sizes);
    if (argc < 2) {
        fprintf(stderr,
                "%s: which one: quick, bare, evict, store, stages, relay or family? Try 'skippy bench --help'.\n",
                NAME);
        return EXIT_USAGE;
    }
    const char *what = argv[1];
    if (strcmp(what, "--help") == 0 || strcmp(what, "-h") == 0) {
        fputs(HELP, stdout);
        return EXIT_DONE;
    }
    for (size_t i = 0; i < sizeof COMMANDS / sizeof COMMANDS[0]; i++) {
        if (strcmp(what, COMMANDS[i].what) == 0) {
            static char own[48];
            snprintf(own, sizeof own, "%s %s", NAME, what);
            argv[1] = own;
            return COMMANDS[i].run(argc - 1, argv + 1);
        }
    }
    const bool quick = strcmp(what, "quick") == 0;
    if (!quick && strcmp(what, "bare") != 0) {
        return usage_error(NAME, "unknown benchmark", what);
    }
    const int rc = parse(NAME, argc - 1, argv + 1, &o);
    if (rc != EXIT_DONE) {
        return rc;
    }
    if (o.help) {
        fputs(HELP, stdout);
        return EXIT_DONE;
    }
    if (!o.quick.model) {
        fprintf(stderr, "%s: which model? Give -m MODEL.gguf. Try 'skippy bench --help'.\n", NAME);
        return EXIT_USAGE;
    }
    return quick ? run_quick(NAME, &o) : run_bare(NAME, &o);
}
