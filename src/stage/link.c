/* The callers' side of a link: its queues, credits and life. */
#include "stage/link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/record.h"
#include "stage/link_internal.h"

enum { DEFAULT_PING_MS = 2000, DEFAULT_SILENT_MS = 10000, FIRST_LIMIT = 64 * 1024, NS_PER_MS = 1000000 };
static const uint64_t DEFAULT_QUEUE_MAX = 64u << 20;

/* ---- life ---- */

static void set_options(sk_link *l, const sk_link_options *o) {
    if (o) l->o = *o;
    l->o.security = (sk_link_security){0}; /* borrowed names; the channel is open already */
    if (!l->o.ping_ms) l->o.ping_ms = DEFAULT_PING_MS;
    if (!l->o.silent_ms) l->o.silent_ms = DEFAULT_SILENT_MS;
    if (!l->o.queue_max) l->o.queue_max = DEFAULT_QUEUE_MAX;
}

static void init_locks(sk_link *l) {
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* deadlines are in sk_now_ns */
    pthread_cond_init(&l->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&l->lock, NULL);
    pthread_mutex_init(&l->io, NULL);
}

static void init_state(sk_link *l, sk_channel *ch, const char *peer, bool greet) {
    l->ch = *ch;
    ch->fd = -1;
    ch->ssl = NULL;
    l->encrypted = l->stats.encrypted = l->ch.ssl != NULL;
    snprintf(l->peer, sizeof l->peer, "%s", peer);
    atomic_init(&l->limit, FIRST_LIMIT);
    l->out_tail = &l->out_head;
    l->in_tail = &l->in_head;
    l->heard_ns = l->frame_in_ns = l->sent_ns = l->pinged_ns = sk_now_ns();
    l->ping_due = greet;
}

static void free_items(sk_link *l) {
    for (sk_in_item *i = l->in_head, *next; i; i = next) {
        next = i->next;
        free(i->bytes);
        free(i);
    }
    if (l->sending) {
        l->sending->next = l->out_head;
        l->out_head = l->sending;
    }
    for (sk_out_item *o = l->out_head, *next; o; o = next) {
        next = o->next;
        sk_buf_free(&o->bytes);
        free(o);
    }
    free(l->frame);
}

static void free_link(sk_link *l) {
    sk_channel_close(&l->ch);
    free_items(l);
    if (l->kick_fd >= 0) close(l->kick_fd);
    pthread_mutex_destroy(&l->io);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->changed);
    free(l);
}

int sk_link_start(sk_channel *ch, const char *peer, const sk_link_options *o, bool greet, sk_link **out, sk_err *e) {
    *out = NULL;
    sk_link *l = calloc(1, sizeof *l);
    if (!l) {
        sk_channel_close(ch);
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a link");
    }
    init_locks(l);
    set_options(l, o);
    init_state(l, ch, peer, greet);
    l->kick_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int code = l->kick_fd < 0 ? errno : pthread_create(&l->thread, NULL, sk_link_run, l);
    if (code) {
        free_link(l);
        return sk_err_set(e, SKIPPY_E_IO, "the thread of a link cannot be started: %s", strerror(code));
    }
    *out = l;
    return SKIPPY_OK;
}

void sk_link_close(sk_link *l, uint32_t linger_ms) {
    if (!l) return;
    pthread_mutex_lock(&l->lock);
    l->closing = true;
    l->close_by_ns = sk_now_ns() + (uint64_t)linger_ms * NS_PER_MS;
    pthread_mutex_unlock(&l->lock);
    sk_link_kick(l);
    pthread_join(l->thread, NULL);
    free_link(l);
}

/* ---- sending ---- */

static int down_error(const sk_link *l, sk_err *e) {
    return sk_err_set(e, SKIPPY_E_IO, "the link to %s is down: %s", l->peer, l->reason);
}

/* Under the lock. */
static bool may_send(const sk_link *l, bool chunk) {
    return l->out_bytes <= l->o.queue_max && (!chunk || l->credits > 0);
}

/* Whole frames, one behind the other: a part of one would make nonsense of all that follows. */
static int count_frames(const sk_buf *b, uint32_t *n, sk_err *e) {
    const uint8_t *bytes = (const uint8_t *)b->data;
    size_t at = 0;
    *n = 0;
    while (b->len - at >= SK_FRAME_HEADER) {
        uint32_t length = sk_get_u32(bytes + at);
        if (length > b->len - at - 4 || length < SK_FRAME_HEADER - 4) break;
        at += 4 + (size_t)length;
        ++*n;
    }
    if (at == b->len && *n > 0 && !b->failed) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_INVALID, "what shall be sent is not a number of whole frames (%zu bytes)", b->len);
}

/* An item for what b holds, which stays there until the push. */
static int make_item(const sk_buf *b, sk_out_item **out, sk_err *e) {
    uint32_t n;
    int rc = count_frames(b, &n, e);
    if (rc) return rc;
    *out = calloc(1, sizeof **out);
    if (!*out) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for a frame");
    (*out)->n_frames = n;
    return SKIPPY_OK;
}

/* Under the lock. Takes what b holds. */
static void push(sk_link *l, sk_out_item *item, sk_buf *b, bool chunk) {
    item->bytes = *b;
    *b = (sk_buf){0};
    *l->out_tail = item;
    l->out_tail = &item->next;
    l->out_bytes += item->bytes.len;
    if (chunk) l->credits--;
}

/* Writes at once when nobody else does, so that a small frame does not wait for a thread to wake up. Whatever is left,
 * or all when another thread has the channel, is the link's thread's. */
static void push_out(sk_link *l) {
    bool rest = true;
    if (pthread_mutex_trylock(&l->io) == 0) {
        sk_err e = {0};
        if (l->ch.fd >= 0 && !l->write_error.code && sk_link_pump_out(l, SK_LINK_INLINE, &e)) l->write_error = e;
        rest = l->write_error.code || sk_link_has_output(l);
        pthread_mutex_unlock(&l->io);
    }
    if (rest) sk_link_kick(l);
}

/* Under the lock: waits for a change until deadline_ns (0 = for ever). False: the time is over. */
static bool wait_change(sk_link *l, uint64_t deadline_ns) {
    if (!deadline_ns) {
        pthread_cond_wait(&l->changed, &l->lock);
        return true;
    }
    struct timespec t = {.tv_sec = (time_t)(deadline_ns / 1000000000u), .tv_nsec = (long)(deadline_ns % 1000000000u)};
    return pthread_cond_timedwait(&l->changed, &l->lock, &t) != ETIMEDOUT;
}

static int timeout_error(const sk_link *l, bool chunk, sk_err *e) {
    const char *what = chunk && l->credits == 0 ? "granted no credit for a chunk" : "took no more bytes";
    return sk_err_set(e, SKIPPY_E_TIMEOUT, "%s %s before the deadline", l->peer, what);
}

/* Under the lock. */
static int wait_until_may_send(sk_link *l, bool chunk, uint64_t deadline_ns, sk_err *e) {
    while (!l->down && !may_send(l, chunk))
        if (!wait_change(l, deadline_ns) && !l->down && !may_send(l, chunk)) return timeout_error(l, chunk, e);
    return l->down ? down_error(l, e) : SKIPPY_OK;
}

/* Under the lock. */
static int may_send_now(const sk_link *l, bool chunk, sk_err *e) {
    if (l->down) return down_error(l, e);
    return may_send(l, chunk) ? SKIPPY_OK
                              : sk_err_set(e, SKIPPY_E_BUSY, "%s has to take earlier frames first", l->peer);
}

static int send_item(sk_link *l, sk_buf *b, bool chunk, bool wait, uint64_t deadline_ns, sk_err *e) {
    sk_out_item *item;
    int rc = make_item(b, &item, e);
    if (rc) return rc;
    pthread_mutex_lock(&l->lock);
    rc = wait ? wait_until_may_send(l, chunk, deadline_ns, e) : may_send_now(l, chunk, e);
    if (rc == SKIPPY_OK) push(l, item, b, chunk);
    pthread_mutex_unlock(&l->lock);
    if (rc)
        free(item);
    else
        push_out(l);
    return rc;
}

int sk_link_send(sk_link *l, sk_buf *b, bool chunk, uint64_t deadline_ns, sk_err *e) {
    return send_item(l, b, chunk, true, deadline_ns, e);
}

int sk_link_try_send(sk_link *l, sk_buf *b, bool chunk, sk_err *e) {
    return send_item(l, b, chunk, false, 0, e);
}

void sk_link_add_credits(sk_link *l, uint32_t n) {
    pthread_mutex_lock(&l->lock);
    l->credits = n > UINT32_MAX - l->credits ? UINT32_MAX : l->credits + n;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

/* The questions below take the lock of a link that they do not change. */
static pthread_mutex_t *lock_of(const sk_link *l) {
    pthread_mutex_t *lock = &((sk_link *)l)->lock;
    pthread_mutex_lock(lock);
    return lock;
}

uint32_t sk_link_credits(const sk_link *l) {
    pthread_mutex_t *lock = lock_of(l);
    uint32_t n = l->credits;
    pthread_mutex_unlock(lock);
    return n;
}

/* ---- receiving ---- */

/* Under the lock. */
static sk_in_item *pop(sk_link *l, bool *resume) {
    sk_in_item *item = l->in_head;
    l->in_head = item->next;
    if (!l->in_head) l->in_tail = &l->in_head;
    l->in_bytes -= item->len;
    *resume = l->reading_paused && l->in_bytes <= SK_LINK_UNREAD_MAX;
    return item;
}

int sk_link_receive(sk_link *l, uint32_t timeout_ms, uint8_t **bytes, size_t *len, sk_err *e) {
    uint64_t by = timeout_ms ? sk_now_ns() + (uint64_t)timeout_ms * NS_PER_MS : 0;
    bool resume = false;
    sk_in_item *item = NULL;
    int rc = SKIPPY_OK;
    pthread_mutex_lock(&l->lock);
    while (timeout_ms && !l->in_head && !l->down)
        if (!wait_change(l, by)) break;
    if (l->in_head)
        item = pop(l, &resume);
    else if (l->down)
        rc = down_error(l, e);
    else
        rc = sk_err_set(e, SKIPPY_E_NOT_FOUND, "no frame came from %s", l->peer);
    pthread_mutex_unlock(&l->lock);
    if (resume) sk_link_kick(l);
    *bytes = item ? item->bytes : NULL;
    *len = item ? item->len : 0;
    free(item);
    return rc;
}

void sk_link_set_limit(sk_link *l, uint32_t max_length) {
    atomic_store(&l->limit, max_length);
}

/* ---- questions ---- */

bool sk_link_is_down(const sk_link *l) {
    pthread_mutex_t *lock = lock_of(l);
    bool down = l->down;
    pthread_mutex_unlock(lock);
    return down;
}

const char *sk_link_reason(sk_link *l, char *buf, size_t cap) {
    pthread_mutex_lock(&l->lock);
    snprintf(buf, cap, "%s", l->reason);
    pthread_mutex_unlock(&l->lock);
    return buf;
}

const char *sk_link_peer(const sk_link *l) {
    return l->peer;
}

void sk_link_get_stats(const sk_link *l, sk_link_stats *out) {
    pthread_mutex_t *lock = lock_of(l);
    *out = l->stats;
    pthread_mutex_unlock(lock);
}
