#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

const char *skippy_strerror(int status) {
    switch ((enum skippy_status)status) {
    case SKIPPY_OK: return "ok";
    case SKIPPY_E_INVALID: return "invalid argument";
    case SKIPPY_E_NOMEM: return "out of memory";
    case SKIPPY_E_NOT_FOUND: return "not found";
    case SKIPPY_E_EXISTS: return "already exists";
    case SKIPPY_E_FULL: return "limit reached and nothing can be evicted";
    case SKIPPY_E_TOO_LARGE: return "larger than the limit";
    case SKIPPY_E_BUSY: return "in use";
    case SKIPPY_E_CORRUPT: return "corrupt data";
    case SKIPPY_E_UNSUPPORTED: return "not supported";
    case SKIPPY_E_IO: return "input/output error";
    case SKIPPY_E_MODEL: return "model file not usable";
    case SKIPPY_E_RUNTIME: return "runtime error";
    case SKIPPY_E_CANCELLED: return "cancelled";
    case SKIPPY_E_TIMEOUT: return "timed out";
    case SKIPPY_E_TOO_SMALL: return "buffer too small";
    }
    return "unknown error";
}

#undef sk_err_set /* the analyser's form of it */
int sk_err_set(sk_err *e, int code, const char *fmt, ...) {
    if (e) {
        va_list ap;
        e->code = code;
        va_start(ap, fmt);
        vsnprintf(e->text, sizeof e->text, fmt, ap);
        va_end(ap);
    }
    return code;
}

char *sk_text_clean(char *text) {
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
    return text;
}
