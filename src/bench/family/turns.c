#include "bench/family/turns.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/interrupt.h"
#include "bench/tie.h"

/* One server's work in a part. */
typedef struct runner {
    sk_part_host ph;
    size_t done;    /* rounds */
    bool prepared;  /* finish is due */
    bool failed;    /* it does no more rounds */
    bool marked;    /* it did the rounds that are common to all: */
    size_t answers; /* answers until then */
} runner;

typedef struct schedule {
    const sk_turns *t;
    const sk_part *part;
    sk_part_result *out;
    runner r[SK_FAMILY_MAX_HOSTS];
    size_t common; /* rounds that every host does: what they are compared by */
    size_t most;   /* rounds of the host with the most */
} schedule;

/* ---- failures ---- */

/* The first one is the part's. A server's own time limit is a failure like any other: only the deadline of the part
 * makes it a timeout. */
static void fail(schedule *s, size_t host, int rc, const sk_err *why) {
    sk_part_result *out = s->out;
    const int code = rc == SKIPPY_E_TIMEOUT ? SKIPPY_E_RUNTIME : rc;
    s->r[host].failed = true;
    out->m[host].error = *why;
    out->m[host].error.code = rc;
    if (out->rc == SKIPPY_OK) {
        out->rc = sk_err_set(&out->err, code, "%s: %.480s", s->t->hosts[host].name, why->text);
    }
}

/* A signal or the deadline ends the part for all; the row is run again then, whatever else went wrong. */
static bool must_stop(schedule *s) {
    sk_part_result *out = s->out;
    const bool first = out->rc == SKIPPY_OK;
    if (sk_interrupted()) {
        out->rc = first ? sk_err_set(&out->err, SKIPPY_E_CANCELLED, "interrupted") : SKIPPY_E_CANCELLED;
    } else if (s->t->deadline_ns && sk_now_ns() >= s->t->deadline_ns) {
        out->rc = first ? sk_err_set(&out->err, SKIPPY_E_TIMEOUT, "the time for this run is over") : SKIPPY_E_TIMEOUT;
    }
    return out->rc == SKIPPY_E_CANCELLED || out->rc == SKIPPY_E_TIMEOUT;
}

/* ---- one host ---- */

/* Hosts may have different numbers of rounds; what all of them did is the same work, and is what digests and answers
 * are compared over. */
static void mark(schedule *s, size_t host) {
    runner *r = &s->r[host];
    sk_measurement *m = &s->out->m[host];
    if (!r->marked) {
        r->marked = true;
        r->answers = m->n_answers;
        m->n_prompts = r->ph.prompts.made;
        sk_prompts_digest(&r->ph.prompts, m->prompts_digest);
    }
}

/* Notes a failure of prepare or round. */
static void check(schedule *s, size_t host, int rc, sk_err *e) {
    if (rc != SKIPPY_OK) {
        sk_host_explain(&s->t->hosts[host], rc, e);
        fail(s, host, rc, e);
    }
}

static void prepare(schedule *s, size_t host) {
    runner *r = &s->r[host];
    sk_err e = {0};
    if (s->t->hosts[host].port == 0) {
        sk_err_set(&e, SKIPPY_E_RUNTIME, "the server does not run");
        fail(s, host, SKIPPY_E_RUNTIME, &e);
        return;
    }
    r->prepared = true;
    check(s, host, s->part->prepare(&r->ph, &e), &e);
    if (s->common == 0) {
        mark(s, host);
    }
}

/* Skippy copies what it recorded to its stores once nothing has run for a quarter of a second (SK_HOLD_REST_NS). That
 * work is its own: the next server does not begin before it is done. */
enum { QUIET_RESTS = 5 };

static void let_copies_end(const schedule *s, size_t host) {
    if (!s->t->together || !s->t->hosts[host].ours) {
        return;
    }
    for (int k = 0; k < QUIET_RESTS; k++) {
        sk_part_rest(&s->r[host].ph);
    }
}

static void do_round(schedule *s, size_t host, size_t i) {
    runner *r = &s->r[host];
    sk_err e = {0};
    const int rc = s->part->round(&r->ph, i, &e);
    let_copies_end(s, host);
    check(s, host, rc, &e);
    if (rc == SKIPPY_OK) {
        r->done++;
    }
    if (r->done == s->common) {
        mark(s, host);
    }
    if (s->t->progress) {
        s->t->progress(s->t->progress_ud, s->part->name, s->t->hosts[host].name, i, r->ph.rounds);
    }
}

static void finish(schedule *s, size_t host) {
    runner *r = &s->r[host];
    const sk_family_host *h = &s->t->hosts[host];
    sk_measurement *m = &s->out->m[host];
    if (r->prepared) {
        s->part->finish(&r->ph);
        r->prepared = false;
    }
    mark(s, host);
    memcpy(m->version, h->version, sizeof m->version);
    memcpy(m->command, h->command, sizeof m->command);
    sk_process_memory_read(&h->process, &m->memory);
    if (r->done < r->ph.rounds && !r->failed) {
        sk_err_set(&m->error, s->out->rc, "stopped after %zu of %zu rounds", r->done, r->ph.rounds);
    }
}

/* ---- the two schedules ---- */

static bool has_round(const schedule *s, size_t host, size_t i) {
    return !s->r[host].failed && i < s->r[host].ph.rounds;
}

static void run_in_turns(schedule *s) {
    const size_t n = s->t->n_hosts;
    for (size_t k = 0; k < n && !must_stop(s); k++) {
        prepare(s, k);
    }
    for (size_t i = 0; i < s->most && !must_stop(s); i++) {
        for (size_t k = 0; k < n && !must_stop(s); k++) {
            const size_t host = (i + k) % n;
            if (has_round(s, host, i)) {
                do_round(s, host, i);
            }
        }
    }
    for (size_t k = 0; k < n; k++) {
        finish(s, k);
    }
}

static void run_one_after_another(schedule *s) {
    for (size_t k = 0; k < s->t->n_hosts; k++) {
        sk_err e = {0};
        if (!must_stop(s)) {
            const int rc = sk_host_start(&s->t->hosts[k], &e);
            if (rc == SKIPPY_OK) {
                prepare(s, k);
            } else {
                fail(s, k, rc, &e);
            }
        }
        for (size_t i = 0; has_round(s, k, i) && !must_stop(s); i++) {
            do_round(s, k, i);
        }
        finish(s, k);
        sk_host_stop(&s->t->hosts[k]);
    }
}

/* ---- comparison ---- */

/* A llama-server, the one with its defaults first; n_hosts when there is none. */
static size_t find_arbiter(const sk_turns *t) {
    for (size_t i = 0; i < t->n_hosts; i++) {
        if (!t->hosts[i].ours && strncmp(t->hosts[i].name, SK_HOST_BASE, strlen(SK_HOST_BASE)) == 0 &&
            (t->hosts[i].port != 0 || !t->together)) {
            return i;
        }
    }
    return t->n_hosts;
}

static bool has_open_ties(const schedule *s) {
    const size_t ours = s->t->n_hosts - 1;
    for (size_t i = 0; i < ours; i++) {
        if (sk_tie_open(&s->out->m[i], &s->out->m[ours])) {
            return true;
        }
    }
    return false;
}

/* Cold answers that differ: llama-server is asked how close the best two tokens are. Where servers run one after
 * another it is started once more for that. Without its answer a difference stays one. */
static void settle_ties(const schedule *s) {
    const sk_turns *t = s->t;
    const size_t ours = t->n_hosts - 1;
    const size_t arbiter = find_arbiter(t);
    sk_err e = {0};
    if (s->out->rc == SKIPPY_E_CANCELLED || s->out->rc == SKIPPY_E_TIMEOUT || arbiter == t->n_hosts ||
        !has_open_ties(s)) {
        return;
    }
    int rc = t->together ? SKIPPY_OK : sk_host_start(&t->hosts[arbiter], &e);
    for (size_t i = 0; rc == SKIPPY_OK && i < ours; i++) {
        rc = sk_tie_settle(&t->hosts[arbiter].ep, &s->out->m[i], &s->out->m[ours], &e);
    }
    if (!t->together) {
        sk_host_stop(&t->hosts[arbiter]);
    }
}

/* A view of the answers up to the mark; the lists stay the measurement's. */
static sk_measurement common_view(const schedule *s, size_t host) {
    sk_measurement view = s->out->m[host];
    view.n_answers = s->r[host].answers;
    return view;
}

static void compare(const schedule *s) {
    const size_t ours = s->t->n_hosts - 1;
    const sk_measurement mine = common_view(s, ours);
    for (size_t i = 0; i < ours; i++) {
        const sk_measurement theirs = common_view(s, i);
        sk_gate_compare(&theirs, &mine, &s->out->gate[i]);
    }
}

/* ---- ends ---- */

static int reserve(const sk_turns *t, sk_part_result *out) {
    out->m = calloc(t->n_hosts, sizeof *out->m);
    out->gate = calloc(t->n_hosts, sizeof *out->gate);
    out->extra = calloc(t->n_hosts, sizeof(json_t *));
    bool made = out->m && out->gate && out->extra;
    for (size_t i = 0; made && i < t->n_hosts; i++) {
        out->extra[i] = json_object();
        made = out->extra[i] != NULL;
    }
    out->n_hosts = made ? t->n_hosts : 0;
    return made ? SKIPPY_OK : sk_err_set(&out->err, SKIPPY_E_NOMEM, "out of memory for measurements");
}

static void plan(schedule *s) {
    const sk_turns *t = s->t;
    s->common = SIZE_MAX;
    for (size_t i = 0; i < t->n_hosts; i++) {
        sk_part_host *ph = &s->r[i].ph;
        *ph = (sk_part_host){.task = t->task, .host = &t->hosts[i], .m = &s->out->m[i], .extra = s->out->extra[i]};
        sk_prompts_init(&ph->prompts, sk_endpoint_tokenize, &t->hosts[i].ep);
        ph->rounds = s->part->rounds(ph);
        s->common = ph->rounds < s->common ? ph->rounds : s->common;
        s->most = ph->rounds > s->most ? ph->rounds : s->most;
    }
}

int sk_turns_run(const sk_turns *t, const sk_part *part, sk_part_result *out) {
    *out = (sk_part_result){.part = part};
    if (t->n_hosts == 0 || t->n_hosts > SK_FAMILY_MAX_HOSTS) {
        out->rc = sk_err_set(&out->err, SKIPPY_E_INVALID, "a part runs on 1 to %d servers, not %zu",
                             SK_FAMILY_MAX_HOSTS, t->n_hosts);
        return out->rc;
    }
    schedule *s = calloc(1, sizeof *s); /* hash states make it large */
    if (!s) {
        out->rc = sk_err_set(&out->err, SKIPPY_E_NOMEM, "out of memory for a schedule");
        return out->rc;
    }
    *s = (schedule){.t = t, .part = part, .out = out};
    out->rc = reserve(t, out);
    if (out->rc == SKIPPY_OK) {
        plan(s);
        if (t->together) {
            run_in_turns(s);
        } else {
            run_one_after_another(s);
        }
        settle_ties(s);
        compare(s);
    }
    free(s);
    return out->rc;
}

void sk_part_result_free(sk_part_result *r) {
    for (size_t i = 0; i < r->n_hosts; i++) {
        sk_measurement_free(&r->m[i]);
        json_decref(r->extra[i]);
    }
    free(r->m);
    free(r->gate);
    free(r->extra);
    *r = (sk_part_result){0};
}
