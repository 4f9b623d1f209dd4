#include "server/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "server/error_reply.h"
#include "server/exchange_internal.h"

#define SHUTTING_DOWN "the server is shutting down"

int sk_exchange_table_init(sk_exchange_table *t, sk_engine *engine, sk_api *api, unsigned n_workers, size_t max_waiting,
                           sk_err *e) {
    memset(t, 0, sizeof *t);
    t->engine = engine;
    t->api = api;
    int rc = sk_mailbox_init(&t->box, e);
    if (rc) return rc;
    rc = sk_task_pool_create(n_workers, max_waiting, &t->pool, e);
    if (rc) sk_mailbox_close(&t->box);
    return rc;
}

/* ---- life ---- */

static sk_exchange *exchange_new(sk_exchange_table *t, sk_conn *c) {
    sk_exchange *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    x->table = t;
    x->conn = c;
    x->early_tail = &x->early;
    x->next = t->first;
    if (x->next) x->next->prev = x;
    t->first = x;
    sk_conn_set_data(c, x);
    return x;
}

static void free_if_over(sk_exchange *x) {
    if (x->busy || x->conn || x->preparing) return;
    if (x->live) return; /* a worker's while it prepares */
    if (x->prev)
        x->prev->next = x->next;
    else
        x->table->first = x->next;
    if (x->next) x->next->prev = x->prev;
    if (x->call) sk_api_call_free(x->call);
    sk_buf_free(&x->p.body);
    sk_buf_free(&x->p.text);
    free(x->jobs);
    free(x);
}

static void detach(sk_exchange *x) {
    if (x->conn) sk_conn_set_data(x->conn, NULL);
    x->conn = NULL;
}

/* Nobody waits for the answer any more: what can be spared of the work is. While a worker has the exchange its jobs
 * are not known here; prepared() comes back to them. */
static void cancel_work(sk_exchange *x) {
    if (x->preparing) {
        atomic_store(&x->unwanted, true);
        if (sk_task_pool_withdraw(x->table->pool, &x->task)) x->preparing = false;
        return;
    }
    for (size_t i = 0; i < x->n_jobs; i++)
        if (x->jobs[i].live) sk_engine_cancel(x->table->engine, x->jobs[i].id);
}

void sk_exchange_client_gone(sk_exchange *x) {
    if (!x) return;
    detach(x);
    cancel_work(x);
    free_if_over(x);
}

void sk_exchange_table_stop(sk_exchange_table *t) {
    if (t->stopped) return; /* the engine may be gone */
    t->stopped = true;
    for (sk_exchange *x = t->first, *next; x; x = next) {
        next = x->next;
        sk_exchange_client_gone(x);
    }
    sk_task_pool_stop(t->pool);
}

void sk_exchange_table_close(sk_exchange_table *t) {
    sk_exchange_deliver_all(t);
    if (t->first) sk_log(SK_LOG_ERROR, "the server ended while the engine was still answering requests");
    sk_task_pool_free(t->pool);
    sk_mailbox_close(&t->box);
}

/* ---- replies ---- */

/* The whole call fails with an HTTP status: possible as long as no byte of the reply is written. */
static void fail_call(sk_exchange *x, int code, const char *text) {
    sk_conn *c = x->conn;
    detach(x);
    cancel_work(x);
    sk_reply_engine_error(c, code, text);
}

static void add_explanation(sk_exchange *x) {
    if (x->explained) sk_conn_add_header(x->conn, "X-Skippy-Cache", x->explanation);
}

static void begin_stream(sk_exchange *x) {
    if (x->begun) return;
    x->begun = true;
    add_explanation(x);
    sk_conn_add_header(x->conn, "Cache-Control", "no-cache");
    sk_conn_stream_begin(x->conn, 200, "text/event-stream");
}

static void end_stream(sk_exchange *x) {
    sk_conn *c = x->conn;
    detach(x);
    sk_conn_stream_end(c);
}

/* A stream that cannot be continued is cut, so that the client sees an incomplete reply, not a short answer. */
static void cut_stream(sk_exchange *x) {
    sk_log(SK_LOG_ERROR, "an event could not be written to its stream: out of memory");
    sk_conn_abort(x->conn);
}

static void feed_stream(sk_exchange *x, size_t index, const sk_gen_event *ev) {
    sk_conn *c = x->conn;
    if (ev->type == SK_EV_ERROR && !x->begun) {
        fail_call(x, ev->code, ev->error);
        return;
    }
    sk_buf out = {0};
    begin_stream(x);
    int rc = sk_api_call_event(x->call, index, ev, &out);
    if (rc != SKIPPY_OK || out.failed) {
        cut_stream(x);
    } else {
        sk_conn_stream_write(c, out.data, out.len);
        /* The write may have closed a connection that does not read: x->conn is NULL then. */
        if (x->conn && sk_api_call_done(x->call)) end_stream(x);
    }
    sk_buf_free(&out);
}

static void send_answer(sk_exchange *x) {
    sk_buf out = {0};
    sk_conn *c = x->conn;
    int status = sk_api_call_response(x->call, &out);
    add_explanation(x);
    detach(x);
    if (out.failed)
        sk_reply_error(c, 500, "", "the server ran out of memory");
    else
        sk_conn_reply(c, status, SK_TYPE_JSON, out.data, out.len);
    sk_buf_free(&out);
}

static void feed_whole(sk_exchange *x, size_t index, const sk_gen_event *ev) {
    sk_buf unused = {0};
    int rc = sk_api_call_event(x->call, index, ev, &unused);
    sk_buf_free(&unused);
    if (rc != SKIPPY_OK)
        fail_call(x, rc, "the answer could not be put together");
    else if (sk_api_call_done(x->call))
        send_answer(x);
}

static void explain(sk_exchange *x, const sk_gen_event *ev) {
    if (x->explained || !ev->stats || (ev->type != SK_EV_START && ev->type != SK_EV_DONE)) return;
    x->explained = true;
    sk_cache_explain(&ev->stats->cache, x->explanation, sizeof x->explanation);
}

static void deliver(sk_mail *mail) {
    sk_exchange_job *j = mail->to;
    sk_exchange *x = j->x;
    x->busy++;
    bool last = mail->ev.type == SK_EV_DONE || mail->ev.type == SK_EV_ERROR;
    if (last && j->live) {
        j->live = false;
        x->live--;
        /* An event of this job was lost for want of memory (see on_engine_event). */
        if (j->spare.ev.code == SKIPPY_E_NOMEM) {
            mail->ev.type = SK_EV_ERROR;
            mail->ev.code = SKIPPY_E_NOMEM;
            mail->ev.error = "the server ran out of memory";
        }
    }
    if (x->conn) {
        explain(x, &mail->ev);
        if (x->stream)
            feed_stream(x, j->index, &mail->ev);
        else
            feed_whole(x, j->index, &mail->ev);
    }
    x->busy--;
    sk_mail_free(mail);
    free_if_over(x);
}

static void deliver_or_keep(sk_mail *mail) {
    sk_exchange *x = ((sk_exchange_job *)mail->to)->x;
    if (!x->preparing) {
        deliver(mail);
        return;
    }
    mail->next = NULL;
    *x->early_tail = mail;
    x->early_tail = &mail->next;
}

void sk_exchange_deliver_all(sk_exchange_table *t) {
    for (sk_mail *mail = sk_mailbox_take(&t->box), *next; mail; mail = next) {
        next = mail->next;
        deliver_or_keep(mail);
    }
}

/* ---- requests ---- */

static void reply_prepared(sk_exchange *x) {
    sk_conn *c = x->conn;
    detach(x);
    bool answered = x->p.answer || (x->p.erase && x->p.status == 200);
    if (!answered)
        sk_reply_api_error(c, &x->p.refusal);
    else if (x->p.text.failed)
        sk_reply_error(c, 500, "", "the server ran out of memory");
    else
        sk_conn_reply(c, x->p.status, SK_TYPE_JSON, x->p.text.data, x->p.text.len);
}

static void deliver_early(sk_exchange *x) {
    sk_mail *first = x->early;
    x->early = NULL;
    for (sk_mail *mail = first, *next; mail; mail = next) {
        next = mail->next;
        deliver(mail);
    }
}

static void prepared(sk_task *task) {
    sk_exchange *x = (sk_exchange *)task;
    x->preparing = false;
    x->busy++;
    if (x->call) x->stream = sk_api_call_stream(x->call);
    if (!x->conn)
        cancel_work(x);
    else if (x->p.status)
        reply_prepared(x);
    else if (x->p.code)
        fail_call(x, x->p.code, x->p.error.text);
    deliver_early(x);
    x->busy--;
    free_if_over(x);
}

static void start(sk_exchange_table *t, sk_conn *c, const sk_prepared *what) {
    sk_exchange *x = exchange_new(t, c);
    if (!x) {
        sk_reply_error(c, 500, "", "the server ran out of memory");
        return;
    }
    x->p = *what;
    x->p.body = sk_conn_take_body(c);
    /* Stands when no worker gets to it. */
    x->p.code = sk_err_set(&x->p.error, SKIPPY_E_BUSY, SHUTTING_DOWN);
    x->task.run = sk_exchange_prepare;
    x->task.done = prepared;
    x->preparing = sk_task_pool_add(t->pool, &x->task);
    if (x->preparing) return;
    detach(x);
    free_if_over(x);
    sk_conn_add_header(c, "Retry-After", "1");
    sk_reply_error(c, 503, "queue_full", "too many requests wait to be read; try again later");
}

static void start_for(sk_exchange_table *t, sk_conn *c, sk_prepared *what, const char *tenant) {
    what->has_tenant = tenant != NULL;
    if (tenant) memcpy(what->tenant, tenant, strlen(tenant) + 1);
    start(t, c, what);
}

void sk_exchange_start(sk_exchange_table *t, sk_conn *c, enum sk_api_kind kind, const char *tenant) {
    start_for(t, c, &(sk_prepared){.kind = kind}, tenant);
}

void sk_exchange_erase(sk_exchange_table *t, sk_conn *c, const char *tenant) {
    start_for(t, c, &(sk_prepared){.erase = true}, tenant);
}

void sk_exchange_answer(sk_exchange_table *t, sk_conn *c, sk_answer_fn answer) {
    start(t, c, &(sk_prepared){.answer = answer});
}

/* ---- shutdown ---- */

static void end_one(sk_exchange *x) {
    if (!x->begun) {
        fail_call(x, SKIPPY_E_BUSY, SHUTTING_DOWN);
        return;
    }
    sk_conn *c = x->conn;
    sk_buf out = {0};
    for (size_t i = 0; i < x->n_jobs; i++)
        if (x->jobs[i].live) sk_api_call_fail(x->call, i, SKIPPY_E_BUSY, SHUTTING_DOWN, &out);
    cancel_work(x);
    sk_conn_stream_write(c, out.data, out.len);
    if (x->conn) end_stream(x);
    sk_buf_free(&out);
}

void sk_exchange_end_all(sk_exchange_table *t) {
    for (sk_exchange *x = t->first, *next; x; x = next) {
        next = x->next;
        if (!x->conn) continue;
        x->busy++;
        end_one(x);
        x->busy--;
        free_if_over(x);
    }
}
