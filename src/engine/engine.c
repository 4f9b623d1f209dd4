/* Start, stop, the engine thread, and the calls that other threads make. */
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/internal.h"
#include "runtime/apart.h"

/* ---- calls from other threads ---- */

/* Prompt and first answer token must fit, in bit mode beside the dummy rows; n_predict 0 needs no room for an answer.
 */
static int check_length(const sk_engine *en, const sk_gen_request *r, sk_err *e) {
    size_t need = r->n_tokens + (r->n_predict == 0 ? 0 : 1) + (sk_engine_bit(en) ? en->rows.multiple - 1 : 0);
    if (need > en->facts.n_ctx)
        return sk_err_set(e, SKIPPY_E_TOO_LARGE,
                          "the prompt has %zu tokens, but the context holds %u (the server's -c)", r->n_tokens,
                          en->facts.n_ctx);
    return SKIPPY_OK;
}

static int job_namespace(const sk_engine *en, sk_job *j) {
    skippy_identity id = en->setup.identity;
    id.tenant = j->tenant;
    id.cache_namespace = j->cache_namespace;
    return skippy_namespace_key(&id, &j->ns);
}

int sk_engine_submit(sk_engine *en, const sk_gen_request *r, uint64_t *job, sk_err *e) {
    int rc = check_length(en, r, e);
    if (rc) return rc;
    sk_job *j = NULL;
    rc = sk_job_create(en->model, r, 0, &j, e);
    if (rc) return rc;
    rc = job_namespace(en, j);
    if (rc) {
        sk_job_free(j);
        return sk_err_set(e, rc, "the request has no valid identity");
    }
    pthread_mutex_lock(&en->lock);
    if (en->stop || en->draining)
        rc = sk_err_set(e, SKIPPY_E_BUSY, "the server is shutting down");
    else if (en->n_waiting >= en->params.queue_max)
        rc = sk_err_set(e, SKIPPY_E_FULL, "%u requests are waiting already; try again later", en->n_waiting);
    if (rc == SKIPPY_OK) {
        *job = j->id = ++en->next_job;
        if (en->inbox_tail)
            en->inbox_tail->next = j;
        else
            en->inbox_head = j;
        en->inbox_tail = j;
        en->n_waiting++;
        pthread_cond_signal(&en->wake);
        j = NULL;
    }
    pthread_mutex_unlock(&en->lock);
    sk_job_free(j);
    return rc;
}

void sk_engine_cancel(sk_engine *en, uint64_t job) {
    pthread_mutex_lock(&en->lock);
    if (en->n_cancels == en->cap_cancels) {
        size_t cap = en->cap_cancels ? 2 * en->cap_cancels : 16;
        uint64_t *grown = realloc(en->cancels, cap * sizeof *grown);
        if (grown) {
            en->cancels = grown;
            en->cap_cancels = cap;
        }
    }
    if (en->n_cancels < en->cap_cancels) en->cancels[en->n_cancels++] = job;
    pthread_cond_signal(&en->wake);
    pthread_mutex_unlock(&en->lock);
}

void sk_engine_drain(sk_engine *en) {
    pthread_mutex_lock(&en->lock);
    en->draining = true;
    pthread_mutex_unlock(&en->lock);
}

int sk_engine_erase_matching(sk_engine *en, const skippy_erase_filter *f, size_t *n) {
    *n = 0;
    if (f->ns) return SKIPPY_E_INVALID;
    int rc = SKIPPY_E_CANCELLED;
    pthread_mutex_lock(&en->lock);
    while (en->erase_busy && !en->stop) pthread_cond_wait(&en->erased, &en->lock); /* one at a time */
    if (!en->stop) {
        en->erase_busy = en->erase_wanted = true;
        en->erase_done = false;
        en->erase_filter = f;
        en->erase_count = 0;
        en->erase_rc = SKIPPY_OK;
        pthread_cond_signal(&en->wake);
        while (!en->erase_done) pthread_cond_wait(&en->erased, &en->lock);
        *n = en->erase_count;
        rc = en->erase_rc;
        en->erase_busy = false;
        pthread_cond_broadcast(&en->erased);
    }
    pthread_mutex_unlock(&en->lock);
    return rc;
}

size_t sk_engine_erase(sk_engine *en, const char *tenant) {
    size_t n = 0;
    const skippy_erase_filter f = {.tenant = tenant};
    sk_engine_erase_matching(en, &f, &n);
    return n;
}

const sk_engine_facts *sk_engine_get_facts(const sk_engine *en) {
    return &en->facts;
}

/* What the choice between a store and computing was made from. */
static void explain_estimate(const sk_cache_result *r, char *buf, size_t cap) {
    buf[0] = '\0';
    bool stored = r->source == SK_SRC_RAM || r->source == SK_SRC_DISK;
    if ((stored || r->gated) && r->restore_ms > 0 && r->recompute_ms > 0)
        snprintf(buf, cap, "; restore=%.1fms; recompute=%.1fms", r->restore_ms, r->recompute_ms);
}

/* Where each stage behind the engine had its state from: "; stages=hot-lane,disk; hidden-bytes-avoided=655360". */
static void explain_stages(const sk_cache_result *r, char *buf, size_t cap) {
    static const char *const source[] = {"fresh", "hot-lane", "resident", "active-lane", "ram", "disk"};
    size_t at = 0;
    buf[0] = '\0';
    for (uint32_t i = 0; i < r->n_stages && i < SK_CHAIN_MAX && at < cap; i++) {
        const unsigned k = r->stage_source[i];
        int n = snprintf(buf + at, cap - at, "%s%s", i ? "," : "; stages=", k < 6 ? source[k] : "?");
        at += n > 0 ? (size_t)n : 0;
    }
    if (r->n_stages && at < cap)
        snprintf(buf + at, cap - at, "; hidden-bytes-avoided=%llu", (unsigned long long)r->hidden_bytes_avoided);
}

const char *sk_cache_explain(const sk_cache_result *r, char *buf, size_t cap) {
    static const char *const source[] = {"none", "hot-lane", "resident", "active-lane", "ram", "disk"};
    static const char *const tier[] = {"none", "resident", "resident", "resident", "ram", "disk"};
    char estimate[80], stages[SK_CHAIN_MAX * 12 + 64];
    explain_estimate(r, estimate, sizeof estimate);
    explain_stages(r, stages, sizeof stages);
    if (r->source == SK_SRC_NONE)
        snprintf(buf, cap, "miss; reason=%s%s%s", r->reason[0] ? r->reason : "cold", estimate, stages);
    else
        snprintf(buf, cap, "hit=%s; tokens=%zu; source=%s%s%s%s%s", tier[r->source], r->tokens, source[r->source],
                 r->terminal_logits ? "; logits=stored" : "", r->waited ? "; waited=1" : "", estimate, stages);
    return buf;
}

/* ---- engine thread ---- */

static void take_inbox(sk_engine *en) {
    sk_job *j = en->inbox_head;
    en->inbox_head = en->inbox_tail = NULL;
    while (j) {
        sk_job *next = j->next;
        en->st.requests++;
        sk_queue_push(en, j, false);
        j = next;
    }
}

static sk_job *find_job(sk_engine *en, uint64_t id) {
    for (sk_job *j = en->queue_head; j; j = j->next)
        if (j->id == id) return j;
    for (uint32_t i = 0; i < en->params.n_lanes; i++)
        if (en->lanes[i].job && en->lanes[i].job->id == id) return en->lanes[i].job;
    return NULL;
}

/* Sleeps until somebody wants something. While requests wait for a store or for stages, only for a moment: their
 * deadlines go on. */
static void sleep_idle(sk_engine *en) {
    bool quiet = !en->stop && !en->inbox_head && !en->n_cancels && !en->erase_wanted && !sk_hold_has_events(&en->hold);
    quiet = quiet && !(en->split && en->split->event);
    if (!quiet || (sk_any_running(en) && !en->blocked)) return;
    if (en->queue_head && !en->stalled && !en->blocked) return;
    bool copies = sk_hold_spill_wanted(&en->hold);
    if (copies && sk_hold_rests(&en->hold)) return;
    bool erasing = en->split && en->split->erasing;
    if (!en->queue_head && !en->blocked && !erasing && !copies) {
        pthread_cond_wait(&en->wake, &en->lock);
        return;
    }
    const struct timespec until = sk_wall_after_ms(20);
    pthread_cond_timedwait(&en->wake, &en->lock, &until);
}

/* Takes what other threads left; sleeps while there is nothing to do. Returns false when the engine has to stop. */
static bool receive(sk_engine *en) {
    pthread_mutex_lock(&en->lock);
    sleep_idle(en);
    take_inbox(en);
    for (size_t i = 0; i < en->n_cancels; i++) {
        sk_job *j = find_job(en, en->cancels[i]);
        if (j) j->cancelled = true;
    }
    en->n_cancels = 0;
    bool go_on = !en->stop;
    pthread_mutex_unlock(&en->lock);
    return go_on;
}

/* Why a job must end now, or SKIPPY_OK. l: its lane, NULL when it waits for one. */
static int must_end(const sk_engine *en, const sk_job *j, const sk_lane *l, uint64_t now, bool stopping,
                    const char **text) {
    if (stopping)
        *text = "the server is shutting down";
    else if (j->cancelled)
        *text = "the request was cancelled";
    else if (j->deadline_ns && now > j->deadline_ns) {
        *text = "the request's deadline passed";
        return SKIPPY_E_TIMEOUT;
    } else
        return en->split ? sk_split_must_end(en, l, j, now, text) : SKIPPY_OK;
    return SKIPPY_E_CANCELLED;
}

static void end_waiting(sk_engine *en, sk_job *j, int code, const char *text) {
    if (j->is_shadow)
        sk_shadow_drop(&en->shadow);
    else if (code == SKIPPY_E_CANCELLED)
        en->st.cancelled++;
    else
        en->st.failed++;
    sk_stats_publish(en);
    sk_job_send_error(j, code, text);
    sk_recall_drop(&en->hold, &j->recall);
    sk_job_free(j);
}

static void end_jobs(sk_engine *en, bool stopping) {
    uint64_t now = sk_now_ns();
    const char *text = "";
    sk_job *previous = NULL;
    for (sk_job *j = en->queue_head; j;) {
        sk_job *next = j->next;
        int code = must_end(en, j, NULL, now, stopping, &text);
        if (code == SKIPPY_OK) {
            previous = j;
        } else {
            sk_queue_remove(en, j, previous);
            end_waiting(en, j, code, text);
        }
        j = next;
    }
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        sk_lane *l = &en->lanes[i];
        int code = l->job ? must_end(en, l->job, l, now, stopping, &text) : SKIPPY_OK;
        if (code) sk_lane_fail(en, l, code, text);
    }
}

static void count_waiting(sk_engine *en) {
    uint32_t n = 0;
    for (const sk_job *j = en->queue_head; j; j = j->next) n++;
    pthread_mutex_lock(&en->lock);
    for (const sk_job *j = en->inbox_head; j; j = j->next) n++;
    en->n_waiting = n;
    pthread_mutex_unlock(&en->lock);
}

static void publish(sk_engine *en) {
    count_waiting(en);
    sk_stats_publish(en);
}

/* Idle lanes hold content without an owner's name beside it: they go whatever the filter says. */
static size_t erase(sk_engine *en, const skippy_erase_filter *f) {
    for (uint32_t i = 0; i < en->params.n_lanes; i++)
        if (!en->lanes[i].job) sk_lane_clear(en, &en->lanes[i]);
    return sk_hold_erase(&en->hold, f);
}

void sk_erase_report(sk_engine *en, size_t n, int rc) {
    pthread_mutex_lock(&en->lock);
    en->erase_count += n;
    if (rc) en->erase_rc = rc;
    if (en->erase_left && --en->erase_left == 0) en->erase_done = true;
    pthread_cond_broadcast(&en->erased);
    pthread_mutex_unlock(&en->lock);
}

/* Does an erase that somebody waits for. What was asked for does not change meanwhile, so the lock is not held for the
 * work, and whoever asked finds it in the statistics afterwards. The stores report their half when they have done it.
 */
static void erase_if_wanted(sk_engine *en) {
    pthread_mutex_lock(&en->lock);
    bool wanted = en->erase_wanted;
    en->erase_wanted = false;
    pthread_mutex_unlock(&en->lock);
    if (!wanted) return;
    en->erase_left = en->split ? 3 : 2;
    sk_split_erase(en, en->erase_filter);
    size_t n = erase(en, en->erase_filter);
    publish(en);
    sk_erase_report(en, n, SKIPPY_OK);
}

/* It is too late for an erase, and nobody may wait for ever. */
static void refuse_erase(sk_engine *en) {
    pthread_mutex_lock(&en->lock);
    en->erase_wanted = false;
    en->erase_rc = SKIPPY_E_CANCELLED;
    en->erase_done = true;
    pthread_cond_broadcast(&en->erased);
    pthread_mutex_unlock(&en->lock);
}

static void *engine_main(void *arg) {
    sk_engine *en = arg;
    while (receive(en)) {
        sk_hold_take_events(&en->hold);
        sk_split_take_events(en);
        erase_if_wanted(en);
        end_jobs(en, false);
        sk_admit_jobs(en);
        en->stalled = en->queue_head && !sk_any_running(en);
        publish(en); /* a step may take long, and requests that have a lane do not wait any more */
        bool busy = sk_split_advance(en);
        busy = sk_batch_step(en) || busy;
        en->blocked = en->split && !busy && sk_any_running(en);
        if (busy) sk_hold_worked(&en->hold);
        sk_hold_spill_step(&en->hold, busy);
        sk_shadow_start(en);
        publish(en);
    }
    end_jobs(en, true);
    sk_stats_publish(en);
    refuse_erase(en);
    sk_hold_spill_flush(&en->hold);
    return NULL;
}

void sk_engine_stop(sk_engine *en) {
    if (!en) return;
    if (en->thread_started) {
        pthread_mutex_lock(&en->lock);
        en->stop = true;
        pthread_cond_broadcast(&en->wake);
        pthread_cond_broadcast(&en->erased);
        pthread_mutex_unlock(&en->lock);
        pthread_join(en->thread, NULL);
    }
    sk_engine_destroy(en);
}

typedef struct building {
    const sk_model *m;
    const sk_engine_params *params;
    sk_engine *en;
    sk_err *e;
} building;

/* Measures memory and checks state with a few decodes. */
static int build(void *ud) {
    building *b = ud;
    return sk_engine_build(b->m, b->params, &b->en, b->e);
}

int sk_engine_start(const sk_model *m, const sk_engine_params *p, sk_engine **out, sk_err *e) {
    building b = {.m = m, .params = p, .e = e};
    int rc = sk_run_apart(build, &b);
    sk_engine *en = b.en;
    if (rc) return rc;
    sk_stats_publish(en);
    if (pthread_create(&en->thread, NULL, engine_main, en) != 0) {
        sk_engine_destroy(en);
        return sk_err_set(e, SKIPPY_E_NOMEM, "the engine thread could not be started");
    }
    en->thread_started = true;
    *out = en;
    return SKIPPY_OK;
}
