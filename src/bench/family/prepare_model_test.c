/* Models that are there are pinned, and a model with other bytes than the request's is refused. */
#include <limits.h>
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

#include "base/buf.h"
#include "base/test_folder.h"
#include "bench/family/prepare.h"
#include "bench/family/strict.h"
#include "bench/report.h"
#include "runtime/test_models.h"

enum { MAX_MODEL_BYTES = 64 << 20 };

static sk_err err;
static char folder[PATH_MAX]; /* absolute */

static const char *at(const char *name) {
    static char paths[32][PATH_MAX + 64]; /* one call of a test uses fewer */
    static size_t next;
    char *path = paths[next++ % 32];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void copy(const char *from, const char *to) {
    sk_buf bytes = {0};
    assert_int_equal(sk_strict_read(from, MAX_MODEL_BYTES, &bytes, &err), SKIPPY_OK);
    assert_int_equal(sk_report_write_file(to, bytes.data, bytes.len, &err), SKIPPY_OK);
    sk_buf_free(&bytes);
}

/* Copies: what resolves outside of the cache root is refused. */
static int set_up(void **state) {
    (void)state;
    char here[PATH_MAX];
    const char *model = test_model_path("llama");
    if (!model) return 0;
    assert_non_null(getcwd(here, sizeof here));
    snprintf(folder, sizeof folder, "%.3000s/family-prepare-model-test-%d", here, (int)getpid());
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(mkdir(at("models"), 0755), 0);
    assert_int_equal(mkdir(at("build"), 0755), 0);
    copy(model, at("models/llama.gguf"));
    assert_int_equal(sk_report_write_file(at("skippy"), "program", 7, &err), SKIPPY_OK);
    assert_int_equal(chmod(at("skippy"), 0755), 0);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return folder[0] ? test_remove_tree(folder) : 0;
}

/* A full preparation of the family "llama"; pin may be NULL. */
static int prepare(const char *pin) {
    json_t *plan = json_pack("{s:s, s:[s]}", "cache_root", at("models"), "cases", "llama");
    json_t *root = json_pack("{s:i, s:o, s:s, s:s, s:s}", "schema_version", 1, "plan", plan, "correctness",
                             at("skippy"), "stage_server", at("skippy"), "native_build", at("build"));
    if (pin) json_object_set_new(plan, "model_sha256", json_pack("{s:s}", "llama", pin));
    assert_int_equal(json_dump_file(root, at("operator.json"), 0), 0);
    json_decref(root);
    const sk_prepare_options o = {.operator_path = at("operator.json"), .out_dir = at("out")};
    return sk_prepare_run(&o, &err);
}

static void a_model_is_pinned_with_its_facts(void **state) {
    (void)state;
    char hex[SK_SHA256_HEX];
    uint64_t bytes = 0;
    sk_family_input *in = NULL;
    if (!folder[0]) skip();
    assert_int_equal(sk_sha256_file(at("models/llama.gguf"), NULL, hex, &bytes, &err), SKIPPY_OK);
    if (prepare(hex) != SKIPPY_OK) fail_msg("%s", err.text);
    if (sk_family_input_load(at("out/cache-family-input.json"), &in, &err) != SKIPPY_OK) fail_msg("%s", err.text);
    const sk_found_model *m = &in->models[0].found;
    assert_int_equal(m->status, SK_FOUND_PRESENT);
    assert_string_equal(m->runtime_entry, at("models/llama.gguf"));
    assert_int_equal(m->n_files, 1);
    assert_string_equal(m->file[0].sha256, hex);
    assert_true(m->file[0].bytes == bytes);
    assert_string_equal(m->arch, "llama");
    assert_true(m->layers > 0);
    assert_true(m->synthetic);
    assert_int_equal(sk_family_input_verify(in, NULL, &err), SKIPPY_OK);
    assert_int_equal(truncate(at("models/llama.gguf"), (off_t)bytes - 1), 0);
    assert_int_equal(sk_family_input_verify(in, NULL, &err), SKIPPY_E_CORRUPT);
    assert_non_null(strstr(err.text, "Llama has changed"));
    sk_family_input_free(in);
}

static void a_model_with_other_bytes_is_refused(void **state) {
    (void)state;
    if (!folder[0]) skip();
    assert_int_equal(prepare("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), SKIPPY_E_CORRUPT);
    assert_non_null(strstr(err.text, "llama: the request pins SHA-256 aaaa"));
    assert_int_not_equal(access(at("out/cache-family-input.json"), F_OK), 0);
}

static void what_is_no_model_is_recorded_as_refused(void **state) {
    (void)state;
    sk_family_input *in = NULL;
    if (!folder[0]) skip();
    assert_int_equal(sk_report_write_file(at("models/llama.gguf"), "no model", 8, &err), SKIPPY_OK);
    if (prepare(NULL) != SKIPPY_OK) fail_msg("%s", err.text);
    if (sk_family_input_load(at("out/cache-family-input.json"), &in, &err) != SKIPPY_OK) fail_msg("%s", err.text);
    assert_int_equal(in->models[0].found.status, SK_FOUND_REFUSED);
    assert_true(in->models[0].found.why[0] != '\0');
    assert_int_equal(in->n_cells, 1); /* a row says so */
    sk_family_input_free(in);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_model_is_pinned_with_its_facts),
        TEST(a_model_with_other_bytes_is_refused),
        TEST(what_is_no_model_is_recorded_as_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
