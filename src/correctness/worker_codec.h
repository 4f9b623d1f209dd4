/* Requests and answers of the fresh process as containers (wire.h). */
#ifndef SKIPPY_CORRECTNESS_WORKER_CODEC_H
#define SKIPPY_CORRECTNESS_WORKER_CODEC_H

#include "correctness/wire.h"
#include "correctness/worker.h"

/* A request that was read; pointers of `request` lead into this struct and into the container. */
typedef struct sk_worker_job {
    sk_worker_request request;
    char model_path[4096], type_k[16], type_v[16];
    int32_t *tokens;        /* owned */
    sk_stage_script script; /* owned; the rig's when it has positions */
    sk_parcel parcel;       /* blobs are not owned: n_cuts 0, data inside the container */
} sk_worker_job;

void sk_worker_write_request(sk_buf *b, const sk_worker_request *q);
/* Errors: SKIPPY_E_CORRUPT, SKIPPY_E_NOMEM. */
int sk_worker_read_request(const void *data, size_t len, sk_worker_job *out, sk_err *e);
void sk_worker_job_free(sk_worker_job *j);

/* An answer is a status with words, and the trial when the status is SKIPPY_OK. */
void sk_worker_write_answer(sk_buf *b, const sk_err *status, const sk_trial *t);
/* t was made by sk_trial_init with the sizes that are expected. Errors: SKIPPY_E_CORRUPT, or the status. */
int sk_worker_read_answer(const void *data, size_t len, sk_trial *t, sk_err *e);

#endif
