/* The head of one HTTP/1.0 or HTTP/1.1 request: request line and header fields (RFC 9112). Pure; no sockets.
 *
 * Strict where leniency is a known way to smuggle a request past a proxy: a head with both Content-Length and
 * Transfer-Encoding, with two lengths, with folded lines or with control characters is refused. */
#ifndef SKIPPY_SERVER_HTTP_HEAD_H
#define SKIPPY_SERVER_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SK_HTTP_MAX_FIELDS 64

enum sk_http_method {
    SK_HTTP_OTHER = 0,
    SK_HTTP_GET = 1,
    SK_HTTP_HEAD = 2,
    SK_HTTP_POST = 4,
    SK_HTTP_PUT = 8,
    SK_HTTP_DELETE = 16,
    SK_HTTP_OPTIONS = 32,
    SK_HTTP_PATCH = 64
};

typedef struct sk_http_field {
    const char *name, *value;
} sk_http_field;

/* All strings point into the text that was parsed and live as long as it. */
typedef struct sk_http_head {
    enum sk_http_method method;
    const char *path;  /* without the query; always begins with '/', or is "*" */
    const char *query; /* after '?', "" when there is none */
    int minor;         /* 0 or 1: HTTP/1.x */
    bool keep_alive;   /* what the client asked for, with the version's default */
    bool expect_continue;
    bool chunked; /* the body comes in chunks; content_length is 0 then */
    uint64_t content_length;
    size_t n_fields;
    sk_http_field fields[SK_HTTP_MAX_FIELDS];
} sk_http_head;

/* Length of the first complete head in data, blank line included; 0 when it is not complete. from: how many bytes
 * an earlier call has already seen, so that a slow sender costs linear time in all. */
size_t sk_http_head_end(const char *data, size_t len, size_t from);

/* Parses a complete head of len bytes in place (text is changed: strings get their NUL). Returns 0, or the HTTP
 * status of the refusal (400, 417, 431, 501, 505) and one sentence in *why (static). */
int sk_http_head_parse(char *text, size_t len, sk_http_head *out, const char **why);

/* Value of a field by its name without regard to case; NULL when absent. */
const char *sk_http_head_field(const sk_http_head *h, const char *name);

#endif
