/* Cells, lines and groups that the report's tables have in common. A cell ends with its column separator. Pure. */
#ifndef SKIPPY_BENCH_FAMILY_TABLE_CELL_H
#define SKIPPY_BENCH_FAMILY_TABLE_CELL_H

#include "bench/family/tables.h"

/* Weights are never mixed in a table. */
typedef enum sk_weights { SK_WEIGHTS_REAL, SK_WEIGHTS_SYNTHETIC, SK_WEIGHTS_KINDS } sk_weights;

#define SK_DAGGER "\xe2\x80\xa0"

typedef bool (*sk_row_filter)(const sk_family_row *r);
typedef void (*sk_row_line)(const sk_family_row *r, sk_buf *out);

bool sk_weights_of(const sk_family_row *r, sk_weights w);
bool sk_row_is(const sk_family_row *r, const char *kind);
bool sk_row_passed(const sk_family_row *r);
/* A full row that passed: the families' lines in every table about scenarios. */
bool sk_row_full_passed(const sk_family_row *r);
/* Index of the host with this name; n_hosts when there is none. */
size_t sk_row_host(const sk_family_row *r, const char *name);

/* An empty line, "## TITLE" (with the weights where they are synthetic) and an empty line. */
void sk_table_heading(const char *title, sk_weights w, sk_buf *out);
/* A paragraph that says what synthetic weights mean; nothing for real ones. */
void sk_table_explain(sk_weights w, sk_buf *out);
/* titles: "A | B | C". */
void sk_table_head(const char *titles, sk_buf *out);
size_t sk_table_count(const sk_row_set *s, sk_weights w, sk_row_filter want);
/* Heading, head and the lines of the rows that `want` accepts; nothing when there is none. */
void sk_table_rows(const sk_row_set *s, sk_weights w, const char *title, const char *titles, sk_row_filter want,
                   sk_row_line line, sk_buf *out);

void sk_column_text(const char *text, sk_buf *out);
void sk_column_code(const char *text, sk_buf *out);
void sk_column_number(int64_t n, sk_buf *out);
void sk_column_ms(double ms, sk_buf *out);
/* "Falcon-H1", with the layers where the model has fewer than the real one. */
void sk_column_family(const sk_family_row *r, sk_buf *out);
/* p50 of one host's series. s may be NULL and host n_hosts here and below: "n/a". */
void sk_column_p50(const sk_row_series *s, const sk_family_row *r, size_t host, sk_buf *out);
/* "p50 / p95". */
void sk_column_times(const sk_row_series *s, const sk_family_row *r, size_t host, sk_buf *out);
/* "124+5". */
void sk_add_tokens(const sk_row_series *s, const sk_family_row *r, size_t host, sk_buf *out);
/* Cached and computed tokens of llama-server, its best flags and skippy. */
void sk_column_tokens(const sk_row_series *s, const sk_family_row *r, sk_buf *out);
/* " (tuned)": which flags of llama-server these are. */
void sk_add_flags_name(const sk_family_row *r, size_t host, sk_buf *out);
/* The best host's p50, or p50 / p95, with the name of its flags. */
void sk_column_best(const sk_row_series *s, const sk_family_row *r, bool with_p95, sk_buf *out);
/* Runs of skippy, and of llama-server's best where that is another number. */
void sk_column_runs(const sk_row_series *s, const sk_family_row *r, sk_buf *out);
/* The speedup in words, or the number with a dagger. */
void sk_column_ratio(const sk_family_row *r, const char *part, const char *series, sk_buf *out);
/* The number alone: "1.95x", "0.80x", "n/a"; with a dagger where answers differ. */
void sk_column_factor(double ratio, bool comparable, sk_buf *out);
/* "78.4 MiB (measured)", "n/a". */
void sk_column_storage(const sk_family_row *r, sk_buf *out);
/* "same (1 of 1)", "near tie", "differ: ...", "not compared": the answers of the best baseline against ours. */
void sk_column_gate(const sk_family_row *r, const char *part, size_t host, sk_buf *out);

#endif
