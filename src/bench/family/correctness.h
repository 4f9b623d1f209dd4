/* The first thing of every cell: does restored state go on exactly as the recorded run did? Runs `skippy certify` (the
 * request's "correctness" program) as a process of its own and reads its report. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_CORRECTNESS_H
#define SKIPPY_BENCH_FAMILY_CORRECTNESS_H

#include <jansson.h>
#include <stdbool.h>

#include "bench/family/input.h"

typedef struct sk_correctness {
    char status[24]; /* "pass", "fail", "timeout", "error", "cancelled" */
    char why[512];   /* the report's verdict, or what went wrong */
    json_t *report;  /* the report of `certify --report-out`, owned; NULL when there is none */
    json_t *receipt; /* the process's receipt, as those of sk_host_stop; owned */
    double elapsed_ms;
    /* Taken from the report, for the row; 0 when it does not say. Times in ms. */
    double recompute_total_ms; /* prefill and decode of the recorded run */
    double cache_hit_total_ms; /* mean of import and decode of the payload's mode */
    uint64_t storage_bytes;    /* of the payload's state for the prefix */
    size_t prompt_tokens;      /* what was certified; at least 32, so more than a very short prefix of a cell */
    const char *payload;       /* static; "" when the report has no numbers of the asked payload */
    bool producer;             /* a package's stage was fed by the real layers before it */
} sk_correctness;

/* Certifies the cell's model with the payload of its preset; a package cell certifies its layer range with a real
 * producer where the package has it, else with synthetic hidden states. folder gets cache-correctness-stage.json
 * (request and report) and the process's output. A failure of the model is status "fail", not an error. Errors:
 * SKIPPY_E_NOMEM, SKIPPY_E_IO (folder). */
int sk_correctness_run(const sk_family_input *in, const sk_family_cell *cell, const char *folder, int timeout_ms,
                       sk_correctness *out, sk_err *e);
/* Fills the numbers from a report. payload: "ResidentKv" or "KvRecurrent". Pure. */
void sk_correctness_read(json_t *report, const char *payload, sk_correctness *out);
void sk_correctness_free(sk_correctness *c);

/* One certificate serves all cells of a model with the same prefix: leaves in `folder` what sk_correctness_run left in
 * `from`. Errors: SKIPPY_E_NOMEM, SKIPPY_E_IO. */
int sk_correctness_share(const sk_family_input *in, const sk_family_cell *cell, const sk_correctness *c,
                         const char *from, const char *folder, sk_err *e);
/* Takes a certificate that an earlier run left in folder, if it was made for the same input, model and prefix and says
 * pass or fail. False: certify. sk_correctness_free in both cases. */
bool sk_correctness_recall(const sk_family_input *in, const sk_family_cell *cell, const char *folder,
                           sk_correctness *out);

#endif
