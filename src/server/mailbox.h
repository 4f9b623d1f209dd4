/* Engine events on their way to the loop thread: a queue with an eventfd that wakes the loop once per batch. */
#ifndef SKIPPY_SERVER_MAILBOX_H
#define SKIPPY_SERVER_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>

#include "engine/engine.h"

/* One event, copied: everything that ev points to lives in the same allocation. */
typedef struct sk_mail {
    struct sk_mail *next;
    void *to;      /* the receiver, as given to the engine as `ud` */
    bool embedded; /* part of another object: not freed by sk_mail_free */
    sk_gen_event ev;
    sk_gen_stats stats;
} sk_mail;

typedef struct sk_mailbox {
    pthread_mutex_t lock;
    sk_mail *head, **tail;
    int fd; /* readable while the queue is not empty */
} sk_mailbox;

/* Errors: SKIPPY_E_IO (no eventfd). */
int sk_mailbox_init(sk_mailbox *m, sk_err *e);
/* Frees what is still queued. No other thread may use the box any more. */
void sk_mailbox_close(sk_mailbox *m);
/* Any thread. Never fails and never blocks for long: the lock is held for two pointer writes. */
void sk_mailbox_push(sk_mailbox *m, sk_mail *mail);
/* Loop thread: takes everything, oldest first; NULL when empty. */
sk_mail *sk_mailbox_take(sk_mailbox *m);

/* Deep copy of an event. NULL when out of memory. */
sk_mail *sk_mail_copy(void *to, const sk_gen_event *ev);
void sk_mail_free(sk_mail *mail);

#endif
