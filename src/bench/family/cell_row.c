#include "bench/family/cell_row.h"

#include <stdio.h>
#include <string.h>

#include "bench/family/cell.h"

enum { ROW_SCHEMA = 1 };

void sk_cell_status_worsen(sk_cell_status *s, const char *good, const char *status, const char *why) {
    if (s->status[0] == '\0' || strcmp(s->status, good) == 0) {
        snprintf(s->status, sizeof s->status, "%s", status);
        snprintf(s->why, sizeof s->why, "%s", why);
    }
}

const char *sk_cell_kind_name(sk_cell_kind kind) {
    static const char *const names[] = {"full", "use-case", "sweep", "package"};
    return names[kind];
}

/* ---- the model ---- */

static const char *artifact_name(sk_preset_artifact a) {
    static const char *const names[] = {"gguf", "shards", "layer-package"};
    return names[a];
}

static bool is_package(const sk_family_cell *cell) {
    return cell->preset->artifact == SK_ARTIFACT_PACKAGE;
}

/* Of the file that was measured; of the real model where it does not say. */
static int32_t layers_of(const sk_found_model *found, const sk_preset *p) {
    return found->layers > 0 ? found->layers : p->layers;
}

static json_t *files_json(const sk_found_model *found) {
    json_t *list = json_array();
    for (size_t i = 0; i < found->n_files; i++) {
        const sk_found_file *f = &found->file[i];
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:I}", "path", f->path, "sha256", f->sha256, "bytes", (json_int_t)f->bytes));
    }
    return list;
}

static json_t *case_json(const sk_preset *p) {
    json_t *a = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:b, s:b}", "key", p->key, "label", p->label,
                          "model_id", p->model_id, "repo", p->repo, "revision", p->revision, "file", p->file,
                          "artifact", artifact_name(p->artifact), "shards", (json_int_t)p->shards, "payload",
                          p->payload, "recurrent", p->recurrent, "swa", p->swa);
    json_t *b = json_pack("{s:i, s:i, s:I, s:I, s:I, s:i, s:i, s:i, s:s, s:s}", "layers", (int)p->layers, "width",
                          (int)p->width, "preset_prefix", (json_int_t)p->preset_prefix, "preset_ctx",
                          (json_int_t)p->preset_ctx, "kv_bytes_per_token", (json_int_t)p->kv_bytes_per_token,
                          "layer_start", (int)p->layer_start, "layer_end", (int)p->layer_end, "stage_index",
                          (int)p->stage_index, "synth", p->synth, "read", p->read);
    if (a && b && json_object_update(a, b) == 0) {
        json_decref(b);
        return a;
    }
    json_decref(a);
    json_decref(b);
    return NULL;
}

static json_t *model_fields(const sk_family_input *in, const sk_family_cell *cell) {
    const sk_input_model *m = &in->models[cell->model];
    const sk_preset *p = cell->preset;
    const int32_t layers = layers_of(&m->found, p);
    return json_pack("{s:i, s:s, s:s, s:s, s:s, s:o, s:b, s:i, s:i, s:i, s:s, s:s, s:s, s:s, s:i, s:i}",
                     "schema_version", ROW_SCHEMA, "key", p->key, "family", p->label, "model_id", p->model_id,
                     "model_path", m->found.runtime_entry[0] ? m->found.runtime_entry : m->found.requested,
                     "model_files", files_json(&m->found), "synthetic", m->found.synthetic, "layers", (int)layers,
                     "layers_real", (int)p->layers, "width", (int)(m->found.width > 0 ? m->found.width : p->width),
                     "quant", m->found.quant, "payload", p->payload, "kind", sk_cell_kind_name(cell->kind),
                     "stage_load_mode", is_package(cell) ? "layer-package" : "runtime-slice", "state_layer_start",
                     is_package(cell) ? (int)p->layer_start : 0, "state_layer_end",
                     is_package(cell) ? (int)p->layer_end : (int)layers);
}

/* ---- the work ---- */

static json_t *text_or_null(const char *text) {
    return text && *text ? json_string(text) : json_null();
}

static json_t *source_json(const sk_use_case *u) {
    if (!u) {
        return json_null();
    }
    return json_pack("{s:o, s:o, s:o, s:I, s:b}", "dataset", text_or_null(u->dataset), "config",
                     text_or_null(u->config), "split", text_or_null(u->split), "row_idx", (json_int_t)u->row_idx,
                     "written", u->written);
}

static json_t *work_fields(const sk_corpus *corpus, const sk_family_cell *cell) {
    const bool asked = cell->kind == SK_CELL_USE_CASE;
    const sk_use_case *u = asked && corpus ? sk_corpus_find(corpus, cell->use_case) : NULL;
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:s}", "prefix_tokens", (json_int_t)cell->prefix_tokens,
                     "benchmark_prompt_token_count", (json_int_t)cell->prefix_tokens + 1, "case",
                     case_json(cell->preset), "use_case", asked ? json_string(cell->use_case) : json_null(),
                     "use_case_label", asked ? json_string(u && u->label ? u->label : cell->use_case) : json_null(),
                     "use_case_source", source_json(u), "read", cell->preset->read);
}

/* ---- the outcome ---- */

sk_cell_storage sk_cell_storage_of(const sk_family_input *in, const sk_family_cell *cell, const sk_correctness *c) {
    const sk_preset *p = cell->preset;
    const int32_t layers =
        is_package(cell) ? p->layer_end - p->layer_start : layers_of(&in->models[cell->model].found, p);
    if (c && c->storage_bytes > 0 && c->prompt_tokens == cell->prefix_tokens) {
        return (sk_cell_storage){c->storage_bytes, "measured"};
    }
    if (p->kv_bytes_per_token == 0 || p->layers <= 0) {
        return (sk_cell_storage){0, "n/a"};
    }
    /* 20, 17 and at most 17 bits */
    const uint64_t bytes = p->kv_bytes_per_token * cell->prefix_tokens * (uint64_t)layers / (uint64_t)p->layers;
    return (sk_cell_storage){bytes, "metadata-derived"};
}

static json_t *skippy_json(const sk_family_input *in, const sk_family_cell *cell, const sk_cell_outcome *o) {
    const sk_correctness *c = o->correctness;
    const sk_cell_storage storage = sk_cell_storage_of(in, cell, c);
    const bool judged = c && (strcmp(c->status, "pass") == 0 || strcmp(c->status, "fail") == 0);
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:I, s:s, s:o}", "status", o->skippy->status, "why",
                     o->skippy->why, "verdict", judged ? c->why : "", "runner_elapsed_ms", c ? c->elapsed_ms : 0.0,
                     "recompute_total_ms", c ? c->recompute_total_ms : 0.0, "cache_hit_total_ms",
                     c ? c->cache_hit_total_ms : 0.0, "storage_bytes", (json_int_t)storage.bytes, "storage_method",
                     storage.method, "report", c ? json_string("cache-correctness-stage.json") : json_null());
}

static json_t *outcome_fields(const sk_family_input *in, const sk_family_cell *cell, const sk_cell_outcome *o) {
    return json_pack("{s:o, s:{s:s, s:s}, s:o, s:o, s:o, s:n}", "skippy", skippy_json(in, cell, o), "llama_server",
                     "status", o->llama->status, "why", o->llama->why, "hosts",
                     o->hosts ? json_incref(o->hosts) : json_array(), "parts",
                     o->parts ? json_incref(o->parts) : json_object(), "notes",
                     o->notes ? json_incref(o->notes) : json_array(), "promotion");
}

json_t *sk_cell_row(const sk_family_input *in, const sk_corpus *corpus, const sk_family_cell *cell,
                    const sk_cell_outcome *o) {
    json_t *row = model_fields(in, cell);
    json_t *work = work_fields(corpus, cell);
    json_t *outcome = outcome_fields(in, cell, o);
    /* The fields come in the order of the format's description. */
    const bool whole =
        row && work && outcome && json_object_update(row, work) == 0 && json_object_update(row, outcome) == 0;
    json_decref(work);
    json_decref(outcome);
    if (!whole) {
        json_decref(row);
        return NULL;
    }
    return row;
}

json_t *sk_cell_row_without_run(const sk_family_input *in, const sk_family_cell *cell, const char *status,
                                const char *why) {
    sk_cell_status skippy = {{0}, {0}}, llama = {{0}, {0}};
    const bool missing = strcmp(status, "missing-model") == 0;
    sk_cell_status_worsen(&skippy, "", status, why);
    sk_cell_status_worsen(&llama, "", missing ? status : "skipped", why);
    const sk_cell_outcome o = {.skippy = &skippy, .llama = &llama};
    return sk_cell_row(in, NULL, cell, &o);
}
