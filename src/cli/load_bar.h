/* Progress of a long step: a bar on a terminal, a line every 10 % elsewhere. */
#ifndef SKIPPY_CLI_LOAD_BAR_H
#define SKIPPY_CLI_LOAD_BAR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct sk_load_bar {
    FILE *out;
    bool tty;
    const char *what;     /* "loading the model" */
    int shown;            /* percent that was shown last; start with -1 */
    uint64_t quiet_until; /* sk_now_ns value: a step that ends before is not worth a word; 0 = show at once */
} sk_load_bar;

/* fraction: 0..1. Draws only when the shown percentage changes. */
void sk_load_bar_show(sk_load_bar *b, float fraction);

#endif
