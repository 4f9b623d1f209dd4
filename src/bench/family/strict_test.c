/* A strict reader takes what is allowed and names the field of everything else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/family/strict.h"

static sk_err err;
static json_t *document;

static int drop(void **state) {
    (void)state;
    json_decref(document);
    document = NULL;
    return 0;
}

/* A reader over a JSON text; the text stays until the test's end. */
static sk_strict root_of(sk_strict_reader *r, const char *text) {
    document = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(document);
    memset(&err, 0, sizeof err);
    *r = (sk_strict_reader){.e = &err};
    return sk_strict_root(r, document);
}

static void assert_refused(const sk_strict_reader *r, const char *beginning) {
    assert_int_equal(r->rc, SKIPPY_E_INVALID);
    assert_int_equal(err.code, SKIPPY_E_INVALID);
    if (strncmp(err.text, beginning, strlen(beginning)) != 0) fail_msg("'%s' instead of '%s...'", err.text, beginning);
}

static void allowed_values_are_read(void **state) {
    (void)state;
    sk_strict_reader r;
    char text[8], path[16];
    const sk_strict root =
        root_of(&r, "{\"n\":3,\"u\":4294967295,\"b\":true,\"t\":\"abcdefg\",\"p\":\"/x\",\"c\":\"two\","
                    "\"z\":null}");
    const sk_strict n = sk_strict_field(&root, "n"), u = sk_strict_field(&root, "u"), b = sk_strict_field(&root, "b");
    const sk_strict t = sk_strict_field(&root, "t"), p = sk_strict_field(&root, "p"), c = sk_strict_field(&root, "c");
    const sk_strict z = sk_strict_field(&root, "z"), missing = sk_strict_field(&root, "missing");
    const char *const names[] = {"one", "two", NULL};
    assert_int_equal(sk_strict_int(&n, 3, 3, 0), 3);
    assert_true(sk_strict_u32(&u, 0, UINT32_MAX, 0) == UINT32_MAX);
    assert_true(sk_strict_bool(&b, false));
    sk_strict_copy(&t, text, sizeof text);
    assert_string_equal(text, "abcdefg");
    sk_strict_absolute(&p, path, sizeof path);
    assert_string_equal(path, "/x");
    assert_int_equal(sk_strict_choice(&c, names), 1);
    assert_false(sk_strict_present(&z));
    assert_int_equal(sk_strict_int(&z, 1, 2, 77), 77);
    assert_int_equal(sk_strict_int(&missing, 1, 2, 78), 78);
    assert_string_equal(sk_strict_text(&missing, 9), "");
    assert_int_equal(r.rc, SKIPPY_OK);
}

static void a_number_must_be_whole_and_within_its_bounds(void **state) {
    (void)state;
    static const char *const wrong[] = {"{\"n\":2}", "{\"n\":6}", "{\"n\":4.0}", "{\"n\":\"4\"}", "{\"n\":true}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sk_strict_reader r;
        const sk_strict root = root_of(&r, wrong[i]), n = sk_strict_field(&root, "n");
        assert_int_equal(sk_strict_int(&n, 3, 5, 1), 1);
        assert_refused(&r, "n: ");
        drop(NULL);
    }
}

static void a_text_must_fit_and_have_no_control_characters(void **state) {
    (void)state;
    static const char *const wrong[] = {"{\"t\":\"\"}", "{\"t\":\"abcd\"}", "{\"t\":\"a\\n\"}", "{\"t\":\"\\u007f\"}",
                                        "{\"t\":1}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sk_strict_reader r;
        char out[4] = "old";
        const sk_strict root = root_of(&r, wrong[i]), t = sk_strict_field(&root, "t");
        sk_strict_copy(&t, out, sizeof out);
        assert_string_equal(out, "");
        assert_refused(&r, "t: ");
        drop(NULL);
    }
}

static void a_relative_path_is_refused(void **state) {
    (void)state;
    sk_strict_reader r;
    char out[16];
    const sk_strict root = root_of(&r, "{\"p\":\"bin/x\"}"), p = sk_strict_field(&root, "p");
    sk_strict_absolute(&p, out, sizeof out);
    assert_string_equal(out, "");
    assert_refused(&r, "p: 'bin/x' is no absolute path");
}

static void a_digest_has_64_lower_case_digits(void **state) {
    (void)state;
    static const char good[] = "{\"h\":\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"}";
    static const char *const wrong[] = {"{\"h\":\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\"}",
                                        "{\"h\":\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0\"}",
                                        "{\"h\":\"0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef\"}"};
    sk_strict_reader r;
    char hex[SK_SHA256_HEX];
    sk_strict root = root_of(&r, good), h = sk_strict_field(&root, "h");
    sk_strict_sha256(&h, hex);
    assert_int_equal(r.rc, SKIPPY_OK);
    assert_memory_equal(hex, good + 6, 64);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        drop(NULL);
        root = root_of(&r, wrong[i]);
        h = sk_strict_field(&root, "h");
        sk_strict_sha256(&h, hex);
        assert_string_equal(hex, "");
        assert_refused(&r, "h: ");
    }
}

static void a_commit_has_40_or_64_lower_case_digits(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool good;
    } cases[] = {{"{\"c\":\"0123456789abcdef0123456789abcdef01234567\"}", true},
                 {"{\"c\":\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"}", true},
                 {"{\"c\":\"0123456789abcdef0123456789abcdef0123456\"}", false},
                 {"{\"c\":\"0123456789ABCDEF0123456789abcdef01234567\"}", false},
                 {"{\"c\":\"main\"}", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sk_strict_reader r;
        char out[65];
        const sk_strict root = root_of(&r, cases[i].text), c = sk_strict_field(&root, "c");
        sk_strict_commit(&c, out);
        assert_int_equal(r.rc, cases[i].good ? SKIPPY_OK : SKIPPY_E_INVALID);
        assert_int_equal(out[0] != '\0', cases[i].good);
        drop(NULL);
    }
}

static void an_unknown_word_is_refused(void **state) {
    (void)state;
    sk_strict_reader r;
    const char *const names[] = {"one", "two", NULL};
    const sk_strict root = root_of(&r, "{\"c\":\"three\"}"), c = sk_strict_field(&root, "c");
    assert_int_equal(sk_strict_choice(&c, names), 0);
    assert_refused(&r, "c: 'three'");
}

static void unknown_fields_are_refused_by_name(void **state) {
    (void)state;
    sk_strict_reader r;
    const char *const known[] = {"a", NULL};
    sk_strict root = root_of(&r, "{\"a\":{\"a\":1,\"b\":2}}");
    sk_strict_known(&root, known);
    assert_int_equal(r.rc, SKIPPY_OK);
    const sk_strict a = sk_strict_field(&root, "a");
    sk_strict_known(&a, known);
    assert_refused(&r, "a: there is no field 'b' here");
    drop(NULL);
    root = root_of(&r, "[1]");
    sk_strict_known(&root, known);
    assert_refused(&r, "the document: must be an object, not an array");
}

static void a_missing_field_is_refused_only_where_it_is_needed(void **state) {
    (void)state;
    sk_strict_reader r;
    const sk_strict root = root_of(&r, "{\"z\":null}");
    sk_strict_field(&root, "a");
    assert_int_equal(r.rc, SKIPPY_OK);
    sk_strict_need(&root, "z");
    assert_refused(&r, "z: is missing");
}

static void the_path_of_a_deep_value_is_in_the_error(void **state) {
    (void)state;
    sk_strict_reader r;
    const sk_strict root = root_of(&r, "{\"plan\":{\"concurrency\":[1,2,3,\"x\"]}}");
    const sk_strict plan = sk_strict_field(&root, "plan"), list = sk_strict_field(&plan, "concurrency");
    assert_int_equal(sk_strict_count(&list, 1, 4), 4);
    const sk_strict item = sk_strict_item(&list, 3);
    sk_strict_int(&item, 1, 2, 0);
    assert_refused(&r, "plan.concurrency[3]: must be a whole number, not a text");
}

static void an_array_has_bounds(void **state) {
    (void)state;
    for (size_t n = 0; n < 2; n++) {
        sk_strict_reader r;
        const sk_strict root = root_of(&r, n == 0 ? "{\"a\":[1,2,3]}" : "{\"a\":[1]}"), a = sk_strict_field(&root, "a");
        assert_int_equal(sk_strict_count(&a, 2, 2), 0);
        assert_refused(&r, "a: has ");
        drop(NULL);
    }
    sk_strict_reader r;
    const sk_strict root = root_of(&r, "{\"a\":{}}"), a = sk_strict_field(&root, "a");
    assert_int_equal(sk_strict_count(&a, 0, 2), 0);
    assert_refused(&r, "a: must be an array, not an object");
}

static void the_first_error_stays(void **state) {
    (void)state;
    sk_strict_reader r;
    const sk_strict root = root_of(&r, "{\"a\":1,\"b\":2}");
    const sk_strict a = sk_strict_field(&root, "a"), b = sk_strict_field(&root, "b");
    sk_strict_int(&a, 5, 6, 0);
    assert_int_equal(sk_strict_int(&b, 0, 9, 7), 7); /* after an error nothing is read */
    sk_strict_refuse(&b, SKIPPY_E_IO, "later");
    assert_refused(&r, "a: 1 is out of bounds: 5 to 6");
}

static void another_version_is_named_before_its_fields(void **state) {
    (void)state;
    sk_strict_reader r;
    sk_strict root = root_of(&r, "{\"schema_version\":2,\"new\":1}");
    sk_strict_version(&root, 1);
    assert_refused(&r, "schema_version: 2 is not known here");
    drop(NULL);
    root = root_of(&r, "{}");
    sk_strict_version(&root, 1);
    assert_refused(&r, "schema_version: is missing");
    drop(NULL);
    root = root_of(&r, "7");
    sk_strict_version(&root, 1);
    assert_refused(&r, "the document: must be an object");
}

static void a_very_long_path_is_cut_and_stays_a_text(void **state) {
    (void)state;
    sk_strict_reader r;
    char name[300];
    const sk_strict root = root_of(&r, "{}");
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    const sk_strict field = sk_strict_field(&root, name), deeper = sk_strict_field(&field, name);
    const sk_strict item = sk_strict_item(&deeper, 12);
    assert_true(strlen(field.path) < SK_STRICT_PATH);
    assert_true(strlen(deeper.path) < SK_STRICT_PATH);
    assert_string_equal(item.path + strlen(item.path) - 4, "[12]");
}

/* ---- files ---- */

static const char *write_file(const char *text, size_t len) {
    static char path[64];
    snprintf(path, sizeof path, "strict-test-%d.json", (int)getpid());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
    return path;
}

static int load(const char *text, size_t limit, char hex[SK_SHA256_HEX]) {
    const char *path = write_file(text, strlen(text));
    const int rc = sk_strict_load(path, limit, &document, hex, &err);
    unlink(path);
    return rc;
}

static void a_file_is_read_with_its_digest(void **state) {
    (void)state;
    char hex[SK_SHA256_HEX], expected[SK_SHA256_HEX];
    assert_int_equal(load("{\"a\":1}", 7, hex), SKIPPY_OK);
    assert_int_equal(json_integer_value(json_object_get(document, "a")), 1);
    sk_sha256_text("{\"a\":1}", 7, expected);
    assert_string_equal(hex, expected);
}

static void a_bad_file_is_refused(void **state) {
    (void)state;
    assert_int_equal(load("{\"a\":1}", 6, NULL), SKIPPY_E_TOO_LARGE);
    assert_null(document);
    assert_int_equal(load("{\"a\":1,\"a\":2}", 99, NULL), SKIPPY_E_INVALID); /* duplicate */
    assert_int_equal(load("{\n\"a\" 1}", 99, NULL), SKIPPY_E_INVALID);
    assert_non_null(strstr(err.text, "line 2"));
    assert_int_equal(load("", 99, NULL), SKIPPY_E_INVALID);
    assert_int_equal(sk_strict_load("strict-test-nowhere", 99, &document, NULL, &err), SKIPPY_E_NOT_FOUND);
    assert_int_equal(sk_strict_load(".", 99, &document, NULL, &err), SKIPPY_E_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(allowed_values_are_read, drop),
        cmocka_unit_test(a_number_must_be_whole_and_within_its_bounds),
        cmocka_unit_test(a_text_must_fit_and_have_no_control_characters),
        cmocka_unit_test_teardown(a_relative_path_is_refused, drop),
        cmocka_unit_test_teardown(a_digest_has_64_lower_case_digits, drop),
        cmocka_unit_test_teardown(a_commit_has_40_or_64_lower_case_digits, drop),
        cmocka_unit_test_teardown(an_unknown_word_is_refused, drop),
        cmocka_unit_test_teardown(unknown_fields_are_refused_by_name, drop),
        cmocka_unit_test_teardown(a_missing_field_is_refused_only_where_it_is_needed, drop),
        cmocka_unit_test_teardown(the_path_of_a_deep_value_is_in_the_error, drop),
        cmocka_unit_test_teardown(an_array_has_bounds, drop),
        cmocka_unit_test_teardown(the_first_error_stays, drop),
        cmocka_unit_test_teardown(another_version_is_named_before_its_fields, drop),
        cmocka_unit_test_teardown(a_very_long_path_is_cut_and_stays_a_text, drop),
        cmocka_unit_test_teardown(a_file_is_read_with_its_digest, drop),
        cmocka_unit_test_teardown(a_bad_file_is_refused, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
