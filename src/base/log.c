#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Atomic int max_level = SK_LOG_INFO;

void sk_log_set_level(enum sk_log_level level) {
    atomic_store(&max_level, (int)level);
}

enum sk_log_level sk_log_get_level(void) {
    return (enum sk_log_level)atomic_load(&max_level);
}

void sk_log(enum sk_log_level level, const char *fmt, ...) {
    static const char *const prefix[] = {"skippy: error: ", "skippy: warning: ", "skippy: ", "skippy: debug: "};
    if ((int)level > atomic_load(&max_level)) return;
    char line[1024];
    size_t at = strlen(prefix[level]);
    memcpy(line, prefix[level], at);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line + at, sizeof line - at - 1, fmt, ap);
    va_end(ap);
    if (n < 0) return;
    at += (size_t)n < sizeof line - at - 1 ? (size_t)n : sizeof line - at - 2;
    line[at++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, at);
    (void)written; /* nothing sensible can be done when standard error is closed */
}
