/* One recorded prefix: everything that restores of it are held against.
 *
 *     lane    prefix ............ | next token, 64 greedy tokens     recorded once
 *     cold    prefix ............ | 16-token suffix                  computed from nothing, cleared
 *     cache   prefix (snapshot)
 *     other   prefix restored, again and again
 *
 * Not thread-safe. */
#ifndef SKIPPY_CORRECTNESS_SESSION_H
#define SKIPPY_CORRECTNESS_SESSION_H

#include "correctness/check.h"
#include "correctness/parcel.h"
#include "correctness/trial.h"

enum { SK_SESSION_SAMPLES = 5 };

typedef struct sk_proof_session_params {
    const skippy_key *ns;
    const int32_t *tokens; /* n_prefix + SK_TRIAL_SUFFIX of them; outlive the session */
    uint32_t n_prefix;
} sk_proof_session_params;

/* Times of the recorded run in milliseconds. prefill and decode are those of an ordinary server's batches, which are
 * faster than those of a row class. */
typedef struct sk_proof_session_times {
    double prefill_ms, decode_ms, export_ms;
} sk_proof_session_times;

typedef struct sk_proof_session {
    sk_rig *rig; /* borrowed */
    skippy_key ns;
    const int32_t *tokens;
    uint32_t n_prefix;
    sk_criterion criterion;
    sk_drift cold;         /* between two cold runs as an ordinary server would compute them */
    sk_trial recorded;     /* its suffix row is the cold run's */
    sk_parcel production;  /* ResidentKv or KvRecurrent; no parts when state cannot leave the context */
    sk_parcel full, grown; /* FullState; production 16 tokens later */
    sk_proof_session_times times;
    uint32_t sample[SK_SESSION_SAMPLES]; /* shorter lengths, ascending */
    size_t n_samples;
    float *sample_rows; /* the cold run's logits after the token at each sampled position */
} sk_proof_session;

/* The kind of payload that serving uses for this context. */
enum skippy_payload_kind sk_proof_session_production_kind(const sk_rig *r);

/* Records on an idle rig. On any error the session is closed. Errors: those of the rig and of sk_parcel_export. */
int sk_proof_session_open(sk_rig *r, const sk_proof_session_params *p, sk_proof_session *out, sk_err *e);
/* Clears the rig's context. s may be all zero. */
void sk_proof_session_close(sk_proof_session *s);

#endif
