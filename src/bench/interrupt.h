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
/* The process group that a signal must end too; 0 = none. */
void sk_interrupt_watch(pid_t group);

#endif
