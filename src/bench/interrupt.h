/* Ctrl-C and SIGTERM while a benchmark runs: the child server is ended, what was measured is kept.
 * Process-wide by nature (signals are); installed once by the command. */
#ifndef SKIPPY_BENCH_INTERRUPT_H
#define SKIPPY_BENCH_INTERRUPT_H

#include <stdbool.h>
#include <sys/types.h>

/* Installs the handlers, without SA_RESTART, so that blocking calls return. */
void sk_interrupt_install(void);
/* A signal asked us to stop. Thread-safe. */
bool sk_interrupted(void);
/* Process groups (at most SK_INTERRUPT_GROUPS at a time) that get SIGTERM with the signal, so that nobody waits for
 * their answers. unwatch does nothing for a group that is not watched. */
enum { SK_INTERRUPT_GROUPS = 8 };
void sk_interrupt_watch(pid_t group);
void sk_interrupt_unwatch(pid_t group);

#endif
