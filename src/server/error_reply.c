#include "server/error_reply.h"

#include <stdarg.h>
#include <stdio.h>

static const char *type_for(int status) {
    switch (status) {
    case 401: return "authentication_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 503: return "unavailable_error";
    default: return status < 500 ? "invalid_request_error" : "server_error";
    }
}

void sk_reply_api_error(sk_conn *c, const sk_api_error *err) {
    sk_buf body = {0};
    sk_api_error_json(err, &body);
    sk_conn_reply(c, err->status, SK_TYPE_JSON, body.data, body.len);
    sk_buf_free(&body);
}

void sk_reply_error(sk_conn *c, int status, const char *code, const char *fmt, ...) {
    sk_api_error err;
    va_list ap;
    sk_api_error_set(&err, status, type_for(status), code, "", "%s", "");
    va_start(ap, fmt);
    vsnprintf(err.message, sizeof err.message, fmt, ap);
    va_end(ap);
    sk_reply_api_error(c, &err);
}

void sk_reply_engine_error(sk_conn *c, int code, const char *text) {
    const char *name = code == SKIPPY_E_TOO_LARGE ? "context_length_exceeded"
                       : code == SKIPPY_E_FULL    ? "queue_full"
                                                  : "";
    sk_reply_error(c, sk_api_status_for(code), name, "%s", text && *text ? text : skippy_strerror(code));
}
