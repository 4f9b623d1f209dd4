/* A TCP relay that makes a link between two programs of this machine look like a slow or a broken one: every byte
 * arrives so much later, in both directions and at any bandwidth; connections can be cut, and stalled without being
 * closed.
 *
 * One thread for all connections. A byte is passed on as soon as it is due, within about 0.1 ms on an idle machine. All
 * functions may be called from any thread but sk_relay_close, which ends the relay. */
#ifndef SKIPPY_BENCH_RELAY_H
#define SKIPPY_BENCH_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct sk_relay sk_relay;

typedef struct sk_relay_stats {
    uint64_t connections;          /* accepted so far */
    uint64_t open;                 /* at this moment */
    uint64_t bytes_to, bytes_from; /* read from clients for the target, and from the target for clients */
} sk_relay_stats;

/* Listens on `listen` ("host:port" or "[v6]:port"; port 0: any free one) and passes every connection on to `target`,
 * which is connected to when a client comes. delay_us: each way. Errors: SKIPPY_E_INVALID (an address, in words),
 * SKIPPY_E_IO, SKIPPY_E_NOMEM. */
int sk_relay_open(const char *listen, const char *target, uint32_t delay_us, sk_relay **out, sk_err *e);
/* "host:port" that it listens on, numeric, with the port that was chosen. Valid until sk_relay_close. */
const char *sk_relay_address(const sk_relay *r);
/* Holds for bytes that arrive from now on. */
void sk_relay_set_delay(sk_relay *r, uint32_t delay_us);
/* Resets all connections that are open when the relay comes to it; later ones are accepted. */
void sk_relay_cut(sk_relay *r);
/* While stalled nothing is passed on and nobody is accepted; nothing is lost. */
void sk_relay_set_stalled(sk_relay *r, bool stalled);
void sk_relay_get_stats(sk_relay *r, sk_relay_stats *out);
/* Resets what is open and frees. r may be NULL. */
void sk_relay_close(sk_relay *r);

#endif
