/* The sizes of a run as JSON, with their bounds: the same fields stand in an operator's plan and in
 * cache-family-input.json. Pure. */
#ifndef SKIPPY_BENCH_FAMILY_SIZES_JSON_H
#define SKIPPY_BENCH_FAMILY_SIZES_JSON_H

#include <jansson.h>

#include "bench/family/sizes.h"
#include "bench/family/strict.h"

/* One uint32_t of sk_family_sizes. */
typedef struct sk_sizes_field {
    const char *name;
    size_t offset;
    uint32_t min, max;
} sk_sizes_field;

/* Room for the names of all fields, with those that are no plain numbers. */
enum { SK_SIZES_MAX_NAMES = 24 };

/* Fills the names of all fields; returns their number. */
size_t sk_sizes_names(const char *names[SK_SIZES_MAX_NAMES]);
/* NULL for an unknown name. */
const sk_sizes_field *sk_sizes_field_find(const char *name);
uint32_t *sk_sizes_value(sk_family_sizes *s, const sk_sizes_field *f);
/* Reads the fields of an object; what is absent stays as it is, or is refused when all are needed. */
void sk_sizes_read(const sk_strict *v, bool all_needed, sk_family_sizes *s);
/* A new reference; NULL when out of memory. */
json_t *sk_sizes_json(const sk_family_sizes *s);

#endif
