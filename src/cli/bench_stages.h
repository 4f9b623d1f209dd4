/* `skippy bench stages`. */
#ifndef SKIPPY_CLI_BENCH_STAGES_H
#define SKIPPY_CLI_BENCH_STAGES_H

int sk_cli_bench_stages(int argc, char **argv);

#endif
