/* `skippy bench evict`: eviction policies on recorded and generated traces. No model, no server. */
#ifndef SKIPPY_CLI_BENCH_EVICT_H
#define SKIPPY_CLI_BENCH_EVICT_H

/* argv[0] is the name for messages. Exit code: 0 done, 1 failed, 2 wrong usage. */
int sk_cli_bench_evict(int argc, char **argv);

#endif
