/* A few threads for work that must not run on the loop thread, because nobody can say how long it takes.
 *
 *   loop thread: add --> waiting --(a worker takes it)--> running --> finished --deliver--> loop thread: done()
 *                           \--withdraw or stop--> back at the owner, never run
 *
 * Tasks begin in the order in which they were added. A running task cannot be interrupted. All functions are called on
 * the loop thread. */
#ifndef SKIPPY_SERVER_TASK_POOL_H
#define SKIPPY_SERVER_TASK_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

typedef struct sk_task_pool sk_task_pool;

/* Part of the owner's object, which must stay until the task is back. */
typedef struct sk_task {
    struct sk_task *next;
    void (*run)(struct sk_task *t);  /* on a worker; its writes are visible in done() */
    void (*done)(struct sk_task *t); /* on the loop thread: the task is the owner's again */
} sk_task;

/* Errors: SKIPPY_E_NOMEM, SKIPPY_E_IO (no thread or no eventfd left). */
int sk_task_pool_create(unsigned n_threads, size_t max_waiting, sk_task_pool **out, sk_err *e);
/* Readable while finished tasks wait for sk_task_pool_deliver. */
int sk_task_pool_fd(const sk_task_pool *p);
/* False when max_waiting tasks wait already, or after the stop: the task stays the caller's. */
bool sk_task_pool_add(sk_task_pool *p, sk_task *t);
/* Takes a task back that no worker has begun; it will neither run nor be delivered. False when it is too late. */
bool sk_task_pool_withdraw(sk_task_pool *p, sk_task *t);
/* Calls done() of every finished task. */
void sk_task_pool_deliver(sk_task_pool *p);
/* Tasks that were added and are not back at their owners. */
size_t sk_task_pool_pending(const sk_task_pool *p);
/* Waits for the running tasks, then delivers everything; tasks that no worker has begun come back without having run.
 * A second call does nothing. */
void sk_task_pool_stop(sk_task_pool *p);
/* Stops first. NULL is allowed. */
void sk_task_pool_free(sk_task_pool *p);

#endif
