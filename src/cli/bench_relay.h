/* `skippy bench relay`: a slow or broken link between two programs of this machine. */
#ifndef SKIPPY_CLI_BENCH_RELAY_H
#define SKIPPY_CLI_BENCH_RELAY_H

int sk_cli_bench_relay(int argc, char **argv);

#endif
