/* `skippy families` as a user sees it: what it prints and how it ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/test_folder.h"
#include "cli/families.h"
#include "runtime/test_gguf.h"
#include "runtime/test_models.h"

static char text[200000];

/* Sends both streams into a file while the command runs; its output is then in `text`. */
static int run(const char *const *args) {
    char *argv[16] = {(char *)"skippy families"};
    int argc = 1;
    for (; args[argc - 1]; argc++) argv[argc] = (char *)args[argc - 1];
    FILE *file = tmpfile();
    int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    assert_true(file && out >= 0 && err >= 0);
    fflush(stdout);
    assert_true(dup2(fileno(file), STDOUT_FILENO) >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    int code = sk_cli_families(argc, argv);
    fflush(stdout);
    assert_true(dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0);
    close(out);
    close(err);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return code;
}

#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})

static void expect(int code, int expected, const char *words) {
    if (code != expected || !strstr(text, words)) fail_msg("code %d, no '%s' in: %s", code, words, text);
}

static json_t *parse(void) {
    json_error_t e;
    json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, &e);
    if (!o) fail_msg("%s: %s", e.text, text);
    return o;
}

static const char *get(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static void the_list_names_every_family_once(void **state) {
    (void)state;
    const char *const none[] = {NULL};
    expect(run(none), 0, "falcon_h1");
    expect(RUN("list"), 0, "recorded boundaries, KV and recurrent state together");
    expect(RUN("--json"), 0, "\"arch\":\"llama\"");
    json_t *list = parse();
    size_t reused = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        assert_true(get(row, "family")[0] && get(row, "state")[0] && get(row, "evidence")[0]);
        reused += strcmp(get(row, "cache_mode"), "disabled") != 0;
    }
    assert_true(json_array_size(list) > 100 && reused > 100);
    json_decref(list);
}

static void one_family_is_shown_by_name_or_architecture(void **state) {
    (void)state;
    expect(RUN("show", "falcon_h1"), 0, "76529664 bytes of recurrent state");
    expect(RUN("show", "falcon-h1"), 0, "family        falcon_h1");
    expect(RUN("show", "gemma4_e4b"), 0, "sideband      token_ids");
    expect(RUN("show", "kimi_linear"), 0, "layers 0 to 2, 4 to 6,");
    expect(RUN("show", "inkling"), 0, "disabled      unsupported");
    expect(RUN("show", "grok"), 0, "evidence      listed");
    expect(RUN("show", "rwkv7", "--json"), 0, "\"rwkv7_v_first\"");
    json_t *o = parse();
    assert_string_equal(get(o, "state"), "recurrent");
    json_decref(o);
    expect(RUN("show", "zebra"), 1, "there is no family 'zebra'");
}

static void a_name_is_inferred_or_said_to_be_unknown(void **state) {
    (void)state;
    expect(RUN("infer", "--name", "Qwen/Qwen3-8B-GGUF"), 0, "family        qwen3_dense");
    expect(RUN("infer", "--name", "Qwen3.7-9B"), 3, "point release");
    expect(RUN("infer", "--name", "Falcon-H1-1.5B", "--json"), 0, "\"cache_mode\":\"KvRecurrent\"");
    expect(RUN("infer", "--name", "caf\xe9", "--json"), 3, "\"family\":null");
    json_decref(parse());
}

static void a_file_is_inferred_from_its_header(void **state) {
    (void)state;
    static const struct {
        const char *file, *family, *mode;
    } models[] = {{"stories260K-f32.gguf", "llama", "ResidentKv"},
                  {"stories260K-granitehybrid-f32.gguf", "granite_hybrid", "KvRecurrent"},
                  {"tiny-rwkv7-834K-f32.gguf", "rwkv7", "KvRecurrent"}};
    char path[500];
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (!gg_model_path(models[i].file, path, sizeof path)) {
            print_message("skipped: %s was not found (set SKIPPY_TEST_MODELS)\n", models[i].file);
            skip();
        }
        expect(RUN("infer", path, "--json"), 0, "\"reason\":");
        json_t *o = parse();
        assert_string_equal(get(o, "family"), models[i].family);
        assert_string_equal(get(o, "cache_mode"), models[i].mode);
        assert_string_equal(get(o, "basis"), "architecture");
        json_decref(o);
        expect(RUN("infer", path), 0, "why           ");
    }
}

static void a_file_that_is_no_model_is_refused_with_words(void **state) {
    (void)state;
    expect(RUN("infer", "there-is-no-such.gguf"), 1, "no such file");
    expect(RUN("infer", "there-is-no-such.gguf", "--json"), 1, "no such file");
}

static void a_plan_says_what_crosses_and_what_stands_against_it(void **state) {
    (void)state;
    expect(RUN("plan", "llama", "--stages", "3"), 0, "result        accepted");
    expect(RUN("plan", "qwen3next"), 0, "RecurrentOwnerSticky");
    expect(RUN("plan", "gemma3", "--even"), 3, "StageRuleRejected");
    expect(RUN("plan", "gemma4_e4b"), 3, "TokenSidebandRequired");
    expect(RUN("plan", "gemma2"), 3, "inexact");
    expect(RUN("plan", "gemma2", "--stages", "1"), 0, "result        accepted");
    expect(RUN("plan", "glm4"), 0, "exact_after_conversion");
    expect(RUN("plan", "olmo2"), 0, "need a certificate");
    expect(RUN("plan", "grok", "--layers", "64"), 0, "Q8WireUntested");
    expect(RUN("plan", "llama", "--wire", "q8"), 0, "hidden states as q8");
    expect(RUN("plan", "plamo2", "--allow-state-transfer"), 0, "RecurrentStateTransferAllowed");
    expect(RUN("plan", "granite_hybrid", "--stages", "5"), 3, "no accepted cuts");
    expect(RUN("plan", "qwen3_dense", "--wire", "q8"), 3, "use f16");
}

static void a_plan_is_json_on_request(void **state) {
    (void)state;
    expect(RUN("plan", "rwkv7", "--cuts", "4,8", "--json"), 3, "ActivationSidebandRequired");
    json_t *o = parse();
    assert_int_equal(json_array_size(json_object_get(o, "stages")), 3);
    assert_int_equal(json_array_size(json_object_get(o, "boundaries")), 2);
    assert_true(json_is_false(json_object_get(o, "accepted")));
    assert_string_equal(get(o, "split"), "refused");
    json_decref(o);
    expect(RUN("plan", "olmo2", "--weights", "3,1", "--json"), 0, "\"layer\":24");
    json_decref(parse());
}

static void wrong_usage_ends_with_code_2_and_words(void **state) {
    (void)state;
    expect(RUN("shw"), 2, "list, show, infer or plan");
    expect(RUN("--jsn"), 2, "unknown option '--jsn'");
    expect(RUN("show"), 2, "which family?");
    expect(RUN("infer"), 2, "infer which model?");
    expect(RUN("list", "llama"), 2, "list takes no name");
    expect(RUN("show", "--name", "x"), 2, "--name stands for");
    expect(RUN("infer", "a.gguf", "--name", "x"), 2, "--name stands for");
    expect(RUN("show", "llama", "--stages", "2"), 2, "options of plan");
    expect(RUN("plan", "llama", "--stages", "0"), 2, "--stages");
    expect(RUN("plan", "llama", "--cuts", "4", "--even"), 2, "exclude each other");
    expect(RUN("plan", "llama", "--cuts", "4", "--stages", "2"), 2, "already says");
    expect(RUN("plan", "llama", "--cuts", "4,x"), 2, "--cuts needs");
    expect(RUN("plan", "llama", "--cuts", ""), 2, "--cuts needs");
    expect(RUN("plan", "llama", "--cuts", "9,4"), 2, "must ascend");
    expect(RUN("plan", "llama", "--cuts", "99999999999"), 2, "must ascend");
    expect(RUN("plan", "llama", "--weights", "1,"), 2, "--weights needs");
    expect(RUN("plan", "llama", "--weights", "0,0"), 2, "weights are 0");
    expect(RUN("plan", "llama", "--stages", "17"), 2, "16 layers cannot");
    expect(RUN("plan", "grok"), 2, "number of layers must be given");
    expect(RUN("plan", "zebra"), 1, "there is no family");
}

static void a_file_is_planned_by_what_it_allows(void **state) {
    (void)state;
    char llama[1100];
    const char *path = test_model_path("llama");
    if (!path) skip();
    snprintf(llama, sizeof llama, "%s", path);
    expect(RUN("plan", llama, "--stages", "3"), 0, "stage 1       layers 2 to 3:");
    expect(RUN("plan", llama, "--cuts", "1,5"), 0, "skippy stage -m");
    expect(RUN("plan", llama, "--memory", "8G,16G"), 0, "left for context and cache");
    expect(RUN("plan", llama, "--memory", "1M,1M"), 3, "bytes");
    expect(RUN("plan", llama, "--stages", "7"), 2, "6 layers cannot be cut into 7 stages");
    expect(RUN("plan", llama, "--cuts", "5,1"), 2, "must ascend");
    expect(RUN("plan", "no-such-model.gguf"), 1, "no-such-model.gguf");
    expect(RUN("plan", llama, "--memory", "1G,2G,4G", "--json"), 0, "\"layer");
    json_t *o = parse();
    const json_t *stages = json_object_get(o, "stages");
    assert_int_equal(json_array_size(stages), 3);
    assert_true(json_integer_value(json_object_get(json_array_get(stages, 2), "memory")) == (json_int_t)4 << 30);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(stages, 2), "end")), 6);
    json_decref(o);
    if ((path = test_model_path("rwkv7")) != NULL) expect(RUN("plan", path), 3, "cannot be cut");
}

static void wrong_usage_of_a_files_plan_ends_with_code_2(void **state) {
    (void)state;
    expect(RUN("plan", "llama", "--memory", "8G,8G"), 2, "--memory plans a file");
    expect(RUN("plan", "x.gguf", "--stages", "2", "--memory", "8G"), 2, "exclude each other");
    expect(RUN("plan", "x.gguf", "--even"), 2, "the other options are for families");
    const char *path = test_model_path("llama");
    if (!path) skip();
    char llama[1100];
    snprintf(llama, sizeof llama, "%s", path);
    expect(RUN("plan", llama, "--memory", "8"), 2, "not '8'");
    expect(RUN("plan", llama, "--memory", "8G,"), 2, "not '8G,'");
    expect(RUN("plan", llama, "--cuts", "x"), 2, "--cuts needs");
}

static void the_help_shows_examples_and_exit_codes(void **state) {
    (void)state;
    expect(RUN("--help"), 0, "Examples:");
    expect(RUN("plan", "--help"), 0, "Exit codes:");
}

static char folder[64];

/* Digests of models are not remembered in the user's own folder. */
static int set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "families-test-XXXXXX");
    return mkdtemp(folder) ? setenv("XDG_CACHE_HOME", folder, 1) : -1;
}

static int tear_down(void **state) {
    (void)state;
    return test_remove_tree(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_names_every_family_once),
        cmocka_unit_test(one_family_is_shown_by_name_or_architecture),
        cmocka_unit_test(a_name_is_inferred_or_said_to_be_unknown),
        cmocka_unit_test(a_file_is_inferred_from_its_header),
        cmocka_unit_test(a_file_that_is_no_model_is_refused_with_words),
        cmocka_unit_test(a_plan_says_what_crosses_and_what_stands_against_it),
        cmocka_unit_test(a_plan_is_json_on_request),
        cmocka_unit_test(wrong_usage_ends_with_code_2_and_words),
        cmocka_unit_test(a_file_is_planned_by_what_it_allows),
        cmocka_unit_test(wrong_usage_of_a_files_plan_ends_with_code_2),
        cmocka_unit_test(the_help_shows_examples_and_exit_codes),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
