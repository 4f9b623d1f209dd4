/* Rows of several inputs: loading, order, and the same cell twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/test_folder.h"
#include "bench/family/row.h"
#include "bench/family/row_fixture.h"
#include "bench/family/sha256.h"

static char folder[] = "row-set-test-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    return test_remove_tree(folder);
}

static const char *path_of(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text) {
    FILE *f = fopen(path_of(name), "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void write_rows(const char *name, json_t *rows) {
    assert_int_equal(json_dump_file(rows, path_of(name), 0), 0);
    json_decref(rows);
}

static void add(sk_row_set *s, sk_fixture f) {
    sk_err e = {0};
    if (sk_row_set_add(s, sk_fixture_row(&f), 1, &e) != SKIPPY_OK) fail_msg("%s", e.text);
}

static void refused(const char *name, int code, const char *words) {
    sk_row_set s = {0};
    sk_err e = {0};
    assert_int_equal(sk_row_set_load(&s, path_of(name), &e), code);
    if (!strstr(e.text, words)) fail_msg("'%s' is not in: %s", words, e.text);
    sk_row_set_free(&s);
}

static void families_come_in_the_order_of_the_tables_and_unknown_ones_last_by_name(void **state) {
    (void)state;
    sk_row_set s = {0};
    static const char *const keys[] = {"zeta", "olmo", "alpha", "llama", "qwen3next", "deepseek3", "falcon_h1"};
    static const char *const want[] = {"qwen3next", "falcon_h1", "llama", "olmo", "deepseek3", "alpha", "zeta"};
    for (size_t i = 0; i < 7; i++) add(&s, (sk_fixture){.key = keys[i], .family = keys[i]});
    sk_row_set_sort(&s);
    for (size_t i = 0; i < 7; i++) assert_string_equal(s.v[i].key, want[i]);
    sk_row_set_free(&s);
}

static void a_familys_rows_come_by_weights_kind_use_case_and_prefix(void **state) {
    (void)state;
    sk_row_set s = {0};
    add(&s, (sk_fixture){.use_case = "zzz"});
    add(&s, (sk_fixture){.use_case = "text_to_sql"});
    add(&s, (sk_fixture){.use_case = "tool_calling", .prefix_tokens = 256});
    add(&s, (sk_fixture){.use_case = "tool_calling"});
    add(&s, (sk_fixture){.kind = "package"});
    add(&s, (sk_fixture){.kind = "sweep", .prefix_tokens = 1024});
    add(&s, (sk_fixture){.kind = "sweep", .prefix_tokens = 64});
    add(&s, (sk_fixture){.synthetic = true});
    add(&s, (sk_fixture){0});
    sk_row_set_sort(&s);
    static const char *const kinds[] = {"full",     "sweep",    "sweep",    "package",
                                        "use-case", "use-case", "use-case", "use-case"};
    for (size_t i = 0; i < 8; i++) assert_string_equal(s.v[i].kind, kinds[i]);
    assert_int_equal(s.v[1].prefix_tokens, 64);
    assert_string_equal(s.v[4].use_case, "tool_calling");
    assert_int_equal(s.v[4].prefix_tokens, 128);
    assert_int_equal(s.v[5].prefix_tokens, 256);
    assert_string_equal(s.v[6].use_case, "text_to_sql");
    assert_string_equal(s.v[7].use_case, "zzz");
    assert_true(s.v[8].synthetic);
    assert_null(s.notes);
    sk_row_set_free(&s);
}

static void the_later_row_of_a_cell_wins_and_a_note_says_so(void **state) {
    (void)state;
    sk_row_set s = {0};
    add(&s, (sk_fixture){.status = "fail"});
    add(&s, (sk_fixture){.key = "olmo", .family = "OLMo"});
    add(&s, (sk_fixture){.status = "pass"});
    assert_int_equal(s.n, 2);
    assert_string_equal(s.v[0].skippy_status, "pass");
    assert_int_equal(json_array_size(s.notes), 1);
    assert_non_null(strstr(json_string_value(json_array_get(s.notes, 0)), "Llama (full, prefix of 128 tokens)"));
    sk_row_set_free(&s);
}

static void random_weights_do_not_replace_real_ones(void **state) {
    (void)state;
    sk_row_set s = {0};
    add(&s, (sk_fixture){0});
    add(&s, (sk_fixture){.synthetic = true});
    add(&s, (sk_fixture){.prefix_tokens = 64});
    add(&s, (sk_fixture){.use_case = "open_chat"});
    assert_int_equal(s.n, 4);
    assert_null(s.notes);
    sk_row_set_free(&s);
}

static void a_damaged_row_leaves_the_others(void **state) {
    (void)state;
    sk_row_set s = {0};
    sk_err e = {0};
    add(&s, (sk_fixture){0});
    assert_int_equal(sk_row_set_add(&s, sk_fixture_row(&(sk_fixture){.kind = "none"}), 2, &e), SKIPPY_E_INVALID);
    assert_int_equal(s.n, 1);
    assert_non_null(strstr(e.text, "row 2"));
    sk_row_set_free(&s);
}

static void files_are_loaded_with_their_digest_and_the_facts_beside_them(void **state) {
    (void)state;
    char hex[SK_SHA256_HEX];
    sk_row_set s = {0};
    sk_err e = {0};
    write_file("run.json", "{\"status\":\"completed\",\"sha256\":\"other\",\"machine\":{\"cpu\":\"X\"}}");
    write_rows("a.json", json_pack("[o]", sk_fixture_row(&(sk_fixture){.status = "fail"})));
    write_rows("b.json", json_pack("[o]", sk_fixture_row(&(sk_fixture){0})));
    assert_int_equal(sk_row_set_load(&s, path_of("a.json"), &e), SKIPPY_OK);
    assert_int_equal(sk_row_set_load(&s, path_of("b.json"), &e), SKIPPY_OK);
    assert_int_equal(s.n, 1);
    assert_string_equal(s.v[0].skippy_status, "pass");
    assert_non_null(strstr(json_string_value(json_array_get(s.notes, 0)), "b.json is shown"));
    assert_int_equal(json_array_size(s.sources), 2);
    const json_t *source = json_array_get(s.sources, 0);
    assert_int_equal(sk_sha256_file(path_of("a.json"), NULL, hex, NULL, &e), SKIPPY_OK);
    assert_string_equal(json_string_value(json_object_get(source, "sha256")), hex);
    assert_string_equal(json_string_value(json_object_get(source, "status")), "completed");
    assert_non_null(json_object_get(source, "machine"));
    sk_row_set_free(&s);
    assert_int_equal(unlink(path_of("run.json")), 0);
}

static void a_file_without_run_facts_is_loaded(void **state) {
    (void)state;
    sk_row_set s = {0};
    write_rows("lonely.json", json_array());
    assert_int_equal(sk_row_set_load(&s, path_of("lonely.json"), NULL), SKIPPY_OK);
    assert_int_equal(s.n, 0);
    assert_int_equal(json_array_size(s.sources), 1);
    sk_row_set_sort(&s);
    sk_row_set_free(&s);
}

static void damaged_files_are_refused_with_their_name(void **state) {
    (void)state;
    refused("nothing.json", SKIPPY_E_NOT_FOUND, "nothing.json");
    refused("", SKIPPY_E_INVALID, "is not a file");
    write_file("half.json", "[{\"schema_version\":1,");
    refused("half.json", SKIPPY_E_INVALID, "half.json' is damaged in line 1");
    write_file("twice.json", "[{\"key\":\"a\",\"key\":\"b\"}]");
    refused("twice.json", SKIPPY_E_INVALID, "duplicate");
    write_file("object.json", "{}");
    refused("object.json", SKIPPY_E_INVALID, "must be an array of rows");
    write_rows("row.json", json_pack("[o, {}]", sk_fixture_row(&(sk_fixture){0})));
    refused("row.json", SKIPPY_E_INVALID, "row.json', row 2: schema_version");
}

static void damaged_run_facts_are_refused(void **state) {
    (void)state;
    write_rows("good.json", json_array());
    write_file("run.json", "{");
    refused("good.json", SKIPPY_E_INVALID, "run.json' is damaged");
    write_file("run.json", "[]");
    refused("good.json", SKIPPY_E_INVALID, "run.json' must be an object");
    assert_int_equal(unlink(path_of("run.json")), 0);
}

static void a_file_that_is_too_large_is_not_read(void **state) {
    (void)state;
    write_file("huge.json", "[");
    assert_int_equal(truncate(path_of("huge.json"), ((off_t)256 << 20) + 1), 0);
    refused("huge.json", SKIPPY_E_TOO_LARGE, "larger than 256 MiB");
    assert_int_equal(unlink(path_of("huge.json")), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_come_in_the_order_of_the_tables_and_unknown_ones_last_by_name),
        cmocka_unit_test(a_familys_rows_come_by_weights_kind_use_case_and_prefix),
        cmocka_unit_test(the_later_row_of_a_cell_wins_and_a_note_says_so),
        cmocka_unit_test(random_weights_do_not_replace_real_ones),
        cmocka_unit_test(a_damaged_row_leaves_the_others),
        cmocka_unit_test(files_are_loaded_with_their_digest_and_the_facts_beside_them),
        cmocka_unit_test(a_file_without_run_facts_is_loaded),
        cmocka_unit_test(damaged_files_are_refused_with_their_name),
        cmocka_unit_test(damaged_run_facts_are_refused),
        cmocka_unit_test(a_file_that_is_too_large_is_not_read),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
