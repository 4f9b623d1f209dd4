/* The folder of a cell: what counts as finished, what begins anew. */
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
#include "bench/family/cell_files.h"

static char folder[64], cell[128];
static json_t *request, *row, *record;

static int set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "cell-files-test-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(cell, sizeof cell, "%s/full/llama-p128", folder);
    request = json_pack("{s:i}", "prefix_tokens", 128);
    row = json_pack("{s:s}", "key", "llama");
    record = json_pack("{s:i}", "schema_version", 1);
    return request && row && record ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    json_decref(request);
    json_decref(row);
    json_decref(record);
    return test_remove_tree(folder);
}

static bool has(const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", cell, name);
    return access(path, F_OK) == 0;
}

static void begin(void) {
    sk_err e = {0};
    if (sk_cell_files_begin(cell, request, &e) != SKIPPY_OK) fail_msg("%s", e.text);
}

static void end(bool final) {
    sk_err e = {0};
    if (sk_cell_files_end(cell, record, row, final, &e) != SKIPPY_OK) fail_msg("%s", e.text);
}

static bool finished(void) {
    json_t *found = sk_cell_files_finished(cell, request);
    const bool same = json_equal(found, row);
    json_decref(found);
    return same;
}

static void a_final_row_finishes_the_cell(void **state) {
    sk_err e = {0};
    (void)state;
    begin();
    assert_false(finished());
    assert_int_equal(sk_cell_files_partial(cell, row, &e), SKIPPY_OK);
    assert_false(finished());
    end(true);
    assert_true(finished());
    assert_false(has("row.partial.json"));
}

static void a_row_that_is_not_final_leaves_the_cell_open(void **state) {
    (void)state;
    begin();
    end(false);
    assert_true(has("row.partial.json"));
    assert_true(has("cell.json"));
    assert_false(finished());
}

static void another_request_is_another_cell(void **state) {
    (void)state;
    begin();
    end(true);
    json_object_set_new(request, "prefix_tokens", json_integer(64));
    assert_false(finished());
}

static void a_row_without_its_receipt_is_not_finished(void **state) {
    char path[300];
    (void)state;
    begin();
    end(true);
    snprintf(path, sizeof path, "%s/cell.json", cell);
    assert_int_equal(unlink(path), 0);
    assert_false(finished());
}

static void beginning_again_forgets_the_row(void **state) {
    (void)state;
    begin();
    end(true);
    begin();
    assert_false(has("row.json"));
    assert_false(has("cell.json"));
    assert_true(has("request.json"));
}

static void the_receipt_names_the_files_beside_it(void **state) {
    (void)state;
    begin();
    end(true);
    json_t *files = json_object_get(record, "files");
    assert_int_equal(json_array_size(files), 1); /* the rows come after it */
    assert_string_equal(json_string_value(json_object_get(json_array_get(files, 0), "path")), "request.json");
    assert_int_equal(strlen(json_string_value(json_object_get(record, "row_sha256"))), 64);
}

static void where_a_file_stands_no_folder_is_made(void **state) {
    char path[128];
    sk_err e = {0};
    (void)state;
    snprintf(path, sizeof path, "%s/full", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(sk_cell_files_begin(cell, request, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, "cannot make the folder"));
}

static void a_path_that_is_too_long_is_refused(void **state) {
    char path[SK_CELL_PATH_CHARS + 10];
    sk_err e = {0};
    (void)state;
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(sk_cell_folder_make(path, &e), SKIPPY_E_INVALID);
    assert_int_equal(sk_cell_file_write(path, "name", row, &e), SKIPPY_E_INVALID);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_final_row_finishes_the_cell),         TEST(a_row_that_is_not_final_leaves_the_cell_open),
        TEST(another_request_is_another_cell),       TEST(a_row_without_its_receipt_is_not_finished),
        TEST(beginning_again_forgets_the_row),       TEST(the_receipt_names_the_files_beside_it),
        TEST(where_a_file_stands_no_folder_is_made), TEST(a_path_that_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
