/* For tests: runs a subcommand in this process and keeps what it writes. */
#ifndef SKIPPY_CLI_CAPTURE_H
#define SKIPPY_CLI_CAPTURE_H

typedef struct captured {
    char *out, *err; /* standard output and error, NUL-terminated */
} captured;

/* args: NULL-terminated, args[0] is the name for messages. *c must be zeroed or hold an earlier capture, which is
 * freed. Returns the exit code; a failure of the machinery fails the test. */
int capture(captured *c, int (*command)(int argc, char **argv), const char *const *args);
void captured_free(captured *c);

#endif
