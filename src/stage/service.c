/* A stage from its opening to its end: one link after the other, frames of each in order. */
#include "stage/service.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/apart.h"
#include "stage/stage_internal.h"

enum {
    IDLE_MS = 1000,
    SPILL_MS = 50 /* a store that was full wakes nobody */
};

/* ---- opening and closing ---- */

static int check_model(const sk_stage *s, const sk_stage_params *p, sk_err *e) {
    if (!s->facts.is_stage)
        return sk_err_set(e, SKIPPY_E_INVALID, "'%s' is a whole model, not a stage of one: cut it first",
                          sk_model_get_info(s->model)->path);
    if (s->facts.first)
        return sk_err_set(e, SKIPPY_E_INVALID,
                          "'%s' is the first stage (layers 0-%d): it belongs to the head, which has the tokenizer",
                          sk_model_get_info(s->model)->path, s->facts.layer_end);
    if (p->dtype > 1) return sk_err_set(e, SKIPPY_E_INVALID, "hidden states have no form %u", p->dtype);
    if (!p->listen) return sk_err_set(e, SKIPPY_E_INVALID, "a stage needs an address to listen on");
    return sk_link_check_address(p->listen, e);
}

static int open_parts(sk_stage *s, sk_err *e) {
    int rc = check_model(s, &s->params, e);
    if (rc == SKIPPY_OK) rc = sk_waker_open(&s->waker, e);
    if (rc == SKIPPY_OK) rc = sk_waker_open(&s->relay_waker, e);
    if (rc) return rc;
    sk_setup_params setup = s->params.setup;
    setup.stores = s->params.ram_bytes > 0 || s->params.disk_dir;
    rc = sk_setup_open(s->model, &setup, &s->setup, e);
    if (rc == SKIPPY_OK) rc = sk_stage_make_buffers(s, e);
    if (rc == SKIPPY_OK) rc = sk_stage_try_hold(s, e);
    if (rc == SKIPPY_OK) rc = sk_listener_open(s->params.listen, &s->params.link.security, &s->listener, e);
    if (rc) return rc;
    sk_stage_fill_card(s);
    return SKIPPY_OK;
}

typedef struct opening {
    sk_stage *s;
    sk_err *e;
} opening;

/* Measures memory and checks state with a few decodes. */
static int open_apart(void *ud) {
    const opening *o = ud;
    return open_parts(o->s, o->e);
}

int sk_stage_open(const sk_model *m, const sk_stage_params *p, sk_stage **out, sk_err *e) {
    sk_stage *s = calloc(1, sizeof *s);
    if (!s) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory");
    s->model = m;
    s->params = *p;
    s->facts = sk_model_get_info(m)->stage;
    s->n_vocab = s->facts.last ? (uint32_t)sk_model_get_info(m)->n_vocab : 0;
    s->stall_ms = SK_STAGE_STALL_MS;
    s->silence_ms = SK_STAGE_SILENCE_MS;
    s->waker.fd = s->relay_waker.fd = -1;
    s->inbox_end = &s->inbox;
    atomic_init(&s->stop, false);
    atomic_init(&s->relay_stop, false);
    pthread_mutex_init(&s->lock, NULL);
    opening o = {.s = s, .e = e};
    int rc = sk_run_apart(open_apart, &o);
    if (rc) {
        sk_stage_close(s);
        return rc;
    }
    *out = s;
    return SKIPPY_OK;
}

void sk_stage_close(sk_stage *s) {
    if (!s) return;
    sk_listener_close(s->listener);
    for (uint32_t i = 0; s->lanes && i < s->setup.n_lanes; i++) sk_lane_free(&s->lanes[i]);
    if (s->setup.ctx) sk_stage_close_hold(s);
    free(s->lanes);
    free(s->timing);
    free(s->rows);
    free(s->in);
    free(s->out);
    free(s->half);
    sk_setup_close(&s->setup);
    sk_waker_close(&s->waker);
    sk_waker_close(&s->relay_waker);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

const char *sk_stage_address(const sk_stage *s) {
    return sk_listener_address(s->listener);
}

void sk_stage_stop(sk_stage *s) {
    atomic_store(&s->stop, true);
    sk_waker_wake(&s->waker);
}

/* ---- what other threads may ask and tell ---- */

void sk_stage_break(sk_stage *s, const char *fmt, ...) {
    char text[sizeof s->reason];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    pthread_mutex_lock(&s->lock);
    if (!s->broken) memcpy(s->reason, text, sizeof text);
    s->broken = true;
    pthread_mutex_unlock(&s->lock);
    sk_waker_wake(&s->waker);
}

bool sk_stage_is_broken(sk_stage *s) {
    return sk_stage_why_broken(s, NULL);
}

bool sk_stage_why_broken(sk_stage *s, sk_err *e) {
    pthread_mutex_lock(&s->lock);
    bool broken = s->broken;
    if (broken) sk_err_set(e, SKIPPY_E_IO, "%s", s->reason);
    pthread_mutex_unlock(&s->lock);
    return broken;
}

void sk_stage_get_stats(sk_stage *s, sk_stage_stats *out) {
    pthread_mutex_lock(&s->lock);
    *out = s->st_public;
    out->results += s->results_passed;
    pthread_mutex_unlock(&s->lock);
}

static void publish(sk_stage *s, bool connected) {
    sk_stage_stats st = s->st;
    st.cells_used = sk_context_cells_used(s->setup.ctx);
    st.entries = s->hold.reuse.n_entries;
    st.disk_ready = s->hold.disk_ready;
    st.hold = s->hold.st;
    st.connected = connected;
    st.disk_ready = s->hold.disk_ready;
    if (s->kept) sk_kept_get_stats(s->kept, &st.activations);
    pthread_mutex_lock(&s->lock);
    s->st_public = st;
    pthread_mutex_unlock(&s->lock);
}

/* ---- between frames ---- */

static bool any_session(const sk_stage *s) {
    for (uint32_t i = 0; i < s->setup.n_lanes; i++)
        if (s->lanes[i].session) return true;
    return false;
}

static void take_reports(sk_stage *s) {
    if (!s->hold.ctx || !sk_hold_has_events(&s->hold)) return;
    sk_hold_take_events(&s->hold);
    sk_session_restore_go_on(s);
    sk_stage_answer_erases(s);
}

/* Copies out what no store has yet, or waits for something to do. */
static void spill_or_wait(sk_stage *s) {
    const bool stores = s->hold.ctx && s->hold.tiers, busy = any_session(s);
    const bool wanted = stores && sk_hold_spill_wanted(&s->hold);
    if (stores) sk_hold_spill_step(&s->hold, busy);
    if (!wanted || busy || !sk_hold_rests(&s->hold)) sk_waker_wait(&s->waker, wanted ? SPILL_MS : IDLE_MS);
}

/* ---- one link ---- */

static sk_link *take_pending(sk_stage *s) {
    pthread_mutex_lock(&s->lock);
    s->up = s->pending;
    s->pending = NULL;
    s->hello_by_ns = sk_now_ns() + (uint64_t)s->silence_ms * 1000000;
    s->broken = false;
    s->reason[0] = '\0';
    pthread_mutex_unlock(&s->lock);
    return s->up;
}

static void take_answers(sk_stage *s) {
    for (sk_stage_answer *a; (a = sk_relay_take(s)) != NULL;) sk_stage_take_answer(s, a);
}

/* One frame. False when there is none now. */
static bool take_frame(sk_stage *s) {
    uint8_t *bytes = NULL;
    size_t len = 0;
    sk_err err = {0};
    int rc = sk_link_receive(s->up, 0, &bytes, &len, &err);
    if (rc == SKIPPY_E_NOT_FOUND) return false;
    if (rc) {
        sk_stage_break(s, "the link to the stage before (%s) broke: %.200s", sk_link_peer(s->up), err.text);
        return true;
    }
    take_answers(s); /* those that came before the stage before sent this */
    sk_stage_handle(s, bytes, len);
    sk_hold_worked(&s->hold);
    free(bytes);
    return true;
}

static void converse(sk_stage *s) {
    while (!atomic_load(&s->stop) && !sk_stage_is_broken(s)) {
        take_reports(s);
        take_answers(s);
        bool any = take_frame(s);
        publish(s, true);
        if (!any) spill_or_wait(s);
    }
}

/* Sessions belong to their link. What they recorded stays, and so does what they had computed until now: it is right,
 * and the head will ask for it when it replays its requests. */
static void end_sessions(sk_stage *s) {
    for (uint32_t i = 0; i < s->setup.n_lanes; i++) {
        sk_stage_lane *l = &s->lanes[i];
        if (s->hold.ctx && l->session && l->claimed && l->n > 0 && sk_stage_may_reuse(s, l))
            sk_session_record(s, l, l->n);
        sk_session_close(s, l, false);
        sk_lane_reset(s, l);
    }
    sk_stage_forget_erases(s);
}

/* err: why, for the stage before. */
static void end_link(sk_stage *s, const sk_err *err) {
    pthread_mutex_lock(&s->lock);
    sk_link *up = s->up;
    s->up = NULL;
    pthread_mutex_unlock(&s->lock);
    sk_link_close(s->down, 0);
    s->down = NULL;
    sk_stage_refuse(up, err);
}

/* From HELLO to the end of the link. An error only when no later link can do better. */
static int serve(sk_stage *s, sk_err *e) {
    sk_err err = {0};
    bool fatal = false;
    s->st.links++;
    s->split_known = true;
    int rc = sk_stage_greet(s, &fatal, &err);
    const enum sk_log_level level =
        s->split_known ? SK_LOG_INFO : SK_LOG_DEBUG; /* who only asks for the cards hangs up at once */
    if (rc == SKIPPY_OK) sk_log(level, "the stage before is %s", sk_link_peer(s->up));
    if (rc == SKIPPY_OK) rc = sk_relay_start(s, &err);
    if (rc == SKIPPY_OK) {
        converse(s);
        if (!sk_stage_why_broken(s, &err)) sk_err_set(&err, SKIPPY_E_IO, "this stage is being stopped");
    }
    sk_log(level, "the link to %s ends: %s", sk_link_peer(s->up), err.text);
    sk_relay_stop(s);
    end_sessions(s);
    end_link(s, &err);
    if (fatal) return sk_err_set(e, rc, "%s", err.text);
    return SKIPPY_OK;
}

int sk_stage_run(sk_stage *s, sk_err *e) {
    int rc = sk_stage_start_door(s, e);
    while (rc == SKIPPY_OK && !atomic_load(&s->stop)) {
        if (take_pending(s)) {
            rc = serve(s, e);
            continue;
        }
        take_reports(s);
        publish(s, false);
        spill_or_wait(s);
    }
    sk_stage_stop_door(s);
    if (s->hold.ctx) {
        sk_hold_take_events(&s->hold); /* a store may have become ready just now */
        sk_hold_spill_flush(&s->hold);
    }
    publish(s, false);
    return rc;
}
