/* SHA-256 of files and folders: the pins of a benchmark run. Thread-safe (no shared state). */
#ifndef SKIPPY_BENCH_FAMILY_SHA256_H
#define SKIPPY_BENCH_FAMILY_SHA256_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* 64 lower-case hexadecimal digits and the NUL. */
enum { SK_SHA256_HEX = 65 };

/* Called now and then with the bytes read so far; returns false to stop. May be NULL. */
typedef struct sk_sha256_watch {
    int (*keep_going)(void *ud, uint64_t bytes_done);
    void *ud;
} sk_sha256_watch;

void sk_sha256_text(const void *data, size_t n, char hex[SK_SHA256_HEX]);
/* Reads the whole file behind any links. *bytes (may be NULL) is its size.
 * Errors: SKIPPY_E_NOT_FOUND, SKIPPY_E_IO, SKIPPY_E_INVALID (not a regular file), SKIPPY_E_CANCELLED. */
int sk_sha256_file(const char *path, const sk_sha256_watch *w, char hex[SK_SHA256_HEX], uint64_t *bytes, sk_err *e);
/* The pin of a folder's bytes: SHA-256 over one line "HEX  SIZE  RELATIVE/PATH\n" for each regular file, sorted by the
 * bytes of the path; links to files count as the bytes behind them, links to folders are not followed and folders
 * themselves do not count. Errors: as sk_sha256_file, SKIPPY_E_TOO_LARGE (more than 65,536 files). */
int sk_sha256_tree(const char *folder, const sk_sha256_watch *w, char hex[SK_SHA256_HEX], size_t *files, sk_err *e);
/* True for exactly 64 lower-case hexadecimal digits. */
int sk_sha256_is_hex(const char *text);

#endif
