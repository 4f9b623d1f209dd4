/* An argument vector that is being made. Owns its strings. */
#ifndef SKIPPY_CLI_ARG_LIST_H
#define SKIPPY_CLI_ARG_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialise. `failed` is sticky: a writer checks once at the end. */
typedef struct sk_arg_list {
    char **v; /* NULL-terminated; NULL while empty */
    size_t n, cap;
    bool failed;
} sk_arg_list;

void sk_arg_list_add(sk_arg_list *l, const char *word);
/* An option and its value, printed. */
void sk_arg_list_addf(sk_arg_list *l, const char *option, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void sk_arg_list_free(sk_arg_list *l);

#endif
