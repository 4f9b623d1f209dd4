/* The row of a cell: docs/formats/family-bench.md. Pure but for memory. */
#ifndef SKIPPY_BENCH_FAMILY_CELL_ROW_H
#define SKIPPY_BENCH_FAMILY_CELL_ROW_H

#include "bench/family/corpus.h"
#include "bench/family/correctness.h"

enum { SK_STATUS_CHARS = 24, SK_WHY_CHARS = 512 };

typedef struct sk_cell_status {
    char status[SK_STATUS_CHARS], why[SK_WHY_CHARS];
} sk_cell_status;

/* Keeps the first status that is not good: later ones are its consequences. good: what is replaced. */
void sk_cell_status_worsen(sk_cell_status *s, const char *good, const char *status, const char *why);

/* What the run found out; everything else of a row is in the input. */
typedef struct sk_cell_outcome {
    const sk_correctness *correctness; /* NULL = none */
    const sk_cell_status *skippy, *llama;
    json_t *hosts, *parts, *notes; /* borrowed; NULL = none */
} sk_cell_outcome;

/* corpus: for the label and source of a use case; NULL = not known. A new reference; NULL when out of memory or a text
 * is not UTF-8. */
json_t *sk_cell_row(const sk_family_input *in, const sk_corpus *corpus, const sk_family_cell *cell,
                    const sk_cell_outcome *o);
/* "full", "use-case", "sweep", "package". */
const char *sk_cell_kind_name(sk_cell_kind kind);

typedef struct sk_cell_storage {
    uint64_t bytes;
    const char *method; /* "measured", "metadata-derived", "n/a" */
} sk_cell_storage;
/* Bytes of the payload for the cell's prefix: of the certificate when that is about this length, else by the preset's
 * bytes per token and the layers that the file has. */
sk_cell_storage sk_cell_storage_of(const sk_family_input *in, const sk_family_cell *cell, const sk_correctness *c);

#endif
