#include "bench/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

/* A lock-free atomic is the only kind of shared state that a handler and other threads may both touch. */
static atomic_int stop_asked;
static atomic_int watched[SK_INTERRUPT_GROUPS];

static void on_signal(int sig) {
    (void)sig;
    atomic_store(&stop_asked, 1);
    for (size_t i = 0; i < SK_INTERRUPT_GROUPS; i++) {
        const int group = atomic_load(&watched[i]);
        if (group > 0) {
            kill(-group, SIGTERM);
        }
    }
}

void sk_interrupt_install(void) {
    struct sigaction a = {.sa_handler = on_signal};
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    signal(SIGPIPE, SIG_IGN); /* a child that ended is an error of the write to its pipe */
}

bool sk_interrupted(void) {
    return atomic_load(&stop_asked) != 0;
}

/* Puts `next` where `now` was; does nothing when it is nowhere. */
static void exchange(pid_t now, pid_t next) {
    for (size_t i = 0; i < SK_INTERRUPT_GROUPS; i++) {
        int expected = (int)now;
        if (atomic_compare_exchange_strong(&watched[i], &expected, (int)next)) {
            return;
        }
    }
}

void sk_interrupt_watch(pid_t group) {
    exchange(0, group);
}

void sk_interrupt_unwatch(pid_t group) {
    if (group > 0) {
        exchange(group, 0);
    }
}
