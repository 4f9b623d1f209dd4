#include "runtime/native_log.h"

#include <llama.h>
#include <pthread.h>
#include <string.h>

#include "base/log.h"

/* One line under construction (llama.cpp logs in pieces) and the error lines so far. */
static struct {
    pthread_mutex_t lock;
    char line[512];
    size_t line_len;
    bool line_is_error;
    char errors[481];
    size_t errors_len;
} store = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Keeps the newest lines: the last one names the cause of those before it. */
static void keep_error(const char *line, size_t len) {
    const size_t cap = sizeof store.errors - 1;
    if (len > cap) len = cap;
    size_t gap = store.errors_len ? 2 : 0;
    if (store.errors_len + gap + len > cap) {
        store.errors_len = 0;
        gap = 0;
    }
    memcpy(store.errors + store.errors_len, "; ", gap);
    memcpy(store.errors + store.errors_len + gap, line, len);
    store.errors_len += gap + len;
    store.errors[store.errors_len] = 0;
}

static void end_line(void) {
    if (store.line_len == 0) return;
    store.line[store.line_len] = 0;
    if (store.line_is_error) keep_error(store.line, store.line_len);
    sk_log(SK_LOG_DEBUG, "llama.cpp: %s", store.line);
    store.line_len = 0;
}

static void on_log(enum ggml_log_level level, const char *text, void *ud) {
    (void)ud;
    pthread_mutex_lock(&store.lock);
    if (level != GGML_LOG_LEVEL_CONT) {
        end_line();
        store.line_is_error = level == GGML_LOG_LEVEL_ERROR;
    }
    for (; *text; text++) {
        if (*text == '\n')
            end_line();
        else if (store.line_len < sizeof store.line - 1)
            store.line[store.line_len++] = *text;
    }
    pthread_mutex_unlock(&store.lock);
}

void sk_native_log_install(void) {
    llama_log_set(on_log, NULL);
}

void sk_native_log_clear(void) {
    pthread_mutex_lock(&store.lock);
    store.errors_len = 0;
    store.errors[0] = 0;
    pthread_mutex_unlock(&store.lock);
}

void sk_native_log_errors(char *buf, size_t cap) {
    pthread_mutex_lock(&store.lock);
    size_t n = store.errors_len < cap ? store.errors_len : cap - 1;
    memcpy(buf, store.errors, n);
    buf[n] = 0;
    pthread_mutex_unlock(&store.lock);
}
