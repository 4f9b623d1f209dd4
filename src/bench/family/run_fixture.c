#include "bench/family/run_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/test_folder.h"
#include "bench/family/fake_server.h"
#include "bench/family/run.h"

enum { MOST_CELLS = 8, PATH_CHARS = 1100 };

static void path_of(const sk_run_fixture *f, const char *name, char path[PATH_CHARS]) {
    snprintf(path, PATH_CHARS, "%s%s%s", *name == '/' ? "" : f->folder, *name == '/' ? "" : "/", name);
}

static void write_text(const char *path, const char *text) {
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fputs(text, out) >= 0, 1);
    assert_int_equal(fclose(out), 0);
}

void run_fixture_file(const sk_run_fixture *f, const char *name, const char *text) {
    char path[PATH_CHARS];
    path_of(f, name, path);
    write_text(path, text);
}

void run_fixture_script(const sk_run_fixture *f, const char *name, const char *body) {
    char path[PATH_CHARS];
    path_of(f, name, path);
    unlink(path); /* its pin is by content, but a running script must not change under a shell */
    write_text(path, body);
    assert_int_equal(chmod(path, 0755), 0);
}

void run_fixture_pin(const sk_run_fixture *f, const char *name, sk_pinned_file *pin) {
    char path[PATH_CHARS];
    sk_err e = {0};
    path_of(f, name, path);
    snprintf(pin->path, sizeof pin->path, "%.1000s", path);
    if (sk_sha256_file(path, NULL, pin->sha256, &pin->bytes, &e) != SKIPPY_OK) fail_msg("%s", e.text);
}

/* ---- programs ---- */

#define MODE(name)                                                                                                     \
    "{\"mode\":\"" name "\",\"outcome\":\"pass\",\"targets\":[{\"target\":\"fresh-lane\","                             \
    "\"import_ms\":[9.0,2.0,4.0],\"decode_ms\":[9.0,5.0,5.0]}],\"economics\":{\"cache_storage_bytes\":4096}}"

char *run_fixture_certificate(const char *status) {
    char *text = NULL;
    const int n = asprintf(&text,
                           "[{\"format\":1,\"status\":\"%s\",\"verdict\":\"the script says %s\",\"lengths\":[{"
                           "\"prompt_token_count\":128,\"source_prefill_ms\":70.0,\"source_decode_ms\":10.0,"
                           "\"modes\":[" MODE("resident-kv") "," MODE("kv-recurrent") "]}]}]",
                           status, status);
    assert_true(n > 0);
    return text;
}

/* Finds the word behind --report-out and writes the certificate there. */
static void make_correctness(const sk_run_fixture *f) {
    char *certificate = run_fixture_certificate("pass"), *body = NULL;
    assert_true(asprintf(&body,
                         "#!/bin/sh\n"
                         "while [ \"$1\" != --report-out ]; do shift; done\n"
                         "echo certified; echo progress >&2\n"
                         "cat >\"$2\" <<'END'\n%s\nEND\n",
                         certificate) > 0);
    run_fixture_script(f, "correctness", body);
    free(certificate);
    free(body);
}

static void make_server(const sk_run_fixture *f) {
    char program[PATH_CHARS], *body = NULL;
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    assert_true(n > 0);
    program[n] = '\0';
    assert_true(asprintf(&body, "#!/bin/sh\nexec '%s' " FAKE_SERVER_COMMAND " \"$@\" --disk 0\n", program) > 0);
    run_fixture_script(f, "server", body);
    free(body);
}

/* ---- the input ---- */

static void make_sizes(sk_family_sizes *s) {
    *s = (sk_family_sizes){.seed = 1,
                           .prefix_tokens = 128,
                           .suffix_tokens = 4,
                           .history_tokens = 120,
                           .edit_tokens = 16,
                           .restart_tokens = 40,
                           .cache_hit_repeats = 3,
                           .llama_repeats = 3,
                           .conversation_repeats = 2,
                           .restart_repeats = 1,
                           .lanes = 1,
                           .parallel = 1,
                           .threads = 1,
                           .concurrent_requests = 1,
                           .concurrent_output_tokens = 2,
                           .ttft_slo_ms = 2000,
                           .tpot_slo_ms = 100,
                           .request_timeout_ms = 60000};
}

static void make_build(const sk_run_fixture *f) {
    sk_pinned_tree *t = &f->in->native_build;
    sk_err e = {0};
    char path[PATH_CHARS];
    path_of(f, "build", path);
    assert_int_equal(mkdir(path, 0755), 0);
    run_fixture_file(f, "build/library", "bytes");
    snprintf(t->name, sizeof t->name, "native_build");
    snprintf(t->path, sizeof t->path, "%.1000s", path);
    if (sk_sha256_tree(path, NULL, t->sha256, NULL, &e) != SKIPPY_OK) fail_msg("%s", e.text);
}

void run_fixture_make(sk_run_fixture *f) {
    char name[] = "family-run-test-XXXXXX", *absolute = NULL;
    *f = (sk_run_fixture){0};
    assert_non_null(mkdtemp(name));
    absolute = realpath(name, NULL);
    assert_non_null(absolute);
    assert_true((size_t)snprintf(f->folder, sizeof f->folder, "%s", absolute) < sizeof f->folder);
    free(absolute);
    snprintf(f->input_path, sizeof f->input_path, "%s/input.json", f->folder);
    snprintf(f->out_dir, sizeof f->out_dir, "%s/out", f->folder);
    f->in = calloc(1, sizeof *f->in);
    assert_non_null(f->in);
    f->in->cells = calloc(MOST_CELLS, sizeof *f->in->cells);
    assert_non_null(f->in->cells);
    snprintf(f->in->kind, sizeof f->in->kind, "full");
    memset(f->in->operator_sha256, 'a', SK_SHA256_HEX - 1);
    sk_catalog_digest(f->in->catalog_sha256);
    f->in->execution_seconds = 3600;
    f->in->cell_seconds = 600;
    make_sizes(&f->in->sizes);
    make_build(f);
    make_correctness(f);
    make_server(f);
    run_fixture_pin(f, "correctness", &f->in->correctness);
    run_fixture_pin(f, "server", &f->in->stage_server);
    run_fixture_pin(f, "server", &f->in->native_server);
}

void run_fixture_free(sk_run_fixture *f) {
    assert_int_equal(test_remove_tree(f->folder), 0);
    sk_family_input_free(f->in);
    f->in = NULL;
}

static size_t add_model(sk_run_fixture *f, const char *key) {
    sk_input_model *m = &f->in->models[f->in->n_models];
    m->preset = sk_preset_find(key);
    assert_non_null(m->preset);
    m->found.kind = m->preset->artifact == SK_ARTIFACT_PACKAGE ? "layer-package-tree" : "single-gguf";
    return f->in->n_models++;
}

size_t run_fixture_model_at(sk_run_fixture *f, const char *key, const char *path) {
    const size_t i = add_model(f, key);
    sk_found_model *found = &f->in->models[i].found;
    sk_pinned_file pin = {{0}, {0}, 0};
    run_fixture_pin(f, path, &pin);
    found->status = SK_FOUND_PRESENT;
    found->layers = 2;
    found->width = 64;
    found->synthetic = true;
    found->n_files = 1;
    found->file[0].bytes = pin.bytes;
    snprintf(found->requested, sizeof found->requested, "%s", pin.path);
    snprintf(found->runtime_entry, sizeof found->runtime_entry, "%s", pin.path);
    snprintf(found->file[0].path, sizeof found->file[0].path, "%s", pin.path);
    snprintf(found->file[0].sha256, sizeof found->file[0].sha256, "%s", pin.sha256);
    return i;
}

size_t run_fixture_model(sk_run_fixture *f, const char *key, const char *file_text) {
    char name[96], path[PATH_CHARS];
    snprintf(name, sizeof name, "%s.gguf", key);
    path_of(f, name, path);
    if (file_text) {
        run_fixture_file(f, name, file_text);
        return run_fixture_model_at(f, key, path);
    }
    const size_t i = add_model(f, key);
    sk_found_model *found = &f->in->models[i].found;
    found->status = SK_FOUND_MISSING;
    snprintf(found->why, sizeof found->why, "the test has no such file");
    snprintf(found->requested, sizeof found->requested, "%.1000s", path);
    return i;
}

sk_family_cell *run_fixture_cell(sk_run_fixture *f, size_t model, sk_cell_kind kind, uint32_t prefix,
                                 const char *folder_name) {
    assert_true(f->in->n_cells < MOST_CELLS);
    sk_family_cell *c = &f->in->cells[f->in->n_cells++];
    *c = (sk_family_cell){.preset = f->in->models[model].preset,
                          .kind = kind,
                          .prefix_tokens = prefix,
                          .model = model,
                          .tasks = {.correctness = true, .serial_baseline = true, .serial_skippy = true}};
    snprintf(c->output_relative, sizeof c->output_relative, "%s/%s-p%u", folder_name, c->preset->key, prefix);
    return c;
}

void run_fixture_save(const sk_run_fixture *f) {
    json_t *root = sk_family_input_json(f->in);
    assert_non_null(root);
    assert_int_equal(json_dump_file(root, f->input_path, JSON_INDENT(1)), 0);
    json_decref(root);
}

static void in_output(const sk_run_fixture *f, const char *name, char path[PATH_CHARS]) {
    snprintf(path, PATH_CHARS, "%s/%s", f->out_dir, name);
}

json_t *run_fixture_load(const sk_run_fixture *f, const char *name) {
    char path[PATH_CHARS];
    json_error_t why;
    in_output(f, name, path);
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    if (!root) fail_msg("%s: %s", path, why.text);
    return root;
}

bool run_fixture_has(const sk_run_fixture *f, const char *name) {
    char path[PATH_CHARS];
    in_output(f, name, path);
    return access(path, F_OK) == 0;
}

/* ---- runs and rows ---- */

int run_fixture_run(const sk_run_fixture *f, FILE *progress, sk_err *e) {
    const sk_family_run_options o = {
        .input_path = f->input_path, .out_dir = f->out_dir, .version = "1.2.3", .progress = progress};
    return sk_family_run(&o, e);
}

void run_fixture_two_cells(sk_run_fixture *f, bool restart) {
    const size_t m = run_fixture_model(f, "llama", "weights");
    run_fixture_cell(f, m, SK_CELL_FULL, 128, "full")->tasks.restart = restart;
    run_fixture_cell(f, m, SK_CELL_SWEEP, 64, "sweep");
    run_fixture_save(f);
}

const char *run_fixture_text(json_t *object, const char *a, const char *b) {
    const char *text = json_string_value(json_object_get(json_object_get(object, a), b));
    return text ? text : "";
}

size_t run_fixture_samples(json_t *row, const char *part, const char *series, const char *host) {
    json_t *record = json_object_get(json_object_get(row, "parts"), part);
    json_t *all = json_object_get(json_object_get(record, "series"), series);
    return json_array_size(json_object_get(json_object_get(all, host), "ms"));
}
