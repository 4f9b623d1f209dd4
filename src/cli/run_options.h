/* Options that say how a model is loaded, computed and cached. `skippy serve` and `skippy stage` have them in common,
 * so that a stage is told the same as its head in the same words. */
#ifndef SKIPPY_CLI_RUN_OPTIONS_H
#define SKIPPY_CLI_RUN_OPTIONS_H

#include "cli/args.h"
#include "engine/engine.h"
#include "runtime/model.h"

typedef struct sk_run_options {
    sk_model_params model;
    sk_engine_params engine; /* n_ctx 0 with ctx_of_model: the model's own */
    bool ctx_of_model;
    bool json, help;
} sk_run_options;

/* Ids of these options are from SK_RUN_ARG_FIRST to SK_RUN_ARG_END - 1. Those from SK_RUN_ARG_SHARED on have to be the
 * same for all stages of a split, or are at least right for all of them. */
enum {
    SK_RUN_ARG_FIRST = 1000,
    SK_RUN_ARG_MODEL = SK_RUN_ARG_FIRST,
    SK_RUN_ARG_ALIAS,
    SK_RUN_ARG_JSON,
    SK_RUN_ARG_HELP,
    SK_RUN_ARG_SHARED,
    SK_RUN_ARG_CTX = SK_RUN_ARG_SHARED,
    SK_RUN_ARG_PARALLEL,
    SK_RUN_ARG_THREADS,
    SK_RUN_ARG_THREADS_BATCH,
    SK_RUN_ARG_BATCH,
    SK_RUN_ARG_UBATCH,
    SK_RUN_ARG_FLASH,
    SK_RUN_ARG_TYPE_K,
    SK_RUN_ARG_TYPE_V,
    SK_RUN_ARG_NGL,
    SK_RUN_ARG_NO_MMAP,
    SK_RUN_ARG_HUGE_PAGES,
    SK_RUN_ARG_SWA_FULL,
    SK_RUN_ARG_ROPE_BASE,
    SK_RUN_ARG_ROPE_FREQ_SCALE,
    SK_RUN_ARG_ROPE_SCALE,
    SK_RUN_ARG_CACHE,
    SK_RUN_ARG_NO_CACHE,
    SK_RUN_ARG_CACHE_SEQS,
    SK_RUN_ARG_CACHE_MIB,
    SK_RUN_ARG_LOGITS_MIB,
    SK_RUN_ARG_MIN_TOKENS,
    SK_RUN_ARG_CACHE_RAM,
    SK_RUN_ARG_CACHE_IDLE,
    SK_RUN_ARG_CACHE_DISK,
    SK_RUN_ARG_CACHE_DISK_MAX,
    SK_RUN_ARG_VERBOSE,
    SK_RUN_ARG_LOG_LEVEL,
    SK_RUN_ARG_END
};

extern const sk_arg_def sk_run_defs[];
extern const size_t sk_run_n_defs;

void sk_run_defaults(sk_run_options *o);
/* Applies one option. *known is cleared when id is none of these. False with words in *e when the value is wrong. */
bool sk_run_apply(sk_run_options *o, int id, const sk_args *a, bool *known, sk_err *e);
/* What options say together. SKIPPY_OK or SKIPPY_E_INVALID in words. */
int sk_run_check(const sk_run_options *o, sk_err *e);

/* Values of options in MiB as bytes and in seconds as milliseconds. */
bool sk_run_mib(const sk_args *a, uint64_t min, uint64_t max, uint64_t *bytes, sk_err *e);
bool sk_run_seconds(const sk_args *a, uint32_t min, uint32_t *ms, sk_err *e);

#endif
