#include "correctness/schema_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool is_type(const json_t *v, const char *type) {
    if (strcmp(type, "object") == 0) return json_is_object(v);
    if (strcmp(type, "array") == 0) return json_is_array(v);
    if (strcmp(type, "string") == 0) return json_is_string(v);
    if (strcmp(type, "integer") == 0) return json_is_integer(v);
    if (strcmp(type, "number") == 0) return json_is_number(v);
    if (strcmp(type, "boolean") == 0) return json_is_boolean(v);
    return strcmp(type, "null") == 0 && json_is_null(v);
}

static bool type_matches(const json_t *v, const json_t *types) {
    size_t i;
    const json_t *t;
    if (json_is_string(types)) return is_type(v, json_string_value(types));
    json_array_foreach(types, i, t) if (is_type(v, json_string_value(t))) return true;
    return types == NULL;
}

static bool enum_matches(const json_t *v, const json_t *values) {
    size_t i;
    const json_t *one;
    json_array_foreach(values, i, one) if (json_equal(v, one)) return true;
    return values == NULL;
}

static bool no(char *why, size_t cap, const char *what, const char *name) {
    snprintf(why, cap, "%s '%s'", what, name);
    return false;
}

/* Puts the field's name in front of the reason. */
static bool no_in(char *why, size_t cap, const char *key) {
    char inner[256];
    snprintf(inner, sizeof inner, "%.200s", why);
    snprintf(why, cap, "%.40s: %.200s", key, inner);
    return false;
}

static bool object_matches(json_t *v, const json_t *schema, const json_t *root, char *why, size_t cap) {
    const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
    size_t i;
    json_t *one;
    const char *key;
    json_array_foreach(required, i, one) if (!json_object_get(v, json_string_value(one))) return no(
        why, cap, "missing field", json_string_value(one));
    json_object_foreach(v, key, one) {
        const json_t *inner = json_object_get(properties, key);
        if (!inner) return no(why, cap, "undocumented field", key);
        if (!schema_matches(one, inner, root, why, cap)) return no_in(why, cap, key);
    }
    return true;
}

static const json_t *resolve(const json_t *schema, const json_t *root) {
    static const char prefix[] = "#/$defs/";
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    if (!ref || strncmp(ref, prefix, sizeof prefix - 1) != 0) return schema;
    return json_object_get(json_object_get(root, "$defs"), ref + sizeof prefix - 1);
}

bool schema_matches(json_t *value, const json_t *schema, const json_t *root, char *why, size_t cap) {
    schema = resolve(schema, root);
    if (!schema) return no(why, cap, "the schema lacks", "$ref");
    if (!type_matches(value, json_object_get(schema, "type"))) return no(why, cap, "another type than", "type");
    if (!enum_matches(value, json_object_get(schema, "enum"))) return no(why, cap, "none of", "enum");
    if (json_is_object(value)) return object_matches(value, schema, root, why, cap);
    const json_t *items = json_object_get(schema, "items");
    json_t *one;
    size_t i;
    json_array_foreach(value, i, one) if (items && !schema_matches(one, items, root, why, cap)) return no_in(why, cap,
                                                                                                             "[]");
    return true;
}

void assert_matches_schema(json_t *value, const char *path) {
    char whole[1024], why[256] = "";
    json_error_t where;
    const char *source = getenv("SKIPPY_SOURCE_DIR");
    snprintf(whole, sizeof whole, "%s/%s", source ? source : ".", path);
    json_t *schema = json_load_file(whole, JSON_REJECT_DUPLICATES, &where);
    if (!schema) fail_msg("%s: %s", whole, where.text);
    bool ok = schema_matches(value, schema, schema, why, sizeof why);
    json_decref(schema);
    if (!ok) fail_msg("the value does not match %s: %s", path, why);
}
