/* The report's tables in Markdown. Pure.
 *
 * Wording: a ratio is the best llama-server's p50 divided by skippy's; "**1.95x faster**" above 1.0, "parity" from 0.98
 * to 1.02, "0.80x (slower)" below; "n/a" where one side is missing. Milliseconds "%.1f" ("%.2f" below 10); bytes "0",
 * KiB below 1 MiB, else MiB, one decimal. "|" in a text becomes "/". */
#ifndef SKIPPY_BENCH_FAMILY_TABLES_H
#define SKIPPY_BENCH_FAMILY_TABLES_H

#include "base/buf.h"
#include "bench/family/corpus.h"
#include "bench/family/row.h"

/* Real weights: promoted rows; then everything that was not promoted, with the reason. Synthetic weights: the same
 * table under a heading of their own that says what that means; never in one table with real ones. Columns: Family,
 * Model, Weights (layers of layers), Payload, Correctness, Prefix, Prompt tokens, llama-server ms, best ms, skippy ms,
 * Speedup, p95 of both, Cached + computed tokens, Cache bytes, Size method, Gate, Read. */
void sk_table_full(const sk_row_set *s, sk_buf *out);
/* Suffix, moved boundary (edit, edit text, thinking), agent loop total, restart: one line for each family, one column
 * for each. */
void sk_table_scenarios(const sk_row_set *s, sk_buf *out);
/* Use cases as rows, families as columns, "%.2fx" or "n/a"; one matrix for real and one for synthetic weights. Then the
 * table of sources. */
void sk_table_use_cases(const sk_row_set *s, const sk_corpus *corpus, sk_buf *out);
/* Package-only rows: "Skippy stage recompute" against the cache hit, in process. */
void sk_table_packages(const sk_row_set *s, sk_buf *out);
/* The concurrency curves: clients, TTFT p50/p99, TPOT p50/p99, goodput for each host. */
void sk_table_curves(const sk_row_set *s, sk_buf *out);
/* Prefix sweep. */
void sk_table_sweep(const sk_row_set *s, sk_buf *out);
/* "Current performance read": per kind of family, computed from the rows: range of the ratios, what is slower, which
 * goals are missed (exact >= 10x on every family; suffix >= 1.0x; moved boundary >= 2x on hybrids; agent >= 1.3x dense
 * and 2x hybrids; restart >= 5x). */
void sk_table_read(const sk_row_set *s, sk_buf *out);
/* Machine, versions, flags, digests. */
void sk_table_facts(const sk_row_set *s, sk_buf *out);
/* TODO.md: every family whose correctness failed or whose row could not be promoted for another reason than weights,
 * with the reason. Empty text when there is none. */
void sk_table_todo(const sk_row_set *s, sk_buf *out);

void sk_table_ms(double ms, sk_buf *out);
void sk_table_bytes(uint64_t bytes, sk_buf *out);
void sk_table_speedup(double ratio, sk_buf *out);
/* text with "|" and line ends replaced. */
void sk_table_text(const char *text, sk_buf *out);

#endif
