/* `skippy serve`: loads a model and serves it until SIGINT or SIGTERM. */
#ifndef SKIPPY_CLI_SERVE_H
#define SKIPPY_CLI_SERVE_H

/* argv[0] is the name for messages. Exit code: 0 stopped on request, 1 failed, 2 wrong usage. */
int sk_cli_serve(int argc, char **argv);

#endif
