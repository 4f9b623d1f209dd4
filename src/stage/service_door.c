/* The door: peers that want to be the stage before this one. A thread of its own, so that the second of them is
 * answered while the first is served. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "stage/stage_internal.h"

enum {
    ACCEPT_MS = 1000,
    RETRY_MS = 200,
    GRACE_MS = 500, /* a peer that connects again may be faster than the news that its old link has ended */
    LOOK_MS = 5
};

static void wake_service(void *ud) {
    sk_stage *s = ud;
    sk_waker_wake(&s->waker);
}

void sk_stage_refuse(sk_link *l, const sk_err *why) {
    sk_frame f = {.kind = SK_FRAME_REFUSE, .u.text = {.status = why->code}};
    strncpy(f.u.text.text, why->text, sizeof f.u.text.text - 1);
    sk_text_clean(f.u.text.text);
    sk_buf b = {0};
    sk_err ignored;
    if (sk_frame_encode(&f, &b))
        sk_link_send(l, &b, false, sk_now_ns() + (uint64_t)SK_STAGE_LINGER_MS * 1000000, &ignored);
    sk_buf_free(&b);
    sk_link_close(l, SK_STAGE_LINGER_MS);
}

static void pause_ms(uint32_t ms) {
    const struct timespec t = {.tv_nsec = (long)ms * 1000000};
    nanosleep(&t, NULL);
}

static bool is_alive(const sk_link *l) {
    return l && !sk_link_is_down(l);
}

/* Under the lock. Who only connects and says nothing keeps nobody else out: its link ends. */
static void send_away_silent(sk_stage *s, const sk_link *next) {
    if (s->broken || !is_alive(s->up) || !s->hello_by_ns || sk_now_ns() < s->hello_by_ns) return;
    snprintf(s->reason, sizeof s->reason, "no HELLO came for %u ms, and %s wants to be served", s->silence_ms,
             sk_link_peer(next));
    s->broken = true;
}

/* Makes the link the next one, when none lives. Else false, and who is served. */
static bool try_admit(sk_stage *s, sk_link *l, sk_err *why) {
    sk_link *dead = NULL;
    pthread_mutex_lock(&s->lock);
    send_away_silent(s, l);
    const sk_link *first = is_alive(s->up) ? s->up : is_alive(s->pending) ? s->pending : NULL;
    if (first) {
        sk_err_set(why, SKIPPY_E_BUSY, "this stage (%s) is already serving %s", s->card.name, sk_link_peer(first));
    } else {
        dead = s->pending;
        s->pending = l;
    }
    pthread_mutex_unlock(&s->lock);
    sk_link_close(dead, 0);
    if (first) return false;
    sk_waker_wake(&s->waker);
    return true;
}

static bool admit(sk_stage *s, sk_link *l, sk_err *why) {
    for (uint32_t waited = 0; !try_admit(s, l, why); waited += LOOK_MS) {
        if (waited >= GRACE_MS || atomic_load(&s->stop)) return false;
        pause_ms(LOOK_MS);
    }
    return true;
}

static void *door_main(void *arg) {
    sk_stage *s = arg;
    sk_link_options o = s->params.link;
    o.wake = wake_service;
    o.ud = s;
    while (!atomic_load(&s->stop)) {
        sk_link *l = NULL;
        sk_err err = {0};
        int rc = sk_listener_accept(s->listener, &o, ACCEPT_MS, &l, &err);
        if (rc == SKIPPY_E_CANCELLED) break;
        if (rc == SKIPPY_E_NOT_FOUND) continue;
        if (rc) {
            sk_log(SK_LOG_WARN, "nobody could be accepted: %s", err.text);
            pause_ms(RETRY_MS);
            continue;
        }
        if (admit(s, l, &err)) continue;
        sk_log(SK_LOG_INFO, "refused %s: %s", sk_link_peer(l), err.text);
        sk_stage_refuse(l, &err);
    }
    return NULL;
}

int sk_stage_start_door(sk_stage *s, sk_err *e) {
    if (pthread_create(&s->door, NULL, door_main, s))
        return sk_err_set(e, SKIPPY_E_NOMEM, "no thread for accepting links");
    s->door_started = true;
    return SKIPPY_OK;
}

void sk_stage_stop_door(sk_stage *s) {
    if (!s->door_started) return;
    sk_listener_cancel(s->listener);
    pthread_join(s->door, NULL);
    s->door_started = false;
    sk_link_close(s->pending, 0);
    s->pending = NULL;
}
