/* One client connection: reads requests, one after the other, and writes replies, whole or streamed.
 *
 * Built on libevent's bufferevents. What a reply says is the handler's business; here are framing, limits, time-outs
 * and the end of a connection. Loop thread only.
 *
 *   IDLE --bytes--> HEAD --blank line--> BODY --complete--> HANDLING --reply sent--> IDLE
 *     any phase --refusal or "Connection: close"--> LINGER (flush, then discard input until the peer is done) --> freed
 *
 * CAVEATS
 *  - A connection can close inside any call that writes to it (a reader that is too slow). Its memory stays valid until
 *    the outermost call returns; after sk_conn_handler.gone it must not be used.
 *  - A client that closes its sending side while its request is handled counts as gone, as with llama-server. */
#ifndef SKIPPY_SERVER_HTTP_CONN_H
#define SKIPPY_SERVER_HTTP_CONN_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "server/http_head.h"

typedef struct sk_conn sk_conn;
typedef struct sk_conn_set sk_conn_set;

typedef struct sk_conn_limits {
    size_t max_head;    /* bytes of a request's head: beyond it 431 */
    size_t max_body;    /* bytes of a request's body: beyond it 413 */
    size_t max_output;  /* bytes of a stream that wait for the reader: beyond it the connection is closed */
    uint32_t head_ms;   /* from the first byte of a request to the end of its head: 408 */
    uint32_t body_ms;   /* without a byte of the body: 408 */
    uint32_t idle_ms;   /* between requests: closed */
    uint32_t write_ms;  /* the peer takes nothing: closed */
    uint32_t ping_ms;   /* silence in a stream after which a comment is sent */
    uint32_t linger_ms; /* after the last reply, for the peer to finish sending */
} sk_conn_limits;

/* What the owner does with requests. Calls come from the loop thread; none may free the set. */
typedef struct sk_conn_handler {
    void *ud;
    /* The head is complete, the body not read yet. Replies and returns false to refuse early, else true. */
    bool (*head)(void *ud, sk_conn *c);
    /* The request is complete. Leads to one reply, now or later. */
    void (*request)(void *ud, sk_conn *c);
    /* The request cannot be understood or took too long: write an error reply. The connection closes after it. */
    void (*refuse)(void *ud, sk_conn *c, int status, const char *why);
    /* The connection is closing while its request is being handled: no reply is possible any more. */
    void (*gone)(void *ud, sk_conn *c);
    /* A reply was written completely (to the output buffer). */
    void (*replied)(void *ud, sk_conn *c, int status);
    /* A connection was closed, or its output has been sent. */
    void (*settled)(void *ud);
} sk_conn_handler;

/* handler and limits are copied. NULL when out of memory. */
sk_conn_set *sk_conn_set_create(struct event_base *base, const sk_conn_limits *limits, const sk_conn_handler *handler);
/* Closes every connection. */
void sk_conn_set_free(sk_conn_set *set);
size_t sk_conn_set_count(const sk_conn_set *set);
/* True when no request is being handled and all output is sent. */
bool sk_conn_set_settled(const sk_conn_set *set);
/* Applies time-outs and sends pings; called regularly with the monotonic time. */
void sk_conn_set_sweep(sk_conn_set *set, uint64_t now_ns);
/* Takes a connected socket over (it is closed on failure too). False when out of memory. */
bool sk_conn_open(sk_conn_set *set, int fd);

const sk_http_head *sk_conn_head(const sk_conn *c);
const sk_buf *sk_conn_body(const sk_conn *c);
/* Moves the body to the caller, who frees it; the connection's is empty then. */
sk_buf sk_conn_take_body(sk_conn *c);
/* The owner's data for the current request: NULL and 0 at its start. */
void sk_conn_set_data(sk_conn *c, void *data);
void *sk_conn_data(const sk_conn *c);
void sk_conn_set_tag(sk_conn *c, int tag);
int sk_conn_tag(const sk_conn *c);

/* Adds a header field to the reply; before the reply begins. The value must not hold line breaks. */
void sk_conn_add_header(sk_conn *c, const char *name, const char *value);
/* A whole reply. type NULL: no Content-Type. For HEAD the body is left out. */
void sk_conn_reply(sk_conn *c, int status, const char *type, const char *body, size_t len);
/* A streamed reply: chunked for HTTP/1.1, until the connection closes for HTTP/1.0. */
void sk_conn_stream_begin(sk_conn *c, int status, const char *type);
void sk_conn_stream_write(sk_conn *c, const char *data, size_t len);
void sk_conn_stream_end(sk_conn *c);
/* Closes without a reply, for instance when a stream cannot go on; calls gone. */
void sk_conn_abort(sk_conn *c);

/* "OK" for 200 and so on. */
const char *sk_http_reason(int status);

#endif
