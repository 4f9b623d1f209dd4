/* `skippy stage`: one stage of a split model, certificates for the links, and a whole split on this machine. */
#ifndef SKIPPY_CLI_STAGE_H
#define SKIPPY_CLI_STAGE_H

/* argv[0] is the name for messages. Exit code: 0 stopped on request, 1 failed, 2 wrong usage. */
int sk_cli_stage(int argc, char **argv);

#endif
