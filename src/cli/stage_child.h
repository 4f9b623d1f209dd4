/* A child process of `skippy stage up`: this program again, its output in our hands.
 * One owner thread. */
#ifndef SKIPPY_CLI_STAGE_CHILD_H
#define SKIPPY_CLI_STAGE_CHILD_H

#include <poll.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

typedef struct sk_child {
    char name[32];             /* "stage 1" */
    pid_t pid;                 /* 0 = not started, or ended */
    int out, err;              /* its standard output and error; -1 = ours, or closed */
    sk_buf out_text, err_text; /* the line that is not complete yet */
    bool ready;                /* it printed its start-up facts */
} sk_child;

/* Starts "/proc/self/exe words...". piped: output comes to us, else it is ours. The child does not get our Ctrl-C (it
 * is a process group of its own), and is told to end when we are gone. Signals that are blocked here are not there.
 * Errors: SKIPPY_E_IO in words. */
int sk_child_start(sk_child *c, const char *name, char *const *words, bool piped, sk_err *e);
/* Adds the descriptors to wait for; returns how many (0 to 2). */
size_t sk_child_polls(const sk_child *c, struct pollfd *out);
/* Reads what is there. Complete lines go to our standard error behind the child's name; its start-up facts are kept
 * back. */
void sk_child_read(sk_child *c);
/* Reads to the end and closes; for a child that has ended. */
void sk_child_finish(sk_child *c);

#endif
