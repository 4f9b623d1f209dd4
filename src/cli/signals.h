/* SIGINT and SIGTERM in programs that serve. One set for each process. */
#ifndef SKIPPY_CLI_SIGNALS_H
#define SKIPPY_CLI_SIGNALS_H

#include <stdbool.h>

/* stop is called at the first and the second signal, from the handler: only what is async-signal-safe. The third signal
 * ends the process with 128 plus its number, whatever it is busy with. SIGPIPE and SIGXFSZ are ignored: a peer that
 * leaves, or a file that may not grow, is an error of write, not the end. */
void sk_signals_install(void (*stop)(void));
/* No signal has come yet: long work may go on. */
bool sk_signals_none(void);

#endif
