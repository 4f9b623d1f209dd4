/* The modes of a hand-off that need more than restore and compare. Internal to correctness/. */
#ifndef SKIPPY_CORRECTNESS_INTERNAL_H
#define SKIPPY_CORRECTNESS_INTERNAL_H

#include "correctness/handoff.h"

/* Out of memory, I/O, cancelled: the machine failed, which says nothing about the model. */
bool sk_handoff_is_breakdown(int rc);

/* Restores a parcel in every target and judges. */
int sk_handoff_payload(sk_proof_session *s, const sk_handoff_params *p, const sk_parcel *parcel, sk_mode_result *out,
                       sk_err *e);
/* Pure recurrent models: the whole state. Hybrids: must be refused. */
int sk_handoff_recurrent_only(sk_proof_session *s, const sk_handoff_params *p, sk_mode_result *out, sk_err *e);
/* Shorter lengths from the snapshot and from the payload: exact, or refused where the memory cannot be cut. */
int sk_handoff_truncated(sk_proof_session *s, sk_mode_result *out, sk_err *e);
/* Must be refused; and when it is forced, the logits must show why. */
int sk_handoff_kv_only(sk_proof_session *s, sk_mode_result *out, sk_err *e);

#endif
