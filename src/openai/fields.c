#include "openai/fields.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

int sk_fields_parse(const char *body, size_t len, json_t **out, sk_api_error *err) {
    json_error_t e;
    *out = NULL;
    if (len == 0) return sk_api_invalid(err, NULL, "the request body is empty; a JSON object is expected");
    json_t *root = json_loadb(body, len, JSON_ALLOW_NUL, &e);
    if (!root)
        return sk_api_invalid(err, NULL, "the request body is not valid JSON: %.200s (line %d, column %d)", e.text,
                              e.line, e.column);
    if (!json_is_object(root)) {
        int rc = sk_api_invalid(err, NULL, "the request body is %s; a JSON object is expected", sk_field_kind(root));
        json_decref(root);
        return rc;
    }
    *out = root;
    return 0;
}

const json_t *sk_field(const json_t *obj, const char *name) {
    const json_t *v = json_object_get(obj, name);
    return json_is_null(v) ? NULL : v;
}

const char *sk_field_kind(const json_t *value) {
    if (!value) return "missing";
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    case JSON_NULL: return "null";
    }
    return "unknown";
}

static int wrong_type(const char *name, const char *wanted, const json_t *value, sk_api_error *err) {
    return sk_api_invalid(err, name, "'%s' must be %s, but it is %s", name, wanted, sk_field_kind(value));
}

int sk_field_bool(const json_t *obj, const char *name, bool *out, sk_api_error *err) {
    const json_t *v = sk_field(obj, name);
    if (!v) return 0;
    if (!json_is_boolean(v)) return wrong_type(name, "a boolean", v, err);
    *out = json_is_true(v);
    return 0;
}

int sk_field_int(const json_t *obj, const char *name, int64_t min, int64_t max, int64_t *out, sk_api_error *err) {
    const json_t *v = sk_field(obj, name);
    if (!v) return 0;
    int64_t value;
    if (json_is_integer(v)) {
        value = json_integer_value(v);
    } else if (json_is_real(v) && fabs(json_real_value(v)) < 9e15 && floor(json_real_value(v)) == json_real_value(v)) {
        value = (int64_t)json_real_value(v); /* JavaScript clients may send 16.0 */
    } else {
        return wrong_type(name, "an integer", v, err);
    }
    if (value < min || value > max)
        return sk_api_invalid(err, name, "'%s' must be from %" PRId64 " to %" PRId64 ", but it is %" PRId64, name, min,
                              max, value);
    *out = value;
    return 0;
}

int sk_field_float(const json_t *obj, const char *name, double min, double max, float *out, sk_api_error *err) {
    const json_t *v = sk_field(obj, name);
    if (!v) return 0;
    if (!json_is_number(v)) return wrong_type(name, "a number", v, err);
    double value = json_number_value(v);
    if (!isfinite(value) || value < min || value > max)
        return sk_api_invalid(err, name, "'%s' must be from %g to %g, but it is %g", name, min, max, value);
    *out = (float)value;
    return 0;
}

int sk_field_string(const json_t *obj, const char *name, const char **out, sk_api_error *err) {
    const json_t *v = sk_field(obj, name);
    if (!v) return 0;
    if (!json_is_string(v)) return wrong_type(name, "a string", v, err);
    if (sk_json_has_nul(v)) return sk_api_invalid(err, name, "'%s' must not contain a NUL character", name);
    *out = json_string_value(v);
    return 0;
}

int sk_field_object(const json_t *obj, const char *name, const json_t **out, sk_api_error *err) {
    const json_t *v = sk_field(obj, name);
    if (!v) return 0;
    if (!json_is_object(v)) return wrong_type(name, "an object", v, err);
    *out = v;
    return 0;
}

int sk_field_array(const json_t *obj, const char *name, const json_t **out, sk_api_error *err) {
    const json_t *v = sk_field(obj, name);
    if (!v) return 0;
    if (!json_is_array(v)) return wrong_type(name, "an array", v, err);
    *out = v;
    return 0;
}

bool sk_json_has_nul(const json_t *string) {
    return strlen(json_string_value(string)) != json_string_length(string);
}
