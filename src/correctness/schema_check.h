/* Holds JSON against a schema file in tests: the words type, required, properties, items, enum and $ref into $defs of
 * JSON Schema, nothing else. */
#ifndef SKIPPY_CORRECTNESS_SCHEMA_CHECK_H
#define SKIPPY_CORRECTNESS_SCHEMA_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Fails the running test with the place and the reason. path: relative to the source tree. */
void assert_matches_schema(json_t *value, const char *path);

/* False with words when the value does not match. An object's field that the schema does not list does not match
 * either: a report may not grow fields that its description lacks. */
bool schema_matches(json_t *value, const json_t *schema, const json_t *root, char *why, size_t cap);

#endif
