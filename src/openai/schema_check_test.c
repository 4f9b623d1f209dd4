/* Which JSON schemas are given to llama.cpp's converter, and which are too much for it. */
#include "openai/schema_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "openai/chat_bridge.h"

static sk_api_error err;

static int check_text(const char *text) {
    uint64_t steps = 0;
    json_error_t e;
    json_t *schema = json_loads(text, 0, &e);
    if (!schema) fail_msg("%s in %.200s", e.text, text);
    memset(&err, 0, sizeof err);
    int status = sk_schema_check(schema, "the_schema", &steps, &err);
    json_decref(schema);
    return status;
}

/* Accepted, and the converter agrees. */
static void accept(const char *text) {
    char *grammar = NULL;
    sk_err e = {0};
    if (check_text(text) != 0) fail_msg("%s: %.300s", err.message, text);
    if (sk_chat_schema_grammar(text, &grammar, &e) != SKIPPY_OK) fail_msg("%s: %.300s", e.text, text);
    free(grammar);
}

static void refuse(const char *text, const char *why) {
    assert_int_equal(check_text(text), 400);
    assert_string_equal(err.param, "the_schema");
    if (!strstr(err.message, why)) fail_msg("'%s' does not say '%s'", err.message, why);
}

/* begin, then n times item with its number in place of %d, joined with commas, then end. */
static const char *repeated(sk_buf *b, const char *begin, const char *item, int n, const char *end) {
    sk_buf_clear(b);
    sk_buf_str(b, begin);
    for (int i = 0; i < n; i++) {
        const char *at = strstr(item, "%d");
        if (i) sk_buf_str(b, ",");
        sk_buf_add(b, item, at ? (size_t)(at - item) : strlen(item));
        if (at) sk_buf_printf(b, "%d%s", i, at + 2);
    }
    sk_buf_str(b, end);
    return b->data;
}

static void schemas_of_real_clients_pass(void **state) {
    (void)state;
    sk_buf b = {0};
    accept("{}");
    accept("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":[\"string\",\"null\"]}},\"required\":[\"a\"]}");
    accept("{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"next\":{\"anyOf\":[{\"$ref\":\"#/$defs/n\"},"
           "{\"type\":\"null\"}]}}}},\"$ref\":\"#/$defs/n\"}");
    accept("{\"type\":\"object\",\"properties\":{\"pattern\":{\"type\":\"string\",\"pattern\":\"^[a-z]{1,8}$\"},"
           "\"properties\":{\"type\":\"object\"}}}");
    accept(repeated(&b, "{\"enum\":[", "\"value %d\"", 5000, "]}"));
    accept(repeated(&b, "{\"type\":\"object\",\"properties\":{", "\"p%d\":{\"type\":\"string\"}", 300, "}}"));
    sk_buf_free(&b);
}

static void required_properties_are_cheap_and_optional_ones_are_not(void **state) {
    (void)state;
    sk_buf b = {0}, names = {0};
    static const char item[] = "\"p%d\":{\"type\":\"string\"}";
    repeated(&names, "},\"required\":[", "\"p%d\"", 2000, "]}");
    accept(repeated(&b, "{\"type\":\"object\",\"properties\":{", item, 2000, names.data));
    refuse(repeated(&b, "{\"type\":\"object\",\"properties\":{", item, 500, "}}"), "at most 100000 are allowed");
    sk_buf_free(&b);
    sk_buf_free(&names);
}

static void the_message_says_how_much_it_would_be(void **state) {
    (void)state;
    sk_buf b = {0};
    refuse(repeated(&b, "{\"enum\":[", "%d", 200000, "]}"), "would take 200002 steps");
    refuse(repeated(&b, "{\"enum\":[", "%d", 1200000, "]}"), "at least 1000000 steps");
    sk_buf_free(&b);
}

static void lists_of_types_multiply(void **state) {
    (void)state;
    sk_buf b = {0};
    for (int i = 0; i < 12; i++) sk_buf_str(&b, "{\"type\":[\"array\",\"array\",\"array\"],\"items\":");
    sk_buf_str(&b, "{}");
    for (int i = 0; i < 12; i++) sk_buf_str(&b, "}");
    refuse(b.data, "steps to convert");
    sk_buf_free(&b);
}

static void long_names_and_references_overflow_a_stack_and_are_refused(void **state) {
    (void)state;
    sk_buf b = {0};
    char name[60001];
    memset(name, '!', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    sk_buf_printf(&b, "{\"properties\":{\"%s\":{}}}", name);
    refuse(b.data, "has a name of 60000 bytes; at most 512");
    sk_buf_clear(&b);
    sk_buf_printf(&b, "{\"anyOf\":[{\"$ref\":\"#/%s\"}]}", name);
    refuse(b.data, "\"$ref\" of the JSON schema has 60002 bytes; at most 512");
    sk_buf_clear(&b);
    sk_buf_printf(&b, "{\"type\":\"string\",\"pattern\":\"%s\"}", name);
    refuse(b.data, "pattern of the JSON schema has 60000 bytes; at most 4096");
    sk_buf_free(&b);
}

static void references_in_a_circle_are_refused(void **state) {
    (void)state;
    refuse("{\"$defs\":{\"a\":{\"$ref\":\"#/$defs/a\"}},\"allOf\":[{\"$ref\":\"#/$defs/a\"}]}", "in a circle");
    refuse("{\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},\"b\":{\"$ref\":\"#/$defs/a\"}},"
           "\"allOf\":[{\"$ref\":\"#/$defs/b\"}]}",
           "in a circle");
    /* Through an array, where the converter follows numbers. */
    refuse("{\"anyOf\":[{\"$ref\":\"#/anyOf/0\"}]}", "in a circle");
}

static void many_references_and_deep_chains_of_them_are_refused(void **state) {
    (void)state;
    sk_buf b = {0};
    refuse(repeated(&b, "{\"anyOf\":[", "{\"$ref\":\"#/x/%d\"}", 513, "]}"), "more than 512 different values");
    sk_buf_clear(&b);
    sk_buf_str(&b, "{\"$ref\":\"#/d/0\",\"d\":[");
    for (int i = 0; i < 500; i++) sk_buf_printf(&b, "{\"items\":{\"$ref\":\"#/d/%d\"}},", i + 1);
    sk_buf_str(&b, "{}]}");
    refuse(b.data, "nested more than 512 levels");
    sk_buf_free(&b);
}

/* One large definition is copied for every reference. */
static void references_cost_what_they_copy(void **state) {
    (void)state;
    sk_buf b = {0};
    sk_buf_str(&b, "{\"description\":\"");
    for (int i = 0; i < 100000; i++) sk_buf_str(&b, "0123456789");
    sk_buf_str(&b, "\",\"anyOf\":[");
    for (int i = 0; i < 500; i++) sk_buf_printf(&b, "%s{\"$ref\":\"#/x%d\"}", i ? "," : "", i);
    sk_buf_str(&b, "]}");
    refuse(b.data, "steps to convert");
    sk_buf_free(&b);
}

static void the_schemas_of_a_request_share_one_limit(void **state) {
    (void)state;
    sk_buf b = {0};
    uint64_t steps = 0;
    json_t *schema = json_loads(repeated(&b, "{\"enum\":[", "%d", 40000, "]}"), 0, NULL);
    assert_non_null(schema);
    assert_int_equal(sk_schema_check(schema, "a", &steps, &err), 0);
    assert_int_equal(sk_schema_check(schema, "b", &steps, &err), 0);
    assert_int_equal(sk_schema_check(schema, "c", &steps, &err), 400);
    assert_string_equal(err.param, "c");
    json_decref(schema);
    sk_buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schemas_of_real_clients_pass),
        cmocka_unit_test(required_properties_are_cheap_and_optional_ones_are_not),
        cmocka_unit_test(the_message_says_how_much_it_would_be),
        cmocka_unit_test(lists_of_types_multiply),
        cmocka_unit_test(long_names_and_references_overflow_a_stack_and_are_refused),
        cmocka_unit_test(references_in_a_circle_are_refused),
        cmocka_unit_test(many_references_and_deep_chains_of_them_are_refused),
        cmocka_unit_test(references_cost_what_they_copy),
        cmocka_unit_test(the_schemas_of_a_request_share_one_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
