/* The fresh process of a certification: the program starts itself again, hands the state over in an unlinked file, and
 * reads back what a lane over there says. Nothing is left on disk, whatever happens.
 *
 * Not thread-safe. */
#ifndef SKIPPY_CORRECTNESS_WORKER_H
#define SKIPPY_CORRECTNESS_WORKER_H

#include "correctness/parcel.h"
#include "correctness/trial.h"

typedef struct sk_worker_request {
    const char *model_path;
    int32_t n_gpu_layers;
    sk_rig_params rig;
    sk_row_class rows;     /* multiple 0: none holds */
    skippy_key layout;     /* of the exporting context: the fresh one must have learned the same */
    const int32_t *tokens; /* the prefix and SK_TRIAL_SUFFIX more */
    uint32_t n_prefix, repeats;
    const sk_parcel *parcel;
} sk_worker_request;

/* Runs argv (a program and its arguments; one more, "IN:OUT" with two descriptor numbers, is appended), which must end
 * up in sk_worker_main, and fills the trial (made by sk_trial_init). The child dies with this process, and after
 * timeout_ms. Errors: SKIPPY_E_IO, SKIPPY_E_TIMEOUT, SKIPPY_E_CORRUPT (its answer is damaged), SKIPPY_E_NOMEM,
 * SKIPPY_E_RUNTIME (it ended without an answer), or what went wrong over there. */
int sk_worker_run(const char *const *argv, const sk_worker_request *request, int timeout_ms, sk_trial *out, sk_err *e);

/* The other side. fds: "IN:OUT". Returns the exit code: 0 when an answer was written, even if it is an error. */
int sk_worker_main(const char *fds);

#endif
