/* Test support: a set of made rows and the lines of a table. Not part of the product. */
#ifndef SKIPPY_BENCH_FAMILY_TABLE_FIXTURE_H
#define SKIPPY_BENCH_FAMILY_TABLE_FIXTURE_H

#include "base/buf.h"
#include "bench/family/row.h"
#include "bench/family/row_fixture.h"

typedef void (*sk_table_writer)(const sk_row_set *s, sk_buf *out);

/* Adds the row to the set and takes its reference. */
void sk_fixture_add(sk_row_set *s, json_t *row);
/* A row with an exact repeat on all three servers; 0 leaves one out. */
json_t *sk_fixture_exact(sk_fixture f, double base, double tuned, double ours);
/* Sorts the set, writes the table, frees the set. The caller frees the text. */
void sk_fixture_write(sk_row_set *s, sk_table_writer writer, sk_buf *out);
/* Fails the test unless the text has exactly this line, or (absent) unless no line contains it. */
void sk_fixture_line(const sk_buf *out, const char *line);
void sk_fixture_absent(const sk_buf *out, const char *part);
/* Fails the test unless the first stands before the second in the text. */
void sk_fixture_order(const sk_buf *out, const char *first, const char *second);
/* Fails the test unless each line that begins with "|" has as many cells as the line above it in its table. */
void sk_fixture_even(const sk_buf *out);

#endif
