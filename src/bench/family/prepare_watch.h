/* The preparation's time limit, its ear for signals and its voice: hashing a disk full of models takes minutes. Not
 * thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_PREPARE_WATCH_H
#define SKIPPY_BENCH_FAMILY_PREPARE_WATCH_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "bench/family/sha256.h"

typedef struct sk_prepare_watch {
    uint64_t deadline_ns; /* sk_now_ns() */
    uint32_t limit_s;     /* for words */
    FILE *progress;       /* NULL = silent */
    /* What is hashed at the moment. */
    char what[64];
    uint64_t total; /* bytes, 0 = not known */
    unsigned percent;
} sk_prepare_watch;

/* One line for people. */
void sk_prepare_say(const sk_prepare_watch *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Names what is hashed from now on; big things get a line with percent now and then. The result is for sk_sha256_file
 * and its kin and borrows w. */
sk_sha256_watch sk_prepare_hashing(sk_prepare_watch *w, const char *what, uint64_t total);
/* SKIPPY_OK while the preparation may go on. Errors: SKIPPY_E_CANCELLED (signal), SKIPPY_E_TIMEOUT. */
int sk_prepare_may_go_on(const sk_prepare_watch *w, sk_err *e);
/* Digests know only that they were stopped; this says by what. Returns rc or the true reason. */
int sk_prepare_reason(const sk_prepare_watch *w, int rc, sk_err *e);

#endif
