/* Growable byte buffer that is always NUL-terminated, so it can hold text or bytes. */
#ifndef SKIPPY_BASE_BUF_H
#define SKIPPY_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialise before use. `failed` is sticky: after an allocation failure every further
 * append does nothing, so a writer checks once at the end. */
typedef struct sk_buf {
    char *data; /* NULL while empty; else data[len] == 0 */
    size_t len;
    size_t cap;
    bool failed;
} sk_buf;

void sk_buf_free(sk_buf *b);
/* Forgets the content, keeps the memory. */
void sk_buf_clear(sk_buf *b);
/* Makes room for `extra` more bytes. False when out of memory (and `failed` is set). */
bool sk_buf_reserve(sk_buf *b, size_t extra);
void sk_buf_add(sk_buf *b, const void *data, size_t len);
void sk_buf_str(sk_buf *b, const char *text);
void sk_buf_printf(sk_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Removes the first n bytes (n <= len). */
void sk_buf_consume(sk_buf *b, size_t n);
/* Appends text as the inside of a JSON string (no quotes): escapes quotes, backslashes and control
 * characters; bytes that are not valid UTF-8 become U+FFFD, so the result is always valid JSON. */
void sk_buf_json_escape(sk_buf *b, const char *text, size_t len);

#endif
