#include "bench/relay_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>

enum { READ_BYTES = 1 << 18 };

struct sk_relay_piece {
    sk_relay_piece *next;
    uint64_t due_ns;
    size_t len, sent;
    uint8_t data[];
};

static bool would_block(void) {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static bool append(sk_relay_queue *q, const uint8_t *data, size_t len, uint64_t due_ns) {
    sk_relay_piece *p = malloc(sizeof *p + len);
    if (!p) return false;
    if (due_ns < q->last_due) due_ns = q->last_due;
    p->next = NULL;
    p->due_ns = q->last_due = due_ns;
    p->len = len;
    p->sent = 0;
    memcpy(p->data, data, len);
    if (q->last)
        q->last->next = p;
    else
        q->first = p;
    q->last = p;
    q->waiting += len;
    return true;
}

enum sk_relay_moved sk_relay_queue_read(sk_relay_queue *q, int fd, uint64_t now_ns, uint64_t delay_ns, size_t *got) {
    static _Thread_local uint8_t buf[READ_BYTES];
    *got = 0;
    const ssize_t n = recv(fd, buf, sizeof buf, 0);
    if (n < 0) return would_block() ? SK_RELAY_WAIT : SK_RELAY_BROKEN;
    if (n == 0) {
        q->ended = true;
        if (q->last_due < now_ns + delay_ns) q->last_due = now_ns + delay_ns;
        return SK_RELAY_WAIT;
    }
    if (!append(q, buf, (size_t)n, now_ns + delay_ns)) return SK_RELAY_BROKEN;
    *got = (size_t)n;
    return SK_RELAY_MORE;
}

static void drop_first(sk_relay_queue *q) {
    sk_relay_piece *p = q->first;
    q->first = p->next;
    if (!q->first) q->last = NULL;
    q->waiting -= p->len;
    free(p);
}

enum sk_relay_moved sk_relay_queue_write(sk_relay_queue *q, int fd, uint64_t now_ns) {
    while (q->first && q->first->due_ns <= now_ns) {
        sk_relay_piece *p = q->first;
        const ssize_t n = send(fd, p->data + p->sent, p->len - p->sent, MSG_NOSIGNAL);
        if (n < 0) return would_block() ? SK_RELAY_WAIT : SK_RELAY_BROKEN;
        p->sent += (size_t)n;
        if (p->sent == p->len) drop_first(q);
    }
    if (!q->first && q->ended && !q->end_sent && q->last_due <= now_ns) {
        q->end_sent = true;
        return shutdown(fd, SHUT_WR) == 0 ? SK_RELAY_MORE : SK_RELAY_BROKEN;
    }
    return SK_RELAY_WAIT;
}

uint64_t sk_relay_queue_due(const sk_relay_queue *q) {
    if (q->first) return q->first->due_ns;
    return q->ended && !q->end_sent ? q->last_due : UINT64_MAX;
}

void sk_relay_queue_free(sk_relay_queue *q) {
    while (q->first) drop_first(q);
    *q = (sk_relay_queue){0};
}
