#include "server/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "server/error_reply.h"

#define SHUTTING_DOWN "the server is shutting down"

/* One engine job. Its address is the engine's `ud`. */
typedef struct job {
    sk_exchange *x;
    size_t index;
    uint64_t id;
    bool live; /* submitted, last event not yet handled */
    /* For the engine thread when memory is out: the last event must arrive in any case. */
    sk_mail spare;
} job;

struct sk_exchange {
    sk_exchange *prev, *next;
    sk_exchange_table *table;
    sk_conn *conn; /* NULL: nobody is waiting for the answer any more */
    sk_api_call *call;
    size_t n_jobs, live;
    unsigned busy; /* calls on the stack that still need the exchange */
    bool stream;
    bool begun; /* streaming: the reply's head is written */
    bool explained;
    char explanation[192];
    job jobs[];
};

int sk_exchange_table_init(sk_exchange_table *t, sk_engine *engine, sk_api *api, sk_err *e) {
    memset(t, 0, sizeof *t);
    t->engine = engine;
    t->api = api;
    return sk_mailbox_init(&t->box, e);
}

/* ---- engine thread ---- */

static void on_engine_event(void *ud, const sk_gen_event *ev) {
    job *j = ud;
    sk_mailbox *box = &j->x->table->box;
    bool last = ev->type == SK_EV_DONE || ev->type == SK_EV_ERROR;
    sk_mail *mail = sk_mail_copy(j, ev);
    if (mail) {
        sk_mailbox_push(box, mail);
        return;
    }
    /* Without the lost text the answer is worthless: the job ends in an error, told with the mail that the job owns. */
    if (!last) {
        j->spare.ev.code = SKIPPY_E_NOMEM;
        return;
    }
    j->spare.to = j;
    j->spare.embedded = true;
    j->spare.ev.type = SK_EV_ERROR;
    j->spare.ev.code = SKIPPY_E_NOMEM;
    j->spare.ev.error = "the server ran out of memory";
    sk_mailbox_push(box, &j->spare);
}

/* ---- life ---- */

static sk_exchange *exchange_new(sk_exchange_table *t, sk_conn *c, sk_api_call *call) {
    size_t n = sk_api_call_jobs(call);
    sk_exchange *x = calloc(1, sizeof *x + n * sizeof x->jobs[0]);
    if (!x) return NULL;
    x->table = t;
    x->conn = c;
    x->call = call;
    x->n_jobs = n;
    x->stream = sk_api_call_stream(call);
    for (size_t i = 0; i < n; i++) {
        x->jobs[i].x = x;
        x->jobs[i].index = i;
    }
    x->next = t->first;
    if (x->next) x->next->prev = x;
    t->first = x;
    sk_conn_set_data(c, x);
    return x;
}

static void free_if_over(sk_exchange *x) {
    if (x->busy || x->conn || x->live) return;
    if (x->prev)
        x->prev->next = x->next;
    else
        x->table->first = x->next;
    if (x->next) x->next->prev = x->prev;
    sk_api_call_free(x->call);
    free(x);
}

static void detach(sk_exchange *x) {
    if (x->conn) sk_conn_set_data(x->conn, NULL);
    x->conn = NULL;
}

static void cancel_jobs(sk_exchange *x) {
    for (size_t i = 0; i < x->n_jobs; i++)
        if (x->jobs[i].live) sk_engine_cancel(x->table->engine, x->jobs[i].id);
}

void sk_exchange_client_gone(sk_exchange *x) {
    if (!x) return;
    detach(x);
    cancel_jobs(x);
    free_if_over(x);
}

void sk_exchange_table_close(sk_exchange_table *t) {
    sk_exchange_deliver_all(t);
    if (t->first) sk_log(SK_LOG_ERROR, "the server ended while the engine was still answering requests");
    sk_mailbox_close(&t->box);
}

/* ---- replies ---- */

/* The whole call fails with an HTTP status: possible as long as no byte of the reply is written. */
static void fail_call(sk_exchange *x, int code, const char *text) {
    sk_conn *c = x->conn;
    detach(x);
    cancel_jobs(x);
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
    job *j = mail->to;
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

void sk_exchange_deliver_all(sk_exchange_table *t) {
    for (sk_mail *mail = sk_mailbox_take(&t->box), *next; mail; mail = next) {
        next = mail->next;
        deliver(mail);
    }
}

/* ---- requests ---- */

static int submit(sk_exchange *x, size_t index, const char *tenant, sk_err *e) {
    job *j = &x->jobs[index];
    sk_gen_request r = *sk_api_call_request(x->call, index);
    r.tenant = tenant;
    r.on_event = on_engine_event;
    r.ud = j;
    /* Before the call: the last event may be in the mailbox when it returns. */
    j->live = true;
    x->live++;
    int rc = sk_engine_submit(x->table->engine, &r, &j->id, e);
    if (rc == SKIPPY_OK) return rc;
    j->live = false;
    x->live--;
    return rc;
}

void sk_exchange_start(sk_exchange_table *t, sk_conn *c, enum sk_api_kind kind, const char *tenant) {
    const sk_buf *body = sk_conn_body(c);
    sk_api_error err = {0};
    sk_api_call *call = NULL;
    if (sk_api_parse(t->api, kind, body->data ? body->data : "", body->len, &call, &err) != 0) {
        sk_reply_api_error(c, &err);
        return;
    }
    sk_exchange *x = exchange_new(t, c, call);
    if (!x) {
        sk_api_call_free(call);
        sk_reply_error(c, 500, "", "the server ran out of memory");
        return;
    }
    sk_err e = {0};
    int rc = SKIPPY_OK;
    x->busy++;
    for (size_t i = 0; i < x->n_jobs && rc == SKIPPY_OK; i++) rc = submit(x, i, tenant, &e);
    if (rc != SKIPPY_OK) fail_call(x, rc, e.text);
    x->busy--;
    free_if_over(x);
}

/* ---- shutdown ---- */

static void end_one(sk_exchange *x) {
    if (!x->begun) {
        fail_call(x, SKIPPY_E_BUSY, SHUTTING_DOWN);
        return;
    }
    sk_buf out = {0};
    for (size_t i = 0; i < x->n_jobs; i++)
        if (x->jobs[i].live) sk_api_call_fail(x->call, i, SKIPPY_E_BUSY, SHUTTING_DOWN, &out);
    cancel_jobs(x);
    sk_conn_stream_write(x->conn, out.data, out.len);
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
