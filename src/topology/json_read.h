/* Strict reading of JSON objects: every key is known, every value has its type and range, and the first mistake is
 * kept in words that name the place. Internal to topology/. */
#ifndef SKIPPY_TOPOLOGY_JSON_READ_H
#define SKIPPY_TOPOLOGY_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"

/* Zero-initialise and set e. After the first mistake every call does nothing and leaves its output as it was, so a
 * caller reads a whole object and looks at `failed` once. */
typedef struct sk_reader {
    sk_err *e;
    bool failed;
    char where[96]; /* the object being read, as "families[3] (gemma3n)" */
} sk_reader;

/* Keeps the first mistake: "<where>: <text>". */
void sk_read_fail(sk_reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* o must be an object that holds no key but those of the NULL-terminated list. */
void sk_read_keys(sk_reader *r, const json_t *o, const char *const *allowed);

/* Required values. */
void sk_read_text(sk_reader *r, const json_t *o, const char *key, const char **out); /* not empty */
void sk_read_i64(sk_reader *r, const json_t *o, const char *key, int64_t min, int64_t max, int64_t *out);
void sk_read_i32(sk_reader *r, const json_t *o, const char *key, int32_t min, int32_t max, int32_t *out);
/* The position of the value in the NULL-terminated list of words. */
void sk_read_word(sk_reader *r, const json_t *o, const char *key, const char *const *words, int *out);

/* Values that may be absent; *out then keeps what it had. */
void sk_read_opt_text(sk_reader *r, const json_t *o, const char *key, const char **out);
void sk_read_opt_i32(sk_reader *r, const json_t *o, const char *key, int32_t min, int32_t max, int32_t *out);
void sk_read_opt_bool(sk_reader *r, const json_t *o, const char *key, bool *out);
void sk_read_opt_i32s(sk_reader *r, const json_t *o, const char *key, int32_t min, int32_t max, int32_t *out,
                      size_t cap, size_t *n);
void sk_read_opt_texts(sk_reader *r, const json_t *o, const char *key, const char **out, size_t cap, size_t *n);
/* The array under key, NULL when it is absent or wrong; it has 1 to cap elements. */
const json_t *sk_read_opt_array(sk_reader *r, const json_t *o, const char *key, size_t cap);

#endif
