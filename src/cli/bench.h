/* `skippy bench`: measurements. Subcommands: quick (llama-server and skippy over HTTP), bare (llama_decode alone),
 * evict (eviction policies on traces). */
#ifndef SKIPPY_CLI_BENCH_H
#define SKIPPY_CLI_BENCH_H

/* argv[0] is the name for messages, argv[1] the subcommand. Exit code: 0 done, 1 failed or incomplete, 2 wrong usage,
 * 130 interrupted (what was measured is kept). */
int sk_cli_bench(int argc, char **argv);

#endif
