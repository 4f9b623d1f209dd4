/* The table of certified families in Markdown. */
#ifndef SKIPPY_CLI_CERTIFY_TABLE_H
#define SKIPPY_CLI_CERTIFY_TABLE_H

#include "base/buf.h"
#include "correctness/certify.h"

/* What is kept of a report for a row. */
typedef struct sk_certify_row {
    char family[48], arch[48], memory[24];
    bool passed;
    char verdict[400];
    enum sk_outcome outcome[SK_MODES];
    bool bits;
    sk_drift worst, cold; /* of restores, and of cold runs for comparison; over all lengths */
    bool was_forced;
    double forced;          /* how far a forced KV-only restore was off, relative */
    double bytes_per_token; /* of the serving payload at the longest length */
    double state_kib;       /* recurrent or window part of it */
    double grown_saved;     /* share of the payload 16 tokens later that was stored already */
    uint32_t n_tokens;      /* that length */
} sk_certify_row;

void sk_certify_row_make(const sk_certify_report *r, sk_certify_row *out);
void sk_certify_table_write(sk_buf *b, const sk_certify_row *rows, size_t n);

/* Replaces what stands between the lines "<!-- certify:begin -->" and "<!-- certify:end -->" of a file.
 * Errors: SKIPPY_E_NOT_FOUND, SKIPPY_E_IO, SKIPPY_E_INVALID (no markers), SKIPPY_E_NOMEM. */
int sk_certify_table_insert(const char *path, const sk_buf *table, sk_err *e);

#endif
