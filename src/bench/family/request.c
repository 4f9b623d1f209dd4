#include "bench/family/request.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

void sk_family_sizes_default(sk_family_sizes *s) {
    *s = (sk_family_sizes){.seed = 1,
                           .prefix_tokens = 128,
                           .suffix_tokens = 16,
                           .history_tokens = 384,
                           .edit_tokens = 24,
                           .restart_tokens = 512,
                           .cache_hit_repeats = 20,
                           .llama_repeats = 20,
                           .conversation_repeats = 20,
                           .restart_repeats = 3,
                           .lanes = 1,
                           .parallel = 1,
                           .concurrent_requests = 64,
                           .concurrent_output_tokens = 128,
                           .ttft_slo_ms = 2000,
                           .tpot_slo_ms = 100,
                           .request_timeout_ms = 600000,
                           .rest_ms = 100};
}

static int absolute(const char *what, const char *path, char out[PATH_MAX], sk_err *e) {
    if (realpath(path, out)) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_NOT_FOUND, "%s '%s': %s", what, path, strerror(errno));
}

static int set_path(json_t *root, const char *field, const char *path, sk_err *e) {
    char full[PATH_MAX];
    int rc = absolute(field, path, full, e);
    if (rc == SKIPPY_OK && json_object_set_new(root, field, json_string(full)) != 0)
        rc = sk_err_set(e, SKIPPY_E_INVALID, "%s: the path '%s' is not UTF-8", field, path);
    return rc;
}

/* A file with its digest, for plan.corpus and plan.agent_corpus. */
static int set_pinned(json_t *plan, const char *field, const char *path, sk_err *e) {
    char hex[SK_SHA256_HEX];
    json_t *pin = json_object();
    int rc = pin ? set_path(pin, "path", path, e) : sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the request");
    if (rc == SKIPPY_OK) rc = sk_sha256_file(path, NULL, hex, NULL, e);
    if (rc == SKIPPY_OK && json_object_set_new(pin, "sha256", json_string(hex)) != 0)
        rc = sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the request");
    if (rc != SKIPPY_OK) {
        json_decref(pin);
        return rc;
    }
    return json_object_set_new(plan, field, pin) == 0 ? SKIPPY_OK
                                                      : sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the request");
}

static int make_cases(const char *list, json_t **out, sk_err *e) {
    const sk_preset *presets[SK_PRESETS];
    size_t n = 0;
    *out = json_array();
    int rc = sk_presets_parse(list ? list : "", presets, &n, e);
    for (size_t i = 0; rc == SKIPPY_OK && i < n; i++)
        if (json_array_append_new(*out, json_string(presets[i]->key)) != 0)
            rc = sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the request");
    return rc;
}

static json_t *numbers(const uint32_t *v, size_t n) {
    json_t *a = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(a, json_integer(v[i]));
    return a;
}

static void set_sizes(json_t *plan, const sk_family_sizes *s) {
    const struct {
        const char *field;
        json_int_t value;
    } fields[] = {
        {"seed", (json_int_t)s->seed},
        {"prefix_tokens", s->prefix_tokens},
        {"suffix_tokens", s->suffix_tokens},
        {"history_tokens", s->history_tokens},
        {"edit_tokens", s->edit_tokens},
        {"restart_tokens", s->restart_tokens},
        {"conversation_repeats", s->conversation_repeats},
        {"restart_repeats", s->restart_repeats},
        {"cache_hit_repeats", s->cache_hit_repeats},
        {"llama_repeats", s->llama_repeats},
        {"runtime_lane_count", s->lanes},
        {"llama_parallel", s->parallel},
        {"n_gpu_layers", s->n_gpu_layers},
        {"concurrent_requests", s->concurrent_requests},
        {"concurrent_output_tokens", s->concurrent_output_tokens},
        {"ttft_slo_ms", s->ttft_slo_ms},
        {"tpot_slo_ms", s->tpot_slo_ms},
        {"rest_ms", s->rest_ms},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        json_object_set_new(plan, fields[i].field, json_integer(fields[i].value));
    if (s->threads) json_object_set_new(plan, "threads", json_integer(s->threads));
    if (s->ctx) json_object_set_new(plan, "serving_ctx_size", json_integer(s->ctx));
    json_object_set_new(plan, "concurrency", numbers(s->concurrency, s->n_concurrency));
    json_object_set_new(plan, "prefix_sweep", numbers(s->sweep, s->n_sweep));
}

static int make_plan(const sk_request_options *o, json_t *plan, sk_err *e) {
    json_t *cases = NULL;
    json_object_set_new(plan, "schema_version", json_integer(1));
    int rc = set_path(plan, "cache_root", o->models, e);
    if (rc == SKIPPY_OK) rc = make_cases(o->cases, &cases, e);
    if (cases) json_object_set_new(plan, "cases", cases);
    json_object_set_new(plan, "use_cases", o->corpus ? json_pack("[s]", "all") : json_array());
    if (rc == SKIPPY_OK && o->corpus) rc = set_pinned(plan, "corpus", o->corpus, e);
    if (rc == SKIPPY_OK && o->agent_corpus) rc = set_pinned(plan, "agent_corpus", o->agent_corpus, e);
    set_sizes(plan, o->sizes);
    return rc;
}

/* The folder of a program behind all links: there its libraries lie. */
static int set_folder_of(json_t *root, const char *field, const char *program, sk_err *e) {
    char full[PATH_MAX];
    int rc = absolute(field, program, full, e);
    char *slash = rc == SKIPPY_OK ? strrchr(full, '/') : NULL;
    if (slash) *slash = '\0';
    if (rc == SKIPPY_OK && json_object_set_new(root, field, json_string(full)) != 0)
        rc = sk_err_set(e, SKIPPY_E_INVALID, "%s: the path is not UTF-8", field);
    return rc;
}

int sk_request_make(const sk_request_options *o, json_t **out, sk_err *e) {
    json_t *root = json_object();
    json_t *plan = json_object();
    *out = NULL;
    int rc = root && plan ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the request");
    if (rc == SKIPPY_OK) rc = make_plan(o, plan, e);
    json_object_set_new(root, "schema_version", json_integer(1));
    json_object_set_new(root, "plan", plan); /* the plan is the request's from here on */
    static const char *const OURS[] = {"correctness", "stage_server", "artifact_tool"};
    for (size_t i = 0; rc == SKIPPY_OK && i < sizeof OURS / sizeof *OURS; i++)
        rc = set_path(root, OURS[i], o->skippy, e);
    if (rc == SKIPPY_OK) rc = set_path(root, "native_server", o->llama_server, e);
    if (rc == SKIPPY_OK) rc = set_folder_of(root, "native_build", o->llama_server, e);
    json_object_set_new(root, "environment", json_object());
    json_object_set_new(root, "toolkit_directories", json_object());
    json_object_set_new(root, "execution_seconds", json_integer(o->execution_seconds));
    json_object_set_new(root, "cell_seconds", json_integer(o->cell_seconds));
    json_object_set_new(root, "preparation_seconds", json_integer(o->preparation_seconds));
    json_object_set_new(root, "request_timeout_ms", json_integer(o->sizes->request_timeout_ms));
    if (rc != SKIPPY_OK) {
        json_decref(root);
        return rc;
    }
    *out = root;
    return SKIPPY_OK;
}
