/* State hand-off: each way to keep a prefix, tried from recording to restored lane.
 *
 * Not thread-safe. */
#ifndef SKIPPY_CORRECTNESS_HANDOFF_H
#define SKIPPY_CORRECTNESS_HANDOFF_H

#include "correctness/session.h"

enum sk_mode {
    SK_MODE_RESIDENT,       /* a snapshot that stays in the context */
    SK_MODE_RESIDENT_KV,    /* KV windows, and the sliding window where the model has one */
    SK_MODE_FULL_STATE,     /* one export of everything; diagnosis */
    SK_MODE_RECURRENT_ONLY, /* recurrent state alone; diagnosis */
    SK_MODE_KV_RECURRENT,   /* KV windows and recurrent state */
    SK_MODE_TRUNCATED,      /* a shorter prefix out of a longer one */
    SK_MODE_KV_ONLY,        /* KV without the state that belongs to it: never right */
    SK_MODES
};

enum sk_outcome {
    SK_OUTCOME_NOT_APPLICABLE,
    SK_OUTCOME_PASS,
    SK_OUTCOME_REFUSED, /* the rules of production refuse it, as they must */
    SK_OUTCOME_FAIL
};

/* Where a restore lands. */
enum sk_target { SK_TARGET_LANE, SK_TARGET_CONTEXT, SK_TARGET_PROCESS, SK_TARGETS };

const char *sk_mode_name(enum sk_mode m);       /* "resident-kv" */
const char *sk_outcome_name(enum sk_outcome o); /* "pass", "refused", "not-applicable", "fail" */
const char *sk_target_name(enum sk_target t);   /* "fresh-lane", "fresh-context", "fresh-process" */

/* Damage that is done to every payload before its import, to prove that certification sees it. */
enum sk_fault { SK_FAULT_NONE, SK_FAULT_FLIP_BYTE, SK_FAULT_DROP_STATE };

enum { SK_HANDOFF_MAX_BLOCKS = 4096 };

typedef struct sk_target_result {
    sk_check check;
    double export_ms;
    uint64_t state_bytes; /* of the re-export */
    uint32_t repeats;
    double import_ms[1 + SK_TRIAL_MAX_REPEATS], decode_ms[1 + SK_TRIAL_MAX_REPEATS];
    char error[256]; /* the restore failed; else "" */
} sk_target_result;

typedef struct sk_mode_result {
    enum sk_mode mode;
    enum sk_outcome outcome;
    char reason[320]; /* a sentence for people */
    sk_target_result target[SK_TARGETS];
    bool has_cost;
    sk_parcel_cost cost;
    sk_parcel_block *blocks; /* owned; NULL without has_cost */
    size_t n_blocks;
    bool was_forced; /* KV_ONLY: imported against the rules, with this result */
    sk_drift forced;
    uint32_t tried, exact, refused; /* TRUNCATED: restores of shorter lengths */
} sk_mode_result;
void sk_mode_result_free(sk_mode_result *r);

typedef struct sk_handoff_params {
    const char *model_path;
    int32_t n_gpu_layers;
    const sk_rig_params *rig;       /* fresh contexts are made like this */
    const char *const *worker_argv; /* see sk_worker_run */
    int worker_timeout_ms;
    uint32_t repeats;
    enum sk_fault fault;
} sk_handoff_params;

/* Tries one mode. A restore that goes wrong is a result (SK_OUTCOME_FAIL), not an error. Errors: SKIPPY_E_NOMEM,
 * SKIPPY_E_IO, SKIPPY_E_CANCELLED: the machine failed, nothing is known. */
int sk_handoff_run(sk_proof_session *s, const sk_handoff_params *p, enum sk_mode mode, sk_mode_result *out, sk_err *e);

#endif
