/* From the bytes of a body to engine jobs, on a worker thread: JSON, chat template, tokens, grammar and the submission
 * itself, which builds the sampler, take as long as the client wants them to. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "server/exchange_internal.h"

enum { LARGE_BODY = 4 * 1024 * 1024 };

/* ---- engine thread ---- */

static void on_engine_event(void *ud, const sk_gen_event *ev) {
    sk_exchange_job *j = ud;
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

/* ---- worker ---- */

static int submit(sk_exchange *x, size_t index) {
    sk_exchange_job *j = &x->jobs[index];
    sk_gen_request r = *sk_api_call_request(x->call, index);
    r.tenant = x->p.has_tenant ? x->p.tenant : NULL;
    r.on_event = on_engine_event;
    r.ud = j;
    int rc = sk_engine_submit(x->table->engine, &r, &j->id, &x->p.error);
    j->live = rc == SKIPPY_OK;
    if (j->live) x->live++;
    return rc;
}

static void submit_all(sk_exchange *x) {
    size_t n = sk_api_call_jobs(x->call);
    x->jobs = calloc(n ? n : 1, sizeof *x->jobs);
    if (!x->jobs) {
        x->p.code = sk_err_set(&x->p.error, SKIPPY_E_NOMEM, "the server ran out of memory");
        return;
    }
    x->n_jobs = n;
    for (size_t i = 0; i < n; i++) {
        x->jobs[i].x = x;
        x->jobs[i].index = i;
    }
    x->p.code = SKIPPY_OK;
    for (size_t i = 0; i < n && x->p.code == SKIPPY_OK && !atomic_load(&x->unwanted); i++) x->p.code = submit(x, i);
}

/* Blocks this worker until the bytes are gone. */
static int erase(sk_exchange *x, const char *body, size_t len) {
    sk_prepared *p = &x->p;
    sk_api_erase what;
    int status = sk_api_parse_erase(x->table->api, body, len, &what, &p->refusal);
    if (status) return status;
    const skippy_erase_filter f = {.tenant = p->has_tenant ? p->tenant : NULL,
                                   .cache_namespace = what.cache_namespace,
                                   .tokens = what.tokens,
                                   .n_tokens = what.n_tokens};
    size_t n = 0;
    int rc = sk_engine_erase_matching(x->table->engine, &f, &n);
    sk_api_erase_free(&what);
    if (rc) {
        p->code = sk_err_set(&p->error, rc, "%zu entries are erased, but not all: %s; the server's log says more", n,
                             skippy_strerror(rc));
        return 0;
    }
    sk_buf_printf(&p->text, "{\"erased\":%zu}", n);
    return 200;
}

/* The C library keeps freed memory for the thread that had it; a body of some megabytes, read into a tree of small
 * blocks, would leave a multiple of its size behind on each worker. */
static void free_body(sk_buf *body) {
    bool large = body->len > LARGE_BODY;
    sk_buf_free(body);
    if (large) malloc_trim(0);
}

void sk_exchange_prepare(sk_task *t) {
    sk_exchange *x = (sk_exchange *)t;
    sk_prepared *p = &x->p;
    const char *body = p->body.data ? p->body.data : "";
    if (atomic_load(&x->unwanted)) return;
    if (p->erase) {
        p->status = erase(x, body, p->body.len);
    } else if (p->answer) {
        p->status = p->answer(x->table->api, body, p->body.len, &p->text);
    } else {
        p->status = sk_api_parse(x->table->api, p->kind, body, p->body.len, &x->call, &p->refusal);
        if (p->status == 0 && !atomic_load(&x->unwanted)) submit_all(x);
    }
    free_body(&p->body);
}
