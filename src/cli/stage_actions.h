/* The actions of `skippy stage`, one file each. Each returns an exit code. Internal to the command. */
#ifndef SKIPPY_CLI_STAGE_ACTIONS_H
#define SKIPPY_CLI_STAGE_ACTIONS_H

enum { STAGE_DONE = 0, STAGE_FAILED = 1, STAGE_USAGE = 2 };

/* argv[0] is the name for messages, argv[1..] are the action's own arguments. */
int stage_run(int argc, char **argv);
int stage_init_certs(int argc, char **argv);
int stage_up(int argc, char **argv);

#endif
