/* Preparation pins what it finds and writes its last file only when everything before it was right and in time. */
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
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
#include "bench/family/prepare.h"
#include "bench/family/request.h"
#include "bench/interrupt.h"

static sk_err err;
static char folder[PATH_MAX]; /* absolute */

/* ---- a request whose files are there ---- */

static const char *at(const char *name) {
    static char paths[32][PATH_MAX + 64]; /* one call of a test uses fewer */
    static size_t next;
    char *path = paths[next++ % 32];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_text(const char *name, const char *text) {
    FILE *f = fopen(at(name), "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void make_program(const char *name) {
    write_text(name, name);
    assert_int_equal(chmod(at(name), 0755), 0);
}

static void digest(const char *name, char hex[SK_SHA256_HEX]) {
    assert_int_equal(sk_sha256_file(at(name), NULL, hex, NULL, &err), SKIPPY_OK);
}

static const char CORPUS[] =
    "{\"version\":1,\"use_cases\":[{\"key\":\"chat\",\"label\":\"Chat\",\"prompt\":\"Hello there\",\"prefix_tokens\":8,"
    "\"source\":{\"dataset\":\"d\",\"config\":\"c\",\"split\":\"s\",\"row_idx\":1,\"written\":true}},"
    "{\"key\":\"tools\",\"label\":\"Tools\",\"prompt\":\"Use a tool\",\"prefix_tokens\":8,"
    "\"source\":{\"dataset\":\"d\",\"config\":\"c\",\"split\":\"s\",\"row_idx\":2,\"written\":true}}]}";

static const char CONVERSATIONS[] =
    "{\"version\":1,\"source\":{\"written\":true,\"note\":\"for a test\"},\"conversations\":[{\"key\":\"c\",\"label\":"
    "\"C\",\"what\":\"w\",\"steps\":[{\"do\":\"user\",\"text\":\"hi\"},{\"do\":\"ask\",\"max_tokens\":2}]}]}";

static int set_up(void **state) {
    (void)state;
    char here[PATH_MAX];
    assert_non_null(getcwd(here, sizeof here));
    assert_true((size_t)snprintf(folder, sizeof folder, "%s/family-prepare-test-%d", here, (int)getpid()) <
                sizeof folder - 64);
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(mkdir(at("models"), 0755), 0);
    assert_int_equal(mkdir(at("build"), 0755), 0);
    assert_int_equal(mkdir(at("kit"), 0755), 0);
    write_text("build/libllama.so", "code");
    write_text("kit/lib.so", "more code");
    make_program("skippy");
    make_program("llama-server");
    make_program("old");
    make_program("new");
    write_text("corpus.json", CORPUS);
    write_text("agent.json", CONVERSATIONS);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return test_remove_tree(folder);
}

static json_t *pin(const char *name) {
    char hex[SK_SHA256_HEX];
    digest(name, hex);
    return json_pack("{s:s, s:s}", "path", at(name), "sha256", hex);
}

static json_t *request(void) {
    json_t *plan =
        json_pack("{s:s, s:[s,s,s]}", "cache_root", at("models"), "cases", "llama", "qwen3next", "deepseek3");
    return json_pack("{s:i, s:o, s:s, s:s, s:s, s:s}", "schema_version", 1, "plan", plan, "correctness", at("skippy"),
                     "stage_server", at("skippy"), "native_server", at("llama-server"), "native_build", at("build"));
}

static json_t *plan_of(json_t *root) {
    return json_object_get(root, "plan");
}

/* Takes the request over. */
static int prepare(json_t *root, sk_prepare_options o) {
    o.operator_path = at("operator.json");
    if (!o.out_dir) o.out_dir = at("out");
    assert_int_equal(json_dump_file(root, o.operator_path, 0), 0);
    json_decref(root);
    memset(&err, 0, sizeof err);
    return sk_prepare_run(&o, &err);
}

static void assert_refused(int rc, int code, const char *part) {
    if (rc != code || !strstr(err.text, part)) fail_msg("%d '%s' instead of %d '...%s...'", rc, err.text, code, part);
    assert_int_not_equal(access(at("out/cache-family-input.json"), F_OK), 0);
}

static json_t *load(const char *name) {
    json_t *json = json_load_file(at(name), 0, NULL);
    assert_non_null(json);
    return json;
}

static const char *text_of(json_t *root, const char *field) {
    return json_string_value(json_object_get(root, field));
}

static sk_family_input *load_input(void) {
    sk_family_input *in = NULL;
    if (sk_family_input_load(at("out/cache-family-input.json"), &in, &err) != SKIPPY_OK) fail_msg("%s", err.text);
    return in;
}

/* ---- what is written ---- */

static void full_rows_are_pinned_and_planned(void **state) {
    (void)state;
    char hex[SK_SHA256_HEX];
    json_t *root = request();
    json_object_set_new(plan_of(root), "agent_corpus", pin("agent.json"));
    json_object_set_new(plan_of(root), "old_server", pin("old"));
    json_object_set_new(plan_of(root), "new_server", pin("new"));
    json_object_set_new(root, "environment", json_pack("{s:s}", "OMP_NUM_THREADS", "2"));
    if (prepare(root, (sk_prepare_options){0}) != SKIPPY_OK) fail_msg("%s", err.text);
    sk_family_input *in = load_input();
    assert_string_equal(in->kind, "full");
    digest("operator.json", hex);
    assert_string_equal(in->operator_sha256, hex);
    digest("out/request.json", hex);
    assert_string_equal(in->operator_sha256, hex); /* the copy is the request, byte for byte */
    digest("skippy", hex);
    assert_string_equal(in->correctness.sha256, hex);
    assert_string_equal(in->correctness.path, at("skippy"));
    assert_int_equal(in->correctness.bytes, strlen("skippy"));
    assert_string_equal(in->agent_corpus.path, at("agent.json"));
    assert_string_equal(in->corpus.path, "");
    assert_string_equal(in->old_server.path, at("old"));
    assert_string_equal(in->env[0], "OMP_NUM_THREADS=2");
    assert_int_equal(in->n_models, 3);
    assert_int_equal(in->models[1].found.status, SK_FOUND_MISSING); /* a row, not a failure */
    assert_true(in->models[1].found.why[0] != '\0');
    assert_int_equal(in->n_cells, 3);
    assert_string_equal(in->cells[0].output_relative, "full/qwen3next-p16");
    assert_true(in->cells[0].tasks.agent);
    assert_true(in->cells[0].tasks.paired_serving);
    assert_int_equal(sk_family_input_verify(in, NULL, &err), SKIPPY_OK);
    sk_family_input_free(in);
    json_t *seen = load("out/observations.json");
    assert_string_equal(text_of(seen, "status"), "prepared");
    assert_true(json_is_null(json_object_get(seen, "error")));
    assert_int_equal(json_array_size(json_object_get(seen, "models")), 3);
    assert_true(json_integer_value(json_object_get(json_object_get(seen, "machine"), "cores")) > 0);
    json_decref(seen);
}

static void use_case_rows_take_the_corpus(void **state) {
    (void)state;
    json_t *root = request();
    json_object_set_new(plan_of(root), "use_cases", json_pack("[s]", "tools"));
    json_object_set_new(plan_of(root), "corpus", pin("corpus.json"));
    if (prepare(root, (sk_prepare_options){.use_cases = true}) != SKIPPY_OK) fail_msg("%s", err.text);
    sk_family_input *in = load_input();
    assert_string_equal(in->kind, "use-cases");
    assert_int_equal(in->n_models, 2); /* a package has no use cases */
    assert_int_equal(in->n_cells, 2);
    assert_string_equal(in->cells[0].output_relative, "tools/qwen3next-p8");
    assert_string_equal(in->corpus.path, at("corpus.json"));
    assert_string_equal(in->agent_corpus.path, "");
    sk_family_input_free(in);
}

static void a_bound_corpus_replaces_the_plans(void **state) {
    (void)state;
    write_text("other.json", CORPUS);
    json_t *root = request();
    if (prepare(root, (sk_prepare_options){.use_cases = true, .corpus = at("other.json")}) != SKIPPY_OK)
        fail_msg("%s", err.text);
    sk_family_input *in = load_input();
    assert_string_equal(in->corpus.path, at("other.json"));
    assert_int_equal(in->n_cells, 4); /* none named: all */
    sk_family_input_free(in);
}

static void full_rows_drop_the_use_cases(void **state) {
    (void)state;
    json_t *root = request();
    json_object_set_new(plan_of(root), "use_cases", json_pack("[s]", "all"));
    json_object_set_new(plan_of(root), "corpus",
                        json_pack("{s:s, s:s}", "path", "/nowhere", "sha256",
                                  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
    if (prepare(root, (sk_prepare_options){0}) != SKIPPY_OK) fail_msg("%s", err.text);
}

static void without_a_baseline_there_are_no_baseline_tasks(void **state) {
    (void)state;
    json_t *root = request();
    json_object_set_new(plan_of(root), "skip_llama_server", json_true());
    if (prepare(root, (sk_prepare_options){0}) != SKIPPY_OK) fail_msg("%s", err.text);
    sk_family_input *in = load_input();
    assert_string_equal(in->native_server.path, "");
    assert_false(in->cells[0].tasks.serial_baseline);
    sk_family_input_free(in);
}

static void overrides_from_the_environment_reach_the_cells(void **state) {
    (void)state;
    setenv("PREFIX_TOKENS", "64", 1);
    setenv("CACHE_HIT_REPEATS", "33", 1);
    const int rc = prepare(request(), (sk_prepare_options){0});
    unsetenv("PREFIX_TOKENS");
    unsetenv("CACHE_HIT_REPEATS");
    if (rc != SKIPPY_OK) fail_msg("%s", err.text);
    sk_family_input *in = load_input();
    assert_string_equal(in->cells[0].output_relative, "full/qwen3next-p64");
    assert_int_equal(in->sizes.prefix_tokens, 64);
    assert_int_equal(in->sizes.cache_hit_repeats, 33);
    sk_family_input_free(in);
    setenv("LLAMA_REPEATS", "many", 1);
    const int refused = prepare(request(), (sk_prepare_options){.out_dir = at("out2")});
    unsetenv("LLAMA_REPEATS");
    assert_int_equal(refused, SKIPPY_E_INVALID);
    assert_non_null(strstr(err.text, "LLAMA_REPEATS='many'"));
}

static void the_request_that_the_program_makes_is_understood(void **state) {
    (void)state;
    sk_family_sizes sizes;
    json_t *root = NULL;
    sk_operator *op = NULL;
    sk_family_sizes_default(&sizes);
    sizes.concurrency[sizes.n_concurrency++] = 4;
    const sk_request_options o = {.models = at("models"),
                                  .skippy = at("skippy"),
                                  .llama_server = at("llama-server"),
                                  .cases = "llama,qwen3next",
                                  .corpus = at("corpus.json"),
                                  .agent_corpus = at("agent.json"),
                                  .sizes = &sizes,
                                  .execution_seconds = 86400,
                                  .cell_seconds = 3600,
                                  .preparation_seconds = 3600};
    if (sk_request_make(&o, &root, &err) != SKIPPY_OK) fail_msg("%s", err.text);
    if (sk_operator_parse(root, &op, &err) != SKIPPY_OK) fail_msg("%s", err.text);
    assert_int_equal(op->plan.n_cases, 2);
    assert_string_equal(op->plan.use_cases[0], "all");
    assert_memory_equal(&op->plan.sizes, &sizes, sizeof sizes);
    sk_operator_free(op);
    json_decref(root);
}

static void every_step_is_a_line(void **state) {
    (void)state;
    char text[4096] = "";
    FILE *f = tmpfile();
    assert_non_null(f);
    if (prepare(request(), (sk_prepare_options){.progress = f}) != SKIPPY_OK) fail_msg("%s", err.text);
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    assert_non_null(strstr(text, "programs\n"));
    assert_non_null(strstr(text, "folder native_build: "));
    assert_non_null(strstr(text, "llama: missing-model: "));
    assert_non_null(strstr(text, "3 cells: "));
}

/* ---- what is refused ---- */

static void a_changed_pin_is_refused_and_observed(void **state) {
    (void)state;
    static const struct {
        const char *plan_field, *file;
    } v[] = {{"agent_corpus", "agent.json"}, {"old_server", "old"}, {"new_server", "new"}};
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        json_t *root = request();
        json_object_set_new(plan_of(root), "old_server", pin("old"));
        json_object_set_new(plan_of(root), "new_server", pin("new"));
        json_object_set_new(plan_of(root), v[i].plan_field, pin(v[i].file));
        make_program(v[i].file);
        write_text(v[i].file, "changed");
        assert_refused(prepare(root, (sk_prepare_options){0}), SKIPPY_E_CORRUPT, v[i].plan_field);
        json_t *seen = load("out/observations.json");
        assert_string_equal(text_of(seen, "status"), "refused");
        assert_non_null(strstr(text_of(seen, "error"), v[i].plan_field));
        json_decref(seen);
        assert_int_equal(test_remove_tree(at("out")), 0);
    }
}

static void a_changed_corpus_is_refused(void **state) {
    (void)state;
    json_t *root = request();
    json_object_set_new(plan_of(root), "use_cases", json_pack("[s]", "all"));
    json_object_set_new(plan_of(root), "corpus", pin("corpus.json"));
    write_text("corpus.json", "{}");
    assert_refused(prepare(root, (sk_prepare_options){.use_cases = true}), SKIPPY_E_CORRUPT, "plan.corpus");
}

static void a_changed_toolkit_is_refused(void **state) {
    (void)state;
    char hex[SK_SHA256_HEX];
    for (int changed = 0; changed < 2; changed++) {
        json_t *root = request();
        assert_int_equal(sk_sha256_tree(at("kit"), NULL, hex, NULL, &err), SKIPPY_OK);
        json_object_set_new(root, "toolkit_directories",
                            json_pack("{s:{s:s, s:s}}", "cuda", "path", at("kit"), "sha256", hex));
        if (changed) write_text("kit/lib.so", "other code");
        const int rc = prepare(root, (sk_prepare_options){.out_dir = changed ? NULL : at("good")});
        if (changed) {
            assert_refused(rc, SKIPPY_E_CORRUPT, "cuda: the request pins SHA-256");
        } else {
            assert_int_equal(rc, SKIPPY_OK);
        }
    }
}

static void programs_must_be_there_and_executable(void **state) {
    (void)state;
    json_t *root = request();
    assert_int_equal(chmod(at("skippy"), 0644), 0);
    if (access(at("skippy"), X_OK) != 0) {
        assert_refused(prepare(root, (sk_prepare_options){0}), SKIPPY_E_INVALID, "is not executable");
        root = request();
    }
    json_object_set_new(root, "stage_server", json_string(at("nowhere")));
    make_program("skippy");
    assert_refused(prepare(root, (sk_prepare_options){.out_dir = at("out3")}), SKIPPY_E_NOT_FOUND, "nowhere");
}

static void use_cases_need_a_corpus(void **state) {
    (void)state;
    assert_refused(prepare(request(), (sk_prepare_options){.use_cases = true}), SKIPPY_E_INVALID,
                   "use cases need a corpus");
    assert_refused(
        prepare(request(),
                (sk_prepare_options){.use_cases = true, .corpus = "family-prepare-nowhere", .out_dir = at("out4")}),
        SKIPPY_E_NOT_FOUND, "family-prepare-nowhere");
}

static void a_broken_corpus_is_refused(void **state) {
    (void)state;
    write_text("agent.json", "{\"version\":1}");
    assert_refused(prepare(request(), (sk_prepare_options){.agent_corpus = at("agent.json")}), SKIPPY_E_INVALID,
                   "agent.json");
}

static void the_output_must_not_touch_what_is_measured(void **state) {
    (void)state;
    char inside[PATH_MAX + 64];
    static const char *const folders[] = {"models", "build", "kit"};
    char hex[SK_SHA256_HEX];
    assert_int_equal(sk_sha256_tree(at("kit"), NULL, hex, NULL, &err), SKIPPY_OK);
    for (size_t i = 0; i < 3; i++) {
        json_t *root = request();
        json_object_set_new(root, "toolkit_directories",
                            json_pack("{s:{s:s, s:s}}", "cuda", "path", at("kit"), "sha256", hex));
        snprintf(inside, sizeof inside, "%s/%s/out", folder, folders[i]);
        assert_refused(prepare(root, (sk_prepare_options){.out_dir = inside}), SKIPPY_E_INVALID, "overlap");
        assert_int_not_equal(access(inside, F_OK), 0); /* nothing was made there */
    }
    assert_refused(prepare(request(), (sk_prepare_options){.out_dir = at("models")}), SKIPPY_E_INVALID, "overlap");
    /* behind a link */
    assert_int_equal(symlink(at("build"), at("link")), 0);
    assert_refused(prepare(request(), (sk_prepare_options){.out_dir = at("link/out")}), SKIPPY_E_INVALID, "overlap");
    /* around them */
    assert_refused(prepare(request(), (sk_prepare_options){.out_dir = folder}), SKIPPY_E_INVALID, "overlap");
}

static void the_output_must_be_new_or_empty(void **state) {
    (void)state;
    assert_int_equal(mkdir(at("out"), 0755), 0);
    write_text("out/old.json", "{}");
    assert_refused(prepare(request(), (sk_prepare_options){0}), SKIPPY_E_INVALID, "is not empty");
    assert_int_equal(unlink(at("out/old.json")), 0);
    assert_int_equal(prepare(request(), (sk_prepare_options){0}), SKIPPY_OK); /* empty is fine */
    assert_int_equal(prepare(request(), (sk_prepare_options){0}), SKIPPY_E_INVALID);
    write_text("file", "");
    assert_int_equal(prepare(request(), (sk_prepare_options){.out_dir = at("file")}), SKIPPY_E_INVALID);
    assert_int_equal(prepare(request(), (sk_prepare_options){.out_dir = at("no/where")}), SKIPPY_E_NOT_FOUND);
    assert_int_equal(prepare(request(), (sk_prepare_options){.out_dir = ""}), SKIPPY_E_INVALID);
}

static void a_missing_cache_root_is_refused(void **state) {
    (void)state;
    json_t *root = request();
    json_object_set_new(plan_of(root), "cache_root", json_string(at("nowhere")));
    assert_refused(prepare(root, (sk_prepare_options){0}), SKIPPY_E_NOT_FOUND, "plan.cache_root");
}

static void library_paths_are_checked_behind_their_links(void **state) {
    (void)state;
    json_t *root = request();
    assert_int_equal(mkdir(at("elsewhere"), 0755), 0);
    assert_int_equal(mkdir(at("build/lib"), 0755), 0);
    assert_int_equal(symlink(at("elsewhere"), at("build/out")), 0);
    json_object_set_new(root, "environment", json_pack("{s:s}", "LD_LIBRARY_PATH", at("build/lib")));
    assert_int_equal(prepare(json_deep_copy(root), (sk_prepare_options){.out_dir = at("good")}), SKIPPY_OK);
    json_object_set_new(root, "environment", json_pack("{s:s}", "LD_LIBRARY_PATH", at("build/out")));
    assert_refused(prepare(root, (sk_prepare_options){0}), SKIPPY_E_INVALID, "behind its links");
}

/* The last one: a signal is remembered for the rest of the process. */
static void a_signal_leaves_observations_but_no_input(void **state) {
    (void)state;
    sk_interrupt_install();
    raise(SIGTERM);
    assert_refused(prepare(request(), (sk_prepare_options){0}), SKIPPY_E_CANCELLED, "stopped by a signal");
    json_t *seen = load("out/observations.json");
    assert_string_equal(text_of(seen, "status"), "refused");
    assert_non_null(strstr(text_of(seen, "error"), "signal"));
    json_decref(seen);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(full_rows_are_pinned_and_planned),
        TEST(use_case_rows_take_the_corpus),
        TEST(a_bound_corpus_replaces_the_plans),
        TEST(full_rows_drop_the_use_cases),
        TEST(without_a_baseline_there_are_no_baseline_tasks),
        TEST(overrides_from_the_environment_reach_the_cells),
        TEST(the_request_that_the_program_makes_is_understood),
        TEST(every_step_is_a_line),
        TEST(a_changed_pin_is_refused_and_observed),
        TEST(a_changed_corpus_is_refused),
        TEST(a_changed_toolkit_is_refused),
        TEST(programs_must_be_there_and_executable),
        TEST(use_cases_need_a_corpus),
        TEST(a_broken_corpus_is_refused),
        TEST(the_output_must_not_touch_what_is_measured),
        TEST(the_output_must_be_new_or_empty),
        TEST(a_missing_cache_root_is_refused),
        TEST(library_paths_are_checked_behind_their_links),
        TEST(a_signal_leaves_observations_but_no_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
