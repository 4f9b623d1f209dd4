/* Requests with a body in flight: one exchange joins a client's request with the work that answers it.
 *
 * A worker thread reads the body and submits the engine jobs that it asks for; the loop thread goes on meanwhile.
 *
 *   start --> preparing (worker) --> running (engine jobs) --> replied
 *                   \--> replied: refused, or answered without the engine
 *
 * Life of an exchange: it is freed when the client's reply is finished (or the client gone), no worker has it, and the
 * engine has sent the last event of every job. So no side can use it after the others have ended. Loop thread only;
 * engine events cross over through the mailbox, prepared requests through the task pool. */
#ifndef SKIPPY_SERVER_EXCHANGE_H
#define SKIPPY_SERVER_EXCHANGE_H

#include <event2/event.h>

#include "engine/engine.h"
#include "openai/api.h"
#include "server/http_conn.h"
#include "server/mailbox.h"
#include "server/task_pool.h"

typedef struct sk_exchange sk_exchange;

typedef struct sk_exchange_table {
    sk_engine *engine;
    sk_api *api;
    sk_mailbox box;
    sk_task_pool *pool;
    sk_exchange *first;
    bool stopped;
} sk_exchange_table;

/* Answers a body without the engine: returns the HTTP status and fills out. Called on a worker. */
typedef int (*sk_answer_fn)(sk_api *api, const char *body, size_t len, sk_buf *out);

/* engine and api are borrowed. n_workers threads read bodies; max_waiting bodies may wait for one. Errors: SKIPPY_E_IO,
 * SKIPPY_E_NOMEM. */
int sk_exchange_table_init(sk_exchange_table *t, sk_engine *engine, sk_api *api, unsigned n_workers, size_t max_waiting,
                           sk_err *e);
/* Lets go of every client without a reply, cancels their work and waits for the workers. The engine still runs: it is
 * not used by this table after the call. A second call does nothing. */
void sk_exchange_table_stop(sk_exchange_table *t);
/* After the table and the engine have stopped: frees what is left. */
void sk_exchange_table_close(sk_exchange_table *t);

/* Reads the connection's body and submits its jobs. The reply is made by this call (503: too many bodies wait) or
 * later. tenant: NULL without API keys. Sets the connection's data to the exchange. */
void sk_exchange_start(sk_exchange_table *t, sk_conn *c, enum sk_api_kind kind, const char *tenant);
/* The same for a request that `answer` answers alone. */
void sk_exchange_answer(sk_exchange_table *t, sk_conn *c, sk_answer_fn answer);
/* Erases from the cache what the body means, of this tenant only (NULL without API keys: of everybody). */
void sk_exchange_erase(sk_exchange_table *t, sk_conn *c, const char *tenant);
/* The client of this exchange is gone: cancels its work. x may be NULL. */
void sk_exchange_client_gone(sk_exchange *x);
/* Handles everything in the mailbox. */
void sk_exchange_deliver_all(sk_exchange_table *t);
/* Tells every client that the server is shutting down, ends its reply and cancels its jobs. */
void sk_exchange_end_all(sk_exchange_table *t);

#endif
