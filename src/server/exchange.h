/* Generation calls in flight: one exchange joins a client's request with the engine jobs that answer it.
 *
 * Life of an exchange: it is freed when both the client's reply is finished (or the client gone) and the engine has
 * sent the last event of every job. So neither side can use it after the other has ended. Loop thread only; engine
 * events cross over through the mailbox. */
#ifndef SKIPPY_SERVER_EXCHANGE_H
#define SKIPPY_SERVER_EXCHANGE_H

#include <event2/event.h>

#include "engine/engine.h"
#include "openai/api.h"
#include "server/http_conn.h"
#include "server/mailbox.h"

typedef struct sk_exchange sk_exchange;

typedef struct sk_exchange_table {
    sk_engine *engine;
    sk_api *api;
    sk_mailbox box;
    sk_exchange *first;
} sk_exchange_table;

/* engine and api are borrowed. Errors: SKIPPY_E_IO. */
int sk_exchange_table_init(sk_exchange_table *t, sk_engine *engine, sk_api *api, sk_err *e);
/* After the engine has stopped and the connections are closed: frees what is left. */
void sk_exchange_table_close(sk_exchange_table *t);

/* Parses the connection's request and submits its jobs. The reply is made by this call (errors) or later.
 * tenant: NULL without API keys. Sets the connection's data to the exchange. */
void sk_exchange_start(sk_exchange_table *t, sk_conn *c, enum sk_api_kind kind, const char *tenant);
/* The client of this exchange is gone: cancels its jobs. x may be NULL. */
void sk_exchange_client_gone(sk_exchange *x);
/* Handles everything in the mailbox. */
void sk_exchange_deliver_all(sk_exchange_table *t);
/* Tells every client that the server is shutting down, ends its reply and cancels its jobs. */
void sk_exchange_end_all(sk_exchange_table *t);

#endif
