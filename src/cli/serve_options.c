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
    ARG_MODEL = 1,
    ARG_ALIAS,
    ARG_CTX,
    ARG_PARALLEL,
    ARG_THREADS,
    ARG_THREADS_BATCH,
    ARG_BATCH,
    ARG_UBATCH,
    ARG_FLASH,
    ARG_TYPE_K,
    ARG_TYPE_V,
    ARG_NGL,
    ARG_NO_MMAP,
    ARG_SWA_FULL,
    ARG_ROPE_BASE,
    ARG_ROPE_FREQ_SCALE,
    ARG_ROPE_SCALE,
    ARG_LORA,
    ARG_LORA_SCALED,
    ARG_TEMPLATE,
    ARG_TEMPLATE_FILE,
    ARG_PREDICT,
    ARG_CACHE,
    ARG_NO_CACHE,
    ARG_EXACT,
    ARG_CACHE_SEQS,
    ARG_CACHE_MIB,
    ARG_LOGITS_MIB,
    ARG_MIN_TOKENS,
    ARG_CACHE_RAM,
    ARG_CACHE_DISK,
    ARG_CACHE_DISK_MAX,
    ARG_SHADOW,
    ARG_RECEIPTS,
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
    ARG_VERBOSE,
    ARG_LOG_LEVEL,
    ARG_JSON,
    ARG_HELP,
    ARG_ALWAYS,
    ARG_NEVER,
    ARG_NEVER_VALUE,
    ARG_PER_REQUEST
};

static const char KV_TYPES[] = "f32|f16|bf16|q8_0|q4_0|q4_1|iq4_nl|q5_0|q5_1";

static const sk_arg_def defs[] = {
    {ARG_MODEL, "-m --model", "FILE", NULL, "the GGUF to serve (needed)"},
    {ARG_ALIAS, "-a --alias", "NAME", NULL, "model id that clients see (default: the model's name)"},
    {ARG_CTX, "-c --ctx-size", "N", NULL,
     "tokens of context, shared by all lanes (default: the model's, at most 16384,\nand what a quarter of the free memory holds; 0: the model's)"},
    {ARG_PARALLEL, "-np --parallel", "N", NULL, "lanes: requests that run at the same time (default: 4)"},
    {ARG_THREADS, "-t --threads", "N", NULL, "threads for generation (default: cores)"},
    {ARG_THREADS_BATCH, "-tb --threads-batch", "N", NULL, "threads for prompts (default: as --threads)"},
    {ARG_BATCH, "-b --batch-size", "N", NULL, "largest chunk of a prompt in tokens (default: 512)"},
    {ARG_UBATCH, "-ub --ubatch-size", "N", NULL, "rows that are computed together (default: 512)"},
    {ARG_FLASH, "-fa --flash-attn", "[on|off|auto]", "on|off|auto", "flash attention (default: auto)"},
    {ARG_TYPE_K, "-ctk --cache-type-k", "TYPE", KV_TYPES, "type of the K cache (default: f16)"},
    {ARG_TYPE_V, "-ctv --cache-type-v", "TYPE", KV_TYPES, "type of the V cache (default: f16)"},
    {ARG_NGL, "-ngl --gpu-layers --n-gpu-layers", "N", NULL, "layers on the GPU: a number, all or auto (default: all)"},
    {ARG_NO_MMAP, "--no-mmap", NULL, NULL, "read the weights into memory instead of mapping the file"},
    {ARG_SWA_FULL, "--swa-full", NULL, NULL, "keep every cell of sliding-window layers"},
    {ARG_ROPE_BASE, "--rope-freq-base", "X", NULL, "RoPE base frequency (default: the model's)"},
    {ARG_ROPE_FREQ_SCALE, "--rope-freq-scale", "X", NULL, "RoPE frequency scale (default: the model's)"},
    {ARG_ROPE_SCALE, "--rope-scale", "X", NULL, "stretches the context: 1 / --rope-freq-scale"},
    {ARG_LORA, "--lora", "FILE", NULL, "adapter for every request; may be repeated"},
    {ARG_LORA_SCALED, "--lora-scaled", "FILE:SCALE", NULL, "adapter with a scale; may be repeated"},
    {ARG_TEMPLATE, "--chat-template", "JINJA", NULL, "chat template instead of the model's"},
    {ARG_TEMPLATE_FILE, "--chat-template-file", "FILE", NULL, "the same, from a file"},
    {ARG_PREDICT, "-n --predict --n-predict", "N", NULL,
     "tokens to generate when a request does not say (default: -1, no limit)"},
    {ARG_CACHE, "--cache", "on|off", "on|off", "prefix cache (default: on); off: the same server without reuse"},
    {ARG_NO_CACHE, "--no-cache-prompt", NULL, NULL, "as --cache off"},
    {ARG_EXACT, "--exact", "state|bit", "state|bit",
     "state: restored state equals recorded state (default);\nbit: every answer equals that of a cold cache, bit for bit"},
    {ARG_CACHE_SEQS, "--cache-seqs", "N", NULL, "prefixes that can be stored (default: from the model)"},
    {ARG_CACHE_MIB, "--cache-mib", "N", NULL,
     "memory for the state of snapshots of hybrid and\nrecurrent models (default: from the machine)"},
    {ARG_LOGITS_MIB, "--cache-logits-mib", "N", NULL, "memory for terminal logits (default: 64)"},
    {ARG_MIN_TOKENS, "--cache-min-tokens", "N", NULL, "shorter prefixes are not stored (default: 16)"},
    {ARG_CACHE_RAM, "-cram --cache-ram", "MIB", NULL,
     "memory for prefixes that left the runtime; 0: none, -1: no limit\n(default: a quarter of the free memory, at most 8192)"},
    {ARG_CACHE_DISK, "--cache-disk", "DIR", NULL, "folder for prefixes that outlive the server (default: none)"},
    {ARG_CACHE_DISK_MAX, "--cache-disk-max", "MIB", NULL, "most bytes in that folder; 0: no limit (default: 16384)"},
    {ARG_SHADOW, "--shadow-recompute", "PERCENT", NULL,
     "share of the hits that is computed again on an idle lane and compared,\nfor instance 1%; a disagreement ends reuse (default: 0)"},
    {ARG_RECEIPTS, "--receipts", "DIR", NULL, "where 'skippy certify' left its receipts (default: its default)"},
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
    {ARG_VERBOSE, "-v --verbose", NULL, NULL, "as --log-level debug"},
    {ARG_LOG_LEVEL, "--log-level", "LEVEL", "error|warn|info|debug", "what is logged (default: info)"},
    {ARG_JSON, "--json", NULL, NULL, "print the start-up facts as one line of JSON"},
    {ARG_HELP, "-h --help --usage", NULL, NULL, "this text"},
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
enum { N_DEFS = sizeof defs / sizeof *defs };

static void set_defaults(sk_serve_options *o) {
    memset(o, 0, sizeof *o);
    sk_server_defaults(&o->server);
    o->model.n_gpu_layers = -1;
    o->engine.flash_attn = -1;
    o->n_predict = -1;
    o->engine.ram_bytes = SK_RAM_DERIVE;
    o->engine.disk_bytes = UINT64_C(16) << 30;
    o->host = "127.0.0.1";
    o->port = 8080;
}

void sk_serve_options_free(sk_serve_options *o) {
    sk_auth_free(o->auth);
    free(o->chat_template);
    for (size_t i = 0; i < o->engine.n_lora; i++) free(o->lora_paths[i]);
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
    size_t at = o->engine.n_lora;
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
    o->engine.n_lora++;
    return SKIPPY_OK;
}

static int add_keys(sk_serve_options *o, const char *list, const char *path, sk_err *e) {
    if (!o->auth) o->auth = sk_auth_create();
    if (!o->auth) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    return path ? sk_auth_add_file(o->auth, path, e) : sk_auth_add(o->auth, list, e);
}

static bool set_mib(const sk_args *a, uint64_t min, uint64_t max, uint64_t *bytes, sk_err *e) {
    uint64_t mib = 0;
    if (!sk_args_u64(a, min, max, &mib, e)) return false;
    *bytes = mib << 20;
    return true;
}

static bool set_seconds(const sk_args *a, uint32_t min, uint32_t *ms, sk_err *e) {
    uint32_t s = 0;
    if (!sk_args_u32(a, min, 86400, &s, e)) return false;
    *ms = s * 1000;
    return true;
}

static bool set_layers(sk_serve_options *o, const sk_args *a, sk_err *e) {
    if (strcmp(a->value, "all") == 0 || strcmp(a->value, "auto") == 0) {
        o->model.n_gpu_layers = -1;
        return true;
    }
    return sk_args_i32(a, -1, 100000, &o->model.n_gpu_layers, e);
}

/* -1 is llama-server's way to say "choose for me". */
static bool set_count(const sk_args *a, int32_t max, int32_t *out, sk_err *e) {
    if (!sk_args_i32(a, -1, max, out, e)) return false;
    if (*out < 0) *out = 0;
    return true;
}

static bool set_ctx(sk_serve_options *o, const sk_args *a, sk_err *e) {
    if (!sk_args_u32(a, 0, INT32_MAX, &o->engine.n_ctx, e)) return false;
    o->ctx_of_model = o->engine.n_ctx == 0;
    return true;
}

static bool set_rope_scale(sk_serve_options *o, const sk_args *a, sk_err *e) {
    float factor = 0;
    if (!sk_args_float(a, 0.0f, &factor, e)) return false;
    o->engine.rope_freq_scale = 1.0f / factor;
    return true;
}

static bool set_timeout(sk_serve_options *o, const sk_args *a, sk_err *e) {
    if (!set_seconds(a, 1, &o->server.body_timeout_ms, e)) return false;
    o->server.write_timeout_ms = o->server.body_timeout_ms;
    return true;
}

/* Options of the model and of its context. *known tells whether id was one. */
static bool apply_model(sk_serve_options *o, int id, const sk_args *a, bool *known, sk_err *e) {
    int32_t lanes = 0;
    sk_engine_params *p = &o->engine;
    switch (id) {
    case ARG_MODEL: o->model.path = a->value; return true;
    case ARG_ALIAS: o->model.alias = a->value; return true;
    case ARG_CTX: return set_ctx(o, a, e);
    case ARG_PARALLEL:
        if (!set_count(a, 256, &lanes, e)) return false;
        p->n_lanes = (uint32_t)lanes;
        return true;
    case ARG_THREADS: return set_count(a, 1024, &p->n_threads, e);
    case ARG_THREADS_BATCH: return set_count(a, 1024, &p->n_threads_batch, e);
    case ARG_BATCH: return sk_args_u32(a, 1, 1 << 20, &p->n_batch, e);
    case ARG_UBATCH: return sk_args_u32(a, 1, 1 << 20, &p->n_ubatch, e);
    case ARG_FLASH:
        p->flash_attn = !a->value || strcmp(a->value, "on") == 0 ? 1 : strcmp(a->value, "off") == 0 ? 0 : -1;
        return true;
    case ARG_TYPE_K: snprintf(p->type_k, sizeof p->type_k, "%s", a->value); return true;
    case ARG_TYPE_V: snprintf(p->type_v, sizeof p->type_v, "%s", a->value); return true;
    case ARG_NGL: return set_layers(o, a, e);
    case ARG_NO_MMAP: o->model.no_mmap = true; return true;
    case ARG_SWA_FULL: p->swa_full = true; return true;
    case ARG_ROPE_BASE: return sk_args_float(a, 0.0f, &p->rope_freq_base, e);
    case ARG_ROPE_FREQ_SCALE: return sk_args_float(a, 0.0f, &p->rope_freq_scale, e);
    case ARG_ROPE_SCALE: return set_rope_scale(o, a, e);
    case ARG_LORA: return add_lora(o, a->value, false, e) == SKIPPY_OK;
    case ARG_LORA_SCALED: return add_lora(o, a->value, true, e) == SKIPPY_OK;
    case ARG_TEMPLATE:
        free(o->chat_template);
        o->chat_template = strdup(a->value);
        return o->chat_template || sk_err_set(e, SKIPPY_E_NOMEM, "out of memory") == SKIPPY_OK;
    case ARG_TEMPLATE_FILE: return read_template(o, a->value, e) == SKIPPY_OK;
    case ARG_PREDICT: return sk_args_i32(a, -1, INT32_MAX, &o->n_predict, e);
    default: *known = false; return true;
    }
}

static bool set_cache_ram(sk_serve_options *o, const sk_args *a, sk_err *e) {
    if (strcmp(a->value, "-1") != 0) return set_mib(a, 0, UINT64_C(1) << 30, &o->engine.ram_bytes, e);
    o->engine.ram_bytes = UINT64_C(1) << 50; /* no limit but the machine's */
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

static bool apply_cache(sk_serve_options *o, int id, const sk_args *a, bool *known, sk_err *e) {
    const uint64_t max_mib = UINT64_C(1) << 30;
    sk_engine_params *p = &o->engine;
    switch (id) {
    case ARG_CACHE: p->cache_off = strcmp(a->value, "off") == 0; return true;
    case ARG_NO_CACHE: p->cache_off = true; return true;
    case ARG_EXACT: p->exact = strcmp(a->value, "bit") == 0 ? SK_EXACT_BIT : SK_EXACT_STATE; return true;
    case ARG_CACHE_SEQS: return sk_args_u32(a, 1, 1 << 20, &p->cache_seqs, e);
    case ARG_CACHE_MIB: return set_mib(a, 1, max_mib, &p->cache_bytes, e);
    case ARG_LOGITS_MIB: return set_mib(a, 1, max_mib, &p->logits_bytes, e);
    case ARG_MIN_TOKENS: return sk_args_u32(a, 1, 1 << 20, &p->min_tokens, e);
    case ARG_CACHE_RAM: return set_cache_ram(o, a, e);
    case ARG_CACHE_DISK: p->disk_dir = a->value; return true;
    case ARG_CACHE_DISK_MAX: return set_mib(a, 0, max_mib, &p->disk_bytes, e);
    case ARG_SHADOW: return set_share(a, &p->shadow_share, e);
    case ARG_RECEIPTS: o->receipts = a->value; return true;
    case ARG_QUEUE: return sk_args_u32(a, 1, 1 << 20, &p->queue_max, e);
    default: *known = false; return true;
    }
}

static void set_log_level(const char *name) {
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) sk_log_set_level((enum sk_log_level)i);
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
        if (!set_mib(a, 1, 1 << 16, &bytes, e)) return false;
        o->server.max_body = (size_t)bytes;
        return true;
    case ARG_MAX_CONNECTIONS: return sk_args_u32(a, 1, 100000, &o->server.max_connections, e);
    case ARG_TIMEOUT: return set_timeout(o, a, e);
    case ARG_PING: return set_seconds(a, 1, &o->server.ping_ms, e);
    case ARG_SHUTDOWN: return set_seconds(a, 0, &o->server.shutdown_ms, e);
    case ARG_VERBOSE: sk_log_set_level(SK_LOG_DEBUG); return true;
    case ARG_LOG_LEVEL: set_log_level(a->value); return true;
    case ARG_JSON: o->json = true; return true;
    case ARG_HELP: o->help = true; return true;
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
    bool (*const groups[])(sk_serve_options *, int, const sk_args *, bool *, sk_err *) = {apply_model, apply_cache,
                                                                                          apply_server};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        bool known = true;
        if (!groups[i](o, id, a, &known, e)) return false;
        if (known) return true;
    }
    warn_ignored(id, a->name);
    return true;
}

static int check(sk_serve_options *o, sk_err *e) {
    const char *keys = getenv("SKIPPY_API_KEY");
    if (keys && *keys && add_keys(o, keys, NULL, e) != SKIPPY_OK) return SKIPPY_E_INVALID;
    o->engine.lora = o->lora;
    if (o->help) return SKIPPY_OK;
    if (!o->model.path) return sk_err_set(e, SKIPPY_E_INVALID, "which model? Give -m MODEL.gguf");
    if (o->engine.n_batch && o->engine.n_ubatch > o->engine.n_batch)
        return sk_err_set(e, SKIPPY_E_INVALID, "--ubatch-size %u is larger than --batch-size %u", o->engine.n_ubatch,
                          o->engine.n_batch);
    return SKIPPY_OK;
}

/* Adds what to do instead to the refusal of a word, where that is known. */
static void add_hint(const char *word, sk_err *e) {
    const char *hint = sk_serve_hint(word);
    size_t n = strlen(e->text);
    if (hint) snprintf(e->text + n, sizeof e->text - n, ": %s", hint);
}

int sk_serve_options_parse(sk_serve_options *o, int argc, char **argv, sk_err *e) {
    sk_args a = {.defs = defs, .n_defs = N_DEFS, .argc = argc, .argv = argv, .at = 1};
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
    sk_args_help(defs, N_DEFS, stdout);
    puts("\nFlags of llama-server that make no difference here are accepted with a warning.\n\n"
         "Examples:\n"
         "  skippy serve -m model.gguf\n"
         "  skippy serve -m model.gguf -c 16384 -np 8 -t 8 --port 9000\n"
         "  skippy serve -m model.gguf --host 0.0.0.0 --api-key-file keys.txt\n"
         "  skippy serve -m model.gguf --exact bit\n\n"
         "Exit codes: 0 stopped on request, 1 failed, 2 wrong usage.");
}
