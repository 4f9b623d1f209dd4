/* `skippy package`: a model as content-addressed parts, so that a machine fetches only the layers that it runs. */
#ifndef SKIPPY_CLI_PACKAGE_H
#define SKIPPY_CLI_PACKAGE_H

/* argv[0] is the name for messages. Exit code: 0 done, 1 failed (not there, not readable, stopped), 2 wrong usage, 3
 * refused, or the package is damaged. */
int sk_cli_package(int argc, char **argv);

#endif
