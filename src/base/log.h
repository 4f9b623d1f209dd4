/* Log lines on standard error: `skippy: level: text`. Thread-safe; one write per line. */
#ifndef SKIPPY_BASE_LOG_H
#define SKIPPY_BASE_LOG_H

enum sk_log_level { SK_LOG_ERROR = 0, SK_LOG_WARN = 1, SK_LOG_INFO = 2, SK_LOG_DEBUG = 3 };

/* Lines above this level are dropped. Default SK_LOG_INFO. */
void sk_log_set_level(enum sk_log_level level);
enum sk_log_level sk_log_get_level(void);
void sk_log(enum sk_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
