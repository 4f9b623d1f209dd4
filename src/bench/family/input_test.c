/* cache-family-input.json says exactly what preparation decided, and its pins catch every change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/test_folder.h"
#include "bench/family/input.h"
#include "bench/family/input_parts.h"

static sk_err err;
static char folder[64];

/* ---- an input with something in every field ---- */

static uint64_t chance;

static uint32_t random_below(uint32_t n) {
    chance = chance * 6364136223846793005u + 1442695040888963407u;
    return n ? (uint32_t)(chance >> 33) % n : 0;
}

static bool random_bool(void) {
    return random_below(2) == 1;
}

/* "BEGINNING" and some letters, some of them not of one byte. */
static void random_text(const char *beginning, char *out, size_t cap) {
    static const char *const letters[] = {"a", "Z", "0", "_", " ", "\"", "\\", "é", "模", "%", "/"};
    size_t used = (size_t)snprintf(out, cap, "%s", beginning);
    for (uint32_t n = 1 + random_below(20); n > 0 && used + 8 < cap; n--)
        used += (size_t)snprintf(out + used, cap - used, "%s", letters[random_below(sizeof letters / sizeof *letters)]);
}

static void random_hex(char out[SK_SHA256_HEX]) {
    for (size_t i = 0; i + 1 < SK_SHA256_HEX; i++) out[i] = "0123456789abcdef"[random_below(16)];
    out[SK_SHA256_HEX - 1] = '\0';
}

static void random_pin(sk_pinned_file *f) {
    random_text("/bin/", f->path, sizeof f->path);
    random_hex(f->sha256);
    f->bytes = ((uint64_t)random_below(1u << 30) << 20) + random_below(9);
}

static void random_sizes(sk_family_sizes *s) {
    sk_family_sizes zero = {0};
    *s = zero;
    s->seed = ((uint64_t)random_below(1u << 30) << 32) + random_below(1u << 30);
    s->n_gpu_layers = (int32_t)random_below(99) - 1;
    s->prefix_tokens = 1 + random_below(65536);
    s->suffix_tokens = 1 + random_below(65536);
    s->history_tokens = 1 + random_below(65536);
    s->edit_tokens = 1 + random_below(65536);
    s->restart_tokens = 1 + random_below(65536);
    s->cache_hit_repeats = 1 + random_below(1024);
    s->llama_repeats = 1 + random_below(1024);
    s->conversation_repeats = 1 + random_below(1024);
    s->restart_repeats = 1 + random_below(100);
    s->lanes = 1 + random_below(64);
    s->parallel = 1 + random_below(64);
    s->threads = random_below(1025);
    s->ctx = random_below(1u << 20);
    s->concurrent_requests = 1 + random_below(65536);
    s->concurrent_output_tokens = 1 + random_below(65536);
    s->ttft_slo_ms = 1 + random_below(3600000);
    s->tpot_slo_ms = 1 + random_below(3600000);
    s->request_timeout_ms = 1000 + random_below(1000);
    s->rest_ms = random_below(10001);
    s->n_concurrency = random_below(SK_FAMILY_MAX_LEVELS + 1);
    s->n_sweep = random_below(SK_FAMILY_MAX_SWEEP + 1);
    for (size_t i = 0; i < s->n_concurrency; i++) s->concurrency[i] = 1 + (uint32_t)i * 30 + random_below(30);
    for (size_t i = 0; i < s->n_sweep; i++) s->sweep[i] = 1 + (uint32_t)i * 2000 + random_below(2000);
}

static void random_model(const sk_preset *preset, sk_input_model *m) {
    sk_found_model *f = &m->found;
    m->preset = preset;
    f->status = (sk_found_status)random_below(3);
    f->kind = sk_input_model_kinds[random_below(3)];
    random_text("/models/", f->requested, sizeof f->requested);
    if (f->status != SK_FOUND_PRESENT) {
        random_text("because ", f->why, sizeof f->why);
        return;
    }
    random_text("/models/", f->runtime_entry, sizeof f->runtime_entry);
    f->n_files = 1 + random_below(SK_PRESET_MAX_SHARDS);
    for (size_t i = 0; i < f->n_files; i++) {
        random_text("/blobs/", f->file[i].path, sizeof f->file[i].path);
        random_hex(f->file[i].sha256);
        f->file[i].bytes = random_below(1u << 30);
    }
    random_text("arch", f->arch, sizeof f->arch);
    random_text("Q", f->quant, sizeof f->quant);
    f->layers = (int32_t)random_below(99);
    f->width = (int32_t)random_below(9999);
    f->synthetic = random_bool();
}

static void random_cell(const sk_family_input *in, size_t number, sk_family_cell *c) {
    c->model = random_below((uint32_t)in->n_models);
    c->preset = in->models[c->model].preset;
    c->kind = (sk_cell_kind)random_below(4);
    c->prefix_tokens = 1 + random_below(65536);
    if (c->kind == SK_CELL_USE_CASE) snprintf(c->use_case, sizeof c->use_case, "use_%u", random_below(99));
    snprintf(c->output_relative, sizeof c->output_relative, "f%u/%s.%zu-p%u", random_below(9), c->preset->key, number,
             c->prefix_tokens);
    c->tasks = (sk_cell_tasks){random_bool(), random_bool(), random_bool(), random_bool(),
                               random_bool(), random_bool(), random_bool(), random_bool()};
}

static void random_programs(sk_family_input *in) {
    random_pin(&in->correctness);
    random_pin(&in->stage_server);
    if (random_bool()) random_pin(&in->native_server);
    if (random_bool()) random_pin(&in->artifact_tool);
    if (random_bool()) random_pin(&in->old_server);
    if (random_bool()) random_pin(&in->new_server);
    if (random_bool()) random_pin(&in->corpus);
    if (random_bool()) random_pin(&in->agent_corpus);
}

static void random_folders(sk_family_input *in) {
    in->n_toolkits = random_below(SK_INPUT_MAX_TOOLKITS + 1);
    for (size_t i = 0; i <= in->n_toolkits; i++) {
        sk_pinned_tree *t = i < in->n_toolkits ? &in->toolkit[i] : &in->native_build;
        snprintf(t->name, sizeof t->name, "tree%zu", i);
        random_text("/kit/", t->path, sizeof t->path);
        random_hex(t->sha256);
    }
}

static sk_family_input *random_input(uint64_t seed) {
    sk_family_input *in = calloc(1, sizeof *in);
    assert_non_null(in);
    chance = seed;
    snprintf(in->kind, sizeof in->kind, "%s", random_bool() ? "full" : "use-cases");
    random_hex(in->operator_sha256);
    sk_catalog_digest(in->catalog_sha256);
    random_programs(in);
    random_folders(in);
    in->n_env = random_below(SK_INPUT_MAX_ENV + 1);
    for (size_t i = 0; i < in->n_env; i++) {
        char pair[64], value[32];
        random_text("", value, sizeof value);
        snprintf(pair, sizeof pair, "GGML_X%zu=%s", i, random_bool() ? value : "");
        in->env[i] = strdup(pair);
    }
    if (random_bool()) random_hex(in->old_commit);
    if (random_bool()) snprintf(in->new_commit, sizeof in->new_commit, "%040d", 7);
    in->execution_seconds = 1 + random_below(86400);
    in->cell_seconds = 1 + random_below(3600);
    in->borrow_resident_hits = random_bool();
    in->cache_decoded_result_hits = random_bool();
    random_sizes(&in->sizes);
    in->n_models = 1 + random_below(SK_PRESETS);
    for (size_t i = 0; i < in->n_models; i++) random_model(sk_preset_at(i), &in->models[i]);
    in->n_cells = 1 + random_below(40);
    in->cells = calloc(in->n_cells, sizeof *in->cells);
    assert_non_null(in->cells);
    for (size_t i = 0; i < in->n_cells; i++) random_cell(in, i, &in->cells[i]);
    return in;
}

/* ---- comparing ---- */

static void assert_same_pin(const sk_pinned_file *a, const sk_pinned_file *b) {
    assert_string_equal(a->path, b->path);
    assert_string_equal(a->sha256, b->sha256);
    assert_true(a->bytes == b->bytes);
}

static void assert_same_tree(const sk_pinned_tree *a, const sk_pinned_tree *b) {
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->path, b->path);
    assert_string_equal(a->sha256, b->sha256);
}

static void assert_same_model(const sk_input_model *a, const sk_input_model *b) {
    assert_ptr_equal(a->preset, b->preset);
    assert_int_equal(a->found.status, b->found.status);
    assert_string_equal(a->found.why, b->found.why);
    assert_string_equal(a->found.requested, b->found.requested);
    assert_string_equal(a->found.runtime_entry, b->found.runtime_entry);
    assert_string_equal(a->found.kind, b->found.kind);
    assert_int_equal(a->found.n_files, b->found.n_files);
    assert_memory_equal(a->found.file, b->found.file, sizeof a->found.file);
    assert_string_equal(a->found.arch, b->found.arch);
    assert_string_equal(a->found.quant, b->found.quant);
    assert_int_equal(a->found.layers, b->found.layers);
    assert_int_equal(a->found.width, b->found.width);
    assert_int_equal(a->found.synthetic, b->found.synthetic);
}

static void assert_same_cell(const sk_family_cell *a, const sk_family_cell *b) {
    assert_ptr_equal(a->preset, b->preset);
    assert_int_equal(a->kind, b->kind);
    assert_string_equal(a->use_case, b->use_case);
    assert_int_equal(a->prefix_tokens, b->prefix_tokens);
    assert_string_equal(a->output_relative, b->output_relative);
    assert_int_equal(a->model, b->model);
    assert_memory_equal(&a->tasks, &b->tasks, sizeof a->tasks);
}

static void assert_same_input(const sk_family_input *a, const sk_family_input *b) {
    assert_string_equal(a->kind, b->kind);
    assert_string_equal(a->operator_sha256, b->operator_sha256);
    assert_string_equal(a->catalog_sha256, b->catalog_sha256);
    for (const sk_input_field *f = sk_input_programs; f->name; f++)
        assert_same_pin((const sk_pinned_file *)(const void *)((const char *)a + f->offset),
                        (const sk_pinned_file *)(const void *)((const char *)b + f->offset));
    assert_same_tree(&a->native_build, &b->native_build);
    assert_int_equal(a->n_toolkits, b->n_toolkits);
    for (size_t i = 0; i < a->n_toolkits; i++) assert_same_tree(&a->toolkit[i], &b->toolkit[i]);
    assert_int_equal(a->n_env, b->n_env);
    for (size_t i = 0; i < a->n_env; i++) assert_string_equal(a->env[i], b->env[i]);
    assert_string_equal(a->old_commit, b->old_commit);
    assert_string_equal(a->new_commit, b->new_commit);
    assert_string_equal(a->native_commit, b->native_commit);
    assert_same_pin(&a->corpus, &b->corpus);
    assert_same_pin(&a->agent_corpus, &b->agent_corpus);
    assert_int_equal(a->execution_seconds, b->execution_seconds);
    assert_int_equal(a->cell_seconds, b->cell_seconds);
    assert_int_equal(a->borrow_resident_hits, b->borrow_resident_hits);
    assert_int_equal(a->cache_decoded_result_hits, b->cache_decoded_result_hits);
    assert_memory_equal(&a->sizes, &b->sizes, sizeof a->sizes);
    assert_int_equal(a->n_models, b->n_models);
    for (size_t i = 0; i < a->n_models; i++) assert_same_model(&a->models[i], &b->models[i]);
    assert_int_equal(a->n_cells, b->n_cells);
    for (size_t i = 0; i < a->n_cells; i++) assert_same_cell(&a->cells[i], &b->cells[i]);
}

static void what_is_written_is_read_back(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        char path[128];
        sk_family_input *in = random_input(seed), *again = NULL;
        json_t *json = sk_family_input_json(in);
        assert_non_null(json);
        snprintf(path, sizeof path, "%s/input.json", folder);
        assert_int_equal(json_dump_file(json, path, 0), 0);
        if (sk_family_input_load(path, &again, &err) != SKIPPY_OK) fail_msg("seed %d: %s", (int)seed, err.text);
        assert_same_input(in, again);
        json_decref(json);
        sk_family_input_free(in);
        sk_family_input_free(again);
    }
}

/* ---- refusals ---- */

static json_t *small_input(void) {
    sk_family_input *in = random_input(3);
    in->n_models = 2;
    for (size_t i = 0; i < 2; i++) {
        in->models[i].found = (sk_found_model){.status = SK_FOUND_MISSING, .kind = sk_input_model_kinds[0]};
    }
    in->n_cells = 1;
    in->cells[0] = (sk_family_cell){
        .preset = in->models[0].preset, .kind = SK_CELL_FULL, .prefix_tokens = 8, .output_relative = "full/a-p8"};
    json_t *json = sk_family_input_json(in);
    assert_non_null(json);
    sk_family_input_free(in);
    return json;
}

/* Merges the text into the place in the document: place is NULL for the root, or a field, or models[0], cells[0]. */
static int parse_with(const char *place, const char *fields) {
    json_t *root = small_input(), *change = json_loads(fields, 0, NULL), *at = root;
    sk_family_input *in = NULL;
    assert_non_null(change);
    if (place) at = json_object_get(root, place);
    if (json_is_array(at)) at = json_array_get(at, 0);
    json_object_update(at, change);
    memset(&err, 0, sizeof err);
    const int rc = sk_family_input_parse(root, &in, &err);
    assert_true((rc == SKIPPY_OK) == (in != NULL));
    sk_family_input_free(in);
    json_decref(change);
    json_decref(root);
    return rc;
}

static void what_does_not_fit_together_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *place, *fields, *beginning;
    } v[] = {
        {NULL, "{\"x\":1}", "the document: there is no field 'x'"},
        {NULL, "{\"schema_version\":2}", "schema_version: 2 is not known here"},
        {NULL, "{\"kind\":\"half\"}", "kind: 'half'"},
        {NULL, "{\"catalog_sha256\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}",
         "catalog_sha256: it was made with another table"},
        {NULL, "{\"operator_sha256\":\"x\"}", "operator_sha256: 'x' is no SHA-256"},
        {NULL, "{\"models\":[]}", "models: has 0 elements"},
        {NULL, "{\"cells\":[]}", "cells: has 0 elements"},
        {NULL, "{\"sizes\":{}}", "sizes.prefix_tokens: is missing"},
        {NULL, "{\"environment\":{\"HF_TOKEN\":\"x\"}}", "environment.HF_TOKEN: "},
        {NULL, "{\"environment\":[]}", "environment: must be an object"},
        {"sizes", "{\"runtime_lane_count\":0}", "sizes.runtime_lane_count: 0 is out of bounds"},
        {"sizes", "{\"x\":1}", "sizes: there is no field 'x'"},
        {"programs", "{\"correctness\":null}", "programs: correctness and stage_server are needed"},
        {"programs", "{\"x\":null}", "programs: there is no field 'x'"},
        {"native_build", "{\"path\":\"x\"}", "native_build.path: 'x' is no absolute path"},
        {"source_commits", "{\"old\":\"main\"}", "source_commits.old: 'main' is no commit"},
        {"models", "{\"key\":\"gpt\"}", "models[0].key: there is no case 'gpt'"},
        {"models", "{\"key\":\"falcon_h1\"}", "models[1]: the case is there twice"},
        {"models", "{\"status\":\"good\"}", "models[0].status: 'good'"},
        {"models", "{\"kind\":\"zip\"}", "models[0].kind: 'zip'"},
        {"models", "{\"status\":\"present-unqualified\"}", "models[0].files: a model that is present has files"},
        {"cells", "{\"model\":1}", "cells[0].model: models[1] is another case's"},
        {"cells", "{\"model\":2}", "cells[0].model: 2 is out of bounds: 0 to 1"},
        {"cells", "{\"model\":-1}", "cells[0].model: "},
        {"cells", "{\"kind\":\"x\"}", "cells[0].kind: 'x'"},
        {"cells", "{\"kind\":\"use-case\"}", "cells[0].use_case: must be there"},
        {"cells", "{\"use_case\":\"a\"}", "cells[0].use_case: must be there"},
        {"cells", "{\"prefix_tokens\":0}", "cells[0].prefix_tokens: "},
        {"cells", "{\"output_relative\":\"../x\"}", "cells[0].output_relative: '../x' is no plain path"},
        {"cells", "{\"output_relative\":\"a/../x\"}", "cells[0].output_relative: "},
        {"cells", "{\"output_relative\":\"/x\"}", "cells[0].output_relative: "},
        {"cells", "{\"output_relative\":\"a//x\"}", "cells[0].output_relative: "},
        {"cells", "{\"output_relative\":\"a/\"}", "cells[0].output_relative: "},
        {"cells", "{\"output_relative\":\"a b\"}", "cells[0].output_relative: "},
        {"cells", "{\"tasks\":{}}", "cells[0].tasks.correctness: is missing"},
        {"cells", "{\"x\":1}", "cells[0]: there is no field 'x'"},
    };
    assert_int_equal(parse_with(NULL, "{}"), SKIPPY_OK);
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        const int rc = parse_with(v[i].place, v[i].fields);
        if (rc != SKIPPY_E_INVALID || strncmp(err.text, v[i].beginning, strlen(v[i].beginning)) != 0)
            fail_msg("%s gave %d '%s' instead of '%s...'", v[i].fields, rc, err.text, v[i].beginning);
    }
}

static void cells_that_would_share_a_folder_are_refused(void **state) {
    (void)state;
    static const char *const other[] = {"full/a-p8", "full/a-p8/x", "full"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        json_t *root = small_input(), *cells = json_object_get(root, "cells");
        sk_family_input *in = NULL;
        json_array_append_new(cells, json_deep_copy(json_array_get(cells, 0)));
        json_object_set_new(json_array_get(cells, 1), "output_relative", json_string(other[i]));
        assert_int_equal(sk_family_input_parse(root, &in, &err), SKIPPY_E_INVALID);
        assert_non_null(strstr(err.text, "two cells collide"));
        json_object_set_new(json_array_get(cells, 1), "output_relative", json_string("full/a-p80"));
        assert_int_equal(sk_family_input_parse(root, &in, &err), SKIPPY_OK);
        sk_family_input_free(in);
        json_decref(root);
    }
}

static void a_file_that_is_too_large_is_refused(void **state) {
    (void)state;
    char path[128];
    sk_family_input *in = NULL;
    snprintf(path, sizeof path, "%s/large.json", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(ftruncate(fileno(f), (off_t)SK_INPUT_MAX_BYTES + 1), 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(sk_family_input_load(path, &in, &err), SKIPPY_E_TOO_LARGE);
    assert_null(in);
    unlink(path);
    assert_int_equal(sk_family_input_load(path, &in, &err), SKIPPY_E_NOT_FOUND);
}

/* ---- pins ---- */

static void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void pin(const char *name, const char *text, char *path, size_t cap, char hex[SK_SHA256_HEX]) {
    snprintf(path, cap, "%s/%s", folder, name);
    write_text(path, text);
    assert_int_equal(sk_sha256_file(path, NULL, hex, NULL, &err), SKIPPY_OK);
}

/* Real files behind every kind of pin. */
static sk_family_input *pinned_input(void) {
    sk_family_input *in = calloc(1, sizeof *in);
    assert_non_null(in);
    char tree[80], inside[96];
    pin("correctness", "a", in->correctness.path, sizeof in->correctness.path, in->correctness.sha256);
    pin("stage", "b", in->stage_server.path, sizeof in->stage_server.path, in->stage_server.sha256);
    pin("native", "c", in->native_server.path, sizeof in->native_server.path, in->native_server.sha256);
    pin("corpus", "d", in->corpus.path, sizeof in->corpus.path, in->corpus.sha256);
    pin("agent", "e", in->agent_corpus.path, sizeof in->agent_corpus.path, in->agent_corpus.sha256);
    for (size_t i = 0; i < 2; i++) {
        sk_pinned_tree *t = i == 0 ? &in->native_build : &in->toolkit[0];
        snprintf(tree, sizeof tree, "%s/tree%zu", folder, i);
        snprintf(inside, sizeof inside, "%s/lib.so", tree);
        mkdir(tree, 0755);
        write_text(inside, "lib");
        snprintf(t->name, sizeof t->name, "tree%zu", i);
        snprintf(t->path, sizeof t->path, "%s", tree);
        assert_int_equal(sk_sha256_tree(tree, NULL, t->sha256, NULL, &err), SKIPPY_OK);
    }
    in->n_toolkits = 1;
    in->n_models = 2;
    in->models[0] = (sk_input_model){.preset = sk_preset_at(0), .found = {.status = SK_FOUND_MISSING}};
    in->models[1] = (sk_input_model){.preset = sk_preset_at(1), .found = {.status = SK_FOUND_PRESENT, .n_files = 2}};
    pin("shard1", "f", in->models[1].found.file[0].path, 1024, in->models[1].found.file[0].sha256);
    pin("shard2", "g", in->models[1].found.file[1].path, 1024, in->models[1].found.file[1].sha256);
    return in;
}

static void unchanged_files_are_verified(void **state) {
    (void)state;
    sk_family_input *in = pinned_input();
    if (sk_family_input_verify(in, NULL, &err) != SKIPPY_OK) fail_msg("%s", err.text);
    sk_family_input_free(in);
}

static void the_first_changed_file_is_named_with_both_digests(void **state) {
    (void)state;
    static const char *const names[] = {"correctness", "stage", "native", "tree0/lib.so", "tree1/lib.so",
                                        "corpus",      "agent", "shard1", "shard2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        sk_family_input *in = pinned_input();
        char path[128], part[128], now[SK_SHA256_HEX];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        write_text(path, "changed");
        assert_int_equal(sk_family_input_verify(in, NULL, &err), SKIPPY_E_CORRUPT);
        snprintf(part, sizeof part, "%.*s", (int)strcspn(names[i], "/"), names[i]);
        assert_non_null(strstr(err.text, part));
        assert_int_equal(sk_sha256_file(path, NULL, now, NULL, &err), SKIPPY_OK);
        assert_int_equal(sk_family_input_verify(in, NULL, &err), SKIPPY_E_CORRUPT);
        if (!strchr(names[i], '/')) assert_non_null(strstr(err.text, now));
        sk_family_input_free(in);
    }
}

static void a_file_that_is_gone_is_named(void **state) {
    (void)state;
    sk_family_input *in = pinned_input();
    unlink(in->models[1].found.file[1].path);
    assert_int_equal(sk_family_input_verify(in, NULL, &err), SKIPPY_E_NOT_FOUND);
    assert_non_null(strstr(err.text, "shard2"));
    sk_family_input_free(in);
}

static int stop_at_once(void *ud, uint64_t bytes) {
    (void)ud;
    (void)bytes;
    return 0;
}

static void verification_can_be_stopped(void **state) {
    (void)state;
    const sk_sha256_watch w = {.keep_going = stop_at_once};
    sk_family_input *in = pinned_input();
    assert_int_equal(sk_family_input_verify(in, &w, &err), SKIPPY_E_CANCELLED);
    sk_family_input_free(in);
}

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "family-input-test-%d", (int)getpid());
    return mkdir(folder, 0755);
}

static int remove_folder(void **state) {
    (void)state;
    return test_remove_tree(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(what_does_not_fit_together_is_refused),
        cmocka_unit_test(cells_that_would_share_a_folder_are_refused),
        cmocka_unit_test(a_file_that_is_too_large_is_refused),
        cmocka_unit_test(unchanged_files_are_verified),
        cmocka_unit_test(the_first_changed_file_is_named_with_both_digests),
        cmocka_unit_test(a_file_that_is_gone_is_named),
        cmocka_unit_test(verification_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
