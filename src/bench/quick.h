/* `skippy bench quick`: llama-server and skippy in turn, the same requests to both, one table.
 * Not thread-safe; one run per process (it owns the interrupt handler's child). */
#ifndef SKIPPY_BENCH_QUICK_H
#define SKIPPY_BENCH_QUICK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/report.h"
#include "bench/scenario.h"

/* Strings are borrowed and must outlive the report. */
typedef struct sk_quick_options {
    const char *model;
    const char *llama_server; /* program */
    const char *skippy;       /* program */
    const char *out_dir;      /* made when it does not exist */
    const char
        *only; /* scenario names separated by commas, "floor", "bitcost" and "soak" among them; NULL = the usual ones */
    const char *baseline_flags; /* replaces the tuned flag sets; NULL = the built-in ones */
    const char *skippy_flags;
    const char *both_flags;
    uint32_t lane_ctx; /* tokens per lane; 0 = what the scenario needs, at least 4096 on one lane */
    int threads;       /* 0 = cores */
    size_t soak;       /* requests of the memory run; 0 = none */
    bool chat;         /* also the optional chat forms */
    int timeout_s;     /* longest silence of a server */
    sk_sizes sizes;
    const char *version; /* of skippy */
} sk_quick_options;

/* Checks names in `only` and that a scenario list is not empty. Errors: SKIPPY_E_INVALID with words. */
int sk_quick_check(const sk_quick_options *o, sk_err *e);
/* Runs everything; after each scenario OUT_DIR/quick.json and OUT_DIR/quick.md hold what was measured so far, and the
 * report does in any case (sk_report_free). A scenario that fails on one server is recorded and the run goes on.
 * Errors: SKIPPY_E_RUNTIME (something failed, see the report), SKIPPY_E_CANCELLED, SKIPPY_E_IO, those of
 * sk_facts_model. */
int sk_quick_run(const sk_quick_options *o, sk_report *report, sk_err *e);
/* The context of all lanes for a scenario that needs `need` tokens per lane and would like `spare` more; 0 when
 * lane_ctx (0 = not given) or the model's context (0 = unknown) is too small for `need`. Pure. */
uint32_t sk_quick_context(uint32_t lane_ctx, size_t lanes, size_t need, size_t spare, uint32_t n_ctx_train);

#endif
