#include "cli/stage_up_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "reuse/ram_cap.h"

enum { ARG_STAGES = 1, ARG_NO_CERTIFY, FIRST_OF_SERVE, MAX_DEFS = SK_SERVE_MAX_DEFS + 2 };

static const sk_arg_def own_defs[] = {
    {ARG_STAGES, "--stages", "N", NULL, "how many processes hold the model, the head included (default: 2)"},
    {ARG_NO_CERTIFY, "--no-certify", NULL, NULL,
     "do not compare the stages with the whole model first; a comparison\nloads the whole model once and leaves a receipt"},
};
enum { N_OWN = sizeof own_defs / sizeof *own_defs };

/* What serve's option of this id has to do with a split that is started here. */
static bool is_shared(int id) {
    return id == SK_RUN_ARG_MODEL || (id >= SK_RUN_ARG_SHARED && id < SK_RUN_ARG_END) ||
           (id >= SK_SPLIT_ARG_FIRST && id < SK_SPLIT_ARG_END);
}

static bool is_decided_here(const sk_arg_def *d) {
    return strcmp(d->names, "--stages") == 0 || d->id == SK_SPLIT_ARG_LAYERS ||
           (d->id >= SK_SPLIT_ARG_CA && d->id < SK_SPLIT_ARG_END);
}

/* Own options, and those of serve with ids that are not ours. */
static size_t all_defs(sk_arg_def *out) {
    sk_arg_def serve[SK_SERVE_MAX_DEFS];
    const size_t n_serve = sk_serve_defs(serve);
    size_t n = N_OWN;
    memcpy(out, own_defs, sizeof own_defs);
    for (size_t i = 0; i < n_serve; i++) {
        if (is_decided_here(&serve[i])) continue;
        out[n] = serve[i];
        if (out[n].id < SK_RUN_ARG_FIRST) out[n].id = FIRST_OF_SERVE;
        n++;
    }
    return n;
}

/* Sorts the words of one option, argv[from..to). */
static int take(sk_up_options *o, int id, const sk_args *a, int from, sk_err *e) {
    if (id == ARG_NO_CERTIFY) o->no_certify = true;
    if (id == ARG_STAGES && !sk_args_u32(a, 2, SK_CUT_STAGES_MAX, &o->n_stages, e)) return e->code;
    if (id < FIRST_OF_SERVE) return SKIPPY_OK;
    for (int i = from; i < a->at; i++) {
        sk_arg_list_add(&o->head_words, a->argv[i]);
        if (is_shared(id)) sk_arg_list_add(&o->stage_words, a->argv[i]);
    }
    return SKIPPY_OK;
}

/* Parses serve's part as that of a head, so that what a head cannot do is refused here and not by a child. */
static int parse_serve(sk_up_options *o, const char *program, sk_err *e) {
    sk_arg_list *words = &o->parsed;
    sk_arg_list_add(words, program);
    for (size_t i = 0; i < o->head_words.n; i++) sk_arg_list_add(words, o->head_words.v[i]);
    sk_arg_list_addf(words, "--stages", "unix:/none");
    if (words->failed || o->head_words.failed || o->stage_words.failed)
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    return sk_serve_options_parse(&o->serve, (int)words->n, words->v, e);
}

int sk_up_options_parse(sk_up_options *o, int argc, char **argv, sk_err *e) {
    sk_arg_def defs[MAX_DEFS];
    sk_args a = {.defs = defs, .n_defs = all_defs(defs), .argc = argc, .argv = argv, .at = 1};
    *o = (sk_up_options){.n_stages = 2};
    sk_err_set(e, SKIPPY_E_INVALID, "wrong usage");
    for (;;) {
        const int from = a.at, id = sk_args_next(&a, e);
        if (id == 0) break;
        if (id < 0 || take(o, id, &a, from, e) != SKIPPY_OK) return e->code;
    }
    return parse_serve(o, argv[0], e);
}

void sk_up_options_free(sk_up_options *o) {
    sk_serve_options_free(&o->serve);
    sk_arg_list_free(&o->parsed);
    sk_arg_list_free(&o->head_words);
    sk_arg_list_free(&o->stage_words);
}

void sk_up_options_help(void) {
    puts(
        "Usage: skippy stage up -m MODEL.gguf [--stages N] [--no-certify] [options of 'skippy serve']\n\n"
        "Starts a whole split on this machine, to try it out: cuts the model where its file allows, starts the stages over\n"
        "unix sockets in a private folder, then the head, which serves HTTP. One Ctrl-C ends all; a process that dies\n"
        "ends the others. Cores and cache memory are shared evenly unless -t and --cache-ram say otherwise.\n\n"
        "Options:");
    sk_args_help(own_defs, N_OWN, stdout);
    puts("\nExamples:\n"
         "  skippy stage up -m model.gguf --stages 3\n"
         "  skippy stage up -m model.gguf --stages 2 --port 9000 -c 8192 -np 8 --cache-disk /var/cache/split\n\n"
         "Exit codes: 0 stopped on request, 1 failed, 2 wrong usage.");
}

sk_up_shares sk_up_shares_make(const sk_up_options *o, int64_t ctx_of_model, long cores) {
    enum { CTX_DEFAULT = 16384 };
    const sk_run_options *r = &o->serve.run;
    const uint32_t n = o->n_stages;
    sk_up_shares s = {.ram_bytes = UINT64_MAX};
    /* Derived sizes would differ from process to process, and a head is refused by stages of another context. */
    if (r->engine.n_ctx == 0 && !r->ctx_of_model)
        s.n_ctx = ctx_of_model > 0 && ctx_of_model < CTX_DEFAULT ? (uint32_t)ctx_of_model : CTX_DEFAULT;
    if (r->engine.n_threads == 0) s.n_threads = cores > (long)n ? (int32_t)(cores / (long)n) : 1;
    if (r->engine.ram_bytes == SK_RAM_DERIVE && !r->engine.cache_off) s.ram_bytes = sk_ram_cap(SK_RAM_DERIVE) / n;
    return s;
}

/* What every process is told beside the user's own words. */
static void add_shares(const sk_up_options *o, const sk_up_shares *s, size_t i, sk_arg_list *out) {
    const sk_engine_params *p = &o->serve.run.engine;
    if (s->n_ctx) sk_arg_list_addf(out, "-c", "%u", s->n_ctx);
    if (s->n_threads) sk_arg_list_addf(out, "-t", "%d", (int)s->n_threads);
    if (s->ram_bytes != UINT64_MAX) sk_arg_list_addf(out, "--cache-ram", "%" PRIu64, s->ram_bytes >> 20);
    if (!p->disk_dir) return;
    /* a folder and a part of the bytes for each: the cap is one process's own */
    sk_arg_list_addf(out, "--cache-disk", "%s/stage-%zu", p->disk_dir, i);
    if (p->disk_bytes) {
        const uint64_t mib = (p->disk_bytes >> 20) / o->n_stages;
        sk_arg_list_addf(out, "--cache-disk-max", "%" PRIu64, mib ? mib : 1);
    }
}

static void add_addresses(const sk_cut_plan *plan, const char *folder, sk_arg_list *out) {
    char list[SK_CUT_STAGES_MAX * 128];
    size_t at = 0;
    for (size_t i = 1; i < plan->n_stages && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%sunix:%s/%zu.sock", i == 1 ? "" : ",", folder, i);
    sk_arg_list_add(out, "--stages");
    sk_arg_list_add(out, list);
    if (at >= sizeof list) out->failed = true;
}

void sk_up_arguments(const sk_up_options *o, const sk_up_shares *s, const sk_cut_plan *plan, size_t i,
                     const char *folder, sk_arg_list *out) {
    const sk_layer_range r = plan->stage[i];
    const sk_arg_list *words = i == 0 ? &o->head_words : &o->stage_words;
    sk_arg_list_add(out, i == 0 ? "serve" : "stage");
    for (size_t k = 0; k < words->n; k++) sk_arg_list_add(out, words->v[k]);
    sk_arg_list_addf(out, "--layers", "%d..%d", (int)r.start, (int)r.end - 1);
    add_shares(o, s, i, out);
    if (i == 0) {
        add_addresses(plan, folder, out);
        return;
    }
    sk_arg_list_addf(out, "--listen", "unix:%s/%zu.sock", folder, i);
    if (o->serve.receipts) sk_arg_list_addf(out, "--receipts", "%s", o->serve.receipts);
    sk_arg_list_add(out, "--json");
}
