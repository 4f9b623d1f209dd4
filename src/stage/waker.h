/* A way to wake up one thread that waits, from any thread or signal handler. */
#ifndef SKIPPY_STAGE_WAKER_H
#define SKIPPY_STAGE_WAKER_H

#include <stdint.h>

#include "base/err.h"

typedef struct sk_waker {
    int fd; /* of an eventfd */
} sk_waker;

/* Errors: SKIPPY_E_IO. */
int sk_waker_open(sk_waker *w, sk_err *e);
void sk_waker_close(sk_waker *w);
/* Thread-safe and async-signal-safe. Wakes that come before the wait end it at once; several count as one. */
void sk_waker_wake(sk_waker *w);
/* Returns after a wake, or after timeout_ms. */
void sk_waker_wait(sk_waker *w, uint32_t timeout_ms);

#endif
