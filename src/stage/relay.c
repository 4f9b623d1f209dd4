/* Answers from the stage behind. A thread of its own, so that they go on while this stage computes. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stage/stage_internal.h"

enum { WAIT_MS = 1000 };

void sk_stage_answer_free(sk_stage_answer *a) {
    if (!a) return;
    sk_frame_free(&a->frame);
    free(a->bytes);
    free(a);
}

/* ---- what the service thread shares with the relay ---- */

void sk_relay_note(sk_stage *s, const sk_stage_lane *l, uint32_t pos) {
    pthread_mutex_lock(&s->lock);
    s->timing[l->id] = (sk_stage_timing){.session = l->session, .compute_ns = s->compute_ns, .pos = pos};
    pthread_mutex_unlock(&s->lock);
}

sk_stage_answer *sk_relay_take(sk_stage *s) {
    pthread_mutex_lock(&s->lock);
    sk_stage_answer *a = s->inbox;
    if (a) s->inbox = a->next;
    if (!s->inbox) s->inbox_end = &s->inbox;
    pthread_mutex_unlock(&s->lock);
    return a;
}

static void hand_over(sk_stage *s, sk_stage_answer *a) {
    a->next = NULL;
    pthread_mutex_lock(&s->lock);
    *s->inbox_end = a;
    s->inbox_end = &a->next;
    pthread_mutex_unlock(&s->lock);
    sk_waker_wake(&s->waker);
}

/* ---- passing on ---- */

static void pass_result(sk_stage *s, sk_frame *f) {
    pthread_mutex_lock(&s->lock);
    const sk_stage_timing *t = f->lane < s->card.n_lanes ? &s->timing[f->lane] : NULL;
    if (t && t->session == f->session && t->pos == f->u.result.pos) f->u.result.compute_ns += t->compute_ns;
    s->results_passed++;
    pthread_mutex_unlock(&s->lock);
    sk_stage_send_up(s, f);
}

/* The service thread knows it before the head does: what the head sends then meets a session that has failed. */
static void pass_fault(sk_stage *s, const sk_frame *f) {
    sk_stage_answer *news = calloc(1, sizeof *news);
    if (!news) {
        sk_stage_break(s, "out of memory for an answer of the stage behind");
        return;
    }
    news->frame = (sk_frame){.kind = f->kind, .lane = f->lane, .session = f->session};
    hand_over(s, news);
    sk_stage_send_up(s, f);
}

static void take(sk_stage *s, sk_stage_answer *a) {
    switch (a->frame.kind) {
    case SK_FRAME_RESULT: pass_result(s, &a->frame); break;
    case SK_FRAME_FAULT: pass_fault(s, &a->frame); break;
    case SK_FRAME_PROBED:
    case SK_FRAME_RESTORED:
    case SK_FRAME_ERASED: hand_over(s, a); return;
    case SK_FRAME_CREDIT:
        sk_link_add_credits(s->down, (uint32_t)a->frame.u.count.n); /* bounded by the decoder */
        sk_waker_wake(&s->waker);
        break;
    case SK_FRAME_REFUSE: sk_stage_break(s, "the stage behind ended the link: %.300s", a->frame.u.text.text); break;
    default:
        sk_stage_break(s, "a %s frame came from the stage behind, where it does not belong",
                       sk_frame_name(a->frame.kind));
    }
    sk_stage_answer_free(a);
}

static void read_one(sk_stage *s, uint8_t *bytes, size_t len) {
    sk_err err = {0};
    sk_stage_answer *a = calloc(1, sizeof *a);
    if (!a) {
        free(bytes);
        sk_stage_break(s, "out of memory for an answer of the stage behind");
        return;
    }
    a->bytes = bytes;
    if (sk_frame_decode(bytes, len, &a->frame, &err)) {
        sk_stage_break(s, "a frame of the stage behind cannot be read: %.300s", err.text);
        a->frame = (sk_frame){0};
        sk_stage_answer_free(a);
        return;
    }
    take(s, a);
}

static void *relay_main(void *arg) {
    sk_stage *s = arg;
    while (!atomic_load(&s->relay_stop) && !sk_stage_is_broken(s)) {
        uint8_t *bytes = NULL;
        size_t len = 0;
        sk_err err = {0};
        int rc = sk_link_receive(s->down, 0, &bytes, &len, &err);
        if (rc == SKIPPY_OK)
            read_one(s, bytes, len);
        else if (rc == SKIPPY_E_NOT_FOUND)
            sk_waker_wait(&s->relay_waker, WAIT_MS);
        else
            sk_stage_break(s, "the link to the stage behind (%s) broke: %.200s", sk_link_peer(s->down), err.text);
    }
    return NULL;
}

/* ---- the thread ---- */

int sk_relay_start(sk_stage *s, sk_err *e) {
    if (!s->down) return SKIPPY_OK;
    atomic_store(&s->relay_stop, false);
    if (pthread_create(&s->relay, NULL, relay_main, s))
        return sk_err_set(e, SKIPPY_E_NOMEM, "no thread for the answers of the stage behind");
    s->relay_started = true;
    return SKIPPY_OK;
}

void sk_relay_stop(sk_stage *s) {
    if (s->relay_started) {
        atomic_store(&s->relay_stop, true);
        sk_waker_wake(&s->relay_waker);
        pthread_join(s->relay, NULL);
        s->relay_started = false;
    }
    for (sk_stage_answer *a; (a = sk_relay_take(s)) != NULL;) sk_stage_answer_free(a);
}
