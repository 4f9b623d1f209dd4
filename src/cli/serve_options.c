#include "cli/serve_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "cli/args.h"
#include "cli/serve_hints.h"

enum {
    ARG_LORA = 1,
    ARG_LORA_SCALED,
    ARG_TEMPLATE,
    ARG_TEMPLATE_FILE,
    ARG_PREDICT,
    ARG_EXACT,
    ARG_SHADOW,
    ARG_RECEIPTS,
    ARG_STAGES,
    ARG_STAGE_WAIT,
    ARG_QUEUE,
    ARG_HOST,
    ARG_PORT,
    ARG_KEY,
    ARG_KEY_FILE,
    ARG_ANONYMOUS,
    ARG_MAX_BODY,
    ARG_MAX_CONNECTIONS,
    ARG_TIMEOUT,
    ARG_PING,
    ARG_SHUTDOWN,
    ARG_ALWAYS,
    ARG_NEVER,
    ARG_NEVER_VALUE,
    ARG_PER_REQUEST
};

static const sk_arg_def own_defs[] = {
    {ARG_LORA, "--lora", "FILE", NULL, "adapter for every request; may be repeated"},
    {ARG_LORA_SCALED, "--lora-scaled", "FILE:SCALE", NULL, "adapter with a scale; may be repeated"},
    {ARG_TEMPLATE, "--chat-template", "JINJA", NULL, "chat template instead of the model's"},
    {ARG_TEMPLATE_FILE, "--chat-template-file", "FILE", NULL, "the same, from a file"},
    {ARG_PREDICT, "-n --predict --n-predict", "N", NULL,
     "tokens to generate when a request does not say (default: -1, no limit)"},
    {ARG_EXACT, "--exact", "state|bit", "state|bit",
     "state: restored state equals recorded state (default);\nbit: every answer equals that of a cold cache, bit for bit"},
    {ARG_SHADOW, "--shadow-recompute", "PERCENT", NULL,
     "share of the hits that is computed again on an idle lane and compared,\nfor instance 1%; a disagreement ends reuse (default: 0)"},
    {ARG_RECEIPTS, "--receipts", "DIR", NULL, "where 'skippy certify' left its receipts (default: its default)"},
    {ARG_STAGES, "--stages", "ADDR,ADDR", NULL,
     "the model goes on there: addresses of the 'skippy stage' processes behind\nthis one, in order: HOST:PORT, [V6]:PORT or unix:/PATH. This one holds\n--layers 0..B, the head of the chain"},
    {ARG_STAGE_WAIT, "--stage-wait", "S", NULL,
     "how long to wait for the stages, at the start and when a request runs (default: 60)"},
    {ARG_QUEUE, "--queue-max", "N", NULL, "requests that may wait for a lane: more get 429 (default: 256)"},
    {ARG_HOST, "--host", "HOST", NULL, "address to listen on (default: 127.0.0.1)"},
    {ARG_PORT, "--port", "N", NULL, "port to listen on, 0: any free one (default: 8080)"},
    {ARG_KEY, "--api-key", "KEY[,KEY]", NULL,
     "accepted API keys, each its own tenant; may be repeated\n(also: environment SKIPPY_API_KEY)"},
    {ARG_KEY_FILE, "--api-key-file", "FILE", NULL, "API keys, one a line, '#' begins a comment"},
    {ARG_ANONYMOUS, "--allow-anonymous", NULL, NULL, "listen beyond this machine without API keys"},
    {ARG_MAX_BODY, "--max-body", "MIB", NULL, "largest request body (default: 64)"},
    {ARG_MAX_CONNECTIONS, "--max-connections", "N", NULL, "clients at the same time; more wait (default: 1000)"},
    {ARG_TIMEOUT, "-to --timeout", "S", NULL,
     "how long a client may stall while it sends or reads (default: 30 and 60)"},
    {ARG_PING, "--sse-ping-interval", "S", NULL, "comment in a silent stream (default: 15)"},
    {ARG_SHUTDOWN, "--shutdown-timeout", "S", NULL, "how long running requests may go on after SIGTERM (default: 10)"},
    /* llama-server's flags that start-up scripts have. */
    {ARG_ALWAYS,
     "--jinja --metrics --slots -cb --cont-batching -kvu --kv-unified --cache-prompt --warmup --no-warmup --mmap "
     "--no-context-shift --offline --cache-idle-slots",
     NULL, NULL, NULL},
    {ARG_NEVER,
     "--no-ui --no-webui --ui --webui --perf --no-perf --no-mmproj --no-slots --no-cache-idle-slots -fit --fit", NULL,
     NULL, NULL},
    {ARG_NEVER_VALUE,
     "-ctxcp --ctx-checkpoints --swa-checkpoints -cms --checkpoint-min-step --threads-http "
     "-sps --slot-prompt-similarity -lv --verbosity --log-verbosity --cache-reuse --prio --poll --keep",
     "X", NULL, NULL},
    {ARG_PER_REQUEST,
     "-s --seed --temp --temperature --top-k --top-p --min-p --repeat-penalty --repeat-last-n --presence-penalty "
     "--frequency-penalty --reasoning-format --samplers --typical",
     "X", NULL, NULL},
};
enum { N_OWN = sizeof own_defs / sizeof *own_defs };

static void set_defaults(sk_serve_options *o) {
    memset(o, 0, sizeof *o);
    sk_run_defaults(&o->run);
    sk_split_options_defaults(&o->split);
    sk_server_defaults(&o->server);
    o->n_predict = -1;
    o->host = "127.0.0.1";
    o->port = 8080;
}

void sk_serve_options_free(sk_serve_options *o) {
    sk_auth_free(o->auth);
    free(o->chat_template);
    free(o->stage_list);
    for (size_t i = 0; i < o->run.engine.n_lora; i++) free(o->lora_paths[i]);
    memset(o, 0, sizeof *o);
}

static int read_template(sk_serve_options *o, const char *path, sk_err *e) {
    enum { MAX_TEMPLATE = 1 << 20 };
    FILE *f = fopen(path, "re");
    if (!f)
        return sk_err_set(e, errno == ENOENT ? SKIPPY_E_NOT_FOUND : SKIPPY_E_IO,
                          "cannot open the chat template '%s': %s", path, strerror(errno));
    sk_buf b = {0};
    char part[8192];
    size_t n = 0;
    while ((n = fread(part, 1, sizeof part, f)) > 0 && b.len <= MAX_TEMPLATE) sk_buf_add(&b, part, n);
    int rc = SKIPPY_OK;
    if (ferror(f))
        rc = sk_err_set(e, SKIPPY_E_IO, "cannot read the chat template '%s'", path);
    else if (b.len > MAX_TEMPLATE)
        rc = sk_err_set(e, SKIPPY_E_INVALID, "the chat template '%s' is larger than 1 MiB", path);
    else if (b.len == 0 || b.failed)
        rc = sk_err_set(e, SKIPPY_E_INVALID, "the chat template '%s' is empty", path);
    fclose(f);
    free(o->chat_template);
    o->chat_template = rc == SKIPPY_OK ? b.data : NULL;
    if (rc != SKIPPY_OK) sk_buf_free(&b);
    return rc;
}

/* "FILE:SCALE" (the last colon counts: paths may hold others). */
static int add_lora(sk_serve_options *o, const char *text, bool scaled, sk_err *e) {
    size_t at = o->run.engine.n_lora;
    if (at == SK_MAX_LORA) return sk_err_set(e, SKIPPY_E_INVALID, "at most %d adapters can be given", SK_MAX_LORA);
    o->lora[at] = (sk_lora_spec){text, 1.0f};
    if (scaled) {
        const char *colon = strrchr(text, ':');
        char *end = NULL;
        float scale = colon ? strtof(colon + 1, &end) : 0.0f;
        if (!colon || colon == text || end == colon + 1 || *end)
            return sk_err_set(e, SKIPPY_E_INVALID, "--lora-scaled needs FILE:SCALE, not '%s'", text);
        o->lora_paths[at] = strndup(text, (size_t)(colon - text));
        if (!o->lora_paths[at]) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
        o->lora[at] = (sk_lora_spec){o->lora_paths[at], scale};
    }
    o->run.engine.n_lora++;
    return SKIPPY_OK;
}

static int add_keys(sk_serve_options *o, const char *list, const char *path, sk_err *e) {
    if (!o->auth) o->auth = sk_auth_create();
    if (!o->auth) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    return path ? sk_auth_add_file(o->auth, path, e) : sk_auth_add(o->auth, list, e);
}

static bool set_timeout(sk_serve_options *o, const sk_args *a, sk_err *e) {
    if (!sk_run_seconds(a, 1, &o->server.body_timeout_ms, e)) return false;
    o->server.write_timeout_ms = o->server.body_timeout_ms;
    return true;
}

static int set_template(sk_serve_options *o, const char *text, sk_err *e) {
    free(o->chat_template);
    o->chat_template = strdup(text);
    return o->chat_template ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
}

/* "A,B": addresses in order. A path of a unix socket cannot hold a comma. */
static int set_stages(sk_serve_options *o, const char *list, sk_err *e) {
    free(o->stage_list);
    o->n_stages = 0;
    o->stage_list = strdup(list);
    if (!o->stage_list) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    for (char *rest = o->stage_list, *address; (address = strsep(&rest, ",")) != NULL;) {
        if (o->n_stages == SK_MAX_STAGES_BEHIND)
            return sk_err_set(e, SKIPPY_E_INVALID, "--stages: at most %d stages can be behind the head",
                              SK_MAX_STAGES_BEHIND);
        int rc = sk_link_check_address(address, e);
        if (rc != SKIPPY_OK) return rc;
        o->stages[o->n_stages++] = address;
    }
    return SKIPPY_OK;
}

static bool set_stage_wait(sk_serve_options *o, const sk_args *a, sk_err *e) {
    if (!sk_run_seconds(a, 1, &o->split_params.wait_ms, e)) return false;
    o->split_params.patience_ms = o->split_params.wait_ms;
    return true;
}

/* "1%" or "1": of a hundred. */
static bool set_share(const sk_args *a, double *share, sk_err *e) {
    char *end = NULL;
    double percent = strtod(a->value, &end);
    if (end != a->value && *end == '%') end++;
    if (end == a->value || strspn(a->value, "0123456789.%") != strlen(a->value) || *end || !(percent >= 0) ||
        percent > 100) {
        sk_err_set(e, SKIPPY_E_INVALID, "%s needs a percentage from 0 to 100, not '%s'", a->name, a->value);
        return false;
    }
    *share = percent / 100;
    return true;
}

/* Options about what a request is and gets. *known tells whether id was one. */
static bool apply_answers(sk_serve_options *o, int id, const sk_args *a, bool *known, sk_err *e) {
    sk_engine_params *p = &o->run.engine;
    switch (id) {
    case ARG_LORA: return add_lora(o, a->value, false, e) == SKIPPY_OK;
    case ARG_LORA_SCALED: return add_lora(o, a->value, true, e) == SKIPPY_OK;
    case ARG_TEMPLATE: return set_template(o, a->value, e) == SKIPPY_OK;
    case ARG_TEMPLATE_FILE: return read_template(o, a->value, e) == SKIPPY_OK;
    case ARG_PREDICT: return sk_args_i32(a, -1, INT32_MAX, &o->n_predict, e);
    case ARG_EXACT: p->exact = strcmp(a->value, "bit") == 0 ? SK_EXACT_BIT : SK_EXACT_STATE; return true;
    case ARG_SHADOW: return set_share(a, &p->shadow_share, e);
    case ARG_RECEIPTS: o->receipts = a->value; return true;
    case ARG_STAGES: return set_stages(o, a->value, e) == SKIPPY_OK;
    case ARG_STAGE_WAIT: return set_stage_wait(o, a, e);
    case ARG_QUEUE: return sk_args_u32(a, 1, 1 << 20, &p->queue_max, e);
    default: *known = false; return true;
    }
}

static bool apply_server(sk_serve_options *o, int id, const sk_args *a, bool *known, sk_err *e) {
    uint32_t port = 0;
    uint64_t bytes = 0;
    switch (id) {
    case ARG_HOST: o->host = a->value; return true;
    case ARG_PORT:
        if (!sk_args_u32(a, 0, 65535, &port, e)) return false;
        o->port = (uint16_t)port;
        return true;
    case ARG_KEY: return add_keys(o, a->value, NULL, e) == SKIPPY_OK;
    case ARG_KEY_FILE: return add_keys(o, NULL, a->value, e) == SKIPPY_OK;
    case ARG_ANONYMOUS: o->allow_anonymous = true; return true;
    case ARG_MAX_BODY:
        if (!sk_run_mib(a, 1, 1 << 16, &bytes, e)) return false;
        o->server.max_body = (size_t)bytes;
        return true;
    case ARG_MAX_CONNECTIONS: return sk_args_u32(a, 1, 100000, &o->server.max_connections, e);
    case ARG_TIMEOUT: return set_timeout(o, a, e);
    case ARG_PING: return sk_run_seconds(a, 1, &o->server.ping_ms, e);
    case ARG_SHUTDOWN: return sk_run_seconds(a, 0, &o->server.shutdown_ms, e);
    default: *known = false; return true;
    }
}

static void warn_ignored(int id, const char *name) {
    if (id == ARG_ALWAYS)
        sk_log(SK_LOG_WARN, "%s is ignored: it is always so here", name);
    else if (id == ARG_PER_REQUEST)
        sk_log(SK_LOG_WARN, "%s is ignored: each request says it", name);
    else
        sk_log(SK_LOG_WARN, "%s is ignored: it makes no difference here", name);
}

static bool apply(sk_serve_options *o, int id, const sk_args *a, sk_err *e) {
    bool known = true;
    bool ok = sk_run_apply(&o->run, id, a, &known, e);
    if (known) return ok;
    ok = sk_split_options_apply(&o->split, id, a, &known, e);
    if (known) return ok;
    known = true;
    ok = apply_answers(o, id, a, &known, e);
    if (known) return ok;
    known = true;
    ok = apply_server(o, id, a, &known, e);
    if (known) return ok;
    warn_ignored(id, a->name);
    return true;
}

/* What an engine cannot do when it holds the first layers only. */
static int check_split(const sk_serve_options *o, sk_err *e) {
    const sk_engine_params *p = &o->run.engine;
    if (p->exact == SK_EXACT_BIT)
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "--exact bit and --stages exclude each other: rows of several requests would have to be "
                          "computed alike on every stage. Without it restored state equals recorded state");
    if (p->shadow_share > 0)
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "--shadow-recompute and --stages exclude each other: a shadow would have to run on every "
                          "stage. Certify the split instead: 'skippy certify -m MODEL.gguf --stages N'");
    if (p->n_lora > 0)
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "--lora and --stages exclude each other: an adapter cannot be cut into stages");
    if (o->split.has_layers && o->split.layers.start != 0)
        return sk_err_set(e, SKIPPY_E_INVALID, "the head of a chain holds the first layers: --layers 0..B, not %d..%d",
                          (int)o->split.layers.start, (int)o->split.layers.end - 1);
    return SKIPPY_OK;
}

static int check_whole(const sk_serve_options *o, sk_err *e) {
    const char *option = o->split.has_layers            ? "--layers"
                         : o->split_params.wait_ms != 0 ? "--stage-wait"
                                                        : o->split.link_option;
    if (!option) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_INVALID, "%s belongs to --stages, which says where the other layers are", option);
}

static int check(sk_serve_options *o, sk_err *e) {
    const char *keys = getenv("SKIPPY_API_KEY");
    if (keys && *keys && add_keys(o, keys, NULL, e) != SKIPPY_OK) return SKIPPY_E_INVALID;
    o->run.engine.lora = o->lora;
    if (o->run.help) return SKIPPY_OK;
    if (o->split.package && o->run.model.path)
        return sk_err_set(e, SKIPPY_E_INVALID, "-m and --package exclude each other");
    if (o->split.package) o->run.model.path = o->split.package;
    int rc = sk_run_check(&o->run, e);
    if (rc == SKIPPY_OK) rc = sk_split_options_check(&o->split, e);
    if (rc == SKIPPY_OK) rc = o->n_stages > 0 ? check_split(o, e) : check_whole(o, e);
    return rc;
}

/* Adds what to do instead to the refusal of a word, where that is known. */
static void add_hint(const char *word, sk_err *e) {
    const char *hint = sk_serve_hint(word);
    size_t n = strlen(e->text);
    if (hint) snprintf(e->text + n, sizeof e->text - n, ": %s", hint);
}

size_t sk_serve_defs(sk_arg_def *out) {
    memcpy(out, sk_run_defs, sk_run_n_defs * sizeof *out);
    memcpy(out + sk_run_n_defs, own_defs, sizeof own_defs);
    memcpy(out + sk_run_n_defs + N_OWN, sk_split_defs, sk_split_n_defs * sizeof *out);
    return sk_run_n_defs + N_OWN + sk_split_n_defs;
}

int sk_serve_options_parse(sk_serve_options *o, int argc, char **argv, sk_err *e) {
    sk_arg_def defs[SK_SERVE_MAX_DEFS];
    sk_args a = {.defs = defs, .n_defs = sk_serve_defs(defs), .argc = argc, .argv = argv, .at = 1};
    sk_err_set(e, SKIPPY_E_INVALID, "wrong usage");
    set_defaults(o);
    for (int id; (id = sk_args_next(&a, e)) != 0;)
        if (id < 0 || !apply(o, id, &a, e)) {
            if (id < 0) add_hint(a.name, e);
            return e->code;
        }
    return check(o, e);
}

void sk_serve_options_help(void) {
    puts(
        "Usage: skippy serve -m MODEL.gguf [options]\n\n"
        "Serves a model over HTTP: /v1/chat/completions, /v1/completions, /v1/models, /completion and more (see GET /).\n"
        "A prompt that begins like an earlier one is not computed again.\n\nOptions:");
    sk_args_help(sk_run_defs, sk_run_n_defs, stdout);
    sk_args_help(own_defs, N_OWN, stdout);
    puts("\nA model over several processes (see 'skippy stage'):");
    sk_args_help(sk_split_defs, sk_split_n_defs, stdout);
    puts("\nFlags of llama-server that make no difference here are accepted with a warning.\n\n"
         "Examples:\n"
         "  skippy serve -m model.gguf\n"
         "  skippy serve -m model.gguf -c 16384 -np 8 -t 8 --port 9000\n"
         "  skippy serve -m model.gguf --host 0.0.0.0 --api-key-file keys.txt\n"
         "  skippy serve -m model.gguf --exact bit\n"
         "  skippy serve -m model.gguf --layers 0..11 --stages 10.0.0.2:7000,10.0.0.3:7000 \\\n"
         "    --tls-ca ca.crt --tls-cert head.crt --tls-key head.key\n\n"
         "Exit codes: 0 stopped on request, 1 failed, 2 wrong usage.");
}
