/* `skippy certify` as people start it: exit codes, the receipt, the report, and nothing left behind. This program
 * stands in for skippy when a certification starts it again. */
#include <ftw.h>
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
#include <jansson.h>

#include "base/test_folder.h"
#include "cli/capture.h"
#include "cli/certify.h"

static char model[1024], folder[64], cache[128];
static size_t files;

static int set_up(void **state) {
    const char *build = getenv("SKIPPY_BUILD_DIR"), *models = getenv("SKIPPY_TEST_MODELS");
    (void)state;
    if (models)
        snprintf(model, sizeof model, "%s/llama.gguf", models);
    else
        snprintf(model, sizeof model, "%s/tests/models/llama.gguf", build ? build : ".");
    snprintf(folder, sizeof folder, "certify-cli-test-XXXXXX");
    if (!mkdtemp(folder) || setenv("TMPDIR", folder, 1) != 0) return -1;
    snprintf(cache, sizeof cache, "%s-cache", folder); /* not the user's own: digests and stage files are left there */
    return setenv("XDG_CACHE_HOME", cache, 1);
}

static int tear_down(void **state) {
    (void)state;
    (void)test_remove_tree(cache); /* not there when no model was */
    return test_remove_tree(folder);
}

static int count_one(const char *path, const struct stat *st, int type, struct FTW *where) {
    (void)path, (void)st, (void)where;
    files += type == FTW_F;
    return 0;
}

static size_t files_in(const char *dir) {
    files = 0;
    assert_int_equal(nftw(dir, count_one, 8, FTW_PHYS), 0);
    return files;
}

/* The words may be in either output. */
static void assert_run(const char *const *arguments, int code, const char *words) {
    const char *args[24] = {"skippy certify"};
    captured c = {0};
    for (size_t i = 0; arguments[i]; i++) args[i + 1] = arguments[i];
    int got = capture(&c, sk_cli_certify, args);
    if (got != code || (!strstr(c.out, words) && !strstr(c.err, words)))
        fail_msg("code %d, '%s' is not in: %s%s", got, words, c.out, c.err);
    captured_free(&c);
}

#define RUN(code, words, ...) assert_run((const char *const[]){__VA_ARGS__, NULL}, code, words)

static void wrong_usage_ends_with_code_2(void **state) {
    (void)state;
    RUN(2, "which model?", "--json");
    RUN(2, "--prefix needs a whole number", "--prefix", "3");
    RUN(0, "Usage: skippy certify", "--help");
}

static void what_cannot_be_certified_ends_with_code_1(void **state) {
    (void)state;
    RUN(1, "there-is-no-such.gguf", "-m", "there-is-no-such.gguf");
}

static void a_model_gets_a_receipt_and_a_report(void **state) {
    char receipts[128], report[128];
    (void)state;
    if (access(model, R_OK) != 0) {
        printf("skipped: the test model '%s' is not there\n", model);
        skip();
    }
    snprintf(report, sizeof report, "%s/report.json", folder);
    snprintf(receipts, sizeof receipts, "%s/receipts", folder);
    RUN(0, "PASS: snapshots and resident-kv payloads continue exactly", "-m", model, "--prefix", "64", "-t", "1",
        "--receipts", receipts, "--report-out", report, "--family-name", "mine");
    assert_int_equal(files_in(folder), 2); /* receipt and report: handed-over state is gone */
    json_t *list = json_load_file(report, 0, NULL);
    const json_t *one = json_array_get(list, 0);
    assert_int_equal(json_array_size(list), 1);
    assert_string_equal(json_string_value(json_object_get(one, "status")), "pass");
    assert_string_equal(json_string_value(json_object_get(json_object_get(one, "model_identity"), "family")), "mine");
    json_decref(list);
}

static void stages_get_receipts_of_their_own(void **state) {
    char receipts[128];
    (void)state;
    if (access(model, R_OK) != 0) skip();
    snprintf(receipts, sizeof receipts, "%s/stages", folder);
    RUN(0, "PASS: 3 stages give the whole model's logits bit for bit", "-m", model, "--stages", "3", "-t", "1",
        "--receipts", receipts);
    assert_int_equal(files_in(receipts), 3);
    RUN(0, "\"status\":\"pass\"", "-m", model, "--cuts", "1,5", "-t", "1", "--json", "--receipts", receipts);
    assert_int_equal(files_in(receipts), 6);
    RUN(1, "must ascend", "-m", model, "--cuts", "5,1", "--receipts", receipts);
    RUN(1, "--cuts needs", "-m", model, "--cuts", "x", "--receipts", receipts);
    RUN(1, "there-is-no-such.gguf", "-m", "there-is-no-such.gguf", "--stages", "2", "--receipts", receipts);
}

static void without_a_receipt_folder_the_run_fails_in_words(void **state) {
    char file[128];
    (void)state;
    if (access(model, R_OK) != 0) skip();
    snprintf(file, sizeof file, "%s/report.json", folder);
    RUN(1, "cannot be written", "-m", model, "--prefix", "64", "-t", "1", "--receipts", file);
}

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "certify") == 0) return sk_cli_certify(argc - 1, argv + 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_usage_ends_with_code_2),
        cmocka_unit_test(what_cannot_be_certified_ends_with_code_1),
        cmocka_unit_test(a_model_gets_a_receipt_and_a_report),
        cmocka_unit_test(stages_get_receipts_of_their_own),
        cmocka_unit_test(without_a_receipt_folder_the_run_fails_in_words),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
