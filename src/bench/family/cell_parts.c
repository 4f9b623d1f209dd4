/* The parts of a session's cells, on servers that are there already. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "bench/family/cell_session.h"

enum { NS_PER_S = 1000000000 };

/* Servers would refuse a context that is longer than the model's, so parts that need one are left out, and the others
 * are measured. */
static void drop_parts_too_long(const sk_session *s, sk_cell_run *c) {
    size_t n = 0;
    for (size_t i = 0; i < c->n_parts; i++) {
        const uint32_t need = sk_parts_context(&c->part[i], 1, &c->task);
        if (s->model_ctx == 0 || need <= s->model_ctx) {
            c->part[n++] = c->part[i];
        } else {
            sk_session_note(c, "%s: left out: it needs a context of %u tokens, and the model has %u", c->part[i]->name,
                            need, s->model_ctx);
        }
    }
    if (n == 0 && c->n_parts > 0) {
        sk_cell_status_worsen(&c->skippy, "pass", "refused", "the model's context is too short for every part");
        sk_cell_status_worsen(&c->llama, "", "skipped", "the model's context is too short for every part");
    }
    c->n_parts = n;
}

void sk_session_plan(const sk_session *s, sk_cell_run *c) {
    const sk_use_case *u =
        c->cell->use_case[0] && s->o->corpus ? sk_corpus_find(s->o->corpus, c->cell->use_case) : NULL;
    c->task = (sk_part_task){.cell = c->cell, .sizes = &s->o->in->sizes, .use_case = u, .replay = s->o->replay};
    if (c->cell->kind == SK_CELL_PACKAGE) {
        sk_cell_status_worsen(&c->llama, "", "skipped", "a layer package holds no whole model to serve");
    } else if (c->cell->kind == SK_CELL_USE_CASE && !u) {
        sk_cell_status_worsen(&c->skippy, "pass", "refused", "the corpus has no such use case");
        sk_cell_status_worsen(&c->llama, "", "skipped", "the corpus has no such use case");
    } else {
        c->n_parts = sk_parts_of(c->cell, &s->o->in->sizes, c->part);
        drop_parts_too_long(s, c);
    }
}

bool sk_session_measures(const sk_cell_run *c) {
    return !c->finished && c->certificate && strcmp(c->certificate->c.status, "pass") == 0 && c->n_parts > 0;
}

bool sk_session_has_last(const sk_cell_run *c) {
    for (size_t i = 0; i < c->n_parts; i++) {
        if (c->part[i]->last) {
            return true;
        }
    }
    return false;
}

/* ---- servers of a cell ---- */

static bool wants_baselines(const sk_cell_run *c) {
    return c->cell->tasks.serial_baseline || c->cell->tasks.paired_serving;
}

size_t sk_session_first_host(const sk_session *s, const sk_cell_run *c) {
    return wants_baselines(c) || s->hosts.n == 0 ? 0 : s->hosts.n - 1;
}

/* Before the first part: servers that are not there. False: nothing can be measured. */
static bool check_hosts(sk_session *s, sk_cell_run *c) {
    const sk_session_hosts *h = &s->hosts;
    const bool baselines = wants_baselines(c);
    for (size_t i = 0; i < h->n_lost; i++) {
        const bool ours = strcmp(h->lost[i].name, SK_HOST_OURS) == 0;
        if (ours) {
            sk_cell_status_worsen(&c->skippy, "pass", "error", h->lost[i].why);
        } else if (baselines) {
            sk_cell_status_worsen(&c->llama, "ok", "error", h->lost[i].why);
            sk_session_note(c, "%s did not start: %s", h->lost[i].name, h->lost[i].why);
        }
    }
    if (!s->o->in->native_server.path[0]) {
        sk_cell_status_worsen(&c->llama, "", "unavailable", "the request names no native_server");
    } else if (!baselines) {
        sk_cell_status_worsen(&c->llama, "", "skipped", "the request skips llama-server");
    }
    const bool can = h->n > 0 && h->v[h->n - 1].ours;
    if (!can) {
        sk_cell_status_worsen(&c->skippy, "pass", "not-run", "the request asks for no skippy server");
        sk_cell_status_worsen(&c->llama, "", "skipped", "there is no skippy server to compare with");
    }
    sk_cell_status_worsen(&c->llama, "", "ok", "");
    return can;
}

/* ---- one part ---- */

/* At most one line a second; the last round is always said. */
static void on_round(void *ud, const char *part, const char *host, size_t round, size_t rounds) {
    sk_session *s = ud;
    const uint64_t now = sk_now_ns();
    if (now - s->last_said_ns < NS_PER_S && round + 1 < rounds) {
        return;
    }
    s->last_said_ns = now;
    sk_session_say(s, "%s: %s: %s: %zu of %zu", s->at->cell->output_relative, part, host, round + 1, rounds);
}

static const char *status_word(int code) {
    return code == SKIPPY_E_TIMEOUT ? "timeout" : code == SKIPPY_E_CANCELLED ? "cancelled" : "error";
}

/* What a part's failures say about the cell. */
static void judge(sk_cell_run *c, const sk_turns *t, const sk_part_result *r) {
    char why[SK_WHY_CHARS];
    if (r->rc == SKIPPY_E_TIMEOUT || r->rc == SKIPPY_E_CANCELLED) {
        snprintf(why, sizeof why, "%s: %.400s", r->part->name, r->err.text);
        sk_cell_status_worsen(&c->skippy, "pass", status_word(r->rc), why);
        sk_cell_status_worsen(&c->llama, "ok", status_word(r->rc), why);
        return;
    }
    for (size_t i = 0; i < r->n_hosts; i++) {
        if (r->m[i].error.code == SKIPPY_OK) {
            continue;
        }
        snprintf(why, sizeof why, "%s: %s: %.400s", r->part->name, t->hosts[i].name, r->m[i].error.text);
        if (t->hosts[i].ours) {
            sk_cell_status_worsen(&c->skippy, "pass", "error", why);
        } else {
            sk_cell_status_worsen(&c->llama, "ok", status_word(r->m[i].error.code), why);
        }
    }
    if (r->n_hosts == 0) { /* it did not even begin */
        sk_cell_status_worsen(&c->skippy, "pass", "error", r->err.text);
    }
}

static int run_part(sk_session *s, sk_cell_run *c, const sk_part *part, sk_err *e) {
    const size_t first = sk_session_first_host(s, c);
    const sk_turns t = {.hosts = &s->hosts.v[first],
                        .n_hosts = s->hosts.n - first,
                        .together = s->hosts.together,
                        .task = &c->task,
                        .deadline_ns = sk_session_deadline(s, c),
                        .progress = on_round,
                        .progress_ud = s};
    sk_part_result r;
    const uint64_t start = sk_now_ns();
    s->at = c;
    sk_turns_run(&t, part, &r);
    c->spent_ns += sk_now_ns() - start;
    judge(c, &t, &r);
    json_t *record = sk_part_result_json(&r, &t);
    sk_part_result_free(&r);
    return record && json_object_set_new(c->parts, part->name, record) == 0
               ? SKIPPY_OK
               : sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the record of '%s'", part->name);
}

static bool over(const sk_cell_run *c) {
    return strcmp(c->skippy.status, "timeout") == 0 || strcmp(c->skippy.status, "cancelled") == 0;
}

int sk_session_run_parts(sk_session *s, sk_cell_run *c, bool last, sk_err *e) {
    if (sk_session_measures(c) && !last) {
        c->measured = check_hosts(s, c);
    }
    if (!c->measured) {
        return sk_session_stopped(s, e);
    }
    for (size_t i = 0; i < c->n_parts && !over(c); i++) {
        int rc = sk_session_stopped(s, e);
        if (rc == SKIPPY_OK && c->part[i]->last == last) {
            rc = sk_session_hosts_revive(&s->hosts, e);
            if (rc == SKIPPY_OK) {
                rc = run_part(s, c, c->part[i], e);
            }
        }
        if (rc != SKIPPY_OK) {
            return rc;
        }
    }
    return sk_session_stopped(s, e);
}
