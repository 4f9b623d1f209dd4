/* The measured series of a row: from "parts" in its JSON. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_ROW_SERIES_H
#define SKIPPY_BENCH_FAMILY_ROW_SERIES_H

#include "bench/family/row.h"
#include "bench/family/row_reader.h"

/* Fills r->series and r->n_series; r's hosts are known. What is wrong is in rd; sk_family_row_free frees what was read
 * until then. Errors: SKIPPY_E_INVALID with the field, SKIPPY_E_NOMEM. */
void sk_row_read_parts(sk_row_reader *rd, sk_family_row *r);

#endif
