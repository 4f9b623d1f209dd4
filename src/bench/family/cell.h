/* One session: all cells of one model, with the servers started once. Correctness comes first; what does not pass is
 * not compared. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_CELL_H
#define SKIPPY_BENCH_FAMILY_CELL_H

#include <stdio.h>

#include "bench/facts.h"
#include "bench/family/correctness.h"
#include "bench/family/turns.h"

typedef struct sk_session_options {
    const sk_family_input *in;
    const char *input_sha256;       /* of the input's file: part of each cell's request */
    const sk_corpus *corpus;        /* NULL when no cell needs it */
    const sk_replay_corpus *replay; /* likewise */
    const char *out_dir;            /* of the run */
    const sk_bench_facts *machine;  /* the fields about machine and date */
    uint64_t deadline_ns;           /* of the run; 0 = none */
    /* A line for people; may be NULL. */
    void (*say)(void *ud, const char *text);
    void *say_ud;
    /* A cell has ended: its row (borrowed). earlier: an earlier run did it. Called again with the final row when the
     * servers have ended and their memory is known. */
    void (*done)(void *ud, const sk_family_cell *cell, json_t *row, bool earlier);
    void *done_ud;
} sk_session_options;

/* Runs the cells of in->models[model] that have no finished row in out_dir yet. Each cell leaves in
 * OUT/<output_relative>/: request.json (the cell as the input has it, and the input's SHA-256),
 * cache-correctness-stage.json, cell.json (status, parts, receipts of all processes, SHA-256 of every file beside it),
 * row.json, process/ (complete standard output and error; those of servers are links to OUT/server-logs/KEY-N/, where
 * they were written for all cells of the session). row.json is written last, so a folder with one is finished:
 * a later run takes it as it is if the request in it is the same. A cell that was cancelled or ran out of time has a
 * row whose status says so, in row.partial.json: it is run again. Failures of single cells are rows, not errors.
 * Errors: SKIPPY_E_CANCELLED, SKIPPY_E_TIMEOUT (deadline), SKIPPY_E_IO, SKIPPY_E_NOMEM. */
int sk_session_run(const sk_session_options *o, size_t model, sk_err *e);
/* The row of a cell whose model is missing or refused, or whose run was not launched. New reference. */
json_t *sk_cell_row_without_run(const sk_family_input *in, const sk_family_cell *cell, const char *status,
                                const char *why);

#endif
