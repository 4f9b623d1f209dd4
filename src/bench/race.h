/* Several clients, each on its own connection and thread, that send one request at the same moment. */
#ifndef SKIPPY_BENCH_RACE_H
#define SKIPPY_BENCH_RACE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/conversation.h"

struct sk_race_gate;

/* Zero-initialise, then sk_racer_init; the prompt is filled in by the caller. */
typedef struct sk_racer {
    sk_conversation prompt;
    sk_endpoint ep;
    size_t n_predict;
    sk_reply reply; /* after the race; the text may be taken over */

    pthread_t thread; /* the rest is the race's own */
    struct sk_race_gate *start;
    uint64_t done_ns;
    int rc;
    sk_err err;
} sk_racer;

void sk_racer_init(sk_racer *r, uint16_t port, int timeout_ms, size_t n_predict);
/* Frees prompt, connection and reply. */
void sk_racer_free(sk_racer *r);
/* Connects every client, lets all go at once and waits for all. *ms: from the start until the last answer. Errors: the
 * first client's error, SKIPPY_E_NOMEM (no thread). */
int sk_race_run(sk_racer *racers, size_t n, double *ms, sk_err *e);

#endif
