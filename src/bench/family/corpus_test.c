/* The use-case corpus: what is read, what is refused and in which words, and the file that is delivered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/test_folder.h"
#include "bench/family/corpus.h"

#define SOURCE "\"source\":{\"dataset\":\"a/b\",\"config\":\"main\",\"split\":\"test\",\"row_idx\":7,\"written\":true}"
#define CASE(KEY) "{\"key\":\"" KEY "\",\"label\":\"Chat\",\"prompt\":\"Hello\\nyou\",\"prefix_tokens\":64," SOURCE "}"
#define ONE "{\"version\":1,\"use_cases\":[" CASE("chat") "]}"

static void parse_ok(const char *text, sk_corpus *c) {
    sk_err e = {0};
    if (sk_corpus_parse(text, strlen(text), c, &e) != SKIPPY_OK) fail_msg("refused: %s (%.300s)", e.text, text);
}

static void refused_with(const char *text, size_t len, int code, const char *words) {
    sk_corpus c;
    sk_err e = {0};
    const int rc = sk_corpus_parse(text, len, &c, &e);
    if (rc != code) fail_msg("code %d instead of %d for %.300s: %s", rc, code, text, e.text);
    if (e.code != code || !strstr(e.text, words)) fail_msg("'%s' is not in: %s", words, e.text);
    assert_null(c.v);
    assert_int_equal(c.n, 0);
    assert_int_equal(sk_corpus_parse(text, len, &c, NULL), code); /* words are optional */
}

static void refused(const char *text, const char *words) {
    refused_with(text, strlen(text), SKIPPY_E_INVALID, words);
}

/* ONE with the first `from` replaced. */
static void replace(const char *from, const char *to, sk_buf *out) {
    const char *at = strstr(ONE, from);
    assert_non_null(at);
    sk_buf_add(out, ONE, (size_t)(at - ONE));
    sk_buf_str(out, to);
    sk_buf_str(out, at + strlen(from));
    assert_false(out->failed);
}

static void refused_change(const char *from, const char *to, const char *words) {
    sk_buf text = {0};
    replace(from, to, &text);
    refused(text.data, words);
    sk_buf_free(&text);
}

static void fill(sk_buf *b, char c, size_t n) {
    while (n-- > 0) sk_buf_add(b, &c, 1);
}

/* `field":"value` of ONE with n letters as the value; the caller frees. */
static sk_buf with_long(const char *field, const char *value, size_t n) {
    char from[64];
    sk_buf to = {0}, text = {0};
    snprintf(from, sizeof from, "\"%s\":\"%s\"", field, value);
    sk_buf_printf(&to, "\"%s\":\"", field);
    fill(&to, 'x', n);
    sk_buf_str(&to, "\"");
    assert_false(to.failed);
    replace(from, to.data, &text);
    sk_buf_free(&to);
    return text;
}

static void expect_limit(const char *field, const char *value, size_t max, const char *words) {
    sk_corpus c;
    sk_buf fits = with_long(field, value, max), longer = with_long(field, value, max + 1);
    parse_ok(fits.data, &c);
    sk_corpus_free(&c);
    refused(longer.data, words);
    sk_buf_free(&fits);
    sk_buf_free(&longer);
}

/* A corpus of n use cases with different keys. */
static sk_buf many(size_t n) {
    sk_buf b = {0};
    sk_buf_str(&b, "{\"version\":1,\"use_cases\":[");
    for (size_t i = 0; i < n; i++) {
        sk_buf_printf(&b, "%s{\"key\":\"k%zu\",\"label\":\"K\",\"prompt\":\"p\"," SOURCE "}", i ? "," : "", i);
    }
    sk_buf_str(&b, "]}");
    assert_false(b.failed);
    return b;
}

/* ---- reading ---- */

static void every_field_arrives_as_it_was_written(void **state) {
    (void)state;
    sk_corpus c;
    parse_ok(ONE, &c);
    assert_int_equal(c.n, 1);
    assert_string_equal(c.v[0].key, "chat");
    assert_string_equal(c.v[0].label, "Chat");
    assert_string_equal(c.v[0].prompt, "Hello\nyou");
    assert_int_equal(c.v[0].prefix_tokens, 64);
    assert_string_equal(c.v[0].dataset, "a/b");
    assert_string_equal(c.v[0].config, "main");
    assert_string_equal(c.v[0].split, "test");
    assert_int_equal(c.v[0].row_idx, 7);
    assert_true(c.v[0].written);
    sk_corpus_free(&c);
    assert_null(c.v);
}

static void absent_options_have_their_defaults(void **state) {
    (void)state;
    sk_corpus c;
    parse_ok(
        "{\"version\":1,\"use_cases\":[{\"key\":\"a\",\"label\":\"A\",\"prompt\":\"p\",\"source\":{\"dataset\":\"d\","
        "\"config\":\"c\",\"split\":\"s\",\"row_idx\":0}}]}",
        &c);
    assert_int_equal(c.v[0].prefix_tokens, 128);
    assert_false(c.v[0].written); /* a row of the dataset unless the file says otherwise */
    sk_corpus_free(&c);
}

static void the_digest_is_that_of_the_bytes(void **state) {
    (void)state;
    sk_corpus c;
    char hex[SK_SHA256_HEX];
    sk_sha256_text(ONE, strlen(ONE), hex);
    parse_ok(ONE, &c);
    assert_string_equal(c.sha256, hex);
    sk_corpus_free(&c);
    parse_ok(ONE "\n", &c);
    assert_string_not_equal(c.sha256, hex);
    sk_corpus_free(&c);
}

static void a_use_case_is_found_by_its_key(void **state) {
    (void)state;
    sk_corpus c;
    parse_ok("{\"version\":1,\"use_cases\":[" CASE("one") "," CASE("two") "]}", &c);
    assert_ptr_equal(sk_corpus_find(&c, "two"), &c.v[1]);
    assert_null(sk_corpus_find(&c, "three"));
    sk_corpus_free(&c);
}

static void the_eight_keys_come_first_and_in_order(void **state) {
    (void)state;
    size_t n = 0;
    for (const char *key; (key = sk_use_case_key_at(n)) != NULL; n++) assert_int_equal(sk_use_case_rank(key), n);
    assert_int_equal(n, 8);
    assert_int_equal(sk_use_case_rank("something_else"), 8);
}

/* ---- refusing ---- */

static void text_that_is_no_corpus_is_refused(void **state) {
    (void)state;
    refused("", "no valid JSON: line 1");
    refused("{\"version\":1,", "no valid JSON");
    refused("[]", "the document: must be an object");
    refused("{}", "version: is missing");
    refused("{\"version\":1}", "use_cases: is missing");
    refused("{\"version\":1,\"use_cases\":{}}", "use_cases: must be an array");
    refused("{\"version\":1,\"use_cases\":[3]}", "use_cases[0]: must be an object, not a whole number");
    refused_change("\"version\":1", "\"version\":2", "version: 2 is not known; this program reads version 1");
    refused_change("\"version\":1", "\"version\":\"1\"", "version: must be a whole number");
    refused_change("\"version\":1", "\"version\":1,\"comment\":\"x\"", "there is no field 'comment' here");
}

static void another_version_is_named_before_its_fields(void **state) {
    (void)state;
    refused("{\"version\":9,\"cases\":[]}", "version: 9 is not known");
}

static void a_wrong_field_is_named_with_its_use_case(void **state) {
    (void)state;
    refused_change("\"prefix_tokens\":64", "\"prefix_tokens\":0", "use case 'chat'.prefix_tokens: 0 is out of bounds");
    refused_change("\"prefix_tokens\":64", "\"prefix_tokens\":65537", "use case 'chat'.prefix_tokens: 65537");
    refused_change("\"prefix_tokens\":64", "\"prefix_tokens\":1.5", "'chat'.prefix_tokens: must be a whole number");
    refused_change("\"label\":\"Chat\"", "\"label\":5", "use case 'chat'.label: must be a text");
    refused_change("\"label\":\"Chat\",", "", "use case 'chat'.label: is missing");
    refused_change("\"label\":\"Chat\"", "\"label\":\"a\\u001bb\"", "use case 'chat'.label: has control characters");
    refused_change("\"prompt\":\"Hello\\nyou\",", "", "use case 'chat'.prompt: is missing");
    refused_change("\"prompt\":\"Hello\\nyou\"", "\"prompt\":[]", "use case 'chat'.prompt: must be a text");
    refused_change("\"prompt\":\"Hello\\nyou\"", "\"prompt\":\"\"", "use case 'chat'.prompt: has 0 bytes");
    refused_change("\"prefix_tokens\"", "\"prefix\"", "use case 'chat': there is no field 'prefix' here");
}

static void a_wrong_source_is_named_with_its_field(void **state) {
    (void)state;
    refused_change("," SOURCE, "", "use case 'chat'.source: is missing");
    refused_change(SOURCE, "\"source\":\"a/b\"", "use case 'chat'.source: must be an object");
    refused_change("\"dataset\":\"a/b\",", "", "use case 'chat'.source.dataset: is missing");
    refused_change("\"config\":\"main\",", "", "use case 'chat'.source.config: is missing");
    refused_change("\"split\":\"test\",", "", "use case 'chat'.source.split: is missing");
    refused_change("\"row_idx\":7,", "", "use case 'chat'.source.row_idx: is missing");
    refused_change("\"row_idx\":7", "\"row_idx\":-1", "use case 'chat'.source.row_idx: -1 is out of bounds");
    refused_change("\"written\":true", "\"written\":1", "use case 'chat'.source.written: must be true or false");
    refused_change("\"split\"", "\"part\"", "use case 'chat'.source: there is no field 'part' here");
}

static void keys_are_plain_and_unique(void **state) {
    (void)state;
    refused_change("\"key\":\"chat\",", "", "use_cases[0].key: is missing");
    refused_change("\"key\":\"chat\"", "\"key\":7", "use_cases[0].key: must be a text");
    refused_change("\"key\":\"chat\"", "\"key\":\"\"", "use_cases[0].key: has 0 bytes");
    refused_change("\"key\":\"chat\"", "\"key\":\"Open chat\"", "use_cases[0].key: 'Open chat' may hold only a-z");
    refused_change("\"key\":\"chat\"", "\"key\":\"../etc\"", "use_cases[0].key: '../etc' may hold only");
    refused("{\"version\":1,\"use_cases\":[" CASE("a") "," CASE("b") "," CASE("a") "]}",
            "use case 'a': there is another one with this key");
}

static void a_field_that_stands_twice_is_refused(void **state) {
    (void)state;
    refused_change("\"label\":\"Chat\"", "\"label\":\"Chat\",\"label\":\"Other\"", "duplicate");
}

static void a_zero_byte_in_a_prompt_is_refused(void **state) {
    (void)state;
    refused_change("Hello", "Hel\\u0000lo", "no valid JSON");
}

static void text_that_is_not_utf8_is_refused(void **state) {
    (void)state;
    refused_change("Hello", "Hel\xff", "no valid JSON");
}

static void lengths_end_where_the_header_says(void **state) {
    (void)state;
    expect_limit("prompt", "Hello\\nyou", SK_CORPUS_MAX_PROMPT, "'chat'.prompt: has 65537 bytes; 1 to 65536");
    expect_limit("label", "Chat", 255, "use case 'chat'.label: has 256 bytes");
    expect_limit("key", "chat", 63, "use_cases[0].key: has 64 bytes");
    expect_limit("dataset", "a/b", 255, "use case 'chat'.source.dataset: has 256 bytes");
}

static void a_corpus_has_1_to_128_use_cases(void **state) {
    (void)state;
    sk_corpus c;
    sk_buf most = many(SK_CORPUS_MAX_USE_CASES), more = many(SK_CORPUS_MAX_USE_CASES + 1), none = many(0);
    parse_ok(most.data, &c);
    assert_int_equal(c.n, SK_CORPUS_MAX_USE_CASES);
    sk_corpus_free(&c);
    refused(more.data, "use_cases: has 129 elements");
    refused(none.data, "use_cases: has 0 elements");
    sk_buf_free(&most);
    sk_buf_free(&more);
    sk_buf_free(&none);
}

static void more_than_16_mib_are_not_parsed(void **state) {
    (void)state;
    sk_corpus c;
    sk_buf text = {0};
    sk_buf_str(&text, ONE);
    assert_true(sk_buf_reserve(&text, SK_CORPUS_MAX_FILE));
    memset(text.data + text.len, ' ', SK_CORPUS_MAX_FILE + 1 - text.len);
    text.len = SK_CORPUS_MAX_FILE + 1;
    text.data[text.len] = '\0';
    refused_with(text.data, text.len, SKIPPY_E_TOO_LARGE, "at most 16777216");
    assert_int_equal(sk_corpus_parse(text.data, SK_CORPUS_MAX_FILE, &c, NULL), SKIPPY_OK);
    sk_corpus_free(&c);
    sk_buf_free(&text);
}

/* ---- files ---- */

static void write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void a_file_reads_like_its_text_and_errors_name_it(void **state) {
    (void)state;
    char folder[] = "/tmp/skippy-corpus-XXXXXX", path[64];
    sk_corpus c, same;
    sk_err e = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/corpus.json", folder);

    assert_int_equal(sk_corpus_load(path, &c, &e), SKIPPY_E_NOT_FOUND);
    assert_non_null(strstr(e.text, path));

    write_file(path, ONE);
    assert_int_equal(sk_corpus_load(path, &c, &e), SKIPPY_OK);
    parse_ok(ONE, &same);
    assert_string_equal(c.sha256, same.sha256);
    assert_string_equal(c.v[0].prompt, same.v[0].prompt);
    sk_corpus_free(&c);
    sk_corpus_free(&same);

    write_file(path, "{\"version\":4}");
    assert_int_equal(sk_corpus_load(path, &c, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "corpus.json': version: 4"));
    assert_null(c.v);
    assert_int_equal(sk_corpus_load(path, &c, NULL), SKIPPY_E_INVALID);

    write_file(path, "");
    assert_int_equal(truncate(path, SK_CORPUS_MAX_FILE + 1), 0);
    assert_int_equal(sk_corpus_load(path, &c, &e), SKIPPY_E_TOO_LARGE);
    assert_int_equal(sk_corpus_load(folder, &c, &e), SKIPPY_E_IO);
    assert_int_equal(test_remove_tree(folder), 0);
}

/* ---- the delivered file ---- */

static size_t words_of(const char *text) {
    size_t n = 0;
    for (bool inside = false; *text; text++) {
        const bool letter = (unsigned char)*text > ' ';
        n += letter && !inside;
        inside = letter;
    }
    return n;
}

static void load_delivered(sk_corpus *c) {
    char path[1024];
    sk_err e = {0};
    const char *source = getenv("SKIPPY_SOURCE_DIR");
    snprintf(path, sizeof path, "%s/evals/skippy-usecase-corpus.json", source ? source : ".");
    if (sk_corpus_load(path, c, &e) != SKIPPY_OK) fail_msg("%s", e.text);
}

static void the_delivered_corpus_has_the_eight_use_cases_in_order(void **state) {
    (void)state;
    sk_corpus c;
    load_delivered(&c);
    assert_int_equal(c.n, 8);
    for (size_t i = 0; i < c.n; i++) {
        assert_string_equal(c.v[i].key, sk_use_case_key_at(i));
        assert_int_equal(c.v[i].prefix_tokens, 128);
        assert_true(c.v[i].written);
        assert_in_range(words_of(c.v[i].prompt), 600, 2500);
    }
    sk_corpus_free(&c);
}

/* Equal beginnings would let a server take one use case's prefix for another's. */
static void the_delivered_prompts_differ_from_the_first_words_on(void **state) {
    (void)state;
    enum { SHARED = 24 };
    sk_corpus c;
    load_delivered(&c);
    for (size_t i = 0; i < c.n; i++) {
        for (size_t j = 0; j < i; j++) assert_int_not_equal(strncmp(c.v[i].prompt, c.v[j].prompt, SHARED), 0);
    }
    sk_corpus_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_arrives_as_it_was_written),
        cmocka_unit_test(absent_options_have_their_defaults),
        cmocka_unit_test(the_digest_is_that_of_the_bytes),
        cmocka_unit_test(a_use_case_is_found_by_its_key),
        cmocka_unit_test(the_eight_keys_come_first_and_in_order),
        cmocka_unit_test(text_that_is_no_corpus_is_refused),
        cmocka_unit_test(another_version_is_named_before_its_fields),
        cmocka_unit_test(a_wrong_field_is_named_with_its_use_case),
        cmocka_unit_test(a_wrong_source_is_named_with_its_field),
        cmocka_unit_test(keys_are_plain_and_unique),
        cmocka_unit_test(a_field_that_stands_twice_is_refused),
        cmocka_unit_test(a_zero_byte_in_a_prompt_is_refused),
        cmocka_unit_test(text_that_is_not_utf8_is_refused),
        cmocka_unit_test(lengths_end_where_the_header_says),
        cmocka_unit_test(a_corpus_has_1_to_128_use_cases),
        cmocka_unit_test(more_than_16_mib_are_not_parsed),
        cmocka_unit_test(a_file_reads_like_its_text_and_errors_name_it),
        cmocka_unit_test(the_delivered_corpus_has_the_eight_use_cases_in_order),
        cmocka_unit_test(the_delivered_prompts_differ_from_the_first_words_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
