/* Exit codes of the benchmark commands. */
#ifndef SKIPPY_CLI_BENCH_EXIT_H
#define SKIPPY_CLI_BENCH_EXIT_H

#include "skippy/error.h"

enum sk_bench_exit { SK_BENCH_DONE = 0, SK_BENCH_FAILED = 1, SK_BENCH_USAGE = 2, SK_BENCH_INTERRUPTED = 130 };

static inline int sk_bench_exit(int rc) {
    return rc == SKIPPY_OK ? SK_BENCH_DONE : rc == SKIPPY_E_CANCELLED ? SK_BENCH_INTERRUPTED : SK_BENCH_FAILED;
}

#endif
