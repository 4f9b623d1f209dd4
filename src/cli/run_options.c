#include "cli/run_options.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

static const char KV_TYPES[] = "f32|f16|bf16|q8_0|q4_0|q4_1|iq4_nl|q5_0|q5_1";

const sk_arg_def sk_run_defs[] = {
    {SK_RUN_ARG_MODEL, "-m --model", "FILE", NULL, "the GGUF (needed), or a package: its folder, or its http(s) URL"},
    {SK_RUN_ARG_ALIAS, "-a --alias", "NAME", NULL, "model id that clients see (default: the model's name)"},
    {SK_RUN_ARG_CTX, "-c --ctx-size", "N", NULL,
     "tokens of context, shared by all lanes (default: the model's, at most 16384,\nand what a quarter of the free memory holds; 0: the model's)"},
    {SK_RUN_ARG_PARALLEL, "-np --parallel", "N", NULL, "lanes: requests that run at the same time (default: 4)"},
    {SK_RUN_ARG_THREADS, "-t --threads", "N", NULL, "threads for generation (default: cores)"},
    {SK_RUN_ARG_THREADS_BATCH, "-tb --threads-batch", "N", NULL, "threads for prompts (default: as --threads)"},
    {SK_RUN_ARG_BATCH, "-b --batch-size", "N", NULL, "largest chunk of a prompt in tokens (default: 512)"},
    {SK_RUN_ARG_UBATCH, "-ub --ubatch-size", "N", NULL, "rows that are computed together (default: 512)"},
    {SK_RUN_ARG_FLASH, "-fa --flash-attn", "[on|off|auto]", "on|off|auto", "flash attention (default: auto)"},
    {SK_RUN_ARG_TYPE_K, "-ctk --cache-type-k", "TYPE", KV_TYPES, "type of the K cache (default: f16)"},
    {SK_RUN_ARG_TYPE_V, "-ctv --cache-type-v", "TYPE", KV_TYPES, "type of the V cache (default: f16)"},
    {SK_RUN_ARG_NGL, "-ngl --gpu-layers --n-gpu-layers", "N", NULL,
     "layers on the GPU: a number, all or auto (default: all)"},
    {SK_RUN_ARG_NO_MMAP, "--no-mmap", NULL, NULL, "read the weights into memory instead of mapping the file"},
    {SK_RUN_ARG_HUGE_PAGES, "--huge-pages", "on|off", "on|off",
     "weights, KV cache and state in huge pages, where the kernel has them (default: on)"},
    {SK_RUN_ARG_SWA_FULL, "--swa-full", NULL, NULL, "keep every cell of sliding-window layers"},
    {SK_RUN_ARG_ROPE_BASE, "--rope-freq-base", "X", NULL, "RoPE base frequency (default: the model's)"},
    {SK_RUN_ARG_ROPE_FREQ_SCALE, "--rope-freq-scale", "X", NULL, "RoPE frequency scale (default: the model's)"},
    {SK_RUN_ARG_ROPE_SCALE, "--rope-scale", "X", NULL, "stretches the context: 1 / --rope-freq-scale"},
    {SK_RUN_ARG_CACHE, "--cache", "on|off", "on|off", "prefix cache (default: on); off: the same server without reuse"},
    {SK_RUN_ARG_NO_CACHE, "--no-cache-prompt", NULL, NULL, "as --cache off"},
    {SK_RUN_ARG_CACHE_SEQS, "--cache-seqs", "N", NULL, "prefixes that can be stored (default: from the model)"},
    {SK_RUN_ARG_CACHE_MIB, "--cache-mib", "N", NULL,
     "memory for the state of snapshots of hybrid and\nrecurrent models (default: from the machine)"},
    {SK_RUN_ARG_LOGITS_MIB, "--cache-logits-mib", "N", NULL, "memory for terminal logits (default: 64)"},
    {SK_RUN_ARG_MIN_TOKENS, "--cache-min-tokens", "N", NULL, "shorter prefixes are not stored (default: 16)"},
    {SK_RUN_ARG_CACHE_RAM, "-cram --cache-ram", "MIB", NULL,
     "memory for prefixes that left the runtime; 0: none, -1: no limit\n(default: a quarter of the free memory, at most 8192)"},
    {SK_RUN_ARG_CACHE_IDLE, "--cache-idle", "ram|context", "ram|context",
     "where prefixes wait that nobody uses; in RAM they make no decode slower\n(default: ram, for attention-only models in state mode)"},
    {SK_RUN_ARG_CACHE_DISK, "--cache-disk", "DIR", NULL, "folder for prefixes that outlive the server (default: none)"},
    {SK_RUN_ARG_CACHE_DISK_MAX, "--cache-disk-max", "MIB", NULL,
     "most bytes in that folder; 0: no limit (default: 16384)"},
    {SK_RUN_ARG_VERBOSE, "-v --verbose", NULL, NULL, "as --log-level debug"},
    {SK_RUN_ARG_LOG_LEVEL, "--log-level", "LEVEL", "error|warn|info|debug", "what is logged (default: info)"},
    {SK_RUN_ARG_JSON, "--json", NULL, NULL, "print the start-up facts as one line of JSON"},
    {SK_RUN_ARG_HELP, "-h --help --usage", NULL, NULL, "this text"},
};
const size_t sk_run_n_defs = sizeof sk_run_defs / sizeof *sk_run_defs;

void sk_run_defaults(sk_run_options *o) {
    memset(o, 0, sizeof *o);
    o->model.n_gpu_layers = -1;
    o->engine.flash_attn = -1;
    o->engine.ram_bytes = SK_RAM_DERIVE;
    o->engine.disk_bytes = UINT64_C(16) << 30;
    o->engine.idle_to_ram = true;
    o->model.huge_pages = true;
}

bool sk_run_mib(const sk_args *a, uint64_t min, uint64_t max, uint64_t *bytes, sk_err *e) {
    uint64_t mib = 0;
    if (!sk_args_u64(a, min, max, &mib, e)) return false;
    *bytes = mib << 20;
    return true;
}

bool sk_run_seconds(const sk_args *a, uint32_t min, uint32_t *ms, sk_err *e) {
    uint32_t s = 0;
    if (!sk_args_u32(a, min, 86400, &s, e)) return false;
    *ms = s * 1000;
    return true;
}

static bool set_layers(sk_run_options *o, const sk_args *a, sk_err *e) {
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

static bool set_lanes(sk_run_options *o, const sk_args *a, sk_err *e) {
    int32_t lanes = 0;
    if (!set_count(a, 256, &lanes, e)) return false;
    o->engine.n_lanes = (uint32_t)lanes;
    return true;
}

static bool set_ctx(sk_run_options *o, const sk_args *a, sk_err *e) {
    if (!sk_args_u32(a, 0, INT32_MAX, &o->engine.n_ctx, e)) return false;
    o->ctx_of_model = o->engine.n_ctx == 0;
    return true;
}

static bool set_rope_scale(sk_run_options *o, const sk_args *a, sk_err *e) {
    float factor = 0;
    if (!sk_args_float(a, 0.0f, &factor, e)) return false;
    o->engine.rope_freq_scale = 1.0f / factor;
    return true;
}

static bool set_cache_ram(sk_run_options *o, const sk_args *a, sk_err *e) {
    if (strcmp(a->value, "-1") != 0) return sk_run_mib(a, 0, UINT64_C(1) << 30, &o->engine.ram_bytes, e);
    o->engine.ram_bytes = UINT64_C(1) << 50; /* no limit but the machine's */
    return true;
}

static void set_log_level(const char *name) {
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) sk_log_set_level((enum sk_log_level)i);
}

static bool apply_model(sk_run_options *o, int id, const sk_args *a, bool *known, sk_err *e) {
    sk_engine_params *p = &o->engine;
    switch (id) {
    case SK_RUN_ARG_MODEL: o->model.path = a->value; return true;
    case SK_RUN_ARG_ALIAS: o->model.alias = a->value; return true;
    case SK_RUN_ARG_CTX: return set_ctx(o, a, e);
    case SK_RUN_ARG_PARALLEL: return set_lanes(o, a, e);
    case SK_RUN_ARG_THREADS: return set_count(a, 1024, &p->n_threads, e);
    case SK_RUN_ARG_THREADS_BATCH: return set_count(a, 1024, &p->n_threads_batch, e);
    case SK_RUN_ARG_BATCH: return sk_args_u32(a, 1, 1 << 20, &p->n_batch, e);
    case SK_RUN_ARG_UBATCH: return sk_args_u32(a, 1, 1 << 20, &p->n_ubatch, e);
    case SK_RUN_ARG_FLASH:
        p->flash_attn = !a->value || strcmp(a->value, "on") == 0 ? 1 : strcmp(a->value, "off") == 0 ? 0 : -1;
        return true;
    case SK_RUN_ARG_TYPE_K: snprintf(p->type_k, sizeof p->type_k, "%s", a->value); return true;
    case SK_RUN_ARG_TYPE_V: snprintf(p->type_v, sizeof p->type_v, "%s", a->value); return true;
    case SK_RUN_ARG_NGL: return set_layers(o, a, e);
    case SK_RUN_ARG_NO_MMAP: o->model.no_mmap = true; return true;
    case SK_RUN_ARG_HUGE_PAGES: o->model.huge_pages = strcmp(a->value, "on") == 0; return true;
    case SK_RUN_ARG_SWA_FULL: p->swa_full = true; return true;
    case SK_RUN_ARG_ROPE_BASE: return sk_args_float(a, 0.0f, &p->rope_freq_base, e);
    case SK_RUN_ARG_ROPE_FREQ_SCALE: return sk_args_float(a, 0.0f, &p->rope_freq_scale, e);
    case SK_RUN_ARG_ROPE_SCALE: return set_rope_scale(o, a, e);
    default: *known = false; return true;
    }
}

static bool apply_cache(sk_run_options *o, int id, const sk_args *a, bool *known, sk_err *e) {
    const uint64_t max_mib = UINT64_C(1) << 30;
    sk_engine_params *p = &o->engine;
    switch (id) {
    case SK_RUN_ARG_CACHE: p->cache_off = strcmp(a->value, "off") == 0; return true;
    case SK_RUN_ARG_NO_CACHE: p->cache_off = true; return true;
    case SK_RUN_ARG_CACHE_SEQS: return sk_args_u32(a, 1, 1 << 20, &p->cache_seqs, e);
    case SK_RUN_ARG_CACHE_MIB: return sk_run_mib(a, 1, max_mib, &p->cache_bytes, e);
    case SK_RUN_ARG_LOGITS_MIB: return sk_run_mib(a, 1, max_mib, &p->logits_bytes, e);
    case SK_RUN_ARG_MIN_TOKENS: return sk_args_u32(a, 1, 1 << 20, &p->min_tokens, e);
    case SK_RUN_ARG_CACHE_RAM: return set_cache_ram(o, a, e);
    case SK_RUN_ARG_CACHE_IDLE: p->idle_to_ram = strcmp(a->value, "ram") == 0; return true;
    case SK_RUN_ARG_CACHE_DISK: p->disk_dir = a->value; return true;
    case SK_RUN_ARG_CACHE_DISK_MAX: return sk_run_mib(a, 0, max_mib, &p->disk_bytes, e);
    case SK_RUN_ARG_VERBOSE: sk_log_set_level(SK_LOG_DEBUG); return true;
    case SK_RUN_ARG_LOG_LEVEL: set_log_level(a->value); return true;
    case SK_RUN_ARG_JSON: o->json = true; return true;
    case SK_RUN_ARG_HELP: o->help = true; return true;
    default: *known = false; return true;
    }
}

bool sk_run_apply(sk_run_options *o, int id, const sk_args *a, bool *known, sk_err *e) {
    *known = true;
    bool ok = apply_model(o, id, a, known, e);
    if (*known) return ok;
    *known = true;
    return apply_cache(o, id, a, known, e);
}

int sk_run_check(const sk_run_options *o, sk_err *e) {
    if (!o->model.path) return sk_err_set(e, SKIPPY_E_INVALID, "which model? Give -m MODEL.gguf");
    if (o->engine.n_batch && o->engine.n_ubatch > o->engine.n_batch)
        return sk_err_set(e, SKIPPY_E_INVALID, "--ubatch-size %u is larger than --batch-size %u", o->engine.n_ubatch,
                          o->engine.n_batch);
    return SKIPPY_OK;
}
