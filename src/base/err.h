/* Error detail for people: what was wrong, which value, what to do. */
#ifndef SKIPPY_BASE_ERR_H
#define SKIPPY_BASE_ERR_H

#include "skippy/error.h"

/* Filled by the function that fails; owned by the caller; `text` is always NUL-terminated. */
typedef struct sk_err {
    int code; /* enum skippy_status */
    char text[512];
} sk_err;

/* Stores code and formatted text in *e (e may be NULL) and returns code, so that
 * `return sk_err_set(e, SKIPPY_E_IO, "...")` reads straight. Overlong text is cut. */
int sk_err_set(sk_err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Replaces control characters, which could forge lines of a log, in a text that came from elsewhere. Returns text. */
char *sk_text_clean(char *text);

/* A static analyser sees one file at a time: without this it takes `sk_err_set(...)` for possibly SKIPPY_OK and follows
 * paths that do not exist. */
#ifdef __clang_analyzer__
#define sk_err_set(e, code, ...)                                                                                       \
    __extension__({                                                                                                    \
        int sk_err_code_ = (code);                                                                                     \
        (sk_err_set)(e, sk_err_code_, __VA_ARGS__);                                                                    \
        sk_err_code_;                                                                                                  \
    })
#endif

#endif
