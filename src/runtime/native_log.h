/* llama.cpp's log, routed to ours. Internal to runtime/. */
#ifndef SKIPPY_RUNTIME_NATIVE_LOG_H
#define SKIPPY_RUNTIME_NATIVE_LOG_H

#include <stddef.h>

/* Installs the callback: every line goes to sk_log at debug level, and error lines are kept for sk_native_log_errors,
 * because llama.cpp reports the reason of a failed load or parse nowhere else. */
void sk_native_log_install(void);
/* Forgets the kept error lines; call it before the operation whose errors are wanted. */
void sk_native_log_clear(void);
/* Copies the kept error lines (the last 480 bytes at most, joined by "; ") into buf, which is always NUL-terminated.
 * The store is one per process: two loads at the same time may see each other's lines. Thread-safe. */
void sk_native_log_errors(char *buf, size_t cap);

#endif
