#include "bench/family/sizes_json.h"

#include <string.h>

enum {
    MAX_TOKENS = 65536,
    MAX_REPEATS = 1024,
    MAX_RESTARTS = 100,
    MAX_LANES = 64,
    MAX_THREADS = 1024,
    MAX_CONTEXT = 1 << 20,
    MAX_CLIENTS = 1024,
    MAX_REQUESTS = 65536,
    MIN_TIMEOUT_MS = 1000,
    MAX_MS = 3600000,
    MAX_REST_MS = 10000,
    MAX_GPU_LAYERS = 100000
};

#define FIELD(name, member, min, max)                                                                                  \
    { name, offsetof(sk_family_sizes, member), min, max }

static const sk_sizes_field FIELDS[] = {
    FIELD("prefix_tokens", prefix_tokens, 1, MAX_TOKENS),
    FIELD("suffix_tokens", suffix_tokens, 1, MAX_TOKENS),
    FIELD("history_tokens", history_tokens, 1, MAX_TOKENS),
    FIELD("edit_tokens", edit_tokens, 1, MAX_TOKENS),
    FIELD("restart_tokens", restart_tokens, 1, MAX_TOKENS),
    FIELD("cache_hit_repeats", cache_hit_repeats, 1, MAX_REPEATS),
    FIELD("llama_repeats", llama_repeats, 1, MAX_REPEATS),
    FIELD("conversation_repeats", conversation_repeats, 1, MAX_REPEATS),
    FIELD("restart_repeats", restart_repeats, 1, MAX_RESTARTS),
    FIELD("runtime_lane_count", lanes, 1, MAX_LANES),
    FIELD("llama_parallel", parallel, 1, MAX_LANES),
    FIELD("threads", threads, 0, MAX_THREADS),
    FIELD("serving_ctx_size", ctx, 0, MAX_CONTEXT),
    FIELD("concurrent_requests", concurrent_requests, 1, MAX_REQUESTS),
    FIELD("concurrent_output_tokens", concurrent_output_tokens, 1, MAX_TOKENS),
    FIELD("ttft_slo_ms", ttft_slo_ms, 1, MAX_MS),
    FIELD("tpot_slo_ms", tpot_slo_ms, 1, MAX_MS),
    FIELD("request_timeout_ms", request_timeout_ms, MIN_TIMEOUT_MS, MAX_MS),
    FIELD("rest_ms", rest_ms, 0, MAX_REST_MS),
};

enum { N_FIELDS = sizeof FIELDS / sizeof *FIELDS };

static const char *const OTHERS[] = {"seed", "n_gpu_layers", "concurrency", "prefix_sweep"};

enum { N_OTHERS = sizeof OTHERS / sizeof *OTHERS };

_Static_assert((int)N_FIELDS + (int)N_OTHERS <= SK_SIZES_MAX_NAMES, "SK_SIZES_MAX_NAMES is too small");

size_t sk_sizes_names(const char *names[SK_SIZES_MAX_NAMES]) {
    for (size_t i = 0; i < N_FIELDS; i++) names[i] = FIELDS[i].name;
    for (size_t i = 0; i < N_OTHERS; i++) names[N_FIELDS + i] = OTHERS[i];
    return N_FIELDS + N_OTHERS;
}

const sk_sizes_field *sk_sizes_field_find(const char *name) {
    for (size_t i = 0; i < N_FIELDS; i++) {
        if (strcmp(FIELDS[i].name, name) == 0) return &FIELDS[i];
    }
    return NULL;
}

uint32_t *sk_sizes_value(sk_family_sizes *s, const sk_sizes_field *f) {
    return (uint32_t *)(void *)((char *)s + f->offset);
}

static sk_strict field(const sk_strict *v, const char *name, bool needed) {
    return needed ? sk_strict_need(v, name) : sk_strict_field(v, name);
}

/* Numbers that are all different: the same level or length twice would be measured twice. */
static size_t read_set(const sk_strict *list, size_t max_count, uint32_t max, uint32_t *out) {
    const size_t n = sk_strict_count(list, 0, max_count);
    for (size_t i = 0; i < n; i++) {
        const sk_strict item = sk_strict_item(list, i);
        out[i] = sk_strict_u32(&item, 1, max, 1);
        for (size_t k = 0; k < i; k++) {
            if (out[k] == out[i]) sk_strict_refuse(&item, SKIPPY_E_INVALID, "%u is there twice", out[i]);
        }
    }
    return n;
}

void sk_sizes_read(const sk_strict *v, bool all_needed, sk_family_sizes *s) {
    for (size_t i = 0; i < N_FIELDS; i++) {
        const sk_strict one = field(v, FIELDS[i].name, all_needed);
        uint32_t *value = sk_sizes_value(s, &FIELDS[i]);
        *value = sk_strict_u32(&one, FIELDS[i].min, FIELDS[i].max, *value);
    }
    const sk_strict seed = field(v, "seed", all_needed), layers = field(v, "n_gpu_layers", all_needed);
    const sk_strict levels = field(v, "concurrency", all_needed), sweep = field(v, "prefix_sweep", all_needed);
    s->seed = (uint64_t)sk_strict_int(&seed, 0, INT64_MAX, (int64_t)s->seed);
    s->n_gpu_layers = (int32_t)sk_strict_int(&layers, -1, MAX_GPU_LAYERS, s->n_gpu_layers);
    if (sk_strict_present(&levels))
        s->n_concurrency = read_set(&levels, SK_FAMILY_MAX_LEVELS, MAX_CLIENTS, s->concurrency);
    if (sk_strict_present(&sweep)) s->n_sweep = read_set(&sweep, SK_FAMILY_MAX_SWEEP, MAX_TOKENS, s->sweep);
}

/* ---- writing ---- */

static json_t *numbers_json(const uint32_t *v, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, json_integer(v[i]));
    if (list && json_array_size(list) == n) return list;
    json_decref(list);
    return NULL;
}

json_t *sk_sizes_json(const sk_family_sizes *s) {
    json_t *all =
        json_pack("{s:I, s:i, s:o, s:o}", "seed", (json_int_t)s->seed, "n_gpu_layers", s->n_gpu_layers, "concurrency",
                  numbers_json(s->concurrency, s->n_concurrency), "prefix_sweep", numbers_json(s->sweep, s->n_sweep));
    for (size_t i = 0; i < N_FIELDS && all; i++) {
        const uint32_t *value = (const uint32_t *)(const void *)((const char *)s + FIELDS[i].offset);
        if (json_object_set_new(all, FIELDS[i].name, json_integer(*value)) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}
