/* Shared by exchange.c (the client's side) and exchange_prepare.c (from the bytes of a body to engine jobs). */
#ifndef SKIPPY_SERVER_EXCHANGE_INTERNAL_H
#define SKIPPY_SERVER_EXCHANGE_INTERNAL_H

#include <stdatomic.h>

#include "server/auth.h"
#include "server/exchange.h"

/* One engine job. Its address is the engine's `ud`. */
typedef struct sk_exchange_job {
    sk_exchange *x;
    size_t index;
    uint64_t id;
    bool live; /* submitted, last event not yet handled */
    /* For the engine thread when memory is out: the last event must arrive in any case. */
    sk_mail spare;
} sk_exchange_job;

/* What a worker makes of a body. A worker's while the exchange is being prepared, the loop thread's before and after.
 */
typedef struct sk_prepared {
    sk_buf body;
    enum sk_api_kind kind;
    sk_answer_fn answer; /* NULL: a generation, or an erase */
    bool erase;
    char tenant[SK_TENANT_CAP];
    bool has_tenant;
    sk_buf text; /* of an answer that needs no engine */
    int status;  /* of text; or of a body that was refused: then `refusal` says why; 0 = none */
    int code;    /* enum skippy_status: why no jobs run although the body is good */
    sk_api_error refusal;
    sk_err error;
} sk_prepared;

struct sk_exchange {
    sk_task task; /* must be first */
    sk_exchange *prev, *next;
    sk_exchange_table *table;
    sk_conn *conn;        /* NULL: nobody is waiting for the answer any more */
    bool preparing;       /* the task is with the pool */
    atomic_bool unwanted; /* the client left: a worker may stop early */
    sk_prepared p;
    sk_api_call *call;
    sk_exchange_job *jobs;
    size_t n_jobs, live;
    sk_mail *early, **early_tail; /* engine events that overtook the end of the preparation */
    unsigned busy;                /* calls on the stack that still need the exchange */
    bool stream;
    bool begun; /* streaming: the reply's head is written */
    bool explained;
    char explanation[384];
};

/* On a worker: reads the body, and submits the jobs that it asks for, or answers it at once. */
void sk_exchange_prepare(sk_task *t);

#endif
