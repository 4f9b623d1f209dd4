#include "bench/family/operator.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/family/operator_env.h"
#include "bench/family/operator_plan.h"
#include "bench/family/sizes_json.h"

enum {
    MAX_BYTES = 1 << 20,
    MIN_EXECUTION_S = 4,
    MAX_EXECUTION_S = 86400,
    MAX_CELL_S = 3600,
    MIN_PREPARATION_S = 30,
    MAX_PREPARATION_S = 3600
};

static const char *const FIELDS[] = {
    "schema_version",
    "plan",
    "correctness",
    "stage_server",
    "native_server",
    "artifact_tool",
    "native_build",
    "old_source_commit",
    "new_source_commit",
    "native_source_commit",
    "environment",
    "toolkit_directories",
    "execution_seconds",
    "cell_seconds",
    "request_timeout_ms",
    "preparation_seconds",
    "borrow_resident_hits",
    "cache_decoded_result_hits",
    NULL,
};

static void read_commit(const sk_strict *root, const char *name, char out[65]) {
    const sk_strict v = sk_strict_field(root, name);
    sk_strict_commit(&v, out);
}

/* The name becomes part of messages and of file lists. */
static bool is_toolkit_name(const char *name) {
    const size_t n = strlen(name);
    return n > 0 && n < sizeof((sk_pinned_tree *)0)->name &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-.") == n;
}

static void read_toolkits(const sk_strict *root, sk_operator *op) {
    const sk_strict all = sk_strict_field(root, "toolkit_directories");
    const char *name;
    json_t *value;
    if (!sk_strict_present(&all)) return;
    if (!json_is_object(all.json) || json_object_size(all.json) > SK_INPUT_MAX_TOOLKITS) {
        sk_strict_refuse(&all, SKIPPY_E_INVALID, "must be an object of at most %d folders", SK_INPUT_MAX_TOOLKITS);
        return;
    }
    json_object_foreach(all.json, name, value) {
        sk_pinned_tree *t = &op->toolkit[op->n_toolkits++];
        sk_pinned_file pin = {0};
        sk_strict v = sk_strict_field(&all, name);
        v.json = value; /* a null is a wrong type here, not an absent folder */
        if (!is_toolkit_name(name))
            sk_strict_refuse(&v, SKIPPY_E_INVALID, "a name has 1 to 63 of a-z, 0-9, '_', '-' and '.'");
        sk_operator_pin_read(&v, &pin);
        snprintf(t->name, sizeof t->name, "%s", name);
        memcpy(t->path, pin.path, sizeof t->path);
        memcpy(t->sha256, pin.sha256, sizeof t->sha256);
    }
}

static void read_tools(const sk_strict *root, sk_operator *op) {
    const sk_strict correctness = sk_strict_need(root, "correctness"), stage = sk_strict_need(root, "stage_server");
    const sk_strict build = sk_strict_need(root, "native_build");
    const sk_strict native = sk_strict_field(root, "native_server"), artifact = sk_strict_field(root, "artifact_tool");
    sk_strict_absolute(&correctness, op->correctness, sizeof op->correctness);
    sk_strict_absolute(&stage, op->stage_server, sizeof op->stage_server);
    sk_strict_absolute(&build, op->native_build, sizeof op->native_build);
    sk_strict_absolute(&native, op->native_server, sizeof op->native_server);
    sk_strict_absolute(&artifact, op->artifact_tool, sizeof op->artifact_tool);
    read_commit(root, "old_source_commit", op->old_commit);
    read_commit(root, "new_source_commit", op->new_commit);
    read_commit(root, "native_source_commit", op->native_commit);
}

static void read_limits(const sk_strict *root, sk_operator *op) {
    const sk_strict execution = sk_strict_field(root, "execution_seconds"),
                    cell = sk_strict_field(root, "cell_seconds");
    const sk_strict preparation = sk_strict_field(root, "preparation_seconds");
    const sk_strict request = sk_strict_field(root, "request_timeout_ms");
    const sk_sizes_field *timeout = sk_sizes_field_find("request_timeout_ms");
    uint32_t *timeout_ms = sk_sizes_value(&op->plan.sizes, timeout);
    op->execution_seconds = sk_strict_u32(&execution, MIN_EXECUTION_S, MAX_EXECUTION_S, MAX_EXECUTION_S);
    op->cell_seconds = sk_strict_u32(&cell, 1, MAX_CELL_S, MAX_CELL_S);
    op->preparation_seconds = sk_strict_u32(&preparation, MIN_PREPARATION_S, MAX_PREPARATION_S, MAX_PREPARATION_S);
    *timeout_ms = sk_strict_u32(&request, timeout->min, timeout->max, *timeout_ms);
    op->request_timeout_ms = *timeout_ms;
}

static void read_operator(const sk_strict *root, sk_operator *op) {
    sk_strict_version(root, 1);
    sk_strict_known(root, FIELDS);
    const sk_strict plan = sk_strict_need(root, "plan");
    const sk_strict borrow = sk_strict_field(root, "borrow_resident_hits");
    const sk_strict decoded = sk_strict_field(root, "cache_decoded_result_hits");
    const sk_strict environment = sk_strict_field(root, "environment");
    sk_operator_plan_read(&plan, &op->plan);
    read_tools(root, op);
    read_toolkits(root, op);
    sk_operator_env_read(&environment, op); /* needs build and toolkits */
    read_limits(root, op);
    op->borrow_resident_hits = sk_strict_bool(&borrow, false);
    op->cache_decoded_result_hits = sk_strict_bool(&decoded, false);
}

int sk_operator_parse(json_t *json, sk_operator **out, sk_err *e) {
    sk_strict_reader reader = {.e = e};
    *out = NULL;
    sk_operator *op = calloc(1, sizeof *op);
    if (!op) return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for an operator's request");
    const sk_strict root = sk_strict_root(&reader, json);
    read_operator(&root, op);
    if (reader.rc != SKIPPY_OK) {
        sk_operator_free(op);
        return reader.rc;
    }
    *out = op;
    return SKIPPY_OK;
}

int sk_operator_load(const char *path, sk_operator **out, sk_err *e) {
    json_t *root = NULL;
    char hex[SK_SHA256_HEX];
    *out = NULL;
    int rc = sk_strict_load(path, MAX_BYTES, &root, hex, e);
    if (rc == SKIPPY_OK) rc = sk_operator_parse(root, out, e);
    if (rc == SKIPPY_OK) memcpy((*out)->sha256, hex, sizeof hex);
    json_decref(root);
    return rc;
}

void sk_operator_free(sk_operator *op) {
    if (!op) return;
    sk_operator_plan_free(&op->plan);
    for (size_t i = 0; i < op->n_env; i++) free(op->env[i]);
    free(op);
}

/* ---- overrides ---- */

static int override(sk_family_sizes *s, const char *name, const char *text, const char *field, sk_err *e) {
    const sk_sizes_field *f = sk_sizes_field_find(field);
    char *end = NULL;
    if (!text || !text[0]) return SKIPPY_OK; /* empty is what shells have for "not given" */
    errno = 0;
    const long n = strtol(text, &end, 10);
    if (errno != 0 || *end || n < (long)f->min || n > (long)f->max) {
        return sk_err_set(e, SKIPPY_E_INVALID, "the environment's %s='%.60s' is no whole number from %u to %u", name,
                          text, f->min, f->max);
    }
    *sk_sizes_value(s, f) = (uint32_t)n;
    return SKIPPY_OK;
}

int sk_operator_override(sk_operator *op, char *(*get)(const char *name), sk_err *e) {
    static const struct {
        const char *name, *field;
    } all[] = {
        {"PREFIX_TOKENS", "prefix_tokens"},         {"RUNTIME_LANE_COUNT", "runtime_lane_count"},
        {"LLAMA_PARALLEL", "llama_parallel"},       {"LLAMA_REPEATS", "llama_repeats"},
        {"CACHE_HIT_REPEATS", "cache_hit_repeats"},
    };
    int rc = SKIPPY_OK;
    for (size_t i = 0; rc == SKIPPY_OK && i < sizeof all / sizeof *all; i++)
        rc = override(&op->plan.sizes, all[i].name, get(all[i].name), all[i].field, e);
    return rc;
}
