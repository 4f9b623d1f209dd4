#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/family/input.h"
#include "bench/family/input_parts.h"
#include "bench/family/operator_env.h"
#include "bench/family/sizes_json.h"

enum { MAX_SECONDS = 86400, MAX_PREFIX = 65536 };

static const char *const FIELDS[] = {"schema_version",
                                     "kind",
                                     "operator_sha256",
                                     "catalog_sha256",
                                     "programs",
                                     "native_build",
                                     "toolkits",
                                     "environment",
                                     "source_commits",
                                     "corpus",
                                     "agent_corpus",
                                     "execution_seconds",
                                     "cell_seconds",
                                     "borrow_resident_hits",
                                     "cache_decoded_result_hits",
                                     "sizes",
                                     "models",
                                     "cells",
                                     NULL};

/* ---- pins ---- */

static uint64_t read_bytes(const sk_strict *v) {
    const sk_strict bytes = sk_strict_need(v, "bytes");
    return (uint64_t)sk_strict_int(&bytes, 0, INT64_MAX, 0);
}

static void read_path_and_digest(const sk_strict *v, char *path, size_t cap, char sha256[SK_SHA256_HEX]) {
    const sk_strict p = sk_strict_need(v, "path"), hex = sk_strict_need(v, "sha256");
    sk_strict_absolute(&p, path, cap);
    sk_strict_sha256(&hex, sha256);
}

static void read_pin(const sk_strict *v, sk_pinned_file *out) {
    static const char *const fields[] = {"path", "sha256", "bytes", NULL};
    if (!sk_strict_present(v)) return;
    sk_strict_known(v, fields);
    read_path_and_digest(v, out->path, sizeof out->path, out->sha256);
    out->bytes = read_bytes(v);
}

static void read_tree(const sk_strict *v, sk_pinned_tree *out) {
    static const char *const fields[] = {"name", "path", "sha256", NULL};
    const sk_strict name = sk_strict_need(v, "name");
    sk_strict_known(v, fields);
    sk_strict_copy(&name, out->name, sizeof out->name);
    read_path_and_digest(v, out->path, sizeof out->path, out->sha256);
}

static void read_programs(const sk_strict *root, sk_family_input *in) {
    const sk_strict all = sk_strict_need(root, "programs");
    const char *names[8] = {NULL};
    size_t n = 0;
    for (const sk_input_field *f = sk_input_programs; f->name; f++) {
        const sk_strict one = sk_strict_field(&all, f->name);
        read_pin(&one, (sk_pinned_file *)(void *)((char *)in + f->offset));
        names[n++] = f->name;
    }
    sk_strict_known(&all, names);
    if (!in->correctness.path[0] || !in->stage_server.path[0])
        sk_strict_refuse(&all, SKIPPY_E_INVALID, "correctness and stage_server are needed");
}

/* ---- environment and commits ---- */

static void read_variable(const sk_strict *v, const char *name, sk_family_input *in) {
    const char *value = json_is_string(v->json) ? json_string_value(v->json) : NULL;
    char *pair = NULL;
    if (!value || !sk_operator_env_allowed(name) || in->n_env == SK_INPUT_MAX_ENV) {
        sk_strict_refuse(v, SKIPPY_E_INVALID, "is no text, no allowed variable, or one more than %d", SK_INPUT_MAX_ENV);
    } else if (asprintf(&pair, "%s=%s", name, value) < 0) {
        sk_strict_refuse(v, SKIPPY_E_NOMEM, "out of memory");
    } else {
        in->env[in->n_env++] = pair;
    }
}

static void read_environment(const sk_strict *root, sk_family_input *in) {
    const sk_strict all = sk_strict_need(root, "environment");
    const char *name;
    json_t *value;
    if (sk_strict_present(&all) && !json_is_object(all.json))
        sk_strict_refuse(&all, SKIPPY_E_INVALID, "must be an object");
    if (!sk_strict_present(&all)) return;
    json_object_foreach(all.json, name, value) {
        const sk_strict v = sk_strict_field(&all, name);
        if (!sk_strict_failed(&v)) read_variable(&v, name, in);
    }
}

static void read_commits(const sk_strict *root, sk_family_input *in) {
    static const char *const fields[] = {"old", "new", "native", NULL};
    const sk_strict all = sk_strict_need(root, "source_commits");
    const sk_strict old_commit = sk_strict_field(&all, "old"), new_commit = sk_strict_field(&all, "new");
    const sk_strict native = sk_strict_field(&all, "native");
    sk_strict_known(&all, fields);
    sk_strict_commit(&old_commit, in->old_commit);
    sk_strict_commit(&new_commit, in->new_commit);
    sk_strict_commit(&native, in->native_commit);
}

/* ---- models ---- */

static const sk_preset *read_preset(const sk_strict *v) {
    const sk_strict key = sk_strict_need(v, "key");
    const char *text = sk_strict_text(&key, 64);
    const sk_preset *preset = sk_preset_find(text);
    if (!preset) sk_strict_refuse(&key, SKIPPY_E_INVALID, "there is no case '%s'", text);
    return preset;
}

static void read_found_file(const sk_strict *v, sk_found_file *out) {
    static const char *const fields[] = {"path", "sha256", "bytes", NULL};
    sk_strict_known(v, fields);
    read_path_and_digest(v, out->path, sizeof out->path, out->sha256);
    out->bytes = read_bytes(v);
}

static void read_files(const sk_strict *model, sk_found_model *out) {
    const sk_strict files = sk_strict_need(model, "files");
    out->n_files = sk_strict_count(&files, 0, SK_PRESET_MAX_SHARDS);
    for (size_t i = 0; i < out->n_files; i++) {
        const sk_strict file = sk_strict_item(&files, i);
        read_found_file(&file, &out->file[i]);
    }
    if (out->status == SK_FOUND_PRESENT && out->n_files == 0)
        sk_strict_refuse(&files, SKIPPY_E_INVALID, "a model that is present has files");
}

static void read_header(const sk_strict *model, sk_found_model *out) {
    const sk_strict arch = sk_strict_field(model, "architecture"), quant = sk_strict_field(model, "quantization");
    const sk_strict layers = sk_strict_need(model, "layers"), width = sk_strict_need(model, "width");
    const sk_strict synthetic = sk_strict_need(model, "synthetic");
    sk_strict_copy(&arch, out->arch, sizeof out->arch);
    sk_strict_copy(&quant, out->quant, sizeof out->quant);
    out->layers = (int32_t)sk_strict_int(&layers, 0, INT32_MAX, 0);
    out->width = (int32_t)sk_strict_int(&width, 0, INT32_MAX, 0);
    out->synthetic = sk_strict_bool(&synthetic, false);
}

static void read_model(const sk_strict *v, sk_input_model *out) {
    static const char *const fields[] = {
        "key",          "status", "why",   "requested", "runtime_entry", "kind", "files",
        "architecture", "layers", "width", "synthetic", "quantization",  NULL};
    sk_strict_known(v, fields);
    sk_found_model *found = &out->found;
    const sk_strict status = sk_strict_need(v, "status"), why = sk_strict_field(v, "why");
    const sk_strict requested = sk_strict_field(v, "requested"), entry = sk_strict_field(v, "runtime_entry");
    const sk_strict kind = sk_strict_field(v, "kind");
    out->preset = read_preset(v);
    found->status = (sk_found_status)sk_strict_choice(&status, sk_input_statuses);
    sk_strict_copy(&why, found->why, sizeof found->why);
    sk_strict_absolute(&requested, found->requested, sizeof found->requested);
    sk_strict_absolute(&entry, found->runtime_entry, sizeof found->runtime_entry);
    found->kind = sk_strict_present(&kind) ? sk_input_model_kinds[sk_strict_choice(&kind, sk_input_model_kinds)] : NULL;
    read_files(v, found);
    read_header(v, found);
    if (found->status == SK_FOUND_PRESENT && !found->runtime_entry[0])
        sk_strict_refuse(&entry, SKIPPY_E_INVALID, "is missing: a model that is present has one");
}

static void read_models(const sk_strict *root, sk_family_input *in) {
    const sk_strict models = sk_strict_need(root, "models");
    in->n_models = sk_strict_count(&models, 1, SK_PRESETS);
    for (size_t i = 0; i < in->n_models; i++) {
        const sk_strict model = sk_strict_item(&models, i);
        read_model(&model, &in->models[i]);
        for (size_t k = 0; k < i; k++) {
            if (in->models[k].preset == in->models[i].preset)
                sk_strict_refuse(&model, SKIPPY_E_INVALID, "the case is there twice");
        }
    }
}

/* ---- cells ---- */

/* "a/b-p1": names of letters, digits, '_', '-' and '.' that do not begin with a dot, so that nothing leaves the output
 * folder. */
static bool stays_inside(const char *path) {
    for (const char *p = path;; p++) {
        const size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
        if (n == 0 || *p == '.') return false;
        p += n;
        if (*p == '\0') return true;
        if (*p != '/') return false;
    }
}

static void read_tasks(const sk_strict *cell, sk_cell_tasks *out) {
    const sk_strict all = sk_strict_need(cell, "tasks");
    const char *names[sizeof(sk_cell_tasks) + 1] = {NULL};
    size_t n = 0;
    for (const sk_input_field *f = sk_input_task_fields; f->name; f++) {
        const sk_strict one = sk_strict_need(&all, f->name);
        *(bool *)(void *)((char *)out + f->offset) = sk_strict_bool(&one, false);
        names[n++] = f->name;
    }
    sk_strict_known(&all, names);
}

static void read_cell(const sk_strict *v, const sk_family_input *in, sk_family_cell *out) {
    static const char *const fields[] = {"key",   "kind",  "use_case", "prefix_tokens", "output_relative",
                                         "model", "tasks", NULL};
    const sk_strict kind = sk_strict_need(v, "kind"), use_case = sk_strict_field(v, "use_case");
    const sk_strict prefix = sk_strict_need(v, "prefix_tokens"), output = sk_strict_need(v, "output_relative");
    const sk_strict model = sk_strict_need(v, "model");
    sk_strict_known(v, fields);
    out->preset = read_preset(v);
    out->kind = (sk_cell_kind)sk_strict_choice(&kind, sk_input_cell_kinds);
    sk_strict_copy(&use_case, out->use_case, sizeof out->use_case);
    out->prefix_tokens = sk_strict_u32(&prefix, 1, MAX_PREFIX, 0);
    sk_strict_copy(&output, out->output_relative, sizeof out->output_relative);
    out->model = (size_t)sk_strict_int(&model, 0, (int64_t)in->n_models - 1, 0);
    read_tasks(v, &out->tasks);
    if (in->models[out->model].preset != out->preset)
        sk_strict_refuse(&model, SKIPPY_E_INVALID, "models[%zu] is another case's", out->model);
    if ((out->kind == SK_CELL_USE_CASE) != (out->use_case[0] != '\0'))
        sk_strict_refuse(&use_case, SKIPPY_E_INVALID, "must be there for a use-case cell and for no other");
    if (!stays_inside(out->output_relative))
        sk_strict_refuse(&output, SKIPPY_E_INVALID, "'%s' is no plain path below the output folder",
                         out->output_relative);
}

static void read_cells(const sk_strict *root, sk_family_input *in) {
    const sk_strict cells = sk_strict_need(root, "cells");
    const size_t n = sk_strict_count(&cells, 1, SK_INPUT_MAX_CELLS);
    if (n == 0) return;
    in->cells = calloc(n, sizeof *in->cells);
    if (!in->cells) {
        sk_strict_refuse(&cells, SKIPPY_E_NOMEM, "no memory for %zu cells", n);
        return;
    }
    in->n_cells = n;
    for (size_t i = 0; i < n && !sk_strict_failed(root); i++) {
        const sk_strict cell = sk_strict_item(&cells, i);
        read_cell(&cell, in, &in->cells[i]);
    }
}

/* ---- the whole ---- */

static void read_kind(const sk_strict *root, sk_family_input *in) {
    static const char *const kinds[] = {"full", "use-cases", NULL};
    const sk_strict kind = sk_strict_need(root, "kind");
    snprintf(in->kind, sizeof in->kind, "%s", kinds[sk_strict_choice(&kind, kinds)]);
}

static void read_digests(const sk_strict *root, sk_family_input *in) {
    const sk_strict operator_sha = sk_strict_need(root, "operator_sha256");
    const sk_strict catalog = sk_strict_need(root, "catalog_sha256");
    char ours[SK_SHA256_HEX];
    sk_catalog_digest(ours);
    sk_strict_sha256(&operator_sha, in->operator_sha256);
    sk_strict_sha256(&catalog, in->catalog_sha256);
    if (strcmp(ours, in->catalog_sha256) != 0)
        sk_strict_refuse(&catalog, SKIPPY_E_INVALID,
                         "it was made with another table of families than this program has; prepare it again");
}

static void read_toolkits(const sk_strict *root, sk_family_input *in) {
    const sk_strict all = sk_strict_need(root, "toolkits");
    in->n_toolkits = sk_strict_count(&all, 0, SK_INPUT_MAX_TOOLKITS);
    for (size_t i = 0; i < in->n_toolkits; i++) {
        const sk_strict one = sk_strict_item(&all, i);
        read_tree(&one, &in->toolkit[i]);
    }
}

static void read_limits(const sk_strict *root, sk_family_input *in) {
    const sk_strict execution = sk_strict_need(root, "execution_seconds"), cell = sk_strict_need(root, "cell_seconds");
    const sk_strict borrow = sk_strict_need(root, "borrow_resident_hits");
    const sk_strict decoded = sk_strict_need(root, "cache_decoded_result_hits");
    in->execution_seconds = sk_strict_u32(&execution, 1, MAX_SECONDS, 0);
    in->cell_seconds = sk_strict_u32(&cell, 1, MAX_SECONDS, 0);
    in->borrow_resident_hits = sk_strict_bool(&borrow, false);
    in->cache_decoded_result_hits = sk_strict_bool(&decoded, false);
}

void sk_input_read(const sk_strict *root, sk_family_input *in) {
    sk_strict_version(root, SK_INPUT_SCHEMA);
    sk_strict_known(root, FIELDS);
    const sk_strict build = sk_strict_need(root, "native_build"), sizes = sk_strict_need(root, "sizes");
    const sk_strict corpus = sk_strict_field(root, "corpus"), agent = sk_strict_field(root, "agent_corpus");
    const char *names[SK_SIZES_MAX_NAMES + 1] = {NULL};
    sk_sizes_names(names);
    read_kind(root, in);
    read_digests(root, in);
    read_programs(root, in);
    read_tree(&build, &in->native_build);
    read_toolkits(root, in);
    read_environment(root, in);
    read_commits(root, in);
    read_pin(&corpus, &in->corpus);
    read_pin(&agent, &in->agent_corpus);
    read_limits(root, in);
    sk_strict_known(&sizes, names);
    sk_sizes_read(&sizes, true, &in->sizes);
    read_models(root, in);
    read_cells(root, in);
}
