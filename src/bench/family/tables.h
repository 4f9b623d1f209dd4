/* The report's tables in Markdown. Pure.
 *
 * Wording: a ratio is the best llama-server's p50 divided by skippy's, rounded to two decimals; "**1.95x faster**"
 * above 1.0, "1.01x (parity)" from 0.98 to 1.02, "0.80x (slower)" below; "n/a" where one side is missing. Milliseconds
 * "%.1f" ("%.2f" below 10); bytes "0", KiB below 1 MiB, else MiB, one decimal. "|" in a text becomes "/". A ratio whose
 * servers gave different answers has a dagger and no wording: it is no evidence.
 *
 * Every function appends a section that begins with its heading, or nothing when no row has to do with it. Rows with
 * synthetic weights have tables of their own. */
#ifndef SKIPPY_BENCH_FAMILY_TABLES_H
#define SKIPPY_BENCH_FAMILY_TABLES_H

#include "base/buf.h"
#include "bench/family/corpus.h"
#include "bench/family/row.h"

/* Real weights: promoted rows; synthetic weights: the same table under a heading that says what that means. Columns:
 * Family, Model, Payload, Correctness, Prefix, Prompt tokens, llama-server ms, best ms (which flags), skippy ms,
 * Speedup, Cache bytes (method), Read. Below it the details of the same rows: weights, runs, p50 and p95, cached and
 * computed tokens, answers, memory. */
void sk_table_full(const sk_row_set *s, sk_buf *out);
/* Every row that could not be promoted for another reason than synthetic weights, with the reason. */
void sk_table_not_promoted(const sk_row_set *s, sk_buf *out);
/* Recompute and cache hit in the correctness tool's process: never beside times over HTTP. */
void sk_table_process(const sk_row_set *s, sk_buf *out);
/* Suffix, moved boundary (edit, edit text, thinking), agent loop total, restart: one line for each family, one column
 * for each; below it the times of each. */
void sk_table_scenarios(const sk_row_set *s, sk_buf *out);
/* Each conversation of the agent corpus: the sum of its requests; conversations as rows, families as columns. */
void sk_table_conversations(const sk_row_set *s, sk_buf *out);
/* Use cases as rows, families as columns, "%.2fx" or "n/a"; one matrix for real and one for synthetic weights. Then the
 * table of sources: of the corpus, or where that is NULL as the rows name them. */
void sk_table_use_cases(const sk_row_set *s, const sk_corpus *corpus, sk_buf *out);
/* Package-only rows: "Skippy stage recompute" against the cache hit, in process. */
void sk_table_packages(const sk_row_set *s, sk_buf *out);
/* The concurrency curves: clients, TTFT p50/p99, TPOT p50/p99, goodput for each host. */
void sk_table_curves(const sk_row_set *s, sk_buf *out);
/* Two builds of a server beside each other, where the request named them. */
void sk_table_paired(const sk_row_set *s, sk_buf *out);
/* Prefix sweep. */
void sk_table_sweep(const sk_row_set *s, sk_buf *out);
/* "Current performance read": per kind of family, computed from the rows: range of the ratios, what is slower, which
 * goals are missed (bench/family/goal.h). */
void sk_table_read(const sk_row_set *s, sk_buf *out);
/* Parts that did not end, the rows' own notes, and those of loading. */
void sk_table_notes(const sk_row_set *s, sk_buf *out);
/* Machine, versions, flags, digests of the inputs. */
void sk_table_facts(const sk_row_set *s, sk_buf *out);
/* Digests of the models, and the commands (folders left out: the JSON has them). */
void sk_table_commands(const sk_row_set *s, sk_buf *out);
/* TODO.md: every family whose correctness failed or whose row could not be promoted for another reason than weights,
 * with the reason. Empty text when there is none. */
void sk_table_todo(const sk_row_set *s, sk_buf *out);

void sk_table_ms(double ms, sk_buf *out);
void sk_table_bytes(uint64_t bytes, sk_buf *out);
void sk_table_speedup(double ratio, sk_buf *out);
/* True where sk_table_speedup says "slower". */
bool sk_table_slower(double ratio);
/* text with "|", line ends and other control characters replaced. */
void sk_table_text(const char *text, sk_buf *out);
/* The same as a code span. */
void sk_table_code(const char *text, sk_buf *out);

#endif
