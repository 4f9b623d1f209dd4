#include "cli/synth.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "runtime/synth.h"

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

typedef struct options {
    sk_synth_params params;
    bool list, json, help;
} options;

static const char HELP[] =
    "Usage: skippy synth --family NAME --out FILE [options]\n"
    "       skippy synth --list [--json]\n"
    "\n"
    "Writes a GGUF model with seeded random weights and the real structure of a model family, for tests and benchmarks.\n"
    "The same options give the same bytes. The text that such a model writes has no meaning.\n"
    "\n"
    "  --family NAME      model family; --list names them\n"
    "  --out FILE         the new file\n"
    "  --size SIZE        tiny (default): a few layers, about 1100 tokens, megabytes\n"
    "                     shape: the real model's width, layers and vocabulary, gigabytes\n"
    "  --seed N           seed of the weights (default 1)\n"
    "  --quant TYPE       f32, f16, q8_0 or q4_k_m (default: f32 for tiny, q4_k_m for shape)\n"
    "  --layers N         number of layers instead of the family's own\n"
    "  --vocab FILE       GGUF file whose tokenizer is used\n"
    "  --template FILE    chat template (Jinja) that is used\n"
    "  --llama-src DIR    llama.cpp source tree with models/ (default: $LLAMA_CPP_SRC, else the tree of the build)\n"
    "  --threads N        threads for quantising (default 2)\n"
    "  --force            replace FILE if it exists\n"
    "  --list             list the families\n"
    "  --json             one JSON object on standard output\n"
    "  -h, --help         this text\n"
    "\n"
    "Examples:\n"
    "  skippy synth --family llama --out tiny-llama.gguf\n"
    "  skippy synth --family falcon-h1 --size shape --out falcon-h1-1.5b-shape.gguf\n"
    "  skippy synth --family qwen3next --size shape --layers 4 --quant q8_0 --out part.gguf --json\n"
    "\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage.\n";

static int usage_error(const char *what, const char *value) {
    fprintf(stderr, "skippy synth: %s%s%s%s. Try 'skippy synth --help'.\n", what, value ? " '" : "", value ? value : "",
            value ? "'" : "");
    return EXIT_USAGE;
}

/* ---- options ---- */

/* Decimal digits only: strtoull alone would take "-1" and " 7". */
static bool parse_u64(const char *text, uint64_t max, uint64_t *out) {
    char *end = NULL;
    if (*text < '0' || *text > '9') return false;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || v > max) return false;
    *out = v;
    return true;
}

static bool parse_size(const char *text, enum sk_synth_size *out) {
    if (strcmp(text, "tiny") == 0)
        *out = SK_SYNTH_TINY;
    else if (strcmp(text, "shape") == 0)
        *out = SK_SYNTH_SHAPE;
    else
        return false;
    return true;
}

static int take_number(const char *text, uint64_t min, uint64_t max, const char *complaint, uint64_t *out) {
    return parse_u64(text, max, out) && *out >= min ? EXIT_DONE : usage_error(complaint, text);
}

static int take_option(int c, options *o) {
    sk_synth_params *p = &o->params;
    uint64_t v = 0;
    int rc = EXIT_DONE;
    switch (c) {
    case 'f': p->family = optarg; break;
    case 'o': p->out = optarg; break;
    case 'z':
        return parse_size(optarg, &p->size) ? EXIT_DONE : usage_error("--size must be tiny or shape, not", optarg);
    case 's': return take_number(optarg, 0, UINT64_MAX, "--seed must be a number from 0 to 2^64-1, not", &p->seed);
    case 'q':
        return sk_synth_quant_parse(optarg, &p->quant)
                   ? EXIT_DONE
                   : usage_error("--quant must be f32, f16, q8_0 or q4_k_m, not", optarg);
    case 'n':
        rc = take_number(optarg, 1, 512, "--layers must be a number from 1 to 512, not", &v);
        p->layers = (uint32_t)v;
        return rc;
    case 't':
        rc = take_number(optarg, 1, 256, "--threads must be a number from 1 to 256, not", &v);
        p->n_threads = (int)v;
        return rc;
    case 'v': p->vocab_file = optarg; break;
    case 'c': p->template_file = optarg; break;
    case 'l': p->llama_src = optarg; break;
    case 'F': p->force = true; break;
    case 'L': o->list = true; break;
    case 'j': o->json = true; break;
    case 'h': o->help = true; break;
    case ':': return usage_error("a value is missing after", NULL);
    default: return usage_error("unknown option", NULL);
    }
    return rc;
}

static int parse(int argc, char **argv, options *o) {
    static const struct option longs[] = {
        {"family", required_argument, NULL, 'f'},
        {"out", required_argument, NULL, 'o'},
        {"size", required_argument, NULL, 'z'},
        {"seed", required_argument, NULL, 's'},
        {"quant", required_argument, NULL, 'q'},
        {"layers", required_argument, NULL, 'n'},
        {"threads", required_argument, NULL, 't'},
        {"vocab", required_argument, NULL, 'v'},
        {"template", required_argument, NULL, 'c'},
        {"llama-src", required_argument, NULL, 'l'},
        {"force", no_argument, NULL, 'F'},
        {"list", no_argument, NULL, 'L'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c, rc = EXIT_DONE;
    optind = 0; /* glibc: start over, the program has parsed its own options already */
    opterr = 0;
    while (rc == EXIT_DONE && (c = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
        if (c == ':' || c == '?')
            rc = usage_error(c == ':' ? "a value is missing after" : "unknown option", argv[optind - 1]);
        else
            rc = take_option(c, o);
    }
    if (rc == EXIT_DONE && optind < argc) rc = usage_error("unexpected argument", argv[optind]);
    if (rc != EXIT_DONE || o->help || o->list) return rc;
    if (!o->params.family) return usage_error("--family is missing", NULL);
    if (!o->params.out) return usage_error("--out is missing", NULL);
    return EXIT_DONE;
}

/* ---- Ctrl-C ---- */

static volatile sig_atomic_t stop_asked, quantising;
static char scratch[2][PATH_MAX];

/* While writing, the progress function stops the work and the library cleans up. The quantiser cannot be stopped from
 * within, so there the scratch files are removed here and the process ends (unlink and _exit are allowed in handlers).
 */
static void end_now(int signo) {
    unlink(scratch[0]);
    unlink(scratch[1]);
    _exit(128 + signo);
}

static void on_signal(int signo) {
    stop_asked = signo;
    if (quantising) end_now(signo);
}

static void catch_signals(const char *out) {
    struct sigaction sa = {.sa_handler = on_signal};
    sigemptyset(&sa.sa_mask);
    for (int i = 0; i < 2; i++)
        if (sk_synth_scratch_path(out, i, scratch[i], sizeof scratch[i]) != SKIPPY_OK)
            return; /* the library refuses it too */
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
}

/* ---- progress ---- */

typedef struct meter {
    bool tty;
    int shown; /* last percentage */
    enum sk_synth_phase phase;
} meter;

static void draw_bar(const char *what, int percent) {
    char bar[41];
    int full = percent * 40 / 100;
    for (int i = 0; i < 40; i++) bar[i] = i < full ? '#' : '.';
    bar[40] = '\0';
    fprintf(stderr, "\r%-10s [%s] %3d %%%s", what, bar, percent, percent >= 100 ? "\n" : "");
}

/* A bar on a terminal, else a line every 10 %. */
static bool on_progress(void *ud, enum sk_synth_phase phase, uint64_t done, uint64_t total) {
    meter *m = ud;
    const char *what = phase == SK_SYNTH_WRITE ? "writing" : "quantising";
    quantising = phase == SK_SYNTH_QUANTISE;
    if (quantising && stop_asked) end_now(stop_asked); /* the signal came between the two phases */
    int percent = total ? (int)(100.0 * (double)done / (double)total) : 100;
    if (m->phase != phase) *m = (meter){.tty = m->tty, .shown = -1, .phase = phase};
    if (percent > m->shown && (m->tty || percent / 10 > m->shown / 10 || m->shown < 0)) {
        if (m->tty)
            draw_bar(what, percent);
        else
            fprintf(stderr, "skippy synth: %s %d %%\n", what, percent);
        m->shown = percent;
    }
    return !stop_asked;
}

/* ---- output ---- */

static int print_buffer(sk_buf *b) {
    bool ok = !b->failed && fwrite(b->data, 1, b->len, stdout) == b->len && fflush(stdout) == 0;
    sk_buf_free(b);
    if (!ok) fprintf(stderr, "skippy synth: cannot write to standard output\n");
    return ok ? EXIT_DONE : EXIT_FAILED;
}

static int print_list(bool json) {
    sk_buf b = {0};
    sk_synth_family_info f;
    if (json)
        sk_buf_str(&b, "{\"families\":[");
    else
        sk_buf_printf(&b, "%-14s %-14s %10s  %s\n", "FAMILY", "ARCHITECTURE", "PARAMETERS", "SHAPE OF");
    for (size_t i = 0; sk_synth_family_at(i, &f); i++) {
        if (json)
            sk_buf_printf(&b, "%s{\"family\":\"%s\",\"arch\":\"%s\",\"shape_of\":\"%s\",\"shape_parameters\":%.0f}",
                          i ? "," : "", f.name, f.arch, f.real_model, f.billions * 1e9);
        else
            sk_buf_printf(&b, "%-14s %-14s %8.2f B  %s\n", f.name, f.arch, f.billions, f.real_model);
    }
    if (json) sk_buf_str(&b, "]}\n");
    return print_buffer(&b);
}

static int print_result(const options *o, const sk_synth_result *r) {
    sk_buf b = {0};
    if (o->json) {
        sk_buf_str(&b, "{\"file\":\"");
        sk_buf_json_escape(&b, o->params.out, strlen(o->params.out));
        sk_buf_printf(&b,
                      "\",\"family\":\"%s\",\"size\":\"%s\",\"quant\":\"%s\",\"seed\":%" PRIu64
                      ",\"layers\":%u,\"vocab\":%u,",
                      o->params.family, o->params.size == SK_SYNTH_TINY ? "tiny" : "shape",
                      sk_synth_quant_name(r->quant), o->params.seed, r->layers, r->vocab);
        sk_buf_printf(&b, "\"tensors\":%zu,\"parameters\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"synthetic\":true}\n",
                      r->tensors, r->parameters, r->file_bytes);
    } else {
        sk_buf_printf(
            &b,
            "%s: %u layers, %u tokens, %zu tensors, %.1f M parameters, %s, %.1f MB (random weights, seed %" PRIu64
            ")\n",
            o->params.out, r->layers, r->vocab, r->tensors, (double)r->parameters / 1e6, sk_synth_quant_name(r->quant),
            (double)r->file_bytes / 1e6, o->params.seed);
    }
    return print_buffer(&b);
}

static int fail(const options *o, const sk_err *err) {
    sk_buf b = {0};
    fprintf(stderr, "skippy synth: %s\n", err->text);
    if (o->json) {
        sk_buf_printf(&b, "{\"error\":{\"code\":%d,\"kind\":\"%s\",\"message\":\"", err->code,
                      skippy_strerror(err->code));
        sk_buf_json_escape(&b, err->text, strlen(err->text));
        sk_buf_str(&b, "\"}}\n");
        print_buffer(&b);
    }
    return EXIT_FAILED;
}

int sk_cli_synth(int argc, char **argv) {
    options o = {.params = {.seed = 1}};
    sk_synth_result result;
    sk_err err = {0};
    int rc = parse(argc, argv, &o);
    if (rc != EXIT_DONE) return rc;
    if (o.help) return fputs(HELP, stdout) == EOF ? EXIT_FAILED : EXIT_DONE;
    if (o.list) return print_list(o.json);
    meter m = {.tty = isatty(STDERR_FILENO) == 1, .shown = -1, .phase = SK_SYNTH_WRITE};
    o.params.progress = on_progress;
    o.params.progress_ud = &m;
    catch_signals(o.params.out);
    rc = sk_synth_write(&o.params, &result, &err);
    if (m.tty && rc != SKIPPY_OK && m.shown >= 0) fputc('\n', stderr);
    quantising = 0;
    return rc == SKIPPY_OK ? print_result(&o, &result) : fail(&o, &err);
}
