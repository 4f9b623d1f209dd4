/* Strict reading of JSON: objects whose fields are all known, numbers with bounds, texts that fit, and the path of a
 * field ("plan.concurrency[3]") in every complaint.
 *
 * The first error stays in the reader and everything after it is ignored, so that a caller reads a whole object and
 * asks once at the end. A null counts as absent. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_STRICT_H
#define SKIPPY_BENCH_FAMILY_STRICT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "bench/family/sha256.h"

enum { SK_STRICT_PATH = 160 };

typedef struct sk_strict_reader {
    int rc;    /* of the first error; SKIPPY_OK while there is none */
    sk_err *e; /* its text; may be NULL */
} sk_strict_reader;

/* One value, or the place of an absent one. Valid while the reader and the JSON are. */
typedef struct sk_strict {
    sk_strict_reader *reader;
    json_t *json; /* borrowed; NULL = absent */
    char path[SK_STRICT_PATH];
} sk_strict;

sk_strict sk_strict_root(sk_strict_reader *r, json_t *root);
bool sk_strict_failed(const sk_strict *v);
/* Keeps "PATH: text" as the reader's error unless it has one. code is an enum skippy_status. */
void sk_strict_refuse(const sk_strict *v, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Refuses a value that is no object, or whose "schema_version" is missing or another one. Asked before the fields, so
 * that a newer file is called newer and not wrong. */
void sk_strict_version(const sk_strict *v, int64_t version);
/* Refuses a value that is no object, and fields that are not in known (which a NULL ends). */
void sk_strict_known(const sk_strict *v, const char *const *known);
/* Refuses a value that is no array or has fewer or more elements. Returns how many it has; 0 when it is absent or was
 * refused. */
size_t sk_strict_count(const sk_strict *v, size_t min, size_t max);
/* An absent field is a value without JSON. */
sk_strict sk_strict_field(const sk_strict *v, const char *name);
/* Like sk_strict_field, but refuses an absent one. */
sk_strict sk_strict_need(const sk_strict *v, const char *name);
sk_strict sk_strict_item(const sk_strict *v, size_t i);
bool sk_strict_present(const sk_strict *v);

/* Each returns `absent` for an absent or refused value. */
int64_t sk_strict_int(const sk_strict *v, int64_t min, int64_t max, int64_t absent);
uint32_t sk_strict_u32(const sk_strict *v, uint32_t min, uint32_t max, uint32_t absent);
bool sk_strict_bool(const sk_strict *v, bool absent);
/* The text itself, borrowed, 1 to max bytes without control characters; "" when absent or refused. */
const char *sk_strict_text(const sk_strict *v, size_t max);
/* Copies such a text; out is "" when it is absent or refused. cap counts the NUL. */
void sk_strict_copy(const sk_strict *v, char *out, size_t cap);
/* As sk_strict_copy, and the text must begin with "/". */
void sk_strict_absolute(const sk_strict *v, char *out, size_t cap);
/* A SHA-256: exactly 64 lower-case hexadecimal digits. */
void sk_strict_sha256(const sk_strict *v, char out[SK_SHA256_HEX]);
/* A source commit: exactly 40 or 64 lower-case hexadecimal digits. */
void sk_strict_commit(const sk_strict *v, char out[65]);
/* The place of the text in names (which a NULL ends); 0 when it is absent or refused. */
size_t sk_strict_choice(const sk_strict *v, const char *const *names);

/* Appends a file of at most limit bytes. Errors: SKIPPY_E_NOT_FOUND, SKIPPY_E_IO, SKIPPY_E_TOO_LARGE, SKIPPY_E_NOMEM.
 */
int sk_strict_read(const char *path, size_t limit, sk_buf *out, sk_err *e);
/* Reads a file of at most limit bytes as JSON (duplicate fields are refused). *root is a new reference; hex (may be
 * NULL) is the digest of the file's bytes. Errors: those of sk_strict_read, SKIPPY_E_INVALID (no JSON: line and
 * column).
 */
int sk_strict_load(const char *path, size_t limit, json_t **root, char hex[SK_SHA256_HEX], sk_err *e);

#endif
