/* `skippy bench family`, `models`, `prepare-full`, `prepare-use-cases`, `run` and `report`. */
#ifndef SKIPPY_CLI_BENCH_FAMILY_H
#define SKIPPY_CLI_BENCH_FAMILY_H

/* argv[0] is the name for messages, as in "skippy bench family". Return the exit code. */
int sk_cli_bench_family(int argc, char **argv);
int sk_cli_bench_models(int argc, char **argv);
int sk_cli_bench_prepare_full(int argc, char **argv);
int sk_cli_bench_prepare_use_cases(int argc, char **argv);
int sk_cli_bench_run(int argc, char **argv);
int sk_cli_bench_report(int argc, char **argv);

#endif
