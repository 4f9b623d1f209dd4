#include <stdio.h>
#include <string.h>

#include "bench/family/input.h"
#include "bench/family/input_parts.h"
#include "bench/family/sizes_json.h"

const sk_input_field sk_input_task_fields[] = {
    {"correctness", offsetof(sk_cell_tasks, correctness)},
    {"serial_baseline", offsetof(sk_cell_tasks, serial_baseline)},
    {"serial_skippy", offsetof(sk_cell_tasks, serial_skippy)},
    {"concurrent", offsetof(sk_cell_tasks, concurrent)},
    {"moved_boundary", offsetof(sk_cell_tasks, moved_boundary)},
    {"agent", offsetof(sk_cell_tasks, agent)},
    {"restart", offsetof(sk_cell_tasks, restart)},
    {"paired_serving", offsetof(sk_cell_tasks, paired_serving)},
    {NULL, 0},
};

const sk_input_field sk_input_programs[] = {
    {"correctness", offsetof(sk_family_input, correctness)},
    {"stage_server", offsetof(sk_family_input, stage_server)},
    {"native_server", offsetof(sk_family_input, native_server)},
    {"artifact_tool", offsetof(sk_family_input, artifact_tool)},
    {"old_server", offsetof(sk_family_input, old_server)},
    {"new_server", offsetof(sk_family_input, new_server)},
    {NULL, 0},
};

const char *const sk_input_cell_kinds[] = {"full", "use-case", "sweep", "package", NULL};
const char *const sk_input_model_kinds[] = {"single-gguf", "split-gguf-first-shard", "layer-package-tree", NULL};
const char *const sk_input_statuses[] = {"present-unqualified", "missing-model", "refused", NULL};

/* ---- writing ---- */

/* A text, or null for an empty one. */
static json_t *text_or_null(const char *text) {
    return text && text[0] ? json_string(text) : json_null();
}

json_t *sk_input_pin_json(const sk_pinned_file *f) {
    if (!f->path[0]) return json_null();
    return json_pack("{s:s, s:s, s:I}", "path", f->path, "sha256", f->sha256, "bytes", (json_int_t)f->bytes);
}

json_t *sk_input_tree_json(const sk_pinned_tree *t) {
    return json_pack("{s:s, s:s, s:s}", "name", t->name, "path", t->path, "sha256", t->sha256);
}

static json_t *programs_json(const sk_family_input *in) {
    json_t *all = json_object();
    for (const sk_input_field *f = sk_input_programs; f->name && all; f++) {
        const sk_pinned_file *pin = (const sk_pinned_file *)(const void *)((const char *)in + f->offset);
        if (json_object_set_new(all, f->name, sk_input_pin_json(pin)) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

static json_t *environment_json(const sk_family_input *in) {
    json_t *all = json_object();
    for (size_t i = 0; i < in->n_env && all; i++) {
        const char *equals = strchr(in->env[i], '=');
        json_t *value = equals ? json_string(equals + 1) : NULL;
        char name[128];
        snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - in->env[i]) : 0, in->env[i]);
        if (json_object_set_new(all, name, value) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

static json_t *tasks_json(const sk_cell_tasks *t) {
    json_t *all = json_object();
    for (const sk_input_field *f = sk_input_task_fields; f->name && all; f++) {
        const bool *value = (const bool *)(const void *)((const char *)t + f->offset);
        json_object_set_new(all, f->name, json_boolean(*value)); /* true and false need no memory; a lost field shows
                                                                    when the input is read */
    }
    return all;
}

static json_t *file_json(const sk_found_file *f) {
    return json_pack("{s:s, s:s, s:I}", "path", f->path, "sha256", f->sha256, "bytes", (json_int_t)f->bytes);
}

/* Takes over a list of json values; NULL when one of them is NULL. */
static json_t *append(json_t *list, json_t *value) {
    if (list && json_array_append_new(list, value) == 0) return list;
    json_decref(list);
    return NULL;
}

json_t *sk_input_model_json(const sk_input_model *m) {
    const sk_found_model *found = &m->found;
    json_t *files = json_array();
    for (size_t i = 0; i < found->n_files && files; i++) files = append(files, file_json(&found->file[i]));
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:b, s:o}", "key", m->preset->key, "status",
                     sk_input_statuses[found->status], "why", text_or_null(found->why), "requested",
                     text_or_null(found->requested), "runtime_entry", text_or_null(found->runtime_entry), "kind",
                     text_or_null(found->kind), "files", files, "architecture", text_or_null(found->arch), "layers",
                     (int)found->layers, "width", (int)found->width, "synthetic", (int)found->synthetic, "quantization",
                     text_or_null(found->quant));
}

static json_t *cell_json(const sk_family_cell *c) {
    return json_pack("{s:s, s:s, s:o, s:I, s:s, s:I, s:o}", "key", c->preset->key, "kind", sk_input_cell_kinds[c->kind],
                     "use_case", text_or_null(c->use_case), "prefix_tokens", (json_int_t)c->prefix_tokens,
                     "output_relative", c->output_relative, "model", (json_int_t)c->model, "tasks",
                     tasks_json(&c->tasks));
}

static json_t *commits_json(const sk_family_input *in) {
    return json_pack("{s:o, s:o, s:o}", "old", text_or_null(in->old_commit), "new", text_or_null(in->new_commit),
                     "native", text_or_null(in->native_commit));
}

json_t *sk_family_input_json(const sk_family_input *in) {
    json_t *toolkits = json_array(), *models = json_array(), *cells = json_array();
    for (size_t i = 0; i < in->n_toolkits && toolkits; i++)
        toolkits = append(toolkits, sk_input_tree_json(&in->toolkit[i]));
    for (size_t i = 0; i < in->n_models && models; i++) models = append(models, sk_input_model_json(&in->models[i]));
    for (size_t i = 0; i < in->n_cells && cells; i++) cells = append(cells, cell_json(&in->cells[i]));
    return json_pack("{s:i, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:b, s:b, s:o, s:o, s:o}",
                     "schema_version", SK_INPUT_SCHEMA, "kind", in->kind, "operator_sha256", in->operator_sha256,
                     "catalog_sha256", in->catalog_sha256, "programs", programs_json(in), "native_build",
                     sk_input_tree_json(&in->native_build), "toolkits", toolkits, "environment", environment_json(in),
                     "source_commits", commits_json(in), "corpus", sk_input_pin_json(&in->corpus), "agent_corpus",
                     sk_input_pin_json(&in->agent_corpus), "execution_seconds", (json_int_t)in->execution_seconds,
                     "cell_seconds", (json_int_t)in->cell_seconds, "borrow_resident_hits",
                     (int)in->borrow_resident_hits, "cache_decoded_result_hits", (int)in->cache_decoded_result_hits,
                     "sizes", sk_sizes_json(&in->sizes), "models", models, "cells", cells);
}
