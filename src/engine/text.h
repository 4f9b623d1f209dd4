/* Turns token pieces into text for the client: complete UTF-8 only, and nothing that may still become a stop string.
 * Not thread-safe; one per request. */
#ifndef SKIPPY_ENGINE_TEXT_H
#define SKIPPY_ENGINE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

typedef struct sk_text {
    sk_buf pending; /* bytes not released yet */
    char **stop;    /* owned copies, never empty strings */
    size_t n_stop;
    size_t longest_stop;
    const char *hit; /* the stop string that was found, NULL before */
} sk_text;

/* Copies the stop strings (empty ones are dropped). SKIPPY_E_NOMEM. */
int sk_text_init(sk_text *t, const char *const *stop, size_t n_stop);
void sk_text_free(sk_text *t);
/* Adds the bytes of one token. Returns how many leading bytes of t->pending may go to the client now: use them, then
 * call sk_text_release. When a stop string is complete, t->hit is set, and pending ends before it. */
size_t sk_text_push(sk_text *t, const char *piece, size_t len);
void sk_text_release(sk_text *t, size_t n);
/* At the end without a stop string: everything left may go (an incomplete UTF-8 tail is cut off). */
size_t sk_text_flush(sk_text *t);

#endif
