/* One direction of a relayed connection: bytes that wait until they are due. Not thread-safe. */
#ifndef SKIPPY_BENCH_RELAY_QUEUE_H
#define SKIPPY_BENCH_RELAY_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A direction stops reading while so many bytes wait: far above what a delay of some ms holds back at the speed of a
 * loopback interface, so that a delay does not limit bandwidth. */
#define SK_RELAY_WAITING_MAX ((size_t)64 << 20)

typedef struct sk_relay_piece sk_relay_piece;

/* Zero-initialise. */
typedef struct sk_relay_queue {
    sk_relay_piece *first, *last;
    size_t waiting;    /* bytes */
    uint64_t last_due; /* of the newest piece: bytes never overtake each other when the delay is made shorter */
    bool ended;        /* the source has ended; passed on after the last byte */
    bool end_sent;
} sk_relay_queue;

enum sk_relay_moved { SK_RELAY_MORE, SK_RELAY_WAIT, SK_RELAY_BROKEN };

/* Reads once from a non-blocking socket; what comes is due at now_ns + delay_ns. *got: bytes. WAIT: nothing there;
 * BROKEN: the socket failed, or memory is out. The end of the source is no error (ended). */
enum sk_relay_moved sk_relay_queue_read(sk_relay_queue *q, int fd, uint64_t now_ns, uint64_t delay_ns, size_t *got);
/* Writes what is due to a non-blocking socket. WAIT: nothing is due, or the socket is full; BROKEN: it failed. */
enum sk_relay_moved sk_relay_queue_write(sk_relay_queue *q, int fd, uint64_t now_ns);
/* When the next byte, or the end, is due; UINT64_MAX: nothing waits. */
uint64_t sk_relay_queue_due(const sk_relay_queue *q);
void sk_relay_queue_free(sk_relay_queue *q);

#endif
