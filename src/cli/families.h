/* `skippy families`: what the cache does for each known model family. */
#ifndef SKIPPY_CLI_FAMILIES_H
#define SKIPPY_CLI_FAMILIES_H

/* argv[0] is the name for messages. Exit code: 0 done, 2 wrong usage. */
int sk_cli_families(int argc, char **argv);

#endif
