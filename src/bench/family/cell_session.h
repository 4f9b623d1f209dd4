/* What the parts of a session share: its cells, certificates and servers. Inside of family/cell*.c only. */
#ifndef SKIPPY_BENCH_FAMILY_CELL_SESSION_H
#define SKIPPY_BENCH_FAMILY_CELL_SESSION_H

#include "bench/family/cell.h"
#include "bench/family/cell_files.h"
#include "bench/family/cell_hosts.h"
#include "bench/family/cell_row.h"

/* A certificate serves every cell of the model with this prefix. */
typedef struct sk_certificate {
    uint32_t prefix; /* of the cell that it was made for */
    char folder[SK_CELL_PATH_CHARS];
    sk_correctness c; /* owned */
} sk_certificate;

/* One cell while it is worked on. */
typedef struct sk_cell_run {
    const sk_family_cell *cell;
    char folder[SK_CELL_PATH_CHARS];
    json_t *request;                   /* owned */
    bool finished;                     /* an earlier run has its row */
    const sk_certificate *certificate; /* NULL = none */
    sk_part_task task;
    const sk_part *part[SK_MAX_PARTS];
    size_t n_parts;
    bool measured;         /* servers were there for its parts */
    bool reported;         /* all of its parts are over */
    json_t *parts, *notes; /* owned */
    sk_cell_status skippy, llama;
    uint64_t spent_ns; /* of cell_seconds */
} sk_cell_run;

typedef struct sk_session {
    const sk_session_options *o;
    const sk_input_model *model;
    uint32_t model_ctx; /* the model's own context; 0 = not known, as of a layer package */
    sk_cell_run *cell;  /* owned array */
    size_t n_cells;
    sk_certificate *certificate; /* owned array with room for n_cells, so that pointers into it stay */
    size_t n_certificates;
    sk_session_hosts hosts;
    uint64_t last_said_ns; /* progress inside of a part */
    const sk_cell_run *at; /* the cell whose part runs */
} sk_session;

/* ---- cell.c ---- */

void sk_session_say(const sk_session *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* SKIPPY_E_CANCELLED after a signal, SKIPPY_E_TIMEOUT when the run's time is over, else SKIPPY_OK. */
int sk_session_stopped(const sk_session *s, sk_err *e);
/* sk_now_ns() at which this cell's time is over; 0 = never. */
uint64_t sk_session_deadline(const sk_session *s, const sk_cell_run *c);
/* A note for people in the row. */
void sk_session_note(sk_cell_run *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- cell_certify.c ---- */

/* Finds or makes the certificate of a cell and sets the cell's status. Errors: SKIPPY_E_IO, SKIPPY_E_NOMEM,
 * SKIPPY_E_CANCELLED, SKIPPY_E_TIMEOUT (of the run). */
int sk_session_certify(sk_session *s, sk_cell_run *c, sk_err *e);

/* ---- cell_parts.c ---- */

/* Fills task and parts of a cell. */
void sk_session_plan(const sk_session *s, sk_cell_run *c);
/* The first server of its parts: ours is the last host, and a cell without baselines runs on it alone. */
size_t sk_session_first_host(const sk_session *s, const sk_cell_run *c);
/* Will anything of this cell be measured? */
bool sk_session_measures(const sk_cell_run *c);
/* Runs its parts, those that end the server or those that don't. What fails is in the record, not an error. Errors:
 * SKIPPY_E_CANCELLED, SKIPPY_E_TIMEOUT (of the run), SKIPPY_E_NOMEM. */
int sk_session_run_parts(sk_session *s, sk_cell_run *c, bool last, sk_err *e);
bool sk_session_has_last(const sk_cell_run *c);

/* ---- cell_end.c ---- */

/* The cell's row as it is now, told to the caller and kept in row.partial.json. Errors: those of cell_files.h. */
int sk_session_report(sk_session *s, sk_cell_run *c, sk_err *e);
/* The servers have ended: outputs of their processes, cell.json and the row. Errors: those of cell_files.h. */
int sk_session_end(sk_session *s, sk_cell_run *c, sk_err *e);

#endif
