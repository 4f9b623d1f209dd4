/* Typed access to the members of a JSON object that came from a client. An absent or null member leaves *out as it is,
 * so a default set before stays. Each function returns 0, or the HTTP status with *err filled and the member as its
 * param. */
#ifndef SKIPPY_OPENAI_FIELDS_H
#define SKIPPY_OPENAI_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "openai/error.h"

/* Parses a request body: one JSON object, strict, UTF-8, at most 2048 levels deep; "\u0000" is allowed inside strings.
 * On success *out is a new reference. */
int sk_fields_parse(const char *body, size_t len, json_t **out, sk_api_error *err);

/* The member, or NULL when it is absent or null. */
const json_t *sk_field(const json_t *obj, const char *name);
/* What a value is, for messages: "a string", "an array" ... */
const char *sk_field_kind(const json_t *value);

int sk_field_bool(const json_t *obj, const char *name, bool *out, sk_api_error *err);
int sk_field_int(const json_t *obj, const char *name, int64_t min, int64_t max, int64_t *out, sk_api_error *err);
/* A finite number within [min, max] after conversion to float. */
int sk_field_float(const json_t *obj, const char *name, double min, double max, float *out, sk_api_error *err);
/* A string without NUL characters; borrowed from obj. */
int sk_field_string(const json_t *obj, const char *name, const char **out, sk_api_error *err);
/* A member of the given type, borrowed from obj. */
int sk_field_object(const json_t *obj, const char *name, const json_t **out, sk_api_error *err);
int sk_field_array(const json_t *obj, const char *name, const json_t **out, sk_api_error *err);

/* True when a JSON string has a NUL inside, which C strings cannot hold. */
bool sk_json_has_nul(const json_t *string);

#endif
