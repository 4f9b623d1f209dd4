#include "cli/certify_options.h"

#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/layer_range.h"
#include "correctness/stage_certify.h"

enum {
    ARG_MODEL = 1,
    ARG_FAMILY,
    ARG_PREFIX,
    ARG_PROMPT,
    ARG_REPEATS,
    ARG_THREADS,
    ARG_NGL,
    ARG_FLASH,
    ARG_TYPE_K,
    ARG_TYPE_V,
    ARG_WINDOW,
    ARG_RECEIPTS,
    ARG_NO_RECEIPT,
    ARG_REPORT,
    ARG_ALL,
    ARG_DIR,
    ARG_DOCS,
    ARG_STAGES,
    ARG_CUTS,
    ARG_PACKAGE,
    ARG_PACKAGE_CA,
    ARG_LAYERS,
    ARG_STAGE,
    ARG_PRODUCER,
    ARG_STAGE_DIR,
    ARG_JSON,
    ARG_HELP
};

static const sk_arg_def defs[] = {
    {ARG_MODEL, "-m --model", "FILE", NULL, "the GGUF file to certify"},
    {ARG_FAMILY, "--family-name", "NAME", NULL, "what to call the family in the report"},
    {ARG_PREFIX, "--prefix", "N", NULL, "tokens of the prefix; may be given four times (default: 128 and 304)"},
    {ARG_PROMPT, "--prompt", "TEXT", NULL, "a text to begin with (default: tokens drawn from the vocabulary)"},
    {ARG_REPEATS, "--repeats", "N", NULL, "hits of one stored state, 3 to 16 (default: 3)"},
    {ARG_THREADS, "-t --threads", "N", NULL, "threads (default: all cores)"},
    {ARG_NGL, "-ngl --gpu-layers --n-gpu-layers", "N", NULL, "layers on the GPU (default: 0)"},
    {ARG_FLASH, "-fa --flash-attn", "[on|off|auto]", "on|off|auto", "flash attention (default: auto)"},
    {ARG_TYPE_K, "-ctk --cache-type-k", "TYPE", NULL, "type of K in the cache (default: f16)"},
    {ARG_TYPE_V, "-ctv --cache-type-v", "TYPE", NULL, "type of V in the cache (default: f16)"},
    {ARG_WINDOW, "--window", "CACHE", "both|sliding|full",
     "window cache of a sliding-window model; `serve` takes the\nfull one for small contexts (default: both)"},
    {ARG_RECEIPTS, "--receipts", "DIR", NULL,
     "where receipts are kept (default:\n$XDG_STATE_HOME/skippy/receipts or ~/.local/state/skippy/receipts)"},
    {ARG_NO_RECEIPT, "--no-receipt", NULL, NULL, "write no receipt"},
    {ARG_REPORT, "--report-out", "FILE", NULL, "write the whole report as JSON"},
    {ARG_ALL, "--all-synthetic", NULL, NULL,
     "certify every family that 'skippy synth' can make, on tiny\nmodels with random weights; writes no receipts"},
    {ARG_DIR, "--dir", "DIR", NULL, "keep the generated models here (default: a temporary folder)"},
    {ARG_DOCS, "--docs", "FILE", NULL, "put the table of --all-synthetic between the markers of FILE"},
    {ARG_STAGES, "--stages", "N", NULL,
     "certify the stages of a split instead: N stage files against the whole model,\ncut as 'skippy stage up' cuts"},
    {ARG_CUTS, "--cuts", "L,L,...", NULL, "the same, cut in front of these layers"},
    {ARG_LAYERS, "--layers", "A..B", NULL,
     "certify one stage alone, without the whole model: these layers, both\nincluded, out of -m or --package; only they are fetched"},
    {ARG_PACKAGE, "--package", "DIR|URL", NULL, "take the layers out of a package ('skippy package')"},
    {ARG_PACKAGE_CA, "--package-ca", "FILE", NULL, "further authorities for https (default: the system's)"},
    {ARG_STAGE, "--stage", "N", NULL, "the stage's place in the split, 0 the first, for the report"},
    {ARG_PRODUCER, "--producer", "A..B", NULL,
     "feed the stage what these layers, all before it, make of tokens\n(default: hidden states made by a formula)"},
    {ARG_STAGE_DIR, "--stage-cache", "DIR", NULL,
     "where stage files are kept (default: $XDG_CACHE_HOME/skippy/stages or\n~/.cache/skippy/stages)"},
    {ARG_JSON, "--json", NULL, NULL, "print the whole report as JSON instead of a summary"},
    {ARG_HELP, "-h --help", NULL, NULL, "this text"},
};
enum { N_DEFS = sizeof defs / sizeof *defs };

static int parse_flash(const char *value) {
    return !value || strcmp(value, "on") == 0 ? 1 : strcmp(value, "off") == 0 ? 0 : -1;
}

static enum sk_window_choice parse_window(const char *value) {
    return strcmp(value, "full") == 0      ? SK_WINDOW_FULL
           : strcmp(value, "sliding") == 0 ? SK_WINDOW_SLIDING
                                           : SK_WINDOW_BOTH;
}

static bool take_prefix(sk_certify_options *run, const sk_args *a, sk_err *e) {
    if (run->n_prefix == SK_CERTIFY_MAX_LENGTHS) {
        sk_err_set(e, SKIPPY_E_INVALID, "--prefix can be given %d times", SK_CERTIFY_MAX_LENGTHS);
        return false;
    }
    return sk_args_u32(a, 32, 8192, &run->prefix[run->n_prefix++], e);
}

static bool take_type(const sk_args *a, const char **out, sk_err *e) {
    *out = a->value;
    if (sk_context_known_type(a->value)) return true;
    sk_err_set(e, SKIPPY_E_INVALID, "%s: llama.cpp has no cache type '%s'", a->name, a->value);
    return false;
}

static bool take(sk_certify_cli *o, int id, const sk_args *a, sk_err *e) {
    sk_certify_options *run = &o->run;
    switch (id) {
    case ARG_MODEL: run->model_path = a->value; break;
    case ARG_FAMILY: run->family = a->value; break;
    case ARG_PREFIX: return take_prefix(run, a, e);
    case ARG_PROMPT: run->prompt = a->value; break;
    case ARG_REPEATS: return sk_args_u32(a, 3, SK_TRIAL_MAX_REPEATS, &run->repeats, e);
    case ARG_THREADS: return sk_args_i32(a, 1, 512, &run->n_threads, e);
    case ARG_NGL: return sk_args_i32(a, -1, 100000, &run->n_gpu_layers, e);
    case ARG_FLASH: run->flash_attn = parse_flash(a->value); break;
    case ARG_TYPE_K: return take_type(a, &run->type_k, e);
    case ARG_TYPE_V: return take_type(a, &run->type_v, e);
    case ARG_WINDOW: o->window = parse_window(a->value); break;
    case ARG_RECEIPTS: o->receipts = a->value; break;
    case ARG_NO_RECEIPT: o->no_receipt = true; break;
    case ARG_REPORT: o->report_out = a->value; break;
    case ARG_ALL: o->all_synthetic = true; break;
    case ARG_DIR: o->dir = a->value; break;
    case ARG_DOCS: o->docs = a->value; break;
    case ARG_STAGES: return sk_args_u32(a, 2, SK_STAGE_CERTIFY_MAX, &o->stages, e);
    case ARG_CUTS: o->cuts = a->value; break;
    case ARG_PACKAGE: o->split.package = a->value; break;
    case ARG_PACKAGE_CA: o->split.package_ca = a->value; break;
    case ARG_LAYERS: o->split.has_layers = true; return sk_layer_range_parse(a->value, &o->split.layers, e);
    case ARG_STAGE: o->has_stage = true; return sk_args_u32(a, 0, SK_MAX_LAYERS, &run->stage_index, e);
    case ARG_PRODUCER: o->has_producer = true; return sk_layer_range_parse(a->value, &o->producer, e);
    case ARG_STAGE_DIR: o->split.stage_dir = a->value; break;
    case ARG_JSON: o->json = true; break;
    default: o->help = true; break;
    }
    return true;
}

/* The first flag of a stage alone that was given; NULL = none. */
static const char *flag_of_stage(const sk_certify_cli *o) {
    return o->split.has_layers   ? "--layers"
           : o->split.package    ? "--package"
           : o->split.package_ca ? "--package-ca"
           : o->has_stage        ? "--stage"
           : o->has_producer     ? "--producer"
           : o->split.stage_dir  ? "--stage-cache"
                                 : NULL;
}

static int check_producer(const sk_certify_cli *o, sk_err *e) {
    const int first = (int)o->split.layers.start;
    if (first == 0)
        return sk_err_set(e, SKIPPY_E_INVALID, "--producer: the stage begins with layer 0 and takes tokens");
    if (o->producer.start == 0 && o->producer.end == o->split.layers.start) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_INVALID,
                      "--producer %d..%d is not what comes before the stage: all layers from 0 on are needed, without "
                      "a gap, so give 0..%d (or none, for synthetic hidden states)",
                      (int)o->producer.start, (int)o->producer.end - 1, first - 1);
}

static int check_stage(const sk_certify_cli *o, sk_err *e) {
    if (!o->split.has_layers)
        return sk_err_set(e, SKIPPY_E_INVALID, "which layers? %s needs --layers A..B", flag_of_stage(o));
    if (o->all_synthetic) return sk_err_set(e, SKIPPY_E_INVALID, "--layers does not go with --all-synthetic");
    if (o->split.package && o->run.model_path)
        return sk_err_set(e, SKIPPY_E_INVALID, "-m and --package exclude each other");
    if (o->has_stage && (o->run.stage_index == 0) != (o->split.layers.start == 0))
        return sk_err_set(e, SKIPPY_E_INVALID, "--stage %u cannot begin with layer %d: stage 0 is the one with layer 0",
                          o->run.stage_index, (int)o->split.layers.start);
    if (o->run.prompt && o->split.layers.start > 0 && !o->has_producer)
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "--prompt needs a tokenizer, which only first stages have: add "
                          "--producer 0..%d, or leave it out",
                          (int)o->split.layers.start - 1);
    return o->has_producer ? check_producer(o, e) : SKIPPY_OK;
}

static int check_stages(const sk_certify_cli *o, sk_err *e) {
    const sk_certify_options *run = &o->run;
    const char *other = flag_of_stage(o)       ? flag_of_stage(o)
                        : o->all_synthetic     ? "--all-synthetic"
                        : o->report_out        ? "--report-out"
                        : o->no_receipt        ? "--no-receipt"
                        : run->n_prefix        ? "--prefix"
                        : run->prompt          ? "--prompt"
                        : run->family          ? "--family-name"
                        : run->repeats         ? "--repeats"
                        : o->stages && o->cuts ? "--cuts"
                                               : NULL;
    if (!other) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_INVALID, "%s does not go with %s", other, o->stages ? "--stages" : "--cuts");
}

static int check(const sk_certify_cli *o, sk_err *e) {
    if (o->help) return SKIPPY_OK;
    if ((o->stages || o->cuts) && check_stages(o, e) != SKIPPY_OK) return SKIPPY_E_INVALID;
    if (flag_of_stage(o) && !o->stages && !o->cuts && check_stage(o, e) != SKIPPY_OK) return SKIPPY_E_INVALID;
    if (o->all_synthetic && o->run.model_path)
        return sk_err_set(e, SKIPPY_E_INVALID, "-m and --all-synthetic exclude each other");
    if (!o->all_synthetic && !o->run.model_path && !o->split.package)
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "which model? Give -m FILE, --package P --layers A..B, or --all-synthetic");
    if (!o->all_synthetic && (o->dir || o->docs))
        return sk_err_set(e, SKIPPY_E_INVALID, "%s belongs to --all-synthetic", o->dir ? "--dir" : "--docs");
    return SKIPPY_OK;
}

int sk_certify_cli_parse(sk_certify_cli *o, int argc, char **argv, sk_err *e) {
    sk_args a = {.defs = defs, .n_defs = N_DEFS, .argc = argc, .argv = argv, .at = 1};
    *o = (sk_certify_cli){.run = {.flash_attn = -1}};
    int id;
    while ((id = sk_args_next(&a, e)) > 0)
        if (!take(o, id, &a, e)) return SKIPPY_E_INVALID;
    return id < 0 ? SKIPPY_E_INVALID : check(o, e);
}

void sk_certify_cli_help(void) {
    puts(
        "Usage: skippy certify -m MODEL.gguf [options]\n"
        "       skippy certify -m MODEL.gguf --stages N | --cuts L,L [options]\n"
        "       skippy certify --package P | -m MODEL.gguf --layers A..B [--producer 0..A-1] [options]\n"
        "       skippy certify --all-synthetic [--dir DIR] [--docs FILE]\n\n"
        "Computes a prefix, keeps its state in every way the server can, restores it into a fresh lane, a fresh context\n"
        "and a fresh process, and compares what they say with the recorded run. Use the flags that 'skippy serve' will\n"
        "be started with: a receipt counts for one layout of the cache. The receipt is kept where 'serve' finds it.\n");
    sk_args_help(defs, N_DEFS, stdout);
    puts("\nExamples:\n"
         "  skippy certify -m model.gguf\n"
         "  skippy certify -m model.gguf -ctk q8_0 -ctv q8_0 --prefix 1000 --report-out report.json\n"
         "  skippy certify -m model.gguf --stages 3\n"
         "  skippy certify --package https://host/packages/model --stage 1 --layers 3..4 --producer 0..2\n\n"
         "Exit codes: 0 passed, 1 failed, 2 wrong usage.");
}
