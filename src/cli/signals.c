#include "cli/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

static void (*stop_now)(void);
static atomic_uint signals;

static void on_signal(int sig) {
    if (atomic_fetch_add(&signals, 1) >= 2) _exit(128 + sig);
    stop_now();
}

void sk_signals_install(void (*stop)(void)) {
    stop_now = stop;
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    act.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &act, NULL);
    sigaction(SIGXFSZ, &act, NULL);
}

bool sk_signals_none(void) {
    return atomic_load(&signals) == 0;
}
