#include "stage/waker.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

int sk_waker_open(sk_waker *w, sk_err *e) {
    w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->fd < 0) return sk_err_set(e, SKIPPY_E_IO, "no descriptor for waking up a thread: %s", strerror(errno));
    return SKIPPY_OK;
}

void sk_waker_close(sk_waker *w) {
    if (w->fd >= 0) close(w->fd);
    w->fd = -1;
}

void sk_waker_wake(sk_waker *w) {
    int saved = errno; /* a signal handler must not change it */
    const uint64_t one = 1;
    ssize_t n = write(w->fd, &one, sizeof one);
    (void)n; /* only a counter that is full refuses, and that one wakes as well */
    errno = saved;
}

void sk_waker_wait(sk_waker *w, uint32_t timeout_ms) {
    struct pollfd p = {.fd = w->fd, .events = POLLIN};
    uint64_t count;
    poll(&p, 1, timeout_ms > INT_MAX ? INT_MAX : (int)timeout_ms);
    ssize_t n = read(w->fd, &count, sizeof count);
    (void)n; /* nothing to read after a timeout */
}
