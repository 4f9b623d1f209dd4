/* What the parts of a run share. Inside of family/run*.c only. */
#ifndef SKIPPY_BENCH_FAMILY_RUN_STATE_H
#define SKIPPY_BENCH_FAMILY_RUN_STATE_H

#include "base/buf.h"
#include "bench/family/run.h"

typedef struct sk_run_pins {
    const char *status; /* "not-checked", "ok", "changed"; static */
    char why[400], date[32];
} sk_run_pins;

typedef struct sk_run_state {
    const sk_family_run_options *o;
    sk_family_input *in; /* owned */
    char input_sha256[SK_SHA256_HEX];
    sk_corpus corpus;
    sk_replay_corpus replay;
    sk_bench_facts machine;
    json_t *rows;       /* owned array: one for each cell, in order */
    bool *told;         /* owned: the cell's line was printed */
    size_t n_told;      /* cells with a row, those of an earlier run among them */
    size_t n_measured;  /* of them, those of this run */
    const char *status; /* "incomplete", "completed", "refused"; static */
    sk_run_pins before, after;
    uint64_t start_ns;    /* of this process's run */
    uint64_t measured_ns; /* when the first session began */
    int rc;               /* the first file that could not be written, while a session runs */
    sk_err err;
} sk_run_state;

/* ---- run_folder.c ---- */

/* Makes the output folder, or accepts that of an earlier run of the same input. Errors: SKIPPY_E_EXISTS (of another
 * input), SKIPPY_E_INVALID (holds something else, or its name has blanks), SKIPPY_E_IO. */
int sk_run_folder_open(const char *folder, const char *input_sha256, sk_err *e);

/* ---- run_files.c ---- */

/* Writes run.json, production-cache-bench.json and production-cache-bench.md. Errors: SKIPPY_E_IO, SKIPPY_E_NOMEM. */
int sk_run_files_write(const sk_run_state *s, sk_err *e);
/* Appends a note to every row. Errors: SKIPPY_E_NOMEM. */
int sk_run_rows_note(sk_run_state *s, const char *note, sk_err *e);
/* A row says that something failed or ran out of time. Pure. */
bool sk_run_row_failed(const json_t *row);
/* The row of a cell that need not be run again. Pure. */
bool sk_run_row_final(const json_t *row);

/* ---- run_table.c ---- */

/* The page of the rows. Errors: SKIPPY_E_NOMEM, SKIPPY_E_INVALID (a row is none). */
int sk_run_table(json_t *rows, const char *status, sk_buf *out, sk_err *e);
/* "exact 302.1 -> 0.2 ms (1510x); suffix ..." of one row: the best llama-server's p50 and ours; our own where there is
 * no other. Appends nothing when nothing was measured. */
void sk_run_times(json_t *row, sk_buf *out);

/* ---- run_progress.c ---- */

void sk_run_say(const sk_run_state *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* One line for a cell that has ended. */
void sk_run_say_cell(const sk_run_state *s, const sk_family_cell *cell, json_t *row);
/* Estimate of the minutes that the remaining cells take; negative = not known yet. Pure. */
double sk_run_minutes_left(uint64_t spent_ns, size_t measured, size_t remaining);

#endif
