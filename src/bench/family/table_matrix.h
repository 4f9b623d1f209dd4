/* A table with families as columns: use cases, conversations. Pure. */
#ifndef SKIPPY_BENCH_FAMILY_TABLE_MATRIX_H
#define SKIPPY_BENCH_FAMILY_TABLE_MATRIX_H

#include "bench/family/table_cell.h"

enum { SK_MATRIX_MAX_COLUMNS = 64 };

/* The rows whose families head the columns, in the order of the set; each family once. Borrowed. */
typedef struct sk_matrix_columns {
    const sk_family_row *v[SK_MATRIX_MAX_COLUMNS];
    size_t n;
} sk_matrix_columns;

void sk_matrix_columns_of(const sk_row_set *s, sk_weights w, sk_row_filter want, sk_matrix_columns *out);
/* Heading and head: `first` ("Use case | Prefix") and the families. */
void sk_matrix_head(const char *title, sk_weights w, const char *first, const sk_matrix_columns *c, sk_buf *out);

#endif
