#include "openai/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void set_text(char *dst, size_t cap, const char *src) {
    snprintf(dst, cap, "%s", src ? src : "");
}

static int set_va(sk_api_error *e, int status, const char *type, const char *code, const char *param, const char *fmt,
                  va_list ap) {
    memset(e, 0, sizeof *e);
    e->status = status;
    set_text(e->type, sizeof e->type, type);
    set_text(e->code, sizeof e->code, code);
    set_text(e->param, sizeof e->param, param);
    vsnprintf(e->message, sizeof e->message, fmt, ap);
    return status;
}

int sk_api_error_set(sk_api_error *e, int status, const char *type, const char *code, const char *param,
                     const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    set_va(e, status, type, code, param, fmt, ap);
    va_end(ap);
    return status;
}

int sk_api_invalid(sk_api_error *e, const char *param, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    set_va(e, 400, "invalid_request_error", NULL, param, fmt, ap);
    va_end(ap);
    return 400;
}

int sk_api_nomem(sk_api_error *e) {
    return sk_api_error_set(e, 500, "server_error", NULL, NULL, "the server is out of memory");
}

int sk_api_context_exceeded(sk_api_error *e, size_t n_prompt, size_t n_ctx) {
    return sk_api_error_set(e, 400, "invalid_request_error", "context_length_exceeded", NULL,
                            "the prompt has %zu tokens, and the context holds %zu", n_prompt, n_ctx);
}

int sk_api_context_far_exceeded(sk_api_error *e, size_t least_tokens, size_t n_ctx) {
    return sk_api_error_set(e, 400, "invalid_request_error", "context_length_exceeded", NULL,
                            "the prompt has at least %zu tokens, and the context holds %zu", least_tokens, n_ctx);
}

static void add_member(sk_buf *out, const char *name, const char *value) {
    sk_buf_printf(out, ",\"%s\":", name);
    if (!*value) {
        sk_buf_str(out, "null");
        return;
    }
    sk_buf_str(out, "\"");
    sk_buf_json_escape(out, value, strlen(value));
    sk_buf_str(out, "\"");
}

void sk_api_error_json(const sk_api_error *e, sk_buf *out) {
    sk_buf_str(out, "{\"error\":{\"message\":\"");
    sk_buf_json_escape(out, e->message, strlen(e->message));
    sk_buf_str(out, "\"");
    add_member(out, "type", e->type);
    add_member(out, "param", e->param);
    add_member(out, "code", e->code);
    sk_buf_str(out, "}}");
}

int sk_api_status_for(int code) {
    switch (code) {
    case SKIPPY_OK: return 200;
    case SKIPPY_E_INVALID:
    case SKIPPY_E_TOO_LARGE: return 400;
    case SKIPPY_E_FULL: return 429;
    case SKIPPY_E_BUSY: return 503;
    case SKIPPY_E_TIMEOUT: return 504;
    default: return 500;
    }
}
