#include "cli/arg_list.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Takes word, which may be NULL (out of memory). */
static void take(sk_arg_list *l, char *word) {
    if (word && !l->failed && l->n + 2 > l->cap) {
        const size_t cap = l->cap ? 2 * l->cap : 16;
        char **v = realloc(l->v, cap * sizeof *v);
        if (v) {
            l->v = v;
            l->cap = cap;
        } else {
            l->failed = true;
        }
    }
    if (!word || l->failed) {
        l->failed = true;
        free(word);
        return;
    }
    l->v[l->n++] = word;
    l->v[l->n] = NULL;
}

void sk_arg_list_add(sk_arg_list *l, const char *word) {
    take(l, strdup(word));
}

void sk_arg_list_addf(sk_arg_list *l, const char *option, const char *fmt, ...) {
    char *word = NULL;
    va_list args;
    va_start(args, fmt);
    if (vasprintf(&word, fmt, args) < 0) word = NULL;
    va_end(args);
    sk_arg_list_add(l, option);
    take(l, word);
}

void sk_arg_list_free(sk_arg_list *l) {
    for (size_t i = 0; i < l->n; i++) free(l->v[i]);
    free(l->v);
    *l = (sk_arg_list){0};
}
