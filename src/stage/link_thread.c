/* The thread of a link: waits for the socket, lets bytes move, keeps the heartbeat, and takes the link down. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "stage/link_internal.h"

enum { NS_PER_MS = 1000000 };

/* What one turn of the loop found out. */
typedef struct turn {
    short events;     /* to poll the socket for */
    bool more;        /* do not sleep: there is more to read */
    bool ended;       /* the link is over; why is in the error */
    uint32_t arrived; /* frames for the owner */
    uint64_t wake_by_ns;
} turn;

void sk_link_kick(sk_link *l) {
    uint64_t one = 1;
    ssize_t n = write(l->kick_fd, &one, sizeof one);
    (void)n; /* fails only when the counter is full, and then the thread is awake anyway */
}

/* ---- heartbeat ---- */

static uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* A PING is due when nothing was sent for so long, so that the peer hears us, or nothing came, so that we hear the
 * peer. */
static uint64_t ping_at(const sk_link *l) {
    uint64_t every = (uint64_t)l->o.ping_ms * NS_PER_MS;
    return later(l->pinged_ns, earlier(l->frame_in_ns, l->sent_ns)) + every;
}

static int keep_heartbeat(sk_link *l, turn *t, sk_err *e) {
    uint64_t now = sk_now_ns(), silent_at = l->heard_ns + (uint64_t)l->o.silent_ms * NS_PER_MS;
    if (now >= silent_at) return sk_err_set(e, SKIPPY_E_IO, "the peer has been silent for %u ms", l->o.silent_ms);
    if (now >= ping_at(l)) {
        l->ping_due = true;
        l->pinged_ns = now;
    }
    t->wake_by_ns = earlier(ping_at(l), silent_at);
    return SKIPPY_OK;
}

/* ---- closing ---- */

/* The owner wants to close: what waits is sent until the time is over, then the end of the stream is announced, and the
 * peer's end is awaited, because a socket that is closed with bytes unread throws away what it was to send. */
static int keep_closing(sk_link *l, turn *t, sk_err *e) {
    pthread_mutex_lock(&l->lock);
    bool closing = l->closing;
    uint64_t by = l->close_by_ns;
    pthread_mutex_unlock(&l->lock);
    if (!closing) return SKIPPY_OK;
    if (!l->finished && !sk_link_has_output(l)) {
        sk_channel_finish(&l->ch);
        l->finished = true;
    }
    if (sk_now_ns() >= by) return sk_err_set(e, SKIPPY_E_IO, "closed here");
    t->wake_by_ns = earlier(t->wake_by_ns, by);
    return SKIPPY_OK;
}

/* ---- the loop ---- */

/* A write failed: what the peer said before it went, often why, is still to be read. */
static int read_last_words(sk_link *l, turn *t, const sk_err *write_error, sk_err *e) {
    bool more = true;
    int rc = SKIPPY_OK;
    while (more && rc == SKIPPY_OK) rc = sk_link_pump_in(l, SK_LINK_TURN, &more, &t->arrived, e);
    *e = *write_error;
    return e->code;
}

static int move_bytes(sk_link *l, turn *t, sk_err *e) {
    sk_err wrong = l->write_error;
    if (!wrong.code && !l->finished) sk_link_pump_out(l, SK_LINK_TURN, &wrong);
    if (wrong.code) return read_last_words(l, t, &wrong, e);
    int rc = sk_link_pump_in(l, SK_LINK_TURN, &t->more, &t->arrived, e);
    if (rc) return rc;
    rc = keep_heartbeat(l, t, e);
    return rc ? rc : keep_closing(l, t, e);
}

static short events_of(sk_link *l) {
    pthread_mutex_lock(&l->lock);
    bool paused = l->reading_paused;
    pthread_mutex_unlock(&l->lock);
    short events = paused ? 0 : l->ch.read_wants;
    if (!l->finished && sk_link_has_output(l)) events = (short)(events | l->ch.write_wants);
    return events;
}

static turn take_turn(sk_link *l, sk_err *e) {
    turn t = {0};
    pthread_mutex_lock(&l->io);
    t.ended = move_bytes(l, &t, e) != SKIPPY_OK;
    if (!t.ended) t.events = events_of(l);
    pthread_mutex_unlock(&l->io);
    return t;
}

static void wait_for_more(sk_link *l, const turn *t) {
    struct pollfd fds[2] = {{.fd = l->kick_fd, .events = POLLIN}, {.fd = l->ch.fd, .events = t->events}};
    uint64_t now = sk_now_ns(), left = t->wake_by_ns > now ? t->wake_by_ns - now : 0;
    /* rounded up, or the last fraction of a millisecond would be waited for in circles */
    int ms = t->more ? 0 : (int)earlier(left / NS_PER_MS + 1, 60000);
    /* without events only the kick counts: a socket whose peer hung up would end every poll at once */
    poll(fds, t->events ? 2 : 1, ms);
    if (fds[0].revents & POLLIN) {
        uint64_t count;
        ssize_t n = read(l->kick_fd, &count, sizeof count);
        (void)n; /* another turn follows anyway */
    }
}

static void go_down(sk_link *l, const sk_err *e) {
    pthread_mutex_lock(&l->io);
    sk_channel_close(&l->ch);
    pthread_mutex_unlock(&l->io);
    pthread_mutex_lock(&l->lock);
    l->down = true;
    memcpy(l->reason, e->text, sizeof l->reason);
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

/* An owner that is closing the link waits for this thread, perhaps with a lock of its own in hand: it is not called. */
static void wake_owner(sk_link *l) {
    pthread_mutex_lock(&l->lock);
    bool closing = l->closing;
    pthread_mutex_unlock(&l->lock);
    if (l->o.wake && !closing) l->o.wake(l->o.ud);
}

void *sk_link_run(void *link) {
    sk_link *l = link;
    sk_err e = {0};
    for (;;) {
        turn t = take_turn(l, &e);
        if (t.ended) break; /* frames that came with the end are announced with it */
        if (t.arrived) wake_owner(l);
        wait_for_more(l, &t);
    }
    go_down(l, &e);
    wake_owner(l);
    return NULL;
}
