/* The checker of schemas must be able to say no. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "correctness/schema_check.h"

static const char SCHEMA[] = "{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{"
                             "\"a\":{\"type\":\"integer\"},\"b\":{\"type\":[\"string\",\"null\"]},"
                             "\"c\":{\"type\":\"string\",\"enum\":[\"x\",\"y\"]},"
                             "\"d\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/one\"}}},"
                             "\"$defs\":{\"one\":{\"type\":\"object\",\"required\":[\"n\"],"
                             "\"properties\":{\"n\":{\"type\":\"number\"}}}}}";

static bool matches(const char *text, const char *words) {
    char why[256] = "";
    json_t *schema = json_loads(SCHEMA, 0, NULL), *value = json_loads(text, 0, NULL);
    assert_non_null(schema);
    assert_non_null(value);
    bool ok = schema_matches(value, schema, schema, why, sizeof why);
    if (words && !strstr(why, words)) fail_msg("'%s' is not in: %s", words, why);
    json_decref(schema);
    json_decref(value);
    return ok;
}

static void what_the_schema_describes_matches(void **state) {
    (void)state;
    assert_true(matches("{\"a\":1}", NULL));
    assert_true(matches("{\"a\":1,\"b\":null,\"c\":\"y\",\"d\":[{\"n\":0.5},{\"n\":2}]}", NULL));
}

static void what_it_does_not_describe_does_not(void **state) {
    (void)state;
    assert_false(matches("{}", "missing field 'a'"));
    assert_false(matches("{\"a\":1.5}", "a: another type"));
    assert_false(matches("{\"a\":1,\"b\":2}", "b: another type"));
    assert_false(matches("{\"a\":1,\"c\":\"z\"}", "c: none of"));
    assert_false(matches("{\"a\":1,\"d\":[{\"n\":1},{}]}", "d: []: missing field 'n'"));
    assert_false(matches("{\"a\":1,\"e\":0}", "undocumented field 'e'"));
    assert_false(matches("[]", "another type"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_schema_describes_matches),
        cmocka_unit_test(what_it_does_not_describe_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
