/* Bounds on JSON schemas, checked before llama.cpp turns them into grammars: its converter cannot be interrupted, it
 * copies what a $ref points into once for each reference, and it calls itself for each level, and for each character of
 * a name. Pure. */
#ifndef SKIPPY_OPENAI_SCHEMA_CHECK_H
#define SKIPPY_OPENAI_SCHEMA_CHECK_H

#include <jansson.h>
#include <stdint.h>

#include "openai/error.h"

/* Work that the conversion of all schemas of a request may take, in steps of roughly ten microseconds. An object with
 * 400 optional properties takes 80,000, one with 5,000 required ones 5,000, an enum one for each value. */
#define SK_MAX_SCHEMA_STEPS 100000
/* Bytes of a property's name or of a $ref. */
#define SK_MAX_SCHEMA_NAME 512
/* Bytes of a pattern. */
#define SK_MAX_SCHEMA_PATTERN 4096
/* Different values of $ref in one schema. */
#define SK_MAX_SCHEMA_REFS 512
/* Levels below the root, those behind references included. */
#define SK_MAX_SCHEMA_DEPTH 512

/* Checks one schema; nesting must be bounded before (SK_MAX_NESTING). *steps is the work of the request's other schemas
 * and is increased. Returns 0 or 400, with a message that names the limit and the value. */
int sk_schema_check(const json_t *schema, const char *param, uint64_t *steps, sk_api_error *err);

#endif
