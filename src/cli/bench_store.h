/* `skippy bench store`: what stored state costs and saves, on exports of a real model. No server. */
#ifndef SKIPPY_CLI_BENCH_STORE_H
#define SKIPPY_CLI_BENCH_STORE_H

/* argv[0] is the name for messages. Exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted. */
int sk_cli_bench_store(int argc, char **argv);

#endif
