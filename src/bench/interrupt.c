#include "bench/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

/* A lock-free atomic is the only kind of shared state that a handler and other threads may both touch. */
static atomic_int stop_asked;
static atomic_int watched_group;

static void on_signal(int sig) {
    (void)sig;
    atomic_store(&stop_asked, 1);
    const int group = atomic_load(&watched_group);
    if (group > 0) {
        kill(-group, SIGTERM);
    }
}

void sk_interrupt_install(void) {
    struct sigaction a = {.sa_handler = on_signal};
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

bool sk_interrupted(void) {
    return atomic_load(&stop_asked) != 0;
}

void sk_interrupt_watch(pid_t group) {
    atomic_store(&watched_group, (int)group);
}
