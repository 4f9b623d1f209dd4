/* Error replies as OpenAI error objects. */
#ifndef SKIPPY_SERVER_ERROR_REPLY_H
#define SKIPPY_SERVER_ERROR_REPLY_H

#include "openai/api.h"
#include "server/http_conn.h"

#define SK_TYPE_JSON "application/json; charset=utf-8"

/* Replies with status and an error whose type follows from the status. code "" becomes null. */
void sk_reply_error(sk_conn *c, int status, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Replies with an error that the API layer made. */
void sk_reply_api_error(sk_conn *c, const sk_api_error *err);
/* Replies for an engine code (enum skippy_status) and its text. */
void sk_reply_engine_error(sk_conn *c, int code, const char *text);

#endif
