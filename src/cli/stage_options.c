#include "cli/stage_options.h"

#include <stdio.h>
#include <string.h>

enum { ARG_LISTEN = 1, ARG_RECEIPTS, MAX_DEFS = 64 };

static const sk_arg_def own_defs[] = {
    {ARG_LISTEN, "--listen", "ADDR", NULL,
     "where the stage before connects to: HOST:PORT, [V6]:PORT or\nunix:/PATH (needed); port 0: any free one"},
    {ARG_RECEIPTS, "--receipts", "DIR", NULL, "where 'skippy certify' left its receipts (default: its default)"},
};
enum { N_OWN = sizeof own_defs / sizeof *own_defs };

/* A stage has no name for clients. */
static size_t run_defs(sk_arg_def *out) {
    size_t n = 0;
    for (size_t i = 0; i < sk_run_n_defs; i++)
        if (sk_run_defs[i].id != SK_RUN_ARG_ALIAS) out[n++] = sk_run_defs[i];
    return n;
}

static size_t all_defs(sk_arg_def *out) {
    size_t n = run_defs(out);
    memcpy(out + n, own_defs, sizeof own_defs);
    memcpy(out + n + N_OWN, sk_split_defs, sk_split_n_defs * sizeof *out);
    return n + N_OWN + sk_split_n_defs;
}

static bool apply(sk_stage_options *o, int id, const sk_args *a, sk_err *e) {
    bool known = true;
    bool ok = sk_run_apply(&o->run, id, a, &known, e);
    if (known) return ok;
    ok = sk_split_options_apply(&o->split, id, a, &known, e);
    if (known) return ok;
    *(id == ARG_LISTEN ? &o->listen : &o->receipts) = a->value;
    return true;
}

static int check(sk_stage_options *o, sk_err *e) {
    if (o->run.help) return SKIPPY_OK;
    if (o->split.package && o->run.model.path)
        return sk_err_set(e, SKIPPY_E_INVALID, "-m and --package exclude each other");
    if (o->split.package) o->run.model.path = o->split.package;
    int rc = sk_run_check(&o->run, e);
    if (rc == SKIPPY_OK) rc = sk_split_options_check(&o->split, e);
    if (rc == SKIPPY_OK && !o->listen)
        rc = sk_err_set(e, SKIPPY_E_INVALID, "where does the stage before connect to? Give --listen HOST:PORT");
    if (rc == SKIPPY_OK) rc = sk_link_check_address(o->listen, e);
    if (rc == SKIPPY_OK && o->split.has_layers && o->split.layers.start == 0)
        rc = sk_err_set(e, SKIPPY_E_INVALID,
                        "the layers from 0 on belong to the head: 'skippy serve --layers 0..%d --stages ...'",
                        (int)o->split.layers.end - 1);
    return rc;
}

int sk_stage_options_parse(sk_stage_options *o, int argc, char **argv, sk_err *e) {
    sk_arg_def defs[MAX_DEFS];
    sk_args a = {.defs = defs, .n_defs = all_defs(defs), .argc = argc, .argv = argv, .at = 1};
    sk_err_set(e, SKIPPY_E_INVALID, "wrong usage");
    memset(o, 0, sizeof *o);
    sk_run_defaults(&o->run);
    sk_split_options_defaults(&o->split);
    for (int id; (id = sk_args_next(&a, e)) != 0;)
        if (id < 0 || !apply(o, id, &a, e)) return e->code;
    return check(o, e);
}

void sk_stage_options_help(void) {
    sk_arg_def defs[MAX_DEFS];
    puts(
        "Usage: skippy stage -m MODEL.gguf --layers A..B --listen ADDR [options]\n"
        "       skippy stage init-certs DIR NAME...\n"
        "       skippy stage up -m MODEL.gguf --stages N [--port PORT] [options of serve]\n\n"
        "One stage of a model that is split over several processes or machines: it computes some layers and keeps its own\n"
        "exact cache of them. The head, 'skippy serve --stages', holds the first layers and talks to clients. 'init-certs'\n"
        "makes certificates for the links; 'up' starts a whole split on this machine (see 'skippy stage up --help').\n"
        "Context, batch sizes, KV types and --wire must be those of the head; otherwise the head is refused in words.\n\n"
        "Options:");
    sk_args_help(own_defs, N_OWN, stdout);
    sk_args_help(sk_split_defs, sk_split_n_defs, stdout);
    sk_args_help(defs, run_defs(defs), stdout);
    puts("\nExamples:\n"
         "  skippy stage up -m model.gguf --stages 3 --port 8080\n"
         "  skippy stage -m model.gguf --layers 6..11 --listen unix:/run/skippy/stage1.sock -c 8192\n"
         "  skippy stage --package https://example.org/model/ --layers 6..11 --listen 10.0.0.2:7000 -c 8192 \\\n"
         "    --tls-ca ca.crt --tls-cert 10.0.0.2.crt --tls-key 10.0.0.2.key\n\n"
         "Exit codes: 0 stopped on request, 1 failed, 2 wrong usage.");
}

sk_stage_params sk_stage_options_params(const sk_stage_options *o, const sk_model_info *i) {
    const sk_engine_params *p = &o->run.engine;
    sk_setup_params setup = sk_engine_setup_params(p);
    if (o->run.ctx_of_model) setup.n_ctx = (uint32_t)i->n_ctx_train;
    return (sk_stage_params){
        .setup = setup,
        .logits_bytes = p->logits_bytes,
        .min_tokens = p->min_tokens,
        .ram_bytes = p->ram_bytes,
        .disk_bytes = p->disk_bytes,
        .disk_dir = p->disk_dir,
        .activation_bytes = p->cache_off ? 0 : o->split.activation_bytes,
        .dtype = o->split.dtype,
        .listen = o->listen,
        .link.security = o->split.security,
    };
}
