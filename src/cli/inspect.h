/* `skippy inspect`: what a cache directory holds, and whether its bytes are right. Reads only; the stores may be in
 * use. */
#ifndef SKIPPY_CLI_INSPECT_H
#define SKIPPY_CLI_INSPECT_H

/* argv[0] is the name for messages. Exit code: 0 done, 1 bad blocks, an unreadable store or nothing of that name or id,
 * 2 wrong usage. */
int sk_cli_inspect(int argc, char **argv);

#endif
