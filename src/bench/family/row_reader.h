/* Reads fields of a row's JSON and remembers the first one that is wrong. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_ROW_READER_H
#define SKIPPY_BENCH_FAMILY_ROW_READER_H

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"

/* The longest time that a row may name: 1e12 ms are 31 years; more is damage. */
#define SK_ROW_MAX_MS 1e12

typedef struct sk_row_reader {
    json_t *row;
    size_t number; /* of the row in its file, from 1 */
    int rc;        /* SKIPPY_OK until a field is wrong; later fields change nothing then */
    sk_err *e;
} sk_row_reader;

/* The value at a path of names with dots between them ("skippy.status"); NULL when it is not there or null. */
json_t *sk_row_at(json_t *row, const char *path);
/* A string. fallback NULL: it must be there. */
const char *sk_row_text(sk_row_reader *rd, const char *path, const char *fallback);
/* A number that is not negative; 0 when it is not there. */
int64_t sk_row_count_of(sk_row_reader *rd, const char *path);
/* Milliseconds; 0 when it is not there. */
double sk_row_ms(sk_row_reader *rd, const char *path);
/* True or false; must be there. */
int sk_row_flag(sk_row_reader *rd, const char *path);
/* Records "row N: FIELD must be WHAT". */
void sk_row_refuse(sk_row_reader *rd, const char *field, const char *what);

#endif
